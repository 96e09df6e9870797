"""Emission and compilation of C: constant size, cache, errors, and a build folder that needs no Python."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from backends.cpu.backend import CpuBackend
from backends.cpu.emit.build import compile_text, find_compiler, without_comments
from backends.cpu.emit.emit import emit
from backends.protocol import BackendError
from compiler.core.source import SourceFile, Span
from compiler.ir.level2.program import Assign, Nest, Order
from compiler.ir.space import DType
from compiler.passes.program.merge import merge
from tests.cpu.programs import expr, network


@pytest.mark.parametrize("per_synapse", [False, True])
def test_text_does_not_depend_on_the_number_of_rows(per_synapse: bool) -> None:
    few = CpuBackend().emit(merge(network(10, size=4, per_synapse=per_synapse)))
    many = CpuBackend().emit(merge(network(1000, size=4, per_synapse=per_synapse)))
    assert few == many


def test_a_second_build_compiles_nothing(tmp_path: Path, cc: list[str]) -> None:
    backend = CpuBackend()
    program = merge(network(2, real=DType.F64))
    first = backend.build(program, tmp_path / "a", {})
    again = backend.build(merge(network(7, real=DType.F64)), tmp_path / "b", {})
    assert first.compiled and first.compile_seconds > 0
    assert not again.compiled and again.key == first.key and again.compile_seconds == 0
    portable = backend.build(program, tmp_path / "c", {"portable": "1"})
    assert portable.compiled and "-march=native" not in portable.flags


def test_moved_model_lines_compile_nothing() -> None:
    text = CpuBackend().emit(merge(network(2)))
    moved = text.replace("/* ---- k0", "/* ---- k0 (model.yaml:17:3)")
    assert moved != text and without_comments(moved) == without_comments(text)


def test_order_chooses_contraction(tmp_path: Path, cc: list[str]) -> None:
    flags = [
        CpuBackend().build(merge(network(2, order=order)), tmp_path, {}).flags
        for order in (Order.REPRODUCIBLE, Order.BITWISE)
    ]
    assert "-ffp-contract=fast" in flags[0] and "-ffp-contract=off" in flags[1]


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendError) as caught:
        find_compiler()
    assert (caught.value.code, caught.value.exit_code) == ("E0901", 3)
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(BackendError, match="no-such-compiler") as caught:
        find_compiler()
    assert caught.value.exit_code == 3


def test_a_refused_text_names_the_model_line(cc: list[str]) -> None:
    source = SourceFile("model.yaml", "neurons:\n  lif:\n    dynamics: v * tau\n")
    span = Span(source, source.text.index("v * tau"), len(source.text) - 1)
    program = network(2)
    kernel = program.kernels[0]
    assert isinstance(kernel.body, Nest)
    body = replace(kernel.body, prologue=(Assign("v", expr("decay_v * 2"), span), *kernel.body.prologue))
    program = replace(program, kernels=(replace(kernel, body=body), *program.kernels[1:]))
    emitted = emit(merge(program))
    broken = replace(emitted, text=emitted.text.replace("decay_v_ * 2.0f", "decay_v_ ** oops"))
    assert broken.text != emitted.text
    with pytest.raises(BackendError, match=re.escape("model.yaml:3:15")) as caught:
        compile_text(broken, "broken", False, False)
    assert (caught.value.code, caught.value.exit_code) == ("E0902", 4)


def test_an_unprintable_kernel_is_refused() -> None:
    program = network(2)
    kernel = program.kernels[0]
    assert isinstance(kernel.body, Nest)
    body = replace(kernel.body, prologue=(Assign("v", expr("v + missing")),))
    with pytest.raises(BackendError, match="`missing` has no meaning") as caught:
        emit(merge(replace(program, kernels=(replace(kernel, body=body), *program.kernels[1:]))))
    assert caught.value.code == "E0903"


@pytest.mark.parametrize("per_synapse", [False, True])
def test_the_folder_runs_without_python(tmp_path: Path, cc: list[str], per_synapse: bool) -> None:
    backend = CpuBackend()
    program = merge(network(3, per_synapse=per_synapse))
    artifact = backend.build(program, tmp_path, {"seed": "5"})
    subprocess.run(["make", "-s", f"CC={' '.join(cc)}", "ring", "libring.so"], cwd=tmp_path, check=True)
    said = subprocess.run(["./ring", "500"], cwd=tmp_path, check=True, capture_output=True, text=True)
    counts = {m[1]: int(m[2]) for m in re.finditer(r"(\w+): (\d+) events", said.stdout)}
    instance = backend.load(artifact, program, 5)
    totals = dict.fromkeys(counts, 0)
    for step in range(1, 501):
        instance.run("step", step, 1)
        for name in totals:
            totals[name] += int(instance.read(f"{name}.spike_count")[step % 8])
        instance.write("record.used", np.zeros(1, np.int64))
        instance.write("trace.used", np.zeros(1, np.int64))
    assert counts == totals and sum(counts.values()) > 100


def test_manifest_names_everything(tmp_path: Path, cc: list[str]) -> None:
    backend = CpuBackend()
    program = merge(network(3))
    artifact = backend.build(program, tmp_path, {})
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert [a["name"] for a in manifest["arrays"]] == [a.name for a in program.arrays]
    assert manifest["key"] == artifact.key
    instance = backend.load(artifact, program, 1)
    for a in manifest["arrays"]:
        if a["offset"] is None:
            assert a["size_from"] is not None
        else:
            assert instance.placement.offsets[a["name"]] == a["offset"]
    text = (tmp_path / "ring.c").read_text()
    for k in manifest["kernels"]:
        assert f"NL_KERNEL({k['function']}) {{" in text
    assert [p["name"] for p in manifest["phases"]] == [p.name for p in program.phases]
