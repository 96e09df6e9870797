"""depthwise_conv: convolutions with one channel a group, and their gradients, of bf16 images whose channels come last.

y[n, i, j, g] = sum over r, s of x[n, rows(i, r), cols(j, s), g] w[g, r, s]: forwards, or the gradient of the image,
where rows and columns may be divided. A block has PIXELS pixels of some channels (`s_wide`), whose weights it has in
shared memory; a thread reads NEIGHBOURS channels of a pixel together. Sums lie in shared memory as those of a product
on matrix units do, so that its epilogues store neighbours together and sum over rows of tiles (Choice.tiled).

depthwise_conv_weights: w[g, r, s] = sum over n, i, j of d[n, i, j, g] x[n, rows(i, r), cols(j, s), g]. A thread has
NEIGHBOURS channels of some taps in registers (all taps, or a row of them), over a share of the pixels; threads, and
blocks that share sums, are joined by fixed trees.

Assumes: Contracts in gather form, as the pass channels_last makes them.
Guarantees: the window and its walk are structure; channels of a block and the blocks that share a sum (`s_...`) follow
from the extents and the device. Sums of images run in the order of r, s.
Does not: match groups of several channels, float32, or images in another order (grouped_conv does).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.ir.space import plain_dim
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, Tiles, either, named, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda.direct_conv_weights import scratch_of
from compiler.strategies.cuda.grouped_conv import moved_bytes, taps
from compiler.strategies.cuda.stored_products import AHEAD
from compiler.strategies.strategy import Strategy, with_columns
from compiler.strategies.tilings import MOST_TILES
from compiler.strategies.window import WindowAxis, window_axis

NAME: Final = "depthwise_conv"
WEIGHTS: Final = "depthwise_conv_weights"
PIXELS: Final = 128
"""Of a block: the rows of a tile."""
NEIGHBOURS: Final = 8
"""Channels that a thread reads together."""
WIDE: Final = (64, 32)
"""Channels of a block."""
BESIDE: Final = 4
"""Pixels of a row that a thread has together: they share what they read."""
MOST: Final = 121
"""Taps of a window, at most: shared memory has them for all channels of a block."""
THREADS: Final = 256
RESIDENT: Final = 2
"""Blocks that a processor holds."""
IN_REGISTERS: Final = 9
"""Taps that a thread sums at once; of larger windows it sums a row, and has BESIDE pixels."""


@dataclass(frozen=True)
class Depthwise:
    """Extents, and the walks of rows and columns."""

    samples: int
    channels: int
    rows: WindowAxis
    cols: WindowAxis

    @property
    def pixels(self) -> int:
        """Of outputs."""
        return self.samples * self.rows.out * self.cols.out

    @property
    def taps(self) -> int:
        return self.rows.taps * self.cols.taps

    @property
    def reads(self) -> float:
        """What a thread reads of the image for all taps and a pixel: of the BESIDE that it has beside each other, or
        one."""
        many = BESIDE if self.cols.div == 1 and self.taps > IN_REGISTERS else 1
        return self.rows.taps * ((many - 1) * self.cols.step + (self.cols.taps - 1) * abs(self.cols.tap) + 1) / many

    @property
    def wide(self) -> int:
        """Channels of a block: those of which the fewest are empty."""
        return min(WIDE, key=lambda wide: rounded(self.channels, wide))

    @property
    def chunks(self) -> int:
        return -(-self.channels // self.wide)

    @property
    def filters(self) -> tuple[int, int]:
        """How many sums of filters there are, each of so many taps of the channels of a block."""
        at_once = rows_at_once(self.rows.taps, self.cols.taps)
        return self.chunks * self.rows.taps // at_once, at_once * self.cols.taps


def shared_bytes(literals: Iterable[tuple[str, int]]) -> int:
    """Of a block: its sums, or what is left of them for sums over its rows, and the weights."""
    return AHEAD + 4 * WIDE[0] * (PIXELS + taps(literals))


def resident(strategy: str, literals: Iterable[tuple[str, int]], otherwise: int) -> int:
    """Blocks that a processor holds: of images by small windows as many as of grouped convolutions."""
    return RESIDENT if strategy == WEIGHTS or taps(literals) > IN_REGISTERS else otherwise


def rows_at_once(down: int, along: int) -> int:
    """Rows of the window of which a thread has all sums."""
    return down if down * along <= IN_REGISTERS else 1


def _walked(p: Problem, image: int) -> Depthwise:
    """The depthwise convolution of that operand, or the gradient of its weights."""
    refuse_if(p.lanes, "the batch is in the lanes")
    refuse_if(p.stored != (True, True) or p.real_bytes != 4, "its operands are not both bf16")
    axes, other, forward = p.axes(image), p.plain(1 - image), p.node.out.batched
    pixels, weights = (p.out, other) if forward else (other, p.out)
    if not len(axes) == len(pixels) == len(weights) == 5:
        raise NotApplicable("its channels are not in groups")
    n, c, g = (plain_dim(axes[a]) for a in (0, 1, 4))
    first, o, i, j, last = pixels
    group, *both, r, s = weights
    if (first, last, group) != (n, g, g) or g is None or {*both} != {o, c}:
        raise NotApplicable("its channels are not the last axis")
    extents, x = dict(p.extents), p.operands[image].shape
    if any(d is None for d in (n, c, o, i, j, r, s)) or {*extents} != {n, g, c, o, i, j, r, s}:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    assert n is not None and c is not None and o is not None and r is not None and s is not None
    assert i is not None and j is not None
    refuse_if(extents[o] != 1 or extents[c] != 1, "a group has several channels")
    refuse_if((x[0], x[4]) != (extents[n], extents[g]), "an operand is only partly read")
    rows, cols = window_axis(axes[2], i, r, extents, x[2]), window_axis(axes[3], j, s, extents, x[3])
    if rows is None or cols is None or sum(len(a.terms) == 2 for a in axes) != 2:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    refuse_if(extents[g] % NEIGHBOURS, f"its channels are no multiple of {NEIGHBOURS}")
    refuse_if(rows.taps * cols.taps > MOST, "its window has more taps than shared memory is meant for")
    refuse_if(min(extents.values()) == 0, "it is empty")
    found = Depthwise(extents[n], extents[g], rows, cols)
    sizes = *(prod(t.shape[1:]) for t in p.operands), found.pixels, found.channels * found.taps
    refuse_if(max(sizes) >= LIMIT, "it is larger than 32-bit indices reach")
    return found


def _microseconds(p: Problem, vectors: int, instructions: float) -> float:
    """Of so many times NEIGHBOURS channels of a pixel; `instructions` of each."""
    working = vectors * instructions / p.device.lanes / p.device.processors / cost.GROUPED_CYCLES_PER_US
    moving = moved_bytes(p) / 1e3 / (p.device.bandwidth or H200.bandwidth) / cost.DEPTHWISE_MOVED
    return cost.GROUPED_START_US + max(working * cost.waits(p.device), moving)


def _literals(x: Depthwise, image: int) -> tuple[tuple[str, int], ...]:
    return ("image", image), ("down", x.rows.taps), ("along", x.cols.taps)


def _match(p: Problem, image: int) -> Choice:
    refuse_if(not p.node.out.batched, "the output is not an image")
    x = _walked(p, image)
    tiles = -(-x.pixels // PIXELS)
    refuse_if(tiles * x.chunks > MOST_TILES, "it has more tiles than a launch may have blocks")
    instructions = cost.DEPTHWISE_PIXEL + cost.DEPTHWISE_TAP * x.taps + cost.DEPTHWISE_READ * x.reads
    us = _microseconds(p, tiles * PIXELS * x.chunks * x.wide // NEIGHBOURS, instructions)
    columns = tuple(named(wide=x.wide).items())
    return Choice(NAME, _literals(x, image), columns, 0, us, tiled=Tiles(1, tiles, PIXELS, x.channels))


def shares(x: Depthwise, device: Target = H200) -> int:
    """Blocks that share the pixels of a sum, each with so many that each thread has some."""
    wanted, lanes = -(-device.processors * RESIDENT // x.filters[0]), THREADS * NEIGHBOURS // x.wide
    return max(1, min(wanted, x.pixels // (cost.GROUPED_SHARE * lanes)))


def _match_weights(p: Problem, image: int) -> Choice:
    refuse_if(p.node.out.batched, "the output is not weights")
    x = _walked(p, image)
    refuse_if(x.rows.div != 1 or x.cols.div != 1, "rows or columns are divided")
    splits, (filters, sums) = shares(x, p.device), x.filters
    refuse_if(filters * splits > MOST_TILES, "it has more sums than a launch may have blocks")
    instructions = cost.DEPTHWISE_PIXEL + cost.DEPTHWISE_TAP * sums + cost.DEPTHWISE_READ * x.reads * sums / x.taps
    us = _microseconds(p, x.pixels * filters * x.wide // NEIGHBOURS, instructions)
    columns, scratch = named(wide=x.wide, splits=splits), _scratch_of(x, splits, p)
    return Choice(WEIGHTS, _literals(x, image), tuple(columns.items()), scratch, us + cost.DEPTHWISE_JOIN_US)


def _scratch_of(x: Depthwise, splits: int, p: Problem) -> int:
    """Bytes in which blocks that share sums leave them."""
    filters, sums = x.filters
    return scratch_of(filters, splits, sums * x.wide, p.real_bytes)


def _variants(p: Problem, choice: Choice) -> list[Choice]:
    """Half and twice as many blocks."""
    x, first = _walked(p, dict(choice.literals)["image"]), dict(choice.columns)["s_splits"]
    others = {max(1, first // 2), 2 * first} - {first}
    return [replace(with_columns(choice, s_splits=n), scratch_bytes=_scratch_of(x, n, p)) for n in others]


STRATEGIES: Final = (
    Strategy(NAME, lambda p: either(0, partial(_match, p)), bf16=True),
    Strategy(WEIGHTS, lambda p: either(1, partial(_match_weights, p)), _variants, bf16=True),
)
