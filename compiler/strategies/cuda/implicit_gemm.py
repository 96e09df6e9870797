"""implicit_gemm: a product of two row-major operands as a matrix product of tiles, M x N x K.

The dims of the output that index one operand alone are M (the side with more dims, so the pixels of a convolution) and
N; those that index both are a batch of products (groups); the dims that are summed over are K. Every operand is read
through its own affine indices, with guards and exact division, so it covers dense layers, convolutions and all their
gradients (Chetlur et al. 2014, cuDNN: implicit GEMM). Where the output has few tiles, K is split among blocks; their
sums are added in the order of K.

Assumes: Contracts in gather form, no lanes.
Guarantees: tile shape and split (`s_tile`, `s_splits`, `s_depth`) follow from the extents and the device, and with
them the bits.
Does not: depend on the device but by the estimate, which affects speed and the order of sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.strategy import Strategy, first_of, found_by
from compiler.strategies.tilings import Tiling, choices, parts, tiled

NAME = "implicit_gemm"


@dataclass(frozen=True)
class Tile:
    """Shape of a block's tile: m x n outputs, k terms in a step."""

    m: int
    n: int
    k: int


TILES = (Tile(32, 32, 32), Tile(128, 16, 16), Tile(64, 64, 16))
"""By number (`s_tile`): small ones for little work, tall ones for few filters, square ones for large products."""
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384)


@dataclass(frozen=True)
class Sides:
    """The dims of a product by their part in it, in the order of the nest; those that index no operand, and have one
    element, are with N. `rows`: the operand that M indexes."""

    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    rows: int


def sides(out: tuple[str, ...], summed: tuple[str, ...], used: tuple[frozenset[str], frozenset[str]]) -> Sides:
    """`used`: the dims that index each operand."""
    alone = tuple(tuple(d for d in out if d in used[x] and d not in used[1 - x]) for x in (0, 1))
    rows = 0 if len(alone[0]) >= len(alone[1]) else 1
    both = tuple(d for d in out if d in used[0] and d in used[1])
    columns = tuple(d for d in out if d not in used[rows])
    return Sides(both, alone[rows], columns, summed, rows)


def _microseconds(tile: Tile, batch: int, m: int, n: int, k: int, splits: int, device: Target) -> float:
    """Estimated microseconds of a product."""
    blocks = batch * -(-m // tile.m) * -(-n // tile.n) * splits
    steps = ceil(k / splits / tile.k)
    waves = -(-blocks // (device.processors * cost.GEMM_RESIDENT))
    waiting = waves * (steps * cost.GEMM_STEP_US + cost.GEMM_START_US) * cost.waits(device)
    working = -(-blocks // device.processors) * (steps * tile.k + 8) * tile.m * tile.n / cost.GEMM_TERMS_PER_US
    join = splits * cost.GEMM_JOIN_US * tile.m * tile.n / 1024 + 1.0 if splits > 1 else 0.0
    return max(waiting, working * cost.works(device)) + join


def tiling(batch: int, m: int, n: int, k: int, device: Target = H200) -> Tiling:
    """The fastest one by estimate."""
    return tilings(batch, m, n, k, device)[0]


def tilings(batch: int, m: int, n: int, k: int, device: Target = H200) -> list[Tiling]:
    """All of them, the fastest by estimate first."""
    return sorted(
        Tiling(_microseconds(tile, batch, m, n, k, splits, device), number, splits, depth)
        for number, tile in enumerate(TILES)
        for splits, depth in parts(k, tile.k, _SPLITS, 2 * tile.k)
    )


def with_tile(p: Problem, number: int, least: int) -> Choice:
    """The fastest tiling, by estimate, with that tile shape; only for `least` rows, columns and terms, or more."""
    found = extents(p)
    refuse_if(min(found[1:]) < least, "it would leave most of a tile empty")
    return _choice(p, found, next(t for t in tilings(*found, p.device) if t.tile == number))


def variants(p: Problem) -> list[Choice]:
    """The tilings, the fastest by estimate first."""
    found = extents(p)
    return choices(partial(_choice, p, found), tilings(*found, p.device))


def extents(p: Problem) -> tuple[int, int, int, int]:
    """(batch, m, n, k) of the product."""
    refuse_if(p.lanes, "the batch is in the lanes")
    used = tuple(frozenset(d for a in p.axes(x) for d, _ in a.terms) for x in (0, 1))
    if not all(d in used[0] or d in used[1] or p.extents[d] == 1 for d in p.out):
        raise NotApplicable("an axis of the output indexes no operand")
    found = sides(p.out, tuple(d for d in p.extents if d not in p.out), (used[0], used[1]))
    refuse_if(not found.k, "nothing is summed over")
    refuse_if(not {*found.n} & used[1 - found.rows], "each element of an operand is used once: it is a weighted sum")
    for x in (0, 1):
        refuse_if(any(extent >= LIMIT for extent in p.operands[x].shape), "an axis is longer than 32-bit indices reach")
    batch, m, n, k = (prod(p.extents[d] for d in dims) for dims in (found.batch, found.m, found.n, found.k))
    refuse_if(min(batch, m, n, k) == 0, "it is empty")
    return batch, m, n, k


def _choice(p: Problem, product: tuple[int, int, int, int], t: Tiling) -> Choice:
    batch, m, n, _ = product
    tile, us = TILES[t.tile], cost.GEMM_MEASURED * t.microseconds + cost.GEMM_TEXT_US
    return tiled(p, NAME, t, batch * -(-m // tile.m) * -(-n // tile.n), tile.m * tile.n, microseconds=us)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants), bf16=True, strided=True)
