"""matmul: a product of two row-major matrices, M x N x K, by tiles in shared memory.

y[m, n] = sum over k of a(m, k) b(n, k), every index a plain dim: dense layers and both of their gradients. Strides are
data, so all of them share their machine code except for the epilogue. Tiles are small where the product is: a block has
all of K, which groups of its threads share, since sums of several blocks are joined through memory. Where there are few
tiles even so, K is split among blocks, whose sums are added in the order of K.

Assumes: Contracts in gather form, no lanes.
Guarantees: tile shape and split (`s_tile`, `s_splits`, `s_depth`) follow from the extents and the device, and with
them the bits.
Does not: compete: where it matches, it is chosen. Match batches of products or windows (implicit_gemm does).
"""

from __future__ import annotations

from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.strategy import Strategy, first_of, found_by
from compiler.strategies.tilings import Tiling, choices, parts, tiled

NAME = "matmul"
TILES = (32, 64, 16)
"""Rows and columns of a tile, by number (`s_tile`)."""
STAGE = 1024
"""Elements of one operand that a block reads at a time."""
STAGES_BYTES: Final = 40960
"""Of what it has under way and works on: 4 such stages of both operands in float32, 2 in float64, with padding."""
_SPLITS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64)


def step_of(tile: int) -> int:
    """Terms of K that are staged at a time."""
    return STAGE // TILES[tile]


def tiles(tile: int, m: int, n: int) -> int:
    return -(-m // TILES[tile]) * -(-n // TILES[tile])


def tiling(m: int, n: int, k: int, device: Target = H200) -> Tiling:
    """The fastest tiling by estimate."""
    return tilings(m, n, k, device)[0]


def tilings(m: int, n: int, k: int, device: Target = H200) -> list[Tiling]:
    """All tilings, the fastest by estimate first."""
    return sorted(
        Tiling(_microseconds(t, tiles(t, m, n), splits, depth // step_of(t), device), t, splits, depth)
        for t in range(len(TILES))
        for splits, depth in parts(k, step_of(t), _SPLITS)
    )


def _microseconds(number: int, many: int, splits: int, stages: int, device: Target) -> float:
    """The estimate for `many` tiles of that number, in so many splits of `stages` stages."""
    blocks = -(-many * splits // device.processors)  # of a processor
    waits = -(-blocks // cost.MATMUL_RESIDENT) * stages * cost.MATMUL_WAIT_US[number]
    waiting = (cost.MATMUL_START_US + blocks * cost.MATMUL_BLOCK_US[number] + waits) * cost.waits(device)
    working = blocks * stages * cost.MATMUL_WORK_US[number] * cost.works(device)
    sums = TILES[number] ** 2 / 1024
    joining = cost.MATMUL_TILE_US * sums + splits * cost.MATMUL_SPLIT_US * sums
    return waiting + working + (cost.MATMUL_JOIN_US + joining if splits > 1 else 0.0)


def variants(p: Problem) -> list[Choice]:
    """The tilings, the fastest by estimate first."""
    refuse_if(p.lanes, "the batch is in the lanes")
    refuse_if(len(p.out) != 2 or len(p.extents) != 3, "it is not a product of two matrices")
    k = next(d for d in p.extents if d not in p.out)
    plain = {frozenset(p.plain(x)) for x in (0, 1)}
    if any(len(p.plain(x)) != 2 for x in (0, 1)) or plain != {frozenset((d, k)) for d in p.out}:
        raise NotApplicable("the operands are not matrices of one dim of the output and the one that is summed over")
    m, n = p.extents[p.out[0]], p.extents[p.out[1]]
    if min(m, n, p.extents[k]) == 0 or max(m, n, p.extents[k]) >= LIMIT:
        raise NotApplicable("it is empty, or an axis is longer than 32-bit indices reach")
    fastest = tilings(m, n, p.extents[k], p.device)
    return choices(lambda t: tiled(p, NAME, t, tiles(t.tile, m, n), TILES[t.tile] ** 2), fastest)


STRATEGY: Final = Strategy(NAME, first_of(variants), found_by(variants), strided=True)
