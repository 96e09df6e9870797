"""Recurrent layers in mixed precision, lowered for a GPU: their gradients, which begin as bf16, reach states of
float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numeric.trained import load

TEXT = """
language: 1
name: recurrent
network:
  inputs: {x: {shape: [5, 6]}, y: {shape: [3]}}
  layers:
    - KIND: {inputs: x, units: 4}
    - noise: {std: 0.1}
    - dropout: {rate: 0.3}
    - dense: {name: out, units: 3}
train:
  data: {file: data.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {sgd: {learning_rate: 0.5}}
  batch: 16
  epochs: 1
  seed: 3
numerics: {precision: mixed}
"""


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_gradients_of_the_last_state(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(16, 5, 6)), random.normal(size=(16, 3))
    np.savez(tmp_path / "data.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    changes = []
    for lowered_for in ("", "cuda"):
        trained = load(TEXT.replace("KIND", kind), tmp_path, "reference", lowered_for=lowered_for)
        begun = trained.weights()
        trained.step(1, range(16))
        changes.append({n: w - begun[n] for n, w in trained.weights().items()})
    for name, expected in changes[0].items():
        np.testing.assert_allclose(changes[1][name], expected, rtol=0, atol=0.02 * np.abs(expected).max(), err_msg=name)
