"""Connectionist temporal classification against its definition, a sum over all ways to spread labels over steps:
values, gradients (central differences), lengths, labels that do not fit, the error rate; the reference has equal bits.
PyTorch's: tests/torch/test_ctc.py."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.numeric.simulated import Array, model_of
from tests.numeric.trained import Trained, load

STEPS, LABELS, CLASSES = 5, 2, 3
BLANK = 1
TEXT = f"""\
language: 1
name: spoken
network:
  inputs: {{x: {{shape: [{STEPS}, 2]}}, words: {{shape: [{LABELS}], dtype: int32}}, steps: {{shape: [], dtype: int32}},
           count: {{shape: [], dtype: int32}}}}
  layers:
    - dense: {{name: scores, inputs: x, units: {CLASSES}}}
train:
  data: {{file: samples.npz, inputs: {{x: x, words: words, steps: steps, count: count}}, shuffle: false}}
  loss: {{ctc: {{logits: scores, target: words, LENGTHSblank: {BLANK}}}}}
  metrics: [label_error_rate]
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 6
  epochs: 1
numerics: {{precision: float64, order: bitwise}}
"""
LENGTHS = "input_lengths: steps, target_lengths: count, "
WAYS = np.array(list(itertools.product(range(CLASSES), repeat=STEPS)))


def samples(folder: Path) -> dict[str, Array]:
    """Of which the sixth has two labels in one step, and the second no label."""
    rng = np.random.default_rng(3)
    words = np.array([[0, 2], [0, 0], [2, 2], [0, 0], [2, 0], [2, 0], [0, 2], [2, 2], [0, 0]], np.int32)
    found = {
        "x": rng.normal(size=(9, STEPS, 2)),
        "words": words,
        "steps": np.array([5, 4, 3, 5, 2, 1, 4, 5, 3], np.int32),
        "count": np.array([2, 0, 2, 1, 2, 2, 1, 2, 2], np.int32),
    }
    np.savez(folder / "samples.npz", **found)
    return found


def merged(way: Array) -> list[int]:
    return [int(k) for k, _ in itertools.groupby(way) if k != BLANK]


def fitting(words: Array, steps: int) -> Array:
    """The ways, of so many steps, that are these labels."""
    ways = np.unique(WAYS[:, :steps], axis=0)
    return ways[[merged(w) == words.tolist() for w in ways]]


def loss(w: dict[str, Array], data: dict[str, Array], rows: Array) -> float:
    losses = []
    for n in rows:
        scores = data["x"][n] @ w["scores.weight"].T + w["scores.bias"]
        logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
        ways = fitting(data["words"][n, : data["count"][n]], data["steps"][n])
        if len(ways):
            chance = np.exp(logs[np.arange(ways.shape[1]), ways].sum(-1)).sum()
            losses.append(-math.log(chance) / max(data["count"][n], 1))
        else:
            losses.append(math.inf)
    return float(np.mean(losses))


def distance(a: list[int], b: list[int]) -> int:
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


def error_rate(w: dict[str, Array], data: dict[str, Array], rows: Array) -> float:
    best = (data["x"] @ w["scores.weight"].T + w["scores.bias"]).argmax(-1)
    edits = [distance(merged(best[n, : data["steps"][n]]), data["words"][n, : data["count"][n]].tolist()) for n in rows]
    return sum(edits) / int(data["count"][rows].sum())


def stepped(trained: Trained, start: dict[str, Array], rows: Array) -> tuple[dict[str, float], dict[str, Array]]:
    """The metrics of a batch and its gradients."""
    for key, value in start.items():
        trained.write(key, value)
    trained.step(1, rows.tolist())
    return metrics_of(take_sums(trained.instance, trained.program)), {
        k: start[k] - v for k, v in trained.weights().items()
    }


@pytest.mark.usefixtures("cc", "not_optimized")
def test_values_and_gradients(tmp_path: Path) -> None:
    data, text = samples(tmp_path), TEXT.replace("LENGTHS", LENGTHS)
    both = [load(text, tmp_path, target) for target in ("cpu", "reference")]
    start = {k: 1.5 * v for k, v in both[0].weights().items()}
    for rows in (np.array([0, 1, 2, 3, 4, 6]), np.array([7, 8, 0])):
        found, gradients = stepped(both[0], start, rows)
        assert found["loss"] == pytest.approx(loss(start, data, rows), rel=1e-12)
        assert found["label_error_rate"] == error_rate(start, data, rows) > 0
        for key, value in start.items():
            for at in np.ndindex(*value.shape):
                moved = [start | {key: value + sign * 1e-6 * (np.indices(value.shape).T == at).all(-1).T.astype(float)}
                         for sign in (1, -1)]  # fmt: skip
                slope = (loss(moved[0], data, rows) - loss(moved[1], data, rows)) / 2e-6
                assert gradients[key][at] == pytest.approx(slope, abs=2e-8)
        assert max(float(np.abs(g).max()) for g in gradients.values()) > 1e-2
        again, others = stepped(both[1], start, rows)
        assert again == found and all(others[k].tobytes() == g.tobytes() for k, g in gradients.items())


@pytest.mark.usefixtures("cc", "not_optimized")
@pytest.mark.parametrize("zero", [False, True])
def test_labels_that_do_not_fit(tmp_path: Path, zero: bool) -> None:
    """Their loss is infinite or 0, and they have no gradient; so it is in a batch that is not full, too."""
    data, text = samples(tmp_path), TEXT.replace("LENGTHS", LENGTHS + "zero_infinity: true, " * zero)
    trained = load(text.replace("bitwise", "fast"), tmp_path, "reference")
    start, (fits, not_all) = trained.weights(), ([4], [4, 5])
    _, alone = stepped(trained, start, np.array(fits))
    found, gradients = stepped(trained, start, np.array(not_all))
    assert loss(start, data, np.array([5])) == math.inf
    assert found["loss"] == pytest.approx(loss(start, data, np.array(fits)) / 2 if zero else math.inf)
    for key, gradient in gradients.items():
        np.testing.assert_allclose(2 * gradient, alone[key], rtol=0, atol=1e-12)


@pytest.mark.nvrtc
def test_cuda_compiles(tmp_path: Path) -> None:
    from backends.cuda.run.backend import CudaBackend

    samples(tmp_path)
    target = CudaBackend()
    program = lower(model_of(TEXT.replace("LENGTHS", LENGTHS), tmp_path), target.capabilities, verify=True).merged
    assert target.build(program, tmp_path / "build", {"arch": "sm_90"}).binary.stat().st_size > 0
