"""winograd_conv: 3 x 3 convolutions of stride 1 by Winograd's algorithm, the batch in the lanes.

F(2 x 2, 3 x 3) of A. Lavin and S. Gray, Fast algorithms for convolutional neural networks (arXiv:1509.09308, 2015),
section 4.1: tiles of 4 x 4 pixels, 2 pixels apart, and the weights are transformed to 16 places each; products are
taken place by place (16 instead of 36 for 4 pixels of the output) in the register tiles that lanes_conv has too; sums
are transformed back to 2 x 2 pixels. Input gradients are such convolutions that walk the window backwards. `s_strip`
tiles of all channels are transformed at a time. Sums run in order of the channel; they round about as direct sums do.

Assumes: Contracts in gather form, the batch in the lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate: where there are many channels.
Does not: match other windows, or confine infinities and NaN to the pixels that depend on them: they spread within a
tile.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_beyond, refuse_if
from compiler.strategies.convolution import Convolution, by_vectors, convolution, extents, fastest_first, walk_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, Shape, cost, on
from compiler.strategies.strategy import Strategy, first_of, found_by
from compiler.strategies.window import WindowAxis

NAME = "winograd_conv"
PLACES = 16
TAP_BYTES = 8
REUSING = tuple(n for n, t in enumerate(TILES) if t.outs >= 4 and t.vectors >= 2)
"""Register tiles that use each vector and each weight several times: both come from the second cache."""


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    conv = convolution(p)
    refuse_if(not (three(conv.rows) and three(conv.cols)), "the window is not 3 x 3 with steps of 1")
    refuse_beyond(PLACES * (conv.ins + 1) * p.lanes * max(_strip(p, conv, TILES[n]) for n in REUSING))
    return fastest_first(_choice(p, conv, n) for n in REUSING)


def near_places(p: Problem) -> float:
    """Bytes of the first cache for the vectors of one place."""
    return p.within(constants.TILE_NEAR_BYTES) / p.core.places


def weights_cost(p: Problem, conv: Convolution, strips: int) -> float:
    """Transforming the weights, and reading them for each strip where they are many, in vector operations."""
    pairs = conv.ins * conv.outs
    lines = PLACES * p.real_bytes / constants.VECTOR_BYTES
    far = PLACES * pairs * p.real_bytes > p.within(constants.WINOGRAD_CACHE_BYTES)
    more = constants.WINOGRAD_FAR + p.core.winograd_read * constants.FAR_VECTOR * lines * strips if far else 0.0
    return pairs * (p.core.winograd_weights + more)


def three(axis: WindowAxis) -> bool:
    """Whether the window has 3 neighbours along the axis, at every position."""
    return axis.taps == 3 and axis.step == 1 and axis.div == 1 and abs(axis.tap) == 1


def _tiles(p: Problem, conv: Convolution) -> int:
    return p.blocks(p.out[0]) * -(-conv.rows.out // 2) * -(-conv.cols.out // 2)


def _strip(p: Problem, conv: Convolution, shape: Shape) -> int:
    return p.strip(_tiles(p, conv), shape.vectors, PLACES * conv.ins, constants.WINOGRAD_STRIP_BYTES)


def _choice(p: Problem, conv: Convolution, tile: int) -> Choice:
    shape = on(TILES, p.device)[tile]
    strip, tiles = _strip(p, conv, shape), _tiles(p, conv)
    values = named(blocks=p.blocks(p.out[0])) | extents(conv) | walk_of(conv) | named(strip=strip, tile=tile)
    image, sums = conv.ins * strip + 1, shape.outs * shape.vectors
    weights = -(-conv.outs // p.lanes) * (conv.ins + 1)
    scratch = PLACES * (p.lanes * (image + sums + weights) * p.real_bytes + conv.ins * TAP_BYTES)
    operations = PLACES * cost(shape, conv.outs, [(tiles, conv.ins)], near_places(p), core=p.core)
    operations += tiles * (conv.ins * p.core.winograd_image + conv.outs * p.core.winograd_back) + weights_cost(
        p, conv, -(-tiles // strip)
    )
    return by_vectors(NAME, conv, values, scratch, operations)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants))
