"""assign_layouts: dtype, role and layout of the array of each tensor.

Assumes: tensors of both phases with one name are one array (weights, variables), all others are temporaries.
Guarantees: with `lanes` > 0 the batch of batched tensors is in vector lanes; all other tensors are row-major.
Does not: assign offsets (plan_memory).
"""

from __future__ import annotations

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import NOWHERE, Span
from compiler.ir.space import DType, Role


def real_lanes(lanes: int, precision: DType) -> int:
    """Lanes of the batch-in-lanes layout for a precision: the size of a vector in bytes is fixed."""
    return lanes * 4 // precision.bytes


def layout_of(tensor: l1.Tensor, lanes: int) -> l2.Lanes | None:
    return l2.Lanes(lanes) if tensor.batched and lanes else None


def array_of(
    tensor: l1.Tensor, name: str, precision: DType, lanes: int, role: Role, wide: bool = False, span: Span = NOWHERE
) -> l2.Array:
    """The array of a tensor; scalars have one element."""
    dtype = DType.I32 if tensor.dtype == "int" else DType.BF16 if tensor.dtype == "bf16" else precision
    dtype = DType.F64 if wide else dtype
    return l2.Array(name, dtype, tensor.room or (1,), role, layout_of(tensor, lanes), span=span)


def strides_of(tensor: l1.Tensor, lanes: int) -> tuple[int, ...]:
    """Elements per step along each axis; with lanes, axis 0 counts blocks of `lanes` rows."""
    step = lanes if tensor.batched and lanes else 1
    return tuple(by if tensor.steps_first and a == 1 else step * by for a, by in enumerate(tensor.strides))
