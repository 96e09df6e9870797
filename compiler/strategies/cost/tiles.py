"""tiles: the register tiles available to contraction strategies.

Assumes: one vector is 64 bytes; 32 vector registers.
Guarantees: `TILES`, `DOTS` and `ROWS_GRADIENTS` are the tiles that the CPU backend prints, in this order: a tile's
index in its table is the number that kernels read from their rows, so that the choice is data and not text.
Does not: measure. `speed` (operations a cycle, relative) is the geometric mean of what small convolutions reached on a
Xeon and on an EPYC, both with AVX-512.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.devices import MEASURED_CORE


@dataclass(frozen=True)
class Shape:
    """A tile of `outs` outputs by `vectors` vectors."""

    outs: int
    vectors: int
    speed: float


TILES = (
    Shape(8, 3, 110),
    Shape(6, 4, 112),
    Shape(4, 6, 109),
    Shape(4, 5, 108),
    Shape(2, 10, 95),
    Shape(1, 12, 65),
    Shape(8, 2, 107),
    Shape(16, 1, 86),
)
"""Scalars times vectors: acc[o][u] += w[o] * x[u]."""

DOTS = (
    Shape(4, 6, 113),
    Shape(4, 5, 110),
    Shape(3, 5, 104),
    Shape(2, 10, 104),
    Shape(1, 12, 78),
    Shape(4, 4, 98),
)
"""Vectors times vectors: acc[o][u] += d[o] * x[u], lane by lane."""

ROWS_GRADIENTS = (
    Shape(4, 6, 80),
    Shape(2, 9, 60),
    Shape(1, 9, 36),
    Shape(1, 12, 40),
)
"""Vectors of neighbouring pixels times vectors of what a tap sees of them: acc[o][u] += d[o] * x[u], lane by lane. Both
are read where they lie, mostly in two lines of the first cache each."""


def weight_lines(shape: Shape, outs: int, strips: int, terms: int, step: int, weights: int) -> float:
    """Estimated vector operations of reading `weights` bytes again for each strip of pixels, whose terms lie `step`
    bytes apart."""
    far = max(0.0, min(constants.WEIGHT_LINE * (weights / 1e6 - 1), constants.WEIGHT_LINE_MOST))
    return far * strips * terms * -(-outs // shape.outs) if step >= MEASURED_CORE.foreseen else 0.0


@dataclass(frozen=True)
class Walk:
    """Neighbouring vectors of a tile see windows `step` vectors apart, each of so many `taps` along them."""

    step: float = 1.0
    taps: float = 1.0

    def fresh(self, vectors: int) -> float:
        """Vectors of a term that no other term reads."""
        return min(vectors, (self.step * (vectors - 1) + self.taps) / self.taps)


APART: Final = Walk()
"""No two terms read the same vector."""


def cost(
    shape: Shape, outs: int, parts: Sequence[tuple[float, float]], near: float = math.inf, walk: Walk = APART
) -> float:
    """Estimated vector operations of a tile that covers `outs` outputs by the parts' (vectors, terms of each sum).
    `near`: bytes that the first cache holds: vectors of a longer sum come from the second one, but for those that
    other terms read, too (`walk`)."""
    size, fresh = shape.outs * shape.vectors, walk.fresh(shape.vectors)
    total = 0.0
    for vectors, terms in parts:
        term = size / shape.speed * 118
        if terms * fresh * constants.VECTOR_BYTES > near:
            term = max(term, constants.TILE_FAR_VECTOR * fresh)
        total += math.ceil(vectors / shape.vectors) * (terms * term + constants.TILE_START + 2 * size)
    return -(-outs // shape.outs) * total


def best(
    shapes: tuple[Shape, ...],
    outs: int,
    parts: Sequence[tuple[float, float]],
    near: float = math.inf,
    walk: Walk = APART,
) -> tuple[int, float]:
    """The index of the tile with the least estimated cost, and that cost."""
    costs = [cost(s, outs, parts, near, walk) for s in shapes]
    least = min(costs)
    return costs.index(least), least
