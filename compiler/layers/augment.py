"""Random augmentation in training: dropout, noise, augment, random_flip, random_crop.

Assumes: inputs of (batch, ...).
Guarantees: the identity outside training; draws are counter-based, keyed by the layer's name, with one counter per step
and element (noise) or sample (flips, crops; augment: either; dropout: or channel): equal on every target, and in
resumed runs.
Does not: read data.
"""

from __future__ import annotations

import math

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, rewrite
from compiler.expr.keys.kinds import Expression, Field, Value, choice, required
from compiler.expr.keys.values import COUNT, PART, POSITIVE
from compiler.ir.level1.builder import axis_dims, identity
from compiler.ir.space import Affine, along
from compiler.layers.shared.context import X0, X1, X2, Context, number, turned, whole
from compiler.layers.shared.keys import layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, keeps, shown
from compiler.layers.shared.onnx.graph import Writer


def _random(c: Context, layer: l0.Layer, part: str, shape: tuple[int, ...]) -> l1.Tensor:
    """Uniform numbers in [0, 1)."""
    name = f"{layer.name}.{part}"
    return c.graph.add(l1.Rand(l1.Tensor(name, shape, "real", True), f"{layer.name}/{part}", layer.span))


def _write(w: Writer, layer: l0.Layer) -> str:
    """Nothing: exported networks are for inference."""
    return w.source(layer)


_OF_ELEMENTS = "Each element has draws of its own."


