"""dense_weight_gradient: y[o, k] = sum over samples n of d[n, o] x[n, k], both operands with the batch in the lanes.

x is transposed once so that neighbouring k share a vector; elements of d are broadcast scalars. The sum runs in order
of n, over the samples that exist.
"""

from __future__ import annotations

from compiler.strategies.choice import LIMIT, Choice, No, Problem, rounded
from compiler.strategies.tiles import TILES, best

NAME = "dense_weight_gradient"


def match(p: Problem) -> Choice | No:
    if p.node.out.batched or len(p.out) != 2:
        return No("the output is not (units, features)")
    o, k = p.out
    for vector in (0, 1):
        x, d = p.operands[vector], p.operands[1 - vector]
        walked, other = p.plain(vector), p.plain(1 - vector)
        if not (x.batched and d.batched) or len(walked) != 2 or len(other) != 2:
            continue
        n = walked[0]
        if n is None or walked[1] != k or other != (n, o) or set(p.extents) != {n, o, k}:
            continue
        outs, ins, samples = p.extents[o], p.extents[k], p.extents[n]
        if x.shape != (samples, ins) or d.shape != (samples, outs):
            return No("an operand is only partly read")
        padded, blocks = rounded(ins, p.lanes), p.blocks(n)
        rows = blocks * p.lanes
        if rows * padded >= LIMIT or rows * outs >= LIMIT:
            return No("it is larger than 32-bit offsets reach")
        columns = {
            "s_blocks": blocks,
            "s_samples": samples,
            "s_outs": outs,
            "s_ins": ins,
            "s_tile": best(TILES, outs, [(padded // p.lanes, samples)])[0],
        }
        scratch = rows * padded * p.real_bytes + 8 * samples
        return Choice(NAME, (("vector", vector),), tuple(columns.items()), scratch)
    return No("it is not a sum over the batch of two products of features")
