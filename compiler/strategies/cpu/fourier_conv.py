"""fourier_conv: convolutions of stride 1 by Fourier transforms of tiles, the batch in the lanes.

M. Mathieu, M. Henaff and Y. LeCun, Fast training of convolutional networks through FFTs (arXiv:1312.5851, 2014), by
tiles of 16 x 16 pixels that overlap by the window less one (overlap-save). Of the 256 frequencies of a real tile 130
are independent; each complex product is three real ones (Gauss), so that 390 places are summed over the channels in
the register tiles that lanes_conv has too. Input gradients are such convolutions that walk the window backwards.
Rounding grows with the logarithm of the tile, not with the number of terms: the error is below that of direct sums
where windows are large.

Assumes: Contracts in gather form, the batch in the lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate: large windows, many channels.
Does not: match strides or dilation, or confine infinities and NaN to the pixels that depend on them: they spread within
a tile.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.convolution import Convolution, by_vectors, convolution, extents, fastest_first, walk_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, cost, on
from compiler.strategies.strategy import Found, Strategy, first_of, found_by
from compiler.strategies.window import WindowAxis

NAME = "fourier_conv"
SIDE = 16
PLACES = 390
LEAST, MOST = 3, 13
"""Taps along an axis."""
TERMS = 200
"""From so many terms on the error is no larger than that of a float32 sum in order (tests/cpu/test_fourier.py)."""
TAP_BYTES = 8
_TILES = tuple(n for n, t in enumerate(TILES) if t.outs >= 4)


def match_by(p: Problem, of: Found) -> Choice:
    """The fastest of the variants by estimate, where sums are long enough to be as exact as direct ones."""
    if prod(e for d, e in p.extents.items() if d not in p.out) < TERMS:
        raise NotApplicable(f"direct sums of fewer than {TERMS} terms are more exact")
    return first_of(of)(p)


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    refuse_if(not p.lanes, "its tensors have no lanes")
    conv = convolution(p)
    if not (steady(conv.rows) and steady(conv.cols)):
        raise NotApplicable(f"the window is not of {LEAST} to {MOST} neighbours with steps of 1")
    refuse_beyond(max(conv.ins, conv.outs) * SIDE * p.lanes * 32)
    return fastest_first(_choice(p, conv, n) for n in _TILES)


def steady(axis: WindowAxis) -> bool:
    """Whether a tile covers the window along the axis, at every position."""
    return LEAST <= axis.taps <= MOST and axis.step == 1 and axis.div == 1 and abs(axis.tap) == 1


def tiles_of(axis: WindowAxis) -> int:
    return -(-axis.out // (SIDE + 1 - axis.taps))


def _choice(p: Problem, conv: Convolution, tile: int) -> Choice:
    rows, cols, shape = conv.rows, conv.cols, on(TILES, p.device)[tile]
    tiles = p.blocks(p.out[0]) * tiles_of(rows) * tiles_of(cols)
    strip = p.strip(tiles, shape.vectors, PLACES * (conv.ins + conv.outs), constants.FOURIER_STRIP_BYTES)
    values = (
        named(blocks=p.blocks(p.out[0]))
        | extents(conv)
        | named(taps_r=rows.taps, taps_c=cols.taps)
        | walk_of(conv)
        | named(strip=strip, tile=tile)
    )
    vectors = (conv.ins + conv.outs) * strip + 2 + -(-conv.outs // p.lanes) * (conv.ins + 1)
    scratch = PLACES * p.lanes * vectors * p.real_bytes + conv.ins * TAP_BYTES
    pairs = conv.ins * rounded(conv.outs, p.lanes) / p.lanes
    near = p.core.fourier_near if scratch <= p.within(constants.FOURIER_NEAR_BYTES) else p.core.fourier
    operations = PLACES * cost(shape, conv.outs, [(tiles, conv.ins)], p.within(constants.TILE_NEAR_BYTES), core=p.core)
    transforms = (
        tiles * (conv.ins * constants.FOURIER_IMAGE + conv.outs * constants.FOURIER_BACK)
        + pairs * constants.FOURIER_WEIGHTS
    )
    operations += near * transforms
    return by_vectors(NAME, conv, values, scratch, operations)


STRATEGY: Final = Strategy(NAME, partial(match_by, of=variants), found_by(variants), products="float32")
