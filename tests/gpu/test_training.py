"""Training on a GPU: losses agree with the CPU per step, and CUDA graphs, single steps and repeated runs are bitwise
equal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from backends.protocol import Instance
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.ir.space import Role
from compiler.passes.pipeline.lower import lower

pytestmark = pytest.mark.gpu

MODELS = ["lenet_digits", "custom_optimizer"]
OTHERS = ["mlp", "lenet5", "resnet20", "autoencoder", "transformer", "lstm"]
STEPS = 20


def lowered(root: Path, name: str, backend: object, precision: str = "float32") -> Merged:
    model = load_model(root / "models" / f"{name}.yaml", {})
    model = replace(model, numerics=replace(model.numerics, precision=precision))
    return lower(model, backend.capabilities, True).merged  # type: ignore[attr-defined]


def give_order(instance: Instance, program: Merged) -> None:
    """An epoch of batches of 32 samples, the same for every target (whose batches may be padded to lanes)."""
    shape = next(a.shape for a in program.arrays if a.name == "train.order")
    samples = min(a.shape[0] for a in program.arrays if a.name.startswith("data."))
    order = np.full(shape, -1, np.int32)
    batch = 32
    order[:, :batch] = np.random.default_rng(5).integers(0, min(1000, samples), (shape[0], batch))
    instance.write("train.order", order)


def weights(instance: Instance, program: Merged) -> dict[str, np.ndarray]:
    return {a.name: instance.read(a.name) for a in program.arrays if a.role in (Role.WEIGHT, Role.STATE)}


@pytest.mark.parametrize("name", [*MODELS, *OTHERS])
def test_losses_are_those_of_the_cpu(tmp_path: Path, root: Path, name: str) -> None:
    """Within 1e-4 over 20 steps: sums are in another order, and nothing else differs. ResNet-20 amplifies rounding a
    thousandfold in each of its first steps, so that only float64 says anything."""
    precision = "float64" if name == "resnet20" else "float32"
    losses = []
    for backend, folder in ((CpuBackend(), "cpu"), (CudaBackend(), "cuda")):
        program = lowered(root, name, backend, precision)
        instance = backend.load(backend.build(program, tmp_path / folder, {}), program, 3)  # type: ignore[attr-defined]
        give_order(instance, program)
        found = []
        for step in range(1, STEPS + 1):
            assert instance.run("train", step, 1) == 1
            found.append(float(instance.read("train/loss")[0]))
        losses.append(found)
        instance.close()
    assert losses[0][0] > losses[0][-1] > 0
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_graphs_are_the_steps_one_by_one(tmp_path: Path, root: Path, name: str) -> None:
    """Concurrent launches and the number of steps per graph do not change any bit."""
    backend = CudaBackend()
    program = lowered(root, name, backend)
    artifact = backend.build(program, tmp_path, {})
    runs = []
    for check, sizes in ((True, [60]), (False, [60]), (False, [1, 2, 3, 5, 7, 11, 13, 18]), (False, [60])):
        instance = CudaBackend(check=check).load(artifact, program, 3)
        give_order(instance, program)
        done = 0
        for size in sizes:
            assert instance.run("train", done + 1, size) == size
            done += size
        runs.append(weights(instance, program))
        instance.close()
    for other in runs[1:]:
        for n, values in runs[0].items():
            assert np.array_equal(values, other[n]), n
