"""synapse_transpose: `w = transpose(forward.w)`: a state of each synapse from j to i is copied from that of i to j in
another projection.

Assumes: the frontend has checked that both projections have the same pairs, reversed: both all_to_all, both one_to_one,
or explicit pairs.
Guarantees: one map over the synapses. The number of the other synapse is computed for all pairs, for explicit pairs an
array `<projection>[a->b]'transposed`; repeated pairs correspond in the order of the user.
Does not: copy within one projection.
"""

from __future__ import annotations

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.connect import Form
from compiler.connect.pairs import pair_order, pairs_of
from compiler.core.symbols import model_name
from compiler.expr.ast import Cond, Num, Ref
from compiler.ir.level2.synapse_values import variable_array
from compiler.ir.space import DType, Role
from compiler.passes.program.build_program import Place
from compiler.passes.projections.synapse_rows import Synapses

_AT = l2.Strided((l2.Axis((("at", 1),)),))


def transpose(s: Synapses, other: l0.Projection, one: l0.Transpose, at: Place) -> None:
    """The row of one `transpose`."""
    member = next(m for m in other.members if (m.source, m.target) == (s.member.target, s.member.source))
    bound = {"w": s.arrays[one.target].array, "other": variable_array(other, member, one.variable)}
    made = {Form.ALL: _dense, Form.DIAGONAL: _one_to_one, Form.GIVEN: _pairs}[s.rule.form]
    formals, body, columns = made(s, bound)
    real = s.builder.precision
    access = (
        (l2.ELEMENT, l2.ELEMENT) if made is _one_to_one else (_BY_ROW, _AT) if made is _dense else (l2.ELEMENT, _AT)
    )
    name = f"{s.name}: {model_name(one.target)} from the transpose of {one.projection}.{one.variable}"
    k = s.builder.kernel(name, one.span)
    k.write("w", real, bound["w"], access[0])
    k.read("other", real, bound["other"], access[1])
    k.include(formals, bound, columns)
    k.add_row(body, s.name).run(at)


Made = tuple[tuple[l2.Formal, ...], l2.Nest, dict[str, l2.ColumnValue]]

_BY_ROW = l2.Strided((l2.Axis((("j", 1),), stride="n_to"), l2.Axis((("k", 1),))))


def _columns(*names: str) -> tuple[l2.Formal, ...]:
    return tuple(l2.ScalarFormal(n, DType.I64) for n in names)


def _one_to_one(s: Synapses, bound: dict[str, str]) -> Made:
    nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("w", Ref("other")),))
    return _columns("n"), nest, {"n": min(s.pre.size, s.post.size)}


def _dense(s: Synapses, bound: dict[str, str]) -> Made:
    """Source j has its synapses in row j, without itself where there is a hole; the reverse one is in row i."""
    hole = int(s.hole)
    j, k, i, zero = Ref("j"), Ref("k"), Ref("i"), Num(0)
    target = k + Cond(k >= j, Ref("hole"), zero)
    row = i * Ref("n_from")
    column = j - Cond(j > i, Ref("hole"), zero)
    statements = (l2.Assign("i", target), l2.Assign("at", row + column), l2.Assign("w", Ref("other")))
    nest = l2.Nest((l2.Dim("j", "n_pre"), l2.Dim("k", "n_to")), statements)
    columns: dict[str, l2.ColumnValue] = {"n_pre": s.pre.size, "hole": hole}
    columns |= {"n_to": s.post.size - hole, "n_from": s.pre.size - hole}
    return _columns(*columns), nest, columns


def _pairs(s: Synapses, bound: dict[str, str]) -> Made:
    array = s.array("transposed")
    pairs = pairs_of(s.projection, s.member)
    if array not in s.builder.arrays:
        stored = pairs[pair_order(pairs)]
        index = np.zeros(max(len(stored), 1), np.int32)
        index[pair_order(stored[:, ::-1])] = np.arange(len(stored))
        s.builder.array(l2.Array(array, DType.I32, (len(index),), Role.CONST, span=s.projection.span), index)
    bound["index"] = array
    nest = l2.Nest((l2.Dim("i", "n"),), (l2.Assign("at", Ref("index")), l2.Assign("w", Ref("other"))))
    index_formal = l2.ArrayFormal("index", DType.I32, l2.Mode.READ, l2.ELEMENT)
    return (index_formal, *_columns("n")), nest, {"n": len(pairs)}
