"""shared: several threads share the sums of a point.

Assumes: a built point of a reduction (backends/c_family/point_nest.py).
Guarantees: thread t takes the terms t, t + group, ..., and partial sums are joined by a fixed tree, so the bits depend
on the extents alone, never on the launch. Group 1 is a thread alone. What follows the sums of a stage is computed by
all threads of its point, which go on with its elements, several neighbours at a time where they can.
Does not: choose groups (backends/cuda/kernels/launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import backends.kernel_ir.stmt as ir
from backends.c_family.point_nest import Point, Total
from backends.cuda.kernels.kernel import Function
from backends.cuda.kernels.nests.lines import rows_in_lines
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.cuda.kernels.nests.several_points import in_fours
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.expr import ONE, call, code, form, name
from backends.kernel_ir.stmt import For, If, Kind, Let, Set, Stmt, constants, when
from backends.kernel_ir.tree import Code

RESIDENT: Final = 4
"""Blocks of a sum over few terms that a processor holds: it waits for memory most of the time."""


def joined(totals: Sequence[Total]) -> list[Stmt]:
    """Accumulators take what all threads have."""
    return [Set(x.at, f"nl_all.of[{k}]") for k, x in enumerate(totals)]


def _while(test: Code, step: str) -> Stmt:
    return ir.While(test, [ir.Do(step)], Kind.ONCE, ir.Style.BESIDE)


def walk(p: NestPrinter, r: Code, term: Sequence[Stmt], apart: Sequence[Stmt] | None = None) -> list[Stmt]:
    """Terms nl_first, nl_first + group, ..., four at a time, so that their loads overlap; several dims are counted on,
    each by its part of the stride, with carries instead of divisions. `apart`: a term where not `nl_even`."""
    start: list[Stmt] = [Let("nl_i64", r, code("nl_first"), const=False)]
    count: list[Stmt] = [Set(r, "nl_group", "+=")]
    own: list[Stmt] = []
    if len(p.red) == 1:
        own = p.split(r, p.red)
    else:
        at, by = p.k.namer.fresh("at"), p.k.namer.fresh("by")
        start.append(Let("nl_u64", at, "nl_first", False, beside=[Let("nl_u64", by, "nl_group", const=False)]))
        for number, d in reversed(list(enumerate(p.red))):
            v, extent = p.vars[d.name], p.k.extent(d.extent)
            step = p.k.namer.fresh(f"{d.word}_step")
            first, width = (x if number == 0 else call("nl_take", x, extent) for x in (at, by))
            start += [Let("nl_i64", v, first, const=False), Let("nl_i64", step, width)]
            count.append(Set(v, step, "+="))
            if number > 0:
                before = p.vars[p.red[number - 1].name]
                count.append(If(v >= extent, [Set(v, extent, "-="), Set(before, ONE, "+=")]))
    loops: list[Stmt] = [
        _while(form("{} + 7ll * nl_group < nl_terms", r), "nl_each<8>(nl_more)"),
        _while(form("{} + 3ll * nl_group < nl_terms", r), "nl_each<4>(nl_more)"),
        _while(form("{} < nl_terms", r), "nl_more(0)"),
    ]
    one = ir.Closure("nl_more", [Let("int", name(""))], [*own, *term, *count])
    if apart is None:
        return [*start, one, *loops]
    other = ir.Closure("nl_apart", [], [*own, *apart, *count])
    return [*start, one, other, If("nl_even", loops, [_while(form("{} < nl_terms", r), "nl_apart()")])]


def shared(p: NestPrinter, x: Point, suffix: str, resident: int, division: Division) -> Function:
    """nl_t.group threads share a point: 1, 32 (a warp), a block, or several blocks (one point each)."""
    (sums,) = x.sums
    e, totals = p.points.var, sums.totals
    ends = [
        *p.joining("nl_joined", totals, ["nl_bits", "nl_splits"]),
        when("!nl_all.here", ir.Leave("return")),
        *joined(totals),
    ]
    inner = [
        *p.points.body,
        *x.start,
        *map(p.start, totals),
        constants("nl_i64", nl_terms=p.extent(p.red)),
        constants("nl_u32", nl_first="(nl_share << nl_bits) + nl_lane"),
        *walk(p, p.counter, sums.term),
        If("nl_are_many(nl_group)", ends),
        If("nl_lane == 0", sums.after),
    ]
    before = (
        constants("nl_u32", nl_group="nl_t.group", nl_bits="nl_bits_of(nl_group)"),
        constants("nl_u32", nl_splits="nl_group >> nl_bits"),
        constants("nl_u32", nl_part="nl_me.part / nl_splits", nl_share="nl_me.part % nl_splits"),
        constants("nl_u32", nl_lane="threadIdx.x & ((1u << nl_bits) - 1)"),
    )
    return Function(
        suffix, (*before, For(e, 0, p.points.end, inner, kind=Kind.SHARED)), (), resident, division=division
    )


def staged(p: NestPrinter, x: Point) -> Function:
    """nl_t.group threads share a point: 1, a warp or a block. All of them have its sums, and go on with its elements,
    several neighbours at a time where they can."""
    r, lines = p.counter, [*x.start]
    terms = [*(sums.term for sums in x.sums), *([x.each] if x.each else [])]
    wide, rows = rows_in_lines(p, r, terms) or (None, [])
    for number, sums in enumerate(x.sums):
        ends = p.joining("nl_joined", sums.totals, ["nl_bits", "1"], "nl_found")
        ends += [Let("auto", code("nl_all"), call("nl_first_of_warp", "nl_found")), *joined(sums.totals)]
        one = walk(p, r, sums.term)
        one = [If("nl_wide", [rows[number]], one)] if rows else one
        lines += [*map(p.start, sums.totals), ir.Block("", [*one, If("nl_are_many(nl_group)", ends)])]
        lines += [*sums.after, If("nl_first == 0", sums.stores)]
    if x.each:
        points = For(r, "nl_first", "nl_terms", [*p.split(r, p.red), *x.each], "nl_group")
        fours = in_fours(points, p.arrays)
        lines.append(If("nl_wide", [rows[-1]], fours) if rows else ir.Block("", fours))
    inner = [*p.points.body, constants("nl_i64", nl_terms=p.extent(p.red)), *lines]
    before = (
        constants("nl_u32", nl_group="nl_t.group", nl_bits="nl_bits_of(nl_group)"),
        constants("nl_u32", nl_first="threadIdx.x & ((1u << nl_bits) - 1)"),
        *([] if wide is None else [constants("bool", nl_wide=wide)]),
    )
    resident = RESIDENT if all(len(sums.totals) == 1 for sums in x.sums) else 0
    loop = For(p.points.var, 0, p.points.end, inner, kind=Kind.GROUPS)
    return Function("", (*before, loop), resident=resident, division=Division.ROWS)
