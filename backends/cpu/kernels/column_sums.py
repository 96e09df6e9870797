"""column_sums: reductions over rows of row-major arrays, such as the gradient of a bias.

Assumes: a legal Nest (nest.py).
Guarantees: where neighbouring elements of the output read neighbours of the operands, and neighbouring terms do not,
COLUMNS outputs are summed side by side, so that memory is read in order and the loop vectorises. Terms are added in the
same order as by the plain nest: the same bits.
Does not: handle lanes, guarded elements or prologues (nest.py does).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import is_real
from backends.c_family.point_nest import read_in_terms
from backends.cpu.kernels.batched_rng import has_draws
from backends.cpu.kernels.nest import NestPrinter
from backends.kernel_ir.expr import cond
from backends.kernel_ir.stmt import For, Kind, Let, Set, Stmt, Style

COLUMNS: Final = 512
"""Sums side by side: they stay in the first cache."""


def nest_lines(k: Kernel, nest: l2.Nest) -> list[Stmt]:
    """The C text of one nest, for the row whose columns are loaded."""
    printer = NestPrinter(k, nest)
    lines = _column_sums(printer) if sums_columns(printer) else printer.lines()
    return [*printer.constants, *lines]


def sums_columns(p: NestPrinter) -> bool:
    """Whether the last PAR dim walks the operands in order, and no RED dim does."""
    n = p.nest
    if p.lane is not None or n.combine is None or n.staged or n.prologue or not p.red or not p.par:
        return False
    if p.contiguous() or any(has_draws(s.term) for s in n.sums) or not all(is_real(x.type) for x in p.totals(p.scope)):
        return False
    column = p.par[-1].name
    if isinstance(p.par[-1].extent, int):
        return False
    walked = False
    for f in p.k.template.formals:
        if f.name not in read_in_terms(n) or not isinstance(f, l2.ArrayFormal):
            continue
        if not isinstance(f.access, l2.Strided) or p.elements[f.name].inside is not None:
            return False
        for axis in f.access.axes:
            if any(d == column for d, _ in axis.terms):
                if axis.terms != ((column, 1),) or axis.stride != 1 or axis.div != 1:
                    return False
                walked = True
    return walked


def _column_sums(p: NestPrinter) -> list[Stmt]:
    n, namer = p.nest, p.k.namer
    column, extent = p.vars[p.par[-1].name], p.k.extent(p.par[-1].extent)
    first, end = namer.fresh("first"), namer.fresh("end")
    totals = [(x, namer.fresh("sums"), p.k.dialect.type_name(x.type)) for x in p.totals(p.scope)]
    level = p.level[p.par[-1].name]
    ones = [replace(x, at=sums[column - first]) for x, sums, _ in totals]
    inner: list[Stmt] = [For(column, first, end, p.hoisted(level, p.summed(dict(p.scope), ones)), kind=Kind.LANES)]
    for dim in reversed(p.red):
        inner = p.loop(dim, inner)
    body = p.body(dict(p.scope))
    for x, _, _ in totals:
        body.scope |= x.symbol
    own = [Let(kind, x.at, sums[column - first], const=False) for x, sums, kind in totals]
    last = [*own, *p.hoisted(level, body.finish(n.epilogue))]
    lines: list[Stmt] = [
        For(first, 0, extent, [
            Let("nl_i64", end, cond(first + COLUMNS < extent, first + COLUMNS, extent)),
            *(Let(kind, sums[COLUMNS]) for _, sums, kind in totals),
            *(
                For(column, 0, COLUMNS, [Set(sums[column], p.identity(x.type, x.combine))], style=Style.BESIDE)
                for x, sums, _ in totals
            ),
            *inner,
            For(column, first, end, last, kind=Kind.LANES if p.independent() else Kind.SERIAL),
        ], COLUMNS),
    ]  # fmt: skip
    for dim in reversed(p.par[:-1]):
        lines = p.loop(dim, lines)
    return p.hoisted(-1, lines)
