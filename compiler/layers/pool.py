"""Window pooling and global pooling.

Assumes: inputs of (batch, channels, extents...).
Guarantees: one Contract each; a mean excludes elements added by `ceil`.
Does not: choose a strategy.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Num, Ref
from compiler.expr.keys.kinds import Field, required, switch
from compiler.ir.level1.builder import identity
from compiler.ir.space import Affine, along
from compiler.layers.shared.context import X0, X1, Context, flag, ints, reshape
from compiler.layers.shared.keys import layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, shown
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, data, hint_of
from compiler.layers.shared.windows import (
    DIMENSIONS,
    SPATIAL,
    extent,
    image,
    index,
    numbers,
    padding,
    padding_doc,
    pads_of,
    sides,
    window_extents,
    windows_in,
    written_pads,
)


def _shape(rank: int, p: Place, x: Shape) -> Result:
    size = p.each("size", rank)
    stride = p.each("stride", rank) if "stride" in p.values else size
    edges = sides(p, image(p, x, rank), size, stride, (1,) * rank)
    if any(max(edges[2 * a : 2 * a + 2]) >= size[a] for a in range(rank)):
        raise Misfit("a window could lie in the padding as a whole", "a padding is smaller than `size`", "padding")
    attrs: dict[str, l0.Attr] = {"size": size, "stride": stride, "padding": edges}
    out = window_extents(p, x, attrs, "size", p.values["ceil"] is True)
    if p.values.get("count_padding") is False:
        attrs["count_padding"] = False
    return (x[0], *out), attrs


def pool(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """The maximum or the mean of each window. A mean includes the padding unless `count_padding` is false, and never
    elements added by `ceil`."""
    taps, padding = ints(layer, "size"), ints(layer, "padding")
    pairs = SPATIAL[len(taps)]
    ones = (1,) * len(taps)
    positions = index(layer, pairs, ones)
    largest = layer.kind.startswith("max")
    ch, out = layer.shape[0], layer.shape[1:]
    stride = ints(layer, "stride")
    padded = tuple(e + padding[2 * a] + padding[2 * a + 1] for a, e in enumerate(x.shape[2:]))
    leaves = out != windows_in(x.shape[2:], taps, stride, padding, ones)
    counted = flag(layer, "count_padding", True)
    plain = not leaves and (counted or not any(padding))
    outputs, windows = tuple(o for o, _ in pairs), tuple(t for _, t in pairs)
    share = X0 * Num(1.0 / math.prod(taps)) if plain else X0
    space = (*zip(outputs, out, strict=True), *zip(windows, taps, strict=True))
    y = c.graph.contract(
        f"{layer.name}.{'y' if largest or plain else 'total'}",
        (("n", x.shape[0]), ("c", ch), *space),
        (along("n"), along("c"), *(along(d) for d in outputs)),
        ((x, (along("n"), along("c"), *positions)),),
        X0 if largest else share,
        combine="max" if largest else "add",
        fill=-math.inf if largest else 0.0,
        span=layer.span,
    )
    if largest or plain:
        return y
    # The number of valid elements per window: the same sum over a tensor of ones.
    inside = padded if counted else x.shape[2:]
    origin = positions if not counted else tuple(Affine(p.terms) for p in positions)
    one = c.graph.map(f"{layer.name}.ones", Num(1.0), (), like=l1.Tensor("", inside), span=layer.span)
    count = c.graph.contract(
        f"{layer.name}.counts",
        space,
        tuple(along(d) for d in outputs),
        ((one, origin),),
        X0,
        batched=False,
        span=layer.span,
    )
    axes = tuple(range(2, len(y.shape)))
    return c.graph.map(f"{layer.name}.y", X0 / X1, (identity(y), (count, axes)), span=layer.span)


def write_pool(w: Writer, layer: l0.Layer) -> str:
    size, stride, padding = ints(layer, "size"), ints(layer, "stride"), ints(layer, "padding")
    attrs: dict[str, object] = {"kernel_shape": list(size), "strides": list(stride), "pads": written_pads(padding)}
    if layer.shape[1:] != windows_in(w.shape(layer)[1:], size, stride, padding, (1,) * len(size)):
        attrs["ceil_mode"] = 1
    if layer.kind.startswith("max"):
        return w.graph.node("MaxPool", [w.source(layer)], layer.name, attrs)
    attrs["count_include_pad"] = int(bool(dict(layer.attrs).get("count_padding", True)))
    return w.graph.node("AveragePool", [w.source(layer)], layer.name, attrs)


def _read(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins)
    size = tuple(attrs["kernel_shape"])
    rank = len(size)
    if rank not in (1, 2, 3) or len(x.shape) != rank + 1:
        raise refused(node, f"it has {rank} dimensions")
    if any(d != 1 for d in attrs.get("dilations", [])) or attrs.get("storage_order", 0):
        raise refused(node, "its window is dilated or stored by columns")
    stride = tuple(attrs.get("strides", [1] * rank))
    pads = pads_of(node, attrs, x.shape[1:], size, stride)
    ceil = bool(attrs.get("ceil_mode", 0))
    out = windows_in(x.shape[1:], size, stride, pads, (1,) * rank, ceil)
    settings: dict[str, Setting] = {"size": numbers(size, rank), "stride": numbers(stride, rank)}
    if any(pads):
        settings["padding"] = pads
    if ceil:
        settings["ceil"] = True
    largest = node.op_type == "MaxPool"
    if not largest and not attrs.get("count_include_pad", 0):
        settings["count_padding"] = False
    kind = f"{'max' if largest else 'avg'}_pool{rank}d"
    return m.layer(kind, hint_of(node), [x], settings, (x.shape[0], *out))


def _kind(name: str, rank: int, doc: str) -> LayerKind:
    mean = name.startswith("avg")
    counted = (switch("count_padding", "Whether the mean counts the padding as zeros.", True),)
    what = {1: "Elements", 2: "Rows and columns", 3: "Planes, rows and columns"}[rank] + " around the input"
    keys = layer(
        name,
        doc,
        required("size", extent(rank), f"The window's {DIMENSIONS[rank]}.", example="size: 2"),
        Field("stride", extent(rank), "The step of the window; without it, `size`.", example="stride: 2"),
        Field("padding", padding(rank), padding_doc(rank, what), default=0, example="padding: 1"),
        switch("ceil", "Whether a last window that reaches over the end counts: extents are rounded up."),
        *(counted if mean else ()),
        elsewhere={"kernel": "`size`", "kernel_size": "`size`", "ceil_mode": "`ceil`"}
        | ({"count_include_pad": "`count_padding`"} if mean else {}),
    )
    read = {("AveragePool" if mean else "MaxPool"): _read} if rank == 1 else {}
    return LayerKind(keys, partial(_shape, rank), pool, write_pool, read)


# --------------------------------------------------------------------------------- of whole channels


def _global_shape(p: Place, x: Shape) -> Result:
    if len(x) < 2:
        raise Misfit(f"a {p.kind} layer reads channels and positions; `{p.source}` has the shape {shown(x)}")
    return (x[0],), {}


def global_pool(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """The maximum or the mean of each channel."""
    size = math.prod(x.shape[2:])
    flat = reshape(c, f"{layer.name}.flat", x, (x.shape[0], x.shape[1], size), layer)
    name = f"{layer.name}.y"
    if layer.kind == "global_max_pool":
        return c.graph.reduce(name, X0, (identity(flat),), flat, (0, 1), combine="max", fill=-math.inf, span=layer.span)
    share = (("share", 1.0 / size),)
    body = X0 * Ref("share")
    return c.graph.reduce(name, body, (identity(flat),), flat, (0, 1), scalars=share, span=layer.span)


def _write_global(w: Writer, layer: l0.Layer) -> str:
    op = "GlobalMaxPool" if layer.kind == "global_max_pool" else "GlobalAveragePool"
    y = w.graph.node(op, [w.source(layer)], f"{layer.name}/pooled")
    return w.graph.reshape(y, layer.shape, layer.name)


def _read_global(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """GlobalAveragePool and GlobalMaxPool."""
    x = data(node, ins)
    if len(x.shape) < 2:
        raise refused(node, "its input has no positions")
    kind, hint = "global_max_pool" if node.op_type == "GlobalMaxPool" else "global_avg_pool", hint_of(node)
    y = m.layer(kind, hint, [x], {}, x.shape[:1])
    return m.reshape(f"{hint}_kept", y, (x.shape[0], *(1 for _ in x.shape[1:])))


POOLS = (
    _kind("max_pool1d", 1, "The largest value of each window along the length."),
    _kind("avg_pool1d", 1, "The mean of each window along the length."),
    _kind("max_pool2d", 2, "The largest value of each window."),
    _kind("avg_pool2d", 2, "The mean of each window."),
    _kind("max_pool3d", 3, "The largest value of each window over depth, height and width."),
    _kind("avg_pool3d", 3, "The mean of each window over depth, height and width."),
    LayerKind(
        layer("global_max_pool", "The largest value of each channel."),
        _global_shape,
        global_pool,
        _write_global,
        {"GlobalMaxPool": _read_global},
    ),
    LayerKind(
        layer("global_avg_pool", "The mean of each channel."),
        _global_shape,
        global_pool,
        _write_global,
        {"GlobalAveragePool": _read_global},
    ),
)
