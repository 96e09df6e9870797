"""Shapes and attributes of layers with windows: convolutions, their transposes, pooling, upsampling.

Assumes: build_layers.py.
Guarantees: paddings come out as two numbers per dimension (before, after); every extent is positive.
Does not: say how a layer is computed.
"""

from __future__ import annotations

import re
from typing import Final

from compiler.core.diagnostics import did_you_mean
from compiler.frontend.build.tensors.layers import MOST, Place, Result, Shape, shown
from compiler.frontend.yaml.tree import Sequence
from compiler.frontend.build.shared.values import text_of, whole
from compiler.ir.level0.model import Attr

_AXES = {1: ("long",), 2: ("high", "wide"), 3: ("deep", "high", "wide")}
_READS = {1: "channels and length", 2: "channels, height and width", 3: "channels, depth, height and width"}


def _rank(p: Place) -> int:
    return int(p.kind[-2])


def _image(p: Place, shapes: list[Shape], rank: int) -> Shape | None:
    """The input's channels and extents."""
    if not shapes:
        return None
    if len(shapes[0]) != 1 + rank:
        message = f"a {p.kind} layer reads {_READS[rank]}; `{p.source}` has the shape {shown(shapes[0])}"
        lacks = len(shapes[0]) == rank
        help = f"write its shape as [1, {', '.join(map(str, shapes[0]))}]" if lacks else None
        if len(shapes[0]) == 2 + rank:
            help = f"a shape is that of one sample, without the batch: {list(shapes[0][1:])}"
        p.fail(message, help)
        return None
    return shapes[0]


_PADDING_WORD: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)


