"""Random networks whose axes have equal extents, so that one is easily taken for another: normalisations of all kinds
that are turned, split and joined, operands that are broadcast, attention, recurrent layers, convolutions, pools."""

from __future__ import annotations

import random
import re
from math import prod

import numpy as np

from tests.property.random_graphs import Shape
from tests.property.random_layers import ACTIVATIONS
from tests.property.random_wide_graphs import WideGraph

EXTENTS = ((2, 4), (4,), (4, 16), (8,), (16,), (2,), (3, 9), (5,), (8, 64), (32,))
ELEMENTS = (64, 256, 1024, 2048, 4096)
MOST_BATCH, MOST_STEPS, MOST_PRODUCTS = 16, 16, 500_000
OF_TWO = ("{a} * sigmoid({b})", "max({a}, {b})", "{a} - 0.5 * {b} * {b}", "{a} / (1 + {b} ** 2)")
BROADCAST = ("{a} + {b}", "{a} * {b}", "{b} * tanh({a})", "{a} - {b}", "exp(0.1 * {a}) + {b}")
OF_OUT = "{prediction: out, target: y}"
LOSSES = (
    *(f"mean_squared_error: {OF_OUT}",) * 2,
    f"huber: {OF_OUT}",
    f"cosine: {OF_OUT}",
    "expression: {value: (out - y) ** 2 * (2 if y > 0 else 1)}",
    f"sum: [{{loss: {{mean_squared_error: {OF_OUT}}}}}, {{weight: 0.5, loss: {{mean_absolute_error: {OF_OUT}}}}}]",
)
OPTIMIZERS = (
    *("sgd: {learning_rate: 0.05}",) * 3,
    "momentum: {learning_rate: 0.05}",
    "adam: {learning_rate: 0.05, epsilon: 1}",  # a small one makes steps of what is zero but for rounding
)
SETTINGS = ("", "", "", "  clip: {norm: 1}\n", "  penalty: {l2: 1e-2}\n", "  groups: [{of: biases, frozen: true}]\n")


def alike_model(seed: int) -> tuple[str, dict[str, np.ndarray], int]:
    """The text of a model, what `data.npz` beside it holds, and samples of a batch; there are data for two, and three
    samples more."""
    rng = random.Random(f"alike {seed}")
    found = Alike(rng, rng.choice(EXTENTS), rng.choice(ELEMENTS))
    batch = min(rng.choice((*found.extents, 4)), MOST_BATCH)
    for _ in range(rng.randint(3, rng.choice((5, 9, 16)))):
        found.grow()
    found.unread.pop("m", None)
    end = found.end()
    layers = "\n".join(f"    - {x}" for x in (*found.layers, end))
    numbers, samples = np.random.default_rng(seed), 2 * batch + 3
    data = {n: numbers.normal(size=(samples, *s)).astype(np.float32) for n, s in (("x", found.shape), ("y", (3,)))}
    inputs = [f"x: {{shape: {list(found.shape)}}}", "y: {shape: [3]}"]
    if re.search(r"\bw\b", layers):
        data["w"] = numbers.integers(0, found.words, (samples, found.length)).astype(np.int32)
        inputs.append(f"w: {{shape: [{found.length}], dtype: int32}}")
    if re.search(r"\bm\b", layers):
        data["m"] = (np.arange(found.length) <= numbers.integers(0, found.length, (samples, 1))).astype(np.float32)
        inputs.append(f"m: {{shape: [{found.length}]}}")
    text = f"""\
language: 1
name: alike_{seed}
network:
  inputs: {{{", ".join(inputs)}}}
  layers:
{layers}
train:
  data: {{file: data.npz, inputs: {{{", ".join(f"{n}: {n}" for n in data)}}}, shuffle: false}}
  loss: {{{rng.choice(LOSSES)}}}
  optimizer: {{{rng.choice(OPTIMIZERS)}}}
{rng.choice(SETTINGS)}  batch: {batch}
  epochs: 1
  seed: {rng.randrange(1000)}
numerics: {{precision: {rng.choice(("float64", "float64", "float32"))}}}
"""
    return text, data, batch


