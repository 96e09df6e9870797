"""Random networks of convolutions, pools, joins and slices, large enough for the strategies of a target, drawn from a
seed."""

from __future__ import annotations

import random
from math import prod

import numpy as np

from tests.property.random_graphs import Graph, Shape, trained_model
from tests.property.random_layers import ACTIVATIONS

INPUTS = (
    *((3, 12, 14), (8, 9, 11), (16, 8, 8), (4, 17, 6), (24, 5, 7), (1, 20, 9), (32, 4, 4)),
    *((8, 30), (12, 25)),
    (40,),
    *((3, 5, 6, 7), (8, 4, 5, 5), (16, 3, 4, 4)),
)
VOLUMES = ((1, 1, 1), (3, 3, 3), (3, 3, 3), (2, 3, 2), (1, 3, 3), (3, 1, 1), (4, 2, 1))
KERNELS = ((1, 1), (3, 3), (3, 3), (5, 5), (2, 3), (7, 7), (1, 3), (3, 1), (4, 4))
MODES = ("", ", mode: reflect", ", mode: replicate", ", mode: circular")
MOST_OUTPUTS, MOST_PRODUCTS, MOST_JOINED = 20_000, 3_000_000, 64


def convolutions_model(seed: int) -> tuple[str, dict[str, np.ndarray], int]:
    """The text of a model, what `data.npz` beside it holds, and samples of a batch; there are data for two, and three
    samples more."""
    rng = random.Random(f"convolutions {seed}")
    shape = rng.choice(INPUTS)
    found = _Convolutions(rng, {"x": shape})
    for _ in range(rng.randint(3, 9)):
        found.grow()
    end = found.end()
    batch, precision = rng.choice((16, 16, 6, 1, 8, 3)), rng.choice(("float64", "float64", "float32"))
    numbers, samples = np.random.default_rng(seed), 2 * batch + 3
    name, layers = f"convolutions_{seed}", [*found.layers, end]
    text = trained_model(name, shape, layers, 0.05, batch, rng, f"precision: {precision}")
    made = {n: numbers.normal(size=(samples, *s)).astype(np.float32) for n, s in (("x", shape), ("y", (3,)))}
    return text, made, batch


