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
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, either, named, refuse_if
from compiler.strategies.convolution import FIRST, Walked, of_image
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.strategy import Strategy
from compiler.strategies.tilings import MOST_TILES
from compiler.strategies.window import WindowAxis

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
ORDERS: Final = (*FIRST, 3)
"""Axes that may be that of channels, where rows and columns have strides."""
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


def window_of(x: WindowAxis) -> Window:
    """The walk of an axis."""
    first = x.origin + min(0, x.tap) * (x.taps - 1)
    return Window(x.out, x.taps, x.step, x.tap, x.div, alignment(first, x.extent))


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
        return named(
            tile=self.tile,
            strips=self.strips,
            rows=self.rows,
            samples=self.samples,
            blocks=self.blocks,
            deep=self.deep,
            channels=self.channels,
        )


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


def walked(p: Problem, x: Walked, taps: range) -> Convolution:
    """What was recognised as a convolution, or as one's gradient, as the kernels here walk it; `taps`: of a row of its
    window."""
    refuse_if(x.groups > 1 or len(p.out) != 4, "its channels are in groups")
    rows, cols = window_of(x.rows), window_of(x.cols)
    if sum(len(a.terms) == 2 for a in p.axes(x.vector)) != 2 or max(rows.step, cols.step) > 2:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    if cols.taps not in taps or abs(cols.tap) > 2:
        raise NotApplicable("the window is too narrow or too wide to be held in registers")
    refuse_if(min(p.extents.values()) == 0, "it is empty")
    return Convolution(x.vector, x.samples, x.outs, rows.out, cols.out, x.ins, rows, cols)


def convolution(
    p: Problem, image: int, taps: range = TAPS, most: int = 1, orders: Sequence[int] = FIRST
) -> Convolution:
    """A contraction as a convolution of the operand `image`; its rows and columns are divided by at most `most`;
    `taps`: of a row of its window; `orders`: which axis may be that of channels."""
    refuse_if(p.lanes, "the batch is in the lanes")
    found = of_image(p, image, orders)
    refuse_if(not (found.rows.div == found.cols.div <= most), "rows or columns are divided")
    x, elements = walked(p, found, taps), prod(p.operands[image].shape[1:])
    refuse_if(max(found.weights, elements, x.n, x.i * x.j) >= LIMIT, "it is larger than 32-bit indices reach")
    return x


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
    us = cost.direct_us(best.cycles, device)
    return Choice(name, literals, tuple(best.columns.items()), 0, us)


STRATEGY: Final = Strategy(NAME, lambda p: either(0, partial(_match, p)), windows=True, strided=True)
