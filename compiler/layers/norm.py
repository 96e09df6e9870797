"""Batch, layer, RMS and group normalisation; softmax.

Assumes: inputs of (batch, ...).
Guarantees: statistics over the valid rows of the batch; the shift of a softmax, and the mean inside a variance, are
constants to autodiff, as they cancel in the gradient.
Does not: fold normalisations into weights.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Num, Ref
from compiler.expr.keys.kinds import Field, required, switch
from compiler.expr.keys.values import FRACTION, POSITIVE
from compiler.ir.level1.builder import identity
from compiler.layers.shared.context import PRODUCT, X0, X1, X2, X3, Context, call, flag, number, reshape, weight, whole
from compiler.layers.shared.keys import AFFINE, AXIS, AXIS_NUMBER, EPSILON, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always, shown
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, axis_of, constant, data, hint_of, short


def _affine(layer: l0.Layer) -> bool:
    return flag(layer, "affine")


# -------------------------------------------------------------------------------------------- batch


def _batch_shape(p: Place, x: Shape) -> Result:
    if not x:
        raise Misfit(f"batch_norm needs channels; `{p.source}` is a single number")
    # The file gives the weight of the old running mean, the IR that of the new value; exactly.
    new = float(1 - Fraction(repr(p.real("momentum"))))
    return x, {"momentum": new, "epsilon": p.real("epsilon")}


def batch_norm(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Ioffe & Szegedy 2015, over the valid rows; running averages as in PyTorch (unbiased variance)."""
    g, name, span = c.graph, layer.name, layer.span
    channel = (x.shape[1],)
    gamma = weight(c, f"{name}.weight", channel, "ones", (), layer)
    beta = weight(c, f"{name}.bias", channel, "zeros", (), layer)
    mean_of = _running(c, layer, "running_mean", channel, 0.0)
    var_of = _running(c, layer, "running_var", channel, 1.0)
    numbers = tuple((k, number(layer, k)) for k in ("epsilon", "momentum"))
    whole_x, row = identity(x), (c.mask, (0,))
    mean, var = mean_of, var_of
    if c.training:
        area = (("area", float(math.prod(x.shape[2:]))),)
        count = g.map(f"{name}.count", X0 * Ref("area"), (identity(c.count),), scalars=area, span=span)
        total = g.reduce(f"{name}.total", PRODUCT, (whole_x, row), x, (1,), span=span)
        mean = g.map(f"{name}.mean", X0 / X1, (identity(total), (count, ())), span=span)
        off = X0 - X2
        center = _center(c, name, mean, layer)
        square = g.reduce(f"{name}.square", off * off * X1, (whole_x, row, (center, (1,))), x, (1,), span=span)
        var = g.map(f"{name}.var", X0 / X1, (identity(square), (count, ())), span=span)
        momentum = Ref("momentum")
        old = (1.0 - momentum) * X0
        new_mean = g.map(
            f"{name}.new_mean",
            old + momentum * X1,
            (identity(c.running.get(mean_of.name, mean_of)), identity(mean)),
            scalars=numbers,
            span=span,
        )
        unbiased = X1 / call("max", X2 - 1.0, Num(1.0))
        new_var = g.map(
            f"{name}.new_var",
            old + momentum * unbiased,
            (identity(c.running.get(var_of.name, var_of)), identity(square), (count, ())),
            scalars=numbers,
            span=span,
        )
        _keep(c, mean_of, new_mean, layer)
        _keep(c, var_of, new_var, layer)
    scale = g.map(
        f"{name}.scale",
        X1 / call("sqrt", X0 + Ref("epsilon")),
        (identity(var), identity(gamma)),
        scalars=numbers,
        span=span,
    )
    return g.map(
        f"{name}.y",
        (X0 - X1) * X2 + X3,
        (whole_x, (mean, (1,)), (scale, (1,)), (beta, (1,))),
        span=span,
    )


