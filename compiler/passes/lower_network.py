"""lower_network: layers (level 0) become a pure tensor graph (level 1) for one phase.

Assumes: shapes were inferred and checked; names are unique.
Guarantees: layers of one kind give structurally equal nodes (same bodies, same order of operands), so that their
kernels merge; numbers that a user may change (rates, epsilons) are scalars of nodes, never text. Weights:
`<layer>.weight`, `<layer>.bias`, drawn glorot_uniform (Glorot & Bengio 2010, eq. 16), biases zero.
Does not: differentiate, fuse, or know layouts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref, substitute
from compiler.ir.graph import BatchMask, Contract, Feed, Rand, Reindex, Store, Tensor, Variable, Weight
from compiler.ir.model import FunctionDef, Layer, Network, Train
from compiler.ir.space import Affine, along
from compiler.passes.graph_builder import GraphBuilder, identity

X0, X1, X2, X3, X4 = (Ref(f"x{i}") for i in range(5))
PRODUCT = Binary("*", X0, X1)


def _call(func: str, *args: Expr) -> Expr:
    return Call(func, args)


def _add(a: Expr, b: Expr) -> Expr:
    return Binary("+", a, b)


def _mul(a: Expr, b: Expr) -> Expr:
    return Binary("*", a, b)


ACTIVATIONS: dict[str, Expr] = {
    "relu": _call("relu", X0),
    "sigmoid": _call("sigmoid", X0),
    "tanh": _call("tanh", X0),
    "softplus": _call("softplus", X0),
    "silu": _mul(X0, _call("sigmoid", X0)),
    # Hendrycks & Gimpel 2016, the exact form.
    "gelu": _mul(_mul(Num(0.5), X0), _add(Num(1.0), _call("erf", _mul(X0, Num(math.sqrt(0.5)))))),
    # Clevert et al. 2016 with alpha = 1.
    "elu": Cond(Binary(">", X0, Num(0.0)), X0, _call("expm1", X0)),
    "leaky_relu": Cond(Binary(">", X0, Num(0.0)), X0, _mul(Num(0.01), X0)),
}
"""Built-in activations over x0, in the expression language."""


@dataclass
class _Context:
    graph: GraphBuilder
    training: bool
    mask: Tensor
    count: Tensor
    named: dict[str, Tensor]  # output of each layer and network input


def _ints(layer: Layer, name: str) -> tuple[int, ...]:
    value = layer.attr(name)
    assert isinstance(value, tuple)
    return value


def _number(layer: Layer, name: str) -> float:
    value = layer.attr(name)
    assert isinstance(value, (int, float))
    return float(value)


def _weight(c: _Context, name: str, shape: tuple[int, ...], init: str, args: tuple[float, ...], layer: Layer) -> Tensor:
    return c.graph.add(Weight(Tensor(name, shape), init, args, layer.span))


def _glorot(fan_in: int, fan_out: int) -> tuple[float, ...]:
    return (math.sqrt(6.0 / (fan_in + fan_out)),)


def _bias(c: _Context, layer: Layer, y: Tensor, axis: int) -> Tensor:
    if not layer.attr("bias"):
        return y
    bias = _weight(c, f"{layer.name}.bias", (y.shape[axis],), "zeros", (), layer)
    return c.graph.map(f"{layer.name}.biased", _add(X0, X1), (identity(y), (bias, (axis,))), span=layer.span)


def _dense(c: _Context, layer: Layer, x: Tensor) -> Tensor:
    units, features = layer.shape[0], x.shape[1]
    w = _weight(c, f"{layer.name}.weight", (units, features), "uniform", _glorot(features, units), layer)
    out = Tensor(f"{layer.name}.sum", (x.shape[0], units), "real", True)
    y = c.graph.add(
        Contract(
            out,
            (("n", x.shape[0]), ("o", units), ("k", features)),
            (along("n"), along("o")),
            (x.name, w.name),
            ((along("n"), along("k")), (along("o"), along("k"))),
            PRODUCT,
            span=layer.span,
        )
    )
    return _bias(c, layer, y, 1)


def _window(
    layer: Layer, kernel: str, dilation: tuple[int, int] = (1, 1)
) -> tuple[tuple[int, int], tuple[Affine, Affine]]:
    """Extents of the window dims r, s and the input's row and column as affine maps of oh, ow, r, s."""
    size = _ints(layer, kernel)
    stride = _ints(layer, "stride")
    padding = _ints(layer, "padding")
    rows = Affine((("oh", stride[0]), ("r", dilation[0])), -padding[0])
    cols = Affine((("ow", stride[1]), ("s", dilation[1])), -padding[2])
    return (size[0], size[1]), (rows, cols)


