"""rnn_records: the stages of a chain as the lines of a table, which the device fetches one after the other.

Assumes: a schedule of stages (rnn_plan.py), and what makes the record of each of them.
Guarantees: a line for each stage of each step. Records are made for a few cycles of stages, until what they depend on
is what it was before; those of all other cycles are the same but for addresses, which are as much further each time.
Does not: know what is in a record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from backends.cuda.kernels.launch_geometry import Words
from backends.cuda.persistent.rnn_plan import Stage
from backends.cuda.persistent.rnn_stages import ReadChain, ReadStage

Record = npt.NDArray[np.uint8]


@dataclass
class _Lines:
    """The lines so far: for some records of as many words, the first line, and lines from one to the next. `done`:
    lines in all."""

    chain: ReadChain
    record: Callable[[ReadStage, ReadStage | None], Record]
    found: list[tuple[int, int, Words]] = field(default_factory=list)
    done: int = 0

    def add(self, stages: Sequence[Stage], behind: Stage | None) -> list[Words]:
        """The records of some stages, one after the other."""
        read = [*map(self.chain.read, stages), None if behind is None else self.chain.read(behind)]
        made = [self.record(x, after).view(np.uint64) for x, after in pairwise(read) if x is not None]
        self.found += ((n, 1, line[None]) for n, line in enumerate(made, self.done))
        self.done += len(made)
        return made

    def cycle(self, number: int) -> list[Words]:
        stages = self.chain.schedule.in_cycle
        return self.add(stages(number), stages(number + 1)[0])

    def repeat(self, before: Sequence[Words], after: Sequence[Words], times: int) -> None:
        """The last records so many times more, each time as much further as from those before them."""
        number = np.arange(1, times + 1, dtype=np.uint64)[:, None]
        for n, (a, b) in enumerate(zip(before, after, strict=True), self.done):
            self.found.append((n, len(after), b + number * (b - a)))
        self.done += times * len(after)

    def table(self) -> Record:
        table = np.zeros((self.done, max(records.shape[1] for _, _, records in self.found)), np.uint64)
        for first, by, records in self.found:
            table[first : first + by * len(records) : by, : records.shape[1]] = records
        return table.view(np.uint8)


def table_of(
    chain: ReadChain,
    record: Callable[[ReadStage, ReadStage | None], Record],
    state: Callable[[int], object],
    move: Callable[[int], None],
) -> Record:
    """The records of all stages. `record`: that of a stage, with the one behind it, in order; `state`: what the next
    records depend on beside, as it would be so many steps before; `move`: goes on by so many steps without records."""
    x, lines = chain.schedule, _Lines(chain, record)
    lines.add(x.head, (x.cycle or x.tail)[0])
    seen: dict[object, int] = {}
    made: list[list[Words]] = []
    number = 0
    while number < x.times:
        now = chain.alignment(number * x.period), state(number * x.period)
        period = number - seen.setdefault(now, number)
        more = (x.times - number) // period - 1 if period else 0
        if more < 1:
            made.append(lines.cycle(number))
            number += 1
            continue
        before = [line for cycle in made[-period:] for line in cycle]
        after = [line for n in range(number, number + period) for line in lines.cycle(n)]
        lines.repeat(before, after, more)
        move(more * period * x.period)
        number += (1 + more) * period
        seen.clear()
    lines.add(x.tail, None)
    return lines.table()
