"""Ctrl-C, SIGTERM and SIGHUP: a request to stop after the current step, or an immediate end where nothing is lost.

Assumes: long calls of generated code leave the main thread free (backends/cpu/run/load.py).
Guarantees: inside of `ended_by_signals` a signal raises Interrupted; inside of `stop_on_signals` the first one only
sets a flag, and a second one ends a command at once, anywhere (from Python: Ctrl-C raises KeyboardInterrupt). A signal
that is ignored (nohup) stays ignored; the handlers that were there before are put back.
Does not: act outside of the main thread, where Python handles no signals.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from compiler.core.diagnostics import Interrupted

WATCHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME: Final = 0.3
"""Seconds in which signals are one request."""
STOPPING: Final = b"\nstopping when this step is done; once more ends at once\n"


@dataclass
class Stop:
    """`number` is the signal that asked to stop, or None."""

    number: int | None = None


@dataclass
class TerminationHandler:
    """A handler that ends what runs. `command`: the process is a command's, so that a second signal may end it;
    `number`: the signal that came."""

    command: bool
    number: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        raise Interrupted(number)


@contextmanager
def ended_by_signals(command: bool = False) -> Iterator[TerminationHandler]:
    """Signals raise Interrupted. Within a command's, those that the Python API asks for are the command's."""
    ending = TerminationHandler(command or _is_command(signal.getsignal(signal.SIGTERM)))
    with _handled(ending):
        yield ending


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """The first signal sets `number`; those that come with it (from `timeout`, or the terminal) are the same one."""
    stop = Stop()
    command = _is_command(signal.getsignal(signal.SIGTERM))
    came: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if not came:
            came.append(time.monotonic())
            stop.number = number
            if command and number == signal.SIGINT:
                with suppress(OSError):
                    os.write(2, STOPPING)  # not through a buffer, which the main thread may be writing to
        elif time.monotonic() > came[0] + SAME:
            if not command and number == signal.SIGINT:
                raise KeyboardInterrupt
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    with _handled(handle):
        yield stop


def _is_command(handler: Any) -> bool:
    return isinstance(handler, TerminationHandler) and handler.command


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    """`handler` for the signals that are not ignored, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {s: signal.getsignal(s) for s in WATCHED}
    before = {s: old for s, old in before.items() if old not in (signal.SIG_IGN, None)}
    try:
        for s in before:
            signal.signal(s, handler)
        yield
    finally:
        for s, old in before.items():
            signal.signal(s, old)
