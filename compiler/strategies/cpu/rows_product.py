"""rows_product, lanes_product: products of matrices in packed panels, of row-major arrays or with lanes.

y[g, m, n] = sum over k of a[g, m, k] b[g, k, n], each of g, m, n and k up to four dims, which the arrays may have in
any order: dense layers and their gradients over single examples or sequences, attention, and convolutions, whose pixels
and taps index the same axes. The scheme is that of
K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication (ACM TOMS 34(3), 2008) and of BLIS
(F. Van Zee and R. van de Geijn, ACM TOMS 41(3), 2015): columns of b are packed once for a strip of y, rows of a block
by block, so that a register tile reads both in order; a panel of b stays in a core's first cache, a block of a in its
second. Where sums are long, those of all rows stay near, and columns are packed for a block of terms at a time; while
it is multiplied, what is packed next is prefetched. Rows of a whose terms are neighbours are not packed: tiles read
them where they lie, or dense copies of them where many panels of columns do; but for a core that starts two
multiply-adds of a vector a cycle and has no time for twelve addresses beside them. Whichever operand has the last axis
of y is b, or, where rows of a need no packing, the one with fewer columns to pack: finished blocks of sums are
transposed then. Terms are added in order of k, whatever the blocks, but where there are many: the sums of their blocks
are then.

With the batch in the lanes only convolutions are so computed: windows of one pixel, whose terms lie far apart, and
large ones.

Assumes: Contracts in gather form.
Guarantees: taken by estimate, where packing pays.
Does not: match windows that leave an image, or sum over lanes that hold no sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Final

import compiler.strategies.cost.cpu as cost
from compiler.layout.assign_layouts import strides_of
from compiler.strategies.choice import (
    Choice,
    NotApplicable,
    Problem,
    refuse_beyond,
    refuse_if,
    rounded,
)
from compiler.strategies.cost.cores import Core
from compiler.strategies.cost.tiles import beyond
from compiler.strategies.strategy import Strategy, with_columns

NAME, LANES_NAME = "rows_product", "lanes_product"
ROWS, COLS = 12, 32
"""Multiples of every register tile that the template may have."""
HIGH, DEEP, SHALLOW, WIDE, NEAR = 132, 240, 128, 2048, 512
"""Rows and terms (or fewer) of a block of a; columns of a strip of y at most, and where packed ones are not kept."""
LONG: Final = 4096
"""Terms from which on a sum is that of the blocks' sums, so that its error does not grow with its length."""
COPIED = 128
"""Columns of a strip from which on lines of a are copied, which so many panels read."""
LEVELS, COLUMN_LEVELS = 4, 3
"""Dims of a side, and of columns: those of more are a product for each index of the first one."""
HIDDEN, AHEAD = 0.2, 0.6
"""The shares of sums that go on while an operand comes from beyond the second cache, and of the time from the third one
that packing in order does not wait."""
LANE = "lane"
"""The dim of the lanes."""


@dataclass(frozen=True)
class _Dim:
    """A dim with its strides in the operands, 0 where it does not index one."""

    extent: int
    a: int
    b: int


def match(p: Problem) -> Choice:
    refuse_if(p.lanes, "its tensors are not row-major")
    return _of_matrices(p, NAME)


def match_lanes(p: Problem) -> Choice:
    refuse_if(not p.lanes or len(p.out) < 4, "it is no convolution with the batch in the lanes")
    return _of_matrices(p, LANES_NAME)


def _of_matrices(p: Problem, name: str) -> Choice:
    """The choice, with tensors of either layout: lanes are one more dim of batched tensors."""
    refuse_if(not p.out, "the output is one number")
    first, second = _strides(p, 0), _strides(p, 1)
    walked = first, second
    extents, out = dict(p.extents), p.out
    if p.lanes:
        batch = next(p.plain(side)[0] for side in (0, 1) if p.operands[side].batched)
        assert batch is not None
        refuse_if(not p.node.out.batched and extents[batch] % p.lanes, "some lanes have no sample")
        extents[batch] = p.blocks(batch)
        extents[LANE] = p.lanes
        out = (*p.out, LANE) if p.node.out.batched else p.out
    last = next((d for d in reversed(out) if d in walked[0] or d in walked[1]), out[-1])
    refuse_if(last in walked[0] and last in walked[1], "both operands have the last axis of the output")
    refuse_beyond(max(sum((extents[d] - 1) * step for d, step in w.items()) for w in walked))
    vector = 0 if last in walked[0] else 1
    found = _with(p, name, walked, extents, out, vector)
    if not dict(found.literals)["lines"]:
        return found
    try:
        other = _with(p, name, walked, extents, out, 1 - vector)
    except NotApplicable:
        return found
    return min(found, other, key=lambda choice: choice.microseconds)


