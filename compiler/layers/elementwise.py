"""Elementwise layers: add, multiply, formulas, activations, gated and trained ones.

Assumes: inputs of (batch, ...).
Guarantees: text depends only on the number of inputs and on formulas.
Does not: apply activations (passes/layers/lower_network.py does, to every layer).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Cond, Expr, Ref, substitute
from compiler.expr.keys.kinds import Alternative, Expression, Field, MapOf, choice, required, switch
from compiler.expr.keys.values import NUMBER
from compiler.ir.level1.builder import Operand, identity
from compiler.layers.shared.activations import ACTIVATIONS, activation
from compiler.layers.shared.context import X0, X1, X2, Context, flag, number, reshape, sliced, weight, whole
from compiler.layers.shared.keys import AXIS, AXIS_NUMBER, FUNCTION, layer, several
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always, article, keeps, shown
from compiler.layers.shared.onnx.graph import Writer


def _one_shape(p: Place, *shapes: Shape) -> Result:
    if any(s != shapes[0] for s in shapes):
        listed = ", ".join(shown(s) for s in shapes)
        message = f"{article(p.kind)} {p.kind} layer reads inputs of one shape; these have {listed}"
        op = {"add": "+", "multiply": "*"}[p.kind]
        raise Misfit(message, f"`- map: {{y: a {op} b}}` puts last axes of several shapes together", "inputs")
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


def scale_shift(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """x * weight + bias, each with one element per index of an axis; initially 1 and 0."""
    axis = 1 + whole(layer, "axis")
    scale = weight(c, f"{layer.name}.weight", (x.shape[axis],), "ones", (), layer)
    shift = weight(c, f"{layer.name}.bias", (x.shape[axis],), "zeros", (), layer)
    operands = (identity(x), (scale, (axis,)), (shift, (axis,)))
    return c.graph.map(f"{layer.name}.y", X0 * X1 + X2, operands, span=layer.span)


def _write_scale_shift(w: Writer, layer: l0.Layer) -> str:
    behind = (1,) * (len(layer.shape) - whole(layer, "axis") - 1)
    parts = ("weight", "bias")
    scale, shift = (w.graph.weight(layer.array(p), w.values(layer, p).reshape(-1, *behind)) for p in parts)
    scaled = w.graph.node("Mul", [w.source(layer), scale], f"{layer.name}/scaled")
    return w.graph.node("Add", [scaled, shift], layer.name)


SCALE_SHIFT = LayerKind(
    layer(
        "scale_shift",
        "Scales and shifts each channel by trained numbers, which begin as 1 and 0; like those of normalisations, they "
        "are of the class `norms`.",
        Field(
            "axis", AXIS_NUMBER, f"{AXIS} Each place along it has a scale and a shift.", default=0, example="axis: 1"
        ),
        elsewhere={"dim": "`axis`"},
        trained=True,
    ),
    lambda p, x: (x, {"axis": p.axis(x)}),
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
        shape, x = w.shapes[name], w.real(layer, k)
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


def _write_same(w: Writer, layer: l0.Layer) -> str:
    return w.source(layer)


ACTIVATION = LayerKind(
    layer(
        "activation",
        "Applies a function to every element.",
        required("function", FUNCTION, "The function."),
        elsewhere={"activation": "`function`"},
    ),
    keeps(),
    lambda c, layer, x: x,
    _write_same,
    moves=True,
)

# ------------------------------------------------------------------------------------ no gradients


def stopped(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """`x`, as a tensor of its own, which has no gradient; whole numbers have none anyway."""
    if x.dtype != "real":
        return x
    y = c.graph.map(f"{layer.name}.y", X0, (identity(x),), span=layer.span)
    c.constants.add(y.name)
    return y


STOP_GRADIENT = LayerKind(
    layer(
        "stop_gradient",
        "Its input, through which no gradient passes: what it is computed from does not learn from what is behind it. "
        "With `map`, a gradient of another sign or that of another function: `{y: x + fixed}`, where `fixed` is this "
        "layer of `f(x) - x`, has the values of f and the gradient of x.",
    ),
    keeps(),
    stopped,
    _write_same,
    moves=True,
    stops=True,
    carries=lambda layer, elements: elements,
)

# ------------------------------------------------------------------------------------------- gates


def _halved(p: Place, x: Shape) -> Result:
    if not x:
        raise Misfit(f"a glu layer needs an axis; `{p.source}` is a single number")
    axis = p.axis(x, len(x) - 1)
    if x[axis] % 2:
        message = f"`{p.source}` has {x[axis]} elements along axis {axis} (shape {shown(x)}), which cannot be halved"
        raise Misfit(message, None, "axis" if "axis" in p.values else None)
    return (*x[:axis], x[axis] // 2, *x[axis + 1 :]), {"axis": axis, **p.attrs("function", "gate")}


def _gate(layer: l0.Layer) -> Expr:
    name = layer.attr("function")
    assert isinstance(name, str)
    return activation(name)


def glu(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """One half of an axis times a function of the other: Dauphin et al. 2017, Shazeer 2020."""
    axis = whole(layer, "axis")
    half, names = layer.shape[axis], ("value", "gate") if layer.attr("gate") == "last" else ("gate", "value")
    parts = {
        n: sliced(c, f"{layer.name}.{n}", x, 1 + axis, k * half, (k + 1) * half, layer) for k, n in enumerate(names)
    }
    body = X0 * substitute(_gate(layer), {"x": X1})
    return c.graph.map(f"{layer.name}.y", body, [identity(parts[n]) for n in ("value", "gate")], span=layer.span)


def _write_glu(w: Writer, layer: l0.Layer) -> str:
    g, axis, sources = w.graph, 1 + whole(layer, "axis"), w.source(layer)
    half = layer.shape[axis - 1]
    halves = [
        g.node("Slice", [sources, *(g.constant([v], True) for v in (k * half, (k + 1) * half, axis))],
               f"{layer.name}/half") for k in (0, 1)
    ]  # fmt: skip
    value, gate = halves if layer.attr("gate") == "last" else reversed(halves)
    return g.node("Mul", [value, g.expression(_gate(layer), {"x": gate}, f"{layer.name}/gate")], layer.name)


GLU = LayerKind(
    layer(
        "glu",
        "Halves an axis: one half times a function of the other, the gate. With `sigmoid` the gated linear unit, with "
        "`silu` SwiGLU, with `gelu` GEGLU, with `relu` ReGLU, where a `dense` layer of twice the units is before it.",
        Field(
            "function",
            choice("function", **{name: f"`{text}`" for name, text in ACTIVATIONS.items()}),
            "The function of the gate.",
            default="sigmoid",
            example="function: silu",
        ),
        Field("axis", AXIS_NUMBER, f"{AXIS} Without it, the last.", example="axis: 0"),
        Field(
            "gate",
            choice("half", last="The second half, as in PyTorch.", first="The first half."),
            "Which half the function is of.",
            default="last",
        ),
        elsewhere={"dim": "`axis`", "activation": "`function`"},
    ),
    _halved,
    glu,
    _write_glu,
)

# ------------------------------------------------------------------------------------ trained slopes


def _sloped(p: Place, x: Shape) -> Result:
    if p.values["channels"] and not x:
        raise Misfit(f"`{p.source}` is a single number and has no channels", None, "channels")
    return x, p.attrs("channels", "slope")


def prelu(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """He et al. 2015, eq. 1."""
    channels = flag(layer, "channels")
    shape = (x.shape[1],) if channels else (1,)
    slope = weight(c, f"{layer.name}.weight", shape, "constant", (number(layer, "slope"),), layer)
    slope = slope if channels else reshape(c, f"{layer.name}.slope", slope, (), layer)
    operands = (identity(x), (slope, (1,) if channels else ()))
    return c.graph.map(f"{layer.name}.y", Cond(X0 > 0, X0, X1 * X0), operands, span=layer.span)


def _write_prelu(w: Writer, layer: l0.Layer) -> str:
    values = w.values(layer, "weight")
    slope = w.graph.weight(f"{layer.name}.weight", values.reshape(-1, *(1,) * (len(layer.shape) - 1)))
    return w.graph.node("PRelu", [w.source(layer), slope], layer.name)


PRELU = LayerKind(
    layer(
        "prelu",
        "Keeps what is positive and multiplies the rest by a trained slope; slopes are of the class `norms`, like "
        "scales of normalisations.",
        switch("channels", "Whether each channel (axis 0) has a slope of its own."),
        Field("slope", NUMBER, "What slopes begin with.", default=0.25),
        elsewhere={"num_parameters": "`channels: true`", "init": "`slope`"},
        trained=True,
    ),
    _sloped,
    prelu,
    _write_prelu,
    trained=always,
    norm=True,
)
