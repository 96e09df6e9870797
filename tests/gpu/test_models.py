"""The models of models/ on a GPU: spiking ones are bitwise equal to cpu and reference, training agrees in its
losses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tests.cpu.test_nests as on_cpu
from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.cuda_graphs import ExecutionMode
from backends.protocol import BackendError, Instance
from backends.reference.load import ReferenceInstance
from compiler.frontend.load import load_model
from compiler.ir.level2.program import ELEMENT, Dim, Merged, Mode, Nest
from compiler.passes.pipeline.lower import lower
from compiler.passes.program.merge import merge
from tests.cpu.programs import assign

pytestmark = pytest.mark.gpu

SMALL = {
    "cuba": {"n_exc": "200", "n_inh": "50", "p": "0.1"},
    "microcircuit": {"scale_n": "0.01", "scale_k": "0.1"},
}
OTHERS: dict[str, tuple[dict[str, str], int]] = {
    "stdp": ({}, 2000),
    "brunel": ({"scale": "0.05"}, 1000),
    "spiking_conv": ({}, 60),
    "izhikevich_patterns": ({}, 4000),
    "pooled_inhibition": ({}, 200),
    "ring_10k": ({"n": "50"}, 1000),
    "distal_reward": ({}, 1000),
    "polychronization": ({}, 1000),
    "synfire": ({}, 700),
    "population_bursts": ({}, 1000),
    "multi_area_structure": ({}, 300),
}
"""Settings and steps of the other spiking models."""
SPIKES = "'spikes'record"


def lowered(
    root: Path, name: str, backend: object, order: str, precision: str, settings: dict[str, str] | None = None
) -> Merged:
    model = load_model(root / "models" / f"{name}.yaml", SMALL[name] if settings is None else settings)
    model = replace(model, numerics=replace(model.numerics, order=order, precision=precision))
    return lower(model, backend.capabilities, True).merged  # type: ignore[attr-defined]


def simulate(instance: Instance, program: Merged, steps: int) -> dict[str, np.ndarray]:
    """Run and drain: spikes by population, sorted by step and id."""
    names = [a.name for a in program.arrays if a.name.endswith(SPIKES)]
    counters = [a.name for a in program.arrays if a.name.endswith("'used")]
    found: dict[str, list[np.ndarray]] = {n: [] for n in names}
    done = 0
    while done < steps:
        ran = instance.run("step", done + 1, steps - done)
        assert ran > 0
        done += ran
        for n in names:
            used = int(instance.read(f"{n}'used")[0])
            pairs = instance.read(n).reshape(-1, 2)[:used]
            found[n].append(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
        for n in counters:
            instance.write(n, np.zeros(1, np.int64))
    return {n: np.concatenate(v) for n, v in found.items()}


@pytest.mark.parametrize("name", list(SMALL))
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_spiking_models_are_bitwise_equal(tmp_path: Path, root: Path, name: str, precision: str) -> None:
    cuda, cpu = CudaBackend(), CpuBackend()
    ours, theirs = (lowered(root, name, b, "bitwise", precision) for b in (cuda, cpu))
    here = cuda.load(cuda.build(ours, tmp_path / "cuda", {}), ours, 3)
    there = cpu.load(cpu.build(theirs, tmp_path / "cpu", {}), theirs, 3)
    reference = ReferenceInstance(ours, 3)
    kept = [a.name for a in ours.arrays if a.role.value in ("state", "weight", "synapse", "const")]
    for n in kept:
        assert np.array_equal(here.read(n), reference.read(n)), n
    spikes = simulate(here, ours, 400)
    assert sum(len(v) for v in spikes.values()) > 50
    for other, program in ((there, theirs), (reference, ours)):
        for n, pairs in simulate(other, program, 400).items():
            assert np.array_equal(spikes[n], pairs), n
    for n in kept:
        assert np.array_equal(here.read(n), there.read(n)), n
    here.close()


@pytest.mark.parametrize("way", list(ExecutionMode), ids=["graphs", "waves"])
@pytest.mark.parametrize("name", [*SMALL, *OTHERS])
def test_every_spiking_model_gives_the_bits_of_the_cpu(
    tmp_path: Path, root: Path, name: str, way: ExecutionMode
) -> None:
    """Spikes, states and learned weights, in all ways to run a simulation."""
    settings, steps = OTHERS.get(name, (SMALL.get(name, {}), 1000))
    instances, found = [], []
    for folder, backend in (("cpu", CpuBackend()), ("cuda", CudaBackend(way=way))):
        program = lowered(root, name, backend, "bitwise", "float32", settings)
        instance = backend.load(backend.build(program, tmp_path / folder, {}), program, 3)  # type: ignore[attr-defined]
        instances.append((instance, program))
        found.append(simulate(instance, program, steps))
    (there, _), (here, program) = instances
    for n, pairs in found[0].items():
        assert np.array_equal(found[1][n], pairs), n
    kept = [a.name for a in program.arrays if a.role.value in ("state", "weight", "synapse")]
    for n in kept:
        assert np.array_equal(here.read(n), there.read(n), equal_nan=True), n
    assert sum(len(v) for v in found[0].values()) > 5 or any(np.ptp(here.read(n)) > 0 for n in kept)
    here.close()


def test_blocks_and_checks_change_nothing(tmp_path: Path, root: Path) -> None:
    """`reproducible` gives the same bits step by step, in graphs of many steps, and with every kernel waited for."""
    backend = CudaBackend()
    program = lowered(root, "cuba", backend, "reproducible", "float32")
    artifact = backend.build(program, tmp_path, {})
    runs = []
    for check, sizes in ((False, [500]), (False, [1] * 7 + [93, 400]), (True, [500])):
        instance = CudaBackend(check=check).load(artifact, program, 5)
        done = 0
        for size in sizes:
            while size > 0:
                ran = instance.run("step", done + 1, size)
                done, size = done + ran, size - ran
                for a in program.arrays:
                    if a.name.endswith("'used"):
                        instance.write(a.name, np.zeros(1, np.int64))
        runs.append([instance.read(n) for n in ("exc.v", "exc.ge", "inh.v")])
        instance.close()
    for other in runs[1:]:
        for a, b in zip(runs[0], other, strict=True):
            assert np.array_equal(a, b)


def test_full_buffers_stop_the_loop(tmp_path: Path, root: Path) -> None:
    backend = CudaBackend()
    program = lowered(root, "cuba", backend, "reproducible", "float32")
    instance = backend.load(backend.build(program, tmp_path, {}), program, 1)
    size = next(a.shape[0] for a in program.arrays if a.name == "exc'spikes'record")
    done = 0
    while (ran := instance.run("step", done + 1, 100_000)) > 0:
        done += ran
        assert int(instance.read("exc'spikes'record'used")[0]) <= size
    assert instance.run("step", done + 1, 100_000) == 0
    for a in program.arrays:
        if a.name.endswith("'used"):
            instance.write(a.name, np.zeros(1, np.int64))
    assert instance.run("step", done + 1, 100_000) > 0
    instance.close()


@pytest.mark.parametrize("name", ["lenet_digits", "custom_optimizer"])
def test_training_follows_the_cpu(tmp_path: Path, root: Path, name: str) -> None:
    """Losses of the first epochs; sums are in another order, so they agree to rounding that has grown since."""
    from netloom import run

    rows = {}
    for target in ("cpu", "cuda"):
        out = tmp_path / target
        run(root / "models" / f"{name}.yaml", target, epochs=2, out=out, build_dir=tmp_path / f"build-{target}")
        rows[target] = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
    for a, b in zip(rows["cpu"], rows["cuda"], strict=True):
        assert abs(a["loss"] - b["loss"]) <= 2e-3 * abs(a["loss"]), (a, b)


def test_a_run_from_the_file_gives_the_spikes_of_the_cpu(tmp_path: Path, root: Path) -> None:
    import h5py

    from netloom import run

    events = {}
    for target in ("cpu", "cuda"):
        out = tmp_path / target
        run(
            root / "models" / "cuba.yaml",
            target,
            SMALL["cuba"],
            order="bitwise",
            duration="100 ms",
            out=out,
            build_dir=tmp_path / f"build-{target}",
        )
        with h5py.File(out / "spikes.h5") as file, h5py.File(out / "traces.h5") as traces:
            events[target] = [
                file[f"spikes/{p}/{what}"][:] for p in ("exc", "inh") for what in ("timestamps", "node_ids")
            ] + [traces["exc/v"][:], traces["exc/ge"][:]]
    assert len(events["cpu"][0]) > 20
    for a, b in zip(events["cpu"], events["cuda"], strict=True):
        assert np.array_equal(a, b)


FAULT = """
import sys
from pathlib import Path
import numpy as np
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.cuda_graphs import ExecutionMode
from backends.protocol import BackendError
from tests.gpu.test_models import lowered
backend = CudaBackend(check=sys.argv[2] == "check")
program = lowered(Path(sys.argv[1]), "cuba", backend, "reproducible", "float32")
instance = backend.load(backend.build(program, Path(sys.argv[3]), {}), program, 1)
name = "excitation[exc->exc]'col"
instance.write(name, np.full(len(instance.read(name)), 1 << 30, np.int32))
try:
    instance.run("step", 1, 500)
