"""tensor_cores: products on matrix units with rounded factors, such as NVIDIA's tensor cores.

Each is implicit_gemm with other products: operands are loaded, split and joined in the same way. `tf32` rounds both
factors to 11 significant bits (relative error of a product below 2^-10). `tf32x3` splits each factor into a high and a
low part of 11 bits and omits the product of the two low ones (below 2^-20: three products instead of one; Ootomo &
Yokota 2022, "Recovering single precision accuracy from Tensor Cores", without their rescue of denormals). Sums are
float32; those of the units themselves, which are truncated instead of rounded, have only a few terms.

Assumes: what implicit_gemm assumes; float32.
Guarantees: taken only where `numerics: {products: ...}` permits it, and there in place of implicit_gemm: matmul and
direct_conv are as fast, and exact.
Does not: apply to float64, whose products have separate units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.ir.level2.target import Capabilities
from compiler.strategies.choice import Choice, NotApplicable, Problem
from compiler.strategies.cost import cuda as cost
from compiler.strategies.cuda import implicit_gemm, tensor_products

TF32: Final = "tensor_cores_tf32"
TF32X3: Final = "tensor_cores_tf32x3"
PASSES: Final = {TF32: 1, TF32X3: 3}
"""Products of parts of factors for each product."""
_FLOAT32: Final = frozenset({tensor_products.FLOAT32})
_TF32X3: Final = _FLOAT32 | {TF32X3}
_TF32: Final = _TF32X3 | {TF32, tensor_products.TF32}
_PERMITTED: Final = {
    "exact": frozenset[str](),
    "float32": _FLOAT32,
    "tf32x3": _TF32X3,
    "tf32": _TF32,
    "bf16": _TF32 | {tensor_products.BF16},
}
"""What each value of `numerics: {products: ...}` permits."""
SQUARE: Final = 2
"""The number of the tile shape (implicit_gemm.TILES) that there is."""
LEAST: Final = 32
"""Rows, columns and terms of a product that fills enough of a tile."""


def permitted(capabilities: Capabilities, numerics: l0.Numerics) -> Capabilities:
    """The target restricted to strategies whose products are as exact as the model requires."""
    out = (PASSES.keys() | tensor_products.KINDS) - _PERMITTED[numerics.products]
    return replace(capabilities, strategies=capabilities.strategies - out)


def _match(p: Problem, name: str) -> Choice | NotApplicable:
    if p.real_bytes != 4:
        return NotApplicable("its reals are not float32")
    found = implicit_gemm.with_tile(p, SQUARE, LEAST)
    return (
        found
        if isinstance(found, NotApplicable)
        else replace(found, strategy=name, microseconds=cost.UNITS_TIME[name] * found.microseconds)
    )


def match_of(name: str) -> Callable[[Problem], Choice | NotApplicable]:
    """How `name` matches a problem."""
    return lambda p: _match(p, name)
