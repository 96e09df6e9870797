"""Pauses the garbage collector while the compiler creates many long-lived objects.

Assumes: the code inside creates no garbage in cycles, and nothing else enables or disables the collector meanwhile.
Guarantees: the collector is off while any thread is inside `no_garbage_collection`, and as before when the last one
leaves.
Does not: free or freeze objects of the caller.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final


@dataclass
class _Pause:
    """How many threads are inside, and whether the collector was on before: one per process, as the collector."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0
    was: bool = False


_PAUSE: Final = _Pause()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Pause the collector: a large model has a million objects, none of them garbage, which it would scan
    repeatedly."""
    with _PAUSE.lock:
        if _PAUSE.inside == 0:
            _PAUSE.was = gc.isenabled()
            gc.disable()
        _PAUSE.inside += 1
    try:
        yield
    finally:
        with _PAUSE.lock:
            _PAUSE.inside -= 1
            if _PAUSE.inside == 0 and _PAUSE.was:
                gc.enable()
