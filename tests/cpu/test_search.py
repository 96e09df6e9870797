"""Searches: suggestions follow from what was found, a search that is started again goes on, bad trainings end early."""

from __future__ import annotations

import copy
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import netloom
from compiler.cli.app import app
from compiler.sweep.table import SweepResult

SPIKING = """language: 1
name: small
params: {rate: {value: 20 Hz}, n: {value: 20, type: int}}
populations: {a: {neuron: library/neurons/poisson, size: n, params: {rate: rate}}}
simulate: {dt: 1 ms, duration: 100 ms, seed: 7}
record: [spikes: {from: a}]
"""
VALUES = {"rate": {"uniform": {"low": "1 Hz", "high": "90 Hz"}}, "n": {"integers": {"low": 5, "high": 40}}}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.yaml").write_text(SPIKING, encoding="utf-8")
    return tmp_path / "m.yaml"


def search(trials: int, **more: Any) -> dict[str, Any]:
    return {"search": {"trials": trials, "goal": {"maximize": "rate.a"}, "values": VALUES, **more}}


def plain(result: SweepResult) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in result.rows]


def test_a_search_that_is_started_again_goes_on(model: Path) -> None:
    """The suggestions are those of one search: after more trials are asked for, after a crash, after all of them."""
    whole = netloom.sweep(model, search(14), out="s", workers=1)
    assert whole.ran == 14 and whole.goal == "rate.a" and whole.best is not None
    assert whole.best["rate.a"] == max(whole.column("rate.a"))
    first = netloom.sweep(model, search(6), out="t", workers=1)
    assert plain(first) == plain(whole)[:6]
    last = first.rows[-1]["trial"]
    shutil.rmtree(model.parent / "t" / "trials" / last)  # it was asked for, and its process was killed
    again = netloom.sweep(model, search(14), out="t", workers=1)
    assert again.ran == 9 and plain(again) == plain(whole)
    assert netloom.sweep(model, search(14), out="t", workers=1).ran == 0
    told = json.loads((model.parent / "s" / "sweep.json").read_text())
    assert told["best"] == whole.best["trial"] and told["goal"] == "rate.a"


def test_later_trials_are_better(model: Path) -> None:
    """TPE: after the first ten, which are drawn, values lie where the best ones did; `random` has no such memory."""
    found = netloom.sweep(model, search(30, seed=3), out="s", workers=2)
    rates = [float(r.removesuffix(" Hz")) for r in found.column("set.rate")]
    assert len(rates) == 30 and np.mean(rates[20:]) > np.mean(rates[:10]) + 10
    other = netloom.sweep(model, search(30, seed=3, sampler="random"), out="t", workers=2)
    drawn = [float(r.removesuffix(" Hz")) for r in other.column("set.rate")]
    assert len(set(drawn)) == 30 and np.mean(drawn[20:]) < np.mean(rates[20:])


def test_a_suggestion_of_before_is_not_run_again(model: Path) -> None:
    own = {"search": {"trials": 12, "goal": {"minimize": "rate.a"}, "values": {"n": {"choice": [5, 10]}}}}
    found = netloom.sweep(model, own, out="s", workers=2)
    assert found.ran == len(found.rows) == 2 and found.best is not None
    assert found.best["rate.a"] == min(found.column("rate.a"))


def test_bad_trainings_end_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.cpu.test_model import NETWORK, samples

    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "data.npz", **samples())
    model = copy.deepcopy(NETWORK)
    model["params"] = {"lr": {"value": 0.01}}
    model["train"]["optimizer"] = {"adam": {"learning_rate": "lr"}}
    own = {
        "search": {
            "trials": 16,
            "goal": {"maximize": "validation_accuracy"},
            "prune": True,
            "values": {"lr": {"log_uniform": {"low": 1e-5, "high": 0.3}}},
        }
    }
    m = netloom.load(model)
    options: dict[str, Any] = {"data": "data.npz", "validation": 0.2, "epochs": 6, "workers": 1}
    found = m.sweep(own, out="s", **options)
    states = found.column("status")
    assert set(states) == {"ok", "pruned"} and states[:5] == ["ok"] * 5 and not found.failed
    for row in found.rows:
        epochs = len(netloom.open(tmp_path / "s" / "trials" / row["trial"]).history())
        assert (epochs < 6) is (row["status"] == "pruned")
    assert found.best is not None and found.best["status"] == "ok"
    again = m.sweep(own, out="s", **options)
    assert again.ran == 0 and plain(again) == plain(found)
    part = {"search": own["search"] | {"trials": 9}}
    m.sweep(part, out="t", **options)
    assert plain(m.sweep(own, out="t", **options)) == plain(found)


def test_the_command_says_which_is_best(model: Path) -> None:
    model.write_text(SPIKING + f"sweep: {json.dumps(search(3))}\n", encoding="utf-8")
    shown = CliRunner().invoke(app, ["sweep", "m.yaml", "--out", "s", "-j", "1"])
    assert shown.exit_code == 0 and "best: rate.a " in shown.output and "3 trials (3 ok)" in shown.output
    listed = CliRunner().invoke(app, ["sweep", "m.yaml", "--dry-run"])
    assert listed.output == "3 trials that follow from the results of those before them: maximize rate.a\n"
    refused = CliRunner().invoke(app, ["sweep", "m.yaml", "--seeds", "2"])
    assert refused.exit_code == 2 and "model's own seed" in refused.output


def test_without_optuna(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(netloom.RunError) as caught:
        netloom.sweep(model, search(2), out="s", workers=1)
    assert caught.value.code == "E0941" and caught.value.exit_code == 3 and "netloom[sweep]" in str(caught.value)


def test_a_script_without_a_guard(model: Path) -> None:
    """Processes do not import the script that sweeps."""
    import subprocess

    script = model.parent / "script.py"
    script.write_text("import netloom\nprint(netloom.sweep('m.yaml', {'n': [3, 4]}, out='s', workers=2).ran)\n")
    root = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run([sys.executable, script], env={"PYTHONPATH": root, "PATH": ""}, capture_output=True, text=True,
                         cwd=model.parent, check=False, timeout=60)  # fmt: skip
    assert ran.stdout == "2\n", ran.stderr
