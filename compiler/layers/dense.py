"""The fully connected layer."""

from __future__ import annotations

from compiler.expr.keys.kinds import Field, Flag, required
from compiler.expr.keys.values import POSITIVE
from compiler.layers.shared.context import linear
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import ACTIVATION, BIAS, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always

_LIST = "put `- reshape: {shape: [1]}` before it"


def _shape(p: Place, x: Shape) -> Result:
    if not x:
        raise Misfit(f"a dense layer reads a list of numbers; `{p.source}` is a single one", _LIST)
    turned = {"transposed": True} if p.values.get("transposed") else {}
    return (*x[:-1], p.integer("units")), p.attrs("units", "bias") | turned


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
    lambda c, layer, x: linear(c, layer, x, layer.shape[-1]),
    lambda w, layer: w.linear(layer, w.source(layer), len(w.shape(layer))),
    trained=always,
    channels=0,
)
