"""winograd4_conv: 3 x 3 convolutions of stride 1 by Winograd's algorithm in larger tiles, the batch in the lanes.

F(4 x 4, 3 x 3) of A. Lavin and S. Gray (arXiv:1509.09308, 2015): tiles of 6 x 6 pixels, 4 apart, and the weights are
transformed to 36 places each; 36 products in place of 144 for 16 pixels of the output, where winograd_conv takes 64.
The polynomials are evaluated at 0, 5/8, -5/8, 3/2, -3/2 and infinity, which round half as much as the points 0, 1, -1,
2, -2 do. What is left grows with the sums over the channels: they are made of chunks, each summed in order, so that
the whole rounds less than a direct sum in order from `LEAST` channels on (tests/cpu/test_winograd4.py). Places are
taken one after the other, those of a strip of many tiles, as the weights of all of them are many. Input gradients are
such convolutions that walk the window backwards.

Assumes: Contracts in gather form, the batch in the lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate.
Does not: match other windows, fewer channels, float64, or confine infinities and NaN to the pixels that depend on
them: they spread within a tile.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.convolution import Convolution, by_vectors, convolution, extents, fastest_first, walk_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, Shape, cost, on
from compiler.strategies.cpu.winograd.winograd_conv import REUSING, TAP_BYTES, three
from compiler.strategies.strategy import Strategy, first_of, found_by

NAME = "winograd4_conv"
PLACES = 36
LEAST: Final = 192
"""Channels from which on the error is no larger than that of a float32 sum in order."""


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    conv = convolution(p)
    refuse_if(not (three(conv.rows) and three(conv.cols)), "the window is not 3 x 3 with steps of 1")
    if conv.ins < LEAST or p.real_bytes != 4:
        raise NotApplicable(f"direct sums over fewer than {LEAST} channels, or of float64, are more exact")
    refuse_beyond(conv.ins * p.lanes * max(_strip(p, conv, TILES[n]) for n in REUSING))
    return fastest_first(_choice(p, conv, n) for n in REUSING)


def _chunk(conv: Convolution) -> int:
    """Channels that are summed in order."""
    return 128 if conv.ins >= 512 else 64 if conv.ins >= 256 else 32


def _tiles(p: Problem, conv: Convolution) -> int:
    return p.blocks(p.out[0]) * -(-conv.rows.out // 4) * -(-conv.cols.out // 4)


def _strip(p: Problem, conv: Convolution, shape: Shape) -> int:
    return p.strip(_tiles(p, conv), shape.vectors, PLACES * (conv.ins + conv.outs), constants.WINOGRAD4_STRIP_BYTES)


def _choice(p: Problem, conv: Convolution, tile: int) -> Choice:
    shape = on(TILES, p.device)[tile]
    strip, tiles, chunk = _strip(p, conv, shape), _tiles(p, conv), _chunk(conv)
    values = (
        named(blocks=p.blocks(p.out[0])) | extents(conv) | walk_of(conv) | named(strip=strip, tile=tile, chunk=chunk)
    )
    vectors = (conv.ins + conv.outs) * strip + 2 + -(-conv.outs // p.lanes) * (conv.ins + 1)
    scratch = PLACES * p.lanes * vectors * p.real_bytes + conv.ins * TAP_BYTES
    pairs = conv.ins * rounded(conv.outs, p.lanes)
    sums = -(-conv.ins // chunk) * cost(shape, conv.outs, [(tiles, min(chunk, conv.ins))], core=p.core)
    operations = PLACES * p.core.winograd4_sum * sums
    transforms = conv.ins * constants.WINOGRAD4_IMAGE + conv.outs * constants.WINOGRAD4_BACK
    operations += p.core.winograd4 * tiles * transforms
    operations += pairs * (constants.WINOGRAD4_WEIGHTS + constants.WINOGRAD4_FAR * -(-tiles // strip))
    return by_vectors(NAME, conv, values, scratch, operations)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants), products="float32")
