"""compose_moves: chains of Moves (slices, pads, concatenations and their gradients) become one Move.

A slice of a slice is one slice of the whole; the gradient of two halves is the sum of two padded ones, and of these
only the sum is needed.

Assumes: a simplified graph in topological order.
Guarantees: a Move that reads a Move, inside its extents, reads the operand of that one; the sum of up to MOST_JOINED
Moves without other readers (the gradient of two halves, of the planes that a window over depth sees) is one Move of all
of them. No value changes; sums keep their order.
Does not: remove dead nodes (simplify_graph), or join any number: texts would depend on lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Ref

MOST_JOINED: Final = 4

_SUMS: Final[tuple[Expr, ...]] = tuple(
    reduce(add, (Ref(f"x{k}") for k in range(many))) for many in range(2, MOST_JOINED + 1)
)


def _is_inside(reader: l1.Move, k: int, shape: tuple[int, ...]) -> bool:
    """Whether the reader stays within operand k of this shape."""
    walked = zip(reader.out.shape, reader.offsets[k], shape, strict=True)
    return all(0 <= first and first + count <= extent for count, first, extent in walked)


def _past(reader: l1.Move, k: int, move: l1.Move) -> l1.Move:
    """The reader with the operand of a Move in place of operand k."""
    ins, offsets = list(reader.ins), list(reader.offsets)
    ins[k] = move.ins[0]
    offsets[k] = tuple(a + b for a, b in zip(offsets[k], move.offsets[0], strict=True))
    return replace(reader, ins=tuple(ins), offsets=tuple(offsets))


def _joined(node: l1.Map, moves: Sequence[l1.Move]) -> l1.Move:
    """The sum of Moves of one operand each as one."""
    return l1.Move(node.out, tuple(m.ins[0] for m in moves), tuple(m.offsets[0] for m in moves), span=node.span)


def compose_moves(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """The graph with composed Moves."""
    readers = l1.readers_of(nodes)
    moves: dict[str, l1.Move] = {}
    result: list[l1.Node] = []
    for node in nodes:
        if isinstance(node, l1.Move) and node.fill == 0:
            for k, name in enumerate(node.ins):
                if name in moves and _is_inside(node, k, moves[name].out.shape):
                    node = _past(node, k, moves[name])
        elif isinstance(node, l1.Map) and node.body in _SUMS and not node.scalars:
            alone = [name in moves and len(readers[name]) == 1 and name not in outputs for name in node.ins]
            plain = all(m == tuple(range(len(node.out.shape))) for m in node.maps)
            if all(alone) and plain:
                node = _joined(node, [moves[name] for name in node.ins])
        if isinstance(node, l1.Move) and len(node.ins) == 1 and node.fill == 0:
            moves[node.out.name] = node
        result.append(node)
    return tuple(result)