except BackendError as e:
    print(e.code, e.exit_code, e.message, e.help)
"""


@pytest.mark.parametrize("mode", ["check", "plain"])
def test_a_fault_is_reported(tmp_path: Path, root: Path, mode: str) -> None:
    """In a process of its own: a fault ends the context. With `check` the message names the kernel and its row."""
    done = subprocess.run(
        [sys.executable, "-c", FAULT, str(root), mode, str(tmp_path)], capture_output=True, text=True, cwd=root
    )
    assert done.stdout.startswith("E0924 5 "), done.stdout + done.stderr
    assert ("propagation into" in done.stdout) == (mode == "check")
    assert ("--verify" in done.stdout) == (mode == "plain")


def test_more_elements_than_31_bits_count(tmp_path: Path) -> None:
    """A buffer of 8 GiB and some, every element written by its own thread or a stride of it."""
    n = (1 << 31) + 1001
    small = on_cpu.single(
        Nest((Dim("i", "n"),), (assign("y", "1"),)),
        {"y": (Mode.WRITE, ELEMENT)},
        {"y": np.zeros(4, np.float32)},
        {"n": n},
    )
    arrays = tuple(replace(a, shape=(n,)) for a in small.arrays)
    program = merge(replace(small, arrays=arrays, constants={}))
    backend = CudaBackend()
    instance = backend.load(backend.build(program, tmp_path, {}), program, 1)
    assert instance.run("step", 1, 1) == 1
    y = instance.read("y")
    assert len(y) == n
    assert all(np.all(y[at : at + (1 << 26)] == 1) for at in range(0, n, 1 << 26))
    instance.close()


def test_too_little_memory_gives_the_bill(tmp_path: Path) -> None:
    huge = on_cpu.single(
        Nest((Dim("i", "n"),), (assign("y", "1"),)),
        {"y": (Mode.WRITE, ELEMENT)},
        {"y": np.zeros(4, np.float32)},
        {"n": 4},
    )
    arrays = tuple(replace(a, shape=(1 << 40,)) for a in huge.arrays)
    program = merge(replace(huge, arrays=arrays, constants={}))
    backend = CudaBackend()
    with pytest.raises(BackendError, match=r"4\.4 TB are needed") as e:
        backend.load(backend.build(program, tmp_path, {}), program, 1)
    assert e.value.code == "E0905" and e.value.help == "needed: state 4.4 TB"


def test_another_architecture_is_refused(tmp_path: Path, root: Path) -> None:
    backend = CudaBackend()
    program = lowered(root, "cuba", backend, "reproducible", "float32")
    artifact = backend.build(program, tmp_path, {"arch": "sm_120"})
    with pytest.raises(BackendError, match="compiled for sm_120"):
        backend.load(artifact, program, 1)


def test_a_missing_device_is_an_error(tmp_path: Path, root: Path) -> None:
    program = lowered(root, "cuba", CudaBackend(), "reproducible", "float32")
    artifact = CudaBackend().build(program, tmp_path, {})
    with pytest.raises(BackendError, match="no CUDA device 99"):
        CudaBackend(device=99).load(artifact, program, 1)
