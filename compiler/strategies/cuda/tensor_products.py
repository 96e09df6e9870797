"""tensor_products: large products on matrix units, by warpgroups (wgmma) on NVIDIA's sm_90, by warps elsewhere.

A block sums a tile of 128 rows: two warpgroups multiply, with row factors in registers, and a third one brings column
factors through shared memory, both converted on their way from float32. Three kinds:
`float32`: each factor is the exact sum of three bf16 numbers of 8 bits; of the nine products of parts the six largest
are summed (what is left out is below 2^-21 of a product), the small ones first, and every 32 terms the sum of the unit,
which is truncated, is added to one that is rounded. Its error against float64 is no larger than that of a float32 sum
in order (Henry, Tang & Heinecke 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations").
`tf32`: factors rounded to 11 significant bits. `bf16`: to 8.

Assumes: what implicit_gemm assumes; float32; every index a plain dim.
Guarantees: taken only where `numerics: {products: ...}` permits it, and there for products that are large enough; tile
shape and split follow from the extents alone. Where a factor is not finite, so are its sums, but NaN in place of an
infinity.
Does not: read windows (implicit_gemm does), or apply to float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Final

from compiler.ir.level2.target import Target
from compiler.strategies.choice import LIMIT, Choice, NotApplicable, Problem, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cost.devices import H200
from compiler.strategies.cuda import implicit_gemm
from compiler.strategies.strategy import Strategy, found_by
from compiler.strategies.tilings import Tiling, choices, parts, tiled

FLOAT32: Final = "tensor_products_float32"
TF32: Final = "tensor_products_tf32"
BF16: Final = "tensor_products_bf16"
KINDS: Final = {BF16: "nl_bf16", TF32: "nl_tf32", FLOAT32: "nl_bf16x3"}
"""The fastest first; by name the structure of its template."""
ROWS: Final = 128
"""Of a tile."""
COLUMNS: Final = (128, 256)
"""Of a tile, by number (`s_tile`)."""
DEEP: Final = 32
"""Terms of a step."""
_BYTES: Final = {BF16: 2, TF32: 4, FLOAT32: 6}
"""Of a column factor in shared memory."""
_ALIGNED: Final = 1024
"""Bytes after which shared memory is aligned as matrix units need it."""
_LEAST: Final = 32
"""Rows and columns of a product that fills enough of a tile."""
_LEAST_TERMS: Final = 64
"""Terms of it: a float32 sum of fewer in order is more exact."""
_SPLITS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
"""The blocks of a tile wait for each other: no more than any device has processors."""


def tiles(tile: int, batch: int, m: int, n: int) -> int:
    return batch * -(-m // ROWS) * -(-n // COLUMNS[tile])


def tilings(kind: str, batch: int, m: int, n: int, k: int, device: Target = H200) -> list[Tiling]:
    """All tilings, the fastest by estimate first."""
    found = []
    for tile, step in enumerate(cost.PRODUCTS_STEP_US[kind]):
        many, size = tiles(tile, batch, m, n), COLUMNS[tile] / COLUMNS[0]
        for splits, depth in parts(k, DEEP, _SPLITS, 4 * DEEP):
            waves = -(-many * splits // device.processors)
            working = waves * (depth // DEEP * step + cost.PRODUCTS_START_US * size)
            join = cost.PRODUCTS_JOIN_US * size if splits > 1 else 0.0
            found.append(Tiling((working + join) * cost.waits(device), tile, splits, depth))
    return sorted(found)


def shared_bytes(strategy: str, numbers: Iterable[int]) -> int:
    """Dynamic shared memory of a block for the larger of its column factors of three steps and its sums, for tiles of
    these numbers; 0 for other strategies."""
    if strategy not in KINDS:
        return 0
    columns = max(COLUMNS[number] for number in numbers)
    return max(3 * columns * DEEP * _BYTES[strategy], 4 * ROWS * columns) + _ALIGNED


def _match(p: Problem, name: str) -> Choice:
    refuse_if(p.real_bytes != 4, "its reals are not float32")
    found = implicit_gemm.extents(p)
    if any(d is None for x in (0, 1) for d in p.plain(x)):
        raise NotApplicable("an operand is read through a window")
    if any(prod(p.operands[x].shape) >= LIMIT for x in (0, 1)):
        raise NotApplicable("an operand has more elements than 32-bit offsets reach")
    refuse_if(min(found[1:3]) < _LEAST or found[3] < _LEAST_TERMS, "it would leave most of a tile empty")
    gemm = cost.PRODUCTS_GAIN * implicit_gemm.tiling(*found, p.device).microseconds
    refuse_if(tilings(name, *found, p.device)[0].microseconds > gemm, "it is too small to gain")
    return variants(p, name)[0]


def variants(p: Problem, name: str) -> list[Choice]:
    """The tilings of a problem that matches, the fastest by estimate first."""
    batch, m, n, k = implicit_gemm.extents(p)

    def made(t: Tiling) -> Choice:
        many, elements = tiles(t.tile, batch, m, n), ROWS * COLUMNS[t.tile]
        return tiled(p, name, t, many, elements, microseconds=t.microseconds, joined=True, wins=True)

    return choices(made, tilings(name, batch, m, n, k, p.device))


STRATEGIES: Final = tuple(
    Strategy(
        name,
        partial(_match, name=name),
        found_by(partial(variants, name=name)),
        name.rpartition("_")[2],
        strided=True,
    )
    for name in KINDS
)
