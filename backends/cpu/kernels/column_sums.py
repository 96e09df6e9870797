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
from backends.c_family.cprint import Line, Symbol, indent, is_real
from backends.cpu.kernels.batched_rng import has_draws
from backends.cpu.kernels.nest import NestPrinter
from compiler.expr.ast import refs

COLUMNS: Final = 512
"""Sums side by side: they stay in the first cache."""


def nest_lines(k: Kernel, nest: l2.Nest) -> list[Line]:
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


def _column_sums(p: NestPrinter) -> list[Line]:
    n, namer = p.nest, p.k.namer
    column, extent = p.vars[p.par[-1].name], p.k.extent(p.par[-1].extent)
    first, end, sums = namer.fresh("first"), namer.fresh("end"), namer.fresh("sums")
    t = p.acc_type(p.scope)
    kind, acc = p.k.dialect.type_name(t), p.k.namer.own(n.acc)
    level = p.level[p.par[-1].name]
    loop = f"for (nl_i64 {column} = {first}; {column} < {end}; {column}++)"
    assert n.term is not None
    term = p.term(dict(p.scope), f"{sums}[{column} - {first}]", t)
    inner = [Line(f"NL_IVDEP {loop} {{"), *indent([*p.hoisted(level, term), *term]), Line("}")]
    for dim in reversed(p.red):
        inner = p.loop(dim, inner)
    body = p.body(dict(p.scope))
    body.scope[n.acc] = Symbol(acc, t)
    last = body.finish(n.epilogue)
    start = [Line(f"{kind} {acc} = {sums}[{column} - {first}];"), *p.hoisted(level, last)]
    lines = [
        Line(f"for (nl_i64 {first} = 0; {first} < {extent}; {first} += {COLUMNS}) {{"),
        Line(f"const nl_i64 {end} = {first} + {COLUMNS} < {extent} ? {first} + {COLUMNS} : {extent};", 1),
        Line(f"{kind} {sums}[{COLUMNS}];", 1),
        Line(f"for (nl_i64 {column} = 0; {column} < {COLUMNS}; {column}++) {sums}[{column}] = {p.identity(t)};", 1),
        *indent(inner),
        Line(f"{'NL_IVDEP ' if p.independent() else ''}{loop} {{", 1),
        *indent([*start, *last], 2),
        Line("}", 1),
        Line("}"),
    ]
    for dim in reversed(p.par[:-1]):
        lines = p.loop(dim, lines)
    return [*p.hoisted(-1, lines), *lines]
