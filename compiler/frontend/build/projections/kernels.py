"""`conv2d` and `avg_pool2d` between populations with a shape: weights shared between positions.

Assumes: populations have been built; their shapes fit (compiler/connect/convolution.py).
Guarantees: the weight of a convolution has one value per element of the kernel in the order (out channel, in channel,
row, column), or one for all; that of a pooling is divided by the window size, so that it computes a mean.
Does not: store anything (Toeplitz, in ir/level2/program.py, defines the connected pairs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
from compiler.connect.convolution import layout
from compiler.frontend.build.projections.given_values import header_of
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.build.synapses.use import Settings


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


def settings_of_kernel(own: Settings, element: Callable[[l0.Value], l0.Value | None]) -> Settings | None:
    """Parameters and states of a convolution, of which lists and arrays are those of the kernel's `element`s; None
    after an error."""
    out: list[tuple[tuple[str, l0.Value], ...]] = []
    for part in own:
        values: list[tuple[str, l0.Value]] = []
        for name, value in part:
            whole = element(value) if isinstance(value, l0.Listed | l0.FromFile) else value
            if whole is None:
                return None
            values.append((name, whole))
        out.append(tuple(values))
    return out[0], out[1]


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
            header = header_of(path, array)
            if header is not None and header.shape not in (shape, (count,)):
                message = f"the kernel has the shape {list(shape)}, {words}; the array has {list(header.shape)}"
                c.sink.error("E0703", message, value.span)
                return None
    return value