def _running(c: Context, layer: l0.Layer, part: str, channel: tuple[int, ...], initial: float) -> l1.Tensor:
    """A running mean, created on first use."""
    name = layer.array(part)
    made = c.graph.tensors.get(name)
    return made or c.graph.add(l1.Variable(l1.Tensor(name, channel), initial, span=layer.span))


def _keep(c: Context, variable: l1.Tensor, value: l1.Tensor, layer: l0.Layer) -> None:
    """Stores the value; where layers share a running mean, only the last one does."""
    if variable.name in c.running:
        nodes = c.graph.nodes
        nodes[:] = [n for n in nodes if not (isinstance(n, l1.Store) and n.target == variable.name)]
    c.running[variable.name] = value
    c.graph.add(l1.Store(variable.name, value.name, layer.span))


def _center(c: Context, name: str, mean: l1.Tensor, layer: l0.Layer) -> l1.Tensor:
    """The mean as read by the variance: a constant to autodiff, since the derivative of sum((x - mean)**2) with
    respect to the mean is -2 sum(x - mean) = 0."""
    center = c.graph.map(f"{name}.center", X0, (identity(mean),), span=layer.span)
    c.constants.add(center.name)
    return center


def _write_batch(w: Writer, layer: l0.Layer) -> str:
    parts = [w.weight(layer, p) for p in ("weight", "bias", "running_mean", "running_var")]
    return w.graph.node(
        "BatchNormalization", [w.source(layer), *parts], layer.name, {"epsilon": number(layer, "epsilon")}
    )


