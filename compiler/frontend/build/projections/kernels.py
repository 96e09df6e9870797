"""`conv2d` and `avg_pool2d` between populations with a shape: the kernel's layout, and weights shared between
positions.

Assumes: populations have been built.
Guarantees: the target has the output shape of the operation; the weight of a convolution has one value per element of
the kernel in the order (out channel, in channel, row, column), or one for all; that of a pooling is divided by the
window size, so that it computes a mean.
Does not: store anything (Toeplitz, in ir/level2/program.py, defines the connected pairs).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import Span
from compiler.frontend.build.shared.data_files import Header, headers
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.family import Family


def read_planes(rule: str, r: Reader) -> l0.Planes | None:
    """The layout of a validated block; None after an error."""

    def two(key: str) -> tuple[int, int] | None:
        found = r.each(key, 2)
        return None if found is None else (found[0], found[1])

    if rule == "avg_pool2d":
        size = two("size")
        stride = size if r.get("stride") is None else two("stride")
        return None if size is None or stride is None else l0.Planes(size, stride, (0, 0), True, True)
    kernel, padding, stride = two("kernel"), two("padding"), two("stride")
    if kernel is None or padding is None or stride is None:
        return None
    return l0.Planes(kernel, stride, padding, r.flag("depthwise"))


def layout(population: l0.Population) -> tuple[int, int, int] | None:
    """(channels, height, width); None for a population without a two-dimensional layout."""
    match population.shape:
        case (c, h, w):
            return c, h, w
        case (h, w):
            return 1, h, w
    return None


def check_planes(rule: str, planes: l0.Planes, source: str, target: str, at: Span, family: Family) -> bool:
    """Whether two populations have the shapes required by the operation; reports an error if not."""
    populations, sink = family.populations, family.c.sink
    a, b = populations.built[source], populations.built[target]
    places = tuple(Related("declared here", populations.places[p]) for p in dict.fromkeys((source, target)))
    shapes = []
    for population in (a, b):
        found = layout(population)
        if found is None:
            has = f"its shape is {list(population.shape)}" if population.shape else "it has a `size` only"
            message = f"`{rule}` needs populations with a height and a width; `{population.name}` has none: {has}"
            related = (Related("declared here", populations.places[population.name]),)
            sink.error("E0604", message, at, "give it a `shape: [channels, height, width]`", related)
            return False
        shapes.append(found)
    (in_c, in_h, in_w), (out_c, out_h, out_w) = shapes
    made = []
    for name, n, k, p, s in zip(
        ("height", "width"), (in_h, in_w), planes.kernel, planes.padding, planes.stride, strict=True
    ):
        if k > n + 2 * p:
            padded = f" and its padding of {p}" if p else ""
            message = f"the {name} of the kernel, {k}, is larger than that of `{source}`, {n}{padded}"
            sink.error("E0604", message, at, None, places)
            return False
        made.append((n + 2 * p - k) // s + 1)
    per_channel = planes.depthwise or planes.shared
    channels = in_c if per_channel else out_c
    if (out_c, out_h, out_w) == (channels, *made):
        return True
    given = [out_c, out_h, out_w]
    message = f"the `{rule}` of `{source}` has the shape {[channels, *made]}, but `{target}` has {given}"
    sink.error("E0604", message, at, f"write `shape: {[channels, *made]}` in `{target}`", places)
    return False


@dataclass
class Kernels:
    """Weights shared between all positions, checked once per file and layout."""

    _known: dict[tuple[object, ...], tuple[l0.Value, l0.Value | None]] = field(default_factory=dict)

    def weight(self, value: l0.Value, planes: l0.Planes, source: str, target: str, family: Family) -> l0.Value | None:
        """The level-0 weight: the kernel's elements, or one number; None after an error."""
        built = family.populations.built
        a, b = layout(built[source]), layout(built[target])
        if a is None or b is None:
            return None
        kh, kw = planes.kernel
        shape = (a[0], kh, kw) if planes.depthwise else (b[0], a[0], kh, kw)
        key = (id(value), shape)
        if key not in self._known:  # the value is kept alive, so that its id stays unique
            self._known[key] = value, _weight(value, planes, shape, family.c)
        return self._known[key][1]


def _weight(value: l0.Value, planes: l0.Planes, shape: tuple[int, ...], c: Context) -> l0.Value | None:
    words = "(channels, height, width)" if planes.depthwise else "(out channels, in channels, height, width)"
    count = 1
    for n in shape:
        count *= n
    if planes.shared:
        if isinstance(value, l0.Const):
            return replace(value, value=value.value / (planes.kernel[0] * planes.kernel[1]))
        message = "the weight of `avg_pool2d` is one number, which its windows share out"
        c.sink.error("E0802", message, value.span, "use `conv2d` with `depthwise: true` for other weights")
        return None
    match value:
        case l0.Listed(values) if len(values) != count:
            message = f"the kernel has {count:,} numbers, {words} = {list(shape)}; the list has {len(values):,}"
            c.sink.error("E0703", message, value.span)
            return None
        case l0.FromFile(path, array):
            header = _header(path, array)
            if header is not None and header.shape not in (shape, (count,)):
                message = f"the kernel has the shape {list(shape)}, {words}; the array has {list(header.shape)}"
                c.sink.error("E0703", message, value.span)
                return None
    return value


def _header(path: str, array: str | None) -> Header | None:
    """The header of an array; None for formats without one (.csv)."""
    try:
        return headers(Path(path)).get(array or "")
    except (OSError, ValueError):
        return None
