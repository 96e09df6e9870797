"""rnn_records: the stages of a chain as the records of a table, which the device fetches one after the other.

Assumes: a schedule of stages (rnn_plan.py), and what makes the record of each of them.
Guarantees: a record for each stage of the first steps and of the last ones, and one for all stages that repeat, with
the words of it that are further on each time, and by how much. However many steps there are, their number is the same.
Does not: know what is in a record, but that its first word begins with how many words move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from backends.cuda.kernels.launch_work import Words
from backends.cuda.persistent.rnn import MOVE
from backends.cuda.persistent.rnn_plan import Stage
from backends.cuda.persistent.rnn_stages import ReadChain, ReadStage

Record = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Records:
    """One record a line, of so many bytes, and what moves behind it. The last `many` of those before line `end` come
    `times` times."""

    lines: Record
    size: int
    end: int
    many: int
    times: int

    @staticmethod
    def of(made: Sequence[Words], end: int, after: Sequence[Words], times: int) -> Records:
        """`after`: the last records before `end`, one turn later."""
        moves = [np.zeros(0, np.uint64)] * len(made)
        for n, words in enumerate(after, end - len(after)):
            by = words - made[n]
            moves[n] = (by[by != 0] << np.uint64(MOVE)) + by.nonzero()[0].astype(np.uint64)
        size, more = (max(map(len, x)) for x in (made, moves))
        lines = np.zeros((len(made), size + -(-more // 2) * 2), np.uint64)
        for line, x, y in zip(lines, made, moves, strict=True):
            line[: len(x)], line[size : size + len(y)] = x, y
            line[0] += np.uint64(len(y))
        return Records(lines.view(np.uint8), 8 * size, end, len(after), times)

    @property
    def turns(self) -> tuple[int, int, int, int]:
        """nl_turns of templates/chain_points.cu.j2."""
        return self.end, self.many, self.times, self.lines.shape[1]

    @property
    def stages(self) -> int:
        return len(self.lines) + self.many * (self.times - 1)

    def stage(self, line: int) -> int:
        """The first stage with a record."""
        return line if line < self.end else line + self.many * (self.times - 1)


def table_of(
    chain: ReadChain,
    record: Callable[[ReadStage, ReadStage | None], Record],
    state: Callable[[int], object],
    move: Callable[[int], None],
) -> Records:
    """The records of all stages. `record`: that of a stage, with the one behind it, in order; `state`: what the next
    records depend on beside, as it would be so many steps before; `move`: goes on by so many steps without records."""

    def records(stages: Sequence[Stage], behind: Stage | None) -> list[Words]:
        read = [*map(chain.read, stages), None if behind is None else chain.read(behind)]
        return [record(a, b).view(np.uint64) for a, b in pairwise(read) if a is not None]

    def cycle(number: int) -> list[Words]:
        return records(x.in_cycle(number), x.in_cycle(number + 1)[0])

    x = chain.schedule
    made = records(x.head, (x.cycle or x.tail)[0])
    seen: dict[object, int] = {}
    end, after, times = 0, list[Words](), 1
    number = 0
    while number < x.times:
        period = number - seen.setdefault(state(number * x.period), number)
        turns = (x.times - number) // period if period else 0
        if turns:
            end, times = len(made), 1 + turns
            after = [words for n in range(number, number + period) for words in cycle(n)]
            move((turns - 1) * period * x.period)
            number += turns * period
        else:
            made += cycle(number)
            number += 1
    made += records(x.tail, None)
    return Records.of(made, end, after, times)
