"""How much work a piece of code does, in calls of Python functions: a number that is the same on every machine.

Assumes: what is measured is written in Python; time within one call of a library does not count.
Guarantees: code that makes too many calls is interrupted, so that exponential work fails rather than lasts.
Does not: measure seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TooMuch(AssertionError):
    """More calls than there may be."""


@contextmanager
def at_most(calls: int) -> Iterator[None]:
    """Fails, with TooMuch, code that makes more calls."""
    made = 0

    def count(_frame: FrameType, event: str, _: object) -> None:
        nonlocal made
        made += event == "call"
        if made > calls:
            raise TooMuch(f"more than {calls:,} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    if made > calls:  # even where the code has caught it
        raise TooMuch(f"more than {calls:,} calls")
