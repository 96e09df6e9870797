"""Many layers against PyTorch in one build: a network whose heads are the cases.

Assumes: PyTorch where `compare` is called; this module can be imported without.
Guarantees: of every head the output (as `netloom predict` computes it), the loss of all and the gradients of all
weights, for a full batch and a short one; the oracle is PyTorch in float64, on numbers that are exact in float32.
Does not: depend on layers (the cases do).

Every head has a norm of its own between the network's input and the layer, whose shift stands for the input: its
gradient is that of the layer's input, summed over the batch. The loss of a head is the sum of the squared differences
of its output from random numbers, or one of its own. Gradient descent at a rate of 1024 leaves the gradients in the
weights, in float32 too: what the weights were before is small beside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backends.registry import backend
from compiler.ir.level0.model import Model
from compiler.passes.pipeline.lower import ORDER, PHASE, data_name, lower_predict
from compiler.passes.tensors.fold_norms import folded
from compiler.runtime.artifacts.safetensors import put_weights
from compiler.runtime.common.arrays import read_logical
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.numeric.simulated import Array, model_of
from tests.numeric.trained import Trained, load

Weights = dict[str, Any]
Forward = Callable[[Weights, Any], Any]
RATE, BATCH, SAMPLES = 1024.0, 6, 9
CLOSE = {"float32": 1e-5, "float64": 1e-10}
"""The largest difference, relative to the largest element of an array. Where a gradient is what is left of larger
numbers (as of a norm over two elements), PyTorch's own float32 is off by more: then twice that."""
NOTHING = 1e-10
"""Gradients that are smaller than this part of the head's largest (as that of an attention's key bias, which is 0) are
compared with the largest; and so are single numbers, which may be any part of what they are the sum of."""

FUNCTIONS = "functions: {bump(x): x * exp(-x * x) + 0.1 * abs(x)}"
"""What heads may name besides the built-in functions."""


@dataclass(frozen=True)
class OwnLoss:
    """`text`: over `$y` and `$t`; `apply`: the same in PyTorch; `targets`: of so many samples, given the shape of one
    output."""

    text: str
    apply: Callable[[Any, Any], Any]
    targets: Callable[[np.random.Generator, tuple[int, ...]], Array]


@dataclass(frozen=True)
class Head:
    """One case. `lines`: layers that read `$x` and end in one called `$y`; `shape`: of the input; `forward`: the same
    in PyTorch, where the weights of `$y` are called `y.weight`. `in_use`: the same outside training, where that is
    another. `count`: the input holds whole numbers below it."""

    name: str
    lines: str
    shape: tuple[int, ...]
    forward: Forward
    in_use: Forward | None = None
    count: int = 0
    loss: OwnLoss | None = None

    @property
    def source(self) -> str:
        """The network input that it reads: heads with inputs of one shape share it."""
        return "_".join([f"whole{self.count}" if self.count else "real", *map(str, self.shape)])