def dropout(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Srivastava et al. 2014, inverted: kept elements are divided by the probability of keeping them."""
    if not c.training:
        return x
    axes = {"sample": 1, "channel": 2}.get(str(dict(layer.attrs).get("draws")), len(x.shape))
    drawn = l1.Tensor(f"{layer.name}.random", x.shape[:axes], "real", True)
    u = c.graph.add(l1.Rand(drawn, f"{layer.name}/dropout", layer.span))
    keep = Cond(X0 < Ref("rate"), Num(0.0), 1.0 / (1.0 - Ref("rate")))
    scalars = (("rate", number(layer, "rate")),)
    mask = c.graph.map(f"{layer.name}.mask", keep, (identity(u),), scalars=scalars, span=layer.span)
    return c.graph.map(f"{layer.name}.y", X0 * X1, (identity(x), (mask, tuple(range(axes)))), span=layer.span)


DROPOUT = LayerKind(
    layer(
        "dropout",
        "Sets elements to zero at random while training, and scales the others up.",
        required("rate", PART, "The probability with which an element is dropped.", example="rate: 0.5"),
        Field(
            "draws",
            choice(
                "draws",
                element=_OF_ELEMENTS,
                channel="Those of a channel, the first axis, are dropped together (Tompson et al. 2015).",
                sample="All of a sample: before an `add`, stochastic depth (Huang et al. 2016).",
            ),
            "What is dropped together.",
            default="element",
        ),
        elsewhere={"p": "`rate`", "probability": "`rate`"},
    ),
    lambda p, x: (x, p.attrs("rate") | ({} if p.values["draws"] == "element" else p.attrs("draws"))),
    dropout,
    _write,
    training=True,
    moves=True,
)


def noise(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """x + std z, z standard normal (Box & Muller 1958)."""
    if not c.training:
        return x
    radius, angle = _random(c, layer, "radius", x.shape), _random(c, layer, "angle", x.shape)
    body = X0 + Ref("std") * _normal(X1, X2)
    scalars = (("std", number(layer, "std")),)
    operands = (identity(x), identity(radius), identity(angle))
    return c.graph.map(f"{layer.name}.y", body, operands, scalars=scalars, span=layer.span)


def _exponential(u: Expr) -> Expr:
    """Exponential with mean 1."""
    return -Call("log", (1.0 - u,))


def _normal(radius: Expr, angle: Expr) -> Expr:
    r = Call("sqrt", (2.0 * _exponential(radius),))
    return r * Call("cos", (Num(2.0 * math.pi) * angle,))


NOISE = LayerKind(
    layer(
        "noise",
        "Adds normal noise to every element while training.",
        required("std", Value("a positive number", "0.1", low=0, above=True), "The standard deviation."),
        elsewhere={"stddev": "`std`", "sigma": "`std`"},
    ),
    keeps("std"),
    noise,
    _write,
    training=True,
)


def augment(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """A formula of x and draws, one number for each element or each sample."""
    if not c.training:
        return x
    assert layer.function is not None
    shape = x.shape if layer.attr("draws") == "element" else x.shape[:1]
    operands = [identity(x)]

    def uniform() -> Expr:
        u = _random(c, layer, f"draw_{len(operands)}", shape)
        operands.append(identity(u))
        return Ref(f"x{len(operands) - 1}")

    def drawn(e: Expr) -> Expr:
        match e:
            case Call("random"):
                return uniform()
            case Call("normal"):
                return _normal(uniform(), uniform())
            case Call("exponential"):
                return _exponential(uniform())
        return e

    body = rewrite(layer.function.body, drawn, top_down=True, shared=False)
    scalars = tuple((n, float(v)) for n, v in layer.attrs if isinstance(v, int | float))
    return c.graph.map(f"{layer.name}.y", body, operands, like=x, scalars=scalars, span=layer.span)


AUGMENT = LayerKind(
    layer(
        "augment",
        "Changes samples while training by a formula that may draw random numbers.",
        required(
            "value",
            Expression("x * (0.8 + 0.4 * random())"),
            "What the input `x` becomes, element by element; `random()`, `normal()` and `exponential()` draw numbers.",
        ),
        Field(
            "draws",
            choice("draws", element=_OF_ELEMENTS, sample="All elements of a sample have the same draws."),
            "How many numbers are drawn.",
            default="element",
        ),
        example="{value: x * (0.8 + 0.4 * random()), draws: sample}",
    ),
    keeps("draws"),
    augment,
    _write,
    training=True,
)


def random_flip(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Half of the samples reversed along an axis."""
    if not c.training:
        return x
    axis = 1 + whole(layer, "axis")
    back = turned(c, f"{layer.name}.reversed", x, axis, layer)
    coin = _random(c, layer, "coin", x.shape[:1])
    body = Cond(X2 < 0.5, X0, X1)
    return c.graph.map(f"{layer.name}.y", body, (identity(back), identity(x), (coin, (0,))), span=layer.span)


RANDOM_FLIP = LayerKind(
    layer(
        "random_flip",
        "Reverses half of the samples along an axis while training, chosen at random.",
        Field(
            "axis",
            COUNT,
            "The axis, without the batch, from 0; without it, the last one (left and right of an image).",
            example="axis: 2",
        ),
        elsewhere={"dim": "`axis`", "mode": "`axis`"},
        example="{axis: 2}",
    ),
    lambda p, x: (x, {"axis": p.axis(x, len(x) - 1)}),
    random_flip,
    _write,
    training=True,
)


def _cropped(p: Place, x: Shape) -> Result:
    padding = p.integer("padding")
    if len(x) != 3:
        raise Misfit(f"a random_crop layer reads channels, height and width; `{p.source}` has the shape {shown(x)}")
    if padding > 16 or padding >= min(x[1:]):
        most = min(16, min(x[1:]) - 1)
        message = f"`padding` must be at most {most}: less than height and width, and no more than 16"
        raise Misfit(message, None, "padding")
    return x, {"padding": padding}


def random_crop(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Zeros are added on both sides of the last two axes, and a window of x's shape is cropped at random: a one-hot
    contraction over all shifts."""
    if not c.training:
        return x
    most = whole(layer, "padding")
    rank = len(x.shape)
    dims = axis_dims(x.shape)
    shifts = (("a", 2 * most + 1), ("b", 2 * most + 1))
    moved = tuple(
        Affine(((d, 1), (shifts[k - rank + 2][0], 1)), -most) if k >= rank - 2 else along(d)
        for k, (d, _) in enumerate(dims)
    )
    places = []
    for part in ("down", "right"):
        u = _random(c, layer, part, x.shape[:1])
        place = Call("floor", (X0 * Ref("shifts"),))
        scalars = (("shifts", float(2 * most + 1)),)
        # 1 - 2**-24 times the number of shifts may round up to it
        held = Call("min", (place, Ref("shifts") - 1.0))
        name = f"{layer.name}.{part}.place"
        places.append(c.graph.map(name, held, (identity(u),), scalars=scalars, span=layer.span))
    here = Ref("a").eq(X1) & Ref("b").eq(X2)
    reads = ((x, moved), *((p, (along("d0"),)) for p in places))
    out = tuple(along(d) for d, _ in dims)
    return c.graph.contract(f"{layer.name}.y", (*dims, *shifts), out, reads, Cond(here, X0, Num(0.0)), span=layer.span)


RANDOM_CROP = LayerKind(
    layer(
        "random_crop",
        "Shifts each image by up to `padding` pixels in both directions while training; zeros come in at the edges.",
        required("padding", POSITIVE, "The largest shift, at most 16.", example="padding: 4"),
    ),
    _cropped,
    random_crop,
    _write,
    training=True,
)
