"""hoist_factors: factors invariant in a reduction are hoisted out of it.

The gradient of a batch normalisation's mean, sum over (n, i, j) of dy[n, c, i, j] * -scale[c], becomes -scale[c] *
sum(dy), where the sum is already computed as the gradient of its bias.

Assumes: Contracts in gather form; runs between two simplify_graph, which shares sums that have become equal.
Guarantees: only sums whose remaining terms are one operand, so that no product of two operands (which strategies match)
is created or lost; the Map that follows takes the name of the original sum. The same in the body of a Scan.
Does not: apply distributivity otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Expr, Ref, Unary, refs, substitute
from compiler.ir.level1.builder import renumber, used_operands
from compiler.ir.space import Affine, plain_dim

_SUM: Final = "sum"
"""No operand or scalar has this name."""


def hoist_factors(nodes: tuple[l1.Node, ...]) -> tuple[l1.Node, ...]:
    """The graph with invariant factors applied after their sums."""
    result: list[l1.Node] = []
    for node in nodes:
        match node:
            case l1.Contract(combine="add"):
                result += _hoisted(node)
            case l1.Scan():
                result.append(l1.inside(node, hoist_factors))
            case _:
                result.append(node)
    return tuple(result)


def _hoisted(node: l1.Contract) -> tuple[l1.Node, ...]:
    axis_of = {a.terms[0][0]: i for i, a in enumerate(node.out_map)}
    summed = {d for d, _ in node.dims} - axis_of.keys()
    if not summed:
        return (node,)
    plain = {
        f"x{k}" for k, axes in enumerate(node.in_maps) if all(a == Affine() or plain_dim(a) in axis_of for a in axes)
    }
    if not refs(node.body) & plain:
        return (node,)
    found = _split(node.body, plain | {n for n, _ in node.scalars})
    if found is None:
        return (node,)
    outside, inside = found
    if not isinstance(inside, Ref):
        return (node,)
    k = int(inside.name[1:])
    out = replace(node.out, name=f"{node.out.name}.terms")
    total = l1.Contract(out, node.dims, node.out_map, (node.ins[k],), (node.in_maps[k],), Ref("x0"), span=node.span)
    body = substitute(outside, {_SUM: Ref(f"x{len(node.ins)}")})
    keep = used_operands(body)
    ins = (*node.ins, out.name)
    walks = (*node.in_maps, node.out_map)
    maps = {i: tuple(axis_of[a.terms[0][0]] if a.terms else None for a in walks[i]) for i in keep}
    scalars = tuple((n, v) for n, v in node.scalars if n in refs(body))
    chosen = tuple(ins[i] for i in keep), tuple(maps[i] for i in keep)
    return total, l1.Map(node.out, *chosen, renumber(body, keep), scalars, node.span)


def _split(body: Expr, fixed: set[str]) -> tuple[Expr, Expr] | None:
    """The body with _SUM in place of its only varying factor, and that factor; None where it is no such product."""
    if not refs(body) & fixed:
        return Ref(_SUM), body
    match body:
        case Unary("-", x):
            found = _split(x, fixed)
            return None if found is None else (-found[0], found[1])
        case Binary("*" | "/" as op, x, by) if refs(by) <= fixed:
            found = _split(x, fixed)
            return None if found is None else (Binary(op, found[0], by), found[1])
        case Binary("*", by, x) if refs(by) <= fixed:
            found = _split(x, fixed)
            return None if found is None else (by * found[0], found[1])
    return None
