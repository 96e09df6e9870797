"""Random networks whose layers join, slice, reshape and add what several others make, drawn from a seed."""

from __future__ import annotations

import random
from math import prod

import numpy as np

from tests.property.random_layers import ACTIVATIONS

SAMPLES, BATCH = 14, 6
INPUTS = ((2, 6, 6), (4, 6), (8,))
Shape = tuple[int, ...]


def graph_data(seed: int) -> dict[str, np.ndarray]:
    """What the file of a model holds."""
    rng = np.random.default_rng(seed)
    shape = random.Random(f"graph {seed}").choice(INPUTS)
    return {
        "x": rng.normal(size=(SAMPLES, *shape)).astype(np.float32),
        "y": rng.normal(size=(SAMPLES, 3)).astype(np.float32),
    }


def graph_model(seed: int, order: str = "bitwise") -> str:
    """The text of a model, which reads `data.npz` beside it."""
    rng = random.Random(f"graph {seed}")
    shape = rng.choice(INPUTS)
    found = Graph(rng, {"x": shape})
    for _ in range(rng.randint(4, 10)):
        found.grow()
    end = found.end()
    precision = rng.choice(("float32", "float32", "float64"))
    layers = [*found.layers, end]
    return trained_model(f"graph_{seed}", shape, layers, 0.1, BATCH, rng, f"precision: {precision}, order: {order}")


def trained_model(
    name: str, shape: Shape, layers: list[str], rate: float, batch: int, rng: random.Random, numerics: str
) -> str:
    """The text of a model with these layers, the last one `out`, which learns three values."""
    lines = "\n".join(f"    - {x}" for x in layers)
    return f"""\
language: 1
name: {name}
network:
  inputs:
    x: {{shape: {list(shape)}}}
    y: {{shape: [3]}}
  layers:
{lines}
train:
  data: {{file: data.npz, inputs: {{x: x, y: y}}, shuffle: false}}
  loss: {{mean_squared_error: {{prediction: out, target: y}}}}
  optimizer: {{sgd: {{learning_rate: {rate}}}}}
  batch: {batch}
  epochs: 1
  seed: {rng.randrange(1000)}
numerics: {{{numerics}}}
"""


class Graph:
    """Layers in order, the shape of what each of them gives, and which of these nothing has read."""

    most_joined = 24
    """Elements along an axis."""

    def __init__(self, rng: random.Random, shapes: dict[str, Shape]) -> None:
        self.rng, self.shapes, self.layers = rng, dict(shapes), list[str]()
        self.unread = dict.fromkeys(shapes)

    def add(self, kind: str, inputs: tuple[str, ...], shape: Shape, settings: str = "") -> str:
        name = f"l{len(self.layers)}"
        read = f"[{', '.join(inputs)}]" if len(inputs) > 1 else inputs[0]
        self.layers.append(f"{kind}: {{name: {name}, inputs: {read}{', ' if settings else ''}{settings}}}")
        for x in inputs:
            self.unread.pop(x, None)
        self.shapes[name] = shape
        self.unread[name] = None
        return name

    def grow(self) -> None:
        """One more layer; of what others have read, too."""
        name = self.rng.choice([*self.shapes, *self.unread, list(self.shapes)[-1]])
        ways = [self._slice, self._slice, self._join, self._join, self._sum, self._map, self._shape, self._weights]
        while not self.rng.choice(ways)(name, self.shapes[name]):
            pass

    def end(self) -> str:
        """All that nothing has read, side by side, and the output."""
        ends = []
        for x in list(self.unread):
            ends.append(self.add("flatten", (x,), (prod(self.shapes[x]),)) if len(self.shapes[x]) > 1 else x)
        whole = ends[0] if len(ends) == 1 else self.add("concat", tuple(ends), (sum(self.shapes[x][0] for x in ends),))
        return f"dense: {{name: out, inputs: {whole}, units: 3}}"

    def _slice(self, name: str, shape: Shape) -> bool:
        axis = self.rng.randrange(len(shape))
        low = self.rng.randrange(shape[axis])
        high = self.rng.randint(low + 1, shape[axis])
        if high - low == shape[axis]:
            return False
        cut = tuple(high - low if a == axis else n for a, n in enumerate(shape))
        self.add("slice", (name,), cut, f"axis: {axis}, from: {low}, to: {high}")
        return True

    def _join(self, name: str, shape: Shape) -> bool:
        axis = self.rng.randrange(len(shape))

        def rest(x: Shape) -> Shape:
            return (*x[:axis], *x[axis + 1 :])

        others = [n for n, x in self.shapes.items() if len(x) == len(shape) and rest(x) == rest(shape) and n != name]
        if not others:
            return False
        parts = [name, *self.rng.sample(others, min(len(others), self.rng.choice((1, 1, 2))))]
        self.rng.shuffle(parts)
        extent = sum(self.shapes[n][axis] for n in parts)
        if extent > self.most_joined:
            return False
        self.add("concat", tuple(parts), (*shape[:axis], extent, *shape[axis + 1 :]), f"axis: {axis}")
        return True

    def _sum(self, name: str, shape: Shape) -> bool:
        others = [n for n, x in self.shapes.items() if x == shape and n != name]
        if not others:
            return False
        self.add(self.rng.choice(("add", "multiply")), (name, self.rng.choice(others)), shape)
        return True

    def _map(self, name: str, shape: Shape) -> bool:
        kind = self.rng.choice(("activation", "activation", "batch_norm", "layer_norm", "softmax"))
        self.add(kind, (name,), shape, f"function: {self.rng.choice(ACTIVATIONS)}" if kind == "activation" else "")
        return True

    def _shape(self, name: str, shape: Shape) -> bool:
        if len(shape) == 1:
            return False
        kind = self.rng.choice(("permute", "flatten", "reshape"))
        if kind == "permute":
            axes = self.rng.sample(range(len(shape)), len(shape))
            self.add("permute", (name,), tuple(shape[a] for a in axes), f"axes: {axes}")
        elif kind == "flatten":
            self.add("flatten", (name,), (prod(shape),))
        else:
            flat = (shape[0] * shape[1], *shape[2:]) if self.rng.random() < 0.5 else (shape[0], prod(shape[1:]))
            self.add("reshape", (name,), flat, f"shape: {list(flat)}")
        return True

    def _weights(self, name: str, shape: Shape) -> bool:
        function = f", activation: {self.rng.choice(ACTIVATIONS)}" if self.rng.random() < 0.6 else ""
        units = self.rng.randint(1, 6)
        if len(shape) == 3:
            kernel = self.rng.choice((1, 3))
            ways = f"filters: {units}, kernel: {kernel}, padding: {kernel // 2}{function}"
            self.add("conv2d", (name,), (units, *shape[1:]), ways)
        elif len(shape) == 2 and self.rng.random() < 0.4:
            kind = self.rng.choice(("gru", "lstm", "rnn"))
            self.add(kind, (name,), (shape[0], units), f"units: {units}, sequence: true")
        else:
            self.add("dense", (name,), (*shape[:-1], units), f"units: {units}{function}")
        return True
