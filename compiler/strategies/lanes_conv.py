"""lanes_conv: convolutions with the batch in the lanes, and the gradients of their inputs.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, rows(i, r), cols(j, s)] w(g, o, c, r, s), with or without g. Vectors
hold one pixel of a block of the batch, weights are broadcast scalars read in place; a tile is some output channels by
some output pixels. Stride, dilation, padding, groups and the division of a strided gradient are columns: offsets of
terms and pixels are tabulated once per call. Where indices divide, or where much of the window lies outside the
image, pixels that see the same taps form a class with a table of its own.
The sum runs in order of (row of the window, channel, column of the window).
"""

from __future__ import annotations

from compiler.ir.graph import Tensor
from compiler.strategies.choice import LIMIT, Choice, No, Problem, strides
from compiler.strategies.tiles import TILES, best
from compiler.strategies.window import WindowAxis, columns, window_axis

NAME = "lanes_conv"
PIXEL_BYTES, TAP_BYTES, CLASS_BYTES = 16, 8, 24


def match(p: Problem) -> Choice | No:
    if not p.node.out.batched or len(p.out) not in (4, 5):
        return No("the output is not (batch, channels, rows, columns)")
    for vector in (0, 1):
        if p.operands[vector].batched and not p.operands[1 - vector].batched:
            return _match(p, vector)
    return No("it is not images times weights")


def _match(p: Problem, vector: int) -> Choice | No:
    x, w = p.operands[vector], p.operands[1 - vector]
    grouped = len(p.out) == 5
    n, group, o, i, j = p.out if grouped else (p.out[0], "", *p.out[1:])
    walked, weights = p.plain(vector), p.plain(1 - vector)
    if len(walked) != len(p.out) or walked[: 1 + grouped] != p.out[: 1 + grouped]:
        return No("the image's axes are not (batch, channels, rows, columns)")
    c = walked[-3]
    named = {d for d in weights if d is not None}
    if c is None or len(named) != len(weights) or not {o, c} <= named or (grouped and group not in named):
        return No("the weights' axes are not plain dims")
    rest = [d for d in p.extents if d not in {*p.out, c}]
    if len(rest) != 2 or named != {o, c, *rest} | ({group} if grouped else set()):
        return No("the window has not two dims")
    if x.shape[: 1 + grouped] != tuple(p.extents[d] for d in p.out[: 1 + grouped]) or x.shape[-3] != p.extents[c]:
        return No("an operand is only partly read")
    if any(p.extents[d] != e for d, e in zip(weights, w.shape, strict=True) if d is not None):
        return No("an operand is only partly read")
    extents = dict(p.extents)
    found = None
    for r, s in (rest, rest[::-1]):
        rows = window_axis(p.axes(vector)[-2], i, r, extents, x.shape[-2])
        cols = window_axis(p.axes(vector)[-1], j, s, extents, x.shape[-1])
        if rows is not None and cols is not None:
            found = rows, cols, r, s
            break
    if found is None:
        return No("rows and columns are not walked by one window dim each")
    rows, cols, r, s = found
    tile, split = _tile(p.extents[o], p.extents[c], rows, cols)
    copy = rows.leaves or (cols.leaves and not split)
    walk = columns(rows, cols, copy, split)
    groups = p.extents[group] if grouped else 1
    channels = groups * p.extents[c]
    image = channels * walk["s_all_rows"] * walk["s_all_cols"] * p.lanes
    if image >= LIMIT or _size(w) >= LIMIT:
        return No("it is larger than 32-bit offsets reach")
    by = dict(zip(weights, strides(w), strict=True))
    row_classes, col_classes = rows.classes(False), cols.classes(split)
    classes, pixels = len(row_classes) * len(col_classes), rows.out * cols.out
    terms = p.extents[c] * sum(r_taps * c_taps for _, r_taps in row_classes for _, c_taps in col_classes)
    values = {
        "s_blocks": p.blocks(n),
        "s_groups": groups,
        "s_outs": p.extents[o],
        "s_ins": p.extents[c],
        **walk,
        "s_w_group": by[group] if grouped else 0,
        "s_w_out": by[o],
        "s_w_in": by[c],
        "s_w_r": by[r],
        "s_w_c": by[s],
        "s_split": int(split),
        "s_classes": classes,
        "s_tile": tile,
    }
    scratch = (image * p.real_bytes if copy else 0) + classes * CLASS_BYTES + pixels * PIXEL_BYTES + terms * TAP_BYTES
    return Choice(NAME, (("vector", vector),), tuple(values.items()), scratch)


def _tile(outs: int, ins: int, rows: WindowAxis, cols: WindowAxis) -> tuple[int, bool]:
    """The tile, and whether output columns that see other columns of the window are apart: that leaves out products
    with the border, but tiles fit less well."""
    seen = sum(len(rows.seen(i)) for i in range(rows.out)) / rows.out

    def parts(split: bool) -> list[tuple[float, float]]:
        return [(rows.out / rows.div * n, seen * taps * ins) for n, taps in cols.classes(split)] * rows.div

    whole, apart = best(TILES, outs, parts(False)), best(TILES, outs, parts(True))
    split = cols.leaves and apart[1] < 0.95 * whole[1]
    return (apart[0], True) if split else (whole[0], False)


def _size(tensor: Tensor) -> int:
    size = 1
    for extent in tensor.shape:
        size *= extent
    return size
