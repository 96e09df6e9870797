"""loops: the loops of a program as the C file runs them, and what changes in its tables from step to step.

Assumes: tables with the columns that kernels read (load.py).
Guarantees: of each loop its launches, its steps, and its moves: the words of rows that name an array with a part for
each step, so that the data of a loop, like its text, does not grow with its steps.
Does not: run them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.kernel_ir.descriptor import Compiled

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Loops:
    """Those of a phase. `loops`: (first launch, last, steps, number of moves); `moves`, those of one loop after the
    other: (kernel, word of its table, contents in the first step, bytes a step, ring)."""

    loops: npt.NDArray[np.int64]
    moves: npt.NDArray[np.int64]


def loops_of(program: l2.Merged, tables: Sequence[Words], kernels: Compiled) -> tuple[Loops, ...]:
    """By phase."""
    moving = {a.name: a for a in program.arrays if a.by_step}
    found = []
    for phase in program.phases:
        loops, moves = list[tuple[int, int, int, int]](), list[tuple[int, int, int, int, int]]()
        for x in phase.loops:
            launches = phase.launches[x.first : x.last]
            own = [m for launch in launches for m in _moves(program, launch, tables[launch.template], kernels, moving)]
            loops.append((x.first, x.last, x.steps, len(own)))
            moves += own
        found.append(Loops(np.array(loops, np.int64).reshape(-1, 4), np.array(moves, np.int64).reshape(-1, 5)))
    return tuple(found)


def _moves(
    program: l2.Merged, launch: l2.Launch, table: Words, kernels: Compiled, moving: dict[str, l2.Array]
) -> Iterator[tuple[int, int, int, int, int]]:
    template, rows = program.templates[launch.template], program.tables[launch.template]
    columns = kernels[launch.template].columns
    for row in range(launch.lo, launch.hi):
        for place, formal in enumerate(template.formals[n] for n in columns):
            if isinstance(formal, l2.ArrayFormal) and (a := moving.get(rows.arrays[formal.name][row])) is not None:
                word = row * len(columns) + place
                yield launch.template, word, int(table[row, place]), a.by_step * a.dtype.bytes, a.ring
