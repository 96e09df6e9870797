"""Mixed precision on a GPU: its losses beside those of float32, and those of the CPU, which rounds where it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from compiler.frontend.load import load_model
from compiler.ir.space import DType
from compiler.passes.pipeline import tensors
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.tuning import tune_model
from compiler.tune.wishes import Wishes
from tests.gpu.test_training import give_order
from tests.numeric.simulated import model_of
from tests.numeric.trained import load

pytestmark = pytest.mark.gpu

STEPS = 200
LAST = 20
MODELS = ["lenet_digits", "mlp", "transformer", "lstm", "resnet20"]


def losses(
    root: Path, name: str, precision: str, backend: CpuBackend | CudaBackend, folder: Path, steps: int
) -> np.ndarray:
    model = load_model(root / "models" / f"{name}.yaml", {})
    model = replace(model, numerics=replace(model.numerics, precision=precision))
    program = lower(model, backend.capabilities, True).merged
    stored = any(a.dtype is DType.BF16 for a in program.arrays)
    assert stored == (precision == "mixed" and isinstance(backend, CudaBackend))
    instance = backend.load(backend.build(program, folder, {}), program, 3)
    give_order(instance, program)
    found = []
    for step in range(1, steps + 1):
        assert instance.run("train", step, 1) == 1
        found.append(float(instance.read("train/loss")[0]))
    instance.close()
    return np.array(found)


@pytest.mark.parametrize("name", MODELS)
def test_losses_are_no_worse_than_those_of_float32(name: str, root: Path, tmp_path: Path) -> None:
    """Of 200 steps, over the last 20; batches are drawn, so that losses of steps scatter by more than they differ."""
    exact, mixed = (losses(root, name, p, CudaBackend(), tmp_path / p, STEPS) for p in ("float32", "mixed"))
    first, last, other = exact[:LAST].mean(), exact[-LAST:].mean(), mixed[-LAST:].mean()
    print(f"{name}: first {first:.4f}, last float32 {last:.4f}, mixed {other:.4f}")
    assert last < first
    assert abs(other - last) < 0.1 * (first - last) + 0.01


@pytest.mark.parametrize("name", ["lenet_digits", "mlp", "transformer"])
def test_losses_are_those_of_the_cpu(name: str, root: Path, tmp_path: Path) -> None:
    """Values are rounded at the same places, but sums before that are in another order."""
    here, there = (
        losses(root, name, "mixed", b, tmp_path / n, 10) for n, b in (("a", CudaBackend()), ("b", CpuBackend()))
    )
    np.testing.assert_allclose(here, there, rtol=5e-3)


ODD = """\
language: 1
name: odd
network:
  inputs: {x: {shape: [301]}, label: {shape: [], dtype: int32}}
  layers:
    - dense: {name: wide, inputs: x, units: 517, activation: relu}
    - dense: {name: narrow, units: 259, activation: tanh}
    - dense: {name: logits, units: 4097}
train:
  data: {file: samples.npz, inputs: {x: x, label: label}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: 250
  epochs: 1
  seed: 1
numerics: {NUMERICS}
"""


def odd(folder: Path, numerics: str) -> str:
    """The model with its samples in the folder."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4097, 500).astype(np.int32)
    np.savez(folder / "samples.npz", x=rng.normal(size=(500, 301)).astype(np.float32), label=label)
    return ODD.replace("NUMERICS", numerics)


@pytest.mark.parametrize("numerics", ["precision: mixed", "products: tf32"])
def test_padded_rows_change_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numerics: str) -> None:
    """Beside rows side by side, whose products have another order, by as much as rounding changes the weights."""
    text, found = odd(tmp_path, numerics), []
    lowered = lower(model_of(text, tmp_path), CudaBackend().capabilities)
    padded = {d.subject for d in lowered.decisions if d.pass_name == "pad_rows"}
    assert "train: logits.biased.grad.sum" in padded
    for on in (True, False):
        if not on:
            monkeypatch.setattr(tensors, "pad_rows", lambda nodes, *_: (nodes, ()))
        trained = load(text, tmp_path, "cuda")
        before = trained.weights()
        for step, samples in enumerate((range(250), range(250, 500), range(100, 333)), 1):
            trained.step(step, samples)
        found.append({name: w - before[name] for name, w in trained.weights().items()})
        trained.instance.close()
    for name, change in found[0].items():
        apart = np.linalg.norm(change - found[1][name]) / np.linalg.norm(change)
        assert apart < 0.02, name


def test_products_of_padded_rows_are_tuned(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(odd(tmp_path, "precision: mixed"))
    result = tune_model(tmp_path / "model.yaml", Options(target="cuda"), wishes=Wishes(1, whole=False))
    paths = {row.path for row in result.rows}
    assert {"train/narrow.activated.grad", "train/logits.weight.grad"} <= paths
    assert not [row for row in result.rows if row.wrong]
