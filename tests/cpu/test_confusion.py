"""The confusion matrix of a training: counted by hand from predictions, in its file, its plot and `evaluate`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import evaluate_file
from compiler.runtime.training.data import split
from netloom import check, predict, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.grids import slow

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized")

MODEL = DIGITS.replace("metrics: [accuracy]", "metrics: [accuracy, confusion, f1]").replace(
    "    - dropout: {rate: 0.1}\n", "    - dense: {name: f1, units: 9}\n    - dense: {name: confusion, units: 8}\n"
)  # layers may have the names of metrics
assert "confusion" in MODEL


def counted(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
    classes = scores.shape[-1]
    found = np.zeros((classes, classes))
    np.add.at(
        found, (labels.reshape(-1), scores.argmax(-1).reshape(-1)), np.broadcast_to(weights, labels.shape).ravel()
    )
    return found


@pytest.mark.parametrize("target", ["cpu", *slow("reference")])
def test_of_a_run(here: Path, root: Path, target: str) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    path = write(here, MODEL)
    first = run(path, epochs=1, target=target)
    result = run(path, epochs=2, target=target, resume=first.folder)
    lines = [json.loads(line) for line in (result.folder / "confusion.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    data = np.load(here / "digits.npz")
    scores = predict(result.folder, data["flat"], target=target)["logits"]
    _, kept = split(len(scores), 0.25, 2)
    wanted = counted(scores[kept], data["labels"][kept])
    np.testing.assert_array_equal(result.confusion(), wanted)
    assert np.trace(wanted) / wanted.sum() == pytest.approx(result.metrics["validation_accuracy"])
    assert result.confusion("training").sum() == len(scores) - len(kept)
    assert "confusion" not in str(result.history())
    measured = evaluate_file(result.folder, Options(target=target), here / "digits.npz")
    np.testing.assert_array_equal(measured.confusion, counted(scores, data["labels"]))
    assert {"plots/confusion.png", "plots/confusion.svg"} <= set(result.record["plots"])


@pytest.mark.parametrize("places", [[3], [1, 3]], ids=str)
def test_of_places_with_a_mask(here: Path, places: list[int]) -> None:
    rng = np.random.default_rng(3)
    x, y, m = rng.normal(size=(50, 6)), rng.integers(-1, 4, (50, *places)), rng.integers(0, 3, 50) / 2
    np.savez(here / "s.npz", x=x, y=y, m=m)
    path = write(
        here,
        f"""\
language: 1
network:
  inputs: {{x: {{shape: [6]}}, y: {{shape: {places}, dtype: int32}}, m: {{shape: []}}}}
  layers:
    - dense: {{inputs: x, units: 12}}
    - reshape: {{name: out, shape: {[*places, 4]}}}
train:
  data: {{file: s.npz, inputs: {{x: x, y: y, m: m}}}}
  loss: {{softmax_cross_entropy: {{logits: out, target: y, mask: m, ignore: -1}}}}
  metrics: [confusion, accuracy, precision]
  optimizer: {{sgd: {{learning_rate: 0}}}}
  batch: 8
  epochs: 1
""",
    )
    result = run(path)
    scores = predict(result.folder, {"x": x})["out"]
    weights = m.reshape(-1, *(1 for _ in places)) * (y >= 0)
    wanted = counted(scores, np.maximum(y, 0), weights)
    np.testing.assert_array_equal(result.confusion("training"), wanted)
    assert np.trace(wanted) / wanted.sum() == pytest.approx(result.metrics["accuracy"])
    precision = wanted.diagonal() / np.maximum(wanted.sum(0), 1)
    assert precision.mean() == pytest.approx(result.metrics["precision"])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("  stop: {metric: confusion, patience: 2}\n", "E0201", "`confusion`"),
        (
            "expect:\n  - metric: {name: validation_confusion, at_least: 1}\n",
            "E0213",
            "there is no metric `validation_confusion`",
        ),
    ],
)
def test_it_is_no_number(here: Path, root: Path, text: str, code: str, message: str) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    (found,) = check(write(here, MODEL + text))
    assert found.code == code and message in found.message
