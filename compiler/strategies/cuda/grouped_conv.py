"""grouped_conv: convolutions in groups of few channels (depthwise ones have one) and their gradients, from row-major
operands, summed in registers.

y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, rows(i, r), cols(j, s)] w(g, o, c, r, s): forwards, or the gradient of
the image, where rows and columns may be divided. A thread has ROWS rows of one column of an output channel and reads
the image through the first cache; a block has pixels of one output channel, so that its weights are the same. What
limits it is memory, where a group has few channels.

grouped_conv_weights: y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)]. A
block has all taps of one (g, o, c), each thread in registers, over a share of the pixels; threads, and blocks that
share a sum, are joined by fixed trees.

Assumes: Contracts in gather form, no lanes.
Guarantees: the window and its walk are structure; how many blocks share a sum (`s_splits`) follows from the extents and
the device, and with it the bits. Sums of images run in the order of c, r, s.
Does not: match contractions without groups (direct_conv does), or windows of more than MOST taps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, Problem, either, named, refuse_if
from compiler.strategies.convolution import Walked, of_image, of_weights
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda.direct_conv_weights import scratch_of
from compiler.strategies.strategy import Strategy, with_columns
from compiler.strategies.tilings import MOST_TILES
from compiler.strategies.window import WindowAxis

NAME: Final = "grouped_conv"
WEIGHTS: Final = "grouped_conv_weights"
ROWS: Final = 4
"""Rows of a thread."""
THREADS: Final = 256
MOST: Final = 49
"""Taps of a window, whose weights, or sums, a thread has in registers."""


def points(samples: int, rows: int, cols: int) -> int:
    """Threads that have work in a channel."""
    return samples * -(-rows // ROWS) * cols


def blocks(samples: int, rows: int, cols: int) -> int:
    """Blocks of an output channel."""
    return -(-points(samples, rows, cols) // THREADS)


def _checked(p: Problem, x: Walked) -> Walked:
    rows, cols = x.rows, x.cols
    refuse_if(p.lanes, "the batch is in the lanes")
    refuse_if(len(p.out) != 5, "its channels are not in groups")
    refuse_if(rows.taps * cols.taps > MOST, "its window has more taps than registers hold")
    refuse_if(min(p.extents.values()) == 0, "it is empty")
    walked = sum(len(a.terms) == 2 for a in p.axes(x.vector)) == 2
    refuse_if(not walked, "rows and columns are not walked by one window dim each")
    sizes = *(prod(t.shape[1:]) for t in p.operands), x.outs * x.ins * x.groups, points(x.samples, rows.out, cols.out)
    refuse_if(max(sizes) >= LIMIT, "it is larger than 32-bit indices reach")
    return x


def _span(x: WindowAxis) -> int:
    """Rows of the image that a thread reads."""
    return (ROWS - 1) * x.step // x.div + (x.taps - 1) * abs(x.tap) // x.div + 1


def _microseconds(p: Problem, loads: int, sums: int, threads: int) -> float:
    """Of so many threads, each with so many loads and sums."""
    device = p.device
    instructions = cost.GROUPED_THREAD + cost.GROUPED_LOAD * loads + sums
    working = threads / device.lanes / device.processors * instructions / cost.GROUPED_CYCLES_PER_US
    moving = moved_bytes(p) / 1e3 / (device.bandwidth or H200.bandwidth) / cost.GROUPED_MOVED
    return cost.GROUPED_START_US + max(working * cost.waits(device), moving)


def moved_bytes(p: Problem) -> int:
    """Of operands and result in memory."""
    return sum(prod(t.shape) * (2 if t.dtype == "bf16" else p.real_bytes) for t in (*p.operands, p.node.out))


def _match(p: Problem, image: int) -> Choice:
    x = _checked(p, of_image(p, image))
    many = x.groups * x.outs * blocks(x.samples, x.rows.out, x.cols.out)
    refuse_if(many > MOST_TILES, "it has more parts than a launch may have blocks")
    area = x.rows.taps * x.cols.taps
    loads = x.ins * (_span(x.rows) * x.cols.taps + area)
    us = _microseconds(p, loads, x.ins * ROWS * area // (x.rows.div * x.cols.div), many * THREADS)
    return Choice(NAME, _literals(x), (), 0, us)


def taps(literals: Iterable[tuple[str, int]]) -> int:
    """Of the window of a choice."""
    return prod(n for name, n in literals if name in ("down", "along"))


def resident(literals: Iterable[tuple[str, int]]) -> int:
    """Blocks that a processor holds of a kernel: of as many threads as the registers are enough for."""
    many = taps(literals)
    return 3 if many <= 9 else 2 if many <= 25 else 1


def _literals(x: Walked) -> tuple[tuple[str, int], ...]:
    return ("image", x.vector), ("down", x.rows.taps), ("along", x.cols.taps)


def shares(channels: int, many: int, device: Target = H200) -> int:
    """Blocks that share the pixels of a sum, each with so many of the points that each thread has some."""
    wanted = -(-device.processors * cost.GROUPED_RESIDENT // channels)
    return max(1, min(wanted, many // (cost.GROUPED_SHARE * THREADS), cost.MOST_SHARES))


def _match_weights(p: Problem, image: int) -> Choice:
    x = _checked(p, of_weights(p, image))
    channels, many = x.groups * x.outs * x.ins, points(x.samples, x.rows.out, x.cols.out)
    splits = shares(channels, many, p.device)
    refuse_if(channels * splits > MOST_TILES, "it has more sums than a launch may have blocks")
    area = x.rows.taps * x.cols.taps
    loads = _span(x.rows) * x.cols.taps + ROWS
    us = _microseconds(p, loads, ROWS * area, channels * max(many, splits * THREADS))
    us += area * cost.GROUPED_JOIN_US * -(-channels * splits // (p.device.processors * cost.GROUPED_RESIDENT))
    scratch = scratch_of(channels, splits, area, p.real_bytes)
    return Choice(WEIGHTS, _literals(x), tuple(named(splits=splits).items()), scratch, us)


def _variants(p: Problem, choice: Choice) -> list[Choice]:
    """Half and twice as many blocks."""
    splits = dict(choice.columns)["s_splits"]
    return [with_columns(choice, s_splits=s) for s in (max(1, splits // 2), 2 * splits) if s != splits]


STRATEGIES: Final = (
    Strategy(NAME, lambda p: either(0, partial(_match, p)), bf16=True, strided=True),
    Strategy(WEIGHTS, lambda p: either(1, partial(_match_weights, p)), _variants, bf16=True, strided=True),
)
