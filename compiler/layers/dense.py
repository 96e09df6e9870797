"""The fully connected layer."""

from __future__ import annotations

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Field, Flag, required
from compiler.expr.keys.values import POSITIVE
from compiler.layers.shared.context import Context, linear
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import ACTIVATION, BIAS, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always
from compiler.layers.shared.onnx.graph import Writer

_LIST = "put `- reshape: {shape: [1]}` before it"


def _shape(p: Place, x: Shape) -> Result:
    if not x:
        raise Misfit(f"a dense layer reads a list of numbers; `{p.source}` is a single one", _LIST)
    turned = {"transposed": True} if p.values.get("transposed") else {}
    return (*x[:-1], p.integer("units")), p.attrs("units", "bias") | turned


def _lower(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    return linear(c, layer, x, layer.shape[-1])


def _write(w: Writer, layer: l0.Layer) -> str:
    return w.linear(layer, w.source(layer), len(w.shape(layer)))


DENSE = LayerKind(
    layer(
        "dense",
        "A fully connected layer: y = W x + b, with W of the shape [units, features]. Of several axes, x is each list "
        "along the last one: all steps of a sequence, all places of an image with its channels last, have the same "
        "weights.",
        required("units", POSITIVE, "The number of outputs.", example="units: 10"),
        ACTIVATION,
        BIAS,
        INIT,
        Field("transposed", Flag(), "With `weights`: W is the other layer's, transposed; each has a bias of its own."),
        trained=True,
        needs=(("transposed", ("weights",)),),
    ),
    _shape,
    _lower,
    _write,
    trained=always,
    channels=0,
)
