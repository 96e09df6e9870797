"""groups: how many threads share a point of a reduction.

Assumes: extents of the point's row.
Guarantees: the number follows from these alone, so that neither merging rows nor another device changes a bit.
Does not: divide points among blocks (backends/cuda/kernels/launch_geometry.py).
"""

from __future__ import annotations

from typing import Final

from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.nests.nest import WARP

_BUSY: Final = 1 << 17
"""Threads that keep a device busy."""
_ENOUGH: Final = 1 << 14
"""Points from which on a thread for each is better than several that share the terms of a sum."""
_LONG_SUM: Final = 2048
MOST_SHARES: Final = 64
"""Blocks that share a point of a reduction, at most."""


def group_size(points: int, terms: int, along: bool = False) -> int:
    """Threads that share one point of a reduction: 1, a warp, a block or several blocks. `along`: its terms are
    neighbours in memory, so that a warp reads them at once."""
    if terms < WARP or (points >= _ENOUGH and not along):
        return 1
    if points >= _ENOUGH:
        return WARP
    blocks = min(terms // _LONG_SUM, _BUSY // (points * BLOCK), MOST_SHARES)
    if terms >= 4 * _LONG_SUM and blocks > 1:
        return blocks * BLOCK
    few = points * (WARP if terms >= _LONG_SUM else BLOCK) < _BUSY
    return BLOCK if few and terms >= BLOCK else WARP


def along_terms(points: int, terms: int) -> int:
    """Of points whose terms are neighbours."""
    return group_size(points, terms, True)


def in_block(points: int, terms: int) -> int:
    """Of those, if no block shares a point with another one."""
    return min(along_terms(points, terms), BLOCK)
