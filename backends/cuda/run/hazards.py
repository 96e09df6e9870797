"""hazards: which launches of a phase may run concurrently.

Assumes: a legal program (rows of one launch are independent) and its placement.
Guarantees: a launch waits for every earlier one with a read-after-write, write-after-write or write-after-read hazard;
sums into one array by several launches commute. Recording spikes reads one slot of a ring buffer of events, so that
neurons need not wait for it in the next steps, which write other slots.
Does not: reorder launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Touched
from compiler.ir.level2.dependence import touched as of_rows
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement


def overlaps(program: l2.Merged, placement: Placement) -> dict[str, frozenset[str]]:
    """WORK arrays that share memory, by name: their lifetimes are disjoint in the order of launches, but may overlap
    when launches run concurrently. So do arrays and their parts."""
    arrays = [a for a in program.arrays if a.role is Role.WORK and a.name in placement.offsets]
    spans = sorted(
        (placement.offsets[a.name], placement.offsets[a.name] + a.physical_size * a.dtype.bytes, a.name) for a in arrays
    )
    found: dict[str, set[str]] = {}
    for number, (_, end, name) in enumerate(spans):
        for start, _, other in spans[number + 1 :]:
            if start >= end:
                break
            found.setdefault(name, set()).add(other)
            found.setdefault(other, set()).add(name)
    return {name: frozenset(others) for name, others in found.items()}


def touched(program: l2.Merged, launches: Iterable[l2.Launch], shared: Mapping[str, frozenset[str]]) -> Touched:
    """The accesses of launches that run as one; a write to an array also writes the arrays that share its memory
    (`overlaps`)."""
    own = Touched()
    for x in launches:
        own.include(of_rows(program.templates[x.template].formals, program.tables[x.template], x.lo, x.hi, {}))
    own.written.update(*(shared.get(n, ()) for n in own.written | own.added))
    return own


def conflicts(launches: Sequence[Touched]) -> list[frozenset[int]]:
    """For each launch of a phase those that may not run concurrently with it, itself included: of two of them the later
    one waits, in a step or in one of the next steps."""
    found: list[set[int]] = [{n} for n in range(len(launches))]
    for n, launch in enumerate(launches):
        for m in range(n):
            if launch.needs(launches[m]):
                found[n].add(m)
                found[m].add(n)
    return [frozenset(x) for x in found]
