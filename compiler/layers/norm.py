"""lower_norms: normalisation over the batch, over a sample, over groups of channels; softmax.

Assumes: inputs of (batch, ...).
Guarantees: statistics over the rows of the batch that exist; the shift of a softmax, and the mean inside a variance,
are constants to autodiff, in whose result they cancel.
Does not: fold normalisations into weights.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Num, Ref
from compiler.ir.level0.model import Layer
from compiler.ir.level1.builder import identity
from compiler.ir.level1.graph import Store, Tensor, Variable
from compiler.layers.shared.context import (
    PRODUCT,
    X0,
    X1,
    X2,
    X3,
    Context,
    add,
    call,
    flag,
    mul,
    number,
    reshape,
    weight,
    whole,
)


def batch_norm(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Ioffe & Szegedy 2015, over the rows that exist; running averages as in PyTorch (unbiased variance)."""
    g, name, span = c.graph, layer.name, layer.span
    channel = (x.shape[1],)
    gamma = weight(c, f"{name}.weight", channel, "ones", (), layer)
    beta = weight(c, f"{name}.bias", channel, "zeros", (), layer)
    mean_of = g.add(Variable(Tensor(f"{name}.running_mean", channel), 0.0, span=span))
    var_of = g.add(Variable(Tensor(f"{name}.running_var", channel), 1.0, span=span))
    numbers = tuple((k, number(layer, k)) for k in ("epsilon", "momentum"))
    whole_x, row = identity(x), (c.mask, (0,))
    mean, var = mean_of, var_of
    if c.training:
        area = (("area", float(math.prod(x.shape[2:]))),)
        count = g.map(f"{name}.count", mul(X0, Ref("area")), (identity(c.count),), scalars=area, span=span)
        total = g.reduce(f"{name}.total", PRODUCT, (whole_x, row), x, (1,), span=span)
        mean = g.map(f"{name}.mean", Binary("/", X0, X1), (identity(total), (count, ())), span=span)
        off = Binary("-", X0, X2)
        center = _center(c, name, mean, layer)
        square = g.reduce(f"{name}.square", mul(mul(off, off), X1), (whole_x, row, (center, (1,))), x, (1,), span=span)
        var = g.map(f"{name}.var", Binary("/", X0, X1), (identity(square), (count, ())), span=span)
        momentum = Ref("momentum")
        old = mul(Binary("-", Num(1.0), momentum), X0)
        new_mean = g.map(
            f"{name}.new_mean",
            add(old, mul(momentum, X1)),
            (identity(mean_of), identity(mean)),
            scalars=numbers,
            span=span,
        )
        unbiased = Binary("/", X1, call("max", Binary("-", X2, Num(1.0)), Num(1.0)))
        new_var = g.map(
            f"{name}.new_var",
            add(old, mul(momentum, unbiased)),
            (identity(var_of), identity(square), (count, ())),
            scalars=numbers,
            span=span,
        )
        g.add(Store(mean_of.name, new_mean.name, span))
        g.add(Store(var_of.name, new_var.name, span))
    scale = g.map(
        f"{name}.scale",
        Binary("/", X1, call("sqrt", add(X0, Ref("epsilon")))),
        (identity(var), identity(gamma)),
        scalars=numbers,
        span=span,
    )
    return g.map(
        f"{name}.y",
        add(mul(Binary("-", X0, X1), X2), X3),
        (whole_x, (mean, (1,)), (scale, (1,)), (beta, (1,))),
        span=span,
    )


def _center(c: Context, name: str, mean: Tensor, layer: Layer) -> Tensor:
    """The mean as the variance reads it: a constant to autodiff, since the derivative of sum((x - mean)**2) by the mean
    is -2 sum(x - mean) = 0."""
    center = c.graph.map(f"{name}.center", X0, (identity(mean),), span=layer.span)
    c.constants.add(center.name)
    return center