def _reshape(c: _Context, name: str, x: Tensor, shape: tuple[int, ...], layer: Layer) -> Tensor:
    return c.graph.add(Reindex(Tensor(name, shape, x.dtype, x.batched), x.name, layer.span))


def _conv2d(c: _Context, layer: Layer, x: Tensor) -> Tensor:
    batch, channels = x.shape[0], x.shape[1]
    filters, oh, ow = layer.shape
    groups = layer.attr("groups")
    assert isinstance(groups, int)
    dilation = _ints(layer, "dilation")
    (kh, kw), (rows, cols) = _window(layer, "kernel", (dilation[0], dilation[1]))
    inner = channels // groups
    fan_in, fan_out = inner * kh * kw, filters // groups * kh * kw
    w = _weight(c, f"{layer.name}.weight", (filters, inner, kh, kw), "uniform", _glorot(fan_in, fan_out), layer)
    n, k, ch, r, s = (along(d) for d in ("n", "k", "c", "r", "s"))
    size = (("oh", oh), ("ow", ow), ("c", inner), ("r", kh), ("s", kw))
    if groups == 1:
        out = Tensor(f"{layer.name}.sum", (batch, filters, oh, ow), "real", True)
        y = c.graph.add(
            Contract(
                out,
                (("n", batch), ("k", filters), *size),
                (n, k, along("oh"), along("ow")),
                (x.name, w.name),
                ((n, ch, rows, cols), (k, ch, r, s)),
                PRODUCT,
                span=layer.span,
            )
        )
    else:
        # Groups are an axis of their own: the same elements seen as (batch, group, channels of a group, ...).
        per = filters // groups
        xg = _reshape(c, f"{layer.name}.grouped", x, (batch, groups, inner, *x.shape[2:]), layer)
        wg = _reshape(c, f"{layer.name}.weight.grouped", w, (groups, per, inner, kh, kw), layer)
        g = along("g")
        out = Tensor(f"{layer.name}.sum.grouped", (batch, groups, per, oh, ow), "real", True)
        yg = c.graph.add(
            Contract(
                out,
                (("n", batch), ("g", groups), ("k", per), *size),
                (n, g, k, along("oh"), along("ow")),
                (xg.name, wg.name),
                ((n, g, ch, rows, cols), (g, k, ch, r, s)),
                PRODUCT,
                span=layer.span,
            )
        )
        y = _reshape(c, f"{layer.name}.sum", yg, (batch, filters, oh, ow), layer)
    return _bias(c, layer, y, 1)


def _pool2d(c: _Context, layer: Layer, x: Tensor) -> Tensor:
    (kh, kw), (rows, cols) = _window(layer, "size")
    largest = layer.kind == "max_pool2d"
    ch, oh, ow = layer.shape
    out = Tensor(f"{layer.name}.y", (x.shape[0], ch, oh, ow), "real", True)
    return c.graph.add(
        Contract(
            out,
            (("n", x.shape[0]), ("c", ch), ("oh", oh), ("ow", ow), ("r", kh), ("s", kw)),
            (along("n"), along("c"), along("oh"), along("ow")),
            (x.name,),
            ((along("n"), along("c"), rows, cols),),
            X0 if largest else _mul(X0, Num(1.0 / (kh * kw))),
            "max" if largest else "add",
            -math.inf if largest else 0.0,
            span=layer.span,
        )
    )


def _batch_norm(c: _Context, layer: Layer, x: Tensor) -> Tensor:
    """Ioffe & Szegedy 2015, over the rows that exist; running averages as in PyTorch (unbiased variance)."""
    g, name, span = c.graph, layer.name, layer.span
    channel = (x.shape[1],)
    gamma = _weight(c, f"{name}.weight", channel, "ones", (), layer)
    beta = _weight(c, f"{name}.bias", channel, "zeros", (), layer)
    mean_of = g.add(Variable(Tensor(f"{name}.running_mean", channel), 0.0, span=span))
    var_of = g.add(Variable(Tensor(f"{name}.running_var", channel), 1.0, span=span))
    numbers = tuple(
        (k, float(v)) for k, v in layer.attrs if k in ("epsilon", "momentum") and not isinstance(v, (tuple, str))
    )
    whole, row = identity(x), (c.mask, (0,))
    mean, var = mean_of, var_of
    if c.training:
        area = (("area", float(math.prod(x.shape[2:]))),)
        count = g.map(f"{name}.count", _mul(X0, Ref("area")), (identity(c.count),), scalars=area, span=span)
        total = g.reduce(f"{name}.total", PRODUCT, (whole, row), x, (1,), span=span)
        mean = g.map(f"{name}.mean", Binary("/", X0, X1), (identity(total), (count, ())), span=span)
        off = Binary("-", X0, X2)
        square = g.reduce(f"{name}.square", _mul(_mul(off, off), X1), (whole, row, (mean, (1,))), x, (1,), span=span)
        var = g.map(f"{name}.var", Binary("/", X0, X1), (identity(square), (count, ())), span=span)
        momentum = Ref("momentum")
        old = _mul(Binary("-", Num(1.0), momentum), X0)
        new_mean = g.map(
            f"{name}.new_mean",
            _add(old, _mul(momentum, X1)),
            (identity(mean_of), identity(mean)),
            scalars=numbers,
            span=span,
        )
        unbiased = Binary("/", X1, _call("max", Binary("-", X2, Num(1.0)), Num(1.0)))
        new_var = g.map(
            f"{name}.new_var",
            _add(old, _mul(momentum, unbiased)),
            (identity(var_of), identity(square), (count, ())),
            scalars=numbers,
            span=span,
        )
        g.add(Store(mean_of.name, new_mean.name, span))
        g.add(Store(var_of.name, new_var.name, span))
    scale = g.map(
        f"{name}.scale",
        Binary("/", X1, _call("sqrt", _add(X0, Ref("epsilon")))),
        (identity(var), identity(gamma)),
        scalars=numbers,
        span=span,
    )
    return g.map(
        f"{name}.y",
        _add(_mul(Binary("-", X0, X1), X2), X3),
        (whole, (mean, (1,)), (scale, (1,)), (beta, (1,))),
        span=span,
    )


