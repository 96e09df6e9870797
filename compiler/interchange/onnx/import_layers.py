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

from compiler.interchange.onnx.import_attention import (
    import_attention,
    import_scores,
    probabilities,
    product_of,
)
from compiler.interchange.onnx.import_batch import shape_of
from compiler.interchange.onnx.import_einsum import import_einsum, product
from compiler.interchange.onnx.import_maps import ELEMENTWISE, import_elementwise, short
from compiler.interchange.onnx.import_recurrent import import_recurrent
from compiler.interchange.onnx.import_reductions import REDUCTIONS, import_reduction, pooled, rms_norm, unit_norm
from compiler.interchange.onnx.import_shapes import (
    fold,
    import_concat,
    import_expand,
    import_flatten,
    import_gather,
    import_reshape,
    import_slice,
    import_squeeze,
    import_tile,
    import_transpose,
)
from compiler.interchange.onnx.package import onnx_package
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Repeated, Scores, Setting, Sized, refused
from compiler.layers.shared.onnx.inputs import (
    Attrs,
    Shape,
    axis_of,
    constant,
    cut,
    data,
    hint_of,
    repeated,
)


def import_node(m: Importer, node: Any) -> None:
    """Adds what a node computes to the model. Raises RunError (E0918)."""
    onnx = onnx_package()
    if node.domain not in ("", "ai.onnx"):
        raise refused(node, f"it belongs to `{node.domain}`")
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    ins = [m.values[n] if n else None for n in node.input]
    if node.op_type == "Shape" and isinstance(ins[0], Computed | Repeated):
        x = ins[0] if isinstance(ins[0], Computed) else Computed("", ins[0].shape).at(ins[0].source)
        m.values[node.output[0]] = shape_of(m, x, attrs.get("start", 0), attrs.get("end"))
        return
    if node.op_type != "Einsum" and any(isinstance(i, Scores) for i in ins):
        found = import_scores(m, node, ins, attrs)
        if found is not None:
            m.values[node.output[0]] = found
            return
        ins = [probabilities(m, node, i) if isinstance(i, Scores) else i for i in ins]
    if all(i is None or isinstance(i, np.ndarray | Sized) for i in ins):
        fold(m, node, [i for i in ins if i is None or isinstance(i, np.ndarray | Sized)])
        return
    if node.op_type in ELEMENTWISE:
        if len([o for o in node.output if o]) > 1:
            raise refused(node, "its second output")
        m.values[node.output[0]] = import_elementwise(m, node, ins, attrs)
        return
    if node.op_type not in _AS_REPEATED:
        ins = [repeated(m, node, i) if isinstance(i, Repeated) else i for i in ins]
    convert = _OPERATORS.get(node.op_type)
    if convert is None:
        raise refused(node, "no layer of the language does the same")
    used = [o for o in node.output if m.uses.get(o)]
    made = convert(m, node, ins, attrs)
    results = made if isinstance(made, list) else [made]
    if any(o not in node.output[: len(results)] for o in used):
        raise refused(node, "an output that is read is none of a layer")
    m.values.update(zip(node.output, results, strict=False))


# ------------------------------------------------------------------------------------------- products


def _gemm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    if attrs.get("transA", 0) or x.rank != 2 or x.lead != 0:
        raise refused(node, "its first input is not (batch, features)")
    w = constant(node, ins, 1) * attrs.get("alpha", 1.0)
    w = w if attrs.get("transB", 0) else w.T
    bias = None
    if len(ins) > 2 and ins[2] is not None:
        bias = constant(node, ins, 2) * attrs.get("beta", 1.0)
        if bias.ndim > 1 and bias.shape[0] != 1:
            raise refused(node, "what it adds differs from sample to sample")
        bias = np.broadcast_to(bias.reshape(-1), (w.shape[0],))
    return product(m, hint_of(node), x, w, bias)


