"""lanes_conv: convolutions with the batch in the lanes, and the gradients of their inputs.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, rows(i, r), cols(j, s)] w(g, o, c, r, s), with or without g. Vectors
hold one pixel of a block of the batch, weights are broadcast scalars read in place; a tile is some output channels by
some output pixels. Stride, dilation, padding, groups and the division of a strided gradient are columns: offsets of
terms and pixels are tabulated once per call. Where indices have a divisor, or where much of the window lies outside the
image, pixels with the same taps form a class with its own table. Where an image does not fit into the second cache, all
output channels of a strip of pixels are computed before the next strip. The sum runs in order of (row of the window,
channel, column of the window).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from compiler.strategies.choice import LIMIT, Choice, Problem, named, refuse_beyond, rounded
from compiler.strategies.convolution import Convolution, convolution, strides_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.tiles import TILES, Walk, beyond, cost, on, weight_lines
from compiler.strategies.strategy import Strategy, by_tile
from compiler.strategies.window import WindowAxis, columns

NAME = "lanes_conv"
HIDDEN: Final = 0.2
"""The share of sums that goes on while vectors come from beyond the second cache."""
PIXEL_BYTES, TAP_BYTES, CLASS_BYTES = 16, 8, 24


def match(p: Problem) -> Choice:
    conv = convolution(p)
    rows, cols = conv.rows, conv.cols
    tile, split, operations = _tile(p, conv.outs, conv.ins, rows, cols)
    copy = rows.leaves or (cols.leaves and not split)
    walk = columns(rows, cols, copy, split)
    channels = conv.groups * conv.ins
    pixels = channels * walk["s_all_rows"] * walk["s_all_cols"]
    image = pixels * p.lanes
    refuse_beyond(image >= LIMIT or conv.weights)
    row_classes, col_classes = rows.classes(False), cols.classes(split)
    classes, places = len(row_classes) * len(col_classes), rows.out * cols.out
    strip = _strip(p, conv, image * p.real_bytes // conv.groups, places)
    terms = conv.ins * sum(r_taps * c_taps for _, r_taps in row_classes for _, c_taps in col_classes)
    blocks = p.blocks(p.out[0])
    values = (
        named(blocks=blocks, groups=conv.groups, outs=conv.outs, ins=conv.ins)
        | walk
        | strides_of(conv)
        | named(
            split=int(split),
            classes=classes,
            tile=tile,
            strip=strip,
        )
    )
    scratch = (
        (image // conv.groups * p.real_bytes if copy else 0)
        + classes * CLASS_BYTES
        + places * PIXEL_BYTES
        + terms * TAP_BYTES
    )
    operations += _far(p, conv, tile, strip, operations, copy)
    operations = conv.groups * (operations + _weights(p, conv, tile, strip))
    operations += conv.groups * conv.outs * places * p.core.lanes_end + _steps(p, conv, blocks)
    operations += p.core.border * pixels if copy else 0.0
    microseconds = blocks * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (("vector", conv.vector),), tuple(values.items()), scratch, microseconds)


def _strip(p: Problem, conv: Convolution, image: int, places: int) -> int:
    """Output pixels of a row whose windows fit into the second cache, where an image of so many bytes does not."""
    near = p.within(constants.TILE_CACHE_BYTES)
    if image <= near:
        return places
    seen = near // (conv.ins * conv.rows.taps * constants.VECTOR_BYTES)
    return max(1, (seen - abs(conv.cols.tap) * (conv.cols.taps - 1)) // max(conv.cols.step, 1))


def _weights(p: Problem, conv: Convolution, tile: int, strip: int) -> float:
    """Vector operations of reading weights of a window of one pixel for all strips."""
    rows, cols, size = conv.rows, conv.cols, p.real_bytes
    if rows.taps * cols.taps > 1:
        return 0.0
    strips = -(-rows.out * cols.out // (rows.div * cols.div) // strip)
    return weight_lines(TILES[tile], conv.outs, strips, conv.ins, conv.w_in * size, conv.weights * size, p.core)


def _far(p: Problem, conv: Convolution, tile: int, strip: int, sums: float, copy: bool) -> float:
    """Vector operations of a group of a block for what comes from beyond the second cache: the image, or the copy with
    its border that was made before, once, as far as no sums go on meanwhile; and again for each tile of outputs what
    the windows of a strip see, where that does not stay, and for each strip the weights."""
    rows, cols, shape, bytes_ = conv.rows, conv.cols, TILES[tile], constants.VECTOR_BYTES
    image = conv.ins * min(rows.extent * cols.extent, rows.out * cols.out * rows.taps * cols.taps)
    whole = image if copy else image * conv.groups * p.blocks(p.out[0])
    once = image * max(0.0, p.core.lanes_image - HIDDEN * sums / image) * min(1.0, beyond(whole * bytes_, p.device))
    pixels = rounded(min(strip, rows.out * cols.out), shape.vectors)
    seen = conv.ins * rows.taps * min(cols.extent, abs(cols.step) * (pixels - 1) + cols.taps)
    strips = -(-rows.out * cols.out // pixels)
    if max(rows.div, cols.div) > 1:  # classes see parts of the window
        return once
    again = beyond(seen * bytes_, p.device) * seen * (-(-conv.outs // shape.outs) - 1)
    lines = beyond(conv.weights * p.real_bytes, p.device) * conv.weights * p.real_bytes / bytes_
    return once + p.core.lanes_image * strips * (again + lines / conv.groups)


def _steps(p: Problem, conv: Convolution, blocks: int) -> float:
    """Vector operations for the pixels of a block that lie between those that a window sees in steps."""
    vectors = conv.groups * conv.outs * conv.rows.out * conv.cols.out
    if max(conv.rows.div, conv.cols.div) == 1:
        return 0.0
    far = blocks * vectors * constants.VECTOR_BYTES > p.within(constants.STEPS_BYTES)
    return vectors * (constants.STEPS_FAR if far else p.core.steps_near)


def _tile(p: Problem, outs: int, ins: int, rows: WindowAxis, cols: WindowAxis) -> tuple[int, bool, float]:
    """The tile; whether output columns are split by the columns of the window that they see, which avoids products with
    the border, but fits tiles less well; and the vector operations of a block and group."""
    by_residue = [[frozenset(rows.seen(i)) for i in range(first, rows.out, rows.div)] for first in range(rows.div)]
    by_residue = [seen for seen in by_residue if seen]
    each = sum(len(taps) for seen in by_residue for taps in seen) / rows.out

    def whole_rows(classes: list[tuple[int, int]]) -> list[tuple[float, float]]:
        return [(rows.out / rows.div * n, each * taps * ins) for n, taps in classes] * rows.div

    def in_tiles(classes: list[tuple[int, int]], vectors: int) -> list[tuple[float, float]]:
        """A class of pixels each. Tiles on a border of rows that see others of the window sum what either sees."""
        found = list[tuple[float, float]]()
        for seen in by_residue:
            steps = sum(len(x ^ y) for x, y in pairwise(seen))
            most, mean = len(frozenset[int]().union(*seen)), sum(map(len, seen)) / len(seen)
            for n, taps in classes:
                more = p.core.tile_rows * steps * (vectors - 1) / (2 * n * len(seen))
                found.append((n * len(seen), min(most, mean + more) * taps * ins))
        return found

    near, walk = (
        _near(p, ins * rows.extent * cols.extent * constants.VECTOR_BYTES),
        Walk(cols.step, cols.taps / cols.div),
    )
    shapes = on(TILES, p.device)

    def best(classes: list[tuple[int, int]]) -> tuple[int, float]:
        """The tile, and its estimate as those of other strategies were fitted: all rows see as much."""
        costs = [cost(s, outs, in_tiles(classes, s.vectors), near, walk, p.core) for s in shapes]
        tile = costs.index(min(costs))
        return tile, cost(shapes[tile], outs, whole_rows(classes), near, walk, p.core)

    whole, apart = best(cols.classes(False)), best(cols.classes(True))
    split = cols.leaves and apart[1] < 0.95 * whole[1]
    return (apart[0], True, apart[1]) if split else (whole[0], False, whole[1])


def _near(p: Problem, image: int) -> float:
    """Bytes of vectors of a sum that the first cache holds: where reading from the second one costs sums nothing but
    time, all tiles read an image from there that is larger."""
    near = p.within(constants.TILE_NEAR_BYTES)
    return near if p.core.tile_wait else 0.0 if image > near else math.inf


STRATEGY: Final = Strategy(NAME, match, by_tile(TILES))
