"""lower_shapes: layers that move elements (concat, slice, pad, permute, reshape), combine them (add, multiply, map)
or look them up (embedding).

Assumes: inputs of (batch, ...).
Guarantees: offsets and extents are data; only the number of inputs is text.
Does not: copy where a view is enough (reshape).
"""

from __future__ import annotations

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref, substitute
from compiler.ir.level0.model import Layer
from compiler.ir.level1.builder import Operand, identity
from compiler.ir.level1.graph import Contract, Rand, Tensor
from compiler.ir.space import along
from compiler.layers.shared.context import (
    X0,
    X1,
    Context,
    add,
    flag,
    ints,
    moved,
    mul,
    number,
    reshape,
    weight,
    whole,
)


def concat(c: Context, layer: Layer, ins: list[Tensor]) -> Tensor:
    """Inputs one after the other along an axis."""
    return joined(c, f"{layer.name}.y", ins, 1 + whole(layer, "axis"), layer)


def joined(c: Context, name: str, ins: list[Tensor], axis: int, layer: Layer) -> Tensor:
    """Tensors that differ along one axis only, one after the other."""
    if len(ins) == 1:
        return ins[0]
    rank = len(ins[0].shape)
    parts: list[tuple[Tensor, tuple[int, ...]]] = []
    at = 0
    for t in ins:
        parts.append((t, tuple(at if a == axis else 0 for a in range(rank))))
        at += t.shape[axis]
    shape = tuple(at if a == axis else e for a, e in enumerate(ins[0].shape))
    return moved(c, name, parts, shape, 0.0, layer)


def sliced(c: Context, name: str, x: Tensor, axis: int, start: int, stop: int, layer: Layer) -> Tensor:
    """Elements [start, stop) of an axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    offset = tuple(-start if a == axis else 0 for a in range(len(x.shape)))
    shape = tuple(stop - start if a == axis else e for a, e in enumerate(x.shape))
    return moved(c, name, [(x, offset)], shape, 0.0, layer)


def slice_of(c: Context, layer: Layer, x: Tensor) -> Tensor:
    start, stop = ints(layer, "range")
    return sliced(c, f"{layer.name}.y", x, 1 + whole(layer, "axis"), start, stop, layer)


def pad(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Elements of one value around the input."""
    return moved(
        c, f"{layer.name}.y", [(x, (0, *ints(layer, "before")))], (x.shape[0], *layer.shape), number(layer, "value"),
        layer,
    )  # fmt: skip


