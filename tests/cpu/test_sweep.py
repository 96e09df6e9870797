"""Sweeps: a trial equals the run with its settings; what is there is not run again; what fails stops no other."""

from __future__ import annotations

import copy
import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import compiler.ir.level2.program as l2
import netloom
from backends.cpu.backend import CpuBackend
from backends.protocol import Artifact
from compiler.core.disk import only_one
from compiler.runtime.common.options import Options
from compiler.sweep import pool as running
from compiler.sweep import trial
from compiler.sweep.trial import Job, Trial, run_trial

MODEL = """language: 1
name: small
params: {rate: {value: 20 Hz, max: 90 Hz}, n: {value: 20, type: int}}
populations: {a: {neuron: library/neurons/poisson, size: n, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 100 ms, seed: 7}
record: [spikes: {from: a}]
sweep: {grid: {n: [10, 20], rate: [20 Hz, 80 Hz]}, seeds: 2}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    return tmp_path / "m.yaml"


def test_trials_are_runs_and_only_missing_ones_run(model: Path) -> None:
    result = netloom.sweep(model, out="s", workers=2)
    assert result.ran == 8 and [row["status"] for row in result.rows] == ["ok"] * 8
    for row in result.rows[::3]:
        chosen = {"n": row["set.n"], "rate": row["set.rate"]}
        alone = netloom.load(model, set=chosen).run(seed=row["seed"])
        assert row["rate.a"] == alone.rates["a"] and row["spikes.a"] == alone.counts["a"]
    again = netloom.sweep(model, out="s", workers=2)
    assert again.ran == 0
    plain = [{k: v for k, v in row.items() if k != "seconds"} for row in result.rows]
    assert [{k: v for k, v in row.items() if k != "seconds"} for row in again.rows] == plain
    more = netloom.sweep(model, {"grid": {"n": [10, 20, 30], "rate": ["20 Hz", "80 Hz"]}}, seeds=2, out="s", workers=2)
    assert more.ran == 4
    with (model.parent / "s" / "sweep.csv").open(encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    assert [float(r["rate.a"]) for r in table] == more.column("rate.a") and len(table) == 12
    assert len({r["trial"] for r in table}) == 12 and not (model.parent / "s" / "build").exists()


def test_trials_of_a_process_compile_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compile = CpuBackend.compile

    def counted(self: CpuBackend, program: l2.Merged, options: dict[str, str]) -> Artifact:
        made.append(program.name)
        return compile(self, program, options)

    monkeypatch.setattr(CpuBackend, "compile", counted)
    monkeypatch.setattr("compiler.runtime.build._KNOWN", {})
    job = Job(model, Options(), model.parent / "s")
    rows = [run_trial(job, Trial({"n": n}, k, f"{n}-{k}")) for n in ("20", "30") for k in (1, 2)]
    assert made == ["small"] and len({row["spikes.a"] for row in rows}) > 1
    built = netloom.run(model, set={"n": "30"}, seed=2, out="alone", plots=False)
    assert built.counts["a"] == rows[3]["spikes.a"] and made == ["small"] and Path("build/small").is_dir()
    run_trial(replace(job, options=Options(order="bitwise")), Trial({"n": "30"}, 2, "other"))
    assert made == ["small", "small"]


def test_a_trial_that_fails_is_a_row(model: Path) -> None:
    result = netloom.sweep(model, {"grid": {"n": [20, -1, 30]}}, out="s", workers=1)
    assert [row["status"] for row in result.rows] == ["ok", "failed", "ok"] and result.failed == 1
    assert "E0" in result.rows[1]["message"]
    assert netloom.sweep(model, {"grid": {"n": [20, -1, 30]}}, out="s", workers=1).ran == 1


def test_a_process_that_dies_takes_its_trial_only(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died: list[str] = []

    class Dies:
        """A pool whose processes run in this one; the third trial kills its process."""

        _processes = None

        def __init__(self, *arguments: object, **more: object) -> None: ...

        def submit(self, function: object, job: running.Job, trial: running.Trial, *rest: object) -> running.Future:  # type: ignore[type-arg]
            future: running.Future[dict[str, object]] = running.Future()
            if trial.settings["n"] == "3":
                died.append(trial.key)
                future.set_exception(running.BrokenProcessPool("dead"))
            else:
                future.set_result(running.run_trial(job, trial))
            return future

        def shutdown(self, **more: object) -> None: ...

    monkeypatch.setattr(running, "ProcessPoolExecutor", Dies)
    result = netloom.sweep(model, {"grid": {"n": [1, 2, 3, 4, 5]}}, out="s", workers=2)
    assert [row["status"] for row in result.rows] == ["ok", "ok", "failed", "ok", "ok"]
    assert result.rows[2]["message"] == "its process died" and len(died) == running.ATTEMPTS


def test_a_trial_that_another_process_has_run(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have the result, and there is one directory: where the other ends before this one begins, or after."""
    job, one = Job(model, Options(), model.parent / "s"), Trial({"n": "3"}, None, "key")
    first = run_trial(job, one)
    assert first["status"] == "ok" and run_trial(job, one)["spikes.a"] == first["spikes.a"]
    looked: list[int] = []
    real = trial.finished_row

    def blind(*given: Any) -> Any:
        looked.append(1)
        return None if len(looked) == 1 else real(*given)

    monkeypatch.setattr(trial, "finished_row", blind)
    monkeypatch.setattr(trial.shutil, "rmtree", lambda *_, **__: None)
    again = run_trial(job, one)
    assert again["status"] == "ok" and again["spikes.a"] == first["spikes.a"] and len(looked) == 2
    assert [p.name for p in (model.parent / "s" / "trials").iterdir()] == ["key"]


