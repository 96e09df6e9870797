"""Losses of places (triplet, cosine_embedding, info_nce) against their definitions in numpy: values, gradients (central
differences), masks; C has the bits of the reference. PyTorch's: tests/torch/test_grid.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.metrics import metrics_of
from compiler.runtime.training.run_training import take_sums
from tests.numeric.simulated import Array, model_of
from tests.numeric.trained import Trained, load

TEXT = """\
language: 1
name: places
network:
  inputs: {x: {shape: [3]}, z: {shape: [2]}, same: {shape: []}, there: {shape: []}}
  layers:
    - dense: {name: a, inputs: x, units: 2}
    - dense: {name: b, inputs: z, units: 2, bias: false}
train:
  data: {file: samples.npz, inputs: {x: x, z: z, same: same, there: there}, shuffle: false}
  loss:
    sum:
      - loss: {triplet: {anchor: a, positive: b, negative: z}}
      - {weight: 0.5, loss: {triplet: {anchor: b, positive: z, negative: a, margin: 3, swap: true}}}
      - loss: {cosine_embedding: {anchor: a, other: b, target: same, margin: -0.2}}
      - loss: {info_nce: {anchor: a, positive: b, temperature: 0.5}}
      - {weight: 2, loss: {info_nce: {anchor: a, positive: z, symmetric: true, mask: there, temperature: 0.8}}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 6
  epochs: 1
numerics: {precision: float64, order: bitwise}
"""


def samples(folder: Path) -> dict[str, Array]:
    rng = np.random.default_rng(2)
    found = {"x": rng.normal(size=(10, 3)), "z": rng.normal(size=(10, 2)), "same": rng.choice([-1.0, 1.0], 10)}
    found["there"] = np.array([1, 1, 0, 1, 1, 0, 1, 0, 1, 1.0])
    np.savez(folder / "samples.npz", **found)
    return found


def triplet(a: Array, p: Array, n: Array, margin: float, swap: bool = False) -> float:
    near, far, other = (np.sqrt(((u - v + 1e-6) ** 2).sum(-1)) for u, v in ((a, p), (a, n), (p, n)))
    return float(np.maximum(0, margin + near - (np.minimum(far, other) if swap else far)).mean())


def unit(x: Array) -> Array:
    out: Array = x / np.sqrt((x * x).sum(-1, keepdims=True))
    return out


def choice(a: Array, b: Array, temperature: float) -> float:
    scores = unit(a) @ unit(b).T / temperature
    return float((np.log(np.exp(scores).sum(-1)) - np.diag(scores)).mean())


def loss(w: dict[str, Array], data: dict[str, Array], rows: Array) -> float:
    x, z, same, there = (data[n][rows] for n in ("x", "z", "same", "there"))
    a, b = x @ w["a.weight"].T + w["a.bias"], z @ w["b.weight"].T
    cosine = (unit(a) * unit(b)).sum(-1)
    total = triplet(a, b, z, 1.0) + 0.5 * triplet(b, z, a, 3.0, True)
    total += float(np.where(same > 0, 1 - cosine, np.maximum(0, cosine + 0.2)).mean()) + choice(a, b, 0.5)
    kept = there > 0
    return total + choice(a[kept], z[kept], 0.8) + choice(z[kept], a[kept], 0.8)


def stepped(trained: Trained, start: dict[str, Array], rows: Array) -> tuple[float, dict[str, Array]]:
    """The loss of a batch and its gradients."""
    for key, value in start.items():
        trained.write(key, value)
    trained.step(1, rows.tolist())
    found = metrics_of(take_sums(trained.instance, trained.program))["loss"]
    return found, {k: start[k] - v for k, v in trained.weights().items()}


@pytest.mark.usefixtures("cc", "not_optimized")
def test_values_and_gradients(tmp_path: Path) -> None:
    data = samples(tmp_path)
    both = [load(TEXT, tmp_path, target) for target in ("cpu", "reference")]
    start = both[0].weights()
    for rows in (np.arange(6), np.arange(6, 10)):
        found, gradients = stepped(both[0], start, rows)
        assert found == pytest.approx(loss(start, data, rows), rel=1e-11)
        for key, value in start.items():
            for at in np.ndindex(*value.shape):
                ends = []
                for sign in (1e-6, -1e-6):
                    moved = value.copy()
                    moved[at] += sign
                    ends.append(loss(start | {key: moved}, data, rows))
                assert gradients[key][at] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-8)
        again, others = stepped(both[1], start, rows)
        assert again == found and all(others[k].tobytes() == g.tobytes() for k, g in gradients.items())


@pytest.mark.nvrtc
def test_cuda_compiles(tmp_path: Path) -> None:
    from backends.cuda.run.backend import CudaBackend

    samples(tmp_path)
    target = CudaBackend()
    program = lower(model_of(TEXT, tmp_path), target.capabilities, verify=True).merged
    assert target.build(program, tmp_path / "build", {"arch": "sm_90"}).binary.stat().st_size > 0
