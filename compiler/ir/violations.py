"""How a broken legality spec is told: an internal error with every violation, never a user's
mistake.

Assumes: nothing.
Guarantees: one exception for all levels.
Does not: stand for anything that a model file can cause; those are Diagnostics.
"""

from __future__ import annotations

from collections.abc import Iterable


class InternalError(Exception):
    """The compiler made something illegal. `violations`: one sentence each."""

    def __init__(self, what: str, violations: Iterable[str]) -> None:
        self.what, self.violations = what, tuple(violations)
        lines = "".join(f"\n  - {v}" for v in self.violations)
        super().__init__(f"{what} is not legal:{lines}")


def check(what: str, violations: Iterable[str]) -> None:
    """Raise InternalError when there are violations."""
    found = tuple(violations)
    if found:
        raise InternalError(what, found)
