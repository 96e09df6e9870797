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
from compiler.strategies.cost.cores import Core
from compiler.strategies.cost.cpu import VECTOR_BYTES
from compiler.strategies.cost.devices import MEASURED_CORE
from compiler.strategies.cost.tiles import Shape, beyond, cost, weight_lines
from compiler.strategies.cpu.row_planes import planes_of
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

NAME = "rows_conv"
OUTS, VECTORS = 8, 2
TAP_BYTES = 8
PANEL_VECTORS = 3
"""Of a panel."""
PANEL_OUTS: Final = 32
"""Output channels from which on panels are packed, where the image does not stay near the processor."""
STREAMS: Final = 32
"""Places that a processor reads in order and foresees."""
DOTS: Final = 4
"""Pixels behind the last whole vector, at most, that are computed one by one with neighbouring taps in the lanes."""


def match(p: Problem) -> Choice:
    found = row_major(p)
    apart = max(found.rows.div, found.cols.div) > 1
    conv = grid(found) if apart else found
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
    operations = copy.operations(conv.ins, p.core) if planes else 0.0
    classes = classes_of(found)
    if apart:
        scratch += (len(classes) + 1) * TAP_BYTES
        values |= classed(found.rows, found.cols)
        operations += p.core.apart * conv.outs * found.rows.out * found.cols.out
    plane = copy.high * copy.wide
    alone = conv.ins > STREAMS and found.rows.taps * found.cols.taps == 1
    lone = alone and plane % vector > 0 and plane * p.real_bytes >= MEASURED_CORE.foreseen
    operations += _operations(p, conv, strips, classes, planes, lone)
    microseconds = conv.samples * conv.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (("apart", 1),) if apart else (), tuple(values.items()), scratch, microseconds)


def classed(rows: WindowAxis, cols: WindowAxis) -> dict[str, int]:
    """The columns of pixels in classes."""
    sizes = named(all_rows=rows.out, all_cols=cols.out, div_r=rows.div, div_c=cols.div)
    return sizes | named(back_r=rows.tap, back_c=cols.tap, first_r=rows.origin, first_c=cols.origin)


def grid(c: Convolution) -> Convolution:
    """The convolution of steps of 1 whose window sees what those of all classes of pixels see."""
    refuse_if(c.rows.taps * c.cols.taps == 1, "the window has one pixel: those that it sees are few")
    refuse_if(max(c.rows.step, c.cols.step) > 1, "pixels that are divided lie in steps")
    return replace(c, rows=_united(c.rows), cols=_united(c.cols))


