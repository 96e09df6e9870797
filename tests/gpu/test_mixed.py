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
from compiler.passes.pipeline.lower import lower
from tests.gpu.test_training import give_order

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
