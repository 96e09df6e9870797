"""winograd_rows: 3 x 3 convolutions of stride 1 of row-major images by Winograd's algorithm, tiles in the lanes.

The transforms are those of winograd_conv. A vector holds one place of neighbouring tiles, row after row of them;
weights are scalars again. `s_high` rows of tiles are processed at a time: few stay near for all outputs, many fill
their vectors and read the weights less often. Pixels are copied with their border, deinterleaved into even and odd
columns, transformed along the columns, then along the rows; sums are transformed back and their columns interleaved.
The weights are transformed at every call.

Assumes: Contracts in gather form, no lanes.
Guarantees: taken where fewer products outweigh the transforms, by estimate: where there are many channels and pixels.
Does not: match other windows, or input gradients.
"""

from __future__ import annotations

from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, rounded
from compiler.strategies.convolution import Convolution, extents, fastest_first, row_major, strides_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.devices import MEASURED_CORE
from compiler.strategies.cost.tiles import TILES, cost, on
from compiler.strategies.cpu.winograd.winograd_conv import PLACES, TAP_BYTES, near_places, three, weights_cost
from compiler.strategies.strategy import Strategy, first_of, found_by

NAME = "winograd_rows"


_TILES = tuple(n for n, t in enumerate(TILES) if t.outs >= 4)


def variants(p: Problem) -> list[Choice]:
    """The choice for each register tile, at its best height, the fastest by estimate first."""
    conv = row_major(p)
    if not (three(conv.rows) and three(conv.cols)) or min(conv.rows.tap, conv.cols.tap) < 0:
        raise NotApplicable("the window is not 3 x 3 with steps of 1")
    refuse_beyond(PLACES * (conv.ins + 1) * (constants.WINOGRAD_STRIP_BYTES + conv.cols.out * constants.VECTOR_BYTES))
    tile_rows = -(-conv.rows.out // 2)
    heights = sorted({-(-tile_rows // strips) for strips in range(1, tile_rows + 1)})
    return fastest_first(fastest_first(_choice(p, conv, n, high) for high in heights)[0] for n in _TILES)


def _choice(p: Problem, conv: Convolution, tile: int, high: int) -> Choice:
    rows, cols, shape = conv.rows, conv.cols, on(TILES, p.device)[tile]
    lanes = constants.VECTOR_BYTES // p.real_bytes
    tile_rows, tile_cols = -(-rows.out // 2), -(-cols.out // 2)
    vectors = -(-high * tile_cols // lanes)
    strip = rounded(vectors, shape.vectors)
    wide = 2 * tile_cols + 3
    padded = rounded((2 * high + 2) * wide + 2 * lanes, lanes)
    plane = rounded((high + 1) * tile_cols + lanes, lanes)
    values = (
        named(batch=conv.samples)
        | extents(conv)
        | named(from_r=rows.low, from_c=cols.low)
        | strides_of(conv)
        | named(high=high, wide=wide, padded=padded, plane=plane, strip=strip, tile=tile)
    )
    transformed = conv.ins * strip + 1 + -(-conv.outs // lanes) * (conv.ins + 1)
    sums = shape.outs * (PLACES * shape.vectors + 4 * strip)
    scratch = (PLACES * transformed + sums) * constants.VECTOR_BYTES + (padded + 8 * plane) * p.real_bytes
    scratch += PLACES * conv.ins * TAP_BYTES
    lines = (2 * high + 2) * -(-tile_cols // lanes)
    operations = PLACES * cost(shape, conv.outs, [(vectors, conv.ins)], near_places(p), core=p.core)
    image = PLACES * conv.ins * strip
    far = max(0.0, image - p.within(MEASURED_CORE.caches[1] // 2) / constants.VECTOR_BYTES)
    alone = shape.vectors == 1 < strip
    again = constants.FAR_LINE if alone else constants.FAR_VECTOR
    operations += far * (-(-conv.outs // shape.outs) * p.core.winograd_read * again + p.core.winograd_far)
    operations += (
        conv.ins * (lines * p.core.winograd_rows_line + vectors * p.core.winograd_rows_image)
        + conv.outs * vectors * p.core.winograd_rows_back
    )
    times = conv.samples * -(-tile_rows // high)
    total = times * operations + weights_cost(p, conv, times)
    return Choice(NAME, (), tuple(values.items()), scratch, conv.groups * total / constants.OPERATIONS_PER_US)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants))
