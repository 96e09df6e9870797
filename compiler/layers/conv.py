"""lower_windows: convolutions, their transposes and pooling, in one, two or three dimensions.

Assumes: inputs of (batch, channels, extents...); attributes with one number per dimension, paddings with two.
Guarantees: one Contract each, over dims n, k, c and per dimension an output and a window dim; layers of one kind are
of one text whatever their sizes, strides and paddings.
Does not: choose how they are computed.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Num, Ref
from compiler.ir.level0.model import Layer
from compiler.ir.level1.builder import identity
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.space import Affine, along
from compiler.layers.shared.context import (
    PRODUCT,
    X0,
    X1,
    Context,
    biased,
    flag,
    glorot,
    ints,
    mul,
    reshape,
    weight,
    whole,
)

SPATIAL = {1: (("ow", "s"),), 2: (("oh", "r"), ("ow", "s")), 3: (("od", "q"), ("oh", "r"), ("ow", "s"))}
"""Output and window dims by number of dimensions."""


def _index(layer: Layer, pairs: tuple[tuple[str, str], ...], dilation: tuple[int, ...]) -> tuple[Affine, ...]:
    """position = output * stride + tap * dilation - padding, per dimension."""
    stride, padding = ints(layer, "stride"), ints(layer, "padding")
    return tuple(Affine(((o, stride[a]), (w, dilation[a])), -padding[2 * a]) for a, (o, w) in enumerate(pairs))


def conv(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Cross-correlation. Weight (filters, channels of a group, taps...)."""
    batch, channels = x.shape[0], x.shape[1]
    filters, out = layer.shape[0], layer.shape[1:]
    groups, taps = whole(layer, "groups"), ints(layer, "kernel")
    pairs = SPATIAL[len(taps)]
    positions = _index(layer, pairs, ints(layer, "dilation"))
    inner = channels // groups
    area = math.prod(taps)
    fans = glorot(inner * area, filters // groups * area)
    w = weight(c, f"{layer.name}.weight", (filters, inner, *taps), "uniform", fans, layer)
    outputs, windows = tuple(o for o, _ in pairs), tuple(t for _, t in pairs)
    n, g, k, ch = (along(d) for d in ("n", "g", "k", "c"))
    size = (*zip(outputs, out, strict=True), ("c", inner), *zip(windows, taps, strict=True))
    at, tap = tuple(along(d) for d in outputs), tuple(along(d) for d in windows)
    if groups == 1:
        y = c.graph.add(
            Contract(
                Tensor(f"{layer.name}.sum", (batch, filters, *out), "real", True),
                (("n", batch), ("k", filters), *size),
                (n, k, *at),
                (x.name, w.name),
                ((n, ch, *positions), (k, ch, *tap)),
                PRODUCT,
                span=layer.span,
            )
        )
    else:
        # Groups are an axis of their own: the same elements seen as (batch, group, channels of a group, ...).
        per = filters // groups
        xg = reshape(c, f"{layer.name}.grouped", x, (batch, groups, inner, *x.shape[2:]), layer)
        wg = reshape(c, f"{layer.name}.weight.grouped", w, (groups, per, inner, *taps), layer)
        yg = c.graph.add(
            Contract(
                Tensor(f"{layer.name}.sum.grouped", (batch, groups, per, *out), "real", True),
                (("n", batch), ("g", groups), ("k", per), *size),
                (n, g, k, *at),
                (xg.name, wg.name),
                ((n, g, ch, *positions), (g, k, ch, *tap)),
                PRODUCT,
                span=layer.span,
            )
        )
        y = reshape(c, f"{layer.name}.sum", yg, (batch, filters, *out), layer)
    return biased(c, layer, y, 1)


def conv_transpose(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """The transpose of `conv` as a map (Dumoulin & Visin 2016, section 4): every input element adds its multiple of
    the kernel to the output. Weight (channels, filters of a group, taps...), as in PyTorch."""
    batch, channels = x.shape[0], x.shape[1]
    filters, out = layer.shape[0], layer.shape[1:]
    groups, taps = whole(layer, "groups"), ints(layer, "kernel")
    pairs = SPATIAL[len(taps)]
    positions = _index(layer, pairs, ints(layer, "dilation"))
    inner, per = channels // groups, filters // groups
    area = math.prod(taps)
    w = weight(c, f"{layer.name}.weight", (channels, per, *taps), "uniform", glorot(inner * area, per * area), layer)
    inputs, windows = tuple(o for o, _ in pairs), tuple(t for _, t in pairs)
    xg = reshape(c, f"{layer.name}.grouped", x, (batch, groups, inner, *x.shape[2:]), layer)
    wg = reshape(c, f"{layer.name}.weight.grouped", w, (groups, inner, per, *taps), layer)
    n, g, k, ch = (along(d) for d in ("n", "g", "k", "c"))
    yg = c.graph.add(
        Contract(
            Tensor(f"{layer.name}.sum.grouped", (batch, groups, per, *out), "real", True),
            (
                ("n", batch), ("g", groups), ("k", per), ("c", inner),
                *zip(inputs, x.shape[2:], strict=True), *zip(windows, taps, strict=True),
            ),
            (n, g, k, *positions),
            (xg.name, wg.name),
            ((n, g, ch, *(along(d) for d in inputs)), (g, ch, k, *(along(d) for d in windows))),
            PRODUCT,
            span=layer.span,
        )
    )  # fmt: skip
    y = reshape(c, f"{layer.name}.sum", yg, (batch, filters, *out), layer)
    return biased(c, layer, y, 1)


def pool(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """The largest value or the mean of each window. A mean counts the padding unless `count_padding` is false, and
    never what `ceil` added."""
    taps, padding = ints(layer, "size"), ints(layer, "padding")
    pairs = SPATIAL[len(taps)]
    ones = (1,) * len(taps)
    positions = _index(layer, pairs, ones)
    largest = layer.kind.startswith("max")
    ch, out = layer.shape[0], layer.shape[1:]
    stride = ints(layer, "stride")
    padded = tuple(e + padding[2 * a] + padding[2 * a + 1] for a, e in enumerate(x.shape[2:]))
    leaves = any((o - 1) * s + t > e for o, s, t, e in zip(out, stride, taps, padded, strict=True))
    counted = flag(layer, "count_padding", True)
    plain = not leaves and (counted or not any(padding))
    outputs, windows = tuple(o for o, _ in pairs), tuple(t for _, t in pairs)
    share = mul(X0, Num(1.0 / math.prod(taps))) if plain else X0
    y = c.graph.add(
        Contract(
            Tensor(f"{layer.name}.{'y' if largest or plain else 'total'}", (x.shape[0], ch, *out), "real", True),
            (
                ("n", x.shape[0]), ("c", ch),
                *zip(outputs, out, strict=True), *zip(windows, taps, strict=True),
            ),
            (along("n"), along("c"), *(along(d) for d in outputs)),
            (x.name,),
            ((along("n"), along("c"), *positions),),
            X0 if largest else share,
            "max" if largest else "add",
            -math.inf if largest else 0.0,
            span=layer.span,
        )
    )  # fmt: skip
    if largest or plain:
        return y
    # How many elements count in each window: the same sum over a tensor of ones.
    inside = padded if counted else x.shape[2:]
    origin = positions if not counted else tuple(Affine(p.terms) for p in positions)
    one = c.graph.map(f"{layer.name}.ones", Num(1.0), (), like=Tensor("", inside), span=layer.span)
    count = c.graph.add(
        Contract(
            Tensor(f"{layer.name}.counts", out),
            (*zip(outputs, out, strict=True), *zip(windows, taps, strict=True)),
            tuple(along(d) for d in outputs),
            (one.name,),
            (origin,),
            X0,
            span=layer.span,
        )
    )
    axes = tuple(range(2, len(y.shape)))
    return c.graph.map(f"{layer.name}.y", Binary("/", X0, X1), (identity(y), (count, axes)), span=layer.span)


def global_pool(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """The largest value or the mean of each channel."""
    size = math.prod(x.shape[2:])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], x.shape[1], size), layer)
    name = f"{layer.name}.y"
    if layer.kind == "global_max_pool":
        return c.graph.reduce(name, X0, (identity(flat),), flat, (0, 1), combine="max", fill=-math.inf, span=layer.span)
    share = (("share", 1.0 / size),)
    body = mul(X0, Ref("share"))
    return c.graph.reduce(name, body, (identity(flat),), flat, (0, 1), scalars=share, span=layer.span)


def upsample(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """Each element repeated along every dimension (nearest neighbour)."""
    factors = ints(layer, "factor")
    shape: list[int] = [*x.shape[:2]]
    axes: list[int] = [0, 1]
    for extent, factor in zip(x.shape[2:], factors, strict=True):
        axes.append(len(shape))
        shape += [extent, factor]
    spread = Tensor(f"{layer.name}.spread", tuple(shape), "real", True)
    y = c.graph.map(spread.name, X0, ((x, tuple(axes)),), like=spread, span=layer.span)
    return reshape(c, f"{layer.name}.y", y, (x.shape[0], *layer.shape), layer)
