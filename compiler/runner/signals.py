"""Ctrl-C and SIGTERM as a request to stop after the step that runs.

Assumes: generated code is called in blocks of a fraction of a second.
Guarantees: inside of `stop_on_signals` the first signal only sets a flag; a second one ends the program as usual.
The handlers that were there before are put back.
Does not: act where Python runs no signal handlers (outside of the main thread).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """`number` is the signal that asked to stop, or None."""

    number: int | None = None


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    watched = (signal.SIGINT, signal.SIGTERM)
    before = {s: signal.getsignal(s) for s in watched}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.number = number
        for s in watched:
            signal.signal(s, signal.SIG_DFL if s != signal.SIGINT else signal.default_int_handler)

    for s in watched:
        signal.signal(s, handle)
    try:
        yield stop
    finally:
        for s, old in before.items():
            signal.signal(s, old)
