"""Optimizers, schedules, clipping and groups of weights, ten steps of generated code against numpy, with the gradients
of the level-1 graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import Array, model_of
from tests.numeric.test_training_steps import PLAIN, gradient_graph, gradients_of, stir, text_of
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

Weights = dict[str, Array]
State = dict[str, Any]
Rule = Callable[[Weights, Weights, State, int], Weights]
PER_EPOCH = 3


@pytest.fixture
def data(tmp_path: Path) -> tuple[Array, Array]:
    rng = np.random.default_rng(8)
    images, labels = rng.normal(size=(16, 2, 9, 8)), rng.integers(0, 3, 16).astype(np.int32)
    np.savez(tmp_path / "samples.npz", images=images, labels=labels)
    return images, labels


def elementwise(rule: Callable[[Array, Array, State, int], Array]) -> Rule:
    def update(w: Weights, g: Weights, state: State, step: int) -> Weights:
        return {n: rule(w[n], g[n], state.setdefault(n, {}), step) for n in w}

    return update


def lion(p: Array, g: Array, state: State, step: int) -> Array:
    m = state.get("m", np.zeros_like(p))
    state["m"] = 0.9 * m + 0.1 * g
    return p - 0.01 * (np.sign(0.8 * m + 0.2 * g) + 0.1 * p)


def lamb(p: Array, g: Array, state: State, step: int) -> Array:
    state["m"] = 0.9 * state.get("m", np.zeros_like(p)) + 0.1 * g
    state["v"] = 0.999 * state.get("v", np.zeros_like(p)) + 0.001 * g * g
    m, v = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.999**step)
    direction = m / (np.sqrt(v) + 1e-6) + 0.05 * p
    size, length = np.linalg.norm(p), np.linalg.norm(direction)
    return p - 0.02 * (size / length if size > 0 and length > 0 else 1.0) * direction


def scheduled(rate: Callable[[int, int], float]) -> Rule:
    return elementwise(lambda p, g, state, step: p - rate(step, 1 + (step - 1) // PER_EPOCH) * g)


def one_cycle(step: int, epoch: int) -> float:
    low, top, last, end = 0.1 / 25, 0.1, 0.1 / 25 / 1e4, 0.3 * 12 - 1
    at = step - 1
    if at <= end:
        return low + (top - low) * 0.5 * (1 - math.cos(math.pi * at / end))
    return last + (top - last) * 0.5 * (1 + math.cos(math.pi * (at - end) / (11 - end)))


def clipped_by_value(p: Array, g: Array, state: State, step: int) -> Array:
    return p - 0.3 * np.clip(g, -0.01, 0.01)


def clipped_by_norm(w: Weights, g: Weights, state: State, step: int) -> Weights:
    norm = math.sqrt(sum(float((x * x).sum()) for x in g.values()))
    assert norm > 0.2
    return {n: w[n] - 0.3 * g[n] * min(1.0, 0.2 / (norm + 1e-6)) for n in w}


def grouped(w: Weights, g: Weights, state: State, step: int) -> Weights:
    rates = {"hidden.weight": 0.1, "hidden.bias": 0.02, "logits.weight": 0.0, "logits.bias": 0.0}
    return {n: w[n] - rates[n] * g[n] for n in w}


def two(w: Weights, g: Weights, state: State, step: int) -> Weights:
    """Momentum for one layer, at a rate that falls; plain descent for the other, whose biases are slower."""
    out = {}
    for n in w:
        m = 0.5 * state.get(n, np.zeros_like(w[n])) + g[n]
        state[n] = m
        plain = w[n] - (0.02 if n == "hidden.bias" else 0.1) * g[n]
        out[n] = w[n] - 0.05 / step * m if n.startswith("logits") else plain
    return out


CASES: dict[str, tuple[str, str, Rule]] = {
    "lion": ("{lion: {learning_rate: 0.01, beta1: 0.8, beta2: 0.9, decay: 0.1}}", "", elementwise(lion)),
    "lamb": ("{lamb: {learning_rate: 0.02, decay: 0.05}}", "", elementwise(lamb)),
    "expression": ("{sgd: {learning_rate: 0.1 / sqrt(step) * 0.5 ** (epoch - 1)}}", "", scheduled(
        lambda step, epoch: 0.1 / math.sqrt(step) * 0.5 ** (epoch - 1))),
    "remaining": ("{sgd: {learning_rate: 0.1 * (1 - step / steps) * (epochs - epoch)}}", "", scheduled(
        lambda step, epoch: 0.1 * (1 - step / 12) * (4 - epoch))),
    "warmup": ("{sgd: {learning_rate: '0.1 * warmup(step, 4)'}}", "", scheduled(
        lambda step, epoch: 0.1 * min(1, step / 4))),
    "step_decay": ("{sgd: {learning_rate: '0.1 * step_decay(epoch, 2, 0.3)'}}", "", scheduled(
        lambda step, epoch: 0.1 * 0.3 ** ((epoch - 1) // 2))),
    "cosine_decay": ("{sgd: {learning_rate: '0.1 * cosine_decay(step, 8)'}}", "", scheduled(
        lambda step, epoch: 0.05 * (1 + math.cos(math.pi * min(1, (step - 1) / 8))))),
    "warmup_cosine": ("{sgd: {learning_rate: '0.1 * warmup_cosine(step, 3, steps)'}}", "", scheduled(
        lambda step, epoch: 0.1 * step / 3 if step < 3 else 0.05 * (1 + math.cos(math.pi * (step - 3) / 9)))),
    "linear_restarts": (
        "{sgd: {learning_rate: '0.1 * warmup_linear(step, 3, 11) + 0.04 * cosine_restarts(step, 5)'}}", "", scheduled(
        lambda step, epoch: 0.1 * (step / 3 if step < 3 else max(0, 1 - (step - 3) / 8))
        + 0.02 * (1 + math.cos(math.pi * ((step - 1) % 5) / 5)))),
    "one_cycle": ("{sgd: {learning_rate: '0.1 * one_cycle(step, steps)'}}", "", scheduled(one_cycle)),
    "clip_value": ("{sgd: {learning_rate: 0.3}}", "clip: {value: 0.01}", elementwise(clipped_by_value)),
    "clip_norm": ("{sgd: {learning_rate: 0.3}}", "clip: {norm: 0.2}", clipped_by_norm),
    "groups": ("{sgd: {learning_rate: 0.1}}",
        "groups: [{of: biases, set: {learning_rate: 0.02}}, {of: [logits], frozen: true}]", grouped),
    "two_optimizers": ("{sgd: {learning_rate: 0.1}}",
        "groups: [{of: biases, set: {learning_rate: 0.02}}, {of: logits, optimizer: {momentum: "
        "{learning_rate: 0.05 / step, momentum: 0.1}}}, {of: logits, set: {momentum: 0.5}}]", two),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ten_steps(tmp_path: Path, data: tuple[Array, Array], name: str) -> None:
    optimizer, extra, rule = CASES[name]
    text = text_of(PLAIN, optimizer).replace("epochs: 1\n", f"epochs: 4\n  {extra}\n")
    graph = gradient_graph(model_of(text, tmp_path))
    trained = load(text, tmp_path)
    stir(trained)
    weights, state = trained.weights(), {}
    for number in range(1, 11):
        chosen = range(6 * ((number - 1) % 3), min(16, 6 * ((number - 1) % 3) + 6))
        weights = rule(weights, gradients_of(graph, weights, data, chosen), state, number)
        trained.step(number, chosen)
        for key, value in trained.weights().items():
            np.testing.assert_allclose(value, weights[key], rtol=0, atol=1e-11, err_msg=f"{key} after {number}")


BLOCKS = """\
language: 1
name: blocks
params: {n: {value: 3, type: int}, rate: {value: 0.01}, limit: {value: 1}}
network:
  inputs: {image: {shape: [2, 9, 8]}, label: {shape: [], dtype: int32}}
  layers:
    - flatten: {}
    - repeat: {times: n, layers: [{dense: {name: hidden, units: 5, activation: tanh}}]}
    - dense: {name: logits, units: 3}
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_text_does_not_grow(tmp_path: Path, data: tuple[Array, Array], target: str) -> None:
    """Norms, clipping, schedules and groups are of one text for any number of layers and any values."""
    from backends.registry import backend

    body = text_of("", "{lamb: {learning_rate: 'rate * cosine_decay(step, steps)'}}").split("layers:\n")[1]
    text = BLOCKS + body.replace("epochs: 1\n", "epochs: 4\n  clip: {norm: limit}\n  groups: [{of: biases, set: "
                                 "{decay: 0}}]\n")  # fmt: skip
    emitted = []
    for settings in ({}, {"n": "40"}, {"rate": "0.3", "limit": "0.5"}):
        model = model_of(text, tmp_path, settings)
        emitted.append(backend(target).emit(lower(model, backend(target).capabilities, verify=True).merged))
    assert emitted[0] == emitted[1] == emitted[2]


