"""lower_augment: layers that change samples at random while training: noise, augment, random_flip, random_crop.

Assumes: level-0 layers of these kinds.
Guarantees: the identity outside training; draws are counter-based, keyed by the layer's name, with one counter per step
and element (noise) or sample (flips, crops; augment as asked): the same on every target, and where a run is resumed.
Does not: read data.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref, Unary, children, with_children
from compiler.ir.level0.model import Layer
from compiler.ir.level1.builder import axis_dims, identity
from compiler.ir.level1.graph import Contract, Rand, Tensor
from compiler.ir.space import Affine, along
from compiler.layers.shared.context import X0, X1, X2, Context, number, whole


def _random(c: Context, layer: Layer, part: str, shape: tuple[int, ...]) -> Tensor:
    """Uniform numbers in [0, 1)."""
    name = f"{layer.name}.{part}"
    return c.graph.add(Rand(Tensor(name, shape, "real", True), f"{layer.name}/{part}", layer.span))


def noise(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """x + std z, z standard normal (Box & Muller 1958)."""
    if not c.training:
        return x
    radius, angle = _random(c, layer, "radius", x.shape), _random(c, layer, "angle", x.shape)
    body = Binary("+", X0, Binary("*", Ref("std"), _normal(X1, X2)))
    scalars = (("std", number(layer, "std")),)
    operands = (identity(x), identity(radius), identity(angle))
    return c.graph.map(f"{layer.name}.y", body, operands, scalars=scalars, span=layer.span)


def _exponential(u: Expr) -> Expr:
    """Exponential with mean 1."""
    return Unary("-", Call("log", (Binary("-", Num(1.0), u),)))


def _normal(radius: Expr, angle: Expr) -> Expr:
    r = Call("sqrt", (Binary("*", Num(2.0), _exponential(radius)),))
    return Binary("*", r, Call("cos", (Binary("*", Num(2.0 * math.pi), angle),)))


def augment(c: Context, layer: Layer, x: Tensor) -> Tensor:
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
        kids = children(e)
        return with_children(e, tuple(drawn(k) for k in kids)) if kids else e

    body = drawn(layer.function.body)
    scalars = tuple((n, float(v)) for n, v in layer.attrs if isinstance(v, int | float))
    return c.graph.map(f"{layer.name}.y", body, operands, like=x, scalars=scalars, span=layer.span)


def random_flip(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Half of the samples reversed along an axis."""
    if not c.training:
        return x
    axis = 1 + whole(layer, "axis")
    dims = axis_dims(x.shape)
    plain = tuple(along(d) for d, _ in dims)
    back = tuple(Affine(((d, -1),), x.shape[axis] - 1) if a == axis else along(d) for a, (d, _) in enumerate(dims))
    out = Tensor(f"{layer.name}.reversed", x.shape, "real", True)
    turned = c.graph.add(Contract(out, dims, plain, (x.name,), (back,), X0, span=layer.span))
    coin = _random(c, layer, "coin", x.shape[:1])
    body = Cond(Binary("<", X2, Num(0.5)), X0, X1)
    return c.graph.map(f"{layer.name}.y", body, (identity(turned), identity(x), (coin, (0,))), span=layer.span)


def random_crop(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Zeros are added on both sides of the last two axes, and a part of x's shape is cut out at random: a sum over all
    shifts, of which one counts."""
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
        place = Call("floor", (Binary("*", X0, Ref("shifts")),))
        scalars = (("shifts", float(2 * most + 1)),)
        # 1 - 2**-24 times the number of shifts may round up to it
        held = Call("min", (place, Binary("-", Ref("shifts"), Num(1.0))))
        name = f"{layer.name}.{part}.place"
        places.append(c.graph.map(name, held, (identity(u),), scalars=scalars, span=layer.span))
    here = Binary("and", Binary("==", Ref("a"), X1), Binary("==", Ref("b"), X2))
    return c.graph.add(
        Contract(
            Tensor(f"{layer.name}.y", x.shape, "real", True),
            (*dims, *shifts),
            tuple(along(d) for d, _ in dims),
            (x.name, *(p.name for p in places)),
            (moved, (along("d0"),), (along("d0"),)),
            Cond(here, X0, Num(0.0)),
            span=layer.span,
        )
    )
