"""Convolutions of one tap as products of matrices on a GPU: which are, and that results and gradients are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.layouts import one_tap
from compiler.passes.pipeline.lower import lower
from tests.numeric.trained import load

TEXT = """
language: 1
name: taps
network:
  inputs: {x: {shape: SHAPE}, y: {shape: [2]}}
  layers:
    - KIND: {inputs: x, filters: WIDTH, kernel: 1, activation: relu}
    - KIND: {filters: 24, kernel: 3, padding: 1}
    - KIND: {filters: 40, kernel: 1, bias: false}
    - batch_norm: {}
    - KIND: {filters: 16, kernel: 1, stride: 2}
    - flatten: {}
    - dense: {name: out, units: 2}
train:
  data: {file: data.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: y}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: BATCH
  epochs: 1
  seed: 1
"""


def model(folder: Path, kind: str, shape: tuple[int, ...], width: int, batch: int, more: str = "") -> str:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(batch, *shape)), random.normal(size=(batch, 2))
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    text = TEXT.replace("SHAPE", str(list(shape))).replace("KIND", kind)
    text = text.replace("WIDTH", str(width)).replace("BATCH", str(batch))
    (folder / "model.yaml").write_text(text + more)
    return text


def decided(folder: Path, target: str = "cuda") -> dict[str, str]:
    """What contractions become in a training step."""
    found = lower(load_model(folder / "model.yaml", {}), backend(target).capabilities, verify=True).decisions
    named = {d.subject: d.verdict for d in found if d.pass_name == "one_tap"}
    return {n.removeprefix("train: "): v for n, v in named.items() if n.startswith("train")}


def test_wide_ones_of_few_channels_are_products(tmp_path: Path) -> None:
    model(tmp_path, "conv1d", (128, 1024), 1024, 32)
    found = decided(tmp_path)
    assert found["conv1d_1.sum.grouped"] == "a product" and not decided(tmp_path, "cpu")
    for numerics in ("{precision: float64}", "{precision: mixed}", "{order: bitwise}"):
        model(tmp_path, "conv1d", (128, 1024), 1024, 32, f"numerics: {numerics}\n")
        assert not decided(tmp_path), numerics
    model(tmp_path, "conv1d", (16, 1024), 16, 32)
    assert {*decided(tmp_path).values()} == {"as it is"}


@pytest.mark.parametrize(("kind", "shape"), [("conv1d", (12, 14)), ("conv2d", (12, 6, 5))])
def test_results_and_gradients_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, shape: tuple[int, ...]
) -> None:
    """Of all of them, whether they gain or not."""
    text, weights = model(tmp_path, kind, shape, 32, 64), []
    monkeypatch.setattr(one_tap, "GAIN", 1e9)
    replaced = [n for n, verdict in decided(tmp_path).items() if verdict == "a product"]
    assert len(replaced) == 5, replaced  # two forward, two towards weights, one towards an image
    for only in (None, frozenset[str]()):
        trained = load(text, tmp_path, "reference", lowered_for="cuda", only=only)
        trained.step(1, range(64))
        weights.append(trained.weights())
    least = 1e-6 * max(np.abs(w).max() for w in weights[1].values())  # in front of a norm biases change by rounding
    for name, expected in weights[1].items():
        atol = 1e-5 * np.abs(expected).max() + least
        np.testing.assert_allclose(weights[0][name], expected, rtol=0, atol=atol, err_msg=name)
