"""split_products: products of float32 on matrix units, each factor as the sum of two fp16 numbers of 11 bits.

A first kernel splits both operands: blocks of 64 x 64 elements are scaled by a power of two, so that the largest one is
below 2^15, and stored as two matrices of fp16, the rounded numbers and what rounding left, laid out as matrix units
read them, with the factor that undoes the scale. A second one copies blocks into a ring in shared memory, from which
two warpgroups multiply (wgmma): of the four products of parts the three largest are summed, the small ones first, and
every 64 terms the sum of the unit, which is truncated, is scaled back and added to one that is rounded.

A factor loses 2^-23 of itself at most, the product of two rests is below 2^-22 of a product: the error against float64
is no larger than that of a float32 sum in order from LEAST_TERMS terms on (Ootomo & Yokota 2022, "Recovering
single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance"; blocks with their
own scales in place of a correction that is scaled by itself).

Assumes: what implicit_gemm assumes; float32; every index a plain dim.
Guarantees: taken only where `numerics: {products: ...}` permits it, on sm_90, for operands that stored_products could
read, and where it is faster by estimate than tensor_products. A number below 2^-17 of the largest one of its block
keeps what is above 2^-40 of that. Where a factor is not finite, so are its sums, but NaN in place of an infinity; so,
too, where the largest numbers of two blocks have a product beyond float32's range.
Does not: read windows, or share what it has split with other products.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, Problem, refuse_if, rounded
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import implicit_gemm, stored_products, tensor_products
from compiler.strategies.cuda.stored_products import AHEAD, Product
from compiler.strategies.strategy import Strategy, found_by
from compiler.strategies.tilings import MOST_TILES, Tiling, choices, parts, tiled

NAME: Final = "split_products"
SIZE: Final = 128
"""Rows and columns of a tile."""
BLOCK: Final = 64
"""Rows and columns that are split together, and terms of a stage."""
STAGES: Final = 3
"""Of the ring."""
NUMBERS: Final = 4
"""Of tiles (`s_tile`): which operands are contiguous across (stored_products.number_of)."""
LEAST_TERMS: Final = 160
"""A float32 sum in order of fewer terms is more exact."""
_SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
"""The blocks of a tile wait for each other: no more than any device has processors."""
_BLOCK_BYTES: Final = 2 * 2 * BLOCK * BLOCK


def blocks(batch: int, side: int, k: int) -> int:
    """That an operand is split into: of both axes as many as fill tiles."""
    return batch * prod(rounded(e, SIZE) // BLOCK for e in (side, k))


def shared_bytes() -> int:
    """Dynamic shared memory of a block."""
    return STAGES * 2 * (SIZE // BLOCK) * _BLOCK_BYTES + AHEAD


def tilings(x: Product, device: Target = H200) -> list[Tiling]:
    """All tilings, the fastest by estimate first."""
    found, (batch, m, n, k), number = list[Tiling](), x.extents, stored_products.number_of(0, *x.across)
    many = batch * -(-m // SIZE) * -(-n // SIZE)
    moved = 2 * _BLOCK_BYTES * (blocks(batch, m, k) + blocks(batch, n, k))
    before = cost.SPLIT_LAUNCH_US + moved / cost.SPLIT_RATE
    for splits, depth in parts(k, BLOCK, _SPLITS, 4 * BLOCK):
        waves = -(-many * splits // device.processors)
        working = waves * (depth // BLOCK * cost.SPLIT_STEP_US + cost.SPLIT_START_US)
        join = cost.SPLIT_JOIN_US if splits > 1 else 0.0
        found.append(Tiling(before + (working + join) * cost.waits(device), number, splits, depth))
    return sorted(found)


def _product(p: Problem) -> Product:
    refuse_if(p.device.architecture != "sm_90", "the device's units do not read fp16 from shared memory by warpgroups")
    found = stored_products.product_of(p, stored_products.TF32)
    large = any(prod(x.shape) >= LIMIT for x in p.operands)
    refuse_if(large, "an operand has more elements than 32-bit offsets reach")
    refuse_if(found.extents[3] < LEAST_TERMS, "a sum in order of so few terms is more exact")
    return found


def _match(p: Problem) -> Choice:
    """The fastest tiling, where it is faster than tensor_products, which are not asked then."""
    found = _product(p)
    other = tensor_products.tilings(tensor_products.FLOAT32, *found.extents, p.device)[0].microseconds
    most = min(other, cost.PRODUCTS_GAIN * implicit_gemm.tiling(*found.extents, p.device).microseconds)
    refuse_if(tilings(found, p.device)[0].microseconds > most, "it takes longer to split its factors than it gains")
    return variants(p)[0]


def variants(p: Problem) -> list[Choice]:
    """The tilings of a problem, the fastest by estimate first."""
    found = _product(p)
    batch, m, n, k = found.extents
    rows, columns = (blocks(batch, side, k) for side in (m, n))
    refuse_if(rows + columns > MOST_TILES, "it has more blocks of factors than a launch may have")
    elements = (rows + columns) * (_BLOCK_BYTES // 4 + 1)

    def made(t: Tiling) -> Choice:
        many = batch * -(-m // SIZE) * -(-n // SIZE)
        found = tiled(p, NAME, t, many, SIZE * SIZE, microseconds=t.microseconds, joined=True, wins=True)
        return with_blocks(found, rows, columns, elements)

    return choices(made, tilings(found, p.device))


def with_blocks(found: Choice, rows: int, columns: int, elements: int) -> Choice:
    """With so many blocks of both operands, in an array of so many elements."""
    named = (*found.columns, ("s_row_blocks", rows), ("s_column_blocks", columns))
    return replace(found, columns=named, scratch_bytes=found.scratch_bytes + 4 * elements, workspace=elements)


STRATEGY: Final = Strategy(NAME, _match, found_by(variants), "float32")
