"""rows_panels: y[n, o] = sum over k of x[n, k] w[o, k] of up to four rows, and of weights that were packed before.

Panels (l1.Tensor.panel, compiler/passes/layouts/pack_panels.py) have neighbouring outputs in the lanes: weights are
read once, in the order in which they lie, for all rows, sums need no addition of lanes, and have the order of k. What
follows them is computed for a strip of outputs at once.

Assumes: Contracts in gather form.
Guarantees: only weights in panels match.
Does not: pack.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import VECTOR_BYTES, Choice, Problem, refuse_if
from compiler.strategies.cost.cpu import FEW_MORE, OPERATIONS_PER_US, PANEL_END, ROW_TERM
from compiler.strategies.strategy import Strategy

NAME = "rows_panels"
FEW, STRIP = 4, 4
"""Rows at most; panels of a strip."""


def panel_of(real_bytes: int) -> int:
    """Outputs of a panel."""
    return 2 * VECTOR_BYTES // real_bytes


def match(p: Problem) -> Choice:
    refuse_if(p.lanes or not p.node.out.batched or len(p.out) != 2, "the output is not row-major (batch, units)")
    x, w = p.operands
    n, o = p.out
    walked, weights = p.plain(0), p.plain(1)
    refuse_if(w.panel != panel_of(p.real_bytes) or x.panel or x.pitch, "its weights are not in panels")
    refuse_if(len(walked) != 2 or walked[0] != n or weights != (o, walked[1]), "it is not rows times weights")
    rows, outs, ins = (p.extents[d] for d in (n, o, weights[1] or ""))
    refuse_if(x.shape != (rows, ins) or w.shape != (outs, ins) or len(p.extents) != 3, "an operand is only partly read")
    refuse_if(rows > FEW, f"it has more than {FEW} rows")
    wide = STRIP * panel_of(p.real_bytes)
    columns = (("s_batch", rows), ("s_outs", outs), ("s_ins", ins), ("s_wide", wide))
    vectors = outs * p.real_bytes / VECTOR_BYTES
    operations = vectors * (ins * (ROW_TERM + FEW_MORE * (rows - 1)) + rows * PANEL_END)
    return Choice(NAME, (), columns, FEW * wide * p.real_bytes, operations / OPERATIONS_PER_US)


STRATEGY: Final = Strategy(NAME, match, panels=True)
