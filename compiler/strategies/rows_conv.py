"""rows_conv: convolutions of row-major images, neighbouring pixels in the lanes.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, i * step + r * tap + from, ...] w(g, o, c, r, s), with or without g:
for batches that are too small for the batch in the lanes. The image is copied with its border, a plane for each residue
of the rows' step, so that every tap reads neighbouring elements for the pixels of a vector. Where an output row fills
whole vectors, one copy does. Otherwise there is one for each column s of the window, as the output's columns see it:
output pixels are then one run of memory for every tap. The sum runs in order of (channel, row, column).
"""

from __future__ import annotations

from compiler.strategies.choice import LIMIT, Choice, No, Problem, rounded, strides
from compiler.strategies.window import window_axis

NAME = "rows_conv"
OUTS, VECTORS = 8, 2
TAP_BYTES = 8


def match(p: Problem) -> Choice | No:
    if p.lanes or not p.node.out.batched or len(p.out) not in (4, 5):
        return No("the output is not row-major (batch, channels, rows, columns)")
    x, w = p.operands
    if not x.batched or w.batched:
        return No("it is not images times weights")
    grouped = len(p.out) == 5
    group, o, i, j = (p.out[1] if grouped else ""), *p.out[-3:]
    walked, weights = p.plain(0), p.plain(1)
    if len(walked) != len(p.out) or walked[: 1 + grouped] != p.out[: 1 + grouped]:
        return No("the image's axes are not (batch, channels, rows, columns)")
    c = walked[-3]
    rest = [d for d in p.extents if d not in {*p.out, c}]
    named = {d for d in weights if d is not None}
    wanted = {o, c, *rest} | ({group} if grouped else set())
    if c is None or len(rest) != 2 or named != wanted or len(weights) != len(wanted):
        return No("the weights' axes are not plain dims, two of them a window")
    if tuple(p.extents[d] for d in (*p.out[: 1 + grouped], c)) != x.shape[:-2]:
        return No("an operand is only partly read")
    if any(p.extents[d] != e for d, e in zip(weights, w.shape, strict=True) if d is not None):
        return No("an operand is only partly read")
    extents = dict(p.extents)
    for r, s in (rest, rest[::-1]):
        rows = window_axis(p.axes(0)[-2], i, r, extents, x.shape[-2])
        cols = window_axis(p.axes(0)[-1], j, s, extents, x.shape[-1])
        if rows is not None and cols is not None:
            break
    else:
        return No("rows and columns are not walked by one window dim each")
    if rows.div != 1 or cols.div != 1 or min(rows.tap, cols.tap, rows.step, cols.step) < 1:
        return No("it is the gradient of a convolution")
    vector = 64 // p.real_bytes
    high = (rows.step * (rows.out - 1) + rows.tap * (rows.taps - 1)) // rows.step + 1
    whole = cols.out % vector == 0 and cols.step == 1
    copies, wide = (1, cols.out + cols.tap * (cols.taps - 1)) if whole else (cols.taps, cols.out)
    plane = high * wide
    width = rounded(rows.out * cols.out, VECTORS * vector)
    planes = rounded(p.extents[c] * copies * rows.step * plane, vector) + VECTORS * vector
    if planes >= LIMIT:
        return No("it is larger than 32-bit offsets reach")
    by = dict(zip(weights, strides(w), strict=True))
    taps, masks = p.extents[c] * rows.taps * cols.taps, rounded(copies * plane, vector)
    values = {
        "s_batch": p.extents[p.out[0]],
        "s_groups": p.extents[group] if grouped else 1,
        "s_outs": p.extents[o],
        "s_ins": p.extents[c],
        "s_rows": rows.extent,
        "s_cols": cols.extent,
        "s_out_rows": rows.out,
        "s_out_cols": cols.out,
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
        "s_w_group": by[group] if grouped else 0,
        "s_w_out": by[o],
        "s_w_in": by[c],
        "s_w_r": by[r],
        "s_w_c": by[s],
    }
    scratch = (planes + OUTS * width + masks) * p.real_bytes + taps * TAP_BYTES
    return Choice(NAME, (), tuple(values.items()), scratch)
