"""Processes of this machine that run trials.

Assumes: trials that are independent.
Guarantees: a process that dies takes its trials only: those that were running begin again, each in a process of its
own, at most ATTEMPTS times in all.
Does not: choose trials.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from types import ModuleType
from typing import Any, Final, Protocol

from compiler.sweep.prune import Watch
from compiler.sweep.trial import Job, Row, Trial, row_of, run_trial

ATTEMPTS: Final = 2
"""How often a trial is begun whose process dies."""
DIED: Final = "its process died"


class Pool(Protocol):
    """Where trials run."""

    warm: bool
    """Whether the first trials may begin together: what they have in common is not compiled once for all anyway."""

    def room(self) -> int:
        """How many more trials may be given now."""
        ...

    def submit(self, trial: Trial, watch: Watch | None) -> None: ...

    @property
    def busy(self) -> bool:
        """Whether a trial that was given has not ended."""
        ...

    def wait(self, seconds: float | None) -> list[tuple[Trial, Row]]:
        """The trials that have ended, after one has or the time is over."""
        ...

    def close(self, kill: bool) -> None:
        """End; `kill`: also the trials that run."""
        ...


@dataclass(frozen=True)
class _Begun:
    trial: Trial
    watch: Watch | None
    times: int = 1


class Processes:
    """No trial waits for a process: one that did would begin when the others are ended."""

    warm = False

    def __init__(self, job: Job, workers: int) -> None:
        self._job, self._workers = job, workers
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[dict[str, Any]], _Begun] = {}
        self._again: list[_Begun] = []
        self._broken = self._alone = False

    @property
    def busy(self) -> bool:
        return bool(self._running or self._again)

    def room(self) -> int:
        return 0 if self._broken or self._alone or self._again else self._workers - len(self._running)

    def submit(self, trial: Trial, watch: Watch | None) -> None:
        self._begin(_Begun(trial, watch))

    def wait(self, seconds: float | None) -> list[tuple[Trial, Row]]:
        if not self._running and self._again:
            self._renew(1)
            self._alone = True
            self._begin(self._again.pop(0))
        done, _ = wait_for(self._running, seconds, FIRST_COMPLETED)
        ended: list[tuple[Trial, Row]] = []
        for future in done:
            begun = self._running.pop(future)
            try:
                ended.append((begun.trial, future.result()))
            except BrokenProcessPool:
                self._broken = True
                if begun.times < ATTEMPTS:
                    self._again.append(_Begun(begun.trial, begun.watch, begun.times + 1))
                else:
                    ended.append((begun.trial, row_of(begun.trial, "failed", 0.0, DIED)))
        if (self._broken or self._alone) and not self._running and not self._again:
            self._renew(self._workers)
            self._broken = self._alone = False
        return ended

    def close(self, kill: bool) -> None:
        if self._pool is None:
            return
        if kill:
            for process in list((self._pool._processes or {}).values()):
                with suppress(OSError):
                    os.kill(process.pid or 0, signal.SIGTERM)
        self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def _renew(self, workers: int) -> None:
        self.close(kill=False)
        self._pool = ProcessPoolExecutor(workers, get_context("forkserver"), initializer=_quiet_signals)

    def _begin(self, begun: _Begun) -> None:
        if self._pool is None:
            self._renew(self._workers)
        assert self._pool is not None
        try:
            with _without_main():
                future = self._pool.submit(run_trial, self._job, begun.trial, begun.watch)
        except BrokenProcessPool as error:  # a process died since the last wait
            future = Future()
            future.set_exception(error)
        self._running[future] = begun


@contextmanager
def _without_main() -> Iterator[None]:
    """A context in which new processes do not import the caller's script, which would sweep once more."""
    own = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = own


def _quiet_signals() -> None:
    """Ctrl-C is for the process that waits: it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
