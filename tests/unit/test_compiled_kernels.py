"""Descriptors of compiled kernels: loading takes from them what it would have to print again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import numpy as np
import pytest

from backends.c_family.cprint import Dialect
from backends.c_family.names import Namer
from backends.cpu.backend import CpuBackend
from backends.cuda.emit.emit import emit
from backends.cuda.run.backend import CudaBackend
from backends.cuda.run.load import APART
from backends.cuda.run.load_plan import prepare
from backends.kernel_ir.descriptor import Division, packed, unpacked
from backends.opencl.backend import OpenclBackend
from backends.opencl.emit import emit as emit_opencl
from backends.protocol import Backend
from compiler.core.cache import find_value, keep_value
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.ir.level2.target import Target
from compiler.ir.space import Role
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import write_tables
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.build_folder import STAMP, build_into
from compiler.strategies.cost.devices import H200

MODELS = Path(__file__).parents[2] / "models"
SM_90 = CudaBackend(arch="sm_90")


def program_of(name: str, backend: Backend = SM_90) -> Merged:
    return lower(load_model(MODELS / f"{name}.yaml", {}), backend.capabilities, True).merged


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be printed: neither names nor expressions nor skeletons."""

    def refuse(*args: Any, **more: Any) -> Any:
        raise AssertionError("this prints")

    for owner, function in ((Namer, "__init__"), (Dialect, "__init__"), (jinja2.Environment, "get_template")):
        monkeypatch.setattr(owner, function, refuse)


@dataclass
class Recorder:
    """A device that takes everything and runs nothing."""

    target: Target = H200
    arch: str = "sm_90"
    driver: Any = field(default_factory=lambda: SimpleNamespace(tensor_map=lambda *_: bytes(128)))
    stream: Any = field(default_factory=lambda: SimpleNamespace(handle=0))
    uploaded: int = 0

    def room(self, _: str) -> int:
        return 227 << 10

    def allocate(self, size: int, _: Any) -> int:
        return 1 << 20

    def upload(self, _: int, values: np.ndarray) -> None:
        self.uploaded += values.nbytes


@pytest.mark.parametrize("name", ["resnet20", "lstm", "microcircuit", "reservoir", "transformer"])
def test_preparing_launches_prints_nothing(name: str, request: pytest.FixtureRequest) -> None:
    program = program_of(name)
    compiled = unpacked(json.loads(json.dumps(packed(emit(program).kernels))))
    sizes = {a.name: 1000 for a in program.arrays if a.size_from is not None}
    placement = place(program, sizes, APART)
    tables = write_tables(program, placement, 1, sizes)
    device: Any = Recorder()
    request.getfixturevalue("silent")
    bases = np.array([1 << 40] * len(Role), np.uint64)
    made = prepare(device, program, compiled, tables, bases, placement, sizes, lambda _: 0)
    assert made.plans.keys() == {p.name for p in program.phases} and device.uploaded > 0
    with pytest.raises(AssertionError, match="this prints"):
        emit(program)


def test_a_build_folder_is_loaded_without_printing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    backend = CpuBackend()
    program = program_of("cuba", backend)
    first = build_into(tmp_path, program, backend, {})
    request.getfixturevalue("silent")
    again = build_into(tmp_path, program, backend, {})
    assert not again.made and again.artifact.kernels == first.artifact.kernels != ()
    instance = backend.load(again.artifact, program, 1)
    assert instance.run("step", 1, 3) == 3


@pytest.mark.parametrize("kernels", [None, [{"function": "k0"}], 3])
def test_a_stamp_without_descriptors_is_built_again(tmp_path: Path, kernels: Any) -> None:
    backend = CpuBackend()
    program = program_of("cuba", backend)
    build_into(tmp_path, program, backend, {})
    stamp = tmp_path / program.name / STAMP
    value = find_value(stamp)
    assert value is not None
    keep_value(stamp, {**value, "kernels": kernels})
    assert build_into(tmp_path, program, backend, {}).made
    assert not build_into(tmp_path, program, backend, {}).made


def test_descriptors_name_what_the_text_has() -> None:
    emitted, opencl = emit(program_of("resnet20")), OpenclBackend()
    functions = [f for k in emitted.kernels for f in k.functions]
    assert all(f" {f.name}(NL_ARGUMENTS)" in emitted.text for f in functions if not f.tiles)
    assert {f.division for f in functions} > {Division.OWN, Division.FEW, Division.WIDE_COLUMNS}
    assert all(1 <= f.block <= 1024 for f in functions)
    made = emit_opencl(program_of("cuba", opencl))
    assert all(f"__kernel void {k.function}(" in made.text for k in made.kernels)


def test_waves_call_functions_of_the_phase(root: Path) -> None:
    program = program_of("microcircuit")
    waved = [k for k in emit(program).kernels if k.wave]
    (step,) = (p for p in program.phases if p.name == "step")
    assert {k.function.split("_")[0] for k in waved} == {f"k{x.template}" for x in step.launches}
    assert {k.flat for k in waved} == {False, True} and any(f.joins for k in waved for f in k.functions)
