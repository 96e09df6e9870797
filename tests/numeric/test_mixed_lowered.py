"""Mixed precision, lowered for a GPU: gradients of recurrent layers, which begin as bf16, reach states of float32; sums
that products have of their tiles are those over all rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from tests.numeric.trained import load

TEXT = """
language: 1
name: mixed
network:
  inputs: {x: {shape: SHAPE}, y: {shape: [3]}}
  layers:
LAYERS
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
RECURRENT = """\
    - KIND: {inputs: x, units: 4}
    - noise: {std: 0.1}
    - dropout: {rate: 0.3}"""
NORMALISED = """\
    - conv2d: {inputs: x, filters: 64, kernel: 1}
    - batch_norm: {}
    - activation: {function: relu}
    - conv2d: {filters: 64, kernel: 1, bias: false}
    - batch_norm: {}
    - activation: {function: relu}
    - global_avg_pool: {}"""


def model(folder: Path, shape: tuple[int, ...], layers: str) -> str:
    random = np.random.default_rng(1)
    x, y = 2 + random.normal(size=(16, *shape)), random.normal(size=(16, 3))
    np.savez(folder / "data.npz", x=x.astype(np.float32), y=y.astype(np.float32))
    return TEXT.replace("SHAPE", str([*shape])).replace("LAYERS", layers)


def compare(text: str, folder: Path, samples: int) -> None:
    """A step of the program for a GPU, run by the interpreter, with one of the definition."""
    changes = []
    for lowered_for in ("", "cuda"):
        trained = load(text, folder, "reference", lowered_for=lowered_for)
        begun = trained.weights() | trained.statistics()
        trained.step(1, range(samples))
        changes.append({n: w - begun[n] for n, w in (trained.weights() | trained.statistics()).items()})
    for name, expected in changes[0].items():
        most = 0.02 * max(np.abs(expected).max(), 1e-3)
        np.testing.assert_allclose(changes[1][name], expected, rtol=0, atol=most, err_msg=name)


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_gradients_of_the_last_state(kind: str, tmp_path: Path) -> None:
    compare(model(tmp_path, (5, 6), RECURRENT.replace("KIND", kind)), tmp_path, 16)


def test_sums_over_tiles(tmp_path: Path) -> None:
    """Of a variance, of the gradients of a scale and a shift; with samples that are not there."""
    text = model(tmp_path, (8, 8, 8), NORMALISED)
    (tmp_path / "model.yaml").write_text(text)
    found = lower(load_model(tmp_path / "model.yaml", {}), backend("cuda").capabilities).decisions
    assert [d.verdict for d in found if d.pass_name == "sum_in_tiles"].count("summed") >= 3
    compare(text, tmp_path, 11)