class _Convolutions(Graph):
    """`Graph` with convolutions of all kinds, and what changes the extents of images."""

    most_joined = MOST_JOINED

    def grow(self) -> None:
        """One more layer; of what others have read, too."""
        last = list(self.shapes)[-1]
        name = self.rng.choice([*self.shapes, *self.unread, last, last])
        ways = [self._slice, self._join, self._join, self._sum, self._map, self._map, self._shape]
        ways += [*[self._weights] * 2, *[self._conv] * 3, self._pool]
        while not self.rng.choice(ways)(name, self.shapes[name]):
            pass

    def _weights(self, name: str, shape: Shape) -> bool:
        if len(shape) > 2:
            return self._conv(name, shape)
        units = self.rng.choice((3, 8, 16, 17, 32, 50))
        self.add("dense", (name,), (*shape[:-1], units), f"units: {units}{self._activation(0.6)}")
        return True

    def _activation(self, share: float) -> str:
        return f", activation: {self.rng.choice(ACTIVATIONS)}" if self.rng.random() < share else ""

    def _end(self) -> str:
        return self._activation(0.5) + self.rng.choice(("", ", bias: false"))

    def _grouped(self, filters: int, channels: int) -> tuple[int, int]:
        """(filters, groups)."""
        if self.rng.random() >= 0.3:
            return filters, 1
        groups = self.rng.choice([n for n in (2, 4, channels) if channels % n == 0] or [1])
        return max(groups, filters // groups * groups), groups

    def _conv(self, name: str, shape: Shape) -> bool:
        if len(shape) == 2:
            return self._signal(name, shape)
        if len(shape) > 2:
            return self._transposed(name, shape) if self.rng.random() < 0.2 else self._image(name, shape)
        return False

    def _signal(self, name: str, shape: Shape) -> bool:
        rng, (channels, length) = self.rng, shape
        taps, gap, step = rng.choice((1, 2, 3, 5)), rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
        pad = rng.choice((0, (taps - 1) * gap // 2, 1))
        out = (length + 2 * pad - gap * (taps - 1) - 1) // step + 1
        if out < 1:
            return False
        filters, groups = self._grouped(rng.choice((4, 8, 9, 16, 24)), channels)
        settings = f"filters: {filters}, kernel: {taps}, dilation: {gap}, stride: {step}, padding: {pad}"
        self.add("conv1d", (name,), (filters, out), f"{settings}, groups: {groups}{self._end()}")
        return True

    def _transposed(self, name: str, shape: Shape) -> bool:
        rng = self.rng
        taps, step = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3))
        pad, filters = rng.choice((0, 1)) if taps > 1 else 0, rng.choice((2, 4, 8, 12))
        out = [(n - 1) * step + taps - 2 * pad for n in shape[1:]]
        if max(out) > 40 or min(out) < 1 or filters * prod(out) > MOST_OUTPUTS:
            return False
        settings = f"filters: {filters}, kernel: {taps}, stride: {step}, padding: {pad}{self._end()}"
        self.add(f"conv_transpose{len(shape) - 1}d", (name,), (filters, *out), settings)
        return True

    def _image(self, name: str, shape: Shape) -> bool:
        rng, channels, rank = self.rng, shape[0], len(shape) - 1
        taps, steps = rng.choice({2: KERNELS, 3: VOLUMES}[rank]), rng.choice(((1, 1), (1, 1), (2, 2), (1, 2)))
        steps = (*steps, rng.choice((1, 2)))[:rank]
        gap, pad = rng.choice((1, 1, 1, 2)), rng.choice((0, 1, 2, taps[0] // 2))
        sides = zip(shape[1:], taps, steps, strict=True)
        out = [(n + 2 * pad - gap * (t - 1) - 1) // step + 1 for n, t, step in sides]
        if min(out) < 1:
            return False
        filters, groups = self._grouped(rng.choice((3, 4, 8, 10, 16, 24, 32)), channels)
        products = filters * channels // groups * prod(taps) * prod(out)
        if filters * prod(out) > MOST_OUTPUTS or products > MOST_PRODUCTS:
            return False
        settings = f"filters: {filters}, kernel: {list(taps)}, stride: {list(steps)}, dilation: {gap}, padding: {pad}"
        self.add(f"conv{rank}d", (name,), (filters, *out), f"{settings}, groups: {groups}{self._end()}")
        return True

    def _pool(self, name: str, shape: Shape) -> bool:
        if len(shape) < 3:
            return False
        return self.rng.choice((self._pooled, self._pooled, self._larger, self._padded, self._global))(name, shape)

    def _pooled(self, name: str, shape: Shape) -> bool:
        size, step = self.rng.choice((2, 3)), self.rng.choice((1, 2))
        out = [(n - size) // step + 1 for n in shape[1:]]
        if min(out) < 1:
            return False
        kind = self.rng.choice(("max", "avg"))
        self.add(f"{kind}_pool{len(shape) - 1}d", (name,), (shape[0], *out), f"size: {size}, stride: {step}")
        return True

    def _larger(self, name: str, shape: Shape) -> bool:
        if prod(shape) << len(shape) - 1 > MOST_OUTPUTS // 2:
            return False
        self.add("upsample", (name,), (shape[0], *(2 * n for n in shape[1:])), "factor: 2")
        return True

    def _padded(self, name: str, shape: Shape) -> bool:
        before, after = ([0, *(self.rng.randint(0, 2) for _ in shape[1:])] for _ in range(2))
        if any(max(a, b) >= n for a, b, n in zip(before, after, shape, strict=True)):
            return False
        out = tuple(a + n + b for a, n, b in zip(before, shape, after, strict=True))
        self.add("pad", (name,), out, f"before: {before}, after: {after}{self.rng.choice(MODES)}")
        return True

    def _global(self, name: str, shape: Shape) -> bool:
        self.add(self.rng.choice(("global_avg_pool", "global_max_pool")), (name,), shape[:1])
        return True
