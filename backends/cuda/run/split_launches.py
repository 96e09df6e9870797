"""split_launches: rows of one launch that are ready, or needed, at different times become several launches.

The updates of all weights are one launch, which waits for the last gradient, although most gradients are known long
before; weights are converted for all layers before the first one begins.

Assumes: rows of a launch are independent; the launches of a phase of layers, in order.
Guarantees: the same rows in the same order. Parts of a launch differ, by APART launches or more, in the last launch
that they wait for or the first one that waits for them; the smallest parts are joined until there are few.
Does not: reorder launches, or split those of chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Latest, Touched, touched
from compiler.ir.level2.target import Target
from compiler.strategies.cost.cuda import worth_a_start

APART: Final = 3
FEW, MANY = 3, 8
"""Parts of a launch, at most, that writes few elements, or so many that the device takes longer than to start one."""


def split(
    program: l2.Merged, launches: Sequence[l2.Launch], shared: Mapping[str, frozenset[str]], device: Target
) -> list[list[l2.Launch]]:
    """The parts of each launch. `shared`: as in dependence.touched."""
    parts = [[replace(x, lo=row, hi=row + 1) for row in range(x.lo, x.hi)] for x in launches]
    rows = [[touched(program.templates, program.tables, [row], {}, shared) for row in part] for part in parts]
    ready, needed = _neighbours(rows, 1), _neighbours(rows[::-1], -1)[::-1]
    sizes = {a.name: a.physical_size for a in program.arrays}
    found = []
    for x, own, since, until in zip(launches, rows, ready, needed, strict=True):
        work = [sum(sizes[n] for n in row.written | row.added) for row in own]
        ends = _ends(list(zip(since, until, strict=True)), work, worth_a_start(device))
        found.append([replace(x, lo=x.lo + a, hi=x.lo + b) for a, b in zip([0, *ends], ends, strict=False)])
    return found


def _neighbours(rows: Sequence[Sequence[Touched]], by: int) -> list[list[int]]:
    """For each row the number of the last launch before its own that may not run beside it, -1 without one; launches
    are in order, or (`by` -1) in reverse order and numbered backwards."""
    latest, found = Latest(), list[list[int]]()
    for number, own in enumerate(rows):
        found.append([by * latest.before(row) for row in own])
        for row in own:
            latest.include(row, number)
    return found


def _ends(times: Sequence[tuple[int, int]], work: Sequence[int], large: int) -> list[int]:
    """Where parts end: rows that follow each other in a part are ready and needed at about the same time."""
    ends, works = list[int](), list[int]()
    begin = times[0]
    for row, (time, size) in enumerate(zip(times, work, strict=True)):
        if ends and max(abs(a - b) for a, b in zip(time, begin, strict=True)) < APART:
            ends[-1], works[-1] = row + 1, works[-1] + size
        else:
            ends.append(row + 1)
            works.append(size)
            begin = time
    most = MANY if sum(work) >= large else FEW
    while len(ends) > most:
        sums = [a + b for a, b in pairwise(works)]
        small = sums.index(min(sums))
        works[small : small + 2] = [sums[small]]
        del ends[small]
    return ends
