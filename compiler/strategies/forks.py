"""forks: where a program may be made in several ways, beside its contractions: attention at once or by contractions,
recurrent layers as chains or launch by launch.

Assumes: a pass that knows the ways of a place, that of the rules first.
Guarantees: a pin is taken only for the problem that it was measured on, and a way that there is.
Does not: measure (compiler/tune/forks.py does, by whole steps).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from compiler.strategies.pins import Pins


@dataclass(frozen=True)
class Fork:
    """`path`: `train/attention_1`, `train/lstm_1.last.chain`; `problem`: equal where the ways take the same time;
    `ways`: by name, that of the rules first; `reason`: theirs."""

    path: str
    problem: str
    ways: tuple[str, ...]
    reason: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return self.ways


def problem_of(*parts: object) -> str:
    """The digest of what a fork is of."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def taken(fork: Fork, pins: Pins) -> tuple[str, str]:
    """The pinned way, where the pin is valid, else that of the rules; and why."""
    pin = pins.get(fork.path)
    if pin is None or pin.problem != fork.problem or pin.way not in fork.ways:
        return fork.ways[0], fork.reason
    return pin.way, f"{pin.source}: {pin.way}, a step of {pin.microseconds:.1f} us"
