"""The memory estimate of a program equals the allocation of an instance, and its arena sharing is exact to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backends.cpu.run.load import CpuInstance
from backends.registry import backend
from compiler.cli.app import app
from compiler.frontend.load import load_model
from compiler.ir.level2.program import ArrayFormal, Merged
from compiler.ir.space import Role
from compiler.layout.memory_report import memory_bill
from compiler.layout.plan_memory import Placement, padded, place
from compiler.passes.pipeline.lower import lower

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


def program(root: Path, name: str, settings: dict[str, str] | None = None) -> Merged:
    model = load_model(root / "models" / f"{name}.yaml", settings or {})
    return lower(model, backend("cpu").capabilities).merged


@pytest.mark.parametrize(("name", "settings"), [("lenet_digits", {}), ("cuba", {"n_exc": "320", "n_inh": "80"})])
def test_an_instance_allocates_what_the_bill_says(
    root: Path, tmp_path: Path, name: str, settings: dict[str, str]
) -> None:
    merged = program(root, name, settings)
    chosen = backend("cpu")
    instance = chosen.load(chosen.build(merged, tmp_path, {}), merged, 1)
    assert isinstance(instance, CpuInstance)
    bill = memory_bill(merged, instance.placement, instance.sizes)
    beyond = 64  # of each arena, so that vectors may read past the end
    assert {r: len(a) - beyond for r, a in instance.arenas.items()} == {r: bill.arenas.get(r, 0) for r in Role}
    assert bill.total == sum(len(a) - beyond for a in instance.arenas.values())
    for item in bill.arrays:
        assert item.bytes == instance.view(item.array.name).nbytes
    instance.close()


def test_arrays_that_share_memory(root: Path) -> None:
    merged = program(root, "lenet5")
    placement = place(merged, {})
    bill = memory_bill(merged, placement, {})
    spans = {
        b.array.name: range(start, start + padded(b.bytes))
        for b in bill.arrays
        if b.array.role is Role.WORK and b.bytes is not None and (start := placement.offsets[b.array.name]) >= 0
    }
    assert any(b.shares for b in bill.arrays)
    for b in bill.arrays:
        mine = spans.get(b.array.name)
        others = [n for n, r in spans.items() if mine is not None and r.start < mine.stop and mine.start < r.stop]
        assert set(b.shares) == set(others) - {b.array.name}
    assert "conv1.weight" in bill.in_place


def used(merged: Merged) -> dict[str, list[set[str]]]:
    """The arrays that each launch touches, by phase."""
    found: dict[str, list[set[str]]] = {}
    for phase in merged.phases:
        for launch in phase.launches:
            rows = merged.tables[launch.template].arrays
            names = [f.name for f in merged.templates[launch.template].formals if isinstance(f, ArrayFormal)]
            touched = {a for name in names for a in rows[name][launch.lo : launch.hi]}
            found.setdefault(phase.name, []).append(touched)
    return found


@pytest.mark.parametrize("name", ["lenet5", "transformer"])
def test_the_peak_is_that_of_all_launches(root: Path, name: str) -> None:
    merged = program(root, name)
    placement: Placement = place(merged, {})
    bill = memory_bill(merged, placement, {})
    sizes = {b.array.name: padded(b.bytes or 0) for b in bill.arrays if b.array.role is Role.WORK}
    peaks = {p.phase: p for p in bill.peaks}
    assert {"train", "eval"} <= peaks.keys()
    for phase, launches in used(merged).items():
        needed = [
            {n for n in sizes if any(n in x for x in launches[: k + 1]) and any(n in x for x in launches[k:])}
            for k in range(len(launches))
        ]
        totals = [sum(sizes[n] for n in names) for names in needed]
        if max(totals):
            assert peaks[phase].bytes == max(totals) == totals[peaks[phase].launch - 1]
            assert set(peaks[phase].arrays) == needed[peaks[phase].launch - 1]
            assert peaks[phase].bytes <= bill.arenas[Role.WORK]


def test_printed(root: Path) -> None:
    path = str(root / "models" / "lenet_digits.yaml")
    result = CliRunner().invoke(app, ["show", path, "--memory"])
    assert result.exit_code == 0, result.output
    bill = json.loads(CliRunner().invoke(app, ["show", path, "--memory", "--format", "json"]).output)
    assert f"{bill['total_bytes']:,}" in result.output
    assert sum(bill["arena_bytes"].values()) == bill["total_bytes"]
    assert "train/conv1" in result.output
    apart = json.loads(CliRunner().invoke(app, ["show", path, "--memory", "--format", "json", "-t", "cuda"]).output)
    assert not any(a["shares"] for a in apart["arrays"])  # cuda shares nothing below 1 GiB
    assert apart["arena_bytes"]["work"] == apart["unshared_work_bytes"]
