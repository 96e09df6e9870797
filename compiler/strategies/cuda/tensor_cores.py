"""tensor_cores: products on matrix units with rounded factors, such as NVIDIA's tensor cores.

Each is implicit_gemm with other products: operands are loaded, split and joined in the same way. `tf32` rounds both
factors to 11 significant bits (relative error of a product below 2^-10). `tf32x3` splits each factor into a high and a
low part of 11 bits and omits the product of the two low ones (below 2^-20: three products instead of one; Ootomo &
Yokota 2022, "Recovering single precision accuracy from Tensor Cores", without their rescue of denormals). Sums are
float32; those of the units themselves, which are truncated instead of rounded, have only a few terms.

Assumes: what implicit_gemm assumes; float32.
Guarantees: taken only where `numerics: {products: ...}` permits it, or the factors are bf16 in memory, and there in
place of implicit_gemm: matmul and direct_conv are as fast, and exact.
Does not: apply to float64, whose products have separate units.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from compiler.strategies.choice import Choice, Problem, refuse_if
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cuda import implicit_gemm
from compiler.strategies.strategy import Strategy

TF32: Final = "tensor_cores_tf32"
TF32X3: Final = "tensor_cores_tf32x3"
STORED: Final = "tensor_cores_stored"
"""`tf32` of operands that are bf16 in memory: their products are exact."""
PASSES: Final = {TF32: 1, TF32X3: 3, STORED: 1}
"""Products of parts of factors for each product."""
SQUARE: Final = 2
"""The number of the tile shape (implicit_gemm.TILES) that there is."""
LEAST: Final = 32
"""Rows, columns and terms of a product that fills enough of a tile."""


def _match(p: Problem, name: str) -> Choice:
    refuse_if(p.real_bytes != 4, "its reals are not float32")
    refuse_if(name == STORED and p.stored != (True, True), "its operands are not both bf16")
    found = implicit_gemm.with_tile(p, SQUARE, LEAST)
    return replace(found, strategy=name, microseconds=cost.UNITS_TIME[name] * found.microseconds)


STRATEGIES: Final = (
    *(Strategy(name, partial(_match, name=name), products=name.rpartition("_")[2]) for name in (TF32, TF32X3)),
    Strategy(STORED, partial(_match, name=STORED), bf16=True),
)
