"""lower_rows: the statements of a kernel of rows: reductions, what they have in their epilogues, and elementwise work.

Assumes: the groups of fuse_rows.
Guarantees: as lower_epilogues; operands are `x0`, `x1`, ..., accumulators `acc`, `acc1`, ... A result of one stage that
another reads and nothing stores is a local.
Does not: choose what is fused.
"""

from __future__ import annotations

from collections.abc import Mapping

import compiler.ir.level2.program as l2
from compiler.passes.fusion.fuse_rows import Row, elements_of, names_of
from compiler.passes.kernels.lower_epilogues import End, Lowered, accumulator
from compiler.passes.kernels.tensor_phase import Phase


def lower_row(p: Phase, row: Row, in_place: Mapping[str, str]) -> tuple[End, tuple[l2.Stage, ...], l2.Statements]:
    """The arrays and scalars of a row's kernel, its stages, and its statements for each element. `in_place`: as in
    lower_end."""
    end = End({})
    lowered = Lowered(p, row.all_maps, row.kept, in_place, row.sums[0].out_map, "x", end, lasting=_lasting(row))
    stages: list[l2.Stage] = []
    number = 0
    for stage in row.stages:
        sums, done = [], len(end.statements)
        for k, node in enumerate(stage.sums, number):
            sums.append(l2.Sum(accumulator(k), lowered.term(node)))
        for k, node in enumerate(stage.sums, number):
            lowered.reduced(node, k)
        lowered.section(stage.end.maps)
        number += len(stage.sums)
        stages.append(l2.Stage(stage.sums[0].combine, tuple(sums), tuple(end.statements[done:])))
    done = len(end.statements)
    lowered.walked = elements_of(row)
    if row.choice is not None:
        lowered.result(row.choice.out, lowered.term(row.choice), l2.Mode.WRITE, row.choice.span)
    lowered.section(row.maps)
    return lowered.ended(), tuple(stages), tuple(end.statements[done:])


def _lasting(row: Row) -> frozenset[str]:
    """Results of a stage that other stages, or the elementwise work, read."""
    found: set[str] = set()
    for stage in row.stages:
        own = names_of(stage)
        found |= {n for x in row.nodes if x.out.name not in own for n in x.ins if n in own}
    return frozenset(found)
