"""barrier_placement: grid barriers of a phase, between which its launches may run as one kernel (waves.py).

Assumes: a legal program; all launches of a phase run in order in every step.
Guarantees: two launches without a barrier between them access disjoint arrays, or different slots of a ring buffer, or
each shared element in the same thread (`alike`: rows that must run on the same block), which the dependence analysis
tells (compiler/ir/level2/dependence.py).
Does not: divide work among blocks (waves.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Launched, Meet, Pairs


def meetings(pairs: Pairs) -> frozenset[int]:
    """The launches, by their position in the phase, with a barrier before them: as few as can be, at least one."""
    return min((frozenset(_cut(pairs, start)) for start in range(len(pairs))), key=len, default=frozenset())


def _cut(pairs: Pairs, start: int) -> set[int]:
    """The barriers, if one is before launch `start` and the others are as late as possible."""
    before: set[int] = set()
    since: list[int] = []
    for n in (*range(start, len(pairs)), *range(start)):
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
