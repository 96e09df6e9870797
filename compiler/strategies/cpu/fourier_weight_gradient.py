"""fourier_weight_gradient: the gradient of weights of stride 1 by Fourier transforms of tiles.

The tiles of fourier_conv: the gradient's pixels of a tile, padded with zeros, are correlated with the 16 x 16 pixels of
the image that they saw. Images are transposed so that input channels stand in the lanes; the gradients' frequencies
are scalars; a sum runs over the samples of each tile in order, then over strips of tiles. Lanes without a sample have
no terms.

Assumes: Contracts in gather form, the batch in the lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate: large windows, many channels.
Does not: match strides or dilation, or confine infinities and NaN to the weights that depend on them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, refuse_if
from compiler.strategies.convolution import WeightGradient, by_vectors, extents, fastest_first, weight_gradient
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, cost, on
from compiler.strategies.cpu.fourier_conv import PLACES, SIDE, TAP_BYTES, match_by, steady, tiles_of
from compiler.strategies.strategy import Strategy, found_by

NAME = "fourier_weight_gradient"
_TILES = tuple(n for n, t in enumerate(TILES) if t.outs >= 4)


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    refuse_if(not p.lanes, "its tensors have no lanes")
    found = weight_gradient(p)
    if not (steady(found.rows) and steady(found.cols)) or min(found.rows.tap, found.cols.tap) < 0:
        raise NotApplicable("the window is not one of a few neighbours with steps of 1")
    refuse_beyond(SIDE * 16 * p.lanes * max(found.ins, found.outs))
    return fastest_first(_choice(p, found, n) for n in _TILES)


def _choice(p: Problem, found: WeightGradient, tile: int) -> Choice:
    rows, cols, shape = found.rows, found.cols, on(TILES, p.device)[tile]
    blocks, parts = -(-found.samples // p.lanes), -(-found.ins // p.lanes)
    tiles = blocks * tiles_of(rows) * tiles_of(cols)
    each = p.lanes * p.real_bytes
    strip = max(
        1, min(tiles, p.within(constants.FOURIER_STRIP_BYTES) // (PLACES * each * (p.lanes * parts + found.outs)), 8)
    )
    values = (
        named(blocks=blocks, samples=found.samples)
        | extents(found)
        | named(taps_r=rows.taps, taps_c=cols.taps, from_r=rows.low, from_c=cols.low, strip=strip, tile=tile)
    )
    vectors = strip * (p.lanes * parts + found.outs) + found.outs * parts + 3
    scratch = (PLACES * vectors + p.lanes * SIDE * SIDE) * each + strip * p.lanes * TAP_BYTES
    strips, samples = -(-tiles // strip), min(found.samples, p.lanes)
    operations = PLACES * strips * cost(shape, found.outs, [(parts, strip * samples)], core=p.core)
    sums, near = PLACES * found.outs * parts, scratch <= p.within(constants.FOURIER_GRADIENT_NEAR_BYTES)
    operations += sums * (strips * constants.FOURIER_GRADIENT_SUM + (0.0 if near else constants.FOURIER_FAR_SUM))
    transforms = (
        tiles * (samples * parts + found.outs) * constants.FOURIER_IMAGE + found.outs * parts * constants.FOURIER_BACK
    )
    operations += p.core.fourier_gradient * (constants.FOURIER_NEAR if near else 1.0) * transforms
    return by_vectors(NAME, found, values, scratch, operations)


STRATEGY: Final = Strategy(NAME, partial(match_by, of=variants), found_by(variants), products="float32")
