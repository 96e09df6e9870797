"""Claim: a trial of a sweep costs what its simulation costs, and little beside: 200 trials of cuba (1 s each) take less
than 60 CPU seconds in one process. Instances of one program (`simulate: {instances: 20}`) simulate no faster, one by
one, than trials; what they could save a trial is its share of reading and lowering the model.

Measured: CPU milliseconds a trial, in all and by the parts that run.json has, of trials that differ in `p` and seed,
after a first one that compiles; the same parts, per instance, of one run with as many instances.

Usage: bench_sweep.py [--trials 20] [--model models/cuba.yaml] [--parameter p] [--low 0.01] [--high 0.02]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common import ROOT, table

import netloom
from compiler.runtime.common.options import Options
from compiler.sweep.trial import TRIALS, Job, Trial, run_trial

PARTS = ("load", "lower", "emit", "init", "run")


def parts(runs: Sequence[Path], share: int) -> dict[str, float]:
    """CPU milliseconds of each part of all runs, over `share`."""
    found: Counter[str] = Counter()
    for run in runs:
        times = json.loads((run / "run.json").read_text(encoding="utf-8"))["times"]
        found.update({name: times[name]["cpu_seconds"] * 1000 / share for name in PARTS})
    return dict(found)


def trials(model: Path, folder: Path, settings: Sequence[dict[str, str]]) -> dict[str, float]:
    job = Job(model, Options(), folder)
    run_trial(job, Trial(settings[0], 0, "first"))
    begin = time.process_time()
    rows = [run_trial(job, Trial(chosen, k, f"{k}")) for k, chosen in enumerate(settings)]
    spent = (time.process_time() - begin) * 1000 / len(settings)
    assert all(row["status"] == "ok" for row in rows), rows
    return {"in all": spent, **parts([folder / TRIALS / f"{k}" for k in range(len(rows))], len(rows))}


def instances(model: Path, folder: Path, count: int) -> dict[str, float]:
    text = model.read_text(encoding="utf-8").replace("\nsimulate:\n", f"\nsimulate:\n  instances: {count}\n")
    assert f"instances: {count}" in text, "`simulate` of the model is not a block"
    path = folder / model.name
    path.write_text(text, encoding="utf-8")
    loaded = netloom.load(path)
    loaded.run()
    begin = time.process_time()
    loaded.run(out=folder / "instances", plots=False)
    spent = (time.process_time() - begin) * 1000 / count
    return {"in all": spent, **parts([folder / "instances"], count)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--model", type=Path, default=ROOT / "models/cuba.yaml")
    parser.add_argument("--parameter", default="p")
    parser.add_argument("--low", type=float, default=0.01)
    parser.add_argument("--high", type=float, default=0.02)
    given = parser.parse_args()
    step = (given.high - given.low) / max(given.trials - 1, 1)
    settings = [{given.parameter: f"{given.low + k * step:.6g}"} for k in range(given.trials)]
    with tempfile.TemporaryDirectory() as name:
        rows = {
            "a trial": trials(given.model, Path(name), settings),
            "an instance": instances(given.model, Path(name), given.trials),
        }
    table(["CPU ms", "in all", *PARTS], [[what, *found.values()] for what, found in rows.items()])


if __name__ == "__main__":
    main()
