"""one_hot: recognises one-hot contractions, i.e. gathers and scatter-adds: sums with one nonzero term, chosen by an
integer.

Assumes: gather form. A gather is written as a product with a one-hot vector (layers/sequence.py): the sum over v of `a
if x == v else 0`; its gradient with respect to the table is, for every v, the sum of the same over all positions.
Guarantees: recognition by body and index maps alone.
Does not: lower them (lower_one_hot.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Cond, Expr, Num, Ref, refs
from compiler.ir.space import plain_dim


@dataclass(frozen=True)
class Lookup:
    """The sum, over the points where operand `index` is equal to dim `rows`, of `value`, which reads the others."""

    rows: str
    index: int
    value: Expr


def row_read(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> Lookup | None:
    """The node as a gather of rows of tables (operands without a batch, at least one), or None."""
    found = _lookup(node, tensors)
    if found is None or _summed(node) != {found.rows}:
        return None
    tables = [t for t, m in zip(node.ins, node.in_maps, strict=True) if found.rows in map(plain_dim, m)]
    return found if tables and not any(tensors[t].batched for t in tables) else None


def rows_added(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> Lookup | None:
    """The node as a scatter-add to rows (of several elements) of a tensor without a batch, or None."""
    found = _lookup(node, tensors)
    if found is None or node.out.batched or len(node.out.shape) < 2 or found.rows in _summed(node):
        return None
    read = {plain_dim(a) for m in node.in_maps for a in m}
    places = {plain_dim(a) for a in node.in_maps[found.index]}
    return found if found.rows not in read and places <= _summed(node) else None


def _summed(node: l1.Contract) -> set[str]:
    return {d for d, _ in node.dims} - {d for a in node.out_map for d, _ in a.terms}


def _lookup(node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> Lookup | None:
    """`a if x == v else 0`, or `a * (1 if x == v else 0)`, over plain dims, for an integer x."""
    body, dims, found = node.body, {d for d, _ in node.dims}, None
    if isinstance(body, Cond) and _is(body.orelse, 0):
        found = _chosen(body.test, body.then, node.ins, dims)
    elif isinstance(body, Binary) and body.op == "*" and isinstance(body.right, Cond):
        one = body.right
        if _is(one.then, 1) and _is(one.orelse, 0):
            found = _chosen(one.test, body.left, node.ins, dims)
    if found is None or node.combine != "add" or tensors[node.ins[found.index]].dtype == "real":
        return None
    return None if any(plain_dim(a) is None for m in (node.out_map, *node.in_maps) for a in m) else found


def _chosen(test: Expr, value: Expr, ins: Collection[str], dims: set[str]) -> Lookup | None:
    if not isinstance(test, Binary) or test.op != "==":
        return None
    if not (isinstance(test.left, Ref) and isinstance(test.right, Ref)):
        return None
    index, rows = test.left.name, test.right.name
    operands = {f"x{k}": k for k in range(len(ins))}
    if index not in operands or rows not in dims or refs(value) & {index, *dims}:
        return None
    return Lookup(rows, operands[index], value)


def _is(e: Expr, value: float) -> bool:
    return isinstance(e, Num) and e.value == value
