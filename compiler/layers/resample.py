"""Layers that change the number of positions: upsample, adaptive pooling.

Assumes: inputs of (batch, channels, extents...).
Guarantees: what is no repetition and no pooling of equal windows is a product with a table of weights for each
dimension, one after the other; where extents are multiples, linear interpolation has three terms an element.
Does not: choose a strategy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Field, ListOf, choice, required, switch
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import Scalars
from compiler.ir.space import Affine, along
from compiler.layers.pool import pool, write_pool
from compiler.layers.shared.context import PRODUCT, X0, Context, call, flag, ints, reshape
from compiler.layers.shared.keys import layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, shown
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, hint_of
from compiler.layers.shared.windows import DIMENSIONS, image, one_or
from compiler.layers.shared.windows import extent as extent_of

# ----------------------------------------------------------------------------------------- tables


def _linear(i: Expr, k: Expr, extent: int, out: int, aligned: bool) -> tuple[Expr, Scalars]:
    """The weight of position k in position i: the positions are the centres of intervals of one length in sum, or
    (aligned) go from the first centre to the last."""
    at = i * Ref("extent") / Ref("out") if aligned else (i + 0.5) * Ref("extent") / Ref("out") - 0.5
    inside = call("clip", at, Num(0.0), Ref("last"))
    weight = call("max", Num(0.0), 1.0 - call("abs", inside - k))
    less = int(aligned)
    numbers = (("extent", extent - less), ("out", max(out - less, 1)), ("last", extent - 1))
    return weight, tuple((n, float(v)) for n, v in numbers)


def _nearest(i: Expr, k: Expr, extent: int, out: int) -> tuple[Expr, Scalars]:
    """1 for k = floor(i * extent / out)."""
    at = call("floor", i * Ref("extent") / Ref("out"))
    return Cond(at.eq(k), Num(1.0), Num(0.0)), (("extent", float(extent)), ("out", float(out)))


def _mean(i: Expr, k: Expr, extent: int, out: int) -> tuple[Expr, Scalars]:
    """One over the number of positions from floor(i * extent / out) to ceil((i + 1) * extent / out), without it."""
    first = call("floor", i * Ref("extent") / Ref("out"))
    end = call("ceil", (i + 1.0) * Ref("extent") / Ref("out"))
    weight = Cond(first <= k, Cond(k < end, 1.0 / (end - first), Num(0.0)), Num(0.0))
    return weight, (("extent", float(extent)), ("out", float(out)))


def _weight(layer: l0.Layer, i: Expr, k: Expr, extent: int, out: int) -> tuple[Expr, Scalars]:
    if layer.kind.startswith("adaptive"):
        return _mean(i, k, extent, out)
    if layer.attr("method") == "nearest":
        return _nearest(i, k, extent, out)
    return _linear(i, k, extent, out, flag(layer, "align_corners"))


def _between(layer: l0.Layer, extent: int, out: int) -> bool:
    """Whether each element lies between two of three neighbours whose places are those of a repetition."""
    return layer.attr("method") == "linear" and out % extent == 0 and not flag(layer, "align_corners")


def _number(dim: str) -> Expr:
    return call("float", Ref(dim))


def _resampled(c: Context, layer: l0.Layer, x: l1.Tensor, a: int, out: int) -> l1.Tensor:
    """Axis `a` with another extent: each element is a weighted sum of those along the axis."""
    extent, name, span = x.shape[a], f"{layer.name}.{a - 2}", layer.span
    before, after = math.prod(x.shape[1:a]), math.prod(x.shape[a + 1 :])
    flat = reshape(c, f"{name}.flat", x, (x.shape[0], before, extent, after), layer)
    around = (("n", x.shape[0]), ("p", before)), (("a", after),)
    dims: tuple[tuple[str, int], ...] = (("i", out), ("k", extent))
    kept, source = dims[:1], along("k")
    if layer.kind == "upsample" and _between(layer, extent, out):
        factor = out // extent
        dims = (("q", extent), ("r", factor), ("t", 3))
        kept, source = dims[:2], Affine((("q", 1), ("t", 1)), -1)
        at = _number("q") * Ref("factor") + _number("r")
        weight, scalars = _linear(at, _number("q") + _number("t") - 1.0, extent, out, False)
        scalars = (*scalars, ("factor", float(factor)))
    else:
        weight, scalars = _weight(layer, _number("i"), _number("k"), extent, out)
    axes = tuple(along(d) for d, _ in dims)
    table = c.graph.contract(f"{name}.table", dims, axes, (), weight, batched=False, scalars=scalars, span=span)
    y = c.graph.contract(
        f"{name}.sum",
        (*around[0], *dims, *around[1]),
        (along("n"), along("p"), *(along(d) for d, _ in kept), along("a")),
        ((flat, (along("n"), along("p"), source, along("a"))), (table, axes)),
        PRODUCT,
        span=span,
    )
    return reshape(c, f"{name}.y", y, (*x.shape[:a], out, *x.shape[a + 1 :]), layer)


def _each_axis(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    for a, out in enumerate(layer.shape[1:], 2):
        x = x if x.shape[a] == out else _resampled(c, layer, x, a, out)
    return x


# ------------------------------------------------------------------------------------- more positions


def _upsampled(p: Place, x: Shape) -> Result:
    if len(x) < 2:
        raise Misfit(f"an upsample layer reads channels and positions; `{p.source}` has the shape {shown(x)}")
    method, aligned = p.values["method"], p.values["align_corners"]
    if aligned and method == "nearest":
        raise Misfit("`align_corners` goes with `method: linear`", None, "align_corners")
    attrs: dict[str, l0.Attr] = {} if method == "nearest" else {"method": method, "align_corners": aligned}
    if "size" in p.values:
        return (x[0], *p.each("size", len(x) - 1)), {"method": method, **attrs}
    factor = p.each("factor", len(x) - 1)
    return (x[0], *(e * f for e, f in zip(x[1:], factor, strict=True))), attrs or {"factor": factor}


def upsample(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Each element repeated along every dimension (nearest neighbour), or interpolated along one after the other."""
    if "method" in dict(layer.attrs):
        return _each_axis(c, layer, x)
    factors = ints(layer, "factor")
    shape: list[int] = [*x.shape[:2]]
    axes: list[int] = [0, 1]
    for extent, factor in zip(x.shape[2:], factors, strict=True):
        axes.append(len(shape))
        shape += [extent, factor]
    spread = l1.Tensor(f"{layer.name}.spread", tuple(shape), "real", True)
    y = c.graph.map(spread.name, X0, ((x, tuple(axes)),), like=spread, span=layer.span)
    return reshape(c, f"{layer.name}.y", y, (x.shape[0], *layer.shape), layer)


