"""rows_panels: y[n, o] = sum over k of x[n, k] w[o, k] of rows, and of weights that were packed before.

Panels (l1.Tensor.panel, compiler/passes/layouts/pack_panels.py) have neighbouring outputs in the lanes: weights are
read in the order in which they lie, for all rows, sums need no addition of lanes, and have the order of k. What
follows them is computed for a strip of outputs at once. Up to four rows have their sums of several panels in registers;
more have the tiles of rows_product, whose rows are copied in blocks of terms, and which prefetch the panel that comes
next. There a long sum is that of its blocks' sums.

Assumes: Contracts in gather form.
Guarantees: only weights in panels match.
Does not: pack.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_if, rounded
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cpu.rows_product import DEEP, LONG, ROWS
from compiler.strategies.strategy import Strategy

NAME = "rows_panels"
FEW, STRIP, TALL = 4, 4, 264
"""Rows whose sums of several panels are in registers, panels of a strip of these, and rows of a block of more."""
NEAR, LINE = 8, 1008
"""Rows that tiles read where they lie, and terms of those of one tile that are copied, an odd number of cache lines:
lines that are powers of two apart would push each other out."""


def panel_of(real_bytes: int) -> int:
    """Outputs of a panel."""
    return 2 * constants.VECTOR_BYTES // real_bytes


def match(p: Problem) -> Choice:
    refuse_if(p.lanes or not p.node.out.batched or len(p.out) != 2, "the output is not row-major (batch, units)")
    x, w = p.operands
    n, o = p.out
    walked, weights = p.plain(0), p.plain(1)
    refuse_if(w.panel != panel_of(p.real_bytes) or x.panel or x.pitch, "its weights are not in panels")
    refuse_if(len(walked) != 2 or walked[0] != n or weights != (o, walked[1]), "it is not rows times weights")
    rows, outs, ins = (p.extents[d] for d in (n, o, weights[1] or ""))
    refuse_if(x.shape != (rows, ins) or w.shape != (outs, ins) or len(p.extents) != 3, "an operand is only partly read")
    vectors = outs * p.real_bytes / constants.VECTOR_BYTES
    columns = named(batch=rows, outs=outs, ins=ins)
    if rows > FEW:
        columns |= named(**_blocks(rows, outs, ins, p.real_bytes, p.within(constants.PANEL_SUMS_BYTES)), long=LONG)
        reals = columns["s_wide"] * columns["s_tall"] + columns["s_copy"] * columns["s_tall"] * ins
        scratch = reals * p.real_bytes + 4 * (columns["s_tall"] + columns["s_depth"])
        operations = rounded(rows, 4) * vectors * (ins * p.core.panel_sum + p.core.panel_end)
        operations += -(-rows // ROWS) * vectors / 2 * max(1.0, ins / columns["s_depth"]) * p.core.panel_tile
    else:
        columns |= named(wide=STRIP * panel_of(p.real_bytes))
        scratch = FEW * columns["s_wide"] * p.real_bytes
        operations = vectors * (ins * (constants.ROW_TERM + constants.FEW_MORE * (rows - 1)) + rows * p.core.panel_end)
    return Choice(
        NAME, (("many", int(rows > FEW)),), tuple(columns.items()), scratch, operations / constants.OPERATIONS_PER_US
    )


def _blocks(rows: int, outs: int, ins: int, size: int, sums: int) -> dict[str, int]:
    """Rows and columns of `sums` bytes, which stay near; rows, and terms of them, that tiles read at a time."""
    if rows <= ROWS:
        near = rows <= NEAR
        return {"tall": ROWS, "wide": panel_of(size), "depth": min(ins, LONG if near else LINE), "copy": int(not near)}
    tall = rounded(min(rows, TALL), ROWS)
    wide = min(rounded(outs, panel_of(size)), max(sums // (tall * size * panel_of(size)), 1) * panel_of(size))
    return {"tall": tall, "wide": wide, "depth": min(ins, DEEP), "copy": 1}


STRATEGY: Final = Strategy(NAME, match, panels=True)