def _read_batch(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    if attrs.get("training_mode", 0):
        raise refused(node, "it is in training mode")
    parts = ("weight", "bias", "running_mean", "running_var")
    weights = {p: constant(node, ins, 1 + k) for k, p in enumerate(parts)}
    epsilon = float(np.float32(attrs.get("epsilon", 1e-5)))
    return m.layer("batch_norm", hint_of(node), [x], {"epsilon": short(epsilon)}, x.shape, weights)


BATCH_NORM = LayerKind(
    layer(
        "batch_norm",
        "Normalises each channel over the batch, then scales and shifts it; running means are used outside training.",
        Field(
            "momentum",
            FRACTION,
            "The part of the running mean that is kept at each step.",
            default=0.9,
            example="momentum: 0.9",
        ),
        EPSILON,
        trained=True,
    ),
    _batch_shape,
    batch_norm,
    _write_batch,
    {"BatchNormalization": _read_batch},
    trained=always,
    norm=True,
)

# -------------------------------------------------------------------------------- layers and groups


def _standard(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """(x - mean) / sqrt(var + epsilon) over the last of the axes (batch, parts, elements)."""
    g, name, span = c.graph, layer.name, layer.span
    share = (("share", 1.0 / x.shape[2]),)
    mean = g.reduce(f"{name}.mean", X0 * Ref("share"), (identity(x),), x, (0, 1), scalars=share, span=span)
    off = X0 - X1
    square = off * off * Ref("share")
    center = _center(c, name, mean, layer)
    var = g.reduce(f"{name}.var", square, (identity(x), (center, (0, 1))), x, (0, 1), scalars=share, span=span)
    body = off * X2
    inverse = _inverse(c, layer, var)
    return g.map(f"{name}.standard", body, (identity(x), (mean, (0, 1)), (inverse, (0, 1))), span=span)


def _inverse(c: Context, layer: l0.Layer, square: l1.Tensor) -> l1.Tensor:
    """1 / sqrt(square + epsilon)."""
    epsilon = (("epsilon", number(layer, "epsilon")),)
    body = 1.0 / call("sqrt", X0 + Ref("epsilon"))
    return c.graph.map(f"{layer.name}.inverse", body, (identity(square),), scalars=epsilon, span=layer.span)


def _scaled(
    c: Context, layer: l0.Layer, y: l1.Tensor, axis: int, shape: tuple[int, ...], shifts: bool = True
) -> l1.Tensor:
    """y * weight + bias along an axis, if the layer has them (`shifts`: a bias, too); `shape`: that of the trained
    arrays."""
    if not flag(layer, "affine", True):
        return y
    parts = ("weight", "bias") if shifts else ("weight",)
    initial = {"weight": "ones", "bias": "zeros"}
    arrays = {p: weight(c, f"{layer.name}.{p}", shape, initial[p], (), layer) for p in parts}
    flat = (math.prod(shape),)
    flats = [reshape(c, f"{layer.name}.{p}.flat", w, flat, layer) for p, w in arrays.items()]
    body = X0 * X1 + X2 if shifts else PRODUCT
    return c.graph.map(f"{layer.name}.scaled", body, (identity(y), *((w, (axis,)) for w in flats)), span=layer.span)


def _scale_and_shift(w: Writer, layer: l0.Layer, shape: tuple[int, ...]) -> list[str]:
    """Scale and shift: trained, or 1 and 0."""
    if layer.attr("affine"):
        return [w.weight(layer, "weight"), w.weight(layer, "bias")]
    return [w.graph.constant(np.ones(shape)), w.graph.constant(np.zeros(shape))]


def _layer_shape(p: Place, x: Shape) -> Result:
    axes = p.integer("axes")
    if axes > len(x):
        raise Misfit(f"`{p.source}` has {len(x)} axes (shape {shown(x)}), not {axes}", None, "axes")
    return x, p.attrs("axes", "epsilon", "affine")


def layer_norm(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Ba, Kiros & Hinton 2016, or by the mean square alone (Zhang & Sennrich 2019), over the last `axes` axes of each
    sample."""
    axes = whole(layer, "axes")
    rank = len(x.shape)
    inner = x.shape[rank - axes :]
    parts = math.prod(x.shape[1 : rank - axes])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], parts, math.prod(inner)), layer)
    standard = _standard if layer.kind == "layer_norm" else _by_square
    y = _scaled(c, layer, standard(c, layer, flat), 2, inner, layer.kind == "layer_norm")
    return reshape(c, f"{layer.name}.y", y, x.shape, layer)


def _by_square(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """x / sqrt(mean of x ** 2 + epsilon) over the last of the axes (batch, parts, elements)."""
    g, name, span = c.graph, layer.name, layer.span
    share = (("share", 1.0 / x.shape[2]),)
    square = g.reduce(f"{name}.square", X0 * X0 * Ref("share"), (identity(x),), x, (0, 1), scalars=share, span=span)
    inverse = _inverse(c, layer, square)
    return g.map(f"{name}.standard", PRODUCT, (identity(x), (inverse, (0, 1))), span=span)


def _write_layer(w: Writer, layer: l0.Layer) -> str:
    axes = layer.attr("axes")
    assert isinstance(axes, int)
    ins = [w.source(layer), *_scale_and_shift(w, layer, layer.shape[len(layer.shape) - axes :])]
    return w.graph.node("LayerNormalization", ins, layer.name, {"axis": -axes, "epsilon": number(layer, "epsilon")})


def _read_last(kind: str, m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """The layer `kind` over the last axes; one that shifts, too, has a bias."""
    x = data(node, ins, moved=True)
    axis = axis_of(node, int(attrs.get("axis", -1)), x)
    if axis < x.batch + x.after:
        raise refused(node, "it works along the batch")
    inner = x.shape[axis:]
    weights = {"weight": np.broadcast_to(constant(node, ins, 1), inner)}
    if kind != "rms_norm":
        weights["bias"] = np.broadcast_to(constant(node, ins, 2, np.zeros(inner)), inner)
    settings: dict[str, Setting] = {"axes": len(inner), "epsilon": short(attrs.get("epsilon", 1e-5))}
    return m.layer(kind, hint_of(node), [x], settings, x.shape, weights).at(x)


def _write_rms(w: Writer, layer: l0.Layer) -> str:
    """By its parts: RMSNormalization came with opset 23."""
    g, x = w.graph, w.source(layer)
    square = g.node("Mul", [x, x], f"{layer.name}/squares")
    axes = g.constant(list(range(-whole(layer, "axes"), 0)), True)
    mean = g.node("ReduceMean", [square, axes], f"{layer.name}/mean")
    total = g.node("Add", [mean, g.constant(number(layer, "epsilon"))], f"{layer.name}/total")
    y = g.node("Div", [x, g.node("Sqrt", [total], f"{layer.name}/root")], layer.name)
    return g.node("Mul", [y, w.weight(layer, "weight")], f"{layer.name}/scaled") if _affine(layer) else y


_AXES = Field("axes", POSITIVE, "How many of the last axes are normalised together.", default=1, example="axes: 1")
_OF_LAST = {"normalized_shape": "`axes`", "elementwise_affine": "`affine`"}

LAYER_NORM = LayerKind(
    layer(
        "layer_norm",
        "Normalises the last axes of each sample, then scales and shifts every element of them.",
        _AXES,
        EPSILON,
        AFFINE,
        elsewhere=_OF_LAST,
        trained=True,
    ),
    _layer_shape,
    layer_norm,
    _write_layer,
    {"LayerNormalization": partial(_read_last, "layer_norm")},
    trained=_affine,
    norm=True,
)
RMS_NORM = LayerKind(
    layer(
        "rms_norm",
        "Divides the last axes of each sample by the root of their mean square (the mean stays), then scales every "
        "element of them.",
        _AXES,
        Field("epsilon", EPSILON.kind, "Added to the mean square.", default=1e-5),
        switch("affine", "Whether a trained scale follows.", True),
        elsewhere=_OF_LAST,
        trained=True,
    ),
    _layer_shape,
    layer_norm,
    _write_rms,
    {"RMSNormalization": partial(_read_last, "rms_norm")},
    trained=_affine,
    norm=True,
)


def _group_shape(p: Place, x: Shape) -> Result:
    groups = p.integer("groups", 1)
    least = 2 if p.kind == "instance_norm" else 1
    if len(x) < least:
        what = "channels and positions" if least == 2 else "channels"
        raise Misfit(f"a {p.kind} layer reads {what}; `{p.source}` has the shape {shown(x)}")
    if x[0] % groups:
        message = f"`{p.source}` has {x[0]} channels, which cannot be split into {groups} groups of one size"
        raise Misfit(message, None, "groups")
    return x, {"groups": groups, **p.attrs("epsilon", "affine")}


def group_norm(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Wu & He 2018; with one channel per group instance normalisation (Ulyanov et al. 2016)."""
    channels = x.shape[1]
    groups = channels if layer.kind == "instance_norm" else whole(layer, "groups")
    area = math.prod(x.shape[2:])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], groups, channels // groups * area), layer)
    y = reshape(c, f"{layer.name}.channels", _standard(c, layer, flat), (x.shape[0], channels, area), layer)
    y = _scaled(c, layer, y, 1, (channels,))
    return reshape(c, f"{layer.name}.y", y, x.shape, layer)


def _write_group(w: Writer, layer: l0.Layer) -> str:
    ins = [w.source(layer), *_scale_and_shift(w, layer, (layer.shape[0],))]
    attrs: dict[str, object] = {"epsilon": number(layer, "epsilon")}
    if layer.kind == "instance_norm":
        return w.graph.node("InstanceNormalization", ins, layer.name, attrs)
    attrs["num_groups"] = layer.attr("groups")
    if len(layer.shape) > 1:
        return w.graph.node("GroupNormalization", ins, layer.name, attrs)
    ins[0] = w.graph.reshape(ins[0], (*layer.shape, 1), f"{layer.name}/channels")
    return w.graph.reshape(w.graph.node("GroupNormalization", ins, layer.name, attrs), layer.shape, layer.name)


def _vector(node: Any, ins: list[Any], k: int, size: int) -> Array:
    return np.broadcast_to(constant(node, ins, k).reshape(-1), (size,))


def _read_group(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
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


GROUP_NORM = LayerKind(
    layer(
        "group_norm",
        "Normalises groups of channels of each sample, then scales and shifts each channel.",
        required("groups", POSITIVE, "The number of groups.", example="groups: 4"),
        EPSILON,
        AFFINE,
        elsewhere={"num_groups": "`groups`"},
        trained=True,
    ),
    _group_shape,
    group_norm,
    _write_group,
    {"GroupNormalization": _read_group},
    trained=_affine,
    norm=True,
)
INSTANCE_NORM = LayerKind(
    layer(
        "instance_norm",
        "Normalises each channel of each sample, then scales and shifts it.",
        EPSILON,
        AFFINE,
        trained=True,
    ),
    _group_shape,
    group_norm,
    _write_group,
    {"InstanceNormalization": _read_group},
    trained=_affine,
    norm=True,
)

# ------------------------------------------------------------------------------------------ softmax


def _softmax_shape(p: Place, x: Shape) -> Result:
    if not x:
        raise Misfit(f"a {p.kind} layer needs an axis; `{p.source}` is a single number")
    return x, {"axis": p.axis(x, len(x) - 1)}


def softmax(c: Context, layer: l0.Layer, x: l1.Tensor, name: str = "") -> l1.Tensor:
    """exp(x - max) / sum over one axis, or its logarithm."""
    g, span = c.graph, layer.span
    name = name or layer.name
    axis = 1 + whole(layer, "axis", len(x.shape) - 2)
    keep = tuple(a for a in range(len(x.shape)) if a != axis)
    largest = g.reduce(f"{name}.largest", X0, (identity(x),), x, keep, combine="max", fill=-math.inf, span=span)
    c.constants.add(largest.name)
    off = X0 - X1
    if layer.kind == "log_softmax":
        total = g.reduce(f"{name}.total", call("exp", off), (identity(x), (largest, keep)), x, keep, span=span)
        body = off - call("log", X2)
        return g.map(f"{name}.y", body, (identity(x), (largest, keep), (total, keep)), span=span)
    power = g.map(f"{name}.power", call("exp", off), (identity(x), (largest, keep)), span=span)
    total = g.reduce(f"{name}.total", X0, (identity(power),), power, keep, span=span)
    return g.map(f"{name}.y", X0 / X1, (identity(power), (total, keep)), span=span)


def _write_softmax(w: Writer, layer: l0.Layer) -> str:
    op = "Softmax" if layer.kind == "softmax" else "LogSoftmax"
    return w.graph.node(op, [w.source(layer)], layer.name, {"axis": 1 + whole(layer, "axis", len(layer.shape) - 1)})


def _read_softmax(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    default = -1 if m.opset >= 13 else 1
    axis = axis_of(node, int(attrs.get("axis", default)), x)
    if m.opset < 13 and axis != len(x.shape) - 1:
        raise refused(node, "before opset 13 it joins all axes from its own on")
    kind = "softmax" if node.op_type == "Softmax" else "log_softmax"
    return m.layer(kind, hint_of(node), [x], {"axis": axis}, x.shape).at(x)


def _softmax(name: str, doc: str, onnx: str) -> LayerKind:
    axis = Field("axis", AXIS_NUMBER, AXIS + " Without it, the last.", example="axis: 0")
    keys = layer(name, doc, axis, elsewhere={"dim": "`axis`"})
    return LayerKind(keys, _softmax_shape, softmax, _write_softmax, {onnx: _read_softmax}, applies=name)


SOFTMAX = _softmax("softmax", "Positive numbers whose sum along an axis is 1: exp(x) / sum(exp(x)).", "Softmax")
LOG_SOFTMAX = _softmax("log_softmax", "The logarithm of a softmax, computed without rounding to 0.", "LogSoftmax")