@pytest.mark.parametrize("name", ["lamb", "clip_norm", "one_cycle"])
def test_reference_agrees(tmp_path: Path, data: tuple[Array, Array], name: str) -> None:
    optimizer, extra, _ = CASES[name]
    text = text_of(PLAIN, optimizer).replace("epochs: 1\n", f"epochs: 4\n  {extra}\n")
    text = text.replace("precision: float64", "order: bitwise")
    both = [load(text, tmp_path, target) for target in ("cpu", "reference")]
    for number in range(1, 4):
        for one in both:
            one.step(number, range(number, number + 5))
    for key, value in both[0].weights().items():
        assert value.tobytes() == both[1].weights()[key].tobytes(), key


OWN = """\
optimizers:
  own:
    params: {{learning_rate: 0.1, {0}: 0.9, {1}: 0.01}}
    state: {{{2}: 0, {3}: 0}}
    update:
      - {3} = {0} * {3} + gradient
      - {4} = norm({3})
      - {2} = {2} + {1} * {3} * {4}
      - {5} = learning_rate / (1 + {1} * epochs)
      - param = param - {5} * {2}
"""
TAKEN = [
    ["i", "n", "average", "accumulated", "clip_factor", "step_"],
    ["plateau_factor", "average_rate", "gradient_", "param_average", "steps_per_epoch", "last_epoch"],
]
"""Names that the compiler uses beside those of an optimizer, or may print."""