def _write_upsample(w: Writer, layer: l0.Layer) -> str:
    method = dict(layer.attrs).get("method")
    if method is not None:
        place = "align_corners" if flag(layer, "align_corners") else "half_pixel"
        own: dict[str, object] = {"mode": "linear", "coordinate_transformation_mode": place}
        if method == "nearest":
            own = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        own["axes"] = list(range(2, len(layer.shape) + 1))
        sizes = w.graph.constant(list(layer.shape[1:]), True)
        return w.graph.node("Resize", [w.source(layer), "", "", sizes], layer.name, own)
    scales = w.graph.unique("scales")
    w.graph.initializers[scales] = np.array([1, 1, *ints(layer, "factor")], np.float32)
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.graph.node("Resize", [w.source(layer), "", scales], layer.name, attrs)


def _read_resize(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    old = node.op_type == "Upsample"
    mode, place = attrs.get("mode", "nearest"), attrs.get("coordinate_transformation_mode", "half_pixel")
    nearest = attrs.get("nearest_mode", "round_prefer_floor")
    fits = old or m.opset < 11 or (place, nearest) == ("asymmetric", "floor") or (
        place in ("half_pixel", "half_pixel_symmetric") and nearest.startswith("round")
    )  # fmt: skip
    linear = mode == "linear" and not old and place in ("half_pixel", "pytorch_half_pixel", "align_corners")
    linear = linear and not attrs.get("antialias", 0)
    if not (linear or (mode == "nearest" and fits)) or len(x.shape) < 2:
        raise refused(node, "it is neither a repetition of elements (nearest neighbour) nor linear interpolation")
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
    if linear or (place == "asymmetric" and np.any(np.abs(scales.reshape(-1) - factors) > 1e-6)):
        return _read_other(m, node, x, scales.reshape(-1).tolist(), "linear" if linear else "nearest", place)
    if factors[:2] != [1, 1] or np.any(np.abs(scales - factors) > 1e-6) or len(factors) != len(x.shape) + 1:
        raise refused(node, "its scales are not whole numbers")
    shape = tuple(e * f for e, f in zip(x.shape, factors[1:], strict=True))
    return m.layer("upsample", hint_of(node), [x], {"factor": factors[2:]}, shape)


def _read_other(m: Importer, node: Any, x: Computed, scales: list[float], method: str, place: str) -> Computed:
    """A size that is no multiple, or linear interpolation."""
    if len(scales) != len(x.shape) + 1 or scales[:2] != [1.0, 1.0]:
        raise refused(node, "it resizes the batch or the channels")
    size = [math.floor(e * s + 1e-6) for e, s in zip(x.shape[1:], scales[2:], strict=True)]
    exact = all(abs(e * s - o) < 1e-4 for e, s, o in zip(x.shape[1:], scales[2:], size, strict=True))
    if not exact or min(size) < 1 or (place == "pytorch_half_pixel" and min(size) == 1):
        raise refused(node, "its scales give no whole numbers of positions")
    settings: dict[str, Setting] = {"size": size, "method": method}
    if place == "align_corners":
        settings["align_corners"] = True
    return m.layer("upsample", hint_of(node), [x], settings, (x.shape[0], *size))


UPSAMPLE = LayerKind(
    layer(
        "upsample",
        "More positions along each dimension after the channels: every element repeated, or between them what is "
        "interpolated.",
        Field(
            "factor",
            one_or(ListOf(POSITIVE, low=1, example="[2, 2]")),
            "How many for each; one number for all dimensions, or one for each.",
            example="factor: 2",
        ),
        Field(
            "size",
            one_or(ListOf(POSITIVE, low=1, example="[32, 32]")),
            "In place of `factor`: the extents of the result, which may be any.",
            example="size: [32, 32]",
        ),
        Field(
            "method",
            choice(
                "method",
                nearest="The element at or before the position, repeated.",
                linear="Between the two nearest elements of each dimension: bilinear, trilinear.",
            ),
            "What stands between the elements.",
            default="nearest",
        ),
        switch(
            "align_corners",
            "With `linear`: whether the first and the last element stay at the ends, as with PyTorch's key of this "
            "name, and not where they are the centres of their intervals.",
        ),
        one_of=(("factor", "size"),),
        example="{factor: 2}",
        elsewhere={
            "scale_factor": "`factor`",
            "output_size": "`size`",
            "mode": "`method`",
            "interpolation": "`method`",
        },
    ),
    _upsampled,
    upsample,
    _write_upsample,
    {"Resize": _read_resize, "Upsample": _read_resize},
)

# --------------------------------------------------------------------------------- adaptive pooling


def _adapted(rank: int, p: Place, x: Shape) -> Result:
    extents, size = image(p, x, rank)[1:], p.each("size", rank)
    if not any(e % o for e, o in zip(extents, size, strict=True)):
        window = tuple(e // o for e, o in zip(extents, size, strict=True))
        return (x[0], *size), {"size": window, "stride": window, "padding": (0,) * (2 * rank)}
    if p.kind.startswith("adaptive_max"):
        message = (
            f"{shown(extents)} cannot be divided into {shown(size)} windows of one size, which a maximum needs here"
        )
        raise Misfit(message, "an average may have windows of several sizes: `adaptive_avg_pool" + f"{rank}d`", "size")
    return (x[0], *size), {}


def adaptive_pool(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Windows of one size as in `pool`, or means over windows from floor(i e / o) to ceil((i + 1) e / o), as in
    PyTorch."""
    if dict(layer.attrs):
        return pool(c, replace(layer, kind=layer.kind.removeprefix("adaptive_")), x)
    return _each_axis(c, layer, x)


def _write_adaptive(w: Writer, layer: l0.Layer) -> str:
    if dict(layer.attrs):
        return write_pool(w, replace(layer, kind=layer.kind.removeprefix("adaptive_")))
    g, y, extents = w.graph, w.source(layer), w.shape(layer)[1:]
    for a, (extent, out) in enumerate(zip(extents, layer.shape[1:], strict=True)):
        table = np.zeros((out, extent))
        for i in range(out):
            first, end = i * extent // out, -((-(i + 1) * extent) // out)
            table[i, first:end] = 1 / (end - first)
        order = [*range(len(extents) + 2)]
        order[a + 2], order[-1] = order[-1], order[a + 2]
        turned = order != sorted(order)
        y = g.node("Transpose", [y], f"{layer.name}/turned", {"perm": order}) if turned else y
        y = g.node("MatMul", [y, g.constant(table.T)], f"{layer.name}/means")
        y = g.node("Transpose", [y], f"{layer.name}/back", {"perm": order}) if turned else y
    return y


def _adaptive(name: str, rank: int, doc: str) -> LayerKind:
    size = required("size", extent_of(rank), f"The {DIMENSIONS[rank]} of the result.", example="size: 7")
    keys = layer(name, doc, size, elsewhere={"output_size": "`size`"})
    return LayerKind(keys, partial(_adapted, rank), adaptive_pool, _write_adaptive)


ADAPTIVE = (
    _adaptive("adaptive_avg_pool1d", 1, "Means of so many windows as the result is to have positions."),
    _adaptive("adaptive_avg_pool2d", 2, "Means of so many windows as the result is to have rows and columns."),
    _adaptive("adaptive_max_pool1d", 1, "The largest values of so many windows as the result is to have positions."),
    _adaptive(
        "adaptive_max_pool2d", 2, "The largest values of so many windows as the result is to have rows and columns."
    ),
)
