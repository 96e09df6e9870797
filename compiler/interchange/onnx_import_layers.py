"""ONNX operators as layers: those that have weights, windows, or move elements.

Assumes: nodes in topological order (onnx.checker sees to that).
Guarantees: an operator gives a layer of the same meaning or raises RunError (E0918) with the reason.
Does not: optimize: a layer per operator, except that a bias is taken into the layer before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from compiler.interchange.onnx_graph import onnx_package
from compiler.interchange.onnx_import_attention import import_attention, import_scores, product_of, projected
from compiler.interchange.onnx_import_inputs import (
    MOST_PARTS,
    Attrs,
    Shape,
    axis_of,
    constant,
    cut,
    data,
    held,
    hint_of,
    joined,
    taken,
)
from compiler.interchange.onnx_import_maps import ELEMENTWISE, import_elementwise, short
from compiler.interchange.onnx_import_recurrent import import_recurrent
from compiler.interchange.onnx_import_reductions import REDUCTIONS, import_reduction, pooled, rms_norm, unit_norm
from compiler.interchange.onnx_importer import Array, Computed, Importer, Scores, Setting, refused


def import_node(m: Importer, node: Any) -> None:
    """Adds what a node computes to the model. Raises RunError (E0918)."""
    onnx = onnx_package()
    if node.domain not in ("", "ai.onnx"):
        raise refused(node, f"it belongs to `{node.domain}`")
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    ins = [m.values[n] if n else None for n in node.input]
    if node.op_type == "Shape" and isinstance(ins[0], Computed):
        whole = np.insert(np.array(ins[0].shape, np.int64), ins[0].batch, -1)  # the batch, as in Reshape
        m.values[node.output[0]] = whole[attrs.get("start", 0) : attrs.get("end")]
        return
    if any(isinstance(i, Scores) for i in ins):
        m.values[node.output[0]] = import_scores(m, node, ins, attrs)
        return
    if not any(isinstance(i, Computed) for i in ins):
        _fold(m, node, [i for i in ins if i is None or isinstance(i, np.ndarray)])
        return
    if node.op_type in ELEMENTWISE:
        if len([o for o in node.output if o]) > 1:
            raise refused(node, "its second output")
        m.values[node.output[0]] = import_elementwise(m, node, ins, attrs)
        return
    convert = _OPERATORS.get(node.op_type)
    if convert is None:
        raise refused(node, "no layer of the language does the same")
    used = [o for o in node.output if m.uses.get(o)]
    made = convert(m, node, ins, attrs)
    results = made if isinstance(made, list) else [made]
    if any(o not in node.output[: len(results)] for o in used):
        raise refused(node, "an output that is read is none of a layer")
    m.values.update(zip(node.output, results, strict=False))


def _fold(m: Importer, node: Any, ins: list[Array | None]) -> None:
    """A node that depends on constants alone is computed by ONNX's reference implementation."""
    from onnx.reference import ReferenceEvaluator

    onnx = onnx_package()
    helper = onnx.helper
    given = {n: np.asarray(v) for n, v in zip(node.input, ins, strict=True) if n and v is not None}
    if node.op_type in ("ConstantOfShape", "Expand"):  # one number or array for all samples: broadcast along the batch
        shape = node.input[-1]
        given[shape] = np.where(given[shape] == -1, 1, given[shape])
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()
    ]
    outs = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    graph = helper.make_graph([node], "constant", infos, outs)
    try:
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", m.opset)])
        found = ReferenceEvaluator(proto).run(None, given)
    except Exception:  # the reference implementation raises whatever numpy does
        raise refused(node, "it depends on constants alone and could not be computed") from None
    m.values.update(zip((o for o in node.output if o), (np.asarray(v) for v in found), strict=True))


# ------------------------------------------------------------------------------------------- products


