"""Volumes as images, so that what computes convolutions of images computes those over depth, too.

A window over depth, rows and columns sees a plane of the volume for each of its taps along depth. So for each plane of
the output the planes that it sees are channels of an image, and these images lie one below the other, with rows of
zeros between them, wide enough that no window which counts sees two of them. Rows of the result at which a window
begins between two planes are left out.

Assumes: weights (groups, outputs, inputs, depth, rows, columns), or (groups, inputs, outputs, ...) of a transposed one.
Guarantees: a volume is copied once for each tap along depth, with at most one window's border of rows more; where
planes neither overlap nor have a border, it is not copied. Sums run over the taps along depth, in each over the inputs.
Does not: share copies between layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.ir.space import Affine
from compiler.layers.shared.context import X0, Context, ints, moved, reshape
from compiler.layers.shared.windows import SPATIAL, index


@dataclass(frozen=True)
class Volume:
    """`seen`, `out`: depth, rows and columns of what a window is moved over, and its positions; `at`: what each tap
    along depth sees from position p is plane step * (p + first) + second; `pitch`: rows of the image from one plane to
    the next, a multiple of the step along rows."""

    seen: tuple[int, ...]
    out: tuple[int, ...]
    step: tuple[int, ...]
    at: tuple[tuple[int, int], ...]
    pitch: int

    @staticmethod
    def of(layer: l0.Layer, seen: tuple[int, ...], out: tuple[int, ...]) -> Volume:
        taps, step, apart, edges = (ints(layer, key) for key in ("kernel", "stride", "dilation", "padding"))
        before, last = edges[2], (out[1] - 1) * step[1] - edges[2] + (taps[1] - 1) * apart[1]
        rows = max(seen[1] + max(before, last + 1 - seen[1]), out[1] * step[1])
        at = tuple(divmod(q * apart[0] - edges[0], step[0]) for q in range(taps[0]))
        return Volume(seen, out, step, at, -(-rows // step[1]) * step[1])

    @property
    def planes(self) -> int:
        """Of the volume that is seen, in whole steps."""
        return -(-self.seen[0] // self.step[0]) * self.step[0]

    @property
    def image(self) -> tuple[int, int]:
        """Rows and columns of the image."""
        return self.out[0] * self.pitch, self.seen[2]

    @property
    def positions(self) -> tuple[int, int]:
        """Of the window in the image, between planes, too."""
        return self.out[0] * (self.pitch // self.step[1]), self.out[2]

    def walk(self, layer: l0.Layer) -> tuple[Affine, ...]:
        """The places of the window in the image."""
        _, rows, cols = index(layer, SPATIAL[3], ints(layer, "dilation"))
        return rows, cols

    # ------------------------------------------------------------------------------------------ convolutions

    def stacked(self, c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
        """The image of a volume (batch, groups, channels, ...)."""
        outer, inner, (depth, high, wide) = x.shape[:-4], x.shape[-4], self.seen
        x = reshape(c, f"{layer.name}.pixels", x, (*outer, inner, depth, high * wide), layer)
        if self.planes > depth:
            shape = (*outer, inner, self.planes, high * wide)
            x = moved(c, f"{layer.name}.planes", [(x, (0,) * len(shape))], shape, 0.0, layer)
        if (self.at, self.step[0], self.out[0], self.pitch) != (((0, 0),), 1, depth, high):
            x = reshape(c, f"{layer.name}.steps", x, (*outer, inner, *self._in_steps), layer)
            parts = [(x, (*(0 for _ in outer), q * inner, *self._first(q, -1), 0)) for q in range(len(self.at))]
            one = (1,) * (len(self._in_steps) - 2)
            shape = (*outer, len(self.at) * inner, self.out[0], *one, self.pitch * wide)
            x = moved(c, f"{layer.name}.stacked", parts, shape, 0.0, layer)
        return reshape(c, f"{layer.name}.image", x, (*outer, len(self.at) * inner, *self.image), layer)

    def apart(self, c: Context, layer: l0.Layer, y: l1.Tensor, filters: int) -> l1.Tensor:
        """The elements of the volume (batch, filters, ...) of the image that a convolution makes."""
        rows, (depth, high, wide) = self.pitch // self.step[1], self.out
        if rows > high:
            y = reshape(c, f"{layer.name}.sum.planes", y, (y.shape[0], filters, depth, rows * wide), layer)
            y = moved(c, f"{layer.name}.sum.pixels", [(y, (0,) * 4)], (*y.shape[:3], high * wide), 0.0, layer)
        return y

    # ----------------------------------------------------------------------------------- transposed convolutions

    def spread(self, c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
        """The image whose places a transposed window scatters, of a volume (batch, groups, channels, ...)."""
        rows, outer, (depth, high, wide) = self.pitch // self.step[1], x.shape[:-3], self.out
        if rows > high:
            x = reshape(c, f"{layer.name}.pixels", x, (*outer, depth, high * wide), layer)
            shape = (*outer, depth, rows * wide)
            x = moved(c, f"{layer.name}.planes", [(x, (0,) * len(shape))], shape, 0.0, layer)
        return reshape(c, f"{layer.name}.image", x, (*outer, *self.positions), layer)

    def added(self, c: Context, layer: l0.Layer, y: l1.Tensor, filters: int) -> l1.Tensor:
        """The elements of the volume (batch, filters, ...) of an image (batch, groups, taps along depth and filters of
        a group, ...): planes of all taps are added where they belong."""
        outer, own, (depth, high, wide) = y.shape[:-3], y.shape[-3] // len(self.at), self.seen
        one = (1,) * (len(self._in_steps) - 2)
        y = reshape(c, f"{layer.name}.steps", y, (*y.shape[:-2], self.out[0], *one, self.pitch * wide), layer)
        parts = [(y, (*(0 for _ in outer), -q * own, *self._first(q, 1), 0)) for q in range(len(self.at))]
        y = moved(c, f"{layer.name}.added", parts, (*outer, own, *self._in_steps), 0.0, layer)
        if self.planes > depth:
            y = reshape(c, f"{layer.name}.sum.planes", y, (y.shape[0], filters, self.planes, high * wide), layer)
            y = moved(c, f"{layer.name}.sum.pixels", [(y, (0,) * 4)], (*y.shape[:2], depth, high * wide), 0.0, layer)
        return y

    # ---------------------------------------------------------------------------------------------------- both

    def weights(self, c: Context, layer: l0.Layer, w: l1.Tensor, first: int) -> l1.Tensor:
        """Weights (..., depth, rows, columns), whose taps along depth become one axis with axis `first`."""
        depth = len(w.shape) - 3
        order = [*range(first), depth, *range(first, depth), depth + 1, depth + 2]
        shape = tuple(w.shape[a] for a in order)
        if len(self.at) > 1:
            place, like = tuple(order.index(a) for a in range(len(order))), l1.Tensor("", shape)
            w = c.graph.map(f"{layer.name}.weight.planes", X0, ((w, place),), like=like, span=layer.span)
        shape = (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])
        return reshape(c, f"{layer.name}.weight.image", w, shape, layer)

    @property
    def _in_steps(self) -> tuple[int, ...]:
        """The planes that are seen, those of a step along an axis of their own, and pixels of a plane."""
        pixels = self.seen[1] * self.seen[2]
        return (self.planes, pixels) if self.step[0] == 1 else (self.planes // self.step[0], self.step[0], pixels)

    def _first(self, tap: int, sign: int) -> tuple[int, ...]:
        """The offset of what a tap sees, along the axes of planes."""
        position, plane = self.at[tap]
        return (sign * position,) if self.step[0] == 1 else (sign * position, sign * plane)
