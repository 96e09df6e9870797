"""report: all candidates of every contraction that was measured.

Assumes: compiler/tune/choosing.py.
Guarantees: candidates by time, the fastest first; the share is of the device's limit: what the operations of the
definition would take at its peak of float32 arithmetic, or its memory. An algorithm with fewer operations, or units for
rounded factors, may show more than all of it.
Does not: measure or print.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler.ir.level2.target import Target
from compiler.strategies.variants import identity
from compiler.tune.choosing import Tuned
from compiler.tune.sites import workspace_of


@dataclass(frozen=True)
class Row:
    """A candidate. `share`: of the device's limit (None: it is not known); `workspace`: bytes beside the arrays;
    `error`: relative, in the Frobenius norm, against float64."""

    path: str
    way: str
    microseconds: float
    share: float | None
    workspace: int
    error: float | None
    chosen: bool
    rule: bool
    wrong: bool

    @property
    def mark(self) -> str:
        """What a table says beside it."""
        words = ("chosen", self.chosen), ("rule", self.rule), ("wrong", self.wrong)
        return ", ".join(word for word, holds in words if holds)


def rows(tuned: Iterable[Tuned], device: Target, real: int) -> Iterator[Row]:
    """The candidates of all contractions, by path."""
    for t in tuned:
        site, found = t.measured.site, t.measured
        least = site.least_microseconds(device, real)
        for way in sorted(site.ways, key=lambda w: found.microseconds[identity(w)]):
            name = identity(way)
            time = found.microseconds[name]
            yield Row(
                t.path,
                name,
                time,
                least / time if time and least else None,
                workspace_of(way),
                found.errors.get(name),
                name == identity(t.choice),
                name == identity(site.ways[0]),
                name in found.wrong,
            )
