"""rows_dense: y[n, o] = sum over k of x[n, k] w[o, k] of row-major arrays, adjacent k in the lanes.

For batches that are too small for the batch in the lanes: weights are read once, in order, for up to four samples in
registers; for more of them from the cache. The partial sums of the lanes are added by a tree, the remainder of k one by
one. What follows the sums is computed for a block of outputs at once, with neighbours in the lanes: gates of recurrent
layers one at a time take longer than the sums, and nothing is read ahead meanwhile.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, refuse_if, rounded
from compiler.strategies.cost.cpu import OPERATIONS_PER_US, VECTOR_BYTES
from compiler.strategies.cost.tiles import beyond
from compiler.strategies.strategy import Strategy

NAME = "rows_dense"
BLOCK, NEAR = 64, 16
"""Outputs whose sums come before what follows them; those whose weights stay near while several samples go by."""
TOGETHER = 4
"""Samples that share what is read of the weights, and outputs that are summed at a time."""


def match(p: Problem) -> Choice:
    refuse_if(p.lanes or not p.node.out.batched or len(p.out) != 2, "the output is not row-major (batch, units)")
    x, w = p.operands
    n, o = p.out
    walked, weights = p.plain(0), p.plain(1)
    if not x.batched or w.batched or len(walked) != 2 or walked[0] != n or weights != (o, walked[1]):
        raise NotApplicable("it is not (batch, features) times (units, features)")
    k = walked[1]
    if (
        k is None
        or set(p.extents) != {n, o, k}
        or x.shape[1] != p.extents[k]
        or w.shape != (p.extents[o], p.extents[k])
    ):
        raise NotApplicable("an operand is only partly read")
    refuse_if(x.shape[0] != p.extents[n], "an operand is only partly read")
    batch, outs, ins = (p.extents[d] for d in (n, o, k))
    block = BLOCK if batch <= TOGETHER else NEAR
    columns = (("s_batch", batch), ("s_outs", outs), ("s_ins", ins), ("s_block", block))
    whole, rest = divmod(ins, VECTOR_BYTES // p.real_bytes)
    core = p.core
    far = core.row_far * min(1.0, beyond(outs * ins * p.real_bytes, p.device)) / batch
    each = core.row_term + max(far, core.row_split if rest else 0.0)
    terms = each * whole + core.row_rest * rest + core.row_tail * (rest > 0)
    scratch = TOGETHER * block * p.real_bytes
    sums = batch * rounded(outs, TOGETHER)
    return Choice(NAME, (), columns, scratch, sums * (terms + core.row_sum) / OPERATIONS_PER_US)


STRATEGY: Final = Strategy(NAME, match)
