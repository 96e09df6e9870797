"""The garbage collector, put off while a compiler makes objects that all live until its end.

Assumes: what runs meanwhile makes no garbage that only the collector could free.
Guarantees: the collector is on again afterwards if it was before.
Does not: free anything.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Without the collector: a large model is a million objects, none of them garbage, which it would visit again and
    again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
