"""The garbage collector, put off while a compiler makes objects that all live until its end.

Assumes: what runs meanwhile makes no garbage that only the collector could free; nobody else turns the collector on or
off meanwhile.
Guarantees: however many threads are in `no_garbage_collection`, the collector is off until the last one leaves, and
then as it was before the first one came.
Does not: free anything, or touch what the process has made before.
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
    """How many are in it, and whether the collector was on before. The collector is one for the process, so this is."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0
    was: bool = False


_PAUSE: Final = _Pause()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Without the collector: a large model is a million objects, none of them garbage, which it would visit again and
    again."""
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
