"""ONNX operators of data movement and broadcasting, and constant folding.

Assumes: values of layers/shared/onnx/importer.py; import_batch.py tracks the batch axis.
Guarantees: moving elements between samples, or computing with the batch size, is an error (E0918). Does not:
materialize what readers broadcast implicitly.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

import compiler.interchange.onnx.import_batch as batches
import compiler.layers.shared.onnx.inputs as inputs
from compiler.interchange.onnx.import_maps import ELEMENTWISE
from compiler.layers.shared.onnx.importer import MARKS, Array, Batches, Computed, Importer, Repeated, Sized, refused

_BROADCAST = frozenset(
    ("Cast", "Concat", "ConstantOfShape", "Expand", "Gather", "Identity", "Slice", "Squeeze", "Tile", "Transpose",
     "Unsqueeze")
)  # fmt: skip
"""Operators with equivalent results for a constant with an axis of 1 and one with the batch's extent."""


# ------------------------------------------------------------------------------------------- operators


def import_reshape(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed | Repeated:
    value = ins[0]
    if isinstance(value, Repeated):
        like = Computed("", value.shape).at(value.source)
        found = batches.relaid(m, like, batches.reshape_target(node, ins, attrs, batches.extents(m, like)))
        if found is not None and found[0] == value.shape:
            return replace(value, source=value.source.at(found[1]))
        value = inputs.repeated(m, node, value)
    x = inputs.data(node, [value], moved=True, kinds=True)
    return batches.reshaped(m, node, x, batches.reshape_target(node, ins, attrs, batches.extents(m, x)))


def import_flatten(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    x = inputs.data(node, ins, moved=True, kinds=True)
    axis = int(attrs.get("axis", 1))
    axis = axis + x.rank if axis < 0 else axis
    found = batches.extents(m, x)
    parts = [found[:axis], found[axis:]]
    if any(len([e for e in part if isinstance(e, Batches)]) > 1 for part in parts):
        raise refused(node, "it joins the batch with other axes")
    joint: list[batches.Extent] = []
    for part in parts:
        size, times = math.prod(e for e in part if isinstance(e, int)), [e for e in part if isinstance(e, Batches)]
        joint.append(Batches(size * times[0].times) if times else size)
    return batches.reshaped(m, node, x, joint)


def import_transpose(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    x = inputs.data(node, ins, moved=True, kinds=True)
    perm = list(attrs.get("perm", range(x.rank - 1, -1, -1)))
    return batches.transposed(m, inputs.hint_of(node), x, perm)


def import_squeeze(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    """Squeeze and Unsqueeze."""
    x = inputs.data(node, ins, moved=True, kinds=True)
    given = ins[1] if len(ins) > 1 and ins[1] is not None else attrs.get("axes")
    if given is None or isinstance(given, Computed | Sized):
        raise refused(node, "its axes are not given" if given is None else "its axes are computed")
    numbers = [int(v) for v in np.asarray(given).reshape(-1)]
    adds = node.op_type == "Unsqueeze"
    rank = x.rank + (len(numbers) if adds else 0)
    axes = sorted(a + rank if a < 0 else a for a in numbers)
    whole = [*x.ahead, -1, *x.behind]
    for a in axes if adds else axes[::-1]:
        if adds:
            whole.insert(a, 1)
        elif whole.pop(a) != 1:
            raise refused(node, "it works along the batch")
    lead = whole.index(-1)
    y = m.reshape(inputs.hint_of(node), x, (*whole[:lead], *x.own, *whole[lead + 1 :]))
    return y.among(x, lead)


def import_expand(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed | Repeated:
    """A computed tensor, broadcast along axes of a sample."""
    value = ins[0]
    x = value.source if isinstance(value, Repeated) else value
    if not isinstance(x, Computed):
        raise refused(node, "its shape is computed")
    shape = value.shape
    wanted = batches.wanted_extents(node, ins, 1)
    if len(wanted) > x.rank:
        more = len(wanted) - x.rank
        y = m.reshape(f"{x.name}_ranked", x, (1,) * more + x.shape)
        x, shape = y.among(x, more + x.lead), (1,) * more + shape
    wanted = [*(1 for _ in range(x.rank - len(wanted))), *wanted]
    own = batches.extents(m, x)[x.lead]
    if wanted[x.lead] not in (1, own):
        raise refused(node, "it repeats the batch")
    sizes: list[int] = []
    for extent in (*wanted[: x.lead], *(1 for _ in x.own), *wanted[x.lead + 1 :]):
        if not isinstance(extent, int):
            raise refused(node, "it makes the batch out of an axis of the sample")
        sizes.append(extent)
    full = tuple(max(a, b) for a, b in zip(shape, sizes, strict=True))
    return x if full == x.shape else Repeated(x, full)


def import_concat(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    like = next(i for i in ins if isinstance(i, Computed))
    ins = [inputs.held(m, node, i, like) if isinstance(i, np.ndarray) else i for i in ins]
    parts = [inputs.data(node, ins, k, moved=True, kinds=True) for k in range(len(ins))]
    if len({(p.whole, p.truth) for p in parts}) > 1:
        raise refused(node, "its inputs are of different types")
    if len({(p.batch, p.before, p.after) for p in parts}) > 1:
        raise refused(node, "its inputs have their batches at different axes")
    return inputs.joined(m, inputs.hint_of(node), parts, inputs.axis_of(node, int(attrs["axis"]), parts[0]))


def import_tile(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    x = inputs.data(node, ins, moved=True)
    repeats = [int(v) for v in inputs.constant(node, ins, 1)]
    if repeats[x.lead] != 1 or min(repeats) < 1 or max(repeats) > inputs.MOST_PARTS:
        raise refused(node, "it repeats the batch, leaves nothing, or makes very many copies")
    for axis, times in enumerate(repeats):
        if axis != x.lead:
            x = inputs.joined(m, inputs.hint_of(node), [x] * times, inputs.axis_of(node, axis, x))
    return x


def import_slice(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    x = inputs.data(node, ins, moved=True, kinds=True)
    if m.opset < 10:
        bounds: list[list[batches.Extent]] = [[int(v) for v in attrs[k]] for k in ("starts", "ends")]
        axes = list(attrs.get("axes", range(len(bounds[0]))))
        steps = [1] * len(axes)
    else:
        bounds = [batches.wanted_extents(node, ins, 1), batches.wanted_extents(node, ins, 2)]
        axes = [int(a) for a in inputs.constant(node, ins, 3, np.arange(len(bounds[0])))]
        steps = [int(s) for s in inputs.constant(node, ins, 4, np.ones(len(axes), np.int64))]
    for start, end, axis, step in zip(*bounds, axes, steps, strict=True):
        if axis in (x.lead, x.lead - x.rank):
            whole = batches.extents(m, x)[x.lead]
            least = whole if isinstance(whole, int) else 2**31 - 1
            if start == 0 and step == 1 and (end == whole or (isinstance(end, int) and end >= least)):
                continue
            raise refused(node, "it cuts the batch")
        if not isinstance(start, int) or not isinstance(end, int):
            raise refused(node, "it computes with the size of the batch")
        at = inputs.axis_of(node, axis, x)
        places = range(x.shape[at])[start:end:step]
        if not places:
            raise refused(node, "nothing is left")
        x = inputs.taken(m, node, x, at, places)
    return x


def import_gather(m: Importer, node: Any, ins: list[Any], attrs: inputs.Attrs) -> Computed:
    axis = int(attrs.get("axis", 0))
    if isinstance(ins[1], Computed) and not isinstance(ins[0], Computed):
        return _embedded(m, node, inputs.constant(node, ins, 0), ins[1], axis)
    x, index = inputs.data(node, ins, moved=True, kinds=True), inputs.constant(node, ins, 1)
    whole = axis + x.rank if axis < 0 else axis
    axis = inputs.axis_of(node, axis, x)
    y = inputs.taken(m, node, x, axis, [int(v) % x.shape[axis] for v in index.reshape(-1)])
    y = m.reshape(inputs.hint_of(node), y, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return y.among(x, x.lead + (index.ndim - 1 if whole < x.lead else 0))


def _embedded(m: Importer, node: Any, table: Array, index: Computed, axis: int) -> Computed:
    if axis != 0 or table.ndim != 2 or not index.whole:
        raise refused(node, "it is no look-up of rows of a matrix")
    settings = {"count": table.shape[0], "size": table.shape[1]}
    shape = (*index.shape, table.shape[1])
    return m.layer("embedding", inputs.hint_of(node), [index], dict(settings), shape, {"weight": table}).at(index)


# ------------------------------------------------------------------------------------------- constants


def fold(m: Importer, node: Any, ins: list[Array | Sized | None]) -> None:
    """A node that depends on constants alone is computed by ONNX's reference implementation; one that depends on the
    batch size, for both of two sizes. Raises RunError (E0918)."""
    outs = [o for o in node.output if o]
    given, ins = ins, [_of_one_sample(node, k, v) for k, v in enumerate(ins)]
    if any(n in m.shrunk for n in node.input) or any(a is not b for a, b in zip(given, ins, strict=True)):
        if node.op_type not in _BROADCAST | ELEMENTWISE and not _keeps_batch(node, ins):
            raise refused(node, "it computes with a constant as large as the batch")
        m.shrunk.update(outs)
    if not any(isinstance(i, Sized) for i in ins):
        m.values.update(zip(outs, _evaluated(m, node, [i for i in ins if not isinstance(i, Sized)]), strict=True))
        return
    ways = [
        _evaluated(m, node, [i.values[way] if isinstance(i, Sized) else i for i in ins]) for way in range(len(MARKS))
    ]
    for name, one, two in zip(outs, *ways, strict=True):
        same = one.shape == two.shape and np.array_equal(one, two)
        if one.shape != two.shape:
            raise refused(node, "it computes with the size of the batch")
        m.values[name] = one if same else Sized((one, two))


def _keeps_batch(node: Any, ins: list[Array | Sized | None]) -> bool:
    """Whether a constant of the batch's extent keeps that as its first axis after a Reshape."""
    if node.op_type != "Reshape" or not isinstance(ins[0], np.ndarray):
        return False
    first, *rest = batches.wanted_extents(node, ins, 1)
    plain = [e for e in rest if isinstance(e, int)]
    return first in (-1, 1) and len(plain) == len(rest) and math.prod(plain) == ins[0].size


def _of_one_sample(node: Any, k: int, value: Array | Sized | None) -> Array | Sized | None:
    """The shape of a constant: the batch's extent becomes 1, which is broadcast."""
    last = k == len(node.input) - 1
    if not last or node.op_type not in ("ConstantOfShape", "Expand", "Reshape", "Tile") or not isinstance(value, Sized):
        return value
    found = value.extents()
    if found is None:
        raise refused(node, "it computes with the size of the batch")
    return np.array([1 if isinstance(e, Batches) else e for e in found], np.int64)


def _evaluated(m: Importer, node: Any, ins: list[Array | None]) -> list[Array]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    helper = onnx.helper
    given = {n: np.asarray(v) for n, v in zip(node.input, ins, strict=True) if n and v is not None}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()
    ]
    outs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    graph = helper.make_graph([node], "constant", infos, outs)
    try:
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", m.opset)])
        found = ReferenceEvaluator(proto).run(None, given)
    except Exception:  # the reference implementation raises any exception of numpy
        raise refused(node, "it depends on constants alone and could not be computed") from None
    return [np.asarray(v) for v in found]