def _united(axis: WindowAxis) -> WindowAxis:
    seen = [at for residue in residues(axis) for at in residue]
    refuse_if(not seen, "no pixel is seen")
    out = -(-axis.out // axis.div)
    return WindowAxis(axis.extent, out, max(seen) - min(seen) + 1, 1, 1, min(seen), 1)


def residues(axis: WindowAxis) -> list[list[int]]:
    """For each residue of the output's positions where the taps that divide are, for the first of them."""
    at = [[a + axis.tap * t + axis.origin for t in range(axis.taps)] for a in range(min(axis.div, axis.out))]
    return [[i // axis.div for i in found if i % axis.div == 0] for found in at]


def classes_of(c: Convolution) -> list[int]:
    """Terms of the sums of each class of pixels."""
    return [c.ins * len(r) * len(s) for r in residues(c.rows) for s in residues(c.cols)]


@dataclass(frozen=True)
class _Strips:
    """Output pixels of a strip; elements of it when packed, 0 where windows are read in place; pixels behind the last
    whole vector that are computed one by one."""

    pixels: int
    packed: int
    dots: int


def _strips(found: Convolution, conv: Convolution, taps: int, vector: int, far: bool) -> _Strips:
    pixels, panel = conv.rows.out * conv.cols.out, PANEL_VECTORS * vector
    by_tap = found is conv and (conv.w_in, conv.w_r, conv.w_c) == (conv.rows.taps * conv.cols.taps, conv.cols.taps, 1)
    dots = pixels % vector if by_tap and pixels % vector <= DOTS else 0
    if conv.outs < PANEL_OUTS or not (far or dots):
        return _Strips(pixels, 0, 0)
    return _Strips(panel, taps * panel + dots * rounded(taps, vector), dots)


def _operations(p: Problem, conv: Convolution, strips: _Strips, classes: list[int], planes: int, lone: bool) -> float:
    """Vector operations of an image's sums, of packing, and of what lies far. `classes`: terms of the sums of each
    class of pixels; `lone`: whether no prefetcher follows the taps, whose vectors lie in two lines of a cache each."""
    vector, core = VECTOR_BYTES // p.real_bytes, p.core
    pixels, taps = conv.rows.out * conv.cols.out, sum(classes)
    vectors = -(-pixels // vector) - (strips.dots > 0)
    ends = -(-pixels // vector) * core.end + -(-pixels // strips.pixels) * core.end_line
    operations = conv.outs * len(classes) * ends + core.far_copy * _far(p, planes)
    if not strips.packed:
        tile = Shape(OUTS, VECTORS, core.pair) if conv.outs > OUTS // 2 else Shape(OUTS // 2, VECTORS, core.narrow)
        alone = vectors % VECTORS if conv.outs > OUTS // 2 else 0  # the last vector
        passes = -(-conv.outs // tile.outs) * len(classes)
        operations += passes * _far(p, planes) * _far_read(p, planes)
        operations += _weights(p, conv, tile, 1, taps) if core.near_weights else 0.0
        if planes * p.real_bytes > p.within(constants.TILE_NEAR_BYTES) and lone:
            operations += core.tile_split * -(-conv.outs // tile.outs) * vectors * taps
        return (
            operations
            + _sums(core, tile, conv, vectors - alone, classes)
            + alone * _sums(core, _one(p), conv, 1, classes)
        )
    panels, rest = divmod(vectors, PANEL_VECTORS)
    tiles = (
        (Shape(OUTS, PANEL_VECTORS, core.whole), panels),
        ((_one(p), Shape(OUTS, 2, core.pair))[rest - 1], rest > 0),
    )
    for tile, many in tiles:
        operations += many * _sums(core, tile, conv, tile.vectors, classes) + _weights(p, conv, tile, many, taps)
    operations += core.pack * taps * vectors
    hidden = OUTS * 118 / core.whole
    again = beyond(strips.packed * p.real_bytes, p.device) * (-(-conv.outs // OUTS) - 1)
    operations += max(0.0, core.far_read - hidden) * again * taps * vectors
    if strips.dots and not vectors:
        lines = conv.weights * p.real_bytes / VECTOR_BYTES / conv.groups
        operations += max(0.0, core.far_read - core.dot) * lines * beyond(conv.weights * p.real_bytes, p.device)
    if strips.dots:
        operations += strips.dots * (conv.outs * (core.dot * taps / vector + core.dot_end) + core.dot_pack * taps)
    return operations


def _one(p: Problem) -> Shape:
    return Shape(OUTS, 1, p.core.single)


def _sums(core: Core, tile: Shape, conv: Convolution, vectors: int, classes: list[int]) -> float:
    return sum(cost(tile, conv.outs, [(vectors, terms)], core=core) for terms in classes)


def _far(p: Problem, planes: int) -> float:
    """Vectors of the copied image that come from beyond the second cache."""
    size = planes * p.real_bytes
    return size / VECTOR_BYTES * beyond(size, p.device)


def _far_read(p: Problem, planes: int) -> float:
    """Reading one of them: neighbours in memory are pixels of other tiles. From beyond the third cache, which has the
    image, too, each is waited for."""
    beyond = 2 * planes * p.real_bytes > p.within(MEASURED_CORE.caches[2])
    return p.core.far_alone if beyond else p.core.far_read


def _weights(p: Problem, conv: Convolution, tile: Shape, strips: int, taps: int) -> float:
    """Vector operations of reading weights that lie far for each strip, beside the sums meanwhile."""
    size, weights = p.real_bytes, conv.weights * p.real_bytes
    apart = conv.rows.taps * conv.cols.taps == 1 and conv.w_in > 1
    if apart and conv.w_in * size >= MEASURED_CORE.foreseen:
        return weight_lines(tile, conv.outs, strips, taps, conv.w_in * size, weights, p.core)
    lines = strips * rounded(conv.outs, tile.outs) * taps * (1 / tile.outs if apart else size / VECTOR_BYTES)
    hidden = (tile.outs if apart else VECTOR_BYTES // size) * tile.vectors * 118 / tile.speed
    if weights > constants.second_cache(p.device) / 2:
        return lines * max(0.0, p.core.far_weights - hidden)
    return lines * p.core.near_weights if apart and taps * VECTOR_BYTES > p.within(constants.TILE_NEAR_BYTES) else 0.0


def _is_whole(conv: Convolution) -> bool:
    """Whether each tap sees the pixels of a channel as they lie in memory."""
    return all(a.taps == a.step == 1 and a.origin == 0 and a.out == a.extent for a in (conv.rows, conv.cols))


STRATEGY: Final = Strategy(NAME, match)
