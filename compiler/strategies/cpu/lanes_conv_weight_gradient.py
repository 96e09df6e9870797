"""lanes_conv_weight_gradient: the gradient of a convolution's weights, both operands with the batch in the lanes.

y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)], with or without g. A tile
is some output channels by some taps (c, r, s), summed per lane over the pixels of all blocks of the batch, so many at
a time that those of a tile's outputs stay in a cache for all taps; then the lanes are summed by a fixed tree. Lanes
without a sample are masked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_beyond, rounded
from compiler.strategies.convolution import WeightGradient, weight_gradient
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import DOTS, beyond, cost, on, part
from compiler.strategies.strategy import Strategy, with_columns
from compiler.strategies.window import columns

NAME = "lanes_conv_weight_gradient"


def match(p: Problem) -> Choice:
    found = weight_gradient(p)
    rows, cols = found.rows, found.cols
    blocks = -(-found.samples // p.lanes)
    copy = rows.leaves or cols.leaves or found.samples % p.lanes != 0
    walk = columns(rows, cols, copy)
    image = found.groups * found.ins * walk["s_all_rows"] * walk["s_all_cols"] * p.lanes
    refuse_beyond(image)
    taps, pixels = found.ins * rows.taps * cols.taps, rows.out * cols.out
    near = image * p.real_bytes <= found.groups * p.within(constants.TILE_CACHE_BYTES)
    alone = 0.0 if near else min(1.0, rows.step * cols.step / (rows.taps * cols.taps))  # pixels that one tap reads
    size = part(taps, DOTS, p.core)
    parts = [(taps, size)] * (pixels // size) + [(taps, pixels % size)]
    costs = [
        cost(t, found.outs, parts, core=p.core) * (1 + (p.core.lanes_far - 1) * alone)
        + _far(p, found, blocks, -(-found.outs // t.outs)) / blocks
        for t in on(DOTS, p.device)
    ]
    operations = min(costs)
    tile = costs.index(operations)
    pitch = rounded(rounded(taps, DOTS[tile].vectors), p.lanes)
    values = (
        named(blocks=blocks, samples=found.samples, groups=found.groups, outs=found.outs, ins=found.ins)
        | walk
        | named(pitch=pitch, part=size, tile=tile)
    )
    del values["s_div_r"], values["s_div_c"]
    sums = DOTS[tile].outs * pitch * p.lanes * p.real_bytes
    copies = blocks * image // found.groups * p.real_bytes if copy else 0
    scratch = sums + copies + 4 * (pixels + taps)
    operations = found.groups * (blocks * operations + constants.WINDOW_LANES * found.outs * taps)
    operations += blocks * p.core.border * image / p.lanes if copy else 0.0
    microseconds = operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (("vector", found.vector),), tuple(values.items()), scratch, microseconds)


def _far(p: Problem, found: WeightGradient, blocks: int, passes: int) -> float:
    """Vector operations of a group for what comes from beyond the second cache: all of the image that windows see, for
    each tile of outputs, and the gradient once."""
    rows, cols, size = found.rows, found.cols, p.lanes * p.real_bytes
    seen = found.ins * min(rows.extent * cols.extent, rows.out * cols.out * rows.taps * cols.taps) * blocks
    given = found.outs * rows.out * cols.out * blocks
    once, again = beyond((seen + given) * found.groups * size, p.device), (passes - 1) * beyond(seen * size, p.device)
    each = p.core.lanes_steps if cols.step > cols.taps else p.core.lanes_read
    return seen * (once + again) * each + given * once * p.core.lanes_read


def _variants(p: Problem, choice: Choice) -> list[Choice]:
    return [_with_tile(p, choice, t) for t in range(len(DOTS))]


def _with_tile(p: Problem, choice: Choice, tile: int) -> Choice:
    """With another tile its sums take other memory."""
    old = dict(choice.columns)
    taps = old["s_ins"] * old["s_taps_r"] * old["s_taps_c"]
    pitch = rounded(rounded(taps, DOTS[tile].vectors), p.lanes)
    each = p.lanes * p.real_bytes
    more = DOTS[tile].outs * pitch * each - DOTS[old["s_tile"]].outs * old["s_pitch"] * each
    return replace(with_columns(choice, s_tile=tile, s_pitch=pitch), scratch_bytes=choice.scratch_bytes + more)


STRATEGY: Final = Strategy(NAME, match, _variants)
