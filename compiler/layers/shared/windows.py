"""Layers with windows: the keys, shapes and index maps that convolutions and pooling share.

Assumes: shapes of (channels, extents...).
Guarantees: paddings of two numbers per dimension (before, after).
Does not: depend on a kind of layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.expr.keys.kinds import Kind, ListOf, OneOf, Value, choice
from compiler.expr.keys.values import COUNT, POSITIVE
from compiler.ir.space import Affine
from compiler.layers.shared.context import ints
from compiler.layers.shared.kind import Misfit, Place, Shape, shown
from compiler.layers.shared.onnx.importer import Setting, refused
from compiler.layers.shared.onnx.inputs import Attrs

FORMS = {
    1: "[before, after]",
    2: "[height, width] or [top, bottom, left, right]",
    3: "[depth, height, width] or two numbers for each of them",
}
"""Of a padding, by number of dimensions."""
DIMENSIONS = {1: "length", 2: "height, width", 3: "depth, height, width"}


def extent(rank: int) -> Kind:
    """One number for all dimensions, or one for each."""
    if rank == 1:
        return POSITIVE
    return OneOf((POSITIVE, ListOf(POSITIVE, low=rank, high=rank, example=f"[{', '.join(['3'] * rank)}]")))


_SAME_OR_VALID = choice(
    "padding", same="As much as keeps the extents (divided by the stride, rounded up).", valid="None."
)


def padding(rank: int, words: bool = True) -> Kind:
    """`same`, `valid`, a number, one per dimension, or two (before and after) per dimension."""
    numbers = ListOf(COUNT, low=rank if rank > 1 else 2, high=2 * rank, example=f"[{', '.join(['1'] * max(rank, 2))}]")
    one = Value("a whole number", "1", integer=True, low=0)
    return OneOf((_SAME_OR_VALID, one, numbers)) if words else OneOf((one, numbers))


def padding_doc(rank: int, what: str) -> str:
    """Documentation of the forms of a padding."""
    return f"{what}: `same`, `valid` (none), a number, or {FORMS[rank]}."


def one_or(several: Kind) -> Kind:
    return OneOf((COUNT, several))


# ------------------------------------------------------------------------------------------- shapes

AXES: Final = {1: ("long",), 2: ("high", "wide"), 3: ("deep", "high", "wide")}
_READS: Final = {1: "channels and length", 2: "channels, height and width", 3: "channels, depth, height and width"}


def image(p: Place, x: Shape, rank: int) -> Shape:
    """`x`, checked to have channels and `rank` extents. Raises Misfit."""
    if len(x) != 1 + rank:
        message = f"a {p.kind} layer reads {_READS[rank]}; `{p.source}` has the shape {shown(x)}"
        help = f"write its shape as [1, {', '.join(map(str, x))}]" if len(x) == rank else None
        if len(x) == 2 + rank:
            help = f"a shape is that of one sample, without the batch: {list(x[1:])}"
        raise Misfit(message, help)
    return x


def sides(p: Place, x: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape:
    """`padding` as (before, after) per dimension. `same` gives an output of the input's extent divided by the stride,
    rounded up; the odd element is added at the end, as in TensorFlow. Raises Misfit."""
    given, rank = p.values["padding"], len(size)
    if given == "valid":
        return (0,) * (2 * rank)
    if given == "same":
        edges: list[int] = []
        for axis in range(rank):
            extent = x[1 + axis]
            out = -(-extent // stride[axis])
            reach = (size[axis] - 1) * dilation[axis] + 1
            total = max((out - 1) * stride[axis] + reach - extent, 0)
            edges += [total // 2, total - total // 2]
        return tuple(edges)
    if isinstance(given, str):
        help = did_you_mean(given, ("same", "valid")) or "write `same`, `valid`, or a number"
        if given == "full":
            full = [(n - 1) * d for n, d in zip(size, dilation, strict=True)]
            help = f"that is `padding: {full[0] if len(set(full)) == 1 else full}` here"
        if given == "causal" and rank == 1:
            help = f"that is `padding: [{(size[0] - 1) * dilation[0]}, 0]` here"
        raise Misfit(f"unknown padding `{given}`", help, "padding", "E0105")
    if not isinstance(given, tuple):
        return (p.integer("padding"),) * (2 * rank)
    if len(given) == 2 * rank:
        return given
    if len(given) != rank:
        raise Misfit(f"`padding` has {len(given)} numbers; give 1, {rank} or {2 * rank}", None, "padding")
    return tuple(v for v in given for _ in range(2))


def _channels_last(x: Shape) -> str | None:
    """Help with an image that appears to be channels-last."""
    if not x[-1] < 5 < min(x[:-1]):
        return None
    axes = [len(x) - 1, *range(len(x) - 1)]
    return f"channels come first: if they stand last here, put `- permute: {{axes: {axes}}}` before it"


def window_extents(p: Place, x: Shape, attrs: dict[str, l0.Attr], key: str, ceil: bool = False) -> Shape:
    """The extents of the output; `key`: the attribute with the window's size. Raises Misfit."""
    size, stride, padding = (_tuple(attrs[name]) for name in (key, "stride", "padding"))
    dilation = _tuple(attrs.get("dilation", (1,) * len(size)))
    for axis, word in enumerate(AXES[len(size)]):
        extent = x[1 + axis] + padding[2 * axis] + padding[2 * axis + 1]
        reach = (size[axis] - 1) * dilation[axis] + 1
        if reach > extent:
            padded = " with its padding" if any(padding) else ""
            raise Misfit(
                f"the {'kernel' if key == 'kernel' else 'window'} is {reach} {word}, "
                f"but `{p.source}`{padded} only {extent}",
                _channels_last(x) or ("write `padding: same`" if not any(padding) else None),
                key,
            )
    return windows_in(x[1:], size, stride, padding, dilation, ceil)


