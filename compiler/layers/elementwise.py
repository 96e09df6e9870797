"""Elementwise layers: add, multiply, formulas, activations.

Assumes: inputs of (batch, ...).
Guarantees: text depends only on the number of inputs and on formulas.
Does not: apply activations (passes/layers/lower_network.py does, to every layer).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Expr, Ref, substitute
from compiler.expr.keys.kinds import Alternative, Expression, Field, MapOf
from compiler.expr.keys.values import COUNT
from compiler.ir.level1.builder import Operand, identity
from compiler.layers.shared.context import X0, X1, X2, Context, reshape, weight, whole
from compiler.layers.shared.keys import AXIS, FUNCTION, layer, several
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always, article, keeps, shown
from compiler.layers.shared.onnx.graph import Writer


def _one_shape(p: Place, *shapes: Shape) -> Result:
    if any(s != shapes[0] for s in shapes):
        listed = ", ".join(shown(s) for s in shapes)
        raise Misfit(f"{article(p.kind)} {p.kind} layer reads inputs of one shape; these have {listed}", None, "inputs")
    return shapes[0], {}


def _combined(op: str, c: Context, layer: l0.Layer, *ins: l1.Tensor) -> l1.Tensor:
    """The sum or the product of several inputs."""
    body: Expr = X0
    for i in range(1, len(ins)):
        body = Binary(op, body, Ref(f"x{i}"))
    return c.graph.map(f"{layer.name}.y", body, [identity(t) for t in ins], span=layer.span)


def _write_combined(op: str, w: Writer, layer: l0.Layer) -> str:
    y = w.source(layer)
    for k in range(1, len(layer.inputs)):
        y = w.graph.node(op, [y, w.source(layer, k)], layer.name)
    return y


def _combining(name: str, doc: str, word: str, op: str, onnx: str) -> LayerKind:
    inputs = several(f"The layers that are {word}.")
    keys = layer(name, doc, inputs=inputs, example="{inputs: [a, b]}")
    return LayerKind(keys, _one_shape, partial(_combined, op), partial(_write_combined, onnx), moves=True)


ADD = _combining(
    "add", "The sum of several layers of one shape, elementwise: a residual connection.", "added", "+", "Add"
)
MULTIPLY = _combining(
    "multiply", "The product of several layers of one shape, elementwise: a gate.", "multiplied", "*", "Mul"
)

# ---------------------------------------------------------------------------------- trained factors


def _one_axis(p: Place, x: Shape) -> Result:
    return x, {"axis": p.axis(x)}


def scale_shift(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """x * weight + bias, each with one element per index of an axis; initially 1 and 0."""
    axis = 1 + whole(layer, "axis")
    scale = weight(c, f"{layer.name}.weight", (x.shape[axis],), "ones", (), layer)
    shift = weight(c, f"{layer.name}.bias", (x.shape[axis],), "zeros", (), layer)
    operands = (identity(x), (scale, (axis,)), (shift, (axis,)))
    return c.graph.map(f"{layer.name}.y", X0 * X1 + X2, operands, span=layer.span)


def _write_scale_shift(w: Writer, layer: l0.Layer) -> str:
    behind = (1,) * (len(layer.shape) - whole(layer, "axis") - 1)
    names = (f"{layer.name}.weight", f"{layer.name}.bias")
    scale, shift = (w.graph.weight(name, w.weights[name].reshape(-1, *behind)) for name in names)
    scaled = w.graph.node("Mul", [w.source(layer), scale], f"{layer.name}/scaled")
    return w.graph.node("Add", [scaled, shift], layer.name)


SCALE_SHIFT = LayerKind(
    layer(
        "scale_shift",
        "Scales and shifts each channel by trained numbers, which begin as 1 and 0; like those of normalisations, they "
        "are of the class `norms`.",
        Field("axis", COUNT, f"{AXIS} Each place along it has a scale and a shift.", default=0, example="axis: 1"),
        elsewhere={"dim": "`axis`"},
    ),
    _one_axis,
    scale_shift,
    _write_scale_shift,
    trained=always,
    norm=True,
)

# ----------------------------------------------------------------------------------------- formulas


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape of an elementwise expression as in NumPy; None for incompatible shapes."""
    rank = max(len(s) for s in shapes)
    out: list[int] = []
    for a in range(rank):
        extents = {s[a - rank + len(s)] for s in shapes if a - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            return None
        out.append(extents.pop() if extents else 1)
    return tuple(out)


def _broadcast(p: Place, *shapes: Shape) -> Result:
    shape = broadcast(shapes)
    if shape is None:
        listed = ", ".join(shown(s) for s in shapes)
        raise Misfit(f"the shapes in `{p.kind}` do not go together: {listed}")
    return shape, {}


def map_of(c: Context, layer: l0.Layer, *ins: l1.Tensor) -> l1.Tensor:
    """An expression over inputs, whose shapes are broadcast as in NumPy (excluding the batch)."""
    function = layer.function
    assert function is not None
    rank = len(layer.shape)
    operands: list[Operand] = []
    for t in ins:
        first = 1 + rank - (len(t.shape) - 1)
        kept = [(a, e) for a, e in enumerate(t.shape[1:]) if e == layer.shape[first - 1 + a]]
        source = t
        if len(kept) != len(t.shape) - 1:  # broadcast axes of extent 1
            shape = (t.shape[0], *(e for _, e in kept))
            source = reshape(c, f"{layer.name}.of.{t.name}", t, shape, layer)
        operands.append((source, (0, *(first + a for a, _ in kept))))
    args = function.args[: len(ins)]
    scalars = tuple((n, float(v)) for n, v in layer.attrs if isinstance(v, (int, float)))
    body = substitute(function.body, {a: Ref(f"x{i}") for i, a in enumerate(args)})
    out = l1.Tensor("", (ins[0].shape[0], *layer.shape), "real", True)
    return c.graph.map(f"{layer.name}.y", body, operands, like=out, scalars=scalars, span=layer.span)


def _write_map(w: Writer, layer: l0.Layer) -> str:
    assert layer.function is not None
    bound: dict[str, str] = {}
    for k, name in enumerate(layer.inputs):
        shape, x = w.shapes[name], w.named[name]
        if len(shape) != len(layer.shape):  # the batch is axis 0 for every rank
            shape = (*(1 for _ in range(len(layer.shape) - len(shape))), *shape)
            x = w.graph.reshape(x, shape, f"{layer.name}/{name}")
        bound[layer.function.args[k]] = x
    bound |= {n: w.graph.constant(float(v)) for n, v in layer.attrs if isinstance(v, int | float)}
    return w.graph.expression(layer.function.body, bound, layer.name)


MAP = LayerKind(
    Alternative(
        "map",
        MapOf(
            "formula",
            Expression("a * sigmoid(b)"),
            key_example="y",
            low=1,
            example="{y: a * sigmoid(b)}",
        ),
        "Layers written as formulas: a name, and an expression over layers, inputs and `params`, element by element. "
        "Shapes are broadcast as in NumPy; the derivative is derived.",
    ),
    _broadcast,
    map_of,
    _write_map,
    moves=True,
)

# -------------------------------------------------------------------------------------- activations


def _same(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    return x


def _write_same(w: Writer, layer: l0.Layer) -> str:
    return w.source(layer)


ACTIVATION = LayerKind(
    layer(
        "activation",
        "Applies a function to every element.",
        Field("function", FUNCTION, "The function.", required=True),
        elsewhere={"activation": "`function`"},
    ),
    keeps(),
    _same,
    _write_same,
    moves=True,
)