def _dropout(c: _Context, layer: Layer, x: Tensor) -> Tensor:
    """Srivastava et al. 2014, inverted: kept elements are divided by the probability of keeping them."""
    if not c.training:
        return x
    u = c.graph.add(Rand(Tensor(f"{layer.name}.random", x.shape, "real", True), f"{layer.name}/dropout", layer.span))
    keep = Cond(Binary("<", X0, Ref("rate")), Num(0.0), Binary("/", Num(1.0), Binary("-", Num(1.0), Ref("rate"))))
    scalars = (("rate", _number(layer, "rate")),)
    mask = c.graph.map(f"{layer.name}.mask", keep, (identity(u),), scalars=scalars, span=layer.span)
    return c.graph.map(f"{layer.name}.y", PRODUCT, (identity(x), identity(mask)), span=layer.span)


def _activation(c: _Context, layer: Layer, y: Tensor) -> Tensor:
    function: FunctionDef | None = layer.function
    if function is not None:
        body = substitute(function.body, {function.args[0]: X0})
    elif layer.activation in (None, "linear", "identity"):
        return y
    else:
        assert layer.activation is not None
        body = ACTIVATIONS[layer.activation]
    return c.graph.map(f"{layer.name}.activated", body, (identity(y),), span=layer.span)


def _layer(c: _Context, layer: Layer) -> Tensor:
    ins = [c.named[i] for i in layer.inputs]
    x = ins[0]
    match layer.kind:
        case "dense":
            y = _dense(c, layer, x)
        case "conv2d":
            y = _conv2d(c, layer, x)
        case "max_pool2d" | "avg_pool2d":
            y = _pool2d(c, layer, x)
        case "flatten":
            y = _reshape(c, f"{layer.name}.y", x, (x.shape[0], *layer.shape), layer)
        case "add":
            body: Expr = X0
            for i in range(1, len(ins)):
                body = _add(body, Ref(f"x{i}"))
            y = c.graph.map(f"{layer.name}.y", body, [identity(t) for t in ins], span=layer.span)
        case "batch_norm":
            y = _batch_norm(c, layer, x)
        case "dropout":
            y = _dropout(c, layer, x)
        case "activation":
            y = x
        case _:
            raise AssertionError(f"layer kind {layer.kind} passed the frontend")
    return _activation(c, layer, y)


def lower_network(network: Network, train: Train, phase: str) -> tuple[_Context, dict[str, Tensor]]:
    """The forward graph of a phase ("train": batch statistics, dropout; "eval": neither).

    Returns the context (graph, mask, count) and the output tensor of every layer and input by name.
    """
    g = GraphBuilder()
    batch = train.batch
    mask = g.add(BatchMask(Tensor("batch.mask", (batch,), "real", True)))
    count = g.reduce("batch.count", X0, (identity(mask),), mask, ())
    c = _Context(g, phase == "train", mask, count, {})
    sources = {name: (array, scale) for name, array, scale in train.data.arrays}
    for item in network.inputs:
        array, scale = sources[item.name]
        dtype = "real" if item.dtype == "real" else "int"
        out = Tensor(item.name, (batch, *item.shape), dtype, True)
        c.named[item.name] = g.add(Feed(out, f"data.{array}", scale, item.span))
    for layer in network.layers:
        c.named[layer.name] = _layer(c, layer)
    return c, c.named
