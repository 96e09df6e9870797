"""column_sums: reductions over rows of row-major arrays, such as the gradient of a bias.

Assumes: a legal Nest (nest.py).
Guarantees: where neighbouring elements of the output read neighbours of the operands, and neighbouring terms do not,
COLUMNS outputs are summed side by side, so that memory is read in order and the loop vectorises. Terms are added in the
same order as by the plain nest: the same bits.
Does not: handle lanes, guarded elements or prologues (nest.py does).
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Symbol, is_real
from backends.cpu.kernels.batched_rng import has_draws
from backends.cpu.kernels.nest import NestPrinter
from backends.kernel_ir.expr import cond
from backends.kernel_ir.stmt import For, Kind, Let, Set, Stmt, Style
from compiler.expr.ast import refs

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
    if p.lane is not None or n.combine is None or n.term is None or n.prologue or not p.red or not p.par:
        return False
    if p.contiguous() or has_draws(n.term) or not is_real(p.acc_type(p.scope)):
        return False
    column = p.par[-1].name
    if isinstance(p.par[-1].extent, int):
        return False
    walked = False
    for f in p.k.template.formals:
        if f.name not in refs(n.term) or not isinstance(f, l2.ArrayFormal):
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
    first, end, sums = namer.fresh("first"), namer.fresh("end"), namer.fresh("sums")
    t = p.acc_type(p.scope)
    kind, acc = p.k.dialect.type_name(t), p.k.namer.own(n.acc)
    level = p.level[p.par[-1].name]
    one = sums[column - first]
    inner: list[Stmt] = [For(column, first, end, p.hoisted(level, p.summed(dict(p.scope), one, t)), kind=Kind.LANES)]
    for dim in reversed(p.red):
        inner = p.loop(dim, inner)
    body = p.body(dict(p.scope))
    body.scope[n.acc] = Symbol(acc, t)
    last = [Let(kind, acc, one, const=False), *p.hoisted(level, body.finish(n.epilogue))]
    lines: list[Stmt] = [
        For(first, 0, extent, [
            Let("nl_i64", end, cond(first + COLUMNS < extent, first + COLUMNS, extent)),
            Let(kind, sums[COLUMNS]),
            For(column, 0, COLUMNS, [Set(sums[column], p.identity(t))], style=Style.BESIDE),
            *inner,
            For(column, first, end, last, kind=Kind.LANES if p.independent() else Kind.SERIAL),
        ], COLUMNS),
    ]  # fmt: skip
    for dim in reversed(p.par[:-1]):
        lines = p.loop(dim, lines)
    return p.hoisted(-1, lines)