def _matmul(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores:
    if isinstance(ins[1], Computed):
        return product_of(m, node, ins)
    x = data(node, ins, moved=True)
    w = constant(node, ins, 1)
    if w.ndim != 2 or not x.shape or x.lead == x.rank - 1:
        raise refused(node, "its second input is not a matrix, or it works along the batch")
    return product(m, hint_of(node), x, w.T, None)


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
    x = data(node, ins, moved=True)
    axis = axis_of(node, int(attrs.get("axis", -1)), x)
    if axis < x.batch + x.after:
        raise refused(node, "it works along the batch")
    inner = x.shape[axis:]
    weights = {"weight": np.broadcast_to(constant(node, ins, 1), inner)}
    weights["bias"] = np.broadcast_to(constant(node, ins, 2, np.zeros(inner)), inner)
    settings: dict[str, Setting] = {"axes": len(inner), "epsilon": short(attrs.get("epsilon", 1e-5))}
    return m.layer("layer_norm", hint_of(node), [x], settings, x.shape, weights).at(x)


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
    axis = axis_of(node, int(attrs.get("axis", default)), x)
    if m.opset < 13 and axis != len(x.shape) - 1:
        raise refused(node, "before opset 13 it joins all axes from its own on")
    kind = "softmax" if node.op_type == "Softmax" else "log_softmax"
    return m.layer(kind, hint_of(node), [x], {"axis": axis}, x.shape).at(x)


# ------------------------------------------------------------------------------------------- movement


def _same(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Any:
    if node.op_type == "Dropout" and len(ins) > 2 and ins[2] is not None and np.any(ins[2]):
        raise refused(node, "it is in training mode")
    return ins[0]


def _cast(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Any:
    if isinstance(ins[0], Repeated):
        return replace(ins[0], source=_cast(m, node, [ins[0].source], attrs))
    onnx, x = onnx_package().TensorProto, ins[0]
    assert isinstance(x, Computed)
    to, hint = attrs["to"], hint_of(node)
    integer = x.whole or x.counted
    if to in (onnx.FLOAT, onnx.DOUBLE, onnx.FLOAT16, onnx.BFLOAT16):
        made = replace(m.real(x), counted=False, truth=False)
    elif to == onnx.BOOL:
        source = m.real(x)
        made = x if x.truth else m.formula(hint, f"1.0 if {source.name} != 0.0 else 0.0", x.shape, True)
    elif to in (onnx.INT32, onnx.INT64) and (integer or x.truth):
        made = x if integer else replace(x, truth=False, counted=True)
    else:
        raise refused(node, "it turns real numbers into others")
    return made.at(x)


def _split(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> list[Computed]:
    x = data(node, ins, moved=True, kinds=True)
    axis = axis_of(node, int(attrs.get("axis", 0)), x)
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


def _one_hot(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x, count = ins[0], int(constant(node, ins, 1).reshape(-1)[0])
    off, on = (float(v) for v in constant(node, ins, 2))
    if not isinstance(x, Computed) or not x.whole:
        raise refused(node, "its input holds no whole numbers")
    if x.lead:
        raise refused(node, "its input has the batch as another axis than the first")
    y = m.layer("one_hot", f"{hint_of(node)}_places", [x], {"count": count, "lenient": True}, (*x.shape, count))
    at = axis_of(node, int(attrs.get("axis", -1)), y)
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
        "Reshape": import_reshape,
        "Flatten": import_flatten,
        "Transpose": import_transpose,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), import_squeeze),
        "Concat": import_concat,
        "Tile": import_tile,
        "Expand": import_expand,
        "Einsum": import_einsum,
        "Split": _split,
        "Slice": import_slice,
        "Gather": import_gather,
        "OneHot": _one_hot,
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
        "Pad": _pad,
        **dict.fromkeys(("Resize", "Upsample"), _resize),
    }
)
_AS_REPEATED = frozenset(("Attention", "Cast", "Dropout", "Expand", "Identity", "Reshape"))
"""Operators that keep what is repeated as it is."""
