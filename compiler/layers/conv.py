"""Convolutions and their transposes, in one, two or three dimensions.

Assumes: inputs of (batch, channels, extents...).
Guarantees: paddings are attributes of two numbers per dimension (before, after), every extent is positive; one
Contract each, over dims n, g (with groups), k, c and per dimension an output and a window dim; layers of one kind share
one text for all sizes, strides and paddings. Lines are images: of one row, or of as many columns as taps are apart.
Does not: choose a strategy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Field, Kind, ListOf, choice, required
from compiler.expr.keys.values import COUNT, POSITIVE
from compiler.ir.space import Affine, along
from compiler.layers.shape import MODE_DOCS, MODE_WORDS, MODES, check_room, pad
from compiler.layers.shared.context import PRODUCT, Context, biased, glorot, ints, reshape, weight, whole
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import ACTIVATION, BIAS, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, hint_of
from compiler.layers.shared.volumes import Volume
from compiler.layers.shared.windows import (
    AXES,
    DIMENSIONS,
    FORMS,
    SPATIAL,
    extent,
    image,
    index,
    numbers,
    one_or,
    padding,
    padding_doc,
    pads_of,
    sides,
    window_extents,
    windows_in,
    written_pads,
)

_FILTERS = required("filters", POSITIVE, "The number of output channels.", example="filters: 16")
_GROUPS = Field(
    "groups",
    POSITIVE,
    "Input and output channels are split into this many groups that do not see each other; as many as there are "
    "channels: a depthwise convolution.",
    default=1,
    example="groups: 2",
)


def _conv_fields(rank: int) -> tuple[Field, ...]:
    one = "The kernel's length." if rank == 1 else f"The kernel's {DIMENSIONS[rank]}, or one number for all."
    return (
        _FILTERS,
        required("kernel", extent(rank), one),
        Field("stride", extent(rank), "The step of the kernel.", default=1, example="stride: 2"),
        Field(
            "padding", padding(rank), padding_doc(rank, "What is added around the input"), default="valid"),
        Field(
            "padding_mode",
            choice("mode", {**MODE_WORDS, "constant": "`zeros`"}, zeros="Zeros.", **MODE_DOCS),
            "What `padding` adds; other than zeros, elements of the input.",
            default="zeros"),
        Field("dilation", extent(rank), "The distance of the kernel's taps.", default=1, example="dilation: 2"),
        _GROUPS,
        ACTIVATION,
        BIAS,
        INIT,
    )  # fmt: skip


def _grouped(p: Place, channels: int, filters: int, groups: int) -> None:
    count = f"{channels} channel{'' if channels == 1 else 's'}"
    for what, number in ((f"`{p.source}` has {count}, which", channels), (f"{filters} filters", filters)):
        if number % groups:
            raise Misfit(f"{what} cannot be split into {groups} groups of one size", None, "groups")


def _attrs(p: Place, x: Shape, rank: int) -> dict[str, l0.Attr]:
    """Attributes common to convolutions and their transposes."""
    kernel, stride, dilation = (p.each(key, rank) for key in ("kernel", "stride", "dilation"))
    edges = sides(p, image(p, x, rank), kernel, stride, dilation)
    _grouped(p, x[0], p.integer("filters"), p.integer("groups"))
    found: dict[str, l0.Attr] = {"kernel": kernel, "stride": stride, "padding": edges, "dilation": dilation}
    return found | p.attrs("filters", "groups", "bias")


def _conv_shape(rank: int, p: Place, x: Shape) -> Result:
    attrs = _attrs(p, x, rank)
    shape, mode, edges = window_extents(p, x, attrs, "kernel"), str(p.values["padding_mode"]), attrs["padding"]
    if mode != "zeros" and isinstance(edges, tuple) and any(edges):
        for k, amount in enumerate(edges):
            check_room(p, mode, 1 + k // 2, amount, x[1 + k // 2], "padding")
        attrs["padding_mode"] = mode
    return (p.integer("filters"), *shape), attrs


def _apart(layer: l0.Layer, x: Shape) -> tuple[l0.Layer | None, l0.Layer]:
    """The padding of a convolution of inputs of shape `x` (without the batch), if it is not of zeros, and the
    convolution."""
    mode, edges = dict(layer.attrs).get("padding_mode"), ints(layer, "padding")
    if mode is None:
        return None, layer
    before, after = edges[::2], edges[1::2]
    shape = (x[0], *(b + e + a for b, e, a in zip(before, x[1:], after, strict=True)))
    around = replace(layer, name=f"{layer.name}.border", attrs=(("before", (0, *before)), ("mode", mode)), shape=shape)
    attrs = {**dict(layer.attrs), "padding": (0,) * len(edges)}
    del attrs["padding_mode"]
    return around, replace(layer, attrs=tuple(sorted(attrs.items())))


NEAR: Final = 2
"""Taps so far apart, at most, are read from one row."""


@dataclass(frozen=True)
class _Seen:
    """How a window walks what it is moved over: extents of input, output and window, and the place along each axis, all
    of images; `volume`: of which the image is made."""

    extents: tuple[int, ...]
    out: tuple[int, ...]
    taps: tuple[int, ...]
    positions: tuple[Affine, ...]
    volume: Volume | None = None


def _seen(layer: l0.Layer, extents: tuple[int, ...], transposed: bool = False) -> _Seen:
    """A line is an image of one row, or one whose columns are as many as its taps are apart: what a window reads is in
    one column then. A volume is its planes, one below the other."""
    out, taps, dilation = layer.shape[1:], ints(layer, "kernel"), ints(layer, "dilation")
    pairs = SPATIAL[len(taps)]
    if len(taps) == 3:
        volume = Volume.of(layer, out, extents) if transposed else Volume.of(layer, extents, out)
        ends = (volume.positions, volume.image) if transposed else (volume.image, volume.positions)
        return _Seen(*ends, taps[1:], volume.walk(layer), volume)
    if len(taps) == 2:
        return _Seen(extents, out, taps, index(layer, pairs, dilation))
    row, column = (Affine(((o, 1), (t, 1)), 0) for o, t in SPATIAL[2])
    (apart,), (first, _), (length,) = dilation, ints(layer, "padding"), extents
    whole_lines = length % apart == 0 and first % apart == 0 and out == extents and ints(layer, "stride") == (1,)
    if not transposed and whole_lines and apart > NEAR:
        lines = (length // apart, apart)
        return _Seen(lines, lines, (*taps, 1), (replace(row, const=-first // apart), column))
    return _Seen((1, *extents), (1, *out), (1, *taps), (row, *index(layer, pairs, dilation)))


_NAMES: Final = tuple(zip(*SPATIAL[2], strict=True))
"""The dims of an image and of its window."""


def _viewed(groups: int, taps: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[Affine, ...], str]:
    """Extent and place of the axis of groups, if there is one, and what the name of the sums ends with where they are
    not of the layer's shape."""
    many, g = ((groups,), (along("g"),)) if groups > 1 else ((), ())
    return many, g, ".grouped" if groups > 1 or len(taps) != 2 else ""


