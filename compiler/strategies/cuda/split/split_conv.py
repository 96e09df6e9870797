"""split_conv: convolutions of float32 on matrix units, each factor as the sum of two fp16 numbers of 11 bits.

What split_products computes, of an image that is gathered as stored_conv gathers it. A first kernel splits both
operands. Of the image it writes all pixels with their channels last, in groups of 64, of each group first the upper
parts, then the lower ones; weights it writes as blocks of 64 outputs by 64 channels of a tap. A second one fetches, for
each tap and group, 128 pixels with the tensor copy engine, which walks the image as the window does and fills in zeros
outside, and blocks of weights, into a ring in shared memory, from which two warpgroups multiply (wgmma). Sums of a
stage are scaled back, by the scales of the pixels that were gathered, which each have one of their own in each group,
and added to those before it.

In the gradient of weights pixels are terms, 64 of them a stage, and channels of a tap rows. A scale has to be that of
all terms of a stage, wherever a tap looks: a group of channels of the whole image has one, so that a kernel before that
looks for its largest number; blocks of 64 outputs by 64 pixels of the gradient of the output have their own.

In the gradient of a strided convolution's image pixels with the same rests see the same taps, and are a product each,
as in stored_conv.

Assumes: what direct_conv assumes; float32; image and result in any order of axes.
Guarantees: accuracy as split_products (LEAST_TERMS too); a number below 2^-17 of the largest one with its scale keeps
what is above 2^-40 of that. Taken only where `numerics: {products: ...}` permits it, on sm_90. Sums run over the taps,
in each over the groups, or over the pixels. Where a factor is not finite, so are its sums, but NaN in place of an
infinity.
Does not: match groups, or strides of more than 2; share what it has split with other contractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, Problem, either, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import direct_conv, direct_conv_weights, stored_products
from compiler.strategies.cuda.direct_conv import ORDERS, Convolution
from compiler.strategies.cuda.split import split_products
from compiler.strategies.cuda.split.split_products import BLOCK, LEAST_TERMS
from compiler.strategies.cuda.stored_products import AHEAD, LEAST, ROWS, SPLITS, WAITING
from compiler.strategies.cuda.tensor_conv import DIVISOR
from compiler.strategies.strategy import Strategy, first_of, found_by
from compiler.strategies.tilings import MOST_TILES, MOST_VARIANTS, Tiling, choices, parts, tiled

NAME: Final = "split_conv"
COLUMNS: Final = (128, 64)
"""Of a tile, by number (`s_tile`)."""
STAGES: Final = (3, 2)
"""Of the ring, by number."""
RESIDENT: Final = (1, 2)
"""Blocks that a processor holds, by number."""
PARTS: Final = 2
_TAPS: Final = range(1, 12)
_HALF: Final = 2
"""Bytes of a part."""


def stage_bytes(number: int) -> int:
    """Of the ring: pixels and outputs by 64 channels, in parts."""
    return PARTS * _HALF * BLOCK * (ROWS + COLUMNS[number])


def shared_bytes(number: int) -> int:
    """Dynamic shared memory of a block, for the larger of its ring and its sums."""
    return max(STAGES[number] * stage_bytes(number), 4 * ROWS * COLUMNS[number]) + AHEAD


def groups_of(channels: int) -> int:
    return -(-channels // BLOCK)


def numbers_of(channels: int) -> int:
    """Of fp16, of the parts of a pixel."""
    return PARTS * BLOCK * groups_of(channels)


@dataclass(frozen=True)
class Gathered:
    """A convolution whose image has so many `pixels`, or the gradient of its weights (`terms`: pixels of the output are
    terms, and channels of taps rows)."""

    x: Convolution
    pixels: int
    terms: bool

    @property
    def outputs(self) -> int:
        return self.x.n * self.x.i * self.x.j

    @property
    def window(self) -> int:
        """Channels of all taps, in whole groups."""
        return self.x.rows.taps * self.x.cols.taps * groups_of(self.x.c) * BLOCK

    @property
    def rests(self) -> int:
        """Products, each of the pixels with the same rests."""
        return self.x.rows.div * self.x.cols.div

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and terms of a product; of several, which have different terms, so many as on the average."""
        m, k = (self.window, self.outputs) if self.terms else (self.outputs, self.window)
        return m // self.rests, self.x.o, max(BLOCK, k // self.rests)

    @property
    def blocks(self) -> tuple[int, int]:
        """That the image and the other operand are split into."""
        other = self.outputs if self.terms else self.window
        return -(-self.pixels // BLOCK) * groups_of(self.x.c), rounded(self.x.o, COLUMNS[0]) // BLOCK * -(
            -other // BLOCK
        )

    @property
    def elements(self) -> int:
        """Of the array that the kernels share: parts of both operands, and what undoes their scales, in words."""
        _, blocks = self.blocks
        many = groups_of(self.x.c) * max(self.pixels, 2)
        return many * (PARTS * BLOCK // 2 + 1) + blocks * (PARTS * BLOCK * BLOCK // 2 + 1)


def tilings(found: Gathered, device: Target = H200) -> list[Tiling]:
    """All tilings, the fastest by estimate first, without what splitting the operands takes."""
    ways, (m, n, k) = list[Tiling](), found.extents
    for number, wide in enumerate(COLUMNS):
        many, resident = found.rests * -(-m // ROWS) * -(-n // wide), RESIDENT[number]
        for splits, depth in parts(k, BLOCK, SPLITS if found.rests == 1 else (1,), 4 * BLOCK):
            if splits > WAITING * resident:
                continue
            turns = -(-many * splits // device.processors)
            started = -(-turns // resident)
            alone = cost.SPLIT_CONV_ALONE_US[found.terms][number]
            steps = max(turns * cost.SPLIT_CONV_STEP_US[number], started * alone) * (depth // BLOCK)
            each = cost.SPLIT_CONV_START_US[number] + (cost.SPLIT_JOIN_US if splits > 1 else 0.0)
            whole = depth if found.rests == 1 else found.window
            ways.append(Tiling((steps + started * each) * cost.waits(device), number, splits, whole))
    return sorted(ways)


def _gathered(p: Problem, image: int) -> Gathered:
    refuse_if(p.real_bytes != 4 or any(p.stored), "its operands are not float32")
    refuse_if(p.device.architecture != "sm_90", "the device has no copy engine that gathers pixels")
    terms = not p.node.out.batched
    if terms:
        x = direct_conv_weights.convolution(p, image, _TAPS, ORDERS)
    else:
        x = direct_conv.convolution(p, image, _TAPS, DIVISOR, ORDERS)
        stored_products.refuse_uneven(x)
    found = Gathered(x, prod(p.operands[image].shape) // x.c, terms)
    least = found.outputs if terms else x.c * prod(max(1, w.taps // w.div) for w in (x.rows, x.cols))
    refuse_if(least < LEAST_TERMS, "a sum in order of so few terms is more exact")
    refuse_if(min(found.outputs, x.o, x.c) < LEAST, "it would leave most of a tile empty")
    windowed = [(a.const, e) for a, e in zip(p.axes(image), p.operands[image].shape, strict=True) if len(a.terms) == 2]
    first, extents = zip(*windowed, strict=True)
    stored_products.refuse_corners(first, x, extents)
    return found


def variants(p: Problem, most: int = MOST_VARIANTS) -> list[Choice]:
    """The tilings of a problem, the fastest by estimate first, `most` of them."""
    return either(0, partial(_variants, p, most))


def _variants(p: Problem, most: int, image: int) -> list[Choice]:
    found = _gathered(p, image)
    rows, columns = found.blocks
    refuse_if(rows + columns > MOST_TILES, "it has more blocks of factors than a launch may have")
    largest = max(found.elements, prod(p.operands[image].shape))
    refuse_if(largest >= LIMIT, "it is larger than 32-bit offsets reach")
    moved = 4 * (prod(p.operands[0].shape) + prod(p.operands[1].shape) + found.elements)
    before = cost.SPLIT_LAUNCH_US + moved / cost.SPLIT_CONV_RATE
    if found.terms:  # the image is read twice
        before += cost.SPLIT_LAUNCH_US + 4 * prod(p.operands[image].shape) / cost.SPLIT_CONV_RATE
    literals = ("image", image), ("weights", int(found.terms))
    m, n, _ = found.extents

    def made(t: Tiling) -> Choice:
        many, size = found.rests * -(-m // ROWS) * -(-n // COLUMNS[t.tile]), ROWS * COLUMNS[t.tile]
        us = before * cost.moves(p.device) + t.microseconds
        choice = tiled(p, NAME, t, many, size, literals, microseconds=us)
        return split_products.with_blocks(choice, rows, columns, found.elements)

    return choices(made, tilings(found, p.device), most)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants), "float32", strided=True)
