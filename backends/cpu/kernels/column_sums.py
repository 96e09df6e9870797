"""column_sums: reductions over rows of row-major arrays, such as the gradient of a bias, and over windows of row-major
images, such as pooling.

Assumes: a legal Nest (nest.py).
Guarantees: where neighbouring elements of the output read elements of the operands that lie near each other, and
neighbouring terms do not, COLUMNS outputs are summed side by side, so that memory is read in order and the loop
vectorises. Terms are added in the same order as by the plain nest: the same bits. Of windows that reach beyond the
image only what lies inside is read, where the rest counts for nothing: it is what the accumulator starts from.
Does not: handle lanes, other guarded elements or prologues (nest.py does).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import is_real
from backends.c_family.point_nest import read_in_terms
from backends.cpu.kernels.batched_rng import has_draws
from backends.cpu.kernels.lanes import in_lanes, placed
from backends.cpu.kernels.nest import NestPrinter
from backends.kernel_ir.expr import call, cond, every, form, total
from backends.kernel_ir.stmt import For, If, Kind, Let, Stmt, rewritten
from backends.kernel_ir.tree import Code
from compiler.expr.ast import Ref

COLUMNS: Final = 512
"""Sums side by side: they stay in the first cache."""


def nest_lines(k: Kernel, nest: l2.Nest) -> list[Stmt]:
    """The C text of one nest, for the row whose columns are loaded."""
    printer = NestPrinter(k, nest)
    lines = _column_sums(printer) if sums_columns(printer) else printer.lines()
    lines = placed(lines, printer.guards) if printer.guards else lines
    return [*printer.constants, *in_lanes(lines, {x.text for x in k.pointers.values()})]


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
    for f in p.k.template.arrays:
        if f.name not in read_in_terms(n):
            continue
        if not isinstance(f.access, l2.Strided):
            return False
        guarded = bool(f.access.guards)
        if guarded and not _counts_for_nothing(n, f.name):
            return False
        for axis, by in f.access.along(column):
            window = guarded and by > 0 and all(d in p.level for d, _ in axis.terms)
            if not (window or axis.terms == ((column, 1),)) or axis.stride != 1 or axis.div != 1:
                return False
            walked = True
    return walked


def _counts_for_nothing(n: l2.Nest, formal: str) -> bool:
    """Whether what lies outside of `formal` leaves every accumulator as it is: terms are its elements alone."""
    nothing = {"add": 0.0, "max": -math.inf, "min": math.inf}
    return all(s.term == Ref(formal) and nothing.get(str(n.combine)) == n.fill for s in n.stages[0].sums)


def _terms(p: NestPrinter, term: Sequence[Stmt], first: Code, end: Code) -> list[Stmt]:
    """One term of the outputs of columns [first, end), of which `term` is that of one."""
    dim = p.par[-1].name
    column = p.vars[dim]
    guarded = [(f, access) for f, access in p.k.strided if f.name in read_in_terms(p.nest) and access.guards]
    if not guarded:
        return [For(column, first, end, term, kind=Kind.POINTS)]
    ((f, access),) = guarded
    at = p.k.namer.beside(f.name, "from")
    addresses, parts, tests = p.addresses, list[Code](), list[Code | None]()
    before, low, high = list[Stmt](), first, end
    for axis in access.axes:
        by = dict(axis.terms).get(dim, 0)
        if by == 0:
            parts.append(addresses.part(axis))
            tests += [addresses.divides(axis), addresses.within(axis)]
            continue
        rest = replace(axis, terms=tuple(t for t in axis.terms if t[0] != dim))
        before = [Let("nl_i64", at, addresses.index(rest))]
        parts += [at, form("{} * {}", by, column) if by != 1 else column]
        if axis.extent is not None:
            extent = addresses.number(axis.extent)
            low, high = p.k.namer.fresh("low"), p.k.namer.fresh("high")
            before.append(Let("nl_i64", low, call("nl_column_from", -at, by, first, end)))
            before.append(Let("nl_i64", high, call("nl_column_from", extent - at, by, first, end)))
    inside = {p.elements[f.name].value: p.k.pointers[f.name][total(parts)]}
    lines: list[Stmt] = [*before, For(column, low, high, rewritten(term, inside.get), kind=Kind.POINTS)]
    rows = every(tests)
    return lines if rows is None else [If(rows, lines)]


def _column_sums(p: NestPrinter) -> list[Stmt]:
    namer = p.k.namer
    column, extent = p.vars[p.par[-1].name], p.k.extent(p.par[-1].extent)
    first, end = namer.fresh("first"), namer.fresh("end")
    (built,) = p.built().sums
    totals = [(x, namer.fresh("sums"), p.k.dialect.type_name(x.type)) for x in built.totals]

    held = [replace(x, at=sums) for x, sums, _ in totals]
    over = For(column, first, end, ())
    each = replace(over, kind=Kind.POINTS)
    declared, blocks = p.apart(held, COLUMNS, column - first, over, each, zeros=False)
    inner = p.over_terms(_terms(p, built.at([x.at for x in blocks.totals]).term, first, end), blocks)
    own = [Let(kind, x.at, sums[column - first], const=False) for x, sums, kind in totals]
    last = [*own, *built.after]
    lines: list[Stmt] = [
        For(first, 0, extent, [
            Let("nl_i64", end, cond(first + COLUMNS < extent, first + COLUMNS, extent)),
            *declared,
            *inner,
            For(column, first, end, last, kind=Kind.POINTS),
        ], COLUMNS),
    ]  # fmt: skip
    for dim in reversed(p.par[:-1]):
        lines = p.loop(dim, lines)
    return lines
