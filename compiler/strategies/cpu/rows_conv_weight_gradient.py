"""rows_conv_weight_gradient: the gradient of a convolution's weights, operands row-major, adjacent pixels in the lanes.

y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)], with or without g: for
groups of few channels, whose products of matrices would be almost empty. A group of an image is copied with its border
as rows_conv does, so that a vector of pixels of the gradient meets one of the copy for every tap. A tile is some output
channels by some taps (c, r, s), summed per lane; then the lanes are summed by a fixed tree. Pixels behind the last
whole vector are one whose other lanes are masked.

Assumes: Contracts in gather form, no lanes.
Guarantees: taken by estimate.
Does not: match windows that are walked backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.convolution import extents, fastest_first, weight_gradient
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.cpu import VECTOR_BYTES
from compiler.strategies.cost.tiles import ROWS_GRADIENTS, cost, on, part
from compiler.strategies.cpu.row_planes import planes_of
from compiler.strategies.strategy import Strategy, first_of, found_by

NAME = "rows_conv_weight_gradient"
TAP_BYTES, PLACE_BYTES = 8, 4


def variants(p: Problem) -> Sequence[Choice]:
    """The choice for each register tile, the fastest by estimate first."""
    refuse_if(p.lanes, "its tensors are not row-major")
    return fastest_first(_choice(p, n) for n in range(len(ROWS_GRADIENTS)))


def _choice(p: Problem, tile: int) -> Choice:
    found, shape = weight_gradient(p), on(ROWS_GRADIENTS, p.device)[tile]
    rows, cols = found.rows, found.cols
    refuse_if(any(a.step < 1 or (a.taps > 1 and a.tap < 1) for a in (rows, cols)), "the window is walked backwards")
    vector = VECTOR_BYTES // p.real_bytes
    copy = planes_of(rows, cols, vector)
    planes = copy.elements(found.ins)
    refuse_beyond(planes)
    taps, pixels = found.ins * rows.taps * cols.taps, rows.out * cols.out
    size = part(taps, ROWS_GRADIENTS, p.core)
    lines = max(rounded(found.outs, t.outs) for t in ROWS_GRADIENTS)
    width = max(rounded(rounded(taps, t.vectors), vector) for t in ROWS_GRADIENTS)
    values = (
        named(batch=found.samples)
        | extents(found)
        | named(taps_r=rows.taps, taps_c=cols.taps)
        | copy.columns
        | named(planes=planes, masks=copy.masks, lines=lines, width=width, part=size, tile=tile)
    )
    scratch = lines * (width + 1) * VECTOR_BYTES + (vector + planes + copy.masks) * p.real_bytes
    scratch += taps * TAP_BYTES + (pixels // vector + 1) * PLACE_BYTES
    whole, rest = divmod(-(-pixels // vector), size)
    sums = cost(shape, found.outs, [(taps, size)] * whole + [(taps, rest)], core=p.core)
    if found.outs > shape.outs and planes * p.real_bytes > p.within(constants.TILE_CACHE_BYTES):
        sums *= 1 + (constants.TILE_FAR - 1) * min(1.0, rows.step / rows.taps)  # rows that no other tap reads
    beyond = max(0.0, (planes * p.real_bytes - constants.second_cache(p.device) / 2) / VECTOR_BYTES)
    operations = found.samples * (copy.operations(found.ins, p.core) + p.core.far_copy * beyond + sums)
    operations += constants.WINDOW_LANES * found.outs * rounded(taps, vector)
    us = found.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (("vector", found.vector),), tuple(values.items()), scratch, us)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants))
