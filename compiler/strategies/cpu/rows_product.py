"""rows_product: products of matrices of row-major arrays, in packed panels.

y[g, m, n] = sum over k of a[g, m, k] b[g, k, n], each of g, m, n and k up to three dims, which the arrays may have in
any order: dense layers and their gradients over single examples or sequences, and attention. The scheme is that of
K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication (ACM TOMS 34(3), 2008) and of BLIS
(F. Van Zee and R. van de Geijn, ACM TOMS 41(3), 2015): columns of b are packed once for a strip of y, rows of a block
by block, so that a register tile reads both in order; a panel of b stays in a core's first cache, a block of a in its
second. Whichever operand has the last axis of y is b. Terms are added in order of k, whatever the blocks.

Assumes: Contracts in gather form, no lanes.
Guarantees: taken by estimate, where packing pays.
Does not: match indices that are sums of dims (convolutions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from compiler.strategies.choice import LIMIT, VECTOR_BYTES, Choice, NotApplicable, Problem, rounded, strides
from compiler.strategies.cost.cpu import (
    OPERATIONS_PER_US,
    PANEL_END,
    PANEL_GATHER,
    PANEL_PACK,
    PANEL_START,
    PANEL_STRIP_BYTES,
    PANEL_SUM,
)
from compiler.strategies.strategy import Strategy, with_columns

NAME = "rows_product"
ROWS, COLS = 12, 32
"""Multiples of every register tile that the template may have."""
HIGH, DEEP, WIDE = 120, 240, 2048
"""Rows and terms of a block of a, columns of a strip of y at most."""
LEVELS = 3


@dataclass(frozen=True)
class _Dim:
    """A dim with its strides in the operands, 0 where it does not index one."""

    extent: int
    a: int
    b: int


def match(p: Problem) -> Choice | NotApplicable:
    if p.lanes:
        return NotApplicable("its tensors are not row-major")
    walked = p.plain(0), p.plain(1)
    if not p.out:
        return NotApplicable("the output is one number")
    if any(None in w or len(set(w)) != len(w) for w in walked):
        return NotApplicable("an operand is not indexed by plain dims")
    last = p.out[-1]
    if last in walked[0] and last in walked[1]:
        return NotApplicable("both operands have the last axis of the output")
    vector = 0 if last in walked[0] else 1
    if last not in walked[vector] or any(d not in walked[0] and d not in walked[1] for d in p.extents):
        return NotApplicable("no operand has one of its dims")
    alone = [[d for d in p.out if d in walked[s] and d not in walked[1 - s]] for s in (1 - vector, vector)]
    both = [d for d in p.out if d in walked[0] and d in walked[1]]
    summed = [d for d in p.extents if d not in p.out]
    if any(d not in walked[0] or d not in walked[1] for d in summed):
        return NotApplicable("a sum runs over one operand alone")
    if not summed:
        return NotApplicable("it has no sum")
    a, b = (dict(zip(walked[s], strides(p.operands[s]), strict=True)) for s in (1 - vector, vector))
    roles = {
        name: _merged([_Dim(p.extents[d], a.get(d, 0), b.get(d, 0)) for d in dims])
        for name, dims in (("g", both), ("m", alone[0]), ("n", alone[1]), ("k", summed))
    }
    if any(len(r) > LEVELS for r in roles.values()):
        return NotApplicable("its matrices have more than three dims on a side")
    if max(prod(t.shape) for t in p.operands) >= LIMIT:
        return NotApplicable("it is larger than 32-bit offsets reach")
    literals = (("vector", vector), ("rows", _places(p, alone[0])), ("cols", _places(p, alone[1])))
    return _choice(p, roles, literals)


def _places(p: Problem, dims: Sequence[str]) -> int:
    """The output's axes that are `dims`, as bits."""
    return sum(1 << p.out.index(d) for d in dims)


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


def _choice(p: Problem, roles: dict[str, list[_Dim]], literals: tuple[tuple[str, int], ...]) -> Choice:
    groups, rows, cols, terms = (prod(d.extent for d in roles[r]) for r in "gmnk")
    width = min(rounded(cols, COLS), max(COLS, min(WIDE, PANEL_STRIP_BYTES // (terms * p.real_bytes)) // COLS * COLS))
    values: dict[str, int] = {}
    for role, dims in roles.items():
        filled = [_Dim(1, 0, 0)] * (LEVELS - len(dims)) + dims
        for level, d in enumerate(filled):
            values[f"s_{role}{level}"] = d.extent
            for operand in {"g": "ab", "m": "a", "n": "b", "k": "ab"}[role]:
                values[f"s_{operand}_{role}{level}"] = d.a if operand == "a" else d.b
    values |= {"s_high": HIGH, "s_depth": DEEP, "s_wide": width}
    high = min(rounded(rows, ROWS), HIGH)
    reals = terms * width + high * DEEP + high * width + 2 * COLS
    lanes = VECTOR_BYTES // p.real_bytes
    strips, vectors = -(-cols // width), -(-cols // lanes)
    operations = rounded(rows, ROWS // 2) * vectors * terms * PANEL_SUM + rows * vectors * PANEL_END + PANEL_START
    operations += terms * (rows * strips * _packing(roles["m"], roles["k"], "a")) / lanes
    operations += terms * (cols * _packing(roles["n"], roles["k"], "b")) / lanes
    return Choice(
        NAME,
        literals,
        tuple(values.items()),
        reals * p.real_bytes + 4 * (rows + cols + 2 * terms),
        groups * operations / OPERATIONS_PER_US,
    )


def _packing(outer: Sequence[_Dim], terms: Sequence[_Dim], operand: str) -> float:
    """The cost of packing a vector of an operand."""
    near = [d for d in (*outer[-1:], *terms[-1:]) if getattr(d, operand) == 1]
    return PANEL_PACK if near else PANEL_GATHER


def _depths(p: Problem, choice: Choice) -> list[Choice]:
    """Blocks of half as many terms."""
    return [with_columns(choice, s_depth=DEEP // 2)]


STRATEGY: Final = Strategy(NAME, match, _depths)
