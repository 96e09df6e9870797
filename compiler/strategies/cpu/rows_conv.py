"""rows_conv: convolutions of row-major images, adjacent pixels in the lanes.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, i * step + r * tap + from, ...] w(g, o, c, r, s), with or without g:
for batches that are too small for the batch in the lanes. The image is copied with its border, a plane for each residue
of the rows' step, so that every tap reads adjacent elements for the pixels of a vector. Where an output row fills whole
vectors, one copy suffices. Otherwise there is one for each column s of the window, aligned to the output's columns:
output pixels are then one run of memory for every tap. The sum runs in order of (channel, row, column).
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, rounded
from compiler.strategies.convolution import extents, row_major
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import Shape, cost
from compiler.strategies.strategy import Strategy

NAME = "rows_conv"
OUTS, VECTORS = 8, 2
TAP_BYTES = 8
_TILE = Shape(OUTS, VECTORS, 105)
"""What it costs to copy a vector of the image, in vector operations."""


def match(p: Problem) -> Choice | NotApplicable:
    conv = row_major(p)
    if isinstance(conv, NotApplicable):
        return conv
    rows, cols = conv.rows, conv.cols
    if rows.div != 1 or cols.div != 1 or min(rows.tap, cols.tap, rows.step, cols.step) < 1:
        return NotApplicable("it is the gradient of a convolution")
    vector = 64 // p.real_bytes
    high = (rows.step * (rows.out - 1) + rows.tap * (rows.taps - 1)) // rows.step + 1
    whole = cols.out % vector == 0 and cols.step == 1
    copies, wide = (1, cols.out + cols.tap * (cols.taps - 1)) if whole else (cols.taps, cols.out)
    plane = high * wide
    width = rounded(rows.out * cols.out, VECTORS * vector)
    planes = rounded(conv.ins * copies * rows.step * plane, vector) + VECTORS * vector
    if planes >= LIMIT:
        return NotApplicable("it is larger than 32-bit offsets reach")
    taps, masks = conv.ins * rows.taps * cols.taps, rounded(copies * plane, vector)
    values = {
        "s_batch": conv.batch,
        **extents(conv),
        "s_taps_r": rows.taps,
        "s_taps_c": cols.taps,
        "s_step_r": rows.step,
        "s_step_c": cols.step,
        "s_tap_r": rows.tap,
        "s_tap_c": cols.tap,
        "s_from_r": rows.origin,
        "s_from_c": cols.origin,
        "s_high": high,
        "s_copies": copies,
        "s_wide": wide,
        "s_width": width,
        "s_planes": planes,
        "s_masks": masks,
        "s_w_group": conv.w_group,
        "s_w_out": conv.w_out,
        "s_w_in": conv.w_in,
        "s_w_r": conv.w_r,
        "s_w_c": conv.w_c,
    }
    scratch = (planes + OUTS * width + masks) * p.real_bytes + taps * TAP_BYTES
    operations = cost(_TILE, conv.outs, [(-(-rows.out * cols.out // vector), taps)]) + constants.COPY * planes / vector
    microseconds = conv.batch * conv.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (), tuple(values.items()), scratch, microseconds)


STRATEGY: Final = Strategy(NAME, match)
