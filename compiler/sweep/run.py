"""Runs the trials of a sweep in processes and keeps the table.

Assumes: a plan; trials are independent.
Guarantees: one directory a trial, named by its key: a sweep that is started again runs only the trials that did not
end well. A trial that fails, or whose process dies, is a row of the table and stops no other. The first trial runs
alone, so that what all have in common is compiled once. The table is written when a trial ends (at most every second)
and at the end, whole or not at all.
Does not: choose the trials.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import current_process, get_context
from pathlib import Path
from typing import Any, Final

from compiler.core.disk import make_folder, new_file, only_one, write_text
from compiler.core.errors import NetloomError
from compiler.core.strict_json import dumps
from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import Progress, SilentProgress
from compiler.sweep.plan import Plan, Trial

Row = Mapping[str, Any]
TRIALS: Final = "trials"
ATTEMPTS: Final = 2
"""How often a trial is begun whose process dies."""


@dataclass(frozen=True)
class SweepResult:
    """`rows`: one per trial, in the order of the plan: `trial`, `seed`, `set.NAME` of each swept parameter, `status`
    ("ok", "failed", "interrupted", "missing"), `seconds` (CPU), `message`, and results (`rate.POPULATION` in Hz,
    `spikes.POPULATION`, metrics by name). `ran`: how many of them ran this time."""

    folder: Path
    rows: tuple[Row, ...]
    ran: int
    interrupted: bool = False

    @property
    def failed(self) -> int:
        return sum(row["status"] == "failed" for row in self.rows)

    def column(self, name: str) -> list[Any]:
        """The values of a column, None where a trial has none."""
        return [row.get(name) for row in self.rows]

    def to_pandas(self) -> Any:
        """The table as a pandas.DataFrame (needs pandas)."""
        from pandas import DataFrame

        return DataFrame(list(self.rows))


@dataclass
class _State:
    plan: Plan
    options: Options
    folder: Path
    progress: Progress
    rows: dict[str, Row] = field(default_factory=dict)
    written: float = 0.0
    ran: int = 0
    begun: dict[str, int] = field(default_factory=dict)

    def add(self, trial: Trial, row: Row) -> None:
        self.rows[trial.key] = row
        self.ran += 1
        self.progress.update(len(self.rows), _shown(row))
        if time.monotonic() - self.written > 1:
            write_table(self)


def run_sweep(plan: Plan, options: Options, folder: Path, workers: int, progress: Progress) -> SweepResult:
    """Run what is missing. `options`: of every trial (target, precision, duration, ...); `workers`: processes.
    Raises RunError: E0940 where another sweep runs in the folder, E0930 where it cannot be written; what a trial raises
    is in its row."""
    with only_one(folder, "a sweep"):
        return _run_sweep(plan, options, folder, workers, progress)


def _run_sweep(plan: Plan, options: Options, folder: Path, workers: int, progress: Progress) -> SweepResult:
    make_folder(folder / TRIALS, "a sweep")
    state = _State(plan, options, folder, progress)
    for trial in plan.trials:
        row = finished_row(trial, folder)
        if row is not None:
            state.rows[trial.key] = row
    missing = [t for t in plan.trials if t.key not in state.rows]
    progress.start(plan.name, len(plan.trials))
    interrupted = False
    try:
        if missing:
            _run(missing[:1], state, 1)
            _run(missing[1:], state, workers)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.finish()
        shutil.rmtree(folder / "build", ignore_errors=True)
        rows = write_table(state)
    return SweepResult(folder, rows, state.ran, interrupted)


def _run(trials: list[Trial], state: _State, workers: int) -> None:
    """Run trials in processes; those of a process that died begin again, each in a process of its own."""
    waiting = list(trials)
    while waiting:
        alone = any(state.begun.get(t.key) for t in waiting)
        now, waiting = (waiting[:1], waiting[1:]) if alone else (waiting, [])
        waiting += _pool(now, state, 1 if alone else min(workers, len(now)))


def _pool(trials: list[Trial], state: _State, workers: int) -> list[Trial]:
    """Run trials in one pool of processes; the trials that were running when a process died are returned, or failed."""
    again: list[Trial] = []
    pool = ProcessPoolExecutor(workers, get_context("forkserver"), initializer=_quiet_signals)
    try:
        futures: dict[Future[dict[str, Any]], Trial] = {}
        queue = iter(trials)
        _fill(pool, queue, futures, state, workers)
        while futures:
            done, _ = wait(futures, return_when=FIRST_COMPLETED)
            for future in done:
                trial = futures.pop(future)
                try:
                    state.add(trial, future.result())
                except BrokenProcessPool:
                    state.begun[trial.key] = state.begun.get(trial.key, 0) + 1
                    if state.begun[trial.key] < ATTEMPTS:
                        again.append(trial)
                    else:
                        state.add(trial, _row(trial, "failed", 0.0, "its process died"))
            if not again:
                _fill(pool, queue, futures, state, workers)
        return [*again, *queue]
    except KeyboardInterrupt:
        for process in list((pool._processes or {}).values()):
            with suppress(OSError):
                os.kill(process.pid or 0, signal.SIGTERM)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _fill(
    pool: ProcessPoolExecutor,
    queue: Iterator[Trial],
    futures: dict[Future[dict[str, Any]], Trial],
    state: _State,
    workers: int,
) -> None:
    """As many trials as there are processes, and one more each, so that none waits."""
    while len(futures) < 2 * workers and (trial := next(queue, None)) is not None:
        futures[pool.submit(run_trial, state.plan, trial, state.options, state.folder)] = trial


def _quiet_signals() -> None:
    """Ctrl-C is for the process that waits: it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_trial(plan: Plan, trial: Trial, options: Options, folder: Path) -> dict[str, Any]:
    """Run one trial in its directory; its row of the table."""
    from compiler.runtime.execute import run_model

    out = folder / TRIALS / trial.key
    if out.exists():
        shutil.rmtree(out)
    begin = time.process_time()
    settings = {**plan.fixed, **trial.settings}
    built = folder / "build" / current_process().name  # processes do not wait for each other
    chosen = replace(options, set=settings, out=out, plots=False, build_dir=built)
    if trial.seed is not None:
        chosen = replace(chosen, seed=trial.seed)
    try:
        result = run_model(plan.path, chosen, SilentProgress())
    except NetloomError as error:
        return _row(trial, "failed", time.process_time() - begin, _first_line(error))
    except KeyboardInterrupt:
        return _row(trial, "interrupted", time.process_time() - begin, "")
    row = _row(trial, result.status, time.process_time() - begin, "")
    return row | _results(result.rates, result.counts, result.metrics)


