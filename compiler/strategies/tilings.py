"""tilings: what products by tiles have alike: shapes of tiles, parts of a sum, and their columns.

Assumes: tiles by number (`s_tile`), a sum of K terms in `s_splits` parts of `s_depth` terms each.
Guarantees: both follow from the extents and the device, and with them the bits.
Does not: estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from compiler.strategies.choice import Choice, NotApplicable, Problem, refuse_if, rounded

MOST_TILES: Final = 1 << 24
MOST_VARIANTS: Final = 6
"""Tilings that are worth measuring, by estimate."""


@dataclass(frozen=True, order=True)
class Tiling:
    """`tile` by number; K is split in `splits` parts of `depth` terms."""

    microseconds: float
    tile: int
    splits: int
    depth: int

    @property
    def columns(self) -> tuple[tuple[str, int], ...]:
        return ("s_tile", self.tile), ("s_splits", self.splits), ("s_depth", self.depth)


def parts(k: int, step: int, wanted: Iterable[int], least: int = 0) -> set[tuple[int, int]]:
    """(splits, depth) of a sum of `k` terms in about as many parts as are wanted, of whole steps; where there are
    several, of at least so many."""
    depths = {rounded(ceil(k / n), step) for n in wanted}
    return {(-(-k // depth), depth) for depth in depths if depth >= min(k, least)}


def choices(made: Callable[[Tiling], Choice], tilings: Sequence[Tiling], most: int = MOST_VARIANTS) -> list[Choice]:
    """The choices of the first tilings, but for those with too many tiles. Raises NotApplicable where all have."""
    found = list[Choice]()
    for t in tilings[:most]:
        with suppress(NotApplicable):
            found.append(made(t))
    return found or [made(tilings[0])]


def tiled(
    p: Problem,
    name: str,
    t: Tiling,
    tiles: int,
    elements: int,
    literals: tuple[tuple[str, int], ...] = (),
    **more: Any,
) -> Choice:
    """The choice of a tiling that has so many tiles, of so many elements each; `more` fields. Raises NotApplicable."""
    refuse_if(tiles * t.splits > MOST_TILES, "it has more tiles than a launch may have blocks")
    scratch = tiles * t.splits * elements * p.real_bytes if t.splits > 1 else 0
    return Choice(name, literals, t.columns, scratch, **more)
