"""What operators read: computed tensors, constants, axes; and cutting, which several need.

Assumes: values of onnx_import.py.
Guarantees: what is not of the kind that is asked for raises RunError (E0918) with the node and the reason.
Does not: know operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.interchange.onnx_importer import Array, Computed, Importer, refused

Attrs = Mapping[str, Any]
Shape = tuple[int, ...]
MOST_PARTS = 64
"""Elements of an axis that may be taken one by one."""


def data(node: Any, ins: Sequence[Any], k: int = 0, moved: bool = False, truth: bool = False) -> Computed:
    """Input k, which must be computed and real. `moved`: its batch may be another axis than the first; `truth`: it may
    hold truth values."""
    value = ins[k] if k < len(ins) else None
    if not isinstance(value, Computed):
        raise refused(node, f"its input {k} is a constant")
    if value.whole or (value.truth and not truth):
        raise refused(node, f"its input {k} holds {'truth values' if value.truth else 'whole numbers'}")
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
    if not isinstance(value, np.ndarray | np.generic):
        raise refused(node, f"its input {k} is computed, not a constant")
    return np.asarray(value)


def held(m: Importer, node: Any, array: Array, x: Computed) -> Computed:
    """A constant array that stands beside `x`, the same for every sample. Raises RunError (E0918)."""
    shape = (1,) * (len(x.shape) + 1 - array.ndim) + array.shape
    if len(shape) != len(x.shape) + 1 or shape[x.batch] != 1 or 0 in shape:
        raise refused(node, f"a constant ({list(array.shape)}) differs from sample to sample")
    own = (*shape[: x.batch], *shape[x.batch + 1 :])
    values = {"weight": array.astype(np.float64).reshape(own)}
    truth = array.dtype == bool
    made = m.layer("learned", f"{hint_of(node)}_constant", [], {"shape": list(own)}, own, values)
    return replace(made, batch=x.batch, truth=truth)


def axis_of(node: Any, axis: int, rank: int, batch: int = 0) -> int:
    """An axis of the whole tensor (`rank` axes with the batch) as one of a sample."""
    axis = axis + rank if axis < 0 else axis
    if axis == batch:
        raise refused(node, "it works along the batch")
    return axis - (axis > batch)


def hint_of(node: Any) -> str:
    """What its layer is called if it can be."""
    return str(node.output[0])


def cut(m: Importer, hint: str, x: Computed, axis: int, start: int, stop: int) -> Computed:
    """Elements [start, stop) of an axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    shape = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    made = m.layer("slice", hint, [x], {"axis": axis, "from": start, "to": stop}, shape)
    return replace(made, batch=x.batch)


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
    """Several, one after the other along an axis of a sample."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0].shape
    shape = (*first[:axis], sum(p.shape[axis] for p in parts), *first[axis + 1 :])
    return replace(m.layer("concat", hint, parts, {"axis": axis}, shape), batch=parts[0].batch)