class Alike(WideGraph):
    """`shape`: that of the input x; `length`: of a mask m over steps, which may be read, and of a list of words w, of
    which there are `words`."""

    most_joined = 64

    def __init__(self, rng: random.Random, extents: tuple[int, ...], most: int) -> None:
        self.extents, self.most, self.shape = extents, most, ()
        while not self.shape or prod(self.shape) > most:
            self.shape = tuple(rng.choice(extents) for _ in range(rng.choice((1, 2, 2, 3, 3, 3, 4))))
        self.length, self.words = rng.choice(extents), rng.choice((3, *extents))
        super().__init__(rng, {"x": self.shape, "m": (self.length,)})

    def grow(self) -> None:
        """One more layer, mostly of the last one."""
        last = list(self.shapes)[-1]
        name = self.rng.choice([*self.shapes, *self.unread, last, last, last])
        ways = [*[self._norm] * 5, *[self._turned_norm] * 6, *[self._turn] * 4, *[self._fold] * 2, *[self._of_two] * 3]
        ways += [self._cut, self._join, self._pad, self._broadcast, self._broadcast, self._sees, self._reduced]
        ways += [self._softmax, self._drop, self._pooled, *[self._conv] * 2, self._transposed, *[self._units] * 2]
        ways += [self._steps, self._product, self._gate, self._function, self._shared, self._given, self._halves]
        while not self.rng.choice(ways)(name, self.shapes[name]):
            pass

    def _fits(self, shape: Shape) -> bool:
        return prod(shape) <= self.most and len(shape) <= 4

    def _line(self, line: str, read: tuple[str, ...], made: dict[str, Shape]) -> bool:
        """A layer that `add` does not write."""
        self.layers.append(line)
        for x in read:
            self.unread.pop(x, None)
        self.shapes |= made
        self.unread |= dict.fromkeys(made)
        return True

    def _norm(self, name: str, shape: Shape) -> bool:
        rng = self.rng
        kinds = ["layer_norm", "rms_norm", "batch_norm"]
        if len(shape) > 1:
            kinds += ["group_norm"] + (["instance_norm"] if prod(shape[1:]) > 1 else [])
        kind, settings = rng.choice(kinds), ""
        if kind in ("layer_norm", "rms_norm"):
            settings = f"axes: {rng.randint(1, len(shape))}, affine: {rng.choice(('true', 'false'))}"
        elif kind == "group_norm":
            settings = f"groups: {rng.choice([n for n in range(1, shape[0] + 1) if shape[0] % n == 0])}"
        self.add(kind, (name,), shape, settings)
        return True

    def _turned_norm(self, name: str, shape: Shape) -> bool:
        if len(shape) < 2:
            return False
        self._norm(name, shape)
        if self.rng.random() < 0.3:
            self._function(list(self.shapes)[-1], shape)
        return self._turn(list(self.shapes)[-1], shape)

    def _turn(self, name: str, shape: Shape) -> bool:
        if len(shape) < 2:
            return False
        axes = list(range(len(shape)))
        while axes == sorted(axes):
            self.rng.shuffle(axes)
        self.add("permute", (name,), tuple(shape[a] for a in axes), f"axes: {axes}")
        return True

    def _fold(self, name: str, shape: Shape) -> bool:
        """A reshape to other axes of the same extents."""
        left, made = prod(shape), list[int]()
        for _ in range(self.rng.randint(0, 3)):
            made += [n for n in self.rng.sample((*self.extents, *shape), 1) if left % n == 0 and n > 1]
            left = prod(shape) // prod(made)
            if prod(made) * left != prod(shape):
                return False
        made = [*made, left] if left > 1 else made
        if not made or len(made) > 4 or tuple(made) == shape:
            return False
        self.add("reshape", (name,), tuple(made), f"shape: {made}")
        return True

    def _of_two(self, name: str, shape: Shape) -> bool:
        others = [n for n, x in self.shapes.items() if x == shape and n != name]
        if not others:
            return False
        if self.rng.random() < 0.3:
            return self._formula(OF_TWO, name, self.rng.choice(others), shape)
        read = (name, *self.rng.sample(others, min(len(others), self.rng.choice((1, 1, 2)))))
        self.add(self.rng.choice(("add", "add", "multiply")), read, shape)
        return True

    def _formula(self, ways: tuple[str, ...], a: str, b: str, shape: Shape) -> bool:
        made = f"l{len(self.layers)}"
        return self._line(f"map: {{{made}: '{self.rng.choice(ways).format(a=a, b=b)}'}}", (a, b), {made: shape})

    def _broadcast(self, name: str, shape: Shape) -> bool:
        found = []
        for other, second in self.shapes.items():
            longest = max(len(shape), len(second))
            both = zip(*((1,) * (longest - len(s)) + s for s in (shape, second)), strict=True)
            if second != shape and all(a == b or 1 in (a, b) for a, b in both):
                found.append((other, tuple(np.broadcast_shapes(shape, second))))
        found = [x for x in found if self._fits(x[1])]
        return bool(found) and self._formula(BROADCAST, name, *self.rng.choice(found))

    def _cut(self, name: str, shape: Shape) -> bool:
        axis = self.rng.randrange(len(shape))
        if shape[axis] < 2:
            return False
        size = self.rng.choice([n for n in (*self.extents, shape[axis] // 2, 1) if n < shape[axis]])
        low = self.rng.randint(0, shape[axis] - size)
        made = tuple(size if a == axis else n for a, n in enumerate(shape))
        self.add("slice", (name,), made, f"axis: {axis}, from: {low}, to: {low + size}")
        return True

    def _halves(self, name: str, shape: Shape) -> bool:
        axis = self.rng.randrange(len(shape))
        if shape[axis] % 2:
            return False
        made = tuple(n // 2 if a == axis else n for a, n in enumerate(shape))
        parts = [f"l{len(self.layers)}{x}" for x in "ab"]
        line = f"split: {{inputs: {name}, axis: {axis}, into: [{', '.join(parts)}]}}"
        return self._line(line, (name,), dict.fromkeys(parts, made))

    def _sees(self, name: str, shape: Shape) -> bool:
        """Attention, with as many heads as there are channels or steps, too."""
        rng = self.rng
        if len(shape) != 2 or shape[0] > 2 * MOST_STEPS:
            return False
        masked = self.length == shape[0] and rng.random() < 0.5
        ways = rng.choice(("", ", causal: true")) + (", mask: m" if masked else "")
        if rng.random() < 0.5:
            heads = rng.choice([n for n in (1, 2, *shape) if n <= MOST_BATCH])
            self.add("attention", (name,), shape, f"heads: {heads}, size: {heads * rng.choice((1, 2, 8))}{ways}")
            return True
        heads = rng.choice([n for n in (1, 2, shape[1]) if shape[1] % n == 0])
        beside = [(heads, shape[0], shape[0]), (shape[0], shape[0]), (shape[0],)]
        offsets = [n for n, s in self.shapes.items() if s in beside and n != "m"]
        ways += f", offset: {rng.choice(offsets)}" if offsets and rng.random() < 0.5 else ""
        read = tuple(rng.choice([n for n, s in self.shapes.items() if s == shape]) for _ in range(2))
        self.add("dot_attention", (name, *read), shape, f"heads: {heads}{ways}")
        return True

    def _reduced(self, name: str, shape: Shape) -> bool:
        rng = self.rng
        if len(shape) < 2:
            return False
        axes, keep = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape) - 1))), rng.random() < 0.6
        made = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
        function = rng.choice(("sum", "mean", "max", "min"))
        self.add("reduce", (name,), made, f"function: {function}, axes: {axes}, keep: {str(keep).lower()}")
        return True

    def _softmax(self, name: str, shape: Shape) -> bool:
        self.add(self.rng.choice(("softmax", "log_softmax")), (name,), shape, f"axis: {self.rng.randrange(len(shape))}")
        return True

    def _drop(self, name: str, shape: Shape) -> bool:
        draws = self.rng.choice(("element", "sample", *(("channel",) if len(shape) > 1 else ())))
        self.add("dropout", (name,), shape, f"rate: 0.3, draws: {draws}")
        return True

    def _function(self, name: str, shape: Shape) -> bool:
        kind = self.rng.choice(("activation", "activation", "activation", "prelu", "scale_shift"))
        settings = {
            "activation": f"function: {self.rng.choice(ACTIVATIONS)}",
            "prelu": f"channels: {self.rng.choice(('true', 'false'))}",
            "scale_shift": f"axis: {self.rng.randrange(len(shape))}",
        }
        self.add(kind, (name,), shape, settings[kind])
        return True

    def _pooled(self, name: str, shape: Shape) -> bool:
        rng, rank = self.rng, len(shape) - 1
        if not rank:
            return False
        kind = rng.choice(("max", "avg", "global_max", "global_avg", "upsample"))
        size, step, pad = rng.choice((2, 2, 3)), rng.choice((1, 2)), rng.choice((0, 0, 1))
        made = (shape[0], *((n + 2 * pad - size) // step + 1 for n in shape[1:]))
        larger = (shape[0], *(2 * n for n in shape[1:]))
        if kind.startswith("global"):
            self.add(f"{kind}_pool", (name,), shape[:1])
        elif kind == "upsample" and self._fits(larger):
            self.add(kind, (name,), larger, f"factor: 2, method: {rng.choice(('nearest', 'linear'))}")
        elif kind in ("max", "avg") and min(shape[1:]) >= size:
            counts = f", count_padding: {rng.choice(('true', 'false'))}" if kind == "avg" else ""
            self.add(f"{kind}_pool{rank}d", (name,), made, f"size: {size}, stride: {step}, padding: {pad}{counts}")
        else:
            return False
        return True

    def _ends(self) -> str:
        function = f", activation: {self.rng.choice(ACTIVATIONS)}" if self.rng.random() < 0.4 else ""
        return function + self.rng.choice(("", ", bias: false"))

    def _conv(self, name: str, shape: Shape) -> bool:
        rng, rank = self.rng, len(shape) - 1
        filters, taps, step = rng.choice((*self.extents, shape[0])), rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
        groups, pad = rng.choice([n for n in (1, 1, 2, shape[0]) if n <= shape[0]]), rng.choice((0, taps // 2))
        made = (filters, *((n + 2 * pad - taps) // step + 1 for n in shape[1:]))
        if not rank or filters % groups or shape[0] % groups or not self._convolves(shape, made, taps):
            return False
        settings = f"filters: {filters}, kernel: {taps}, stride: {step}, padding: {pad}, groups: {groups}{self._ends()}"
        self.add(f"conv{rank}d", (name,), made, settings)
        return True

    def _transposed(self, name: str, shape: Shape) -> bool:
        rng, rank = self.rng, len(shape) - 1
        filters, taps, step = rng.choice(self.extents), rng.choice((1, 2, 3)), rng.choice((1, 2))
        pad = rng.choice((0, 0, 1)) if taps > 1 else 0
        made = (filters, *((n - 1) * step + taps - 2 * pad for n in shape[1:]))
        if not rank or not self._convolves(shape, made, taps):
            return False
        settings = f"filters: {filters}, kernel: {taps}, stride: {step}, padding: {pad}{self._ends()}"
        self.add(f"conv_transpose{rank}d", (name,), made, settings)
        return True

    def _convolves(self, shape: Shape, made: Shape, taps: int) -> bool:
        products = prod(made) * shape[0] * taps ** (len(shape) - 1)
        return min(made) > 0 and self._fits(made) and products <= MOST_PRODUCTS

    def _units(self, name: str, shape: Shape) -> bool:
        units = self.rng.choice((*self.extents, shape[-1]))
        if not self._fits((*shape[:-1], units)):
            return False
        self.add("dense", (name,), (*shape[:-1], units), f"units: {units}{self._ends()}")
        return True

    def _steps(self, name: str, shape: Shape) -> bool:
        """A recurrent layer."""
        rng = self.rng
        if len(shape) != 2 or shape[0] > MOST_STEPS or rng.random() < 0.5:
            return False
        units, kind = rng.choice([n for n in (*self.extents, 4) if n <= MOST_STEPS]), rng.choice(("gru", "lstm", "rnn"))
        all_steps, both = rng.random() < 0.7, rng.random() < 0.3
        wide = 2 * units if both else units
        begins = [n for n, s in self.shapes.items() if s == (wide,) and n != "m"]
        ways = ", mask: m" if self.length == shape[0] and rng.random() < 0.5 else ""
        ways += f", initial: {rng.choice(begins)}" if begins and rng.random() < 0.5 else ""
        ways += f", sequence: {str(all_steps).lower()}, bidirectional: {str(both).lower()}"
        self.add(kind, (name,), (shape[0], wide) if all_steps else (wide,), f"units: {units}{ways}")
        return True

    def _given(self, name: str, shape: Shape) -> bool:
        """What is read of no other layer: trained numbers, rows of words."""
        made, units = f"l{len(self.layers)}", self.rng.choice(self.extents)
        size = tuple(self.rng.choice(self.extents) for _ in range(self.rng.choice((1, 2, 2, 3))))
        if self.rng.random() < 0.5 and self._fits((self.length, units)):
            line = f"embedding: {{name: {made}, inputs: w, count: {self.words}, size: {units}}}"
            return self._line(line, (), {made: (self.length, units)})
        line = f"learned: {{name: {made}, shape: {list(size)}, init: {{normal: {{std: 1}}}}}}"
        return self._fits(size) and self._line(line, (), {made: size})
