"""Runs the trials of a sweep and keeps the table.

Assumes: a plan; trials are independent.
Guarantees: one directory a trial, named by its key: a sweep that is started again runs only the trials that did not
end well. A trial that fails, or whose process dies, is a row of the table and stops no other. The first trial begins
alone, so that what all have in common is compiled once. The table is written when a trial ends (at most every second)
and at the end, whole or not at all.
Does not: choose the trials (plan.py, search.py) or run one (trial.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from compiler.core.disk import leftovers, make_folder, only_one, remove_leftover
from compiler.runtime.common.options import Options
from compiler.sweep.plan import Plan, plan
from compiler.sweep.pool import Pool, Processes
from compiler.sweep.prune import Watch
from compiler.sweep.show import Shown
from compiler.sweep.table import SweepResult, best_of, write_table
from compiler.sweep.trial import TRIALS, Job, Row, Trial, finished_row, row_of

LOOK: Final = 0.1
"""Seconds between two looks whether the first trial has been compiled."""


class Source(Protocol):
    """Says which trial is next."""

    def next(self) -> tuple[Trial, Watch | None] | None:
        """None: no other trial can begin before one that runs has ended, or at all."""
        ...

    def tell(self, trial: Trial, row: Row) -> None: ...


@dataclass
class State:
    """`trials`: those that are known, in the order of the table."""

    plan: Plan
    folder: Path
    shown: Shown
    trials: list[Trial]
    rows: dict[str, Row] = field(default_factory=dict)
    written: float = 0.0
    ran: int = 0

    def add(self, trial: Trial, row: Row) -> None:
        """A trial has ended."""
        self.rows[trial.key] = row
        self.ran += 1
        best = None if self.plan.search is None else best_of(self.table(), self.plan)
        self.shown.ended(trial, row, len(self.rows), best)
        if time.monotonic() - self.written > 1:
            self.write()

    def table(self) -> tuple[Row, ...]:
        return tuple(self.rows.get(t.key) or row_of(t, "missing", 0.0, "") for t in self.trials)

    def write(self) -> tuple[Row, ...]:
        rows = self.table()
        write_table(self.folder, self.plan, rows)
        self.written = time.monotonic()
        return rows


class _Fixed:
    """Trials that are known from the beginning."""

    def __init__(self, trials: Iterator[Trial]) -> None:
        self._trials = trials

    def next(self) -> tuple[Trial, Watch | None] | None:
        trial = next(self._trials, None)
        return None if trial is None else (trial, None)

    def tell(self, trial: Trial, row: Row) -> None:
        pass


Start = Callable[[Job, bool], Pool]
"""From what is to be run, and whether trials may wait for a process, to where they run."""


DETERMINING: Final = ("target", "precision", "order", "duration", "epochs", "data", "validation", "freeze", "weights")
"""The options that results depend on, beside settings and seeds."""


def planned(path: Path, own: Any, seeds: int | Sequence[int] | None, options: Options) -> Plan:
    """The plan of a model file with a caller's options; see `plan`."""
    return plan(path, own, seeds, options.set, {name: getattr(options, name) for name in DETERMINING})


def run_sweep(plan: Plan, options: Options, folder: Path, start: int | Start, shown: Shown) -> SweepResult:
    """Run what is missing. `options`: of every trial (target, precision, duration, ...); `start`: so many processes, or
    where trials run. Raises RunError: E0940 where another sweep runs in the folder, E0930 where it cannot be written,
    E0941 or E0942 where a package or the cluster is missing; what a trial raises is in its row."""
    with only_one(folder, "a sweep"):
        make_folder(folder / TRIALS, "a sweep")
        for path in leftovers(folder / TRIALS):
            remove_leftover(path)
        state = State(plan, folder, shown, list(plan.trials))
        for trial in plan.trials:
            row = finished_row(trial, folder)
            if row is not None:
                state.rows[trial.key] = row
        source: Source = _Fixed(t for t in plan.trials if t.key not in state.rows)
        if plan.search is not None:
            from compiler.sweep.search import Search

            source = Search(plan.search, folder, state.trials, state.rows)
        job = Job(plan.path, replace(options, set={}), folder, plan.fixed)
        shown.start(plan, len(state.rows))
        interrupted = False
        try:
            interrupted = _drive(source, job, start, state)
        finally:
            shown.finish()
            rows = state.write()
        goal = None if plan.search is None else plan.search.goal
        return SweepResult(folder, rows, state.ran, interrupted, goal, best_of(rows, plan))


def _drive(source: Source, job: Job, start: int | Start, state: State) -> bool:
    """Run all trials; whether Ctrl-C ended that."""
    first = source.next()
    if first is None:
        return False
    ahead = state.plan.search is None
    pool = Processes(job, start) if isinstance(start, int) else start(job, ahead)
    killed = True
    try:
        _run(source, first, pool, state)
        killed = False
    except KeyboardInterrupt:
        return True
    finally:
        pool.close(killed)
    return False


def _run(source: Source, first: tuple[Trial, Watch | None], pool: Pool, state: State) -> None:
    warm, pending = pool.warm, [first]
    while True:
        room = pool.room() if warm else int(not pool.busy)
        while room > 0:
            found = pending.pop() if pending else source.next()
            if found is None:
                break
            pool.submit(*found)
            state.shown.begun(found[0])
            room -= 1
        if not pool.busy:
            return
        for trial, row in pool.wait(None if warm else LOOK):
            warm = True
            source.tell(trial, row)
            state.add(trial, row)
        warm = warm or _compiled(first[0], state.folder)


def _compiled(trial: Trial, folder: Path) -> bool:
    """Whether a trial has a folder for its results: everything is compiled by then."""
    return any((folder / TRIALS).glob(f".{trial.key}.*.part"))
