"""Gradients in mixed precision, each beside that of float32: what a step of gradient descent changes in a weight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.numeric.trained import load

MODEL = """\
language: 1
name: mixed
network:
  inputs: {x: {shape: SHAPE}, label: {shape: [], dtype: int32}}
  layers:
LAYERS
    - dense: {name: logits, units: 10}
train:
  data: {file: samples.npz, inputs: {x: x, label: label}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 32
  epochs: 1
  seed: 1
numerics: {precision: PRECISION}
"""
GROUPS = """\
    - conv2d: {inputs: x, filters: 64, kernel: 3, padding: 1, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - conv2d: {filters: 64, kernel: 3, padding: 1, groups: 16, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - conv2d: {filters: 128, kernel: 3, stride: 2, padding: 1, groups: 32, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - conv2d: {filters: 128, kernel: 7, padding: 3, groups: 128}
    - conv2d: {filters: 64, kernel: 1, stride: 2}
    - global_avg_pool: {}"""
VOLUME = """\
    - conv3d: {inputs: x, filters: 16, kernel: 3, padding: 1, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - conv3d: {filters: 32, kernel: 3, stride: 2, padding: 1, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - conv3d: {filters: 40, kernel: [2, 3, 1], padding: [1, 0, 0], dilation: [1, 2, 1]}
    - global_avg_pool: {}"""
SEQUENCE = """\
    - dense: {inputs: x, units: 48, activation: tanh}
    - dropout: {rate: 0.3}
    - lstm: {units: 40, bidirectional: true, sequence: true}
    - noise: {std: 0.1}
    - gru: {units: 24}"""
MODELS: Mapping[str, tuple[tuple[int, ...], str]] = {
    "groups": ((8, 16, 16), GROUPS),
    "volume": ((8, 6, 10, 12), VOLUME),
    "sequence": ((12, 20), SEQUENCE),
}


def changes(name: str, precision: str, target: str, folder: Path) -> dict[str, npt.NDArray[np.float64]]:
    """What a step changes in the weights of a model."""
    folder.mkdir()
    shape, layers = MODELS[name]
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(32, *shape)).astype(np.float32)
    np.savez(folder / "samples.npz", x=samples, label=rng.integers(0, 10, 32).astype(np.int32))
    text = MODEL.replace("SHAPE", str(list(shape))).replace("LAYERS", layers).replace("PRECISION", precision)
    trained = load(text, folder, target)
    before = trained.weights()
    trained.step(1, range(32))
    found = {n: w.astype(np.float64) - before[n] for n, w in trained.weights().items()}
    trained.instance.close()
    return found


def assert_alike(name: str, target: str, folder: Path) -> None:
    """Every one within a fifth of its size, as those before several norms of bf16 are on any target, or where it is
    rounding alone (in front of a norm), of a thousandth of all."""
    exact, mixed = (changes(name, p, target, folder / p) for p in ("float32", "mixed"))
    whole = np.sqrt(sum(np.sum(x**2) for x in exact.values()))
    assert exact.keys() == mixed.keys() and all(np.isfinite(x).all() for x in mixed.values())
    wrong = {
        n: (float(np.linalg.norm(mixed[n] - x)), float(np.linalg.norm(x)))
        for n, x in exact.items()
        if np.linalg.norm(mixed[n] - x) > 0.2 * np.linalg.norm(x) + 1e-3 * whole
    }
    assert not wrong, wrong


@pytest.mark.parametrize("name", ["sequence", *(pytest.param(n, marks=pytest.mark.slow) for n in ("groups", "volume"))])
def test_each_gradient_is_that_of_float32(name: str, tmp_path: Path) -> None:
    assert_alike(name, "cpu", tmp_path)
