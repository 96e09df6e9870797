"""Compilation: once per text, independent of parameters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netloom import build, run
from tests.cpu.models_for_runs import DIGITS, NOISY, write

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("NETLOOM_CACHE", str(folder))
    return folder


def test_a_second_build_compiles_nothing(here: Path, empty_cache: Path) -> None:
    path = write(here, NOISY)
    first = build(path)
    assert first.compiled
    assert first.seconds["compile"] > 0
    files = {p.name for p in first.folder.iterdir()}
    assert {"noisy.c", "netloom.h", "Makefile", "main.c", "libnoisy.so", "manifest.json"} <= files
    second = build(path)
    assert not second.compiled
    shutil.rmtree(here / "build")
    assert not build(path).compiled  # from the cache
    assert len(list(empty_cache.rglob("*.so"))) == 1
    shutil.rmtree(empty_cache)
    assert build(path).compiled


@pytest.mark.parametrize("settings", [{"n": 61}, {"weight": "2 mV"}, {"n": 5, "weight": "0.1 mV"}])
def test_a_parameter_change_compiles_nothing(here: Path, empty_cache: Path, settings: dict[str, str | int]) -> None:
    path = write(here, NOISY)
    assert build(path).compiled
    text = (here / "build" / "noisy" / "noisy.c").read_bytes()
    result = run(path, set=settings, duration="2 ms", seed=8)
    assert result.record["compiled"] is False
    assert (here / "build" / "noisy" / "noisy.c").read_bytes() == text


def test_other_values_of_training_compile_nothing(here: Path, empty_cache: Path, root: Path) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    path = write(here, DIGITS)
    assert build(path).compiled
    assert not build(path, set={"rate": 1e-4, "width": 31}).compiled
    other = DIGITS.replace("batch: 50", "batch: 32").replace("rate: 0.1", "rate: 0.3").replace("0.25", "0.5")
    assert not build(write(here, other, "other.yaml")).compiled


def test_several_processes_build_one_model_at_once(here: Path, root: Path, empty_cache: Path) -> None:
    path = write(here, NOISY)
    build(path)
    command = [sys.executable, "-m", "compiler.cli", "build", str(path), "--quiet", "--set"]
    environment = {"PYTHONPATH": str(root), "NETLOOM_CACHE": str(empty_cache), "PATH": "/usr/bin:/bin"}
    running = [subprocess.Popen([*command, f"n={n}"], cwd=here, env=environment) for n in (10, 11, 12)]
    assert [p.wait(timeout=60) for p in running] == [0, 0, 0]
    assert [p.name for p in (here / "build").iterdir()] == ["noisy"]