def _with(
    p: Problem,
    name: str,
    walked: Sequence[Mapping[str, int]],
    extents: Mapping[str, int],
    out: Sequence[str],
    vector: int,
) -> Choice:
    """The choice with operand `vector` as b."""
    a, b = walked[1 - vector], walked[vector]
    summed = [d for d in extents if d not in out and (d in a or d in b)]
    if any((d in a) == (d not in b) for d in summed) or any(
        d not in a and d not in b for d in extents if extents[d] > 1
    ):
        raise NotApplicable("a sum runs over one operand alone")
    refuse_if(not summed, "it has no sum")
    last = next((d for d in reversed(out) if d in b), out[-1])
    rows = [d for d in out if d in a and d not in b]
    cols = [d for d in out if d not in a and extents[d] > 1] or [last]  # others are no loops
    if rows and out.index(rows[-1]) > out.index(cols[-1]):  # nor are those of lines of rows
        rows = [d for d in rows if extents[d] > 1] or rows[-1:]
    sized = {d: _Dim(extents[d], a.get(d, 0), b.get(d, 0)) for d in extents}
    if len(_merged([sized[d] for d in cols])) > COLUMN_LEVELS:  # such as pixels with a step
        cols = cols[1:]
    groups = [d for d in out if d not in rows and d not in cols]
    roles = {
        role: _merged([sized[d] for d in dims])
        for role, dims in (("g", groups), ("m", rows), ("n", cols), ("k", summed))
    }
    refuse_if(any(len(r) > LEVELS for r in roles.values()), f"its matrices have more than {LEVELS} dims on a side")
    lines = int(next((sized[d].a for d in reversed(summed) if extents[d] > 1), 1) == 1)  # of terms that are neighbours
    literals = (("vector", vector), ("rows", _places(out, rows)), ("cols", _places(out, cols)), ("lines", lines))
    return _choice(p, name, roles, literals)


def _strides(p: Problem, operand: int) -> dict[str, int]:
    """Elements per step along each dim that indexes an operand, which no index may leave."""
    tensor, axes = p.operands[operand], p.axes(operand)
    lanes = p.lanes if tensor.batched else 0
    if lanes and (p.plain(operand)[0] is None or p.plain(operand)[0] in p.plain(operand)[1:]):
        raise NotApplicable("the batch is not an axis of its own")
    found: dict[str, int] = {}
    for axis, stride, extent in zip(axes, strides_of(tensor, p.lanes), tensor.shape, strict=True):
        high = axis.const + sum(c * (p.extents[d] - 1) for d, c in axis.terms)
        if axis.div != 1 or axis.const or any(c < 1 for d, c in axis.terms if p.extents[d] > 1) or high >= extent:
            raise NotApplicable("an operand is not walked by multiples of dims, or beyond its ends")
        refuse_if(not axis.terms and extent > 1, "an operand is only partly read")
        for d, c in axis.terms:
            found[d] = found.get(d, 0) + c * stride
    return found | {LANE: 1} if lanes else found


def _places(out: Sequence[str], dims: Sequence[str]) -> int:
    """The output's axes that are `dims`, as bits."""
    return sum(1 << out.index(d) for d in dims)


def _merged(dims: Sequence[_Dim]) -> list[_Dim]:
    """Neighbouring dims that both operands walk as one, as one; dims of extent 1 are left out."""
    done: list[_Dim] = []
    for d in dims:
        if d.extent == 1:
            continue
        if done and done[-1].a == d.extent * d.a and done[-1].b == d.extent * d.b:
            d = _Dim(done.pop().extent * d.extent, d.a, d.b)
        done.append(d)
    return done


