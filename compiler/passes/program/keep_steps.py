"""keep_steps: what a step of a chain makes has a place of its own.

One by one, launches make a step's intermediate results anew where those of the step before were. In a chain some blocks
are steps ahead of others, and a block may go on with a stage of the next step while others read what this one made.

Assumes: a merged program.
Guarantees: no two steps of a loop that pays as a chain write the same elements, and no ring is left in it: an array
that only loops use, and steps make anew, is a part of one with a part for each step; a ring has a slot for the state
before each step and one for the last state. Names of what launches access stay, and so do all launches and rows.
Does not: change other loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import touched
from compiler.ir.space import Role
from compiler.layout.plan_memory import padded


def keep_steps(merged: l2.Merged) -> l2.Merged:
    chained = [(p, loop) for p in merged.phases for loop in p.chains]
    if not chained:
        return merged
    arrays = {a.name: a for a in merged.arrays}
    changed: dict[str, tuple[l2.Array, ...]] = {}
    temporaries = _temporaries(merged, arrays)
    for phase, loop in chained:
        before = _bound(merged, phase.launches[: loop.first])
        inside = _bound(merged, phase.launches[loop.first : loop.last])
        rings = {a.within: abs(a.by_step) for n in inside if (a := arrays[n]).ring}
        for name in inside & temporaries.keys():
            changed[name] = _parts(arrays[name], temporaries[name])
        for a in merged.arrays if rings else ():
            if a.name in rings:
                changed[a.name] = (_apart(a, a.name, loop.steps + 1, rings[a.name]),)
            elif a.within in rings:
                changed[a.name] = (_slot(a, rings[a.within], loop.steps, a.name in before),)
    return replace(merged, arrays=tuple(b for a in merged.arrays for b in changed.get(a.name, (a,))))


def _slot(a: l2.Array, size: int, steps: int, before: bool) -> l2.Array:
    """What lies in a ring: the states before or after each step; else the one that the loop begins with, if launches
    before use it, or the last one."""
    number = a.first // size if before or a.by_step else steps
    return replace(a, first=number * _spacing(a, size), by_step=_spacing(a, size) if a.by_step else 0, ring=0)


def _parts(a: l2.Array, steps: int) -> tuple[l2.Array, l2.Array]:
    """An array with a part for each step, and the part."""
    whole, size = _apart(a, f"{a.name}.steps", steps, a.physical_size), a.physical_size
    return whole, replace(a, within=whole.name, by_step=_spacing(a, size))


def _apart(a: l2.Array, name: str, many: int, size: int) -> l2.Array:
    """An array with so many parts of a size."""
    return replace(a, name=name, shape=(many * _spacing(a, size),))


def _spacing(a: l2.Array, size: int) -> int:
    """Elements between the beginnings of parts, which are as far apart as arrays."""
    return padded(size * a.dtype.bytes) // a.dtype.bytes


def _temporaries(merged: l2.Merged, arrays: Mapping[str, l2.Array]) -> dict[str, int]:
    """Arrays that only steps of loops use, each for itself, with the steps of the longest of these loops."""
    inside: dict[str, int] = {}
    outside = set[str]()
    for p in merged.phases:
        done = 0
        for loop in p.loops:
            outside |= _bound(merged, p.launches[done : loop.first])
            for n in _bound(merged, p.launches[loop.first : loop.last]):
                inside[n] = max(inside.get(n, 0), loop.steps)
            done = loop.last
        outside |= _bound(merged, p.launches[done:])
    wholes = {a.within for a in merged.arrays}
    own = {n for n in inside if (a := arrays[n]).role is Role.WORK and not a.within and n not in wholes}
    return {n: inside[n] for n in own - outside}


def _bound(merged: l2.Merged, launches: Iterable[l2.Launch]) -> Set[str]:
    return touched(merged.templates, merged.tables, launches, {}).names