def test_one_sweep_at_a_time(model: Path) -> None:
    with only_one(model.parent / "s", "a sweep"), pytest.raises(netloom.RunError) as caught:
        netloom.sweep(model, out="s")
    assert caught.value.code == "E0940" and caught.value.exit_code == 2
    assert netloom.sweep(model, {"n": [3]}, out="s", workers=1).ran == 1


def test_the_command_line_is_what_is_wrong(model: Path) -> None:
    command = [sys.executable, "-m", "compiler.cli", "sweep", "m.yaml", "-g", "rate=20 Hz, 95 Hz", "-g", "m=3"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    ran = subprocess.run(command, env=environment, cwd=model.parent, capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and not (model.parent / "sweeps").exists()
    assert "error[E0205]" in ran.stderr and "--> --grid:1:13" in ran.stderr and "error[E0204]" in ran.stderr


def test_killed_and_started_again(model: Path) -> None:
    """kill -9 of all processes in the middle; the second sweep runs the rest, and the table is that of one sweep."""
    rates = ",".join(f"{r} Hz" for r in range(10, 34))
    command = [sys.executable, "-m", "compiler.cli", "sweep", "m.yaml", "-g", f"rate={rates}", "--seeds", "1", "-q"]
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    first = subprocess.Popen([*command, "--out", "s"], env=environment, cwd=model.parent, start_new_session=True)
    deadline = time.monotonic() + 60
    trials = model.parent / "s" / "trials"
    while time.monotonic() < deadline and len(list(trials.glob("[0-9a-f]*/spikes.h5"))) < 6:
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    there = sum(json.loads(p.read_text())["status"] == "ok" for p in trials.glob("[0-9a-f]*/run.json"))
    assert 1 <= there < 24
    again = subprocess.run(
        [*command, "--out", "s", "--format", "json"], env=environment, cwd=model.parent, capture_output=True, check=True
    )
    found = json.loads(again.stdout)
    assert found["ran"] == 24 - there
    whole = netloom.sweep(model, {"grid": {"rate": [f"{r} Hz" for r in range(10, 34)]}}, seeds=1, out="t", workers=2)
    assert [r["spikes.a"] for r in found["rows"]] == whole.column("spikes.a")


def test_ctrl_c_keeps_what_is_done(model: Path) -> None:
    long = model.read_text().replace("100 ms", "100000 s")
    model.write_text(long, encoding="utf-8")
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler.cli", "sweep", "m.yaml", "--out", "s"],
        env={**os.environ, "PYTHONPATH": str(root)}, cwd=model.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((model.parent / "s" / "trials").glob("*")):
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    with (model.parent / "s" / "sweep.csv").open(encoding="utf-8") as stream:
        states = [row["status"] for row in csv.DictReader(stream)]
    assert len(states) == 8 and "ok" not in states


def test_a_network_is_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cpu.test_model import NETWORK, samples

    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "data.npz", **samples())
    model = copy.deepcopy(NETWORK)
    act = {"value": "relu", "type": "choice", "choices": ["relu", "tanh"]}
    model["params"] = {"width": {"value": 4, "type": "int"}, "act": act}
    model["network"]["layers"][0]["dense"] |= {"units": "width", "activation": "act"}
    found = netloom.load(model).sweep(
        {"grid": {"width": [4, 8], "act": ["relu", "tanh"]}}, data="data.npz", epochs=2, out="s", workers=2
    )
    assert [row["status"] for row in found.rows] == ["ok"] * 4
    assert len(set(found.column("loss"))) == 4 and all(0 <= a <= 1 for a in found.column("accuracy"))
