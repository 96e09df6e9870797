"""placed_values: values that follow from the places of both ends, per synapse.

Assumes: the relation of the projection exists (relation_of).
Guarantees: an array per synapse is filled once, by walking the relation from its sources in the init phase; or the
value is an expression of the statements that run at a synapse, where nothing is stored. Positions are integer
arithmetic on `pre` and `post`.
Does not: bound values (the frontend does).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Expr, Ref, refs, substitute
from compiler.ir.space import DType, Role
from compiler.passes.model.free_names import PROPAGATION
from compiler.passes.relations.relations import LoweredRelation
from compiler.passes.relations.stored_rows import Link


def placed(value: l0.Placed, taken: frozenset[str]) -> tuple[Expr, dict[str, float | int]]:
    """The value at a synapse, as an expression over `pre`, `post` and columns, with these. `taken`: names in use."""
    used = {*taken, *PROPAGATION}
    names: dict[str, Expr] = {}
    columns: dict[str, float | int] = {}
    for name, number in value.numbers:
        new = free_name(name, frozenset(used))
        used.add(new)
        names[name], columns[new] = Ref(new), number
    for index, end, k in (("i", "from", Ref("pre")), ("j", "to", Ref("post"))):
        w, h = names.get(f"w_{end}", Ref("")), names.get(f"h_{end}", Ref(""))
        places: dict[str, Expr] = {index: k, f"x_{index}": k % w, f"y_{index}": k // w % h, f"c_{index}": k // (w * h)}
        names |= {n: e for n, e in places.items() if n not in names}
    read = refs(value.value)
    return substitute(value.value, {n: e for n, e in names.items() if n in read}), columns


def scalars(columns: dict[str, float | int], real: DType) -> tuple[l2.ScalarFormal, ...]:
    """Formals of the columns of a placed value."""
    return tuple(l2.ScalarFormal(n, DType.I64 if isinstance(x, int) else real) for n, x in columns.items())


def fill_placed(
    link: Link, array: str, value: l0.Placed, found: LoweredRelation, unit: str, whole: DType | None
) -> str:
    """The array with one element per synapse, filled in the init phase; returns its name. `found`: by the sources. With
    `whole` the elements are integers of that type, rounded to nearest."""
    builder, real, extent = link.builder, link.builder.precision, found.extent
    shape, size_from = ((-1,), extent.array) if isinstance(extent, l2.SizeOf) else ((extent,), None)
    builder.array(l2.Array(array, whole or real, shape, Role.SYNAPSE, None, size_from, unit, value.span))
    theirs = frozenset(f.name for f in found.formals)
    target = free_name("value", theirs)
    e, numbers = placed(value, theirs | {target})
    if whole is not None:
        e = Call("int", (Call("round", (e,)),))
    columns: dict[str, l2.ColumnValue] = {**found.columns, **numbers, "n_pre": link.pre.size}
    formals: tuple[l2.Formal, ...] = (
        *found.formals,
        l2.ArrayFormal(target, whole or real, l2.Mode.WRITE, l2.At("syn")),
        *scalars(numbers, real),
        *(() if "n_pre" in theirs else (l2.ScalarFormal("n_pre", DType.I64),)),
    )
    body = l2.Propagate(l2.Every("n_pre"), found.relation, (l2.Assign(target, e, value.span),))
    key = builder.key(("placed", formals, body))
    arrays, title = {**found.arrays, target: array}, f"{array}: initial value (by place)"
    row = builder.row(key, title, l2.Kind.PROPAGATE, formals, body, arrays, columns, link.stored, value.span)
    row.launch("init")
    return array
