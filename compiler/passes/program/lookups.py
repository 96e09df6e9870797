"""lookups: lookup tables become constant arrays, and calls of them `lookup(array, x)` in kernels.

Assumes: expressions call a table as `table_call(name)`, of a number without a unit.
Guarantees: a table is one array `<name>'table`: the argument of its first value, values per unit of the argument, the
place of the last value, and the values; so that kernels that differ in their tables alone share their text.
lookup(table, x) is, in this order, u = (x - table[0]) * table[1], held between 0 and table[2]; k = floor(u); and
a + (u - k) * (b - a), a and b being the values k and k + 1 (or the last). x that is not a number gives itself.
Does not: check names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, symbol
from compiler.expr.ast import Call, Expr, Ref, calls, rewrite
from compiler.expr.functions import LOOKUP, called_table
from compiler.ir.space import DType, own_array


def with_tables(
    formals: tuple[l2.Formal, ...], body: l2.Body, real: DType
) -> tuple[tuple[l2.Formal, ...], l2.Body, dict[str, str]]:
    """The formals and the body of a kernel with an array for each table that it reads, and these by formal."""
    if not isinstance(body, l2.Nest | l2.Propagate):
        return formals, body, {}
    tables = sorted({name for e in body.expressions for f in calls(e) if (name := called_table(f)) is not None})
    if not tables:
        return formals, body, {}
    bound: dict[str, str] = {name: derived(symbol(name), Way.TABLE) for name in tables}

    def read(x: Expr) -> Expr:
        name = called_table(x.func) if isinstance(x, Call) else None
        return x if name is None or not isinstance(x, Call) else Call(LOOKUP, (Ref(bound[name]), *x.args), x.span)

    more = (l2.ArrayFormal(formal, real, l2.Mode.READ, l2.ByName()) for formal in bound.values())
    arrays = {formal: own_array(name, "table") for name, formal in bound.items()}
    return (*formals, *more), _rewritten(body, lambda e: rewrite(e, read)), arrays


def _rewritten(body: l2.Nest | l2.Propagate, new: Callable[[Expr], Expr]) -> l2.Body:
    def all_of(statements: tuple[l2.Statement, ...]) -> tuple[l2.Statement, ...]:
        return tuple(
            replace(s, when=new(s.when)) if isinstance(s, l2.Emit) else replace(s, value=new(s.value))
            for s in statements
        )

    if isinstance(body, l2.Propagate):
        return replace(body, statements=all_of(body.statements))
    return body.rewritten(new, all_of)
