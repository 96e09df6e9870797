"""tensor_conv: convolutions (or gradients of their input) of row-major operands on matrix units, by warps (mma.sync).

What direct_conv computes, as products of 16 pixels by 8 outputs by 16 channels for each tap of the window. A block
stages some channels of its pixels, with their border, and of the weights in shared memory, with the channels of a pixel
side by side, so that a tap is an offset. Kinds, by parts of bf16 whose sum a factor is: `float32` (three, of whose nine
products the six largest are summed, as in tensor_products), `tf32` (two: 16 bits), `bf16` (one), and `stored`: both
operands are bf16 in memory.

Assumes: what direct_conv assumes; float32.
Guarantees: how pixels and outputs are shared by warps is data (`s_...`), by estimated time from the extents and the
device. In the gradient of a strided convolution's input, whose rows and columns are divided, the pixels of a warp have
the same rests, and so the same taps. Sums run over stages of channels, inside of them over the rows of the window and
its taps; with `s_deep` > 1 warps share rows and channels, and their sums are added in order. Where a factor is not
finite, so are its sums, but NaN in place of an infinity.
Does not: match groups, or gradients of larger strides (implicit_gemm does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from math import prod
from types import MappingProxyType
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import Choice, NotApplicable, Problem, either, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda.direct_conv import ORDERS, Convolution, Layout, Window, choice, convolution
from compiler.strategies.strategy import Strategy

NAME: Final = "tensor_conv"
KINDS: Final = MappingProxyType({"float32": 3, "tf32": 2, "bf16": 1, "stored": 1})
"""Parts of a factor, by kind."""
PIXELS, OUTS, DEEP = 16, 8, 16
"""Of an instruction: pixels, outputs, channels."""
TILES: Final = ((1, 2), (2, 2), (2, 4))
"""Products of a warp by number (`s_tile`): groups of PIXELS, groups of OUTS."""
TAPS: Final = range(1, 12)
"""Of a row of the window."""
WARPS: Final = 8
BESIDE_BYTES: Final = 3 * 1024
"""Shared memory of a block beside the buffers of its stages."""
RESIDENT: Final = 2
"""Blocks that a processor's registers hold."""
APART: Final = 8
"""Numbers between the channels of neighbouring pixels, for the banks of shared memory."""
LEAST_TERMS: Final = 16
"""A float32 sum of few in order is more exact."""


DIVISOR: Final = 2
"""Of rows and columns, at most."""


def outs_of(values: dict[str, int]) -> int:
    """Outputs of a block whose columns are `values`."""
    return TILES[values["s_tile"]][1] * OUTS * values["s_blocks"]