def windows_in(
    extents: Shape, size: Shape, stride: Shape, padding: Sequence[int], dilation: Shape, ceil: bool = False
) -> Shape:
    """How many windows there are in each dimension. `ceil`: the last one may reach over the end."""
    out: list[int] = []
    for a, extent in enumerate(extents):
        room = extent + padding[2 * a] + padding[2 * a + 1] - (size[a] - 1) * dilation[a] - 1
        count = room // stride[a] + 1
        # One more, unless it would start in the padding after the input.
        over = ceil and room % stride[a] != 0 and count * stride[a] < extent + padding[2 * a]
        out.append(count + over)
    return tuple(out)


def _tuple(value: l0.Attr) -> Shape:
    assert isinstance(value, tuple)
    return value


# ----------------------------------------------------------------------------------------- lowering

SPATIAL = {1: (("ow", "s"),), 2: (("oh", "r"), ("ow", "s")), 3: (("od", "q"), ("oh", "r"), ("ow", "s"))}
"""Output and window dims by number of dimensions."""


def index(layer: l0.Layer, pairs: tuple[tuple[str, str], ...], dilation: tuple[int, ...]) -> tuple[Affine, ...]:
    """position = output * stride + tap * dilation - padding, per dimension."""
    stride, padding = ints(layer, "stride"), ints(layer, "padding")
    return tuple(Affine(((o, stride[a]), (w, dilation[a])), -padding[2 * a]) for a, (o, w) in enumerate(pairs))


# --------------------------------------------------------------------------------------------- ONNX


def written_pads(padding: tuple[int, ...]) -> list[int]:
    """(before, after) per dimension -> all before, then all after."""
    return [*padding[0::2], *padding[1::2]]


def pads_of(node: Any, attrs: Attrs, extents: Shape, reach: Shape, stride: Shape) -> list[int]:
    """(before, after) for each dimension."""
    auto, rank = attrs.get("auto_pad", "NOTSET"), len(extents)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        out: list[int] = []
        for e, r, s in zip(extents, reach, stride, strict=True):
            total = max((-(-e // s) - 1) * s + r - e, 0)
            less = total // 2
            out += [less, total - less] if auto == "SAME_UPPER" else [total - less, less]
        return out
    given = [0] * (2 * rank) if auto == "VALID" else list(attrs.get("pads", [0] * (2 * rank)))
    if min(given, default=0) < 0:
        raise refused(node, "a padding is negative")
    return [p for a in range(rank) for p in (given[a], given[rank + a])]


def numbers(values: Any, rank: int) -> Setting:
    """One number for one dimension, a list for several."""
    listed = [int(v) for v in values]
    return listed[0] if rank == 1 else listed
