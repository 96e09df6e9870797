"""lanes_pairs: products of two operands that both have the batch in their lanes, as in attention.

y[n, b, o, u] = sum over k of d[n, b, o, k] x[n, b, u, k], the axes of all three in any order after n, with or without b
(heads). Scores, contexts and their gradients are this. A tile is some o by some u of one block of the batch, summed
lane by lane; terms have tabulated offsets, so that any axis may be the reduction axis. The sum runs in order of k.
"""

from __future__ import annotations

from typing import Final

from compiler.layout.assign_layouts import strides_of
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if
from compiler.strategies.cost.cpu import OPERATIONS_PER_US
from compiler.strategies.cost.tiles import DOTS, best, on
from compiler.strategies.strategy import Strategy, by_tile

NAME = "lanes_pairs"


def match(p: Problem) -> Choice:
    refuse_if(not p.node.out.batched or not all(t.batched for t in p.operands), "not all of its arrays have a batch")
    plain = (p.plain(0), p.plain(1))
    if any(None in walked or len(set(walked)) != len(walked) or walked[0] != p.out[0] for walked in plain):
        raise NotApplicable("the operands' axes are not the batch and plain dims")
    for tensor, walked in zip(p.operands, plain, strict=True):
        if tensor.shape != tuple(p.extents[d] for d in walked if d is not None):
            raise NotApplicable("an operand is only partly read")
    used = (set(plain[0]), set(plain[1]))
    n, *rest = p.out
    alone = tuple([d for d in rest if d in used[side] and d not in used[1 - side]] for side in (0, 1))
    both = [d for d in rest if d in used[0] and d in used[1]]
    summed = [d for d in p.extents if d not in p.out]
    if len(alone[0]) != 1 or len(alone[1]) != 1 or len(both) > 1 or len(summed) != 1:
        raise NotApplicable("it is not a product of matrices for each example")
    if len(both) + 2 != len(rest) or not all(summed[0] in u for u in used):
        raise NotApplicable("it is not a product of matrices for each example")
    # Adjacent vectors of a tile are adjacent in the output, where its last axis is not the heads.
    vector = 0 if rest[-1] == alone[0][0] else 1
    outer, inner, k = alone[1 - vector][0], alone[vector][0], summed[0]
    x, d = (
        {d: s for d, s in zip(plain[side], strides_of(p.operands[side], p.lanes), strict=True) if d is not None}
        for side in (vector, 1 - vector)
    )
    refuse_beyond(x[n] >= LIMIT or d[n])
    outs, vectors, terms, blocks = p.extents[outer], p.extents[inner], p.extents[k], p.blocks(n)
    group = both[0] if both else ""
    groups = p.extents[group] if both else 1
    tile, operations = best(on(DOTS, p.device), outs, [(vectors, terms)], core=p.core)
    columns = named(
        blocks=blocks,
        groups=groups,
        outs=outs,
        vectors=vectors,
        terms=terms,
        d_block=d[n],
        d_group=d.get(group, 0),
        d_out=d[outer],
        d_term=d[k],
        x_block=x[n],
        x_group=x.get(group, 0),
        x_vector=x[inner],
        x_term=x[k],
        tile=tile,
    )
    literals = (
        ("vector", vector),
        ("group", p.out.index(group) if both else 0),
        ("out", p.out.index(outer)),
        ("inner", p.out.index(inner)),
    )
    microseconds = blocks * groups * operations / OPERATIONS_PER_US
    return Choice(NAME, literals, tuple(columns.items()), 8 * terms, microseconds)


STRATEGY: Final = Strategy(NAME, match, by_tile(DOTS), strided=True)
