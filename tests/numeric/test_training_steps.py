"""Training steps of generated code against the level-1 graph (whose gradients and losses have tests of their own) and
against optimizers written out in numpy, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.ir.level0.model import Model
from compiler.ir.level1.graph import BatchMask, Feed, Node, Rand, Variable
from compiler.passes.layers.lower_loss import add_loss
from compiler.passes.layers.lower_network import lower_network
from compiler.passes.tensors.differentiate import differentiate
from tests.evaluate_graph import Values, evaluate_graph
from tests.numeric.simulated import Array, model_of
from tests.numeric.trained import Trained, load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

HEAD = """\
language: 1
name: every_layer
functions:
  bump(x): x * exp(-x * x) + 0.1 * abs(x)
network:
  inputs: {image: {shape: [2, 9, 8]}, label: {shape: [], dtype: int32}}
  layers:
"""
LAYERS = """\
    - conv2d: {name: one, filters: 4, kernel: [3, 2], padding: same, activation: relu}
    - batch_norm: {name: norm, epsilon: 1e-3}
    - max_pool2d: {name: largest, size: 3, stride: 2, padding: 1}
    - conv2d: {name: two, filters: 6, kernel: 2, dilation: [2, 1], groups: 2, activation: silu}
    - conv2d: {name: side, inputs: largest, filters: 6, kernel: [3, 2], bias: false, activation: bump}
    - add: {name: sum, inputs: [two, side]}
    - conv2d: {name: three, filters: 5, kernel: 3, stride: 2, padding: [2, 1], activation: leaky_relu}
    - avg_pool2d: {size: 2, stride: 1, padding: 1}
    - flatten: {}
    - dropout: {rate: 0}
    - dense: {name: hidden, units: 7, activation: gelu}
    - batch_norm: {name: features}
    - dense: {name: logits, units: 3}
"""
PLAIN = """\
    - flatten: {}
    - dense: {name: hidden, units: 5, activation: tanh}
    - dense: {name: logits, units: 3}
