"""direct_conv: a convolution (or the gradient of its input) of row-major operands, summed in registers.

y[n, o, i, j] = sum over c, r, s of x[n, c, rows(i, r), cols(j, s)] w(o, c, r, s), without groups, where rows and cols
step without division: forward convolutions of any stride and dilation, and input gradients of stride 1. A thread has a
strip of 4 adjacent pixels of a row by `outs` outputs, and reads a row of the image once for all taps of the window
along it. A block stages some channels of the image (with their border) and of the weights in shared memory.

Assumes: Contracts in gather form, no lanes. The image may be a tensor of windows (l1.Tensor.windows): these are spread
where they are staged.
Guarantees: how a block's threads are laid out is data (`s_...`), by estimated time from the extents and the device;
only the number of taps along a row is structure. Sums run in the order of c, r, s; with `s_deep` > 1 threads share the
channels, and their sums are added in order.
Does not: match groups, strided input gradients, or windows of one tap (implicit_gemm does).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import gcd, prod
from typing import Final, TypeVar

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, either, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.strategy import Strategy
from compiler.strategies.tilings import MOST_TILES

NAME = "direct_conv"
STRIP = 4
"""Pixels of a thread."""
OUTS = (8, 4, 6)
"""Outputs of a thread, by number (`s_tile`)."""
THREADS = 256
BUFFER_BYTES = 40960
"""Shared memory of a block, which every device has without asking."""
TAPS = range(2, 12)
"""Of a row of the window."""
ORDERS: Final = (1, 3)
"""Axes that may be that of channels, where rows and columns have strides."""
T = TypeVar("T")
Literals = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Window:
    """The walk of an axis of the image: index = (step * out + tap * t + origin) / div. `wide`: how many elements are
    copied at once, as lines of the image and where the walk begins are aligned."""

    out: int
    taps: int
    step: int
    tap: int
    div: int = 1
    wide: int = 1

    def span(self, outs: int) -> int:
        """Elements that `outs` adjacent outputs read."""
        return -(-((outs - 1) * self.step + (self.taps - 1) * abs(self.tap)) // self.div) + 1


def rounded_pitch(elements: int) -> int:
    """Elements of a line in shared memory: an odd number of fours, so that lines begin in different banks."""
    fours = -(-elements // STRIP)
    return STRIP * (fours + 1 - fours % 2)


def line_pitch(strips: int, cols: Window) -> int:
    """Elements of a staged line of the image under `strips` strips; a thread reads whole fours."""
    window = -(-cols.span(STRIP) // STRIP) * STRIP
    return rounded_pitch((strips - 1) * STRIP * cols.step + window)


def window_of(axis: Affine, size: int, out: str, tap: str, extents: dict[str, int]) -> Window | None:
    """The walk of one axis of `size` elements, or None where its index is of another form."""
    terms = dict(axis.terms)
    if set(terms) != {out, tap} or not 1 <= terms[out] <= 2 or (axis.div != 1 and terms[out] != 1):
        return None
    first = axis.const + min(0, terms[tap]) * (extents[tap] - 1)
    return Window(extents[out], extents[tap], terms[out], terms[tap], axis.div, alignment(first, size))


def alignment(*places: int) -> int:
    """Neighbours, at most STRIP, of which places in memory are multiples."""
    return gcd(STRIP, *places)


def copying(lines: int, pitch: int, wide: int) -> float:
    """Estimated warp instructions for staging lines by copies of `wide` elements."""
    return lines * (pitch / wide + 6) / 32 * 28


@dataclass(frozen=True, order=True)
class Layout:
    """A block has `strips` (of STRIP pixels; in tensor_conv of one) x `rows` of `samples` samples, by `blocks` blocks
    of outputs, by `deep` shares of the terms; `channels` are staged at a time. `cycles`: estimated total time."""

    cycles: float
    tile: int
    strips: int
    rows: int
    samples: int
    blocks: int
    deep: int
    channels: int

    @property
    def columns(self) -> dict[str, int]:
        return {
            "s_tile": self.tile,
            "s_strips": self.strips,
            "s_rows": self.rows,
            "s_samples": self.samples,
            "s_blocks": self.blocks,
            "s_deep": self.deep,
            "s_channels": self.channels,
        }


def even_parts(total: int, most: int, many: int) -> Iterator[int]:
    """Sizes of equal parts of `total`, at most `most` each, the largest first, of few more than `many` parts; none
    repeats."""
    last = 0
    for parts in range(1, total + 1):
        size = -(-total // parts)
        if size <= most and size != last:
            last = size
            yield size
        if parts > many and size < most:
            return


def _layouts(n: int, o: int, c: int, rows: Window, cols: Window, real_bytes: int, device: Target) -> Iterator[Layout]:
    words, arithmetic = BUFFER_BYTES // real_bytes, H200.lanes / device.lanes
    window = -(-cols.span(STRIP) // STRIP) * STRIP
    all_strips = -(-cols.out // STRIP)
    for tile, outs in enumerate(OUTS):
        issue = cols.taps * (STRIP * outs + outs // alignment(outs) + 1) + window // 4 + 12
        for blocks in even_parts(-(-o // outs), 4, 16):
            for strips in even_parts(all_strips, 32, 16):
                pitch = line_pitch(strips, cols)
                for height in even_parts(rows.out, THREADS // (strips * blocks), 16):
                    tile_threads = strips * height * blocks
                    for samples in {1, 2, 4, max(1, min(n, THREADS // tile_threads))}:
                        if samples > n or samples * tile_threads > THREADS:
                            continue
                        for deep in (1, 2, 4):
                            threads = samples * tile_threads * deep
                            if threads > THREADS or deep > c or samples * tile_threads * STRIP * outs > words:
                                continue
                            channel = samples * rows.span(height) * pitch + rows.taps * cols.taps * outs * blocks
                            many = min(c, words // channel)
                            if many < min(c, deep):
                                continue
                            many = min(many, -(-c // -(-c // many)))
                            stages = -(-c // many)
                            grid = -(-n // samples) * -(-rows.out // height) * -(-all_strips // strips)
                            grid *= -(-o // (outs * blocks))
                            terms = -(-many // deep) * stages * rows.taps
                            warps = -(-threads // 32)
                            lines = stages * many * samples * rows.span(height)
                            copies = copying(lines, pitch, cols.wide) + 1.0 * c * rows.taps * cols.taps * outs * blocks
                            waiting = stages * cost.DIRECT_STAGE + cost.DIRECT_START + terms * (issue * 1.1 + 40)
                            storing = warps * (200 + (10 + 10 / strips) * STRIP * outs)
                            working = (warps * terms * issue * 1.2 + copies + storing) / 4 + 300
                            processors = device.processors
                            waves = -(-grid // (processors * cost.DIRECT_RESIDENT))
                            cycles = 0.5 * waves * waiting + -(-grid // processors) * working * arithmetic
                            yield Layout(cycles, tile, strips, height, samples, blocks, deep, many)


@cache
def layout(n: int, o: int, c: int, rows: Window, cols: Window, real_bytes: int, device: Target = H200) -> Layout | None:
    """The layout with the least estimated time; None where nothing fits into shared memory."""
    return min(_layouts(n, o, c, rows, cols, real_bytes, device), key=lambda x: x.cycles, default=None)


def tiles(values: dict[str, int], n: int, o: int, i: int, j: int) -> int:
    """Blocks of a product whose columns are `values`."""
    outs = OUTS[values["s_tile"]] * values["s_blocks"]
    wide = STRIP * values["s_strips"]
    return -(-n // values["s_samples"]) * -(-o // outs) * -(-i // values["s_rows"]) * -(-j // wide)


@dataclass(frozen=True)
class Convolution:
    """Extents (samples, outputs, output rows and columns, channels) and the walks of its window; `image`: the operand
    that is walked."""

    image: int
    n: int
    o: int
    i: int
    j: int
    c: int
    rows: Window
    cols: Window


def channels_first(axes: Sequence[T], channels: int) -> tuple[T, T, T, T]:
    """(batch, channels, rows, columns) of what there is of four axes; `channels`: the number of that of channels."""
    rest = (*axes[:channels], *axes[channels + 1 :])
    return rest[0], axes[channels], rest[1], rest[2]


def convolution(p: Problem, image: int, taps: range = TAPS, most: int = 1, orders: Sequence[int] = (1,)) -> Convolution:
    """A contraction as a convolution of the operand `image`; its rows and columns are divided by at most `most`;
    `taps`: of a row of its window; `orders`: which axis may be that of channels."""
    refuse_if(p.lanes, "the batch is in the lanes")
    weights = p.plain(1 - image)
    own = next((a for a in orders if len(p.out) == 4 and p.out[a] in weights), None)
    if own is None:
        raise NotApplicable("the output is not (batch, channels, rows, columns)")
    n, o, i, j = channels_first(p.out, own)
    x, w = p.operands[image], p.operands[1 - image]
    walked = p.plain(image)
    at = next((a for a in orders if len(walked) == 4 and walked[a] is not None and walked[a] not in p.out), None)
    if at is None or walked[0] != n:
        raise NotApplicable("the image's axes are not (batch, channels, rows, columns)")
    c = walked[at]
    _, _, by_row, by_col = channels_first(p.axes(image), at)
    rest = [d for d in p.extents if d not in {*p.out, c}]
    if len(rest) != 2 or None in weights or set(weights) != {o, c, *rest} or len(weights) != 4:
        raise NotApplicable("the weights' axes are not plain dims of (outputs, channels, window)")
    extents = dict(p.extents)
    assert c is not None
    refuse_if((x.shape[0], x.shape[at]) != (extents[n], extents[c]), "an operand is only partly read")
    _, _, high, wide = channels_first(x.shape, at)
    walks = [
        (window_of(by_row, high, i, r, extents), window_of(by_col, wide, j, s, extents)) for r, s in (rest, rest[::-1])
    ]
    rows, cols = next((x for x in walks if None not in x), (None, None))
    if rows is None or cols is None:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    refuse_if(not (rows.div == cols.div <= most), "rows or columns are divided")
    if cols.taps not in taps or abs(cols.tap) > 2:
        raise NotApplicable("the window is too narrow or too wide to be held in registers")
    if prod(w.shape) >= LIMIT or prod(x.shape[1:]) >= LIMIT or extents[n] >= LIMIT or extents[i] * extents[j] >= LIMIT:
        raise NotApplicable("it is larger than 32-bit indices reach")
    refuse_if(min(extents.values()) == 0, "it is empty")
    return Convolution(image, extents[n], extents[o], extents[i], extents[j], extents[c], rows, cols)


def _match(p: Problem, image: int) -> Choice:
    x = convolution(p, image)
    best = layout(x.n, x.o, x.c, x.rows, x.cols, p.real_bytes, p.device)
    if best is None:
        raise NotApplicable("its window does not fit into shared memory")
    refuse_if(p.operands[1 - image].windows, "no window of its image has one element alone")
    more = literals_of(image, p.operands[image])
    return choice(x, NAME, best, tiles(best.columns, x.n, x.o, x.i, x.j), p.device, more)


def literals_of(operand: int, tensor: l1.Tensor) -> Literals:
    """Which operand is of windows that have one element, if it is, and how many rows and columns they have."""
    return (("chosen", operand), ("down", tensor.windows[2]), ("along", tensor.windows[3])) if tensor.windows else ()


def choice(x: Convolution, name: str, best: Layout, blocks: int, device: Target, more: Literals = ()) -> Choice:
    """The choice of a layout that has so many blocks; `more` literals."""
    refuse_if(blocks > MOST_TILES, "it has more tiles than a launch may have blocks")
    literals = (("image", x.image), ("taps", x.cols.taps), *more)
    us = best.cycles / cost.DIRECT_CYCLES_PER_US * cost.waits(device)
    return Choice(name, literals, tuple(best.columns.items()), 0, us)


STRATEGY: Final = Strategy(NAME, lambda p: either(0, partial(_match, p)), windows=True)
