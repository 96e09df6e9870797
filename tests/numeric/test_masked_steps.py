"""Recurrent layers with a `mask`: what comes after the end of a sequence is as if it were not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """\
language: 1
name: masked
network:
  inputs: {{x: {{shape: [{steps}, 3]}}, there: {{shape: [{steps}], dtype: int32}}, y: {{shape: [2]}}}}
  layers:
    - lstm: {{name: all, inputs: x, units: 4, bidirectional: true, sequence: true{mask}}}
    - gru: {{name: last, units: 3, bidirectional: true{mask}}}
    - rnn: {{name: alone, inputs: x, units: 3{mask}}}
    - concat: {{inputs: [last, alone]}}
    - dense: {{name: out, units: 2}}
train:
  data: {{file: samples.npz, inputs: {{x: x, there: there, y: y}}}}
  loss: {{mean_squared_error: {{prediction: out, target: y}}}}
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 6
  epochs: 1
numerics: {{precision: float64}}
"""


def after_a_step(folder: Path, x: np.ndarray, there: np.ndarray, y: np.ndarray, mask: str) -> dict[str, np.ndarray]:
    folder.mkdir()
    np.savez(folder / "samples.npz", x=x, there=there, y=y)
    trained = load(TEXT.format(steps=x.shape[1], mask=mask), folder)
    trained.step(1, range(len(x)))
    return {**trained.weights(), "loss": np.array(trained.metric("loss"))}


def test_steps_after_the_end_change_nothing(tmp_path: Path) -> None:
    """Three steps, and seven of which the last four, or others between, are masked: one loss and the same gradients."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(6, 3, 3)), rng.normal(size=(6, 2))
    short = after_a_step(tmp_path / "short", x, np.ones((6, 3), np.int32), y, "")
    there = np.zeros((6, 7), np.int32)
    places = np.array([[0, 1, 2]] * 3 + [[4, 5, 6], [0, 3, 6], [1, 2, 5]])
    long = rng.normal(size=(6, 7, 3))
    for sample, at in enumerate(places):
        there[sample, at], long[sample, at] = 1, x[sample]
    found = after_a_step(tmp_path / "long", long, there, y, ", mask: there")
    assert found.keys() == short.keys()
    for name, value in short.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-12, err_msg=name)
