"""lanes_dense: y[n, ..., o] = sum over k of x[n, ..., k] w[o, k] (or w[k, o]), the batch in the lanes.

A dense layer and the gradient of its input, over single examples or at every step of a sequence (the dims between n and
o, in one order in x and y). Vectors hold one feature of a block of the batch at one step; blocks and steps are
contiguous in memory, so that they are walked as one. Weights are broadcast scalars read in place; a tile is some
outputs by some vectors. The sum runs in order of k.
"""

from __future__ import annotations

from math import prod
from typing import Final

from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, Shape, best, on, weight_lines
from compiler.strategies.strategy import Strategy, by_tile

NAME = "lanes_dense"


def match(p: Problem) -> Choice:
    refuse_if(not p.node.out.batched or len(p.out) < 2, "the output is not (batch, units)")
    *places, o = p.out
    for vector in (0, 1):
        x, w = p.operands[vector], p.operands[1 - vector]
        walked, weights = p.plain(vector), p.plain(1 - vector)
        if not x.batched or w.batched or list(walked[:-1]) != places:
            continue
        k = walked[-1]
        if k is None or k in p.out or len(weights) != 2 or set(weights) != {o, k} or set(p.extents) != {*p.out, k}:
            continue
        refuse_if(x.shape != tuple(p.extents[d] for d in (*places, k)), "an operand is only partly read")
        steps = dict(zip(weights, w.strides, strict=True))
        outs, ins, blocks = p.extents[o], p.extents[k], p.blocks(places[0]) * prod(p.extents[d] for d in places[1:])
        refuse_beyond(ins * p.lanes >= LIMIT or outs * ins)
        tile, operations = best(on(TILES, p.device), outs, [(blocks, ins)], core=p.core)
        columns = named(blocks=blocks, outs=outs, ins=ins, w_out=steps[o], w_in=steps[k], tile=tile)
        near = blocks < constants.TILE_FAR_BLOCKS or outs * ins * p.real_bytes <= p.within(constants.TILE_CACHE_BYTES)
        apart = blocks >= constants.ALIKE_BLOCKS and max(steps.values()) * p.real_bytes % constants.ALIKE_BYTES == 0
        slower = constants.TILE_FAR if not near else constants.ALIKE if apart else 1.0
        lines = _lines(p, TILES[tile], blocks, outs, ins, steps[k] * p.real_bytes)
        microseconds = (operations * slower + lines) / constants.OPERATIONS_PER_US
        return Choice(NAME, (("vector", vector),), tuple(columns.items()), 8 * ins, microseconds, joined=True)
    raise NotApplicable("it is not (batch, features) times weights")


def _lines(p: Problem, tile: Shape, blocks: int, outs: int, ins: int, step: int) -> float:
    """Reading weights whose terms lie `step` bytes apart again for each strip of blocks: what no cache holds, and,
    where each term is in a page of its own, what the table of pages does not hold."""
    strips = -(-blocks // tile.vectors)
    lines = weight_lines(tile, outs, strips, ins, step, outs * ins * p.real_bytes, p.core)
    pages = constants.PAGE_FAR if step >= constants.PAGE_BYTES and ins > constants.PAGES else 0.0
    return lines + pages * strips * ins * -(-outs // tile.outs)


STRATEGY: Final = Strategy(NAME, match, by_tile(TILES))