def _padding(p: Place, default: str, image: Shape, size: Shape, stride: Shape, dilation: Shape) -> Shape | None:
    """(before, after) per dimension. `same` gives an output of the input's extent divided by the stride, rounded up;
    an odd rest goes to the end, as in TensorFlow."""
    node = p.settings.get("padding")
    rank = len(size)
    text = default if node is None else text_of(node)
    if text == "valid" or (node is None and text != "same"):
        return (0,) * (2 * rank)
    if text == "same":
        edges: list[int] = []
        for axis in range(rank):
            extent = image[1 + axis]
            out = -(-extent // stride[axis])
            reach = (size[axis] - 1) * dilation[axis] + 1
            total = max((out - 1) * stride[axis] + reach - extent, 0)
            edges += [total // 2, total - total // 2]
        return tuple(edges)
    assert node is not None
    if _PADDING_WORD.fullmatch(text) and text not in p.c.names.scope.kinds:
        help = did_you_mean(text, ("same", "valid")) or "write `same`, `valid`, or a number"
        if text == "full":
            full = [(n - 1) * d for n, d in zip(size, dilation, strict=True)]
            help = f"that is `padding: {full[0] if len(set(full)) == 1 else full}` here"
        p.c.sink.error("E0105", f"unknown padding `{text}`", node.span, help)
        return None
    if not isinstance(node, Sequence):
        one = whole(node, p.c, "`padding`", 0, MOST)
        return None if one is None else (one,) * (2 * rank)
    values = p.list("padding")
    if values is None:
        return None
    if len(values) == 2 * rank:
        return values
    if len(values) != rank:
        p.fail(f"`padding` has {len(values)} numbers; give 1, {rank} or {2 * rank}", None, "padding")
        return None
    return tuple(v for v in values for _ in range(2))


def _channels_last(image: Shape) -> str | None:
    """Help with an image whose channels seem to stand last."""
    if not image[-1] < 5 < min(image[:-1]):
        return None
    axes = [len(image) - 1, *range(len(image) - 1)]
    return f"channels come first: if they stand last here, put `- permute: {{axes: {axes}}}` before it"


def _windows(
    p: Place, image: Shape, size: Shape, stride: Shape, dilation: Shape, padding: Shape, key: str, ceil: bool = False
) -> Shape | None:
    """The extents of the output."""
    out: list[int] = []
    for axis, word in enumerate(_AXES[len(size)]):
        extent = image[1 + axis] + padding[2 * axis] + padding[2 * axis + 1]
        reach = (size[axis] - 1) * dilation[axis] + 1
        if reach > extent:
            padded = " with its padding" if any(padding) else ""
            p.fail(
                f"the {'kernel' if key == 'kernel' else 'window'} is {reach} {word}, "
                f"but `{p.source}`{padded} only {extent}",
                _channels_last(image) or ("write `padding: same`" if not any(padding) else None),
                key,
            )
            return None
        whole_ones = (extent - reach) // stride[axis] + 1
        if ceil and (extent - reach) % stride[axis]:
            # One more, unless it would begin in the padding after the input.
            begins = whole_ones * stride[axis]
            whole_ones += begins < image[1 + axis] + padding[2 * axis]
        out.append(whole_ones)
    return tuple(out)


def _grouped(p: Place, channels: int, filters: int, groups: int) -> bool:
    count = f"{channels} channel{'' if channels == 1 else 's'}"
    for what, number in ((f"`{p.source}` has {count}, which", channels), (f"{filters} filters", filters)):
        if number % groups:
            p.fail(f"{what} cannot be split into {groups} groups of one size", None, "groups")
            return False
    return True


def conv(p: Place, shapes: list[Shape]) -> Result:
    rank = _rank(p)
    filters, groups = p.whole("filters"), p.whole("groups", 1)
    kernel, stride, dilation = p.each("kernel", rank, None), p.each("stride", rank, 1), p.each("dilation", rank, 1)
    image = _image(p, shapes, rank)
    if image is None or kernel is None or stride is None or dilation is None:
        return None
    padding = _padding(p, "valid", image, kernel, stride, dilation)
    if padding is None or filters is None or groups is None or not _grouped(p, image[0], filters, groups):
        return None
    extent = _windows(p, image, kernel, stride, dilation, padding, "kernel")
    if extent is None:
        return None
    attrs: dict[str, Attr] = {
        "filters": filters,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "bias": p.flag("bias", True),
    }
    return (filters, *extent), attrs


def conv_transpose(p: Place, shapes: list[Shape]) -> Result:
    rank = _rank(p)
    filters, groups = p.whole("filters"), p.whole("groups", 1)
    kernel, stride, dilation = p.each("kernel", rank, None), p.each("stride", rank, 1), p.each("dilation", rank, 1)
    added = p.each("output_padding", rank, 0, 0)
    image = _image(p, shapes, rank)
    if image is None or kernel is None or stride is None or dilation is None or added is None:
        return None
    padding = _padding(p, "valid", image, kernel, stride, dilation)
    if padding is None or filters is None or groups is None or not _grouped(p, image[0], filters, groups):
        return None
    out: list[int] = []
    for axis, word in enumerate(_AXES[rank]):
        if added[axis] >= max(stride[axis], dilation[axis]):
            message = f"`output_padding` must be smaller than `stride` or `dilation` ({stride[axis]}, {dilation[axis]})"
            p.fail(message, None, "output_padding")
            return None
        reach = (image[1 + axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1 + added[axis]
        left = reach - padding[2 * axis] - padding[2 * axis + 1]
        if left < 1:
            p.fail(f"the output is {reach} {word}; nothing is left of it without the padding", None, "padding")
            return None
        out.append(left)
    attrs: dict[str, Attr] = {
        "filters": filters,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "bias": p.flag("bias", True),
    }
    return (filters, *out), attrs


def pool(p: Place, shapes: list[Shape]) -> Result:
    rank = _rank(p)
    size = p.each("size", rank, None)
    stride = size if p.settings.get("stride") is None else p.each("stride", rank, None)
    image = _image(p, shapes, rank)
    if image is None or size is None or stride is None:
        return None
    padding = _padding(p, "valid", image, size, stride, (1,) * rank)
    if padding is None:
        return None
    if any(max(padding[2 * a : 2 * a + 2]) >= size[a] for a in range(rank)):
        p.fail("a window could lie in the padding as a whole", "a padding is smaller than `size`", "padding")
        return None
    extent = _windows(p, image, size, stride, (1,) * rank, padding, "size", p.flag("ceil", False))
    if extent is None:
        return None
    attrs: dict[str, Attr] = {"size": size, "stride": stride, "padding": padding}
    if p.kind.startswith("avg") and not p.flag("count_padding", True):
        attrs["count_padding"] = False
    return (image[0], *extent), attrs


def global_pool(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    if len(shapes[0]) < 2:
        p.fail(f"a {p.kind} layer reads channels and positions; `{p.source}` has the shape {shown(shapes[0])}")
        return None
    return (shapes[0][0],), {}


def upsample(p: Place, shapes: list[Shape]) -> Result:
    if not shapes:
        return None
    if len(shapes[0]) < 2:
        p.fail(f"an upsample layer reads channels and positions; `{p.source}` has the shape {shown(shapes[0])}")
        return None
    factor = p.each("factor", len(shapes[0]) - 1, None)
    if factor is None:
        return None
    return (shapes[0][0], *(e * f for e, f in zip(shapes[0][1:], factor, strict=True))), {"factor": factor}
