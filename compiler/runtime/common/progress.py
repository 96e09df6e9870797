"""Progress of a run: bars on a terminal, a line every few seconds elsewhere, or nothing.

Assumes: `update` is called a few times per second.
Guarantees: everything goes to standard error; rich is imported only for a terminal.
Does not: slow a run down (an update costs microseconds unless something is shown).
"""

from __future__ import annotations

import sys
import time

EVERY = 5.0  # seconds between two lines where there is no terminal


class Progress:
    """Shows nothing; others show something."""

    def start(self, label: str, total: float) -> None:
        pass

    def update(self, done: float, text: str) -> None:
        """`done` of `total`; `text`: the status ("1.2 s of 10 s, 3.4 x real time")."""

    def finish(self) -> None:
        pass

    def tell(self, text: str) -> None:
        """Shows a message."""

    def epoch(self, row: dict[str, float]) -> bool:
        """`row`: the line of metrics.jsonl. True ends the training."""
        return False


class LineProgress(Progress):
    """One line every few seconds, for logs."""

    def __init__(self) -> None:
        self._label, self._total, self._next = "", 1.0, 0.0

    def start(self, label: str, total: float) -> None:
        self._label, self._total = label, max(total, 1e-12)
        self._next = time.perf_counter() + EVERY

    def tell(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def update(self, done: float, text: str) -> None:
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + EVERY
            print(f"{self._label}: {100 * done / self._total:.0f} %, {text}", file=sys.stderr, flush=True)


class BarProgress(Progress):
    """A bar with the time that is left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(20),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bars.add_task("", text="")

    def start(self, label: str, total: float) -> None:
        self._bars.reset(self._task, total=total, description=label, text="")
        self._bars.start()

    def tell(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def update(self, done: float, text: str) -> None:
        self._bars.update(self._task, completed=done, text=text)

    def finish(self) -> None:
        self._bars.stop()


def progress(quiet: bool) -> Progress:
    """The progress that fits standard error."""
    if quiet:
        return Progress()
    return BarProgress() if sys.stderr.isatty() else LineProgress()
