"""What a sweep shows while it runs: a live table on a terminal, lines elsewhere, or nothing.

Assumes: `begun` and `ended` are called in the process that waits.
Guarantees: everything goes to standard error; rich is imported only for a terminal.
Does not: keep the results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from compiler.sweep.trial import Row, Trial

if TYPE_CHECKING:
    from compiler.sweep.plan import Plan

EVERY: Final = 5.0
"""Seconds between two lines where there is no terminal."""
LISTED: Final = 8
"""Trials that the live table lists."""


class Shown(Protocol):
    def start(self, plan: Plan, done: int) -> None:
        """`done`: trials that are there already."""
        ...

    def begun(self, trial: Trial) -> None: ...

    def ended(self, trial: Trial, row: Row, done: int, best: Row | None) -> None:
        """`done`: trials that have ended, those that were there counted."""
        ...

    def finish(self) -> None: ...


class Nothing:
    """Shows nothing."""

    def start(self, plan: Plan, done: int) -> None:
        pass

    def begun(self, trial: Trial) -> None:
        pass

    def ended(self, trial: Trial, row: Row, done: int, best: Row | None) -> None:
        pass

    def finish(self) -> None:
        pass


class Lines(Nothing):
    """One line every few seconds, for logs."""

    def __init__(self) -> None:
        self._course = Course()
        self._next = 0.0

    def start(self, plan: Plan, done: int) -> None:
        self._course = Course(plan, done)
        self._next = time.monotonic() + EVERY

    def ended(self, trial: Trial, row: Row, done: int, best: Row | None) -> None:
        self._course.ended(row, done, best)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            print(f"{self._course.name}: {self._course.text()}; {words_of(row)}", file=sys.stderr, flush=True)


class Course:
    """How far a sweep is."""

    def __init__(self, plan: Plan | None = None, done: int = 0) -> None:
        self.plan, self.done, self._there = plan, done, done
        self.name = "" if plan is None else plan.name
        self.counts: dict[str, int] = {}
        self.best: Row | None = None
        self._begin = time.monotonic()

    def ended(self, row: Row, done: int, best: Row | None) -> None:
        self.done, self.best = done, best
        self.counts[row["status"]] = self.counts.get(row["status"], 0) + 1

    def left(self) -> float | None:
        """Seconds to the end, as it went so far; None while that is not known."""
        ran = self.done - self._there
        if self.plan is None or ran < 1:
            return None
        return (self.plan.count - self.done) * (time.monotonic() - self._begin) / ran

    def text(self) -> str:
        parts = [f"{self.done} of {self.plan.count if self.plan else 0} trials"]
        parts += [f"{count} {status}" for status, count in self.counts.items() if status != "ok"]
        left = self.left()
        if left:
            parts.append(f"{clock(left)} left")
        return ", ".join(parts)

    def best_text(self) -> str | None:
        if self.best is None or self.plan is None or self.plan.search is None:
            return None
        goal = self.plan.search.goal
        return f"{goal} {self.best[goal]:.6g} with {settings_text(self.best)}"


class Table(Nothing):
    """A table of the trials that run and of the last ones that ended, the best so far, and the time that is left."""

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._course = Course()
        self._running: dict[str, tuple[Trial, float]] = {}
        self._last: list[Row] = []
        console = console or Console(stderr=True)
        self._live = Live(get_renderable=self.picture, console=console, refresh_per_second=4, transient=True)

    def start(self, plan: Plan, done: int) -> None:
        self._course = Course(plan, done)
        self._live.start()

    def begun(self, trial: Trial) -> None:
        self._running[trial.key] = (trial, time.monotonic())

    def ended(self, trial: Trial, row: Row, done: int, best: Row | None) -> None:
        self._course.ended(row, done, best)
        self._running.pop(trial.key, None)
        self._last = [*self._last, row][-LISTED:]

    def finish(self) -> None:
        self._live.stop()

    def picture(self) -> Any:
        """What stands on the terminal now."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=None, pad_edge=False)
        for head in ("trial", "state", "settings", "results"):
            table.add_column(head, no_wrap=True)
        ran = max(0, LISTED - min(len(self._running), LISTED // 2))
        for row in self._last[-ran:]:
            table.add_row(row["trial"], row["status"], settings_text(row), row["message"] or results_text(row))
        for trial, begin in list(self._running.values())[:LISTED]:
            settings = ", ".join(f"{n}={v}" for n, v in trial.settings.items())
            table.add_row(trial.key, f"runs {clock(time.monotonic() - begin)}", settings, "")
        best = self._course.best_text()
        lines = [Text(f"{self._course.name}: {self._course.text()}, {len(self._running)} under way")]
        return Group(table, *lines, *([Text(f"best so far: {best}")] if best else []))


def shown(quiet: bool) -> Shown:
    """What fits standard error."""
    if quiet:
        return Nothing()
    return Table() if sys.stderr.isatty() else Lines()


def settings_text(row: Mapping[str, Any]) -> str:
    """`n=3, rate=20 Hz` of a row."""
    return ", ".join(f"{k.removeprefix('set.')}={v}" for k, v in row.items() if k.startswith("set."))


def results_text(row: Row) -> str:
    """The first results of a row."""
    numbers = [f"{k} {v:.3g}" for k, v in row.items() if isinstance(v, float) and k != "seconds"]
    return ", ".join(numbers[:3])


def words_of(row: Row) -> str:
    """A few words of a row."""
    return ": ".join(t for t in (settings_text(row), results_text(row) or row["message"] or row["status"]) if t)


def clock(seconds: float) -> str:
    """75 -> "1:15"."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
