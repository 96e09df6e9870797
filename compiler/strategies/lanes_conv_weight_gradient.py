"""lanes_conv_weight_gradient: the gradient of a convolution's weights, both operands with the batch in the lanes.

y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)], with or without g. A tile
is some output channels by some taps (c, r, s), summed per lane over the pixels of all blocks of the batch; then the
lanes are summed by a fixed tree. Lanes without a sample are masked.
"""

from __future__ import annotations

from compiler.strategies.choice import LIMIT, Choice, No, Problem, either, rounded
from compiler.strategies.tiles import DOTS, best
from compiler.strategies.window import columns, window_axis

NAME = "lanes_conv_weight_gradient"


def match(p: Problem) -> Choice | No:
    if p.node.out.batched or len(p.out) not in (4, 5):
        return No("the output is not (filters, channels, rows, columns)")
    if not all(t.batched for t in p.operands):
        return No("an operand has no batch")
    return either(p, (1, 0), _match)


def _match(p: Problem, vector: int) -> Choice | No:
    x, d = p.operands[vector], p.operands[1 - vector]
    grouped = len(p.out) == 5
    group, o, c, r, s = p.out if grouped else ("", *p.out)
    walked, other = p.plain(vector), p.plain(1 - vector)
    groups = (group,) if grouped else ()
    if len(walked) != 4 + grouped or len(other) != 4 + grouped:
        return No("the operands' axes are not (batch, channels, rows, columns)")
    n, i, j = other[0], other[-2], other[-1]
    if n is None or i is None or j is None or other != (n, *groups, o, i, j):
        return No("the gradient's axes are not (batch, channels, rows, columns)")
    if walked[: 2 + grouped] != (n, *groups, c) or set(p.extents) != {*p.out, n, i, j}:
        return No("the image's axes are not (batch, channels, rows, columns)")
    if x.shape[:-2] != tuple(p.extents[q] for q in (n, *groups, c)):
        return No("an operand is only partly read")
    if d.shape != tuple(p.extents[q] for q in (n, *groups, o, i, j)):
        return No("an operand is only partly read")
    extents = dict(p.extents)
    rows = window_axis(p.axes(vector)[-2], i, r, extents, x.shape[-2])
    cols = window_axis(p.axes(vector)[-1], j, s, extents, x.shape[-1])
    if rows is None or cols is None or rows.div != 1 or cols.div != 1:
        return No("rows and columns are not walked by one window dim each")
    samples = p.extents[n]
    copy = rows.leaves or cols.leaves or samples % p.lanes != 0
    walk = columns(rows, cols, copy)
    many = p.extents[group] if grouped else 1
    image = many * p.extents[c] * walk["s_all_rows"] * walk["s_all_cols"] * p.lanes
    if image >= LIMIT:
        return No("it is larger than 32-bit offsets reach")
    taps, pixels = p.extents[c] * rows.taps * cols.taps, rows.out * cols.out
    tile, _ = best(DOTS, p.extents[o], [(taps, pixels)])
    pitch = rounded(rounded(taps, DOTS[tile].vectors), p.lanes)
    values = {
        "s_blocks": p.blocks(n),
        "s_samples": samples,
        "s_groups": many,
        "s_outs": p.extents[o],
        "s_ins": p.extents[c],
        **walk,
        "s_pitch": pitch,
        "s_tile": tile,
    }
    del values["s_div_r"], values["s_div_c"]
    sums = DOTS[tile].outs * pitch * p.lanes * p.real_bytes
    copies = p.blocks(n) * image * p.real_bytes if copy else 0
    scratch = sums + copies + 4 * (pixels + taps)
    return Choice(NAME, (("vector", vector),), tuple(values.items()), scratch)
