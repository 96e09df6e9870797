"""Rules that apply a kernel at every position: `conv2d` and `avg_pool2d`, between populations with a shape.

Guarantees: one place for the arithmetic of Toeplitz (compiler/ir/level2/program.py) on the host, and for its stored
rows: sources ascending, in each row targets ascending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import compiler.ir.level0.model as l0
from compiler.connect.keys import rule, two
from compiler.connect.rule import Args, ConnectRule, Ends, Form, Misfit, Neurons, Place, Rows, Setting, pair
from compiler.expr.keys.kinds import instead, switch
from compiler.expr.keys.values import COUNT, POSITIVE

# ------------------------------------------------------------------------------------------ shapes


def layout(population: Neurons) -> tuple[int, int, int] | None:
    """(channels, height, width); None for a population without a two-dimensional layout."""
    match population.shape:
        case (c, h, w):
            return c, h, w
        case (h, w):
            return 1, h, w
    return None


def _fitting(name: str) -> Callable[[Place], Args | None]:
    """No arguments, where the target has the shape of the operation's output."""

    def arguments(p: Place) -> Args | None:
        assert p.planes is not None
        out = _output(name, p, p.planes)
        found = layout(p.target)
        assert found is not None
        given = list(found)
        if given != out:
            message = f"the `{name}` of `{p.source.name}` has the shape {out}, but `{p.target.name}` has {given}"
            raise Misfit("E0604", message, f"write `shape: {out}` in `{p.target.name}`", None, (p.source, p.target))
        return ()

    return arguments