def _as_images(
    c: Context,
    layer: l0.Layer,
    x: l1.Tensor,
    w: l1.Tensor,
    seen: _Seen,
    many: tuple[int, ...],
    transposed: bool = False,
) -> tuple[l1.Tensor, l1.Tensor]:
    """The input as an image (batch, groups, channels of a group, rows, columns), and its weights (groups, outputs,
    inputs, rows, columns; or inputs, outputs). Groups are an axis of their own: the same elements, viewed so."""
    groups, volume = many[0] if many else 1, seen.volume
    extents, taps = (seen.extents, seen.taps) if volume is None else (x.shape[2:], w.shape[2:])
    x = reshape(c, f"{layer.name}.grouped", x, (x.shape[0], *many, x.shape[1] // groups, *extents), layer)
    w = reshape(c, f"{layer.name}.weight.grouped", w, (*many, w.shape[0] // groups, w.shape[1], *taps), layer)
    if volume is not None:
        x = volume.spread(c, layer, x) if transposed else volume.stacked(c, layer, x)
        w = volume.weights(c, layer, w, len(many) + 1)
    return x, w


def conv(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Cross-correlation. Weight (filters, channels of a group, taps...)."""
    around, layer = _apart(layer, x.shape[1:])
    if around is not None:
        x = pad(c, around, x)
    batch, filters, out = x.shape[0], layer.shape[0], layer.shape[1:]
    groups, taps = whole(layer, "groups"), ints(layer, "kernel")
    seen = _seen(layer, x.shape[2:])
    inner, per, area = x.shape[1] // groups, filters // groups, math.prod(taps)
    w = weight(c, f"{layer.name}.weight", (filters, inner, *taps), "uniform", glorot(inner * area, per * area), layer)
    many, g, suffix = _viewed(groups, taps)
    x, w = _as_images(c, layer, x, w, seen, many)
    (outputs, windows), (n, k, ch) = _NAMES, (along(d) for d in ("n", "k", "c"))
    size = (*zip(outputs, seen.out, strict=True), ("c", x.shape[-3]), *zip(windows, seen.taps, strict=True))
    at, tap = tuple(along(d) for d in outputs), tuple(along(d) for d in windows)
    y = c.graph.contract(
        f"{layer.name}.sum{suffix}",
        (("n", batch), *(("g", m) for m in many), ("k", per), *size),
        (n, *g, k, *at),
        ((x, (n, *g, ch, *seen.positions)), (w, (*g, k, ch, *tap))),
        PRODUCT,
        span=layer.span,
    )
    if seen.volume is not None:
        y = seen.volume.apart(c, layer, y, filters)
    return biased(c, layer, reshape(c, f"{layer.name}.sum", y, (batch, filters, *out), layer), 1)


def _conv_kind(rank: int) -> LayerKind:
    words = {1: "one", 2: "two", 3: "three"}[rank]
    keys = layer(
        f"conv{rank}d",
        f"A {words}-dimensional convolution (cross-correlation) over channels, {DIMENSIONS[rank]}.",
        *_conv_fields(rank),
        elsewhere={"units": "`filters`", "size": "`kernel`"},
        trained=True,
        needs=(("padding_mode", ("padding",)),),
    )
    read = {"Conv": _read} if rank == 1 else {}
    return LayerKind(keys, partial(_conv_shape, rank), conv, _write, read, trained=always, channels=0)


# --------------------------------------------------------------------------------------- transposed


def _transposed_shape(rank: int, p: Place, x: Shape) -> Result:
    attrs = _attrs(p, x, rank)
    kernel, stride, dilation, added = (p.each(key, rank) for key in ("kernel", "stride", "dilation", "output_padding"))
    edges = attrs["padding"]
    assert isinstance(edges, tuple)
    out: list[int] = []
    for axis, word in enumerate(AXES[rank]):
        if added[axis] >= max(stride[axis], dilation[axis]):
            message = f"`output_padding` must be smaller than `stride` or `dilation` ({stride[axis]}, {dilation[axis]})"
            raise Misfit(message, None, "output_padding")
        reach = (x[1 + axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1 + added[axis]
        left = reach - edges[2 * axis] - edges[2 * axis + 1]
        if left < 1:
            raise Misfit(f"the output is {reach} {word}; nothing is left of it without the padding", None, "padding")
        out.append(left)
    return (p.integer("filters"), *out), attrs


def conv_transpose(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """The transpose of `conv` as a linear map (Dumoulin & Visin 2016, section 4): every input element scatters its
    multiple of the kernel into the output. Weight (channels, filters of a group, taps...), as in PyTorch."""
    batch, channels = x.shape[0], x.shape[1]
    filters, out = layer.shape[0], layer.shape[1:]
    groups, taps = whole(layer, "groups"), ints(layer, "kernel")
    seen = _seen(layer, x.shape[2:], True)
    inner, per, area = channels // groups, filters // groups, math.prod(taps)
    fans = (inner * area, per * area)
    w = weight(c, f"{layer.name}.weight", (channels, per, *taps), "uniform", glorot(*fans), layer, fans)
    many, g, suffix = _viewed(groups, taps)
    x, w = _as_images(c, layer, x, w, seen, many, True)
    (inputs, windows), (n, k, ch) = _NAMES, (along(d) for d in ("n", "k", "c"))
    outs = w.shape[len(many) + 1]
    y = c.graph.add(
        l1.Contract(
            l1.Tensor(f"{layer.name}.sum{suffix}", (batch, *many, outs, *seen.out), "real", True),
            (
                ("n", batch), *(("g", m) for m in many), ("k", outs), ("c", inner),
                *zip(inputs, seen.extents, strict=True), *zip(windows, seen.taps, strict=True),
            ),
            (n, *g, k, *seen.positions),
            (x.name, w.name),
            ((n, *g, ch, *(along(d) for d in inputs)), (*g, ch, k, *(along(d) for d in windows))),
            PRODUCT,
            span=layer.span,
        )
    )  # fmt: skip
    if seen.volume is not None:
        y = seen.volume.added(c, layer, y, filters)
    return biased(c, layer, reshape(c, f"{layer.name}.sum", y, (batch, filters, *out), layer), 1)


def _transposed_kind(rank: int) -> LayerKind:
    words = {1: "one", 2: "two", 3: "three"}[rank]
    fields = [f for f in _conv_fields(rank) if f.name not in ("padding", "padding_mode")]
    added: Kind = COUNT if rank == 1 else ListOf(COUNT, low=rank, high=rank, example=str([1] * rank))
    fields[3:3] = [
        Field(
            "padding",
            padding(rank, words=False),
            "What is cut off at each side of the output: a number, or " + FORMS[rank] + ".",
            default=0,
            example="padding: 1",
        ),
        Field(
            "output_padding",
            added if rank == 1 else one_or(added),
            "Rows that are added at the end of each dimension, which a stride leaves open.",
            default=0,
            example="output_padding: 1",
        ),
    ]
    keys = layer(
        f"conv_transpose{rank}d",
        f"The transpose of a {words}-dimensional convolution: with a stride it enlarges.",
        *fields,
        elsewhere={"units": "`filters`", "size": "`kernel`"},
        example="{filters: 16, kernel: 4, stride: 2, padding: 1}",
        trained=True,
    )
    read = {"ConvTranspose": _read} if rank == 1 else {}
    shape = partial(_transposed_shape, rank)
    return LayerKind(keys, shape, conv_transpose, _write, read, trained=always, channels=1)


# --------------------------------------------------------------------------------------------- ONNX


def _write(w: Writer, layer: l0.Layer) -> str:
    around, layer = _apart(layer, w.shape(layer))
    x = w.source(layer)
    if around is not None:
        pads = [0, *ints(around, "before"), 0, *(o - b - e for o, b, e in zip(
            around.shape, ints(around, "before"), w.shape(layer), strict=True))]  # fmt: skip
        mode = {"mode": MODES[str(around.attr("mode"))]}
        x = w.graph.node("Pad", [x, w.graph.constant(pads, True)], f"{layer.name}/border", mode)
    attrs: dict[str, object] = {
        "kernel_shape": list(ints(layer, "kernel")),
        "strides": list(ints(layer, "stride")),
        "dilations": list(ints(layer, "dilation")),
        "pads": written_pads(ints(layer, "padding")),
        "group": layer.attr("groups"),
    }
    op = "Conv"
    if layer.kind.startswith("conv_transpose"):
        op = "ConvTranspose"
        added = []
        for a, extent in enumerate(w.shape(layer)[1:]):
            reach = (extent - 1) * ints(layer, "stride")[a] + ints(layer, "dilation")[a] * (
                ints(layer, "kernel")[a] - 1
            )
            padding = ints(layer, "padding")
            added.append(layer.shape[1 + a] - (reach + 1 - padding[2 * a] - padding[2 * a + 1]))
        if any(added):
            attrs["output_padding"] = added
    ins = [x, w.weight(layer, "weight")]
    ins += [w.weight(layer, "bias")] if layer.attr("bias") else []
    return w.graph.node(op, ins, f"{layer.name}/sum", attrs)


def _read(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x, w = data(node, ins), constant(node, ins, 1)
    rank = w.ndim - 2
    transposed = node.op_type == "ConvTranspose"
    if rank not in (1, 2, 3) or len(x.shape) != rank + 1:
        raise refused(node, f"it has {rank} dimensions")
    taps = w.shape[2:]
    stride = tuple(attrs.get("strides", [1] * rank))
    dilation = tuple(attrs.get("dilations", [1] * rank))
    groups = int(attrs.get("group", 1))
    reach = tuple((t - 1) * d + 1 for t, d in zip(taps, dilation, strict=True))
    filters = w.shape[1] * groups if transposed else w.shape[0]
    settings: dict[str, Setting] = {"filters": filters, "kernel": numbers(taps, rank)}
    added = tuple(attrs.get("output_padding", [0] * rank))
    if transposed:
        pads = _transposed_pads(node, attrs, x.shape[1:], reach, stride, added)
        out = tuple(
            (e - 1) * s + r + o - pads[2 * a] - pads[2 * a + 1]
            for a, (e, s, r, o) in enumerate(zip(x.shape[1:], stride, reach, added, strict=True))
        )
    else:
        pads = pads_of(node, attrs, x.shape[1:], reach, stride)
        out = windows_in(x.shape[1:], taps, stride, pads, dilation)
    if any(s != 1 for s in stride):
        settings["stride"] = numbers(stride, rank)
    if any(pads):
        settings["padding"] = pads
    if any(d != 1 for d in dilation):
        settings["dilation"] = numbers(dilation, rank)
    if transposed and any(added):
        settings["output_padding"] = numbers(added, rank)
    if groups != 1:
        settings["groups"] = groups
    weights = {"weight": w}
    if len(ins) > 2 and ins[2] is not None:
        weights["bias"] = constant(node, ins, 2)
    else:
        settings["bias"] = False
    kind = f"conv_transpose{rank}d" if transposed else f"conv{rank}d"
    return m.layer(kind, hint_of(node), [x], settings, (filters, *out), weights)


def _transposed_pads(node: Any, attrs: Attrs, extents: Shape, reach: Shape, stride: Shape, added: Shape) -> list[int]:
    """(before, after) for each dimension of a transposed convolution."""
    rank = len(extents)
    wanted = attrs.get("output_shape")
    auto = attrs.get("auto_pad", "NOTSET")
    if wanted is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [e * s for e, s in zip(extents, stride, strict=True)]
    if wanted is None:
        return pads_of(node, attrs, extents, reach, stride)
    out: list[int] = []
    for e, r, s, o, w in zip(extents, reach, stride, added, wanted[-rank:], strict=True):
        total = s * (e - 1) + o + r - w
        if total < 0:
            raise refused(node, "its output is larger than what it computes")
        less, more = total // 2, total - total // 2
        out += [less, more] if auto == "SAME_UPPER" else [more, less]
    return out


CONVS = tuple(_conv_kind(rank) for rank in (1, 2, 3))
TRANSPOSED = tuple(_transposed_kind(rank) for rank in (1, 2, 3))
