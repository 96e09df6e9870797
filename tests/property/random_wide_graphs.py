"""Random networks with what random_graphs.py leaves out: products of two layers, attention with shared keys, elements
of the input around it, gates, reductions, shared and frozen weights, transposed convolutions, interpolation, repeated
blocks with skip connections, and groups of weights that take turns."""

from __future__ import annotations

import random
from math import prod

from tests.property.random_graphs import BATCH, INPUTS, Graph, Shape, trained_model

MODES = ("reflect", "replicate", "circular")


class WideGraph(Graph):
    most = 500
    """Elements of a layer."""

    def __init__(self, rng: random.Random, shapes: dict[str, Shape]) -> None:
        super().__init__(rng, shapes)
        self.dense: dict[str, tuple[int, int]] = {}
        """Features in and out of dense layers that have weights of their own."""

    def grow(self) -> None:
        if self.rng.random() < 0.4:
            super().grow()
            return
        name = self.rng.choice([*self.shapes, *self.unread, list(self.shapes)[-1]])
        ways = [
            self._product,
            self._attention,
            self._pad,
            self._gate,
            self._reduce,
            self._shared,
            self._image,
            self._block,
        ]
        self.rng.shuffle(ways)
        if not any(way(name, self.shapes[name]) for way in ways):
            super().grow()

    def _product(self, name: str, shape: Shape) -> bool:
        if len(shape) < 2:
            return False
        found: list[tuple[str, str, Shape]] = []
        for other, second in self.shapes.items():
            if len(second) != len(shape) or second[:-2] != shape[:-2]:
                continue
            for how in ("none", "first", "second", "both"):
                a = shape[:-3:-1] if how in ("first", "both") else shape[-2:]
                b = second[:-3:-1] if how in ("second", "both") else second[-2:]
                if a[1] == b[0] and prod(shape[:-2]) * a[0] * b[1] <= self.most:
                    found.append((other, how, (*shape[:-2], a[0], b[1])))
        if not found:
            return False
        other, how, made = self.rng.choice(found)
        self.add("matmul", (name, other), made, f"transposed: {how}")
        return True

    def _attention(self, name: str, shape: Shape) -> bool:
        if len(shape) != 2:
            return False
        heads = self.rng.choice((2, 4))
        keys = f", kv_heads: {self.rng.choice([k for k in (1, 2, 4) if heads % k == 0])}"
        causal = self.rng.choice(("", ", causal: true"))
        self.add("attention", (name,), shape, f"heads: {heads}, size: {2 * heads}{keys}{causal}")
        return True

    def _pad(self, name: str, shape: Shape) -> bool:
        mode = self.rng.choice((*MODES, "constant, value: 0.5"))
        before, after = ([self.rng.randint(0, min(2, n - 1)) for n in shape] for _ in range(2))
        made = tuple(n + b + a for n, b, a in zip(shape, before, after, strict=True))
        if made == shape or prod(made) > self.most:
            return False
        self.add("pad", (name,), made, f"before: {before}, after: {after}, mode: {mode}")
        return True

    def _gate(self, name: str, shape: Shape) -> bool:
        axes = [a for a, n in enumerate(shape) if n % 2 == 0]
        if not axes:
            return False
        axis = self.rng.choice(axes)
        made = tuple(n // 2 if a == axis else n for a, n in enumerate(shape))
        function, gate = self.rng.choice(("sigmoid", "silu", "tanh")), self.rng.choice(("first", "last"))
        self.add("glu", (name,), made, f"function: {function}, axis: {axis}, gate: {gate}")
        return True

    def _reduce(self, name: str, shape: Shape) -> bool:
        if len(shape) == 1:
            return False
        axis, keep = self.rng.randrange(len(shape)), self.rng.random() < 0.4
        made = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        function = self.rng.choice(("sum", "mean", "max", "min"))
        self.add("reduce", (name,), made, f"function: {function}, axes: {axis}, keep: {str(keep).lower()}")
        return True

    def _shared(self, name: str, shape: Shape) -> bool:
        frozen = self.rng.choice(("", "", ", frozen: true"))
        same = [n for n, (inner, _) in self.dense.items() if inner == shape[-1]]
        turned = [n for n, (_, outer) in self.dense.items() if outer == shape[-1]]
        if same and self.rng.random() < 0.6:
            of = self.rng.choice(same)
            units = self.dense[of][1]
            self.add("dense", (name,), (*shape[:-1], units), f"units: {units}, weights: {of}{frozen}")
        elif turned:
            of = self.rng.choice(turned)
            units = self.dense[of][0]
            self.add("dense", (name,), (*shape[:-1], units), f"units: {units}, weights: {of}, transposed: true{frozen}")
        else:
            units = self.rng.randint(2, 6)
            made = self.add("dense", (name,), (*shape[:-1], units), f"units: {units}")
            self.dense[made] = shape[-1], units
        return True

    def _image(self, name: str, shape: Shape) -> bool:
        if len(shape) != 3:
            return False
        units, (height, width) = self.rng.randint(1, 4), shape[1:]
        kind = self.rng.choice(("around", "transposed", "between", "stop"))
        if kind == "around" and min(height, width) > 2:
            ways = f"filters: {units}, kernel: 3, padding: 1, padding_mode: {self.rng.choice(MODES)}"
            self.add("conv2d", (name,), (units, height, width), ways)
        elif kind == "transposed" and units * 4 * height * width <= self.most:
            made = (units, 2 * height, 2 * width)
            self.add("conv_transpose2d", (name,), made, f"filters: {units}, kernel: 2, stride: 2")
        elif kind == "between" and shape[0] * 4 * height * width <= self.most:
            how = self.rng.choice(("nearest", "linear", "linear, align_corners: true"))
            self.add("upsample", (name,), (shape[0], 2 * height, 2 * width), f"factor: 2, method: {how}")
        elif kind == "stop":
            self.add("stop_gradient", (name,), shape)
        else:
            return False
        return True

    def _block(self, name: str, shape: Shape) -> bool:
        """Copies of a block whose input goes past it."""
        times, hidden = self.rng.choice((2, 3, 5)), self.rng.randint(2, 5)
        begin = self.add("activation", (name,), shape, "function: tanh")
        block, norm = f"b{len(self.layers)}", self.rng.choice(("", "{layer_norm: {}}, "))
        inside = (
            f"{{slice: {{name: {block}x, axis: 0, from: 0, to: {shape[0]}}}}}, {norm}"
            f"{{dense: {{units: {hidden}, activation: {self.rng.choice(('relu', 'gelu'))}}}}}, "
            f"{{dense: {{name: {block}y, units: {shape[-1]}}}}}, {{add: {{inputs: [{block}x, {block}y]}}}}"
        )
        checkpoint = self.rng.choice(("", ", checkpoint: true"))
        self.layers.append(f"repeat: {{times: {times}{checkpoint}, layers: [{inside}]}}")
        self.unread.pop(begin)
        made = f"l{len(self.layers)}"
        self.layers.append(f"slice: {{name: {made}, axis: 0, from: 0, to: {shape[0]}}}")
        self.shapes[made], self.unread[made] = shape, None
        return True


def wide_model(seed: int, order: str = "bitwise") -> str:
    """The text of a model, which reads the `data.npz` of random_graphs.py."""
    rng = random.Random(f"graph {seed}")  # the shape of its data follows from this
    shape = rng.choice(INPUTS)
    found = WideGraph(rng, {"x": shape})
    for _ in range(rng.randint(4, 10)):
        found.grow()
    end = found.end()
    layers = [*found.layers, end]
    numerics = f"precision: {rng.choice(('float32', 'float32', 'float64'))}, order: {order}"
    text = trained_model(f"wide_{seed}", shape, layers, 0.1, BATCH, rng, numerics)
    return text.replace("  batch:", f"{_groups(rng, layers)}  batch:")


def _groups(rng: random.Random, layers: list[str]) -> str:
    """Groups of a training: turns, an optimizer of its own, what stays as it is."""
    made = ["{of: out, every: 2, first: 1}", "{of: biases, every: 2}"]
    if any(x.startswith(("dense", "conv")) for x in layers):
        made += ["{of: weights, optimizer: {adam: {learning_rate: 0.01 * step / steps}}, every: 2}"]
    return f"  groups: [{', '.join(rng.sample(made, rng.choice((1, 2))))}]\n"