def _gemm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    if attrs.get("transA", 0) or len(x.shape) != 1:
        raise refused(node, "its first input is not (batch, features)")
    w = constant(node, ins, 1) * attrs.get("alpha", 1.0)
    w = w if attrs.get("transB", 0) else w.T
    weights: dict[str, Array] = {"weight": w}
    if len(ins) > 2 and ins[2] is not None:
        c = constant(node, ins, 2) * attrs.get("beta", 1.0)
        if c.ndim > 1 and c.shape[0] != 1:
            raise refused(node, "what it adds differs from sample to sample")
        weights["bias"] = np.broadcast_to(c.reshape(-1), (w.shape[0],))
    settings: dict[str, Setting] = {"units": w.shape[0], "bias": "bias" in weights}
    return m.layer("dense", hint_of(node), [x], settings, (w.shape[0],), weights)


def _matmul(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores:
    if isinstance(ins[1], Computed):
        return product_of(m, node, ins)
    x = data(node, ins)
    w = constant(node, ins, 1)
    if w.ndim != 2 or not x.shape:
        raise refused(node, "its second input is not a matrix")
    lead, units = x.shape[:-1], w.shape[1]
    attended = projected(m, hint_of(node), x, w.T)
    if attended is not None:
        return attended
    source = x
    if len(x.shape) > 2:
        source = m.reshape(f"{hint_of(node)}_rows", x, (math.prod(lead), x.shape[-1]))
    shape = (*source.shape[:-1], units)
    y = m.layer("dense", hint_of(node), [source], {"units": units, "bias": False}, shape, {"weight": w.T})
    return m.reshape(f"{hint_of(node)}_back", y, (*lead, units))


def _pads(node: Any, attrs: Attrs, extents: Shape, reach: Shape, stride: Shape) -> list[int]:
    """(before, after) for each dimension."""
    auto, rank = attrs.get("auto_pad", "NOTSET"), len(extents)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        out: list[int] = []
        for e, r, s in zip(extents, reach, stride, strict=True):
            total = max((-(-e // s) - 1) * s + r - e, 0)
            less = total // 2
            out += [less, total - less] if auto == "SAME_UPPER" else [total - less, less]
        return out
    given = [0] * (2 * rank) if auto == "VALID" else list(attrs.get("pads", [0] * (2 * rank)))
    if min(given, default=0) < 0:
        raise refused(node, "a padding is negative")
    return [p for a in range(rank) for p in (given[a], given[rank + a])]


def _numbers(values: Any, rank: int) -> Setting:
    """One number for one dimension, a list for several."""
    listed = [int(v) for v in values]
    return listed[0] if rank == 1 else listed


def _conv(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x, w = data(node, ins), constant(node, ins, 1)
    rank = w.ndim - 2
    transposed = node.op_type == "ConvTranspose"
    if rank not in ((1, 2) if transposed else (1, 2, 3)) or len(x.shape) != rank + 1:
        raise refused(node, f"it has {rank} dimensions")
    taps = w.shape[2:]
    stride = tuple(attrs.get("strides", [1] * rank))
    dilation = tuple(attrs.get("dilations", [1] * rank))
    groups = int(attrs.get("group", 1))
    reach = tuple((t - 1) * d + 1 for t, d in zip(taps, dilation, strict=True))
    filters = w.shape[1] * groups if transposed else w.shape[0]
    settings: dict[str, Setting] = {"filters": filters, "kernel": _numbers(taps, rank)}
    added = tuple(attrs.get("output_padding", [0] * rank))
    if transposed:
        pads = _transposed_pads(node, attrs, x.shape[1:], reach, stride, added)
        out = tuple(
            (e - 1) * s + r + o - pads[2 * a] - pads[2 * a + 1]
            for a, (e, s, r, o) in enumerate(zip(x.shape[1:], stride, reach, added, strict=True))
        )
    else:
        pads = _pads(node, attrs, x.shape[1:], reach, stride)
        out = tuple(
            (e + pads[2 * a] + pads[2 * a + 1] - r) // s + 1
            for a, (e, s, r) in enumerate(zip(x.shape[1:], stride, reach, strict=True))
        )
    if any(s != 1 for s in stride):
        settings["stride"] = _numbers(stride, rank)
    if any(pads):
        settings["padding"] = pads
    if any(d != 1 for d in dilation):
        settings["dilation"] = _numbers(dilation, rank)
    if transposed and any(added):
        settings["output_padding"] = _numbers(added, rank)
    if groups != 1:
        settings["groups"] = groups
    weights = {"weight": w}
    if len(ins) > 2 and ins[2] is not None:
        weights["bias"] = constant(node, ins, 2)
    else:
        settings["bias"] = False
    kind = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    return m.layer(kind, hint_of(node), [x], settings, (filters, *out), weights)


def _transposed_pads(node: Any, attrs: Attrs, extents: Shape, reach: Shape, stride: Shape, added: Shape) -> list[int]:
    """(before, after) for each dimension of a transposed convolution."""
    rank = len(extents)
    wanted = attrs.get("output_shape")
    auto = attrs.get("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [e * s for e, s in zip(extents, stride, strict=True)]
    if wanted is None:
        return _pads(node, attrs, extents, reach, stride)
    out: list[int] = []
    for e, r, s, o, w in zip(extents, reach, stride, added, wanted[-rank:], strict=True):
        total = s * (e - 1) + o + r - w
        if total < 0:
            raise refused(node, "its output is larger than what it computes")
        less, more = total // 2, total - total // 2
        out += [less, more] if auto == "SAME_UPPER" else [more, less]
    return out


# ------------------------------------------------------------------------------------------- pooling


def _pool(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    size = tuple(attrs["kernel_shape"])
    rank = len(size)
    if rank not in (1, 2) or len(x.shape) != rank + 1:
        raise refused(node, f"it has {rank} dimensions")
    if any(d != 1 for d in attrs.get("dilations", [])) or attrs.get("storage_order", 0):
        raise refused(node, "its window is dilated or stored by columns")
    stride = tuple(attrs.get("strides", [1] * rank))
    pads = _pads(node, attrs, x.shape[1:], size, stride)
    ceil = bool(attrs.get("ceil_mode", 0))
    out = []
    for a, e in enumerate(x.shape[1:]):
        room = e + pads[2 * a] + pads[2 * a + 1] - size[a]
        count = room // stride[a] + 1
        if ceil and room % stride[a] and count * stride[a] < e + pads[2 * a]:
            count += 1
        out.append(count)
    settings: dict[str, Setting] = {"size": _numbers(size, rank), "stride": _numbers(stride, rank)}
    if any(pads):
        settings["padding"] = pads
    if ceil:
        settings["ceil"] = True
    largest = node.op_type == "MaxPool"
    if not largest and not attrs.get("count_include_pad", 0):
        settings["count_padding"] = False
    kind = f"{'max' if largest else 'avg'}_pool{rank}d"
    return m.layer(kind, hint_of(node), [x], settings, (x.shape[0], *out))


# ------------------------------------------------------------------------------------------- norms


def _vector(node: Any, ins: list[Any], k: int, size: int, default: float | None = None) -> Array:
    missing = None if default is None else np.full(size, default)
    return np.broadcast_to(constant(node, ins, k, missing).reshape(-1), (size,))


def _batch_norm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    if attrs.get("training_mode", 0):
        raise refused(node, "it is in training mode")
    parts = ("weight", "bias", "running_mean", "running_var")
    weights = {p: constant(node, ins, 1 + k) for k, p in enumerate(parts)}
    epsilon = float(np.float32(attrs.get("epsilon", 1e-5)))
    return m.layer("batch_norm", hint_of(node), [x], {"epsilon": short(epsilon)}, x.shape, weights)


def _layer_norm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    axis = axis_of(node, int(attrs.get("axis", -1)), len(x.shape) + 1)
    inner = x.shape[axis:]
    weights = {"weight": np.broadcast_to(constant(node, ins, 1), inner)}
    weights["bias"] = np.broadcast_to(constant(node, ins, 2, np.zeros(inner)), inner)
    settings: dict[str, Setting] = {"axes": len(inner), "epsilon": short(attrs.get("epsilon", 1e-5))}
    return m.layer("layer_norm", hint_of(node), [x], settings, x.shape, weights)


def _group_norm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    channels = x.shape[0]
    if node.op_type == "GroupNormalization" and m.opset < 21:
        raise refused(node, "before opset 21 its scale is one of each group")
    weights = {"weight": _vector(node, ins, 1, channels), "bias": _vector(node, ins, 2, channels)}
    settings: dict[str, Setting] = {"epsilon": short(attrs.get("epsilon", 1e-5))}
    if node.op_type == "InstanceNormalization":
        return m.layer("instance_norm", hint_of(node), [x], settings, x.shape, weights)
    settings["groups"] = int(attrs["num_groups"])
    return m.layer("group_norm", hint_of(node), [x], settings, x.shape, weights)


def _softmax(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    default = -1 if m.opset >= 13 else 1
    axis = axis_of(node, int(attrs.get("axis", default)), len(x.shape) + 1, x.batch)
    if m.opset < 13 and axis != len(x.shape) - 1:
        raise refused(node, "before opset 13 it joins all axes from its own on")
    kind = "softmax" if node.op_type == "Softmax" else "log_softmax"
    return replace(m.layer(kind, hint_of(node), [x], {"axis": axis}, x.shape), batch=x.batch)


# ------------------------------------------------------------------------------------------- movement


def _same(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Any:
    if node.op_type == "Dropout" and len(ins) > 2 and ins[2] is not None and np.any(ins[2]):
        raise refused(node, "it is in training mode")
    return ins[0]


def _cast(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    onnx, x = onnx_package().TensorProto, ins[0]
    assert isinstance(x, Computed)
    to, hint = attrs["to"], hint_of(node)
    if to in (onnx.FLOAT, onnx.DOUBLE, onnx.FLOAT16, onnx.BFLOAT16):
        made = m.formula(hint, f"float({x.name})", x.shape) if x.whole else replace(x, truth=False)
    elif to == onnx.BOOL:
        made = x if x.truth else m.formula(hint, f"1.0 if {x.name} != 0 else 0.0", x.shape, True)
    elif to in (onnx.INT32, onnx.INT64) and x.whole:
        made = x
    else:
        raise refused(node, "it turns real numbers into others")
    return replace(made, batch=x.batch)


def _reshape(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True, truth=True)
    given = [int(v) for v in (constant(node, ins, 1) if len(ins) > 1 else np.array(attrs["shape"])).reshape(-1)]
    if attrs.get("allowzero", 0) and 0 in given:
        raise refused(node, "an axis has no elements")
    whole = (*x.shape[: x.batch], None, *x.shape[x.batch :])
    resolved = [whole[k] if v == 0 and k < len(whole) else v for k, v in enumerate(given)]
    before, rest = resolved[: x.batch], resolved[x.batch :]
    first, after = (rest[0], rest[1:]) if rest else (1, [])
    total = math.prod(x.shape[x.batch :])
    if first is None or first in m.batches:
        known = math.prod(v for v in after if v is not None and v != -1)
        after = [total // max(known, 1) if v == -1 else v for v in after]
    elif first != -1:
        raise refused(node, "its batch is no axis of its own any more")
    shape = tuple(int(v) for v in after if v is not None)
    kept = tuple(before) == x.shape[: x.batch]
    if not kept or len(shape) != len(after) or math.prod(shape) != total or any(v < 1 for v in shape):
        raise refused(node, "it moves elements between the batch and other axes")
    return m.reshape(hint_of(node), x, (*x.shape[: x.batch], *shape))


def _flatten(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    axis = int(attrs.get("axis", 1))
    axis = axis + len(x.shape) + 1 if axis < 0 else axis
    if axis != 1:
        raise refused(node, "it joins the batch with other axes")
    return m.reshape(hint_of(node), x, (math.prod(x.shape),))


def _transpose(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True, truth=True)
    perm = list(attrs.get("perm", range(len(x.shape), -1, -1)))
    axes = [p - (p > x.batch) for p in perm if p != x.batch]
    return replace(m.permute(hint_of(node), x, axes), batch=perm.index(x.batch))


def _squeeze(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True, truth=True)
    given = ins[1] if len(ins) > 1 and ins[1] is not None else attrs.get("axes")
    adds = node.op_type == "Unsqueeze"
    if given is None or isinstance(given, Computed):
        raise refused(node, "its axes are not given" if given is None else "its axes are computed")
    numbers = [int(v) for v in np.asarray(given).reshape(-1)]
    rank = len(x.shape) + 1 + (len(numbers) if adds else 0)
    axes = sorted(a + rank if a < 0 else a for a in numbers)
    whole = [*x.shape[: x.batch], -1, *x.shape[x.batch :]]
    for a in axes if adds else axes[::-1]:
        if adds:
            whole.insert(a, 1)
        elif whole.pop(a) != 1:
            raise refused(node, "it works along the batch")
    batch = whole.index(-1)
    return replace(m.reshape(hint_of(node), x, tuple(whole[:batch] + whole[batch + 1 :])), batch=batch)


def _concat(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    like = next(i for i in ins if isinstance(i, Computed))
    ins = [held(m, node, i, like) if isinstance(i, np.ndarray) else i for i in ins]
    parts = [data(node, ins, k, moved=True) for k in range(len(ins))]
    if len({p.batch for p in parts}) > 1:
        raise refused(node, "its inputs have their batches at different axes")
    axis = axis_of(node, int(attrs["axis"]), len(parts[0].shape) + 1, parts[0].batch)
    return joined(m, hint_of(node), parts, axis)


def _tile(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    repeats = [int(v) for v in constant(node, ins, 1)]
    if repeats[x.batch] != 1 or min(repeats) < 1 or max(repeats) > MOST_PARTS:
        raise refused(node, "it repeats the batch, leaves nothing, or makes very many copies")
    for axis, times in enumerate([*repeats[: x.batch], *repeats[x.batch + 1 :]]):
        x = joined(m, hint_of(node), [x] * times, axis)
    return x


def _split(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> list[Computed]:
    x = data(node, ins, moved=True)
    axis = axis_of(node, int(attrs.get("axis", 0)), len(x.shape) + 1, x.batch)
    extent, count = x.shape[axis], len(node.output)
    given = constant(node, ins, 1) if len(ins) > 1 and ins[1] is not None else attrs.get("split")
    each = -(-extent // count)
    sizes = [int(v) for v in np.asarray(given).reshape(-1)] if given is not None else [each] * (count - 1)
    sizes = sizes if given is not None else [*sizes, extent - each * (count - 1)]
    if min(sizes) < 1:
        raise refused(node, "a part has no elements")
    parts, at = [], 0
    for out, size in zip(node.output, sizes, strict=True):
        parts.append(cut(m, out, x, axis, at, at + size))
        at += size
    return parts


def _slice(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    rank = len(x.shape) + 1
    if m.opset < 10:
        starts, ends, axes = attrs["starts"], attrs["ends"], attrs.get("axes", range(len(attrs["starts"])))
        steps: Any = [1] * len(starts)
    else:
        starts, ends = constant(node, ins, 1), constant(node, ins, 2)
        axes = constant(node, ins, 3, np.arange(len(starts)))
        steps = constant(node, ins, 4, np.ones(len(starts), np.int64))
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis, start, end = int(axis), int(start), int(end)
        axis = axis + rank if axis < 0 else axis
        if axis == x.batch:
            if start == 0 and step == 1 and end >= max(m.batches, default=2**31 - 1):
                continue
            raise refused(node, "it cuts the batch")
        axis = axis_of(node, axis, rank, x.batch)
        places = range(x.shape[axis])[start : end : int(step)]
        if not places:
            raise refused(node, "nothing is left")
        x = taken(m, node, x, axis, places)
    return x


def _gather(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    axis = int(attrs.get("axis", 0))
    if isinstance(ins[1], Computed) and not isinstance(ins[0], Computed):
        table = np.asarray(ins[0])
        if axis != 0 or table.ndim != 2 or not ins[1].whole:
            raise refused(node, "it is no look-up of rows of a matrix")
        settings: dict[str, Setting] = {"count": table.shape[0], "size": table.shape[1]}
        shape = (*ins[1].shape, table.shape[1])
        return m.layer("embedding", hint_of(node), [ins[1]], settings, shape, {"weight": table})
    x, index = data(node, ins, moved=True), constant(node, ins, 1)
    whole = axis + len(x.shape) + 1 if axis < 0 else axis
    axis = axis_of(node, axis, len(x.shape) + 1, x.batch)
    y = taken(m, node, x, axis, [int(v) % x.shape[axis] for v in index.reshape(-1)])
    y = m.reshape(hint_of(node), y, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))
    return replace(y, batch=x.batch + (index.ndim - 1 if whole < x.batch else 0))


def _one_hot(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x, count = ins[0], int(constant(node, ins, 1).reshape(-1)[0])
    off, on = (float(v) for v in constant(node, ins, 2))
    if not isinstance(x, Computed) or not x.whole:
        raise refused(node, "its input holds no whole numbers")
    rank = len(x.shape) + 2
    axis = int(attrs.get("axis", -1))
    y = m.layer("one_hot", f"{hint_of(node)}_places", [x], {"count": count, "lenient": True}, (*x.shape, count))
    at = axis_of(node, axis, rank)
    y = m.permute(f"{hint_of(node)}_turned", y, [*range(at), len(x.shape), *range(at, len(x.shape))])
    return y if (off, on) == (0.0, 1.0) else m.formula(hint_of(node), f"{off!r} + {on - off!r} * {y.name}", y.shape)


def _blocks(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """DepthToSpace and SpaceToDepth: blocks of channels as blocks of positions, and back."""
    x, b = data(node, ins), int(attrs["blocksize"])
    if len(x.shape) != 3:
        raise refused(node, "its input is no image")
    c, h, w = x.shape
    if node.op_type == "SpaceToDepth":
        y = m.reshape(f"{hint_of(node)}_split", x, (c, h // b, b, w // b, b))
        axes = [2, 4, 0, 1, 3] if attrs.get("mode", "DCR") == "DCR" else [0, 2, 4, 1, 3]
        y = m.permute(f"{hint_of(node)}_turned", y, axes)
        return m.reshape(hint_of(node), y, (c * b * b, h // b, w // b))
    if attrs.get("mode", "DCR") == "DCR":
        y, axes = m.reshape(f"{hint_of(node)}_split", x, (b, b, c // (b * b), h, w)), [2, 3, 0, 4, 1]
    else:
        y, axes = m.reshape(f"{hint_of(node)}_split", x, (c // (b * b), b, b, h, w)), [0, 3, 1, 4, 2]
    y = m.permute(f"{hint_of(node)}_turned", y, axes)
    return m.reshape(hint_of(node), y, (c // (b * b), h * b, w * b))


def _pad(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    rank = len(x.shape) + 1
    if attrs.get("mode", "constant") != "constant":
        raise refused(node, f"its mode is {attrs['mode']}")
    pads = [int(v) for v in (constant(node, ins, 1) if m.opset >= 11 else attrs["pads"])]
    value = float(constant(node, ins, 2, np.zeros(())).reshape(-1)[0]) if m.opset >= 11 else attrs.get("value", 0.0)
    axes = [int(a) % rank for a in constant(node, ins, 3, np.arange(rank)).reshape(-1)]
    both = {a: (pads[k], pads[len(axes) + k]) for k, a in enumerate(axes)}
    if any(both.get(0, (0, 0))) or min(pads, default=0) < 0 or not math.isfinite(value):
        raise refused(node, "it pads the batch, cuts, or pads with no number")
    before = [both.get(a, (0, 0))[0] for a in range(1, rank)]
    after = [both.get(a, (0, 0))[1] for a in range(1, rank)]
    shape = tuple(e + b + a for e, b, a in zip(x.shape, before, after, strict=True))
    return m.layer("pad", hint_of(node), [x], {"before": before, "after": after, "value": value}, shape)


def _resize(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    old = node.op_type == "Upsample"
    mode, place = attrs.get("mode", "nearest"), attrs.get("coordinate_transformation_mode", "half_pixel")
    nearest = attrs.get("nearest_mode", "round_prefer_floor")
    fits = old or m.opset < 11 or (place, nearest) == ("asymmetric", "floor") or (
        place in ("half_pixel", "half_pixel_symmetric") and nearest.startswith("round")
    )  # fmt: skip
    if mode != "nearest" or not fits or len(x.shape) < 2:
        raise refused(node, "it is no repetition of elements (nearest neighbour)")
    k = 1 if old or m.opset < 11 else 2
    scales = constant(node, ins, k, np.zeros(0)) if not (old and m.opset < 9) else np.array(attrs["scales"])
    if scales.size == 0:
        whole = (1, *x.shape)
        of = attrs.get("axes", range(len(whole)))
        scales = np.array(
            [s / whole[a] if a else 1.0 for s, a in zip(constant(node, ins, 3).tolist(), of, strict=True)]
        )
    if "axes" in attrs:
        given, scales = scales, np.ones(len(x.shape) + 1)
        scales[list(attrs["axes"])] = given
    factors = [round(float(s)) for s in scales.reshape(-1)]
    if factors[:2] != [1, 1] or np.any(np.abs(scales - factors) > 1e-6) or len(factors) != len(x.shape) + 1:
        raise refused(node, "its scales are not whole numbers")
    shape = tuple(e * f for e, f in zip(x.shape, factors[1:], strict=True))
    return m.layer("upsample", hint_of(node), [x], {"factor": factors[2:]}, shape)


_OPERATORS: Mapping[str, Callable[[Importer, Any, list[Any], Attrs], Any]] = MappingProxyType(
    {
        "Gemm": _gemm,
        "MatMul": _matmul,
        "Conv": _conv,
        "ConvTranspose": _conv,
        "MaxPool": _pool,
        "AveragePool": _pool,
        "GlobalAveragePool": pooled,
        "GlobalMaxPool": pooled,
        **dict.fromkeys(REDUCTIONS, import_reduction),
        "RMSNormalization": rms_norm,
        "LpNormalization": unit_norm,
        **dict.fromkeys(("RNN", "GRU", "LSTM"), import_recurrent),
        "Attention": import_attention,
        "BatchNormalization": _batch_norm,
        "LayerNormalization": _layer_norm,
        "GroupNormalization": _group_norm,
        "InstanceNormalization": _group_norm,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        **dict.fromkeys(("Identity", "Dropout"), _same),
        "Cast": _cast,
        "Reshape": _reshape,
        "Flatten": _flatten,
        "Transpose": _transpose,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), _squeeze),
        "Concat": _concat,
        "Tile": _tile,
        "Split": _split,
        "Slice": _slice,
        "Gather": _gather,
        "OneHot": _one_hot,
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
        "Pad": _pad,
        **dict.fromkeys(("Resize", "Upsample"), _resize),
    }
)
