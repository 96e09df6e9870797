"""memory_report: memory use by array, and its peak over time.

Assumes: a merged program and its placement (plan_memory).
Guarantees: the arenas' bytes are those that an instance allocates, and each array lies in one of them; a WORK array is
live at a launch if it is written before or by it and read by or after it.
Does not: count memory of a target outside the arenas (code, tables, scratch memory of a kernel).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement, lifetimes, padded, sharing


@dataclass(frozen=True)
class Billed:
    """One array: its bytes, and the arrays that share some of its bytes at other times. `bytes` is None where the size
    is drawn when the network is connected."""

    array: l2.Array
    bytes: int | None
    shares: tuple[str, ...]


@dataclass(frozen=True)
class Moment:
    """The launch of a phase with the peak of WORK memory: its number among `launches` (from 1), the kernel, the model
    path of its first row, and the arrays that are live then, largest first."""

    phase: str
    launch: int
    launches: int
    kernel: str
    path: str
    bytes: int
    arrays: tuple[str, ...]


@dataclass(frozen=True)
class Bill:
    """`arenas`: bytes by role; `arrays`: largest first; `unshared`: bytes of WORK without sharing; `in_place`: arrays
    that are updated in place, without a copy; `peaks`: one for each phase that uses WORK."""

    arenas: Mapping[Role, int]
    arrays: tuple[Billed, ...]
    unshared: int
    in_place: tuple[str, ...]
    peaks: tuple[Moment, ...]

    @property
    def total(self) -> int:
        return sum(self.arenas.values())


def memory_bill(merged: l2.Merged, placement: Placement, sizes: Mapping[str, int]) -> Bill:
    """The bill of a program that is placed with these sizes of arrays (`place`)."""
    arrays = [a for a in merged.arrays if not a.within]
    bytes_of = {a.name: _bytes(a, sizes) for a in arrays}
    work = {a.name: padded(size) for a in arrays if a.role is Role.WORK and (size := bytes_of[a.name])}
    begins = ((placement.offsets[name], name) for name in work)
    shares = sharing((begin, begin + work[name], name) for begin, name in begins)
    billed = [Billed(a, bytes_of[a.name], tuple(shares.get(a.name, ()))) for a in arrays]
    billed.sort(key=lambda b: (-(b.bytes or 0), b.array.name))
    return Bill(placement.arena_bytes, tuple(billed), placement.unshared_bytes, _in_place(merged), _peaks(merged, work))


def _bytes(array: l2.Array, sizes: Mapping[str, int]) -> int | None:
    count = array.physical_size
    if count < 0:
        count = sizes.get(array.name, -1)
    return None if count < 0 else count * array.dtype.bytes


def _in_place(merged: l2.Merged) -> tuple[str, ...]:
    """Arrays that some kernel reads and writes elementwise."""
    found: set[str] = set()
    for template, rows in zip(merged.templates, merged.tables, strict=True):
        for formal in template.formals:
            if isinstance(formal, l2.ArrayFormal) and formal.mode is l2.Mode.UPDATE:
                found.update(rows.arrays[formal.name])
    return tuple(sorted(found))


def _peaks(merged: l2.Merged, work: Mapping[str, int]) -> tuple[Moment, ...]:
    lives = lifetimes(merged, set(work))
    changes: dict[int, int] = {}
    for name, spans in lives.items():
        for first, last in spans:
            changes[first] = changes.get(first, 0) + work[name]
            changes[last + 1] = changes.get(last + 1, 0) - work[name]
    peaks = []
    clock = live = 0
    for phase in merged.phases:
        top, at = 0, 0
        for k in range(len(phase.launches)):
            live += changes.get(clock + k, 0)
            if live > top:
                top, at = live, k
        if top:
            launch = phase.launches[at]
            path = merged.tables[launch.template].paths[launch.lo]
            needed = [n for n, spans in lives.items() if any(a <= clock + at <= b for a, b in spans)]
            needed.sort(key=lambda n: (-work[n], n))
            kernel = merged.templates[launch.template].name
            peaks.append(Moment(phase.name, at + 1, len(phase.launches), kernel, path, top, tuple(needed)))
        clock += len(phase.launches)
    return tuple(peaks)
