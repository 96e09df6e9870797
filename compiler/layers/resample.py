"""Layers that change the number of positions: upsample.

Assumes: inputs of (batch, channels, extents...).
Guarantees: extents and factors are data.
Does not: choose a strategy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import ListOf, required
from compiler.expr.keys.values import POSITIVE
from compiler.layers.shared.context import X0, Context, ints, reshape
from compiler.layers.shared.keys import layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, shown
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, hint_of
from compiler.layers.shared.windows import one_or


def _upsampled(p: Place, x: Shape) -> Result:
    if len(x) < 2:
        raise Misfit(f"an upsample layer reads channels and positions; `{p.source}` has the shape {shown(x)}")
    factor = p.each("factor", len(x) - 1)
    return (x[0], *(e * f for e, f in zip(x[1:], factor, strict=True))), {"factor": factor}


def upsample(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Each element repeated along every dimension (nearest neighbour)."""
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


UPSAMPLE = LayerKind(
    layer(
        "upsample",
        "Every element, repeated along each dimension after the channels (nearest neighbour).",
        required(
            "factor",
            one_or(ListOf(POSITIVE, low=1, example="[2, 2]")),
            "How often; one number for all dimensions, or one for each.",
            example="factor: 2",
        ),
        elsewhere={"scale_factor": "`factor`", "size": "`factor`"},
    ),
    _upsampled,
    upsample,
    _write_upsample,
    {"Resize": _read_resize, "Upsample": _read_resize},
)
