"""winograd_weight_gradient: the gradient of 3 x 3 weights by Winograd's algorithm, the batch in the lanes.

F(3 x 3, 2 x 2): the 9 weights that 2 x 2 pixels of the gradient and 4 x 4 pixels of the image give, by 16 products
instead of 36. Images are transformed as in winograd_conv. For each output, channel and place products are summed lane
by lane over all tiles of all blocks of the batch, then transformed to windows, whose lanes are summed by a fixed tree.
Four places of a strip of tiles are processed at a time, for `s_part` outputs. Lanes without a sample are masked.

Assumes: Contracts in gather form, the batch in the lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate: where there are many channels.
Does not: match other windows, or confine infinities and NaN to the weights that depend on them.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, rounded
from compiler.strategies.convolution import WeightGradient, by_vectors, extents, fastest_first, weight_gradient
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import DOTS, Shape, cost, on
from compiler.strategies.cpu.winograd.winograd_conv import PLACES, three
from compiler.strategies.strategy import Strategy, first_of, found_by

NAME = "winograd_weight_gradient"
STRIP = 65
"""Tiles that are summed at a time, at most; an odd number of vectors between channels, which powers of 2 would let
compete for the same lines of the cache."""
_TILES = tuple(n for n, t in enumerate(DOTS) if t.outs >= 3 and t.outs * t.vectors <= 20)
"""Those that leave registers for what is read ahead: operands come from the second cache."""
PART: Final = 12
"""Outputs that are summed at a time, or some times as many: whole register tiles."""
AGAIN: Final = 0.14
"""The share that counts of what is read in order."""
_MORE = max(t.outs for t in DOTS) - 1


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    found = weight_gradient(p)
    if not (three(found.rows) and three(found.cols)) or min(found.rows.tap, found.cols.tap) < 0:
        raise NotApplicable("the window is not 3 x 3 with steps of 1")
    refuse_beyond(PLACES * max(found.ins, found.outs) * STRIP * p.lanes)
    return fastest_first(_choice(p, found, n) for n in _TILES)


def _choice(p: Problem, found: WeightGradient, tile: int) -> Choice:
    rows, cols, shape = found.rows, found.cols, on(DOTS, p.device)[tile]
    blocks = -(-found.samples // p.lanes)
    tiles = blocks * -(-rows.out // 2) * -(-cols.out // 2)
    strip = -(-tiles // -(-tiles // STRIP)) | 1
    each = p.lanes * p.real_bytes
    most = p.within(constants.WINOGRAD_GRADIENT_SUMS_BYTES) // (PLACES * found.ins * each)
    many = max(1, most // PART)
    parts = sorted({min(found.outs, PART * n) for n in (many, *(2**k for k in range(many.bit_length())))})
    part, operations = min(((n, _operations(p, found, shape, tiles, strip, n)) for n in parts), key=lambda q: q[1])
    pitch = rounded(found.ins, shape.vectors)
    values = (
        named(blocks=blocks, samples=found.samples)
        | extents(found)
        | named(from_r=rows.low, from_c=cols.low, strip=strip, part=part, high=part + _MORE, pitch=pitch, tile=tile)
    )
    window = rounded(9 * found.ins, p.lanes)
    vectors = 4 * (found.ins * strip + 1 + part * strip) + PLACES * (part + _MORE) * pitch + window
    return by_vectors(NAME, found, values, vectors * each + 4 * strip, operations)


def _operations(p: Problem, found: WeightGradient, shape: Shape, tiles: int, strip: int, part: int) -> float:
    """Estimated vector operations of a group, `part` outputs at a time."""
    strips, parts = -(-tiles // strip), -(-found.outs // part)
    sums = PLACES * strips * parts * cost(shape, part, [(found.ins, strip)], core=p.core)
    images = parts * found.ins * constants.WINOGRAD_GRADIENT_IMAGE
    made = tiles * (images + found.outs * constants.WINOGRAD_GRADIENT_GRADIENT)
    made += found.outs * found.ins * constants.WINOGRAD_GRADIENT_SUM
    operations = p.core.winograd_gradient_sum * sums + p.core.winograd_gradient * made
    return operations + p.core.winograd_gradient_far * strips * parts * _far(p, found, shape, strip, part)


def _far(p: Problem, found: WeightGradient, shape: Shape, strip: int, part: int) -> float:
    """Vectors of a strip that come from beyond the second cache, half of which is for the rest: sums of all places, and
    for every four of them the pixels, and what is transformed of the gradient's again for each tile of channels."""
    sums, images, gradients = PLACES * part * found.ins, 4 * found.ins * strip, 4 * part * strip
    held = constants.second_cache(p.device) / 2 / (p.lanes * p.real_bytes)
    reads = sums + 8 * images + 4 * gradients * (1 + AGAIN * -(-found.ins // shape.vectors))
    return reads * max(0.0, 1 - held / (sums + 2 * (images + gradients)))


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants))
