"""ONNX's reductions as global pooling between formulas, and the norms composed of them.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: any axes of a sample; the batch axis is an error (E0918).
Does not: reduce by products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from compiler.layers.pool import kept_axes, reduced
from compiler.layers.shared.onnx.importer import Computed, Importer, refused
from compiler.layers.shared.onnx.inputs import Attrs, axis_of, data, hint_of

_BEFORE: Final[Mapping[str, str]] = MappingProxyType(
    {"ReduceL1": "abs({x})", "ReduceL2": "{x} * {x}", "ReduceSumSquare": "{x} * {x}", "ReduceMin": "-{x}"}
)
_AFTER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ReduceSum": "{x} * {n}", "ReduceL1": "{x} * {n}", "ReduceL2": "sqrt({x} * {n})",
        "ReduceSumSquare": "{x} * {n}", "ReduceLogSum": "log({x} * {n})", "ReduceMin": "-{x}",
    }
)  # fmt: skip
REDUCTIONS: Final = frozenset({*_BEFORE, *_AFTER, "ReduceMean", "ReduceMax", "ReduceLogSumExp"})


def import_reduction(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """The operator as layers. Raises RunError (E0918)."""
    op, hint, x = node.op_type, hint_of(node), data(node, ins, moved=True)
    given = ins[1] if len(ins) > 1 and ins[1] is not None else attrs.get("axes")
    if given is None or isinstance(given, Computed):
        raise refused(node, "it reduces the batch, too")
    axes = sorted({axis_of(node, int(a), x) for a in np.asarray(given).reshape(-1)})
    if not axes:
        raise refused(node, "it reduces no axis")
    keep = bool(attrs.get("keepdims", 1))
    if not keep and len(axes) == len(x.shape):
        raise refused(node, "it leaves no axis besides the batch")
    if op == "ReduceLogSumExp":  # minus the maximum, to prevent overflow
        top = reduced(m, f"{hint}_largest", x, axes, True, True)
        less = m.formula(f"{hint}_less", f"exp({x.name} - {top.name})", x.shape)
        mean = reduced(m, f"{hint}_mean", less, axes, False, True)
        made = m.formula(hint, f"log({mean.name} * {_count(x, axes)}) + {top.name}", mean.shape)
        made = made if keep else m.reshape(f"{hint}_kept", made, kept_axes(x, axes, False))
    else:
        if op in _BEFORE:
            x = m.formula(f"{hint}_each", _BEFORE[op].format(x=x.name), x.shape).at(x)
        made = reduced(m, hint, x, axes, op in ("ReduceMax", "ReduceMin"), keep)
        if op in _AFTER:
            made = m.formula(hint, _AFTER[op].format(x=made.name, n=_count(x, axes)), made.shape)
    return made.among(x, x.lead if keep else x.lead - sum(a < x.lead for a in axes))


def _count(x: Computed, axes: list[int]) -> str:
    return f"{float(math.prod(x.shape[a] for a in axes))}"


def unit_norm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """LpNormalization: x over its norm along an axis; 0 where that is 0."""
    x, hint, p = data(node, ins), hint_of(node), int(attrs.get("p", 2))
    axis = axis_of(node, int(attrs.get("axis", -1)), x)
    each = m.formula(f"{hint}_each", f"{x.name} * {x.name}" if p == 2 else f"abs({x.name})", x.shape)
    mean = reduced(m, f"{hint}_mean", each, [axis], False, True)
    total = f"{mean.name} * {_count(x, [axis])}"
    norm = m.formula(f"{hint}_length", f"sqrt({total})" if p == 2 else total, mean.shape)
    return m.formula(hint, f"{x.name} / {norm.name} if {norm.name} > 0.0 else 0.0", x.shape)
