"""The launches of all steps of loops, one after the other: what loops, and chains made from them, are compared with.

Assumes: a merged program.
Guarantees: no loop is left but chains of one step, and no array with a part for each step: a row of a step binds arrays
that are the parts of that step, one array for each place, and has its own in place of those that every step makes anew,
so that dependences between steps are those of arrays, and no address is written twice. A loop that keeps samples apart
is one of one step, of launches of one row. What a last step makes for a next one that there is not has no launch.
Tables have their rows in the order of launches.
Does not: reorder launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import Parts, parts_of
from compiler.ir.space import Role

_Entry = tuple[int, int]
"""A row and the step that it is for, -1 outside of loops."""


def unroll_loops(merged: l2.Merged) -> l2.Merged:
    """The program without loops but chains of one step: itself, if it has none."""
    return _Unrolling(merged).run() if merged.has_loops else merged


@dataclass
class _Unrolling:
    """`moving`: arrays with a part for each step; `local`: those that steps use, each for itself; `fixed`: all others.
    `parts`: the array of each place, by the whole, its first element there and its shape; `entries`: the new rows of
    each template; `where`: those of rows outside of loops."""

    merged: l2.Merged
    moving: dict[str, l2.Array] = field(default_factory=dict)
    local: dict[str, l2.Array] = field(default_factory=dict)
    fixed: list[l2.Array] = field(default_factory=list)
    parts: dict[tuple[str, int, tuple[int, ...]], l2.Array] = field(default_factory=dict)
    entries: list[list[_Entry]] = field(default_factory=list)
    where: dict[tuple[int, int], int] = field(default_factory=dict)

    def run(self) -> l2.Merged:
        m = self.merged
        self.moving = {a.name: a for a in m.arrays if a.by_step}
        self.local = self.temporaries()
        self.fixed = [a for a in self.without_rings() if a.name not in self.local]
        self.parts |= {(a.within, a.first, a.shape): a for a in self.fixed if a.within}
        self.entries = [[] for _ in m.templates]
        phases = tuple(map(self.phase, m.phases))
        looped = {
            (x.template, row)
            for p in m.phases
            for loop in p.loops
            for x in p.launches[loop.first : loop.last]
            for row in range(x.lo, x.hi)
        }
        for number, rows in enumerate(m.tables):
            left = (row for row in range(rows.count) if (number, row) not in looped and (number, row) not in self.where)
            self.entries[number] += [(row, -1) for row in left]
        tables = tuple(self.table(rows, entries) for rows, entries in zip(m.tables, self.entries, strict=True))
        made = dict.fromkeys([*self.fixed, *self.parts.values()])
        return replace(m, arrays=tuple(made), tables=tables, phases=phases)

    def temporaries(self) -> dict[str, l2.Array]:
        """Arrays that only the steps of a loop use, each for itself."""
        inside, outside = set[str](), set[str]()
        for p in self.merged.phases:
            done = 0
            for loop in p.loops:
                outside.update(*map(self.bound, p.launches[done : loop.first]))
                for x in p.launches[loop.first : loop.last]:
                    inside |= self.touched(x, -1)[1]
                done = loop.last
            outside.update(*map(self.bound, p.launches[done:]))
        wholes = {a.within for a in self.merged.arrays}
        found = (a for a in self.merged.arrays if a.name in inside - outside and a.role is Role.WORK)
        return {a.name: a for a in found if not a.within and a.name not in wholes}

    def without_rings(self) -> list[l2.Array]:
        """The arrays outside of loops. Those that lie in a ring, of which a step has a slot for itself, are the slot
        that its loop begins with, where launches before that use them, or the one that the last step leaves."""
        rings: dict[str, tuple[int, int, set[str]]] = {}  # by whole: elements of a slot, steps, what is used before
        for p in self.merged.phases:
            for loop in p.loops:
                before = {n for x in p.launches[: loop.first] for n in self.bound(x)}
                inside = {n for x in p.launches[loop.first : loop.last] for n in self.bound(x)}
                moving = (self.moving[n] for n in inside if n in self.moving)
                rings |= {a.within: (abs(a.by_step), loop.steps, before) for a in moving if a.ring}
        found = []
        for a in self.merged.arrays:
            if a.name in rings or a.by_step:
                continue
            if a.within in rings:
                size, steps, before = rings[a.within]
                place = a.within, a.first // size if a.name in before else steps, a.shape
                a = self.parts[place] = replace(a, within="", first=0)
            found.append(a)
        return found

    def bound(self, x: l2.Launch) -> set[str]:
        """The arrays of a launch."""
        return {n for names in self.merged.tables[x.template].arrays.values() for n in names[x.lo : x.hi]}

    def phase(self, phase: l2.Phase) -> l2.Phase:
        launches: list[l2.Launch] = []
        chains: list[l2.Loop] = []
        done = 0
        for loop in phase.loops:
            launches += self.outside(phase.launches[done : loop.first])
            first = len(launches)
            body = phase.launches[loop.first : loop.last]
            for step in range(loop.steps):
                last = 0 < step == loop.steps - 1
                for x in self.wanted(phase, loop) if last else body:
                    launches += self.inside(x, step, loop.samples > 0)
            if loop.samples:
                chains.append(replace(loop, first=first, last=len(launches), steps=1))
            done = loop.last
        launches += self.outside(phase.launches[done:])
        return l2.Phase(phase.name, tuple(launches), tuple(chains))

    def outside(self, launches: Iterable[l2.Launch]) -> Iterable[l2.Launch]:
        """Launches of no loop; one whose rows are in several places is several ones."""
        for x in launches:
            entries = self.entries[x.template]
            at = []
            for row in range(x.lo, x.hi):
                if (x.template, row) not in self.where:
                    self.where[x.template, row] = len(entries)
                    entries.append((row, -1))
                at.append(self.where[x.template, row])
            if at == list(range(at[0], at[0] + len(at))):
                yield replace(x, lo=at[0], hi=at[-1] + 1)
            else:
                yield from (replace(x, lo=n, hi=n + 1) for n in at)

    def inside(self, x: l2.Launch, step: int, single: bool) -> list[l2.Launch]:
        """A launch in a step of a loop; `single`: one for each of its rows."""
        entries = self.entries[x.template]
        lo = len(entries)
        entries += [(row, step) for row in range(x.lo, x.hi)]
        hi = len(entries)
        return [replace(x, lo=n, hi=n + 1) for n in range(lo, hi)] if single else [replace(x, lo=lo, hi=hi)]

    def wanted(self, phase: l2.Phase, loop: l2.Loop) -> list[l2.Launch]:
        """The launches of the last step whose results something reads; a row may be one."""
        body, step = phase.launches[loop.first : loop.last], loop.steps - 1
        for x in body:
            self.touched(x, step)  # so that its parts are known
        parts = parts_of(dict.fromkeys([*self.fixed, *self.parts.values()]))
        lasting = {a.name for a in self.merged.arrays if a.role is not Role.WORK}
        read = {n for x in phase.launches[loop.last :] for n in _with(parts, self.touched(x, 0)[0])}
        kept: list[l2.Launch] = []
        for x in reversed(body):
            rows = []
            for row in range(x.hi - 1, x.lo - 1, -1):
                needs, makes = self.touched(replace(x, lo=row, hi=row + 1), step)
                if not (read | lasting).isdisjoint(_with(parts, makes)):
                    read |= _with(parts, needs)
                    rows.append(row)
            kept += (replace(x, lo=run[-1], hi=run[0] + 1) for run in _runs(rows))
        return kept[::-1]

    def touched(self, x: l2.Launch, step: int) -> tuple[set[str], set[str]]:
        """Arrays that a launch reads, and that it changes."""
        read, written = set[str](), set[str]()
        for f in self.merged.templates[x.template].arrays:
            bound = {self.at(n, step) for n in self.merged.tables[x.template].arrays[f.name][x.lo : x.hi]}
            read |= bound if f.mode is not l2.Mode.WRITE else set()
            written |= bound if f.mode is not l2.Mode.READ else set()
        return read, written

    def at(self, name: str, step: int) -> str:
        """The array that is the part of a step; a temporary of its own, where steps make one."""
        if step < 0:
            return name
        if (own := self.local.get(name)) is not None:
            place = name, step, own.shape
            if place not in self.parts:
                self.parts[place] = replace(own, name=f"{name}[{step}]")
            return self.parts[place].name
        a = self.moving.get(name)
        if a is None:
            return name
        slot = a.first // abs(a.by_step)
        place = (a.within, slot + step if a.ring else a.first_at(step), a.shape)
        if place not in self.parts:
            part = replace(a, role=Role.WORK, within="", first=0) if a.ring else replace(a, first=place[1])
            number = place[1] if a.ring else place[1] // abs(a.by_step)
            self.parts[place] = replace(part, name=f"{a.within}[{number}]", by_step=0, ring=0)
        return self.parts[place].name

    def table(self, rows: l2.Rows, entries: Sequence[_Entry]) -> l2.Rows:
        order = np.array([row for row, _ in entries], np.int64)
        return l2.Rows(
            len(entries),
            {
                formal: tuple(self.at(bound[row], step) for row, step in entries)
                for formal, bound in rows.arrays.items()
            },
            {
                column: values[order] if isinstance(values, np.ndarray) else tuple(values[n] for n in order)
                for column, values in rows.scalars.items()
            },
            tuple(rows.paths[row] for row, _ in entries) if rows.paths else (),
        )


def _with(parts: Parts, names: set[str]) -> set[str]:
    """The arrays and what lies in them."""
    return names | {part for name in names for part in parts.get(name, ())}


def _runs(rows: Sequence[int]) -> list[list[int]]:
    """Descending rows, in runs of neighbours."""
    found: list[list[int]] = []
    for row in rows:
        if found and found[-1][-1] == row + 1:
            found[-1].append(row)
        else:
            found.append([row])
    return found