def tiles(values: dict[str, int], n: int, o: int, i: int, j: int) -> int:
    """Blocks of a convolution whose columns are `values`."""
    return (
        -(-n // values["s_samples"])
        * -(-o // outs_of(values))
        * -(-i // values["s_rows"])
        * -(-j // values["s_strips"])
    )


def room(device: Target) -> int:
    """Shared memory for the stages of a block, at most."""
    return max(device.shared_block - BESIDE_BYTES, 0)


def resident(size: int, device: Target) -> int:
    """Blocks of so much shared memory that a processor holds."""
    return min(RESIDENT, max(device.shared_processor // (size + device.shared_kept), 1))


def shared_bytes(values: dict[str, int], parts: int, rows: Window, cols: Window) -> int:
    """Shared memory of a block: operands of a stage, or sums."""
    outs = outs_of(values)
    pixels = values["s_samples"] * values["s_rows"] * values["s_strips"]
    image = rows.span(values["s_rows"]) * cols.span(values["s_strips"])
    numbers = values["s_samples"] * image + rows.taps * cols.taps * outs
    staged = parts * 2 * (values["s_channels"] + APART) * numbers
    return max(staged, 4 * outs * (rounded(pixels, PIXELS) + 4))


def _sizes(total: int, most: int, div: int) -> list[int]:
    """Sizes of equal parts of `total`, multiples of `div`, at most `most` each, the largest first."""
    parts = range(1, min(total, 64) + 1)
    return sorted({size for n in parts if (size := rounded(-(-total // n), div)) <= most})[::-1]


def _layouts(x: Convolution, parts: int, device: Target) -> Iterator[Layout]:
    div, most_bytes = x.rows.div, room(device)
    for tile, (tall, wide) in enumerate(TILES):
        most = WARPS * tall * PIXELS
        for cols in _sizes(x.j, most, div)[:4]:
            for rows in _sizes(x.i, most // cols, div)[:4]:
                for samples in {1, 2, 4, max(1, min(x.n, most // (rows * cols)))}:
                    high = div**2 * -(-samples * rows * cols // (div**2 * tall * PIXELS))
                    if samples > x.n or high > WARPS:
                        continue
                    for blocks in {1, 2, 4, WARPS // high}:
                        if high * blocks > WARPS or (blocks > 1 and (blocks - 1) * wide * OUTS >= x.o):
                            continue
                        for channels in (16, 32, 64):
                            deep = min(
                                WARPS // (high * blocks), x.rows.taps * min(channels, rounded(x.c, DEEP)) // DEEP
                            )
                            if channels > rounded(x.c, DEEP):
                                continue
                            found = Layout(0.0, tile, cols, rows, samples, blocks, max(deep, 1), channels)
                            values = found.columns
                            size = shared_bytes(values, parts, x.rows, x.cols)
                            if size <= most_bytes:
                                grid = tiles(values, x.n, x.o, x.i, x.j)
                                cycles = _cycles(x, parts, device, found, outs_of(values), grid, size, high * blocks)
                                yield Layout(cycles, tile, cols, rows, samples, blocks, max(deep, 1), channels)


def _cycles(
    x: Convolution, parts: int, device: Target, t: Layout, outs: int, grid: int, size: int, warps: int
) -> float:
    """The estimated time of a layout of `grid` blocks, each of so many outputs, bytes of shared memory and warps."""
    (tall, wide), taps = TILES[t.tile], x.rows.taps * x.cols.taps
    stages = -(-x.c // t.channels)
    here = min(resident(size, device), max(grid // device.processors, 1))
    each = taps / x.rows.div**2 * t.channels / DEEP
    products = parts * (parts + 1) // 2 * tall * wide * each
    loads = parts * (tall + wide // 2) * each
    pixels = t.samples * x.rows.span(t.rows) * x.cols.span(t.strips) + taps * outs
    staging = pixels * t.channels / OUTS / 32 * (40 + 16 * parts) / 4
    busy = stages * (warps * max(products * cost.TENSOR_CONV_PRODUCT, loads * 4.0) + staging)
    busy += t.samples * t.rows * t.strips * outs / 32 * 20 / 4
    waiting = (
        stages * (cost.TENSOR_CONV_STAGE + products / max(t.deep, 1) * cost.TENSOR_CONV_WAIT) + cost.TENSOR_CONV_START
    )
    waves = -(-grid // (device.processors * here))
    long = cost.crowded(cost.TENSOR_CONV_CROWDED, waves) if parts == KINDS["float32"] else 1.0
    return cost.TENSOR_CONV_MEASURED * long * waves * max(waiting + busy, here * busy)


@cache
def layout(x: Convolution, parts: int, device: Target = H200) -> Layout | None:
    """The layout with the least estimated time; None where nothing fits into shared memory."""
    return min(_layouts(x, parts, device), default=None)


def refuse_types(p: Problem, kind: str) -> None:
    """Raises NotApplicable where a kind does not apply to operands."""
    refuse_if(p.real_bytes != 4, "its reals are not float32")
    refuse_if(kind == "stored" and p.stored != (True, True), "its operands are not both bf16")
    refuse_if(kind != "stored" and any(p.stored), "an operand is bf16")


def _match(p: Problem, image: int, kind: str) -> Choice:
    x = convolution(p, image, TAPS, DIVISOR, ORDERS)
    refuse_types(p, kind)
    if kind == "float32" and x.c * x.rows.taps * x.cols.taps < LEAST_TERMS:
        raise NotApplicable("its sums are too short to be as exact as those in order")
    best = layout(x, KINDS[kind], p.device)
    if best is None:
        raise NotApplicable("its window does not fit into shared memory")
    found = choice(x, f"{NAME}_{kind}", best, tiles(best.columns, x.n, x.o, x.i, x.j), p.device)
    us = found.microseconds * (cost.TENSOR_CONV_STORED if kind == "stored" else 1.0)
    if p.out[-1] in p.plain(1 - image):  # channels come last, and neighbouring threads have pixels
        sectors = cost.TENSOR_CONV_SECTOR * prod(p.node.out.shape) / cost.TENSOR_CONV_WRITTEN
        us += sectors / 1e3 / (p.device.bandwidth or H200.bandwidth)
    return replace(found, microseconds=us)


def strategies(name: str, image: int, match: Callable[..., Choice]) -> tuple[Strategy, ...]:
    """A strategy for each kind, whose image is that operand, or the other one. Products of factors that are bf16 in
    memory are exact."""

    def of(kind: str) -> Strategy:
        stored = kind == "stored"

        def tried(p: Problem) -> Choice:
            return either(image, partial(match, p, kind=kind))

        return Strategy(f"{name}_{kind}", tried, products="exact" if stored else kind, bf16=stored, strided=True)

    return tuple(map(of, KINDS))


STRATEGIES: Final = strategies(NAME, 0, _match)
