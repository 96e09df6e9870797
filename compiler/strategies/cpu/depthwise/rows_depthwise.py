"""rows_depthwise: convolutions of row-major images whose sums have one channel each, and the gradients of such images,
adjacent pixels in the lanes.

y[n, g, o, i, j] = sum over r, s of x[n, g, rows(i, r), cols(j, s)] w(g, o, r, s). A strip of a channel is copied with
its border, one plane for each residue of the steps that the window sees, whose rows hold the whole window: no tap needs
a copy of its own. A tile is up to eight vectors of pixels and those of the row below: a vector of a plane is read once
for both. Where indices have divisors, as in the gradient of an image that a window sees in steps, pixels of a class, by
their residues, see the same taps; lines are woven of classes. A window that is walked backwards is one that is walked
forwards over turned weights. The sum runs in order of (column, residue, row) of that window.

Assumes: Contracts in gather form, no lanes.
Guarantees: taken by estimate.
Does not: match sums over several channels.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

from compiler.strategies.choice import Choice, Problem, named, refuse_beyond, refuse_if, rounded
from compiler.strategies.convolution import Convolution, extents, row_major, strides_of
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.cpu import VECTOR_BYTES
from compiler.strategies.cpu.row_planes import Planes, planes_of
from compiler.strategies.cpu.rows_conv import TAP_BYTES, classed, grid, residues
from compiler.strategies.strategy import Strategy
from compiler.strategies.window import WindowAxis

NAME = "rows_depthwise"
COLUMN_BYTES: Final = 16
TILE_VECTORS: Final = 8
CHANNEL, IMAGE, STORE, COPY, STEPS = 200.0, 4.0, 3.0, 7.0, 12.0
"""Vector operations: of a channel beside what follows; reading a vector of its image, storing one of results, and
copying one with the border, of neighbours and of pixels in steps."""
READ, ALONE, TILE, WEAVE, MEASURED = 1.6, 2.1, 13.0, 8.0, 122
"""Reading a vector of a tap and two products of it, at the speed of tiles there; a tap that sees no rows beside those
of others, of which both rows of pixels read vectors of their own; what a vector of pixels of two rows takes beside
them; weaving a vector."""
STRIP_BYTES: Final = 16_000
"""Of sums that stay in the first cache until they are stored."""


def match(p: Problem) -> Choice:
    found = row_major(p)
    refuse_if(found.ins > 1, "its sums have several channels")
    apart = max(found.rows.div, found.cols.div) > 1
    conv, first = (grid(found), 0) if apart else _forwards(found)
    walked = found if apart else conv
    rows, cols = conv.rows, conv.cols
    refuse_if(min(rows.step, cols.step) < 1, "rows or columns are not walked")
    vector = VECTOR_BYTES // p.real_bytes
    div_r, div_c = found.rows.div, found.cols.div
    strip = _strip(rows.out, max(1, p.within(STRIP_BYTES) // (found.cols.out * p.real_bytes * div_r)))
    copy = planes_of(replace(rows, out=strip), cols, vector, always=True)
    planes = copy.elements(1)
    refuse_beyond(planes)
    width = rounded(strip * cols.out, vector) + vector
    taps, classes = found.rows.taps * found.cols.taps, div_r * div_c
    woven = rounded(strip * div_r * found.cols.out, vector) + 3 * vector if classes > 1 else 0
    values = (
        named(batch=conv.samples)
        | extents(conv)
        | named(taps_r=found.rows.taps, taps_c=found.cols.taps)
        | copy.columns
        | named(planes=planes, strip=strip, width=width, woven=woven, w_first=first)
        | strides_of(conv)
        | classed(walked.rows, walked.cols)
    )
    scratch = (planes + classes * width + woven) * p.real_bytes + taps * COLUMN_BYTES + (classes + 1) * TAP_BYTES
    strips = -(-rows.out // strip)
    operations = CHANNEL + strips * _copy(copy) + IMAGE * -(-rows.extent * cols.extent // vector)
    operations += conv.outs * _sums(p, found, rows.step, strips * _vectors(strip // 2 * -(-cols.out // vector)))
    microseconds = conv.samples * conv.groups * operations / constants.OPERATIONS_PER_US
    return Choice(NAME, (), tuple(values.items()), scratch, microseconds)


def _strip(rows: int, most: int) -> int:
    """Output rows that are summed at a time, pairs of them: as many for each strip."""
    return rounded(-(-rows // -(-rows // most)), 2)


def _forwards(c: Convolution) -> tuple[Convolution, int]:
    """The convolution with windows that are walked forwards, and the weight of their first tap."""
    rows, w_r, row = _turned(c.rows, c.w_r)
    cols, w_c, col = _turned(c.cols, c.w_c)
    return replace(c, rows=rows, cols=cols, w_r=w_r, w_c=w_c), row + col


def _turned(axis: WindowAxis, stride: int) -> tuple[WindowAxis, int, int]:
    """An axis that is walked forwards, the stride of its weights, and the weight of its first tap."""
    if axis.taps == 1 or axis.tap > 0:
        return axis, stride, 0
    refuse_if(axis.tap == 0, "a tap sees what another sees")
    last = axis.taps - 1
    return replace(axis, tap=-axis.tap, origin=axis.origin + axis.tap * last), -stride, stride * last


def _copy(copy: Planes) -> float:
    """Estimated vector operations of the planes of a strip."""
    lines = copy.copies * copy.phases * copy.high
    return lines * -(-copy.wide // copy.vector) * (COPY if copy.cols.step == 1 else STEPS)


def _vectors(pairs: int) -> int:
    """Vectors that tiles take time for to sum so many of pairs of rows: products of a small one wait for each other."""
    whole, rest = divmod(pairs, TILE_VECTORS)
    return whole * TILE_VECTORS + (max(TILE_VECTORS // 2, rounded(rest, 2)) if rest else 0)


def _runs(rows: list[int], step: int) -> list[int]:
    """Taps that see neighbouring rows of a plane, by how many there are of them together."""
    found = list[int]()
    for phase in range(step):
        at = sorted(i // step for i in rows if i % step == phase)
        ends = [k for k in range(1, len(at)) if at[k] > at[k - 1] + 1]
        found += [last - first for first, last in pairwise([0, *ends, len(at)]) if at]
    return found


def _sums(p: Problem, found: Convolution, step: int, vectors: int) -> float:
    """Estimated vector operations of the sums of an output of a channel, so many vectors of two rows for each class,
    and of weaving them."""
    rows, cols = residues(found.rows), residues(found.cols)
    runs = [n for seen in rows for n in _runs(seen, step)]
    reads = sum(READ * (n + 1) if n > 1 else ALONE for n in runs) * sum(map(len, cols))
    classes = len(rows) * len(cols)
    operations = vectors * (reads * MEASURED / p.core.narrow + TILE * classes)
    pixels = found.rows.out * found.cols.out * p.real_bytes / VECTOR_BYTES
    return operations + pixels * (STORE + (WEAVE if classes > 1 else 0.0))


STRATEGY: Final = Strategy(NAME, match)
