"""Hand-built spiking programs on the CPU: against the reference, merged against single rows, draining."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.run.load import CpuInstance
from backends.reference.load import ReferenceInstance
from compiler.ir.level2.program import Merged, Order, Phase, Program
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from tests.cpu.programs import network

pytestmark = pytest.mark.usefixtures("cc")


def loaded(program: Merged, folder: Path, seed: int = 1) -> CpuInstance:
    backend = CpuBackend()
    return backend.load(backend.build(program, folder, {}), program, seed)


def run_all(instance: CpuInstance | ReferenceInstance, steps: int) -> list[tuple[int, int]]:
    """Run `steps` steps, draining the buffers whenever the loop returns; returns the recorded events."""
    spikes: list[tuple[int, int]] = []
    done = 0
    while done < steps:
        ran = instance.run("step", done + 1, steps - done)
        assert ran > 0
        done += ran
        used = int(instance.read("record.used")[0])
        pairs = instance.read("record").reshape(-1, 2)[:used]
        spikes += [(int(a), int(b)) for a, b in pairs]
        for name in ("record.used", "trace.used"):
            instance.write(name, np.zeros(1, np.int64))
    return spikes


@pytest.mark.parametrize("per_synapse", [False, True])
def test_same_spikes_as_the_reference(tmp_path: Path, per_synapse: bool) -> None:
    program = merge(network(3, per_synapse=per_synapse, real=DType.F64, order=Order.BITWISE))
    here, there = loaded(program, tmp_path), ReferenceInstance(program, 1)
    assert np.array_equal(here.read("pop0->pop1.row"), there.read("pop0->pop1.row"))
    assert np.array_equal(here.read("pop0->pop1.col"), there.read("pop0->pop1.col"))
    if per_synapse:
        assert np.array_equal(here.read("pop0->pop1.weight"), there.read("pop0->pop1.weight"))
    spikes = run_all(here, 400)
    assert len(spikes) > 100
    assert spikes == run_all(there, 400)
    assert np.array_equal(here.read("pop2.v"), there.read("pop2.v"))


def test_merged_rows_give_the_bits_of_single_rows(tmp_path: Path) -> None:
    together = merge(network(4))

    def split(phase: Phase) -> Phase:
        return replace(
            phase,
            launches=tuple(replace(x, lo=i, hi=i + 1) for x in phase.launches for i in range(x.lo, x.hi)),
        )

    apart = replace(together, phases=tuple(split(p) for p in together.phases))
    a, b = loaded(together, tmp_path), loaded(apart, tmp_path)
    assert run_all(a, 1000) == run_all(b, 1000)
    for i in range(4):
        assert np.array_equal(a.read(f"pop{i}.v"), b.read(f"pop{i}.v"))


def test_delays_are_data(tmp_path: Path) -> None:
    """One event of pop0 arrives after its row's delay: the end of step k + d shows it in ge."""
    program = merge(network(6, size=8, p=1.0))
    instance = loaded(program, tmp_path)
    table = program.tables[4].scalars
    for member in range(6):
        delay, weight = int(table["delay"][member]), float(table["weight"][member])
        for name in (a.name for a in program.arrays if a.name.endswith((".v", ".ge"))):
            instance.write(name, np.zeros(len(instance.read(name)), np.float32))
        for name in (a.name for a in program.arrays if a.name.endswith((".spike_count", ".held"))):
            instance.write(name, np.zeros(len(instance.read(name)), np.int32))
        v = instance.read(f"pop{member}.v")
        v[2] = 100.0
        instance.write(f"pop{member}.v", v)
        target = f"pop{(member + 1) % 6}.ge"
        for step in range(1, delay + 1):
            instance.run("step", step, 1)
            assert not instance.read(target).any()
        instance.run("step", delay + 1, 1)
        got = instance.read(target)
        assert np.allclose(got, np.float32(weight))


def test_full_buffers_stop_the_loop(tmp_path: Path) -> None:
    program = merge(network(2))
    instance = loaded(program, tmp_path)
    assert instance.run("step", 1, 5000) == 990  # the trace buffer: 100 samples, one in 10 steps; one of them is left
    assert instance.read("trace.used")[0] == 99
    assert instance.run("step", 991, 5000) == 10
    from backends.protocol import BackendError

    with pytest.raises(BackendError, match="not drained"):
        instance.run("step", 1001, 1000)


def test_denormals_are_zero_only_inside(tmp_path: Path) -> None:
    program = merge(network(2, p=0.01))
    instance = loaded(program, tmp_path)
    ge = instance.view("pop0.ge")
    ge[:] = np.float32(1e-37)
    instance.view("pop1.spike_count")[:] = 0
    instance.run("step", 1, 300)
    tiny = ge[(ge != 0) & (np.abs(ge) < np.finfo(np.float32).tiny)]
    assert len(tiny) == 0
    assert np.float32(1e-38) / np.float32(10) > 0  # numpy still has them


def test_a_program_without_connections(tmp_path: Path) -> None:
    whole = network(2)
    kept = Program(
        "plain",
        whole.precision,
        whole.order,
        tuple(a for a in whole.arrays if a.name.startswith("pop") and "->" not in a.name),
        whole.kernels[:1],
        tuple(replace(p, launches=p.launches[:1]) for p in whole.phases if p.name == "step"),
        {n: v for n, v in whole.constants.items() if n.startswith("pop")},
    )
    instance = loaded(merge(kept), tmp_path)
    assert instance.run("step", 1, 50) == 50
    assert (instance.read("pop0.spike_count") >= 0).all()
