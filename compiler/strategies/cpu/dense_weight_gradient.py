"""dense_weight_gradient: y[o, k] = sum over samples n, ... of d[n, ..., o] x[n, ..., k], with the batch in the lanes.

The dims between n and the features (steps of a sequence) are in one order in both operands; blocks of the batch and
steps are contiguous in memory and walked as one. x is transposed once so that adjacent k share a vector; elements of d
are broadcast scalars. The sum runs in storage order, over the valid samples, by chunks of blocks that stay in the cache
while all tiles read them: each adds its sums to those before.
"""

from __future__ import annotations

from math import prod
from typing import Final

from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.cost.cpu import CHUNK_BYTES, FAR_VECTOR, OPERATIONS_PER_US, TILE_NEAR_BYTES, TRANSPOSE
from compiler.strategies.cost.tiles import TILES, best, beyond, on
from compiler.strategies.strategy import Strategy, by_tile

NAME = "dense_weight_gradient"


def match(p: Problem) -> Choice:
    refuse_if(p.node.out.batched or len(p.out) != 2, "the output is not (units, features)")
    o, k = p.out
    for vector in (0, 1):
        x, d = p.operands[vector], p.operands[1 - vector]
        walked, other = p.plain(vector), p.plain(1 - vector)
        if not (x.batched and d.batched) or len(walked) < 2 or len(other) != len(walked):
            continue
        places = [a for a in walked[:-1] if a is not None]
        if len(places) != len(walked) - 1 or walked[-1] != k or other != (*places, o):
            continue
        if set(p.extents) != {*places, o, k}:
            continue
        n, *steps = places
        outs, ins, samples = p.extents[o], p.extents[k], p.extents[n]
        extents = tuple(p.extents[q] for q in places)
        refuse_if(x.shape != (*extents, ins) or d.shape != (*extents, outs), "an operand is only partly read")
        each = prod(p.extents[q] for q in steps)
        padded, blocks = rounded(ins, p.lanes), p.blocks(n) * each
        rows = blocks * p.lanes
        refuse_beyond(rows * padded >= LIMIT or rows * outs)
        parts = [(padded // p.lanes, samples * each)]
        tile, operations = best(on(TILES, p.device), outs, parts, p.within(TILE_NEAR_BYTES), core=p.core)
        chunk = min(blocks, max(1, p.within(CHUNK_BYTES) // ((padded + outs) * p.real_bytes * p.lanes)))
        whole = max(rounded(outs, t.outs) * rounded(padded // p.lanes, t.vectors) for t in TILES)  # by any of them
        sums = whole if chunk < blocks else 0
        columns = named(
            blocks=blocks, chunk=chunk, sums=sums, steps=each, samples=samples, outs=outs, ins=ins, tile=tile
        )
        scratch = (chunk * p.lanes * padded + sums * p.lanes) * p.real_bytes + 8 * chunk * p.lanes
        operations += TRANSPOSE * rows * padded / p.lanes
        far = FAR_VECTOR * beyond(outs * padded * p.real_bytes, p.device)  # each chunk adds to all sums
        operations += far * -(-blocks // chunk) * outs * padded / p.lanes
        microseconds = operations / OPERATIONS_PER_US
        return Choice(NAME, (("vector", vector),), tuple(columns.items()), scratch, microseconds, joined=True)
    raise NotApplicable("it is not a sum over the batch of two products of features")


STRATEGY: Final = Strategy(NAME, match, by_tile(TILES))
