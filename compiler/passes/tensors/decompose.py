"""decompose: scatter-form Contracts become gather form.

Assumes: Contracts whose output index maps are affine in the dims; every dim that is solved for is the only dim of some
operand's index, so that the operand's extent bounds it.
Guarantees: each axis of out_map is one distinct dim, and these dims stand in the order of the axes. With a stride the
operand's index is a division, and elements that it does not divide read `fill` (0).
Does not: change the result: out[f(d)] += b(d) over d is out[i] = sum of b(d) over d with f(d) = i.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import refs
from compiler.ir.space import Affine, along, plain_dim


def _substituted(axis: Affine, dim: str, solution: Affine) -> Affine:
    """`axis` with `dim` replaced by `solution`."""
    terms = dict(axis.terms)
    coefficient = terms.pop(dim, 0)
    if coefficient == 0:
        return axis
    if solution.div != 1:
        if terms or coefficient != 1 or axis.const != 0 or axis.div != 1:
            raise AssertionError("a solved dim with a stride must index its operand alone")
        return solution
    for name, value in solution.terms:
        terms[name] = terms.get(name, 0) + coefficient * value
    return Affine(
        tuple((n, v) for n, v in terms.items() if v != 0),
        axis.const + coefficient * solution.const,
        axis.div,
    )


def _in_order(node: l1.Contract) -> l1.Contract:
    """The output's dims in the order of its axes, taking the positions of such dims: strategies identify dims by that
    order."""
    wanted = iter([a.terms[0][0] for a in node.out_map])
    outer = {a.terms[0][0] for a in node.out_map}
    extents = dict(node.dims)
    names = [next(wanted) if d in outer else d for d, _ in node.dims]
    dims = tuple((d, extents[d]) for d in names)
    return node if dims == node.dims else replace(node, dims=dims)


def gather_form(node: l1.Contract) -> l1.Contract:
    """The Contract with one distinct dim per output axis."""
    dims = dict(node.dims)
    out_map = list(node.out_map)
    in_maps = [list(m) for m in node.in_maps]
    taken = {d for d in map(plain_dim, out_map) if d is not None}
    if len(taken) == len(out_map):
        return _in_order(node)
    order: list[tuple[str, int]] = []
    for number, axis in enumerate(out_map):
        if plain_dim(axis) is not None:
            continue
        dim, stride = next((d, c) for d, c in axis.terms if d not in taken)
        if dim in refs(node.body):
            raise AssertionError("a solved dim may not stand in the body")
        new = f"i{number}"
        others = tuple((d, -c) for d, c in axis.terms if d != dim)
        sign = 1 if stride > 0 else -1
        solution = Affine(((new, sign), *((d, sign * c) for d, c in others)), -sign * axis.const, abs(stride))
        in_maps = [[_substituted(a, dim, solution) for a in m] for m in in_maps]
        out_map[number] = along(new)
        del dims[dim]
        order.append((new, node.out.shape[number]))
        taken.add(new)
    extents = {**dims, **dict(order)}
    first = [t.terms[0][0] for t in out_map]
    rest = [d for d in extents if d not in first]
    return replace(
        node,
        dims=tuple((d, extents[d]) for d in (*first, *rest)),
        out_map=tuple(out_map),
        in_maps=tuple(tuple(m) for m in in_maps),
    )


def decompose(nodes: tuple[l1.Node, ...]) -> tuple[l1.Node, ...]:
    """All Contracts in gather form."""
    return tuple(_gathered(n) for n in nodes)


def _gathered(node: l1.Node) -> l1.Node:
    match node:
        case l1.Contract():
            return gather_form(node)
        case l1.Scan():
            return l1.inside(node, decompose)
        case _:
            return node
