"""One trial of a sweep: its row of the table, and how it is run in its directory.

Assumes: a directory `trials/<key>` per trial, which every process that runs trials sees.
Guarantees: a trial that ended well is not run again, whoever ran it: running one twice, at the same time too, gives one
result. What a trial raises is in its row.
Does not: choose trials or processes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from compiler.core.diagnostics import NetloomError
from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import Progress
from compiler.sweep.prune import Pruning, Watch

Row = Mapping[str, Any]
TRIALS: Final = "trials"


@dataclass(frozen=True)
class Trial:
    """`settings`: as `--set` takes them, in the order of the sweep; `seed`: None: the model's own. `key`: 12 digits of
    the hash of all that determines its results."""

    settings: Mapping[str, str]
    seed: int | None
    key: str


@dataclass(frozen=True)
class Job:
    """What the trials of a sweep have in common. `fixed`: settings of all."""

    path: Path
    options: Options
    folder: Path
    fixed: Mapping[str, str] = field(default_factory=dict)


def run_trial(job: Job, trial: Trial, watch: Watch | None = None) -> dict[str, Any]:
    """Run one trial in its directory, unless it is there; its row of the table."""
    from compiler.runtime.execute import run_model

    there = finished_row(trial, job.folder)
    if there is not None:
        return there
    out = job.folder / TRIALS / trial.key
    if out.exists():
        shutil.rmtree(out, ignore_errors=True)
    begin = time.process_time()
    settings = {**job.fixed, **trial.settings}
    chosen = replace(job.options, set=settings, out=out, plots=False, keep_build=False)
    if trial.seed is not None:
        chosen = replace(chosen, seed=trial.seed)
    try:
        shown = Progress() if watch is None else Pruning(watch)
        result = run_model(job.path, chosen, shown)
        if result.folder != out:  # another process has run it meanwhile
            shutil.rmtree(result.folder, ignore_errors=True)
    except NetloomError as error:
        there = finished_row(trial, job.folder)  # likewise
        return there or row_of(trial, "failed", time.process_time() - begin, _first_line(error))
    except KeyboardInterrupt:
        return row_of(trial, "interrupted", time.process_time() - begin, "")
    training = (result.record.get("summary") or {}).get("training") or {}
    status = "pruned" if result.status == "ok" and training.get("asked") else result.status
    row = row_of(trial, status, time.process_time() - begin, "")
    return row | _results(result.rates, result.counts, result.metrics)


def finished_row(trial: Trial, folder: Path) -> dict[str, Any] | None:
    """The row of a trial that ended well before; None for any other."""
    try:
        record = json.loads((folder / TRIALS / trial.key / "run.json").read_text(encoding="utf-8"))
        summary = record["summary"] if record["status"] == "ok" else None
        if summary is None:
            return None
        seconds = sum(part["cpu_seconds"] for part in record["times"].values() if isinstance(part, dict))
        status = "pruned" if (summary.get("training") or {}).get("asked") else "ok"
        row = row_of(trial, status, round(seconds, 6), "")
        return row | _results(summary["rates_hz"], summary["spikes"], summary["metrics"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def row_of(trial: Trial, status: str, seconds: float, message: str) -> dict[str, Any]:
    """The first columns of a row."""
    settings = {f"set.{name}": value for name, value in trial.settings.items()}
    head = {"trial": trial.key, "seed": trial.seed, **settings}
    return {**head, "status": status, "seconds": round(seconds, 6), "message": message}


def _results(rates: Mapping[str, float], counts: Mapping[str, int], metrics: Mapping[str, float]) -> dict[str, Any]:
    return {
        **{f"rate.{name}": value for name, value in rates.items()},
        **{f"spikes.{name}": value for name, value in counts.items()},
        **metrics,
    }


def _first_line(error: NetloomError) -> str:
    return str(error).splitlines()[0][:300]