def _choice(p: Problem, name: str, roles: dict[str, list[_Dim]], literals: tuple[tuple[str, int], ...]) -> Choice:
    groups, rows, cols, terms = (prod(d.extent for d in roles[r]) for r in "gmnk")
    high = rounded(-(-rows // -(-rows // HIGH)), ROWS)
    whole, width = rounded(rows, ROWS), min(rounded(cols, COLS), NEAR)
    if rows <= high or (terms > DEEP and whole * width * p.real_bytes <= p.within(cost.PANEL_SUMS_BYTES)):
        tall, kept = whole, DEEP
    else:
        tall, kept = high, terms
        strip = p.within(cost.PANEL_STRIP_BYTES) // (terms * p.real_bytes) // COLS * COLS
        width = min(rounded(cols, COLS), max(COLS, min(WIDE, strip)))
    values: dict[str, int] = {}
    for role, dims in roles.items():
        filled = [_Dim(1, 0, 0)] * (LEVELS - len(dims)) + dims
        for level, d in enumerate(filled):
            values[f"s_{role}{level}"] = d.extent
            for operand in {"g": "ab", "m": "a", "n": "b", "k": "ab"}[role]:
                values[f"s_{operand}_{role}{level}"] = d.a if operand == "a" else d.b
    values |= {"s_high": high, "s_tall": tall, "s_depth": DEEP, "s_wide": width, "s_long": LONG}
    known = dict(literals)
    lines, turned = known["lines"], known["rows"] > known["cols"]
    if lines:
        values["s_copy"] = 2 if width > p.core.panel_packed else int(width > COPIED)
    reals = kept * width + high * DEEP + tall * width + 2 * COLS
    reals += rounded(tall, COLS) * width if turned else 0
    lanes = cost.VECTOR_BYTES // p.real_bytes
    strips, vectors, core = -(-cols // width), -(-cols // lanes), p.core
    end = core.panel_end + turned * core.panel_back
    operations = _tiles(rows, vectors, core) * terms * core.panel_sum + rows * vectors * end + cost.PANEL_START
    operations += -(-rows // ROWS) * -(-cols // COLS) * max(1.0, terms / DEEP) * core.panel_tile
    sizes = [prod(p.operands[side].shape) * p.real_bytes for side in (1 - known["vector"], known["vector"])]
    gather_a, gather_b = (
        core.panel_far_gather if s > p.within(cost.PANEL_GATHER_BYTES) else core.panel_gather for s in sizes
    )
    copied = values.get("s_copy", 1) > 0
    far_a = _far(p, sizes[0], core.panel_sum * rounded(cols, COLS) / strips, copied)
    far_b = _far(p, sizes[1], core.panel_sum * rows, True)
    if copied:
        packing = _packing(roles["m"], roles["k"], "a", ROWS, gather_a, far_a, p)
        operations += terms * rounded(rows, ROWS) * strips * packing / lanes
    else:
        operations += terms * rows * strips * far_a / lanes
    packing = _packing(roles["n"], roles["k"], "b", COLS, gather_b, far_b, p)
    operations += terms * rounded(cols, COLS) * packing / lanes
    inner = roles["m" if turned else "n"]
    if len(inner) > 1:
        operations += rows * cols / inner[-1].extent * core.panel_run
    return Choice(
        name,
        literals,
        tuple(values.items()),
        reals * p.real_bytes + 4 * (rows + cols + 2 * terms + high + DEEP),
        groups * operations / cost.OPERATIONS_PER_US,
    )


def _tiles(rows: int, vectors: int, core: Core) -> float:
    """Vectors of sums of all tiles, as many as of those of whole tiles that take as long."""
    rest = -(-(rows % ROWS) // (ROWS // 3))
    high = rows // ROWS * ROWS + (rest * ROWS // 3 * core.panel_low[rest - 1] if rest else 0.0)
    return high * (vectors - vectors % 2 + vectors % 2 * core.panel_narrow)


def _far(p: Problem, size: int, sums: float, packed: bool) -> float:
    """What reading a vector of an operand of so many bytes takes more where it comes from beyond the second cache, for
    which there are so many operations of sums meanwhile."""
    share = beyond(size, p.device)
    return max(0.0, p.core.far_read * (share - packed * AHEAD * min(1.0, share)) - HIDDEN * sums)


def _packing(
    outer: Sequence[_Dim], terms: Sequence[_Dim], operand: str, width: int, gather: float, far: float, p: Problem
) -> float:
    """The cost of packing a vector of an operand in panels of a width: of neighbours, which take `far` more, else of
    neighbouring terms, which are transposed, else of single elements, which takes `gather`."""
    lanes, core = cost.VECTOR_BYTES // p.real_bytes, p.core
    panels, squares = _whole(outer, operand, width), _whole(terms, operand, lanes)
    rest = squares * core.panel_turn + (1 - squares) * gather
    return panels * (core.panel_pack + far) + (1 - panels) * rest


def _whole(dims: Sequence[_Dim], operand: str, width: int) -> float:
    """The share of parts of a width that are neighbours in memory."""
    extent = dims[-1].extent if dims and getattr(dims[-1], operand) == 1 else 0
    if extent < width or len(dims) == 1:
        return extent // width * width / extent if extent else 0.0
    apart = gcd(extent, width)  # of the places in a run where parts begin, all of which are as frequent
    return ((extent - width) // apart + 1) * apart / extent


def _depths(p: Problem, choice: Choice) -> list[Choice]:
    """Blocks of fewer terms."""
    return [with_columns(choice, s_depth=SHALLOW)]


STRATEGY: Final = Strategy(NAME, match, _depths, strided=True)
LANES_STRATEGY: Final = Strategy(LANES_NAME, match_lanes, _depths, strided=True)