"""
TAIL = """\
train:
  data: {file: samples.npz, inputs: {image: images, label: labels}, scale: {image: 0.5}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: OPTIMIZER
  batch: 6
  epochs: 1
  seed: 1
numerics: {precision: float64}
"""


def text_of(layers: str, optimizer: str) -> str:
    return HEAD + layers + TAIL.replace("OPTIMIZER", optimizer)


@pytest.fixture
def data(tmp_path: Path) -> tuple[Array, Array]:
    rng = np.random.default_rng(8)
    images, labels = rng.normal(size=(16, 2, 9, 8)), rng.integers(0, 3, 16).astype(np.int32)
    np.savez(tmp_path / "samples.npz", images=images, labels=labels)
    return images, labels


def gradient_graph(model: Model) -> tuple[tuple[Node, ...], dict[str, str]]:
    """Forward and backward nodes as autodiff leaves them, and the gradient of each weight by name."""
    assert model.network is not None
    assert model.train is not None
    context, named = lower_network(model.network, model.train, "train")
    lost = add_loss(context.graph, model.train, named, context.mask, context.count)
    loss = lost.loss
    gradients = {w: t.name for w, t in differentiate(context.graph, loss, lost.constants).items()}
    return tuple(context.graph.nodes), gradients


def gradients_of(
    graph: tuple[tuple[Node, ...], dict[str, str]], weights: Values, data: tuple[Array, Array], chosen: Iterable[int]
) -> Values:
    """The gradients of one batch; rows that are missing have garbage in place of an image."""
    nodes, names = graph
    rows = list(chosen)
    given = dict(weights)
    for node in nodes:
        if isinstance(node, Feed):
            source = data[1] if node.out.dtype == "int" else data[0] * 0.5
            value = np.full(node.out.shape, 1, source.dtype)
            value[: len(rows)] = source[rows]
            given[node.out.name] = value
        elif isinstance(node, BatchMask):
            given[node.out.name] = (np.arange(node.out.shape[0]) < len(rows)).astype(float)
        elif isinstance(node, Variable):
            given[node.out.name] = np.full(node.out.shape, node.init)
        elif isinstance(node, Rand):
            given[node.out.name] = np.full(node.out.shape, 0.5)
    values = evaluate_graph(nodes, given)
    return {weight: values[name] for weight, name in names.items()}


def stir(trained: Trained) -> None:
    rng = np.random.default_rng(4)
    for name in trained.names:
        value = trained.read(name)
        trained.write(name, value + rng.normal(0, 0.2, value.shape))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_gradients_of_every_layer(tmp_path: Path, data: tuple[Array, Array], target: str, order: str) -> None:
    """Descent at a rate of 1 leaves the gradient as the difference; a full batch, then a short one."""
    text = text_of(LAYERS, "{sgd: {learning_rate: 1}}").replace("float64", f"float64, order: {order}")
    graph = gradient_graph(model_of(text, tmp_path))
    trained = load(text, tmp_path, target)
    stir(trained)
    for number, chosen in ((1, range(6)), (2, range(11, 15))):
        before = trained.weights()
        trained.step(number, chosen)
        wanted = gradients_of(graph, before, data, chosen)
        assert wanted.keys() == before.keys()
        for name, after in trained.weights().items():
            np.testing.assert_allclose(before[name] - after, wanted[name], rtol=0, atol=1e-11, err_msg=name)
        assert sum(float(np.abs(g).max()) > 1e-3 for g in wanted.values()) >= len(wanted) - 3  # biases before a norm


State = dict[str, Array]
Rule = Callable[[Array, Array, State, int], Array]


def sgd(p: Array, g: Array, state: State, step: int) -> Array:
    return p - 0.3 * g


def momentum(p: Array, g: Array, state: State, step: int) -> Array:
    state["velocity"] = 0.7 * state.get("velocity", np.zeros_like(p)) + g
    return p - 0.1 * state["velocity"]


def adam(p: Array, g: Array, state: State, step: int) -> Array:
    state["m"] = 0.8 * state.get("m", np.zeros_like(p)) + 0.2 * g
    state["v"] = 0.95 * state.get("v", np.zeros_like(p)) + 0.05 * g * g
    m, v = state["m"] / (1 - 0.8**step), state["v"] / (1 - 0.95**step)
    return p - 0.02 * m / (np.sqrt(v) + 1e-3)


def warm(p: Array, g: Array, state: State, step: int) -> Array:
    """The one of the text below."""
    rate = 0.05 * min(1.0, step / 4)
    state["i"] = state.get("i", np.full_like(p, 0.5)) + np.where(g > 0, g, -2 * g)
    return p - rate * (g / (1 + state["i"]) + 0.01 * p)


OWN = """\
optimizers:
  own:
    params: {n: 0.05, y: 0.01, warmup: 4}
    state: {i: 0.5}
    update:
      - rate = n * min(1, step / warmup)
      - i += gradient if gradient > 0 else -2 * gradient
      - param -= rate * (gradient / (1 + i) + y * param)
"""

RULES: dict[str, tuple[str, Rule]] = {
    "sgd": ("{sgd: {learning_rate: 0.3}}", sgd),
    "momentum": ("{momentum: {learning_rate: 0.1, momentum: 0.7}}", momentum),
    "adam": ("{adam: {learning_rate: 0.02, beta1: 0.8, beta2: 0.95, epsilon: 1e-3}}", adam),
    "own": ("{own: {}}", warm),
}


@pytest.mark.parametrize("rule", RULES)
def test_optimizers(tmp_path: Path, data: tuple[Array, Array], rule: str) -> None:
    """Six steps of the text in the library (and of one of the model's own, whose names the compiler uses too)."""
    optimizer, update = RULES[rule]
    text = text_of(PLAIN, optimizer) + (OWN if rule == "own" else "")
    graph = gradient_graph(model_of(text, tmp_path))
    trained = load(text, tmp_path)
    weights: dict[str, Any] = trained.weights()
    states: dict[str, State] = {name: {} for name in weights}
    for step in range(1, 7):
        chosen = range(6 * ((step - 1) % 2), 6 * ((step - 1) % 2) + (6 if step % 2 else 4))
        gradients = gradients_of(graph, weights, data, chosen)
        weights = {n: update(w, gradients[n], states[n], step) for n, w in weights.items()}
        trained.step(step, chosen)
        for name, after in trained.weights().items():
            np.testing.assert_allclose(after, weights[name], rtol=0, atol=1e-12, err_msg=f"{name} in step {step}")


def test_updates_do_not_see_each_other(tmp_path: Path, data: tuple[Array, Array]) -> None:
    """Every weight has optimizer state of its own, also where two layers are alike."""
    layers = "    - flatten: {}\n" + "".join(
        f"    - dense: {{name: d{i}, units: 6, activation: tanh}}\n" for i in range(3)
    )
    text = text_of(layers + "    - dense: {name: logits, units: 3}\n", RULES["adam"][0])
    trained = load(text, tmp_path)
    trained.step(1, range(6))
    states = {n: trained.read(f"{n}.m") for n in trained.names}
    assert not np.array_equal(states["d1.weight"], states["d2.weight"])
    assert all(np.abs(m).max() > 0 for m in states.values())
