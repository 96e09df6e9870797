"""columns: the sums over the rows of a matrix, whose neighbouring points have neighbouring terms.

Assumes: a built point of a reduction, whose terms are so (ways.py).
Guarantees: neighbouring threads have neighbouring points, or NEIGHBOURS each, which are read together where they are
aligned, and every nl_rows-th term of each: what they read of a term is contiguous. nl_t.group blocks share COLUMNS
points (of a thread each); where there are fewer, threads of a warp share them, too. Partial sums are joined by a fixed
tree.
Does not: choose how many blocks share a point (backends/cuda/kernels/launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import backends.kernel_ir.stmt as ir
from backends.c_family.point_nest import Point, Sums
from backends.cuda.kernels.kernel import BLOCK, Function
from backends.cuda.kernels.nests.lines import Beside, besides, even, held
from backends.cuda.kernels.nests.nest import NEIGHBOURS, NestPrinter
from backends.cuda.kernels.nests.shared import RESIDENT, joined, walk
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.expr import ONE, braces, code, every, form, name
from backends.kernel_ir.stmt import Each, For, Kind, Leave, Let, Stmt, constants, when

WIDE_RESIDENT: Final = 2
"""Blocks that a processor holds, where threads have NEIGHBOURS points: they have as much under way."""
_N: Final = name("nl_n")
_SHARED: Final = "nl_splits", "nl_lanes"
"""Who shares the terms of a point: blocks, and threads of a warp that lie so far apart."""


def columns(p: NestPrinter, x: Point) -> Function:
    """By NEIGHBOURS points to a thread, one where the last dim has no multiple of them, or, where neighbours are no
    neighbours in memory, by a point to a thread."""
    (sums,) = x.sums
    if (wide := _wide(p, x, sums)) is not None:
        return wide
    lines = [*p.points.body, *x.start, *map(p.start, sums.totals)]
    lines += _walked(p, walk(p, p.counter, sums.term))
    lines += [*p.joining("nl_joined_columns", sums.totals, _SHARED), *_left(), *joined(sums.totals), *sums.after]
    return _by_columns(p, lines, RESIDENT, Division.COLUMNS)


def _walked(p: NestPrinter, lines: Sequence[Stmt]) -> list[Stmt]:
    return [
        constants("nl_i64", nl_terms=p.extent(p.red)),
        constants("nl_u32", nl_rows=f"{BLOCK} / nl_lanes"),
        constants("nl_u32", nl_first="nl_share * nl_rows + threadIdx.x / nl_lanes", nl_group="nl_splits * nl_rows"),
        *lines,
    ]


def _left() -> list[Stmt]:
    return [when("!nl_all.here || nl_point >= nl_points", Leave("return"))]


def _by_columns(
    p: NestPrinter, lines: Sequence[Stmt], resident: int, division: Division, many: Sequence[Stmt] = ()
) -> Function:
    by = "nl_many" if many else 1
    splits = constants("nl_u32", nl_splits="nl_t.group", nl_share="nl_me.part % nl_splits")
    loop = For(p.points.var, 0, p.points.end, lines, by, kind=Kind.COLUMNS)
    return Function("", (splits, *many, loop), resident=resident, division=division)


def _together(structure: str, arrays: Sequence[Beside], even: bool = False) -> list[Stmt]:
    """What a term has of arrays, for all points of a thread. `even`: these are aligned neighbours."""
    if not arrays:
        return []
    aligned = name("nl_get_aligned")
    found = [form("{}<{}>(&{})", aligned, x.type, x.first) if even and x.few else x.value() for x in arrays]
    return [ir.Struct("const struct", [x.member() for x in arrays], name(structure), braces(*found))]


def _wide(p: NestPrinter, x: Point, sums: Sums) -> Function | None:
    last, totals = p.par[-1], sums.totals
    found, others = besides(p, sums.term, [last.name])
    if x.start or others or not any(a.few for a in found):
        return None
    accesses, red, own = p.k.template.strided, {d.name for d in p.red}, p.vars[last.name]
    found = [replace(a, fixed=red.isdisjoint(accesses[a.formal].dims)) for a in found]
    fixed, moving = ([a for a in found if a.fixed == same] for same in (True, False))
    of = [p.k.namer.fresh("parts") for _ in totals]
    one = sums.at([x[_N] for x in of])
    terms_of = Each(_N, NEIGHBOURS, held(one.term, found))
    parts = [replace(t, at=form("{}[{}]", a, n)) for t, a in zip(totals, of, strict=True) for n in range(NEIGHBOURS)]
    kinds = [p.k.dialect.type_name(t.type) for t in totals]
    nothing = [braces(*[p.identity(t.type)] * NEIGHBOURS) for t in totals]
    begin = [Let(t, a[name("")], n, const=False) for t, a, n in zip(kinds, of, nothing, strict=True)]
    many = form("{} % {} == 0 ? {} : 1", p.k.extent(last.extent), NEIGHBOURS, NEIGHBOURS)
    tests = [form("nl_many == {}", NEIGHBOURS), *even(p.k, [a for a in moving if a.few], last.name, NEIGHBOURS)]
    apart, together = [*_together("nl_x", moving), terms_of], [*_together("nl_x", moving, True), terms_of]
    places = [code(f"nl_all.of[{f'{k * NEIGHBOURS} + ' if k else ''}nl_n]") for k in range(len(totals))]
    ends: list[Stmt] = [
        when("nl_n >= nl_many", Leave("return")),
        Let("nl_i64", own, code("nl_first_own + nl_n")),
        *(Let(kind, t.at, place) for kind, t, place in zip(kinds, totals, places, strict=True)),
        *sums.after,
    ]
    lines = [constants("bool", nl_even=every(tests) or ONE), *p.points.body, *_together("nl_same", fixed), *begin]
    lines += _walked(p, walk(p, p.counter, together, apart))
    lines += [*p.joining("nl_joined_columns", parts, _SHARED), *_left()]
    lines += [constants("nl_i64", nl_first_own=own), Each(_N, NEIGHBOURS, ends)]
    return _by_columns(p, lines, WIDE_RESIDENT, Division.WIDE_COLUMNS, [constants("int", nl_many=many)])
