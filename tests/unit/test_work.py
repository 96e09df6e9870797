"""The measure of work counts calls, interrupts what does not end, and leaves no trace."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

from tests.work import TooMuch, at_most


def double(depth: int) -> int:
    return 1 if depth == 0 else double(depth - 1) + double(depth - 1)


def test_calls_are_counted() -> None:
    with at_most(2**5 + 1):  # two more are those of the context
        assert double(4) == 16
    with pytest.raises(TooMuch, match="more than 30 calls"), at_most(30):
        double(4)


def test_what_does_not_end_is_interrupted() -> None:
    before = sys.getprofile()
    with pytest.raises(TooMuch), at_most(1000):
        double(10_000 if sys.getrecursionlimit() > 20_000 else 400)
    with pytest.raises(TooMuch), at_most(1000), suppress(AssertionError):
        double(400)
    assert sys.getprofile() is before