def finished_row(trial: Trial, folder: Path) -> dict[str, Any] | None:
    """The row of a trial that ended well before; None for any other."""
    try:
        record = json.loads((folder / TRIALS / trial.key / "run.json").read_text(encoding="utf-8"))
        summary = record["summary"] if record["status"] == "ok" else None
        if summary is None:
            return None
        seconds = sum(part["cpu_seconds"] for part in record["times"].values() if isinstance(part, dict))
        row = _row(trial, "ok", round(seconds, 6), "")
        return row | _results(summary["rates_hz"], summary["spikes"], summary["metrics"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _row(trial: Trial, status: str, seconds: float, message: str) -> dict[str, Any]:
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


def _shown(row: Row) -> str:
    """A few words of a row for the progress."""
    said = [f"{k.removeprefix('set.')} {v}" for k, v in row.items() if k.startswith("set.")]
    numbers = [f"{k} {v:.3g}" for k, v in row.items() if isinstance(v, float) and k != "seconds"]
    return ", ".join([*said[:3], *(numbers[:2] or [row["status"]])])


def write_table(state: _State) -> tuple[Row, ...]:
    """Write sweep.json, sweep.csv and, where pyarrow is installed, sweep.parquet; the rows."""
    plan = state.plan
    rows = tuple(state.rows.get(t.key) or _row(t, "missing", 0.0, "") for t in plan.trials)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(state.folder / "sweep.csv", text.getvalue(), "the table of the sweep")
    record = {"model": str(plan.path), "name": plan.name, "swept": plan.swept, "trials": len(plan.trials)}
    done = sum(row["status"] == "ok" for row in rows)
    write_text(state.folder / "sweep.json", dumps({**record, "ok": done}) + "\n", "the sweep")
    with suppress(ImportError):
        _write_parquet(state.folder / "sweep.parquet", rows, columns)
    state.written = time.monotonic()
    return rows


def _write_parquet(path: Path, rows: tuple[Row, ...], columns: list[str]) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table({name: [row.get(name) for row in rows] for name in columns})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    with new_file(path, "the table of the sweep", sink.tell()) as stream:
        stream.write(sink.getvalue())
