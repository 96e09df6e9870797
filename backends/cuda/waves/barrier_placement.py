"""barrier_placement: grid barriers of a phase, between which its launches may run as one kernel (waves.py).

Assumes: a legal program; the launches of a phase run in order, step after step.
Guarantees: two launches without a barrier between them access disjoint arrays, or different slots of a ring buffer, or
each shared element in the same thread (`alike`: rows that must run on the same block), which the dependence analysis
tells (compiler/ir/level2/dependence.py). Launches that do not run in every step have a barrier before and after them.
Does not: divide work among blocks (waves.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Launched, Meet, Pairs


@dataclass(frozen=True)
class Meetings:
    """`before`: launches, by their position in the phase, with a barrier before them; `alone`: those with a barrier
    after them, too."""

    before: frozenset[int]
    alone: frozenset[int]


def meetings(launches: Sequence[Launched], pairs: Pairs) -> Meetings:
    """A minimal set of barriers: at least one per step."""
    alone = frozenset(n for n, x in enumerate(launches) if x.launch.every != 1)
    steady = [n for n in range(len(launches)) if n not in alone]
    best: frozenset[int] | None = None
    for start in range(len(steady)):
        before = frozenset(_cut(pairs, steady, start))
        if best is None or len(before) < len(best):
            best = before
    return Meetings((best or frozenset()) | alone, alone)


def _cut(pairs: Pairs, steady: Sequence[int], start: int) -> set[int]:
    """The barriers, if one is before launch `steady[start]` and the others are as late as possible."""
    before: set[int] = set()
    since: list[int] = []
    for n in (*steady[start:], *steady[:start]):
        if not since or any(pairs[m][n].after(int(m > n)) is Meet.WAIT for m in since):
            before.add(n)
            since = []
        since.append(n)
    return before


def alike(launches: Sequence[Launched], steady: Iterable[int]) -> dict[tuple[int, int], int]:
    """(launch, row) -> its group: rows that must be assigned part by part to the same blocks, since they share
    elements."""
    group: dict[tuple[int, int], tuple[int, int]] = {}

    def root(x: tuple[int, int]) -> tuple[int, int]:
        while group.setdefault(x, x) != x:
            x = group[x]
        return x

    owner: dict[str, tuple[int, int]] = {}
    for n in steady:
        if not launches[n].flat:
            continue
        for row in range(launches[n].launch.hi - launches[n].launch.lo):
            root((n, row))
        for use in launches[n].uses:
            for row, name in enumerate(use.names if use.own and use.mode is not l2.Mode.READ else ()):
                group[root((n, row))] = root(owner.setdefault(name, (n, row)))
    for n in steady:
        for use in launches[n].uses if launches[n].flat else ():
            for row, name in enumerate(use.names if use.own and use.mode is l2.Mode.READ else ()):
                if name in owner:
                    group[root((n, row))] = root(owner[name])
    numbers: dict[tuple[int, int], int] = {}
    return {x: numbers.setdefault(root(x), len(numbers)) for x in sorted(group)}
