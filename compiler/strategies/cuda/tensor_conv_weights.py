"""tensor_conv_weights: the gradient of a convolution's weights from row-major operands, on matrix units.

What direct_conv_weights computes, as products of 16 outputs by 8 channels by 16 pixels for each tap of the window. A
block stages rows of one sample of both operands as tensor_conv does, with the channels of a pixel side by side. A warp
has the sums of 16 outputs by 16 channels for a row of taps; where there are more warps, they share the pixels, and
blocks share the samples. Partial sums are joined by fixed trees, as in direct_conv_weights.
Kinds are those of tensor_conv.

Assumes: what direct_conv_weights assumes; float32.
Guarantees: the layout is data (`s_...`), from the extents and the device, so the bits are too. Where a factor is not
finite, so are its sums, but NaN in place of an infinity.
Does not: match groups, or wider windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Final

import compiler.strategies.cuda.direct_conv_weights as direct
from compiler.ir.level2.target import Target
from compiler.strategies.choice import Choice, NotApplicable, Problem, named, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import tensor_conv
from compiler.strategies.cuda.direct_conv import ORDERS, Convolution, Window
from compiler.strategies.cuda.tensor_conv import APART, KINDS

NAME: Final = "tensor_conv_weights"
TAPS: Final = range(1, 8)
"""Of a row of the window: a warp's sums are in registers."""
WARPS: Final = 12
THREADS: Final = 32 * WARPS
SIDE: Final = 16
"""Outputs, and channels, of a warp."""


@dataclass(frozen=True, order=True)
class Layout:
    """A tile has `outs` outputs by `channels` channels; `rows` rows are staged at a time; `splits` blocks share the
    samples of a tile. `cycles`: estimated total time; `total`: with what kernels that run beside it wait for."""

    total: float
    cycles: float
    outs: int
    channels: int
    rows: int
    splits: int


def tile(blocks: int, channels: int, taps: int) -> tuple[int, int]:
    """Outputs and channels of a tile whose columns are given."""
    return blocks * direct.outs_of(taps), channels


def shared_bytes(tile: tuple[int, int], high: int, parts: int, rows: Window, cols: Window) -> int:
    """Bytes of a block with `high` rows of pixels: operands of a stage and a line of zeros, or sums, of a tile, or of
    the warps that share it but half of them."""
    outs, channels = tile
    own, image = high * cols.out + 1, rows.span(high) * cols.span(cols.out)
    warps = rows.taps * outs * channels // SIDE**2
    half = 1 << max(WARPS // warps - 1, 0).bit_length() >> 1
    staged = 2 * parts * (own * (outs + APART) + image * (channels + APART))
    return max(staged, 4 * cols.taps * SIDE**2 * warps * max(half, 1))


def _layouts(x: Convolution, parts: int, device: Target) -> Iterator[Layout]:
    taps = x.rows.taps * x.cols.taps
    pairs = parts * (parts + 1) // 2
    for outs, channels in ((16, 16), (32, 16), (16, 32), (32, 32), (64, 16), (64, 32)):
        if outs > rounded(x.o, SIDE) or channels > rounded(x.c, SIDE):
            continue
        shares = WARPS * SIDE * SIDE // (outs * channels * x.rows.taps)
        if shares == 0:
            continue
        for bands in range(1, min(x.i, 16) + 1):
            found = Layout(0.0, 0.0, outs, channels, -(-x.i // bands), 1)
            size = shared_bytes((outs, channels), found.rows, parts, x.rows, x.cols)
            if size > tensor_conv.room(device):
                continue
            units = x.n * -(-x.i // found.rows)
            tiles = -(-x.o // outs) * -(-x.c // channels)
            steps = -(-found.rows * x.j // 16 // shares) or 1
            image = ((found.rows - 1) * x.rows.step + x.rows.span(1)) * (x.j * x.cols.step + x.cols.span(1))
            staging = (found.rows * x.j * outs + image * channels) / 8 / 32 * (40 + 16 * parts) / 4
            products = steps * x.cols.taps * 2 * pairs
            busy = staging + (WARPS // shares * shares) * products * cost.TENSOR_CONV_PRODUCT
            waiting = cost.TENSOR_CONV_STAGE + products * cost.TENSOR_CONV_WAIT
            resident = tensor_conv.resident(size, device)
            most = device.processors * resident
            for share in (0.25, 0.5, 1.0):
                splits = max(1, min(units, int(most * share) // tiles))
                each = -(-units // splits)
                blocks = splits * tiles
                waves, here = -(-blocks // most), min(resident, -(-blocks // device.processors))
                working = cost.TENSOR_CONV_MEASURED * waves * each * max(waiting + busy, here * busy)
                if parts == KINDS["float32"]:
                    working *= cost.crowded(cost.TENSOR_CONV_WEIGHTS_CROWDED, waves * each)
                trees = -(-outs * channels * taps // 1024) * (isqrt(splits) / 4 + 1) * 700
                join = 2 * (cost.WEIGHTS_JOIN + trees) if splits > 1 else 0.0
                cycles = working + join + cost.TENSOR_CONV_START
                total = cycles + cost.WEIGHTS_CROWD * min(blocks / most, 1.0)
                yield Layout(total, cycles, outs, channels, found.rows, splits)


def layout(x: Convolution, parts: int, device: Target = H200) -> Layout | None:
    """The layout with the least estimated total; None where nothing fits into shared memory."""
    return min(_layouts(x, parts, device), default=None)


def _match(p: Problem, image: int, kind: str) -> Choice:
    x = direct.convolution(p, image, TAPS, ORDERS)
    tensor_conv.refuse_types(p, kind)
    refuse_if(x.rows.taps > WARPS, "the window has more rows than a block has warps")
    if kind == "float32" and x.n * x.i * x.j < tensor_conv.LEAST_TERMS:
        raise NotApplicable("its sums are too short to be as exact as those in order")
    best = layout(x, KINDS[kind], p.device)
    if best is None:
        raise NotApplicable("its rows do not fit into shared memory")
    values = named(
        blocks=best.outs // direct.outs_of(x.cols.taps),
        channels=best.channels,
        rows=best.rows,
        shares=WARPS * SIDE * SIDE // (best.outs * best.channels * x.rows.taps),
        splits=best.splits,
    )
    us = cost.direct_us(best.cycles, p.device)
    us *= cost.TENSOR_CONV_WEIGHTS_STORED if kind == "stored" else 1.0
    return direct.choice(p, x, f"{NAME}_{kind}", values, us)


STRATEGIES: Final = tensor_conv.strategies(NAME, 1, _match)