@pytest.mark.parametrize("names", TAKEN, ids=lambda names: names[0])
def test_an_optimizer_may_use_every_name(tmp_path: Path, data: tuple[Array, Array], names: list[str]) -> None:
    extra = "epochs: 4\n  clip: {norm: 0.2}\n  average: 0.9\n  accumulate: 2\n  plateau: {metric: loss, factor: 0.5}\n"
    found = []
    for own in (["a", "b", "c", "d", "e", "f"], names):
        rate = "{own: {learning_rate: 0.1 / epoch}}"
        body = text_of(PLAIN, rate).replace("epochs: 1\n", extra)
        trained = load(body.replace("network:\n", OWN.format(*own) + "network:\n", 1), tmp_path)
        stir(trained)
        for number in range(1, 6):
            trained.step(number, range(number, number + 5))
        found.append({key: value.tobytes() for key, value in trained.weights().items()})
    assert found[0] == found[1]


def test_the_library_is_checked(tmp_path: Path, root: Path, data: tuple[Array, Array]) -> None:
    """Every optimizer of the library lowers with its defaults, every pass verified."""
    from backends.registry import backend

    names = sorted(path.stem for path in (root / "models/library/optimizers").glob("*.yaml"))
    assert len(names) >= 12
    for name in names:
        model = model_of(text_of(PLAIN, f"{{{name}: {{}}}}"), tmp_path)
        assert model.train is not None and model.train.optimizer.name == name
        lower(model, backend("cpu").capabilities, verify=True)
