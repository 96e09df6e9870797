"""Streamed samples, masks and a confusion matrix on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.runtime.artifacts.results import RunResult
from netloom import run

pytestmark = pytest.mark.gpu

MODEL = """\
language: 1
name: on_gpu
network:
  inputs: {x: {shape: [12]}, y: {shape: [3], dtype: int32}, m: {shape: []}}
  layers:
    - dense: {inputs: x, units: 20, activation: relu}
    - dense: {units: 12}
    - reshape: {name: out, shape: [3, 4]}
train:
  data: {file: s.npz, inputs: {x: x, y: y, m: m}, split: {validation: 0.2}, memory: MEMORY}
  loss: {softmax_cross_entropy: {logits: out, target: y, mask: m, ignore: -1}}
  metrics: [accuracy, confusion]
  optimizer: {adam: {learning_rate: 1e-2}}
  batch: 32
  epochs: 3
"""


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[RunResult, RunResult, RunResult]:
    """On the GPU in parts, with all samples in its memory, and on the CPU."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("s.npz", x=rng.normal(size=(500, 12)), y=rng.integers(-1, 4, (500, 3)), m=rng.integers(0, 2, 500))
    found = []
    for memory, target in (("0.01 MB", "cuda"), ("1 GB", "cuda"), ("1 GB", "cpu")):
        path = tmp_path / f"{len(found)}.yaml"
        path.write_text(MODEL.replace("MEMORY", memory), encoding="utf-8")
        found.append(run(path, target))
    return found[0], found[1], found[2]


def test_parts_are_the_whole(trained: tuple[RunResult, RunResult, RunResult]) -> None:
    parts, whole, cpu = trained
    for name, values in parts.weights().items():
        assert values.tobytes() == whole.weights()[name].tobytes(), name
        np.testing.assert_allclose(values, cpu.weights()[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert parts.metrics == whole.metrics
    np.testing.assert_array_equal(parts.confusion("training"), whole.confusion("training"))
    assert np.abs(parts.confusion("training") - cpu.confusion("training")).sum() <= 4
