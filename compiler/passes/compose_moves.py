"""compose_moves: tensors that are only moved (slices, pads, joins and their gradients) are moved once.

A sequence is taken apart by halves, and its gradient put together by halves (lower_sequences.py). Read through the
halves, each part of a sequence is one slice of the whole; of two padded halves only the sum is needed; and of halves of
halves up to MOST parts are put together at once.

Assumes: a simplified graph in gather form, in topological order.
Guarantees: a move that reads a move, inside its extents, reads what that one reads; the sum of two moves that nothing
else reads is one move of both; a join that only another join reads is part of that, if no two of its parts meet. Joins
of halves of sequences have MOST parts, some of them beside their tensors, so that texts do not depend on lengths. No
value changes.
Does not: remove what is not read any more (simplify_graph).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, TypeGuard

from compiler.expr.ast import Binary, Expr, Ref
from compiler.ir.graph import Contract, Map, Node, Store, Update
from compiler.ir.space import Affine
from compiler.passes.simplify_graph import operands
from compiler.strategies.pins import steps_as_one

MOST: Final = 8
"""Parts that are put together at once."""
Box = tuple[tuple[int, int], ...]
"""The first and the last index along each axis."""


def _sum(count: int) -> Expr:
    """x0 + x1 + ..."""
    body: Expr = Ref("x0")
    for k in range(1, count):
        body = Binary("+", body, Ref(f"x{k}"))
    return body


def _is_move(node: Node) -> TypeGuard[Contract]:
    """Whether each element is the sum of one element of each operand: windows have one element, strides are 1."""
    if not isinstance(node, Contract) or node.combine != "add" or node.fill != 0 or node.scalars:
        return False
    if node.body != _sum(len(node.ins)):
        return False
    outer = {d for a in node.out_map for d, _ in a.terms}
    axes = [a for m in node.in_maps for a in m]
    return all(e == 1 for d, e in node.dims if d not in outer) and all(a.div == 1 for a in axes)


def _reach(axis: Affine, extents: dict[str, int]) -> tuple[int, int]:
    """The least and the largest index."""
    ends = [c * (extents[d] - 1) for d, c in axis.terms]
    return axis.const + sum(min(e, 0) for e in ends), axis.const + sum(max(e, 0) for e in ends)


def _through(axis: Affine, places: dict[str, Affine]) -> Affine:
    """The index with dims of the move that is read at their places; those of its windows are 0."""
    terms: dict[str, int] = {}
    const = axis.const
    for dim, c in axis.terms:
        place = places.get(dim, Affine())
        const += c * place.const
        for d, k in place.terms:
            terms[d] = terms.get(d, 0) + c * k
    return Affine(tuple((d, k) for d, k in terms.items() if k != 0), const)


def _inside(reader: Contract, k: int, shape: tuple[int, ...]) -> bool:
    """Whether the reader stays within an operand of this shape."""
    extents = dict(reader.dims)
    reaches = [_reach(a, extents) for a in reader.in_maps[k]]
    return all(low >= 0 and high < extent for (low, high), extent in zip(reaches, shape, strict=True))


def _past(reader: Contract, k: int, move: Contract) -> Contract:
    """The reader with what a move reads in place of operand k."""
    places = {a.terms[0][0]: at for a, at in zip(move.out_map, reader.in_maps[k], strict=True)}
    ins = (*reader.ins[:k], *move.ins, *reader.ins[k + 1 :])
    moved = tuple(tuple(_through(a, places) for a in m) for m in move.in_maps)
    maps = (*reader.in_maps[:k], *moved, *reader.in_maps[k + 1 :])
    return replace(reader, ins=ins, in_maps=maps, body=_sum(len(ins)))


def _box(node: Contract, k: int, shape: tuple[int, ...]) -> Box | None:
    """Where operand k of this shape lies in the output, if its axes are those of the output, moved."""
    outer = [a.terms[0][0] for a in node.out_map]
    if len(outer) != len(shape):
        return None
    found = []
    for dim, axis, extent in zip(outer, node.in_maps[k], shape, strict=True):
        if dict(axis.terms).get(dim) != 1 or any(d in outer for d, _ in axis.terms if d != dim):
            return None
        found.append((-axis.const, extent - 1 - axis.const))
    return tuple(found)


def _are_apart(boxes: Sequence[Box]) -> bool:
    return all(any(p[1] < q[0] or q[1] < p[0] for p, q in zip(a, b, strict=True)) for a, b in combinations(boxes, 2))


def _with_parts(
    node: Contract, moves: Mapping[str, Contract], alone: Callable[[str], bool], shapes: Mapping[str, tuple[int, ...]]
) -> Contract:
    """A join with the parts of all joins that it alone reads in their place, where they are few, each join cuts off
    nothing of its parts, and no two parts meet."""
    boxes: list[Box | None] = []
    wider, k = node, 0
    while k < len(wider.ins):
        join = moves.get(wider.ins[k])
        if join is not None and len(join.ins) > 1 and alone(wider.ins[k]):
            inner = [_box(join, n, shapes[name]) for n, name in enumerate(join.ins)]
            for box in inner:
                ends = zip(box or (), join.out.shape, strict=False)
                boxes.append(box if all(low >= 0 and high < extent for (low, high), extent in ends) else None)
            wider = _past(wider, k, join)
            k += len(join.ins)
        else:
            k += 1
    outer = [_box(wider, n, shapes[name]) for n, name in enumerate(wider.ins)]
    known = [b for b in (*boxes, *outer) if b is not None]
    if len(wider.ins) > MOST or len(known) < len(boxes) + len(outer):
        return node
    return wider if _are_apart(known[len(boxes) :]) else node


def _filled(node: Contract) -> Contract:
    """A join with MOST parts: those that are missing read beside their tensor, where nothing is."""
    ins, maps = list(node.ins), list(node.in_maps)
    axis = next(a for a, index in enumerate(maps[0]) if len(index.terms) > 1)
    for n in range(MOST - len(ins)):
        index = maps[0][axis]
        beside = replace(index, const=-node.out.shape[axis] - n)
        ins.append(ins[0])
        maps.append((*maps[0][:axis], beside, *maps[0][axis + 1 :]))
    return replace(node, ins=tuple(ins), in_maps=tuple(maps), body=_sum(MOST))


def _joined(node: Map, a: Contract, b: Contract) -> Contract | None:
    """The sum of two moves as one, if both walk the same window."""
    windows = [[d for d in x.dims if d[0] not in {y.terms[0][0] for y in x.out_map}] for x in (a, b)]
    if windows[0] != windows[1]:
        return None
    places = dict(zip((y.terms[0][0] for y in b.out_map), a.out_map, strict=True))
    places |= {d: Affine(((d, 1),)) for d, _ in windows[1]}
    second = tuple(_through(axis, places) for axis in b.in_maps[0])
    ins, maps = (a.ins[0], b.ins[0]), (a.in_maps[0], second)
    return replace(a, out=node.out, ins=ins, in_maps=maps, body=_sum(2), span=node.span)


def compose_moves(nodes: tuple[Node, ...], outputs: tuple[str, ...]) -> tuple[Node, ...]:
    """The graph with moves of moves made at once."""
    readers: dict[str, int] = {}
    for node in nodes:
        for name in operands(node):
            readers[name] = readers.get(name, 0) + 1
    shapes = {node.out.name: node.out.shape for node in nodes if not isinstance(node, (Store, Update))}
    moves: dict[str, Contract] = {}
    trees: set[str] = set()  # of halves of sequences
    result: list[Node] = []

    def alone(name: str) -> bool:
        return readers[name] == 1 and name not in outputs

    for node in nodes:
        if isinstance(node, Map) and node.body == _sum(2) and not node.scalars:
            single = [name in moves and len(moves[name].ins) == 1 and alone(name) for name in node.ins]
            if all(single) and all(m == tuple(range(len(node.out.shape))) for m in node.maps):
                node = _joined(node, *(moves[name] for name in node.ins)) or node
        if _is_move(node):
            joins = [name for name in node.ins if name in moves and len(moves[name].ins) > 1]
            node = _composed(node, moves, alone, shapes)
            moves[node.out.name] = node
            if len(node.ins) in range(2, MOST) and any(steps_as_one(name) != name for name in joins):
                trees.add(node.out.name)
        result.append(node)
    return tuple(_filled(n) if isinstance(n, Contract) and n.out.name in trees else n for n in result)


def _composed(
    node: Contract,
    moves: Mapping[str, Contract],
    alone: Callable[[str], bool],
    shapes: Mapping[str, tuple[int, ...]],
) -> Contract:
    """A move that reads what the moves before it read."""
    for k in range(len(node.ins)):
        move = moves.get(node.ins[k])
        if move is not None and len(move.ins) == 1 and _inside(node, k, move.out.shape):
            node = _past(node, k, move)
    return _with_parts(node, moves, alone, shapes) if len(node.ins) > 1 else node