def _output(name: str, p: Place, planes: l0.Planes) -> list[int]:
    """The shape of the operation's output."""
    shapes = []
    for population in (p.source, p.target):
        found = layout(population)
        if found is None:
            has = f"its shape is {list(population.shape)}" if population.shape else "it has a `size` only"
            message = f"`{name}` needs populations with a height and a width; `{population.name}` has none: {has}"
            raise Misfit("E0604", message, "give it a `shape: [channels, height, width]`", None, (population,))
        shapes.append(found)
    (in_c, *sides), (out_c, _, _) = shapes
    out = [in_c if planes.depthwise or planes.shared else out_c]
    for what, n, k, pad, s in zip(
        ("height", "width"), sides, planes.kernel, planes.padding, planes.stride, strict=True
    ):
        if k > n + 2 * pad:
            padded = f" and its padding of {pad}" if pad else ""
            message = f"the {what} of the kernel, {k}, is larger than that of `{p.source.name}`, {n}{padded}"
            raise Misfit("E0604", message, None, None, (p.source, p.target))
        out.append((n + 2 * pad - k) // s + 1)
    return out


# ------------------------------------------------------------------------------------------ connections


@dataclass(frozen=True)
class Extents:
    """The parameters of a convolution between two populations; (height, width) in pairs."""

    in_c: int
    in_h: int
    in_w: int
    out_c: int
    out_h: int
    out_w: int
    pad_h: int
    pad_w: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    depthwise: bool = False
    shared: bool = False

    @property
    def elements(self) -> int:
        """How many elements the kernel has."""
        window = self.kernel[0] * self.kernel[1]
        return window if self.shared else self.in_c * window * (1 if self.depthwise else self.out_c)


def _shape(population: Neurons) -> tuple[int, int, int]:
    """(channels, height, width) of a population: leading extents that are not given are 1."""
    shape = population.shape or (population.size,)
    c, h, w = (1,) * (3 - len(shape)) + tuple(shape)
    return c, h, w


def planes_of(e: Ends) -> Extents:
    """The extents of one member of a conv2d or avg_pool2d family."""
    planes = e.projection.planes
    assert planes is not None
    return Extents(
        *_shape(e.pre),
        *_shape(e.post),
        *planes.padding,
        planes.kernel,
        planes.stride,
        planes.depthwise or planes.shared,
        planes.shared,
    )


def _rows(e: Ends) -> Rows:
    """The values are the elements of the kernel."""
    at = planes_of(e)
    (kh, kw), (sh, sw) = at.kernel, at.stride
    c, y, x = (a.reshape(-1) for a in np.indices((at.in_c, at.in_h, at.in_w)))
    source = np.arange(len(c))
    pres, posts, kinds = [], [], []
    for ky in range(kh):
        for kx in range(kw):
            up, left = y + at.pad_h - ky, x + at.pad_w - kx
            inside = (up % sh == 0) & (left % sw == 0) & (up >= 0) & (left >= 0)
            inside &= (up // sh < at.out_h) & (left // sw < at.out_w)
            i, place = source[inside], (up // sh * at.out_w + left // sw)[inside]
            here = ky * kw + kx
            for o in [None] if at.depthwise else range(at.out_c):
                channel = c[inside] if o is None else np.full(len(i), o)
                pres.append(i)
                posts.append(channel * (at.out_h * at.out_w) + place)
                if at.shared:
                    kinds.append(np.full(len(i), here))
                elif o is None:
                    kinds.append(c[inside] * kh * kw + here)
                else:
                    kinds.append((o * at.in_c + c[inside]) * kh * kw + here)
    pre, post, kind = (np.concatenate(parts) for parts in (pres, posts, kinds))
    order = np.lexsort((post, pre))
    row = np.zeros(len(source) + 1, np.int64)
    row[1:] = np.cumsum(np.bincount(pre, minlength=len(source)))
    return Rows(row, post[order].astype(np.int32), at.elements, kind[order])


def overlaps(before: int, behind: int, kernel: int, stride: int, padding: int) -> int:
    """Pairs of an input and an output position that a convolution connects, along one axis; the time depends on the
    kernel, not on the extents."""
    behind = min(behind, -(-(before + padding) // stride))  # no position is reached from here on
    # positions whose kernel lies entirely inside, then those at both borders
    low = min(-(-padding // stride), behind)
    outside = min((padding - kernel) // stride, low) if padding >= kernel else 0  # these lie entirely in the padding
    high = max(min((before + padding - kernel) // stride + 1, behind), low)
    starts = [place * stride - padding for place in (*range(outside, low), *range(high, behind))]
    border: int = sum(max(min(at + kernel, before) - max(at, 0), 0) for at in starts)
    return kernel * (high - low) + border


def _count(e: Ends) -> float:
    at = planes_of(e)
    rows = overlaps(at.in_h, at.out_h, at.kernel[0], at.stride[0], at.pad_h)
    columns = overlaps(at.in_w, at.out_w, at.kernel[1], at.stride[1], at.pad_w)
    return (at.in_c if at.depthwise else at.in_c * at.out_c) * rows * columns


# ------------------------------------------------------------------------------------------ the rules


def _kernel(settings: Mapping[str, Setting]) -> l0.Planes:
    kernel, stride, padding = (pair(settings, key) for key in ("kernel", "stride", "padding"))
    return l0.Planes(kernel, stride, padding, bool(settings["depthwise"]))


def _window(settings: Mapping[str, Setting]) -> l0.Planes:
    size = pair(settings, "size")
    return l0.Planes(size, pair(settings, "stride") if "stride" in settings else size, (0, 0), True, True)


CONV2D = ConnectRule(
    rule(
        "conv2d",
        "A convolution between populations with a `shape`. The weight is a kernel that all positions share: one "
        "number, or an array (out channels, in channels, height, width) in a file, or its numbers as a list.",
        two("kernel", POSITIVE, "The kernel's height and width.", None, "kernel: [3, 3]", "[3, 3]"),
        two("padding", COUNT, "Rows and columns of zeros around the source.", 0, "padding: 1", "[3, 3]"),
        two("stride", POSITIVE, "The step of the kernel, down and to the right.", 1, "stride: 2", "[3, 3]"),
        switch("depthwise", "Whether each channel has a kernel of its own and reaches that channel only."),
        title="connect_conv2d",
        elsewhere={"size": "`kernel`", "kernel_size": "`kernel`", "strides": "`stride`", "pad": "`padding`"},
    ),
    Form.WINDOWS,
    _count,
    _fitting("conv2d"),
    planes=_kernel,
    rows=_rows,
    synonyms=instead(
        "`conv2d: {kernel: ...}`: conv convolution", "`conv2d: {kernel: ..., storage: toeplitz}`: toeplitz"
    ),
)

AVG_POOL2D = ConnectRule(
    rule(
        "avg_pool2d",
        "The mean over windows, channel by channel, between populations with a `shape`: each connection has the "
        "weight divided by the number of neurons in the window.",
        two("size", POSITIVE, "The window's height and width.", None, "size: 2", "[3, 3]"),
        two(
            "stride",
            POSITIVE,
            "The step of the window; without it, its size.",
            None,
            "stride: 2",
            "[2, 2]",
            required=False,
        ),
        title="connect_avg_pool2d",
        elsewhere={"kernel": "`size`", "kernel_size": "`size`", "window": "`size`", "strides": "`stride`"},
    ),
    Form.WINDOWS,
    _count,
    _fitting("avg_pool2d"),
    planes=_window,
    rows=_rows,
)
