"""Reporting of violated legality specs: an internal error with every violation, never a user's mistake; and violations
common to several parts of level 0.

Assumes: nothing.
Guarantees: one exception for all levels.
Does not: report faults of a model file; those are Diagnostics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from compiler.expr.ast import Expr, Quantity, children, refs
from compiler.expr.functions import CONSTANTS
from compiler.ir.level0.spiking import Set


class InternalError(Exception):
    """The compiler produced an illegal IR. `violations`: one sentence each."""

    def __init__(self, what: str, violations: Iterable[str]) -> None:
        self.what, self.violations = what, tuple(violations)
        lines = "".join(f"\n  - {v}" for v in self.violations)
        super().__init__(f"{what} is not legal:{lines}")


def check(what: str, violations: Iterable[str]) -> None:
    """Raise InternalError when there are violations."""
    found = tuple(violations)
    if found:
        raise InternalError(what, found)


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, sorted; in time linear in their number."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def distinct(what: str, names: Iterable[str]) -> Iterator[str]:
    """A violation for each name that occurs more than once."""
    for name in repeated(names):
        yield f"{what} `{name}` is declared twice"


def unknown(used: Iterable[str], known: Iterable[str], where: str) -> Iterator[str]:
    """Violations by names that are read where they are not known."""
    for name in sorted(set(used) - set(known) - CONSTANTS.keys()):
        yield f"{where} reads `{name}`, which is not known there"


def reads(e: Expr, allowed: Iterable[str], where: str) -> Iterator[str]:
    """Violations by the names of an expression, and by quantities, which level 0 has no more."""
    yield from unknown(refs(e), allowed, where)
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Quantity):
            yield f"{where} holds a quantity"
        stack.extend(children(x))


def statements(sets: Iterable[Set], known: set[str], fixed: Iterable[str] = ()) -> Iterator[str]:
    """Straight-line code: `known` grows by what is assigned; `fixed` cannot be assigned to."""
    unchanging = set(fixed)
    for s in sets:
        yield from reads(s.value, known, f"`{s.target} = ...`")
        if s.target in unchanging:
            yield f"`{s.target}` cannot be assigned to"
        known.add(s.target)
