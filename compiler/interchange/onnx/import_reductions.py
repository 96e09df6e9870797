"""ONNX's reductions as `reduce` layers between formulas, and the norms composed of them.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: any axes of a sample; the batch axis is an error (E0918).
Does not: reduce by products.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from compiler.layers.shared.onnx.importer import Computed, Importer, refused
from compiler.layers.shared.onnx.inputs import Attrs, axis_of, data, hint_of

_OF_ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {"ReduceL1": "abs({x})", "ReduceL2": "{x} * {x}", "ReduceSumSquare": "{x} * {x}"}
)
_OF_SUMS: Final[Mapping[str, str]] = MappingProxyType({"ReduceL2": "sqrt({x})", "ReduceLogSum": "log({x})"})
_FUNCTIONS: Final[Mapping[str, str]] = MappingProxyType({"ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min"})
REDUCTIONS: Final = frozenset({*_OF_ELEMENTS, *_OF_SUMS, *_FUNCTIONS, "ReduceSum", "ReduceLogSumExp"})


def _reduced(m: Importer, hint: str, x: Computed, axes: list[int], function: str, keep: bool = True) -> Computed:
    shape = tuple(1 if a in axes else e for a, e in enumerate(x.shape) if keep or a not in axes)
    return m.layer("reduce", hint, [m.real(x)], {"function": function, "axes": list(axes), "keep": keep}, shape)


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
    if op == "ReduceLogSumExp":  # minus the maximum, to prevent overflow
        top = _reduced(m, f"{hint}_largest", x, axes, "max")
        less = m.formula(f"{hint}_less", f"exp({x.name} - {top.name})", x.shape)
        total = _reduced(m, f"{hint}_sum", less, axes, "sum")
        made = m.formula(hint, f"log({total.name}) + {top.name}", total.shape)
        if not keep:
            made = m.reshape(f"{hint}_kept", made, tuple(e for a, e in enumerate(x.shape) if a not in axes))
    else:
        if op in _OF_ELEMENTS:
            x = m.formula(f"{hint}_each", _OF_ELEMENTS[op].format(x=x.name), x.shape).at(x)
        made = _reduced(m, hint, x, axes, _FUNCTIONS.get(op, "sum"), keep)
        if op in _OF_SUMS:
            made = m.formula(hint, _OF_SUMS[op].format(x=made.name), made.shape)
    return made.among(x, x.lead if keep else x.lead - sum(a < x.lead for a in axes))


def unit_norm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """LpNormalization: x over its norm along an axis; 0 where that is 0."""
    x, hint, p = data(node, ins), hint_of(node), int(attrs.get("p", 2))
    axis = axis_of(node, int(attrs.get("axis", -1)), x)
    each = m.formula(f"{hint}_each", f"{x.name} * {x.name}" if p == 2 else f"abs({x.name})", x.shape)
    norm = _reduced(m, f"{hint}_sum", each, [axis], "sum")
    if p == 2:
        norm = m.formula(f"{hint}_length", f"sqrt({norm.name})", norm.shape)
    return m.formula(hint, f"{x.name} / {norm.name} if {norm.name} > 0.0 else 0.0", x.shape)