def _standard(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """(x - mean) / sqrt(var + epsilon) over the last of the axes (batch, parts, elements)."""
    g, name, span = c.graph, layer.name, layer.span
    share = (("share", 1.0 / x.shape[2]),)
    mean = g.reduce(f"{name}.mean", mul(X0, Ref("share")), (identity(x),), x, (0, 1), scalars=share, span=span)
    off = Binary("-", X0, X1)
    square = mul(mul(off, off), Ref("share"))
    center = _center(c, name, mean, layer)
    var = g.reduce(f"{name}.var", square, (identity(x), (center, (0, 1))), x, (0, 1), scalars=share, span=span)
    inverse = g.map(
        f"{name}.inverse",
        Binary("/", Num(1.0), call("sqrt", add(X0, Ref("epsilon")))),
        (identity(var),),
        scalars=(("epsilon", number(layer, "epsilon")),),
        span=span,
    )
    body = mul(off, X2)
    return g.map(f"{name}.standard", body, (identity(x), (mean, (0, 1)), (inverse, (0, 1))), span=span)


def _scaled(c: Context, layer: Layer, y: Tensor, axis: int, shape: tuple[int, ...]) -> Tensor:
    """y * weight + bias along an axis, if the layer has them; `shape`: that of the trained arrays."""
    if not flag(layer, "affine", True):
        return y
    gamma = weight(c, f"{layer.name}.weight", shape, "ones", (), layer)
    beta = weight(c, f"{layer.name}.bias", shape, "zeros", (), layer)
    flat = (math.prod(shape),)
    gamma = reshape(c, f"{layer.name}.weight.flat", gamma, flat, layer)
    beta = reshape(c, f"{layer.name}.bias.flat", beta, flat, layer)
    body = add(mul(X0, X1), X2)
    return c.graph.map(f"{layer.name}.scaled", body, (identity(y), (gamma, (axis,)), (beta, (axis,))), span=layer.span)


def layer_norm(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Ba, Kiros & Hinton 2016, over the last `axes` axes of each sample."""
    axes = whole(layer, "axes")
    rank = len(x.shape)
    inner = x.shape[rank - axes :]
    parts = math.prod(x.shape[1 : rank - axes])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], parts, math.prod(inner)), layer)
    y = _scaled(c, layer, _standard(c, layer, flat), 2, inner)
    return reshape(c, f"{layer.name}.y", y, x.shape, layer)


def group_norm(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Wu & He 2018; with one channel per group instance normalisation (Ulyanov et al. 2016)."""
    channels = x.shape[1]
    groups = channels if layer.kind == "instance_norm" else whole(layer, "groups")
    area = math.prod(x.shape[2:])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], groups, channels // groups * area), layer)
    y = reshape(c, f"{layer.name}.channels", _standard(c, layer, flat), (x.shape[0], channels, area), layer)
    y = _scaled(c, layer, y, 1, (channels,))
    return reshape(c, f"{layer.name}.y", y, x.shape, layer)


def softmax(c: Context, layer: Layer, x: Tensor, name: str = "") -> Tensor:
    """exp(x - max) / sum over one axis, or its logarithm."""
    g, span = c.graph, layer.span
    name = name or layer.name
    axis = 1 + whole(layer, "axis", len(x.shape) - 2)
    keep = tuple(a for a in range(len(x.shape)) if a != axis)
    largest = g.reduce(f"{name}.largest", X0, (identity(x),), x, keep, combine="max", fill=-math.inf, span=span)
    c.constants.add(largest.name)
    off = Binary("-", X0, X1)
    if layer.kind == "log_softmax":
        total = g.reduce(f"{name}.total", call("exp", off), (identity(x), (largest, keep)), x, keep, span=span)
        body = Binary("-", off, call("log", X2))
        return g.map(f"{name}.y", body, (identity(x), (largest, keep), (total, keep)), span=span)
    power = g.map(f"{name}.power", call("exp", off), (identity(x), (largest, keep)), span=span)
    total = g.reduce(f"{name}.total", X0, (identity(power),), power, keep, span=span)
    return g.map(f"{name}.y", Binary("/", X0, X1), (identity(power), (total, keep)), span=span)
