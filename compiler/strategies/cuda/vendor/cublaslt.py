"""cublaslt: products of matrices by NVIDIA's library cuBLASLt, called inside the captured graph.

Four kinds: of float32, in float32, tf32 or bf16; and of operands that are bf16 in memory. The library stores sums
alone: what follows a product is another kernel. Its workspace is planned with the other arrays.

Assumes: what implicit_gemm assumes; every index a plain dim; the library (extra `cuda-libraries`), which the backend
looks for.
Guarantees: no rule takes it, and exact products do not permit it: it is computed with where `netloom tune` has measured
it. Sums that are added up by atomic operations are not asked for: their order is that of the library, the same on every
run. `s_tile`: which of the library's own proposals for the product.
Does not: read windows, or operands and results whose sides do not lie in memory as one stride each, one of them 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, refuse_if
from compiler.strategies.cuda import implicit_gemm
from compiler.strategies.cuda.implicit_gemm import sides
from compiler.strategies.cuda.stored_products import joined
from compiler.strategies.cuda.vendor.libraries import proposals, room_of
from compiler.strategies.strategy import Strategy

KINDS: Final = {
    "cublaslt_float32": "float32",
    "cublaslt_tf32": "tf32",
    "cublaslt_bf16": "bf16",
    "cublaslt_stored": "float32",
}
"""What `numerics: {products: ...}` has to permit at least."""
STORED: Final = "cublaslt_stored"
LARGE: Final = 1 << 27
"""Terms from which on a product has a large workspace."""
ROOM: Final = (4 << 20, 32 << 20)
"""Bytes of a workspace."""
_ALIGNED: Final = 8
"""Elements that strides of bf16 are multiples of."""

Side = tuple[int, int]
"""Extent and stride, in elements."""


@dataclass(frozen=True)
class Stored:
    """A matrix by columns: `turned` is whether it is to be transposed, `ld` its stride, `by` that of the batch."""

    turned: bool
    ld: int
    by: int


def _stored(side: Side, deep: Side, by: int, first: bool) -> Stored | None:
    """A factor of sums over `deep`: the `first` one has its side along the rows of the result."""
    if deep[1] == 1:
        found = Stored(first, max(side[1], deep[0]) if side[0] == 1 else side[1], by)
        return found if found.ld >= deep[0] else None
    if side[1] == 1:
        found = Stored(not first, max(deep[1], side[0]) if deep[0] == 1 else deep[1], by)
        return found if found.ld >= side[0] else None
    return None


def _walks(p: Problem) -> tuple[Sequence[Side], Sequence[Side], Sequence[Side], int] | None:
    """Batch, rows and terms of the row operand; batch, columns and terms of the other; batch, rows and columns of the
    result; and which operand has the rows."""
    used = [frozenset(d for a in p.axes(x) for d, _ in a.terms) for x in (0, 1)]
    found = sides(p.out, tuple(d for d in p.extents if d not in p.out), (used[0], used[1]))
    arrays = (
        (p.plain(found.rows), p.operands[found.rows], found.m, found.k),
        (p.plain(1 - found.rows), p.operands[1 - found.rows], found.n, found.k),
        (p.out, p.node.out, found.m, found.n),
    )
    walks = []
    for axes, tensor, *parts in arrays:
        by = dict(zip(axes, tensor.strides, strict=True))
        walks.append([joined([(p.extents[d], by.get(d, 0)) for d in part]) for part in (found.batch, *parts)])
    if any(side is None for walk in walks for side in walk):
        return None
    a, b, y = ([side for side in walk if side is not None] for walk in walks)
    return a, b, y, found.rows


def _match(p: Problem, kind: str) -> Choice:
    stored = kind == STORED
    refuse_if(p.real_bytes != 4 or p.stored != (stored, stored), "its operands are of another type")
    implicit_gemm.extents(p)  # else it is no product
    if any(d is None for x in (0, 1) for d in p.plain(x)):
        raise NotApplicable("an operand is read through a window")
    found = _walks(p)
    if found is None:
        raise NotApplicable("the dims of a side do not lie in memory as one")
    a, b, y, rows = found
    if y[2][1] == 1:  # columns are neighbours: the transposed result, by columns
        first, second, operand, height, width = b, a, 1 - rows, y[2], y[1]
    elif y[1][1] == 1:
        first, second, operand, height, width = a, b, rows, y[1], y[2]
    else:
        raise NotApplicable("no side of the result has neighbours in memory")
    many = y[0][0]
    by = [x[0][1] if many > 1 else 0 for x in (first, second, y)]
    one, two = (_stored(x[1], x[2], n, x is first) for x, n in zip((first, second), by, strict=False))
    ld = max(width[1], height[0]) if width[0] == 1 else width[1]
    if one is None or two is None or ld < height[0]:
        raise NotApplicable("the sides of an operand have no neighbours in memory")
    if stored and any(x % _ALIGNED for x in (one.ld, two.ld, ld, *by)):
        raise NotApplicable("an operand has lines of other than multiples of 16 bytes")
    return _choice(p, kind, (operand, height[0], width[0], first[2][0], many), (one, two, Stored(False, ld, by[2])))


def _choice(p: Problem, kind: str, extents: tuple[int, ...], matrices: tuple[Stored, ...]) -> Choice:
    room, bytes_ = room_of(p, ROOM[prod(extents[1:]) >= LARGE])
    columns = dict(zip(("s_first", "s_rows", "s_cols", "s_terms", "s_batch"), extents, strict=True))
    for name, x in zip("abd", matrices, strict=True):
        columns |= {f"s_turned_{name}": int(x.turned), f"s_ld_{name}": x.ld, f"s_by_{name}": x.by}
    columns |= {"s_room": room, "s_tile": 0}
    return Choice(kind, (), tuple(columns.items()), bytes_, workspace=bytes_ // p.real_bytes, bare=True)


STRATEGIES: Final = tuple(
    Strategy(name, partial(_match, kind=name), proposals, products, bf16=name == STORED)
    for name, products in KINDS.items()
)
