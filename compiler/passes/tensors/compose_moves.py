"""compose_moves: chains of data movements (slices, pads, concatenations and their gradients) become one movement.

A slice of a slice is one slice of the whole; the gradient of two halves is the sum of two padded ones, and of these
only the sum is needed.

Assumes: a simplified graph in gather form, in topological order.
Guarantees: a move that reads a move, inside its extents, reads the operands of that one; the sum of two moves without
other readers is one move of both. No value changes.
Does not: remove dead nodes (simplify_graph), or join more than two: texts would depend on lengths.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Ref
from compiler.ir.space import Affine, plain_dim, stays_inside

_SUM = Ref("x0") + Ref("x1")


def _is_move(node: l1.Node, body: Binary | Ref) -> bool:
    """Whether each element is `body` at one position of each operand: windows have one element, strides are 1."""
    if (
        not isinstance(node, l1.Contract)
        or node.body != body
        or node.combine != "add"
        or node.fill != 0
        or node.scalars
    ):
        return False
    outer = {d for a in node.out_map for d, _ in a.terms}
    axes = [a for m in node.in_maps for a in m]
    return all(e == 1 for d, e in node.dims if d not in outer) and all(a.div == 1 for a in axes)


def _through(axis: Affine, places: dict[str, Affine]) -> Affine:
    """The index with the dims of the inner move substituted; those of its windows are 0."""
    terms: dict[str, int] = {}
    const = axis.const
    for dim, c in axis.terms:
        place = places.get(dim, Affine())
        const += c * place.const
        for d, k in place.terms:
            terms[d] = terms.get(d, 0) + c * k
    return Affine(tuple((d, k) for d, k in terms.items() if k != 0), const)


def _inside(reader: l1.Contract, k: int, shape: tuple[int, ...]) -> bool:
    """Whether the reader stays within an operand of this shape."""
    extents = dict(reader.dims)
    return all(stays_inside(a, extents, extent) for a, extent in zip(reader.in_maps[k], shape, strict=True))


def _past(reader: l1.Contract, k: int, move: l1.Contract) -> l1.Contract:
    """The reader with the operands of a move in place of operand k."""
    places = {a.terms[0][0]: at for a, at in zip(move.out_map, reader.in_maps[k], strict=True)}
    maps, ins = list(reader.in_maps), list(reader.ins)
    ins[k], maps[k] = move.ins[0], tuple(_through(a, places) for a in move.in_maps[0])
    return replace(reader, ins=tuple(ins), in_maps=tuple(maps))


def _is_guarded(node: l1.Contract, k: int, shape: tuple[int, ...]) -> bool:
    """Whether operand k of this shape is out of bounds only along windows: an index that is one dim has no guard."""
    extents = dict(node.dims)
    walked = zip(node.in_maps[k], shape, strict=True)
    return all(plain_dim(a) is None or stays_inside(a, extents, extent) for a, extent in walked)


def _joined(node: l1.Map, a: l1.Contract, b: l1.Contract) -> l1.Contract | None:
    """The sum of two moves as one, if both walk the same window."""
    windows = [[d for d in x.dims if d[0] not in {y.terms[0][0] for y in x.out_map}] for x in (a, b)]
    if windows[0] != windows[1]:
        return None
    places = dict(zip((y.terms[0][0] for y in b.out_map), a.out_map, strict=True))
    places |= {d: Affine(((d, 1),)) for d, _ in windows[1]}
    second = tuple(_through(axis, places) for axis in b.in_maps[0])
    ins, maps = (a.ins[0], b.ins[0]), (a.in_maps[0], second)
    return replace(a, out=node.out, ins=ins, in_maps=maps, body=_SUM, span=node.span)


def compose_moves(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """The graph with composed moves."""
    readers: dict[str, int] = {}
    for node in nodes:
        for name in l1.operands(node):
            readers[name] = readers.get(name, 0) + 1
    shapes = {out.name: out.shape for node in nodes for out in l1.results(node)}
    moves: dict[str, l1.Contract] = {}
    result: list[l1.Node] = []
    for node in nodes:
        if isinstance(node, l1.Contract) and (_is_move(node, Ref("x0")) or _is_move(node, _SUM)):
            for k, name in enumerate(node.ins):
                if name in moves and _inside(node, k, moves[name].out.shape):
                    past = _past(node, k, moves[name])
                    node = past if _is_guarded(past, k, shapes[past.ins[k]]) else node
        elif isinstance(node, l1.Map) and node.body == _SUM and not node.scalars:
            alone = [name in moves and readers[name] == 1 and name not in outputs for name in node.ins]
            plain = all(m == tuple(range(len(node.out.shape))) for m in node.maps)
            if all(alone) and plain:
                a, b = (moves[name] for name in node.ins)
                node = _joined(node, a, b) or node
        if isinstance(node, l1.Contract) and _is_move(node, Ref("x0")):
            moves[node.out.name] = node
        result.append(node)
    return tuple(result)
