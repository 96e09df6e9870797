"""direct_conv_weights: the gradient of a convolution's weights from row-major operands, summed in registers.

y[o, c, r, s] = sum over n, i, j of d[n, o, i, j] x[n, c, rows(i, r), cols(j, s)], without groups. A thread has one (c,
r) with all taps s by some outputs o, and walks strips of 4 adjacent pixels. A block stages rows of one sample of both
operands in shared memory; its threads share the strips, and blocks share the samples. Partial sums are joined by fixed
trees: threads of a block, then groups of blocks, then the groups.

Assumes: Contracts in gather form, no lanes. The gradient of the output may be a tensor of windows (direct_conv).
Guarantees: the layout is data (`s_...`), from the extents and the device, so the bits are too; only the number of taps
along a row is structure.
Does not: match groups or windows of one tap (implicit_gemm does).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import isqrt, prod
from typing import Final

import compiler.strategies.cuda.direct_conv as direct
from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, either, named, refuse_if
from compiler.strategies.convolution import FIRST, Orders, of_weights
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.strategy import Strategy
from compiler.strategies.tilings import MOST_TILES

NAME = "direct_conv_weights"


def outs_of(taps: int) -> int:
    """Outputs of a thread: as many as keep its sums in registers."""
    return 8 if taps <= 5 else 4


@dataclass(frozen=True)
class Layout:
    """`blocks` blocks of outputs by `channels` channels are a tile; `rows` rows are staged at a time; `shares` threads
    share each sum; `splits` blocks share a tile's samples. `cycles`: estimated total time; `crowd`: what kernels that
    run beside it wait for."""

    cycles: float
    crowd: float
    blocks: int
    channels: int
    rows: int
    shares: int
    splits: int


def _shares(threads: int, fit: int) -> int:
    """Threads that share a sum: as many as there are, if the half of them that a tree joins first fits."""
    shares = direct.THREADS // threads
    while shares > 1 and _below(shares) > fit:
        shares = _below(shares)
    return shares


def _crowd(blocks: int) -> int:
    """How many blocks the busiest processor has, where each has so many on average: two are not spread evenly."""
    return cost.DIRECT_RESIDENT if blocks == 2 else blocks


def _below(shares: int) -> int:
    """The largest power of two below."""
    return 1 << (shares - 1).bit_length() - 1


def _layouts(
    n: int, o: int, c: int, rows: direct.Window, cols: direct.Window, real_bytes: int, device: Target
) -> Iterator[Layout]:
    words = direct.BUFFER_BYTES // real_bytes
    outs = outs_of(cols.taps)
    all_strips = -(-cols.out // direct.STRIP)
    pitch, own = direct.line_pitch(all_strips, cols), direct.rounded_pitch(direct.STRIP * all_strips)
    window = -(-cols.span(direct.STRIP) // direct.STRIP)
    issue = direct.STRIP * outs * cols.taps + outs + window + 10
    processors, arithmetic = device.processors, H200.lanes / device.lanes
    for blocks in direct.even_parts(-(-o // outs), 16, o):
        for channels in direct.even_parts(c, 32, c):
            threads = blocks * channels * rows.taps
            if threads > direct.THREADS or threads * outs * cols.taps > words:
                continue
            shares = _shares(threads, words // (threads * outs * cols.taps))
            for height in direct.even_parts(rows.out, 64, rows.out):
                staged = blocks * outs * height * own + channels * rows.span(height) * pitch
                if staged > words:
                    continue
                units = n * -(-rows.out // height)
                tiles = -(-o // (blocks * outs)) * -(-c // channels)
                strips = -(-height * all_strips // shares)
                one = strips * (issue * 1.1 + 40) + cost.DIRECT_STAGE
                copies = direct.copying(blocks * outs * height, own, direct.alignment(cols.out))
                copies += direct.copying(channels * rows.span(height), pitch, cols.wide)
                busy = ((direct.THREADS // 32) * strips * issue * 1.25 + copies) / 4
                size = threads * outs * cols.taps
                for residents in (0.25, 0.5, 1, 2, 3):
                    splits = max(1, min(units, int(processors * residents) // tiles))
                    each, at_once = -(-units // splits), -(-splits * tiles // processors)
                    waves = -(-at_once // cost.DIRECT_RESIDENT)
                    waiting = (1.0 if at_once == 1 else 0.5) * waves * each * one
                    working = _crowd(at_once) * each * (busy + cost.WEIGHTS_STEP) * arithmetic
                    trees = -(-size // (4 * direct.THREADS)) * (isqrt(splits) / 4 + 1) * 700
                    join = 2 * (cost.WEIGHTS_JOIN + trees) if splits > 1 else 0
                    crowd = cost.WEIGHTS_CROWD * min(at_once / cost.DIRECT_RESIDENT, 1.0)
                    cycles = waiting + working + cost.WEIGHTS_START + join
                    yield Layout(cycles, crowd, blocks, channels, height, shares, splits)


@cache
def layout(
    n: int, o: int, c: int, rows: direct.Window, cols: direct.Window, real_bytes: int, device: Target = H200
) -> Layout | None:
    """The layout with the least estimated cost; None where nothing fits into shared memory."""
    return min(_layouts(n, o, c, rows, cols, real_bytes, device), key=lambda x: x.cycles + x.crowd, default=None)


def tiles(blocks: int, channels: int, taps: int, o: int, c: int) -> int:
    return -(-o // (blocks * outs_of(taps))) * -(-c // channels)


def group_of(splits: int) -> int:
    """Blocks whose sums are joined first."""
    return isqrt(splits - 1) + 1 if splits > 1 else 1


def elements_of(blocks: int, channels: int, row_taps: int, taps: int) -> int:
    """Sums of a tile."""
    return blocks * outs_of(taps) * channels * row_taps * taps


def words_of(splits: int, elements: int) -> tuple[int, int]:
    """(counters, partial sums) of one tile of so many sums that several blocks share."""
    if splits == 1:
        return 0, 0
    groups = -(-splits // group_of(splits))
    return groups + 1, (splits + groups) * elements


def scratch_of(tiles: int, splits: int, elements: int, real_bytes: int) -> int:
    """Bytes in which blocks that share tiles leave their sums, counters and all."""
    counters, sums = words_of(splits, elements)
    return tiles * (4 * counters + sums * real_bytes)


def convolution(p: Problem, image: int, taps: range = direct.TAPS, orders: Orders = FIRST) -> direct.Convolution:
    """A contraction as the gradient of the weights of a convolution of the operand `image`; `taps`: of a row of its
    window; `orders`: which axis may be that of channels."""
    refuse_if(p.lanes, "the batch is in the lanes")
    x = direct.walked(p, of_weights(p, image, orders), taps)
    sizes = prod(p.node.out.shape), *(prod(t.shape[1:]) for t in p.operands), x.n * x.i
    refuse_if(max(sizes) >= LIMIT, "it is larger than 32-bit indices reach")
    return x


def _match(p: Problem, image: int) -> Choice:
    x = convolution(p, image)
    best = layout(x.n, x.o, x.c, x.rows, x.cols, p.real_bytes, p.device)
    if best is None:
        raise NotApplicable("its rows do not fit into shared memory")
    values = named(blocks=best.blocks, channels=best.channels, rows=best.rows, shares=best.shares, splits=best.splits)
    refuse_if(p.operands[image].windows, "no window of its gradient has one element alone")
    more = direct.literals_of(1 - image, p.operands[1 - image])
    return choice(p, x, NAME, values, cost.direct_us(best.cycles, p.device), more)


def choice(
    p: Problem,
    x: direct.Convolution,
    name: str,
    values: dict[str, int],
    microseconds: float,
    more: direct.Literals = (),
) -> Choice:
    """The choice of a layout whose columns are `values`, with the memory in which blocks leave their sums; `more`
    literals."""
    blocks, channels, splits = (values[q] for q in ("s_blocks", "s_channels", "s_splits"))
    many = tiles(blocks, channels, x.cols.taps, x.o, x.c)
    refuse_if(many * splits > MOST_TILES, "it has more tiles than a launch may have blocks")
    scratch = scratch_of(many, splits, elements_of(blocks, channels, x.rows.taps, x.cols.taps), p.real_bytes)
    literals = (("image", x.image), ("taps", x.cols.taps), *more)
    return Choice(name, literals, tuple(values.items()), scratch, microseconds)


STRATEGY: Final = Strategy(NAME, lambda p: either(1, partial(_match, p)), windows=True, strided=True)
