"""Operands of operators: computed tensors, constants, axes; and slicing, shared by several.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: an operand of another kind than requested raises RunError (E0918) with the node and the reason. Does not:
interpret operators.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.layers.shared.context import HIDDEN
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Repeated, Sized, refused

Attrs = Mapping[str, Any]
Shape = tuple[int, ...]
MOST_PARTS = 64
"""Largest number of elements of an axis gathered one by one."""


def data(node: Any, ins: Sequence[Any], k: int = 0, moved: bool = False, kinds: bool = False) -> Computed:
    """Input k, which must be computed and real. `moved`: its batch may be another axis than the first, or merged with
    others; `kinds`: it may also hold integers or Booleans."""
    value = ins[k] if k < len(ins) else None
    if not isinstance(value, Computed):
        raise refused(node, f"its input {k} is a constant")
    if not kinds and (value.whole or value.counted or value.truth):
        raise refused(node, f"its input {k} holds {'truth values' if value.truth else 'whole numbers'}")
    if value.own and not moved:
        raise refused(node, f"its input {k} has the batch and {math.prod(value.own)} others as one axis")
    if value.batch and not moved:
        raise refused(node, f"its input {k} has the batch as its axis {value.batch}")
    return value


def constant(node: Any, ins: Sequence[Any], k: int, default: Array | None = None) -> Array:
    """Input k, which must be a constant."""
    value = ins[k] if k < len(ins) else None
    if value is None:
        if default is None:
            raise refused(node, f"its input {k} is missing")
        return default
    if isinstance(value, Sized):
        raise refused(node, "it computes with the size of the batch")
    if not isinstance(value, np.ndarray | np.generic):
        raise refused(node, f"its input {k} is computed, not a constant")
    return np.asarray(value)


def held(m: Importer, node: Any, array: Array, x: Computed) -> Computed:
    """A constant operand beside `x`, the same for every sample. Raises RunError (E0918)."""
    shape = (1,) * (x.rank - array.ndim) + array.shape
    if len(shape) != x.rank or 0 in shape:
        raise refused(node, f"a constant ({list(array.shape)}) does not go together with what is computed")
    joined = _for_one(m, array.reshape(shape), x)
    if joined is None:
        raise refused(node, f"a constant ({list(array.shape)}) differs from sample to sample")
    values = joined.astype(np.float64)
    values = np.where(np.isneginf(values), HIDDEN, values)
    made = m.layer("learned", f"{hint_of(node)}_constant", [], {"shape": list(joined.shape)}, joined.shape,
                   {"weight": values})  # fmt: skip
    return replace(made.at(x), truth=array.dtype == bool)


def _for_one(m: Importer, array: Array, x: Computed) -> Array | None:
    """The slice for one sample of an array of the rank of the graph's tensor; None if it differs between samples."""
    ahead, extent, behind = array.shape[: x.lead], array.shape[x.lead], array.shape[x.lead + 1 :]
    if extent == 1:
        return array.reshape(*ahead, *(1 for _ in x.own), *behind)
    if m.batch is None or extent != m.batch * math.prod(x.own):
        return None
    first, last = x.own[: x.before], x.own[x.before :]
    each = np.moveaxis(array.reshape(*ahead, *first, m.batch, *last, *behind), x.batch, 0)
    return each[0] if np.all(each == each[0]) else None


def axis_of(node: Any, axis: int, x: Computed) -> int:
    """An axis of the graph's tensor as one of a sample of `x`."""
    axis = axis + x.rank if axis < 0 else axis
    if axis == x.lead:
        raise refused(node, "it works along the batch")
    return axis if axis < x.lead else axis + x.before + x.after - 1


def hint_of(node: Any) -> str:
    """The preferred name of its layer."""
    return str(node.output[0])


def cut(m: Importer, hint: str, x: Computed, axis: int, start: int, stop: int) -> Computed:
    """Elements [start, stop) of an axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    return m.layer("slice", hint, [x], {"axis": axis, "from": start, "to": stop}, shape).moved(x)


def taken(m: Importer, node: Any, x: Computed, axis: int, places: Sequence[int]) -> Computed:
    """Elements of an axis in any order. Raises RunError (E0918)."""
    hint = hint_of(node)
    runs: list[tuple[int, int]] = []
    for p in places:
        if runs and runs[-1][1] == p:
            runs[-1] = (runs[-1][0], p + 1)
        else:
            runs.append((p, p + 1))
    if not runs or len(runs) > MOST_PARTS:
        raise refused(node, f"it takes {len(runs)} parts of an axis")
    if len(runs) == 1:
        return cut(m, hint, x, axis, *runs[0])
    parts = [cut(m, f"{hint}_part", x, axis, *run) for run in runs]
    return joined(m, hint, parts, axis)


def joined(m: Importer, hint: str, parts: list[Computed], axis: int) -> Computed:
    """Concatenation along an axis of a sample."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0].shape
    shape = (*first[:axis], sum(p.shape[axis] for p in parts), *first[axis + 1 :])
    if all(p.whole for p in parts):
        return m.layer("concat", hint, parts, {"axis": axis}, shape).moved(parts[0])
    made = m.layer("concat", hint, [m.real(p) for p in parts], {"axis": axis}, shape)
    return made.like(parts[0]).at(parts[0])


def repeated(m: Importer, node: Any, value: Repeated) -> Computed:
    """A broadcast tensor as a layer. Raises RunError (E0918)."""
    x = value.source
    for axis, (extent, wanted) in enumerate(zip(x.shape, value.shape, strict=True)):
        if extent != wanted:
            if wanted > MOST_PARTS:
                raise refused(node, f"it needs {wanted} copies of what is repeated before")
            x = joined(m, f"{hint_of(node)}_copies", [x] * wanted, axis)
    return x


def ranked(m: Importer, x: Computed, rank: int) -> Computed:
    """`x` with axes of extent 1 prepended to the graph's tensor, as in broadcasting."""
    more = rank - x.rank
    return m.reshape(f"{x.name}_ranked", x, (1,) * more + x.shape).among(x, more + x.lead) if more > 0 else x


def short(value: float) -> float:
    """The shortest decimal representation of a 32-bit float."""
    return float(str(np.float32(value)))
