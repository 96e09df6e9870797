"""The stages of chains, and their tables as a device goes through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backends.cuda.persistent import rnn, spread
from backends.cuda.persistent.rnn_plan import Schedule, Stage
from backends.cuda.persistent.rnn_table import Walk


@dataclass(frozen=True)
class Table:
    """The table of a walk: its head, the matrices, the stages with what follows each of them; `lines`: the records in
    memory, of which some are those of several stages."""

    head: np.void
    matrices: np.ndarray
    stages: np.ndarray
    rest: np.ndarray
    lines: int

    @staticmethod
    def of(walk: Walk) -> Table:
        kinds = spread.SPREAD, spread.KEPT, spread.STAGE
        head_of, matrix, stage = kinds if walk.function == spread.NAME else (rnn.CHAIN, rnn.MATRIX, rnn.STAGE)
        head = walk.table[: head_of.itemsize].view(head_of)[0]
        end, many, times = (int(head[name]) for name in ("end", "many", "times"))
        lines = int(head["stages"]) - many * (times - 1)
        matrices, records = np.split(walk.table[head_of.itemsize :], [head["matrices"] * matrix.itemsize])
        words = records.view(np.int64).reshape(lines, -1)
        assert words.nbytes == lines * head["line"]
        turns = [(n, turn) for turn in range(times) for n in range(end - many, end)]
        whole = [(n, 0) for n in range(end - many)] + turns + [(n, 0) for n in range(end, lines)]
        found = np.array([_moved(words[n], head["record"] // 8, turn) for n, turn in whole])
        stages = np.ascontiguousarray(found.view(np.uint8)[:, : stage.itemsize]).view(stage)[:, 0]
        return Table(head, matrices.view(matrix), stages, found.view(np.uint8)[:, stage.itemsize :], lines)


def in_order(x: Schedule) -> list[Stage]:
    """The stages of all steps."""
    return [*x.head, *(s for n in range(x.times) for s in x.in_cycle(n)), *x.tail]


def _moved(line: np.ndarray, size: int, turn: int) -> np.ndarray:
    """The record in a turn, without the number of what moves."""
    words = line[:size].copy()
    many = words[:1].view(np.int32)
    moves = line[size : size + many[0]]
    words[moves & ((1 << rnn.MOVE) - 1)] += turn * (moves >> rnn.MOVE)
    many[0] = 0
    return words