def permute(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Output axis a is input axis axes[a] (without the batch, from 0)."""
    order = (0, *(1 + a for a in ints(layer, "axes")))
    target = tuple(order.index(a) for a in range(len(order)))
    out = Tensor("", (x.shape[0], *layer.shape), x.dtype, True)
    return c.graph.map(f"{layer.name}.y", X0, ((x, target),), like=out, span=layer.span)


def combined(c: Context, layer: Layer, ins: list[Tensor], op: str) -> Tensor:
    """The sum or the product of several inputs."""
    body: Expr = X0
    for i in range(1, len(ins)):
        body = Binary(op, body, Ref(f"x{i}"))
    return c.graph.map(f"{layer.name}.y", body, [identity(t) for t in ins], span=layer.span)


def map_of(c: Context, layer: Layer, ins: list[Tensor]) -> Tensor:
    """An expression over inputs, whose shapes are broadcast as in NumPy (the batch apart)."""
    function = layer.function
    assert function is not None
    rank = len(layer.shape)
    operands: list[Operand] = []
    for t in ins:
        first = 1 + rank - (len(t.shape) - 1)
        kept = [(a, e) for a, e in enumerate(t.shape[1:]) if e == layer.shape[first - 1 + a]]
        source = t
        if len(kept) != len(t.shape) - 1:  # axes of extent 1 that are repeated
            shape = (t.shape[0], *(e for _, e in kept))
            source = reshape(c, f"{layer.name}.of.{t.name}", t, shape, layer)
        operands.append((source, (0, *(first + a for a, _ in kept))))
    args = function.args[: len(ins)]
    scalars = tuple((n, float(v)) for n, v in layer.attrs if isinstance(v, (int, float)))
    body = substitute(function.body, {a: Ref(f"x{i}") for i, a in enumerate(args)})
    out = Tensor("", (ins[0].shape[0], *layer.shape), "real", True)
    return c.graph.map(f"{layer.name}.y", body, operands, like=out, scalars=scalars, span=layer.span)


def embedding(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Row x of a trained table (count, size), drawn standard normal as in PyTorch. Written as a contraction with the
    one-hot vector of x, so that its gradient is one, too; lookups.py finds both, and neither makes that vector."""
    count, size = whole(layer, "count"), whole(layer, "size")
    table = weight(c, f"{layer.name}.weight", (count, size), "normal", (1.0,), layer)
    axes = tuple((f"d{a}", e) for a, e in enumerate(x.shape))
    outer = tuple(along(d) for d, _ in axes)
    chosen = Cond(Binary("==", X0, Ref("v")), X1, Num(0.0))
    return c.graph.add(
        Contract(
            Tensor(f"{layer.name}.y", (*x.shape, size), "real", True),
            (*axes, ("e", size), ("v", count)),
            (*outer, along("e")),
            (x.name, table.name),
            (outer, (along("v"), along("e"))),
            chosen,
            span=layer.span,
        )
    )


def one_hot(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """1 at the place that x says, 0 elsewhere. A `lenient` layer counts negative numbers from the end."""
    dims = (*((f"d{a}", e) for a, e in enumerate(x.shape)), ("v", whole(layer, "count")))
    axes = tuple(along(d) for d, _ in dims)
    out = Tensor(f"{layer.name}.y", tuple(e for _, e in dims), "real", True)
    at: Expr = X0
    scalars: tuple[tuple[str, float], ...] = ()
    if flag(layer, "lenient"):
        at = Cond(Binary(">=", X0, Num(0)), X0, Binary("+", X0, Ref("count")))
        scalars = (("count", float(whole(layer, "count"))),)
    body = Cond(Binary("==", Ref("v"), at), Num(1.0), Num(0.0))
    return c.graph.add(Contract(out, dims, axes, (x.name,), (axes[:-1],), body, scalars=scalars, span=layer.span))


def learned(c: Context, layer: Layer) -> Tensor:
    """A trained array for every sample, drawn normal with a standard deviation of 0.02."""
    w = weight(c, f"{layer.name}.weight", layer.shape, "normal", (0.02,), layer)
    out = Tensor("", (c.mask.shape[0], *layer.shape), "real", True)
    return c.graph.map(f"{layer.name}.y", X0, ((w, tuple(range(1, len(out.shape)))),), like=out, span=layer.span)


def positions(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """x plus an encoding of its first axis: trained, or sines and cosines (Vaswani et al. 2017, section 3.5)."""
    steps, size = x.shape[1:]
    if layer.attr("encoding") == "trained":
        table = weight(c, f"{layer.name}.weight", (steps, size), "normal", (0.02,), layer)
    else:
        e = Ref("e")
        pair = Binary("-", e, Binary("%", e, Num(2)))
        slow = Call("exp", (Binary("*", Call("float", (pair,)), Ref("fall")),))
        angle = Binary("*", Call("float", (Ref("t"),)), slow)
        wave = Cond(Binary("==", Binary("%", e, Num(2)), Num(0)), Call("sin", (angle,)), Call("cos", (angle,)))
        table = c.graph.add(
            Contract(
                Tensor(f"{layer.name}.table", (steps, size)),
                (("t", steps), ("e", size)),
                (along("t"), along("e")),
                (),
                (),
                wave,
                scalars=(("fall", -9.210340371976184 / size),),  # -log(10000)
                span=layer.span,
            )
        )
    return c.graph.map(f"{layer.name}.y", add(X0, X1), (identity(x), (table, (1, 2))), span=layer.span)


def dropout(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Srivastava et al. 2014, inverted: kept elements are divided by the probability of keeping them."""
    if not c.training:
        return x
    u = c.graph.add(Rand(Tensor(f"{layer.name}.random", x.shape, "real", True), f"{layer.name}/dropout", layer.span))
    keep = Cond(Binary("<", X0, Ref("rate")), Num(0.0), Binary("/", Num(1.0), Binary("-", Num(1.0), Ref("rate"))))
    scalars = (("rate", number(layer, "rate")),)
    mask = c.graph.map(f"{layer.name}.mask", keep, (identity(u),), scalars=scalars, span=layer.span)
    return c.graph.map(f"{layer.name}.y", mul(X0, X1), (identity(x), identity(mask)), span=layer.span)
