"""Chains (persistent RNNs) on a GPU: losses agree with the CPU, and runs are bitwise reproducible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.device.device import Device
from backends.cuda.run.backend import CudaBackend
from backends.protocol import Instance
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level2.program import Merged
from compiler.ir.space import Role
from compiler.passes.pipeline.lower import lower
from tests.recurrent import Network, network

pytestmark = pytest.mark.gpu

STEPS = 20
NETWORKS = [
    Network("rnn", 64, 50),
    Network("gru", 64, 20, layers=2),
    Network("lstm", 64, 20, layers=2, bidirectional=True),
    Network("gru", 128, 10),
    Network("rnn", 200, 6),
    Network("lstm", 33, 7, batch=300, masked=True),
    Network("lstm", 48, 9, begun=True),
    Network("gru", 40, 8, layers=2, bidirectional=True, begun=True),
]
CLUSTERED = [
    Network("lstm", 128, 10),
    Network("gru", 128, 10, batch=20, masked=True),
    Network("gru", 256, 6, bidirectional=True),
    Network("rnn", 256, 5, batch=20),
    Network("gru", 200, 6, begun=True),
    Network("lstm", 200, 6, batch=33),
]
"""With matrices that the blocks of a cluster divide."""
SPREAD = [
    Network("lstm", 300, 6, layers=2, batch=20),
    Network("gru", 400, 6, bidirectional=True),
    Network("gru", 333, 4, batch=9, masked=True),
    Network("lstm", 512, 4),
    Network("lstm", 340, 5, begun=True),
    Network("lstm", 1024, 3),
]
"""With matrices that no block can have; the last ones are summed on matrix units."""


def lowered(model: Model, backend: CpuBackend | CudaBackend) -> Merged:
    return lower(model, backend.capabilities, True).merged


def start(instance: Instance, program: Merged, batch: int) -> None:
    """Batches of the same samples for every target, which may pad them."""
    samples = min(a.shape[0] for a in program.arrays if a.name.startswith("data."))
    for name, shape in ((a.name, a.shape) for a in program.arrays if a.name in ("train.order", "eval.order")):
        order = np.full(shape, -1, np.int32)
        order[:, :batch] = np.random.default_rng(5).integers(0, samples, (shape[0], batch))
        instance.write(name, order)


def losses(instance: Instance) -> list[float]:
    found = []
    for step in range(1, STEPS + 1):
        assert instance.run("train", step, 1) == 1
        found.append(float(instance.read("train/loss")[0]))
    assert instance.run("eval", 1, 1) == 1
    return [*found, float(instance.read("metric.loss")[0])]


def weights(instance: Instance, program: Merged) -> dict[str, np.ndarray]:
    return {a.name: instance.read(a.name) for a in program.arrays if a.role in (Role.WEIGHT, Role.STATE)}


def compared(folder: Path, model: Model, batch: int) -> None:
    found = []
    for backend, name in ((CpuBackend(), "cpu"), (CudaBackend(), "cuda"), (CudaBackend(), "again")):
        program = lowered(model, backend)
        instance = backend.load(backend.build(program, folder / name, {}), program, 3)
        start(instance, program, batch)
        found.append((losses(instance), weights(instance, program)))
        instance.close()
    (cpu, _), (cuda, once), (_, again) = found
    np.testing.assert_allclose(cuda, cpu, rtol=1e-4, atol=1e-6)
    for name, values in once.items():
        assert np.array_equal(values, again[name]), name


@pytest.mark.parametrize("n", NETWORKS, ids=str)
def test_losses_are_those_of_the_cpu(tmp_path: Path, n: Network) -> None:
    model = network(tmp_path, n)
    program = lowered(model, CudaBackend())
    assert all(p.chains for p in program.phases if p.name in ("train", "eval"))
    compared(tmp_path, model, n.batch)


@pytest.mark.parametrize(
    ("n", "way"), [*((n, "spread") for n in SPREAD), *((n, "cluster") for n in CLUSTERED)], ids=str
)
def test_losses_of_matrices_that_blocks_divide(tmp_path: Path, n: Network, way: str) -> None:
    model = network(tmp_path, n)
    program = lowered(model, CudaBackend())
    assert all(c.pays and getattr(c, way) > 1 for p in program.phases if p.name == "train" for c in p.chains)
    compared(tmp_path, model, n.batch)


def test_losses_of_the_model_that_reads_digits(tmp_path: Path, root: Path) -> None:
    model = load_model(root / "models" / "lstm.yaml", {})
    compared(tmp_path, model, 64)


@pytest.mark.parametrize("units", [150, 400])
def test_divided_matrices_in_float64(tmp_path: Path, units: int) -> None:
    n = Network("gru", units, 6)
    compared(tmp_path, network(tmp_path, n, "float64"), n.batch)


def test_chains_in_float64(tmp_path: Path) -> None:
    n = Network("gru", 40, 6)
    compared(tmp_path, network(tmp_path, n, "float64"), n.batch)


def test_a_chain_that_has_no_room_is_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its launches run step by step, with what each step makes in its place."""
    n = Network("gru", 64, 6, layers=2)
    monkeypatch.setattr(Device, "room", lambda self, function: 10_000)
    compared(tmp_path, network(tmp_path, n), n.batch)
