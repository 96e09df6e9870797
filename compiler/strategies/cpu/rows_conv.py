"""rows_conv: convolutions of row-major images, adjacent pixels in the lanes.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, i * step + r * tap + from, ...] w(g, o, c, r, s), with or without g:
for batches that are too small for the batch in the lanes. The image is copied with its border, a plane for each
residue of the rows' step that the window sees, so that every tap reads adjacent elements for the pixels of a vector.
Where an output row fills whole vectors, so are the columns: a copy for each residue of their step. Otherwise there is
one for each column s of the window, aligned to the output's columns: output pixels are then one run of memory for
every tap. Where there are many output channels, what the window sees of three vectors of pixels is packed as a panel,
once for all of them, so that register tiles read it in order; a window of one pixel is packed from the image itself.
All weights are read again for each panel: a tile prefetches those of the next one and what its epilogue reads and
writes, and packing prefetches the pixels of the next panel. The sum runs in order of (channel, row, column), but for
the few pixels that would leave a vector almost empty: they are computed one by one, taps in the lanes, which a tree
adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_beyond, rounded
from compiler.strategies.convolution import Convolution, extents, row_major, strides_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import Shape, cost, weight_lines
from compiler.strategies.strategy import Strategy

NAME = "rows_conv"
OUTS, VECTORS = 8, 2
TAP_BYTES = 8
_TILE, _PANEL_TILE = Shape(OUTS, VECTORS, 105), Shape(OUTS, 3, 112)
_PANEL_RESTS = (Shape(OUTS, 1, 70), Shape(OUTS, 2, 105))
PANEL_OUTS: Final = 32
"""Output channels from which on panels are packed, where the image is larger than `NEAR_BYTES`."""
NEAR_BYTES = 128_000
"""Of an image that register tiles may read in place, as all of it stays near the processor."""
DOTS: Final = 4
"""Pixels behind the last whole vector, at most, that are computed one by one with neighbouring taps in the lanes."""


def match(p: Problem) -> Choice:
    conv = row_major(p)
    rows, cols = conv.rows, conv.cols
    backwards = any(a.taps > 1 and a.tap < 1 for a in (rows, cols))
    if rows.div != 1 or cols.div != 1 or min(rows.step, cols.step) < 1 or backwards:
        raise NotApplicable("it is the gradient of a convolution")
    vector = 64 // p.real_bytes
    high = (rows.step * (rows.out - 1) + rows.tap * (rows.taps - 1)) // rows.step + 1
    beyond = cols.tap * (cols.taps - 1) // cols.step
    whole = cols.out % vector == 0 and beyond > 0
    copies, wide = (cols.step, cols.out + beyond) if whole else (cols.taps, cols.out)
    phases = min(rows.step, rows.tap * (rows.taps - 1) + 1)
    plane = high * wide
    width = rounded(rows.out * cols.out, VECTORS * vector)
    planes = rounded(conv.ins * copies * phases * plane, vector) + VECTORS * vector
    refuse_beyond(planes)
    taps, masks = conv.ins * rows.taps * cols.taps, rounded(copies * plane, vector)
    strips = _strips(conv, taps, vector, planes * p.real_bytes > NEAR_BYTES)
    if strips.packed:
        width = strips.pixels + vector
        if _is_whole(conv):
            planes, masks = 0, 0
    values = (
        named(batch=conv.samples)
        | extents(conv)
        | named(
            taps_r=rows.taps,
            taps_c=cols.taps,
            step_r=rows.step,
            step_c=cols.step,
            tap_r=rows.tap,
            tap_c=cols.tap,
            from_r=rows.origin,
            from_c=cols.origin,
            high=high,
            copies=copies,
            phases=phases,
            wide=wide,
            width=width,
            strip=strips.pixels,
            packed=strips.packed,
            dots=strips.dots,
            planes=planes,
            masks=masks,
        )
        | strides_of(conv)
    )
    scratch = (planes + strips.packed + OUTS * width + masks) * p.real_bytes + 2 * taps * TAP_BYTES
    operations = constants.COPY * planes / vector + _operations(conv, strips, taps, vector)
    microseconds = conv.samples * conv.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (), tuple(values.items()), scratch, microseconds)


@dataclass(frozen=True)
class _Strips:
    """Output pixels of a strip; elements of it when packed, 0 where windows are read in place; pixels behind the last
    whole vector that are computed one by one."""

    pixels: int
    packed: int
    dots: int


def _strips(conv: Convolution, taps: int, vector: int, far: bool) -> _Strips:
    pixels, panel = conv.rows.out * conv.cols.out, _PANEL_TILE.vectors * vector
    by_tap = (conv.w_in, conv.w_r, conv.w_c) == (conv.rows.taps * conv.cols.taps, conv.cols.taps, 1)
    dots = pixels % vector if by_tap and pixels % vector <= DOTS else 0
    if conv.outs < PANEL_OUTS or not (far or dots):
        return _Strips(pixels, 0, 0)
    return _Strips(panel, taps * panel + dots * rounded(taps, vector), dots)


def _operations(conv: Convolution, strips: _Strips, taps: int, vector: int) -> float:
    """Vector operations of an image's sums and of packing."""
    pixels = conv.rows.out * conv.cols.out
    vectors = -(-pixels // vector) - (strips.dots > 0)
    if not strips.packed:
        return cost(_TILE, conv.outs, [(vectors, taps)])
    panels, rest = divmod(vectors, _PANEL_TILE.vectors)
    operations = panels * cost(_PANEL_TILE, conv.outs, [(_PANEL_TILE.vectors, taps)])
    operations += constants.ROWS_PACK * taps * vectors
    if conv.rows.taps * conv.cols.taps == 1:
        size = constants.VECTOR_BYTES // vector
        many = -(-vectors // _PANEL_TILE.vectors)
        operations += weight_lines(_PANEL_TILE, conv.outs, many, taps, conv.w_in * size, conv.weights * size)
    if rest:
        operations += cost(_PANEL_RESTS[rest - 1], conv.outs, [(rest, taps)])
    if strips.dots:
        operations += strips.dots * conv.outs * (constants.ROW_TERM * taps / vector + constants.ROW_SUM / OUTS)
    return operations


def _is_whole(conv: Convolution) -> bool:
    """Whether each tap sees the pixels of a channel as they lie in memory."""
    return all(a.taps == a.step == 1 and a.origin == 0 and a.out == a.extent for a in (conv.rows, conv.cols))


STRATEGY: Final = Strategy(NAME, match)
