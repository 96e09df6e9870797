"""rows_conv: convolutions of row-major images, adjacent pixels in the lanes.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, i * step + r * tap + from, ...] w(g, o, c, r, s), with or without g:
for batches that are too small for the batch in the lanes. The image is copied with its border, a plane for each
residue of the rows' step that the window sees, so that every tap reads adjacent elements for the pixels of a vector.
Where an output row fills whole vectors, so are the columns: a copy for each residue of their step. Otherwise there is
one for each column s of the window, aligned to the output's columns: output pixels are then one run of memory for
every tap. Where there are many output channels, what the window sees of three vectors of pixels is packed as a panel,
once for all of them, so that register tiles read it in order; a window of one pixel is packed from the image itself.
Gradients of images that a window sees in steps (`apart`): every pixel of a class, by its rows and columns modulo the
steps, sees the same of the window; classes share the planes, in steps of 1, or a panel of the taps of all.
All weights are read again for each panel: a tile prefetches those of the next one and what its epilogue reads and
writes, and packing prefetches the pixels of the next panel. The sum runs in order of (channel, row, column), but for
the few pixels that would leave a vector almost empty: they are computed one by one, taps in the lanes, which a tree
adds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.convolution import Convolution, extents, row_major, strides_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.cpu import VECTOR_BYTES
from compiler.strategies.cost.tiles import Shape, cost, weight_lines
from compiler.strategies.cpu.row_planes import planes_of
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

NAME = "rows_conv"
OUTS, VECTORS = 8, 2
TAP_BYTES = 8
_TILE, _NARROW_TILE, _PANEL_TILE = Shape(OUTS, VECTORS, 105), Shape(OUTS // 2, VECTORS, 86), Shape(OUTS, 3, 112)
_PANEL_RESTS = (Shape(OUTS, 1, 70), Shape(OUTS, 2, 105))
PANEL_OUTS: Final = 32
"""Output channels from which on panels are packed, where the image does not stay near the processor."""
DOTS: Final = 4
"""Pixels behind the last whole vector, at most, that are computed one by one with neighbouring taps in the lanes."""


def match(p: Problem) -> Choice:
    found = row_major(p)
    apart = max(found.rows.div, found.cols.div) > 1
    conv = _grid(found) if apart else found
    rows, cols = conv.rows, conv.cols
    backwards = any(a.taps > 1 and a.tap < 1 for a in (rows, cols))
    refuse_if(min(rows.step, cols.step) < 1 or backwards, "it is the gradient of a convolution")
    vector = VECTOR_BYTES // p.real_bytes
    width = rounded(rows.out * cols.out, VECTORS * vector)
    copy = planes_of(rows, cols, vector)
    planes = copy.elements(conv.ins)
    refuse_beyond(planes)
    masks = copy.masks
    taps = conv.ins * found.rows.taps * found.cols.taps
    strips = _strips(found, conv, taps, vector, planes * p.real_bytes > p.within(constants.ROWS_NEAR_BYTES))
    if strips.packed:
        width = strips.pixels + vector
        if _is_whole(conv):
            planes, masks = 0, 0
    values = (
        named(batch=conv.samples)
        | extents(conv)
        | named(taps_r=found.rows.taps, taps_c=found.cols.taps)
        | copy.columns
        | named(
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
    operations = copy.operations(conv.ins) if planes else 0.0
    classes = _classes(found)
    if apart:
        scratch += (len(classes) + 1) * TAP_BYTES
        values |= _classed(found.rows, found.cols)
        operations += constants.ROWS_APART * conv.outs * found.rows.out * found.cols.out
    operations += _operations(conv, strips, classes, vector)
    microseconds = conv.samples * conv.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (("apart", 1),) if apart else (), tuple(values.items()), scratch, microseconds)


def _classed(rows: WindowAxis, cols: WindowAxis) -> dict[str, int]:
    """The columns of pixels in classes."""
    sizes = named(all_rows=rows.out, all_cols=cols.out, div_r=rows.div, div_c=cols.div)
    return sizes | named(back_r=rows.tap, back_c=cols.tap, first_r=rows.origin, first_c=cols.origin)


def _grid(c: Convolution) -> Convolution:
    """The convolution of steps of 1 whose window sees what those of all classes of pixels see."""
    refuse_if(c.rows.taps * c.cols.taps == 1, "the window has one pixel: those that it sees are few")
    refuse_if(max(c.rows.step, c.cols.step) > 1, "pixels that are divided lie in steps")
    return replace(c, rows=_united(c.rows), cols=_united(c.cols))


def _united(axis: WindowAxis) -> WindowAxis:
    seen = [at for residue in _residues(axis) for at in residue]
    refuse_if(not seen, "no pixel is seen")
    out = -(-axis.out // axis.div)
    return WindowAxis(axis.extent, out, max(seen) - min(seen) + 1, 1, 1, min(seen), 1)


def _residues(axis: WindowAxis) -> list[list[int]]:
    """For each residue of the output's positions where the taps that divide are, for the first of them."""
    at = [[a + axis.tap * t + axis.origin for t in range(axis.taps)] for a in range(min(axis.div, axis.out))]
    return [[i // axis.div for i in found if i % axis.div == 0] for found in at]


def _classes(c: Convolution) -> list[int]:
    """Terms of the sums of each class of pixels."""
    return [c.ins * len(r) * len(s) for r in _residues(c.rows) for s in _residues(c.cols)]


@dataclass(frozen=True)
class _Strips:
    """Output pixels of a strip; elements of it when packed, 0 where windows are read in place; pixels behind the last
    whole vector that are computed one by one."""

    pixels: int
    packed: int
    dots: int


def _strips(found: Convolution, conv: Convolution, taps: int, vector: int, far: bool) -> _Strips:
    pixels, panel = conv.rows.out * conv.cols.out, _PANEL_TILE.vectors * vector
    by_tap = found is conv and (conv.w_in, conv.w_r, conv.w_c) == (conv.rows.taps * conv.cols.taps, conv.cols.taps, 1)
    dots = pixels % vector if by_tap and pixels % vector <= DOTS else 0
    if conv.outs < PANEL_OUTS or not (far or dots):
        return _Strips(pixels, 0, 0)
    return _Strips(panel, taps * panel + dots * rounded(taps, vector), dots)


def _ends(pixels: int, strip: int, vector: int) -> float:
    """Vector operations of what follows the sums of an output and class."""
    return -(-pixels // vector) * constants.ROWS_END + -(-pixels // strip) * constants.ROWS_END_LINE


def _operations(conv: Convolution, strips: _Strips, classes: list[int], vector: int) -> float:
    """Vector operations of an image's sums and of packing. `classes`: terms of the sums of each class of pixels."""
    pixels, taps = conv.rows.out * conv.cols.out, sum(classes)
    vectors = -(-pixels // vector) - (strips.dots > 0)
    ends = conv.outs * len(classes) * _ends(pixels, strips.pixels, vector)
    if not strips.packed:
        tile = _TILE if conv.outs > _NARROW_TILE.outs else _NARROW_TILE
        return ends + sum(cost(tile, conv.outs, [(vectors, terms)]) for terms in classes)
    panels, rest = divmod(vectors, _PANEL_TILE.vectors)
    operations = panels * sum(cost(_PANEL_TILE, conv.outs, [(_PANEL_TILE.vectors, terms)]) for terms in classes)
    operations += constants.ROWS_PACK * taps * vectors
    if conv.rows.taps * conv.cols.taps == 1:
        size = constants.VECTOR_BYTES // vector
        many = -(-vectors // _PANEL_TILE.vectors)
        operations += weight_lines(_PANEL_TILE, conv.outs, many, taps, conv.w_in * size, conv.weights * size)
    if rest:
        operations += sum(cost(_PANEL_RESTS[rest - 1], conv.outs, [(rest, terms)]) for terms in classes)
    if strips.dots:
        operations += strips.dots * conv.outs * (constants.ROW_TERM * taps / vector + constants.ROW_SUM / OUTS)
    return operations + ends


def _is_whole(conv: Convolution) -> bool:
    """Whether each tap sees the pixels of a channel as they lie in memory."""
    return all(a.taps == a.step == 1 and a.origin == 0 and a.out == a.extent for a in (conv.rows, conv.cols))


STRATEGY: Final = Strategy(NAME, match)