def product(**settings: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the values of settings."""
    for values in itertools.product(*settings.values()):
        yield dict(zip(settings, values, strict=True))


def yaml(values: dict[str, Any]) -> str:
    """Keys and values in braces."""

    def shown(value: Any) -> str:
        return str(list(value) if isinstance(value, tuple) else value).replace("True", "true").replace("False", "false")

    return "{" + ", ".join(f"{k}: {shown(v)}" for k, v in values.items()) + "}"


def _network(heads: Sequence[Head], precision: str, targets: dict[str, str]) -> str:
    inputs = {h.source: f"{{shape: {list(h.shape)}{', dtype: int32' * bool(h.count)}}}" for h in heads} | targets
    layers = []
    for k, head in enumerate(heads):
        x = head.source
        if not head.count:
            layers.append(f"layer_norm: {{name: x{k}, inputs: {x}, axes: {len(head.shape)}, epsilon: 1e-3}}")
            x = f"x{k}"
        layers += head.lines.replace("$x", x).replace("$y", f"y{k}").split("\n")
    return "\n".join([
        "language: 1", "name: grid", f"numerics: {{precision: {precision}}}", FUNCTIONS, "network:", "  inputs:",
        *(f"    {name}: {text}" for name, text in inputs.items()), "  layers:", *(f"    - {x}" for x in layers), "",
    ])  # fmt: skip


def _training(heads: Sequence[Head], shapes: Sequence[tuple[int, ...]], arrays: Iterable[str]) -> str:
    terms = []
    for k, (head, shape) in enumerate(zip(heads, shapes, strict=True)):
        text = head.loss.text if head.loss else "mean_squared_error: {prediction: $y, target: $t}"
        weight = 1 if head.loss else math.prod(shape)
        terms.append(f"{{weight: {weight}, loss: {{{text.replace('$y', f'y{k}').replace('$t', f't{k}')}}}}}")
    return "\n".join([
        "train:", f"  data: {{file: samples.npz, shuffle: false, inputs: {yaml({n: n for n in arrays})}}}",
        f"  loss: {{sum: [{', '.join(terms)}]}}", f"  optimizer: {{sgd: {{learning_rate: {RATE}}}}}",
        f"  batch: {BATCH}", "  epochs: 1", "",
    ])  # fmt: skip


def _samples(heads: Sequence[Head], shapes: Sequence[tuple[int, ...]]) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    out: dict[str, Array] = {}
    for head in heads:
        whole, size = rng.integers(0, head.count or 1, (SAMPLES, *head.shape)), (SAMPLES, *head.shape)
        out.setdefault(head.source, whole.astype(np.int32) if head.count else rng.normal(size=size).astype(np.float32))
    for k, (head, shape) in enumerate(zip(heads, shapes, strict=True)):
        values = head.loss.targets(rng, (SAMPLES, *shape)) if head.loss else rng.normal(size=(SAMPLES, *shape))
        out[f"t{k}"] = values.astype(np.int32 if values.dtype.kind == "i" else np.float32)
    return out


def _weights(trained: Trained) -> dict[str, Array]:
    """Numbers that neither let anything vanish nor saturate."""
    rng = np.random.default_rng(9)
    out = {}
    for name in (*trained.names, *trained.running):
        shape = trained.read(name).shape
        norm = name.startswith("x")
        spread = 0.3 if norm or len(shape) == 1 else 1.0 / math.sqrt(math.prod(shape[1:]))
        values = rng.normal(1.0 if norm and name.endswith(".weight") else 0.0, spread, shape)
        out[name] = (np.abs(values) + 0.5 if name.endswith("running_var") else values).astype(np.float32)
    return out


def _own(weights: dict[str, Any], k: int) -> dict[str, Any]:
    """What belongs to head k, called as in its lines."""
    found = {}
    for name, value in weights.items():
        stem = name.replace("_", ".").partition(".")[0]
        if stem in (f"x{k}", f"y{k}"):
            found[stem[0] + name[len(stem) :]] = value
    return found


@dataclass(frozen=True)
class _Result:
    """Of one head for one batch."""

    output: Array
    loss: float
    gradients: dict[str, Array]


def _oracle(head: Head, start: dict[str, Array], samples: Array, targets: Array, precision: str) -> _Result:
    """Output in use, loss and gradients of training, in PyTorch."""
    import torch

    weights = {n: torch.tensor(v.astype(precision), requires_grad=".running" not in n) for n, v in start.items()}
    x = torch.tensor(samples.astype(np.int64 if head.count else precision))
    t = torch.tensor(targets.astype(np.int64 if targets.dtype.kind == "i" else precision))
    if not head.count:
        x = torch.nn.functional.layer_norm(x, head.shape, weights["x.weight"], weights["x.bias"], 1e-3)
    y = head.forward(weights, x)
    used = y if head.in_use is None else head.in_use(weights, x)
    loss = head.loss.apply(y, t) if head.loss else ((y - t) ** 2).sum() / len(t)
    loss.backward()
    gradients = {n: w.grad.numpy() for n, w in weights.items() if w.requires_grad}
    return _Result(used.detach().numpy(), loss.item(), gradients)


def _off(mine: Array, other: Array, least: float = 0.0) -> float:
    """The largest difference, relative to the largest element or `least`."""
    if mine.shape != other.shape:
        return math.inf
    return float(np.abs(mine - other).max() / max(float(np.abs(other).max()), least))


def _predicted(model: Model, folder: Path, weights: dict[str, Array], data: dict[str, Array]) -> dict[str, Array]:
    """The outputs of all heads for all samples."""
    cpu = backend("cpu")
    assert model.network is not None
    names = tuple(layer.name for layer in model.network.layers if layer.name[1:].isdigit() and layer.name[0] == "y")
    done = lower_predict(model, cpu.capabilities, SAMPLES, names, verify=True)
    merged = done.lowered.merged
    instance = cpu.load(cpu.build(merged, folder / "predict", {}), merged, 1)
    put_weights(instance, merged, folded(weights, done.folds))
    arrays = {a.name: a for a in merged.arrays}
    instance.write(ORDER, np.arange(arrays[ORDER].physical_size, dtype=np.int32))
    for item in done.inputs:
        name = data_name(item.name)
        instance.write(name, data[item.name].astype(arrays[name].dtype.numpy).reshape(-1))
    instance.run(PHASE, 1, 1)
    return {o.name: read_logical(instance, arrays[o.array]).reshape(SAMPLES, *o.shape) for o in done.outputs}


def _differences(head: Head, mine: _Result, start: dict[str, Array], samples: Array, targets: Array,
                 precision: str) -> list[str]:  # fmt: skip
    """A line for each array that is too far from PyTorch in float64."""
    right = _oracle(head, start, samples, targets, "float64")
    largest = max(float(np.abs(g).max()) for g in right.gradients.values())
    arrays = {"output": (right.output, 0.0)}
    for name, g in right.gradients.items():
        nothing = g.size == 1 or float(np.abs(g).max()) < NOTHING * largest
        arrays[name] = (g, largest if nothing else 0.0)
    found = {"output": mine.output, **mine.gradients}
    wrong = [n for n, (a, least) in arrays.items() if not _off(found[n], a, least) <= CLOSE[precision]]
    if wrong and precision == "float32":
        theirs = _oracle(head, start, samples, targets, "float32")
        single = {"output": theirs.output, **theirs.gradients}
        wrong = [n for n in wrong if not _off(found[n], *arrays[n]) <= 2 * _off(single[n], *arrays[n])]
    return [f"{head.name}: {n}: {_off(found[n], *arrays[n]):.1e}" for n in wrong]


def compare(heads: Sequence[Head], precision: str, folder: Path) -> None:
    """Builds the network and compares every head. Raises AssertionError with a line for each difference."""
    model = model_of(_network(heads, precision, {}), folder, name="grid")
    assert model.network is not None
    found = {layer.name: layer.shape for layer in model.network.layers}
    shapes = [found[f"y{k}"] for k in range(len(heads))]
    data = _samples(heads, shapes)
    np.savez(folder / "samples.npz", **data)
    targets = {
        n: f"{{shape: {list(v.shape[1:])}{', dtype: int32' * (v.dtype.kind == 'i')}}}" for n, v in data.items()
        if n.startswith("t")
    }  # fmt: skip
    trained = load(_network(heads, precision, targets) + _training(heads, shapes, data), folder)
    start, wrong = _weights(trained), []
    predicted = _predicted(model, folder, start, data)
    for number, rows in ((1, np.arange(BATCH)), (2, np.arange(BATCH, SAMPLES))):
        for name, values in start.items():
            trained.write(name, values)
        trained.step(number, rows.tolist())
        loss, total = metrics_of(take_sums(trained.instance, trained.program))["loss"], 0.0
        after = trained.weights()
        for k, head in enumerate(heads):
            before, ends, samples, aims = _own(start, k), _own(after, k), data[head.source][rows], data[f"t{k}"][rows]
            gradients = {n: (before[n].astype(np.float64) - v) / RATE for n, v in ends.items()}
            mine = _Result(predicted[f"y{k}"][rows], 0.0, gradients)
            wrong += _differences(head, mine, before, samples, aims, precision)
            total += _oracle(head, before, samples, aims, "float64").loss
        if not abs(loss - total) <= CLOSE[precision] * abs(total):
            wrong.append(f"loss of all: {loss} instead of {total}")
    assert not wrong, "\n".join(wrong)
