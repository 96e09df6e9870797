"""tiles: the register tiles available to contraction strategies.

Assumes: one vector is 64 bytes; 32 vector registers.
Guarantees: `TILES`, `DOTS` and `ROWS_GRADIENTS` are the tiles that the CPU backend prints, in this order: a tile's
index in its table is the number that kernels read from their rows, so that the choice is data and not text.
Does not: measure. `speed` (operations a cycle, relative) is the geometric mean of what small convolutions reached on a
Xeon and on an EPYC, both with AVX-512; `two` is what the Xeon reaches (cores.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.cost import cpu as constants
from compiler.strategies.cost.cores import ONE, Core, starts_two
from compiler.strategies.cost.devices import MEASURED_CORE


@dataclass(frozen=True)
class Shape:
    """A tile of `outs` outputs by `vectors` vectors; `two`: its speed on a core that starts two multiply-adds a
    cycle."""

    outs: int
    vectors: int
    speed: float
    two: float = 0.0


TILES = (
    Shape(8, 3, 110, 162),
    Shape(6, 4, 112, 168),
    Shape(4, 6, 109, 165),
    Shape(4, 5, 108, 163),
    Shape(2, 10, 95, 132),
    Shape(1, 12, 65, 96),
    Shape(8, 2, 107, 157),
    Shape(16, 1, 86, 106),
)
"""Scalars times vectors: acc[o][u] += w[o] * x[u]."""

DOTS = (
    Shape(4, 6, 113, 163),
    Shape(4, 5, 110, 162),
    Shape(3, 5, 104, 155),
    Shape(2, 10, 104, 157),
    Shape(1, 12, 78, 105),
    Shape(4, 4, 98, 147),
)
"""Vectors times vectors: acc[o][u] += d[o] * x[u], lane by lane."""

ROWS_GRADIENTS = (
    Shape(4, 6, 80, 125),
    Shape(2, 9, 60, 97),
    Shape(1, 9, 36, 56),
    Shape(1, 12, 40, 56),
)
"""Vectors of neighbouring pixels times vectors of what a tap sees of them: acc[o][u] += d[o] * x[u], lane by lane. Both
are read where they lie, mostly in two lines of the first cache each."""


WHOLE_PART: Final = 512
"""Pixels that are summed at a time where nothing is read again."""


@cache
def on(shapes: tuple[Shape, ...], device: Target) -> tuple[Shape, ...]:
    """The tiles at their speeds on a device."""
    return tuple(replace(s, speed=s.two) for s in shapes) if starts_two(device) else shapes


def beyond(bytes_: float, device: Target) -> float:
    """The share of what is walked again and again that comes from beyond the second cache; what comes from beyond the
    third one counts twice. Half of a cache is for what is read beside it, and nothing stays of what is larger than all
    of it."""
    caches = constants.second_cache(device), constants.THIRD_BYTES
    return sum(min(1.0, max(0.0, 2 * bytes_ / cache - 1)) for cache in caches)


def part(taps: int, shapes: tuple[Shape, ...], core: Core) -> int:
    """Pixels, or vectors of them, that a gradient of weights sums at a time: those of a tile's outputs are read again
    for every tile of taps, where one has not all of them."""
    return core.part if taps > max(s.vectors for s in shapes) else WHOLE_PART


def weight_lines(shape: Shape, outs: int, strips: int, terms: int, step: int, weights: int, core: Core) -> float:
    """Estimated vector operations of reading `weights` bytes again for each strip of pixels, whose terms lie `step`
    bytes apart."""
    far = max(0.0, min(core.weight_line * (weights / 1e6 - 1), constants.WEIGHT_LINE_MOST))
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
    shape: Shape,
    outs: int,
    parts: Sequence[tuple[float, float]],
    near: float = math.inf,
    walk: Walk = APART,
    core: Core = ONE,
) -> float:
    """Estimated vector operations of a tile that covers `outs` outputs by the parts' (vectors, terms of each sum).
    `near`: bytes that the first cache holds: vectors of a longer sum come from the second one, but for those that
    other terms read, too (`walk`)."""
    size, fresh = shape.outs * shape.vectors, walk.fresh(shape.vectors)
    total = 0.0
    for vectors, terms in parts:
        term = size / shape.speed * 118
        if terms * fresh * constants.VECTOR_BYTES > near:
            term = max(term, core.tile_wait * fresh) + core.tile_far * fresh
        total += math.ceil(vectors / shape.vectors) * (terms * term + core.start + core.start_each * size)
    return -(-outs // shape.outs) * total


def best(
    shapes: tuple[Shape, ...],
    outs: int,
    parts: Sequence[tuple[float, float]],
    near: float = math.inf,
    walk: Walk = APART,
    core: Core = ONE,
) -> tuple[int, float]:
    """The index of the tile with the least estimated cost, and that cost."""
    costs = [cost(s, outs, parts, near, walk, core) for s in shapes]
    least = min(costs)
    return costs.index(least), least
