"""Convolutions in groups as convolutions of all channels, in mixed precision on a GPU: which are, that results and
gradients are the same, and that what is beside them has channels last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.layouts import dense_groups
from compiler.passes.pipeline.lower import lower
from tests.numeric.trained import load

TEXT = """
language: 1
name: groups
network:
  inputs: {x: {shape: [64, SIZE, SIZE]}, y: {shape: [2]}}
  layers:
    - conv2d: {inputs: x, filters: 64, kernel: 1}
    - conv2d: {filters: 64, kernel: 3, padding: 1, stride: STEP, groups: GROUPS}
    - activation: {name: a, function: relu}
    - conv2d: {filters: 32, kernel: 1}
    - global_avg_pool: {}
    - dense: {name: out, units: 2}
train:
  data: {file: data.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: BATCH
  epochs: 1
  seed: 1
numerics: {precision: mixed}
"""


def model(folder: Path, groups: int, batch: int, step: int = 1, size: int = 16) -> str:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(batch, 64, size, size)), random.normal(size=(batch, 2))
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    text = TEXT.replace("GROUPS", str(groups)).replace("BATCH", str(batch)).replace("STEP", str(step))
    text = text.replace("SIZE", str(size))
    (folder / "model.yaml").write_text(text)
    return text


def decided(folder: Path, target: str = "cuda") -> list[str]:
    """What contractions in groups become in a training step."""
    found = lower(load_model(folder / "model.yaml", {}), backend(target).capabilities, verify=True).decisions
    return [d.verdict for d in found if d.pass_name == "dense_groups" and d.subject.startswith("train")]


@pytest.mark.parametrize(("groups", "found"), [(16, {"one group"}), (64, {"as it is"})])
def test_groups_of_few_channels_are_one(tmp_path: Path, groups: int, found: set[str]) -> None:
    """In all three directions, but where each channel is a group, which has a strategy."""
    model(tmp_path, groups, 64)
    verdicts = decided(tmp_path)
    assert len(verdicts) == 3 and {*verdicts} == found
    assert not decided(tmp_path, "cpu")


@pytest.mark.parametrize("step", [1, 2])
def test_results_and_gradients_are_those_in_groups(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all three directions, of small images, where they are one group whatever the estimates say."""
    monkeypatch.setattr(dense_groups, "MARGIN", float("inf"))
    text, weights = model(tmp_path, 16, 9, step, 6), []
    assert decided(tmp_path) == ["one group"] * 3
    for only in (None, frozenset[str]()):
        trained = load(text, tmp_path, "reference", lowered_for="cuda", only=only)
        trained.step(1, range(9))
        weights.append(trained.weights())
    for name, expected in weights[1].items():
        np.testing.assert_allclose(weights[0][name], expected, rtol=0, atol=2e-3 * np.abs(expected).max(), err_msg=name)
