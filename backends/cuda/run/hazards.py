"""hazards: which launches of a phase may run concurrently.

Assumes: a legal program (rows of one launch are independent) and its placement.
Guarantees: a launch waits for every earlier one with a read-after-write, write-after-write or write-after-read hazard;
sums into one array by several launches commute. Recording spikes reads one slot of a ring buffer of events, so that
neurons need not wait for it in the next steps, which write other slots.
Does not: reorder launches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import touched as of_rows
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement


@dataclass(frozen=True)
class Touched:
    """Arrays that a launch reads, writes and adds to."""

    read: frozenset[str]
    written: frozenset[str]
    added: frozenset[str]

    def needs(self, earlier: Touched) -> bool:
        """Whether this launch must wait for an earlier one."""
        touched = earlier.read | earlier.written | earlier.added
        return bool(
            self.written & touched
            or self.read & (earlier.written | earlier.added)
            or self.added & (earlier.read | earlier.written)
        )


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


def touched(program: l2.Merged, launch: l2.Launch, shared: Mapping[str, frozenset[str]]) -> Touched:
    """The accesses of the rows of a launch; a write to an array also writes the arrays that share its memory
    (`overlaps`)."""
    formals, rows = program.templates[launch.template].formals, program.tables[launch.template]
    read, written, added = of_rows(formals, rows, launch.lo, launch.hi, {})
    for name in tuple(written | added):
        written |= shared.get(name, frozenset())
    return Touched(frozenset(read), frozenset(written), frozenset(added))


def together(parts: Sequence[Touched]) -> Touched:
    """The accesses of launches that run as one."""
    none: frozenset[str] = frozenset()
    return Touched(
        none.union(*(p.read for p in parts)),
        none.union(*(p.written for p in parts)),
        none.union(*(p.added for p in parts)),
    )


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
