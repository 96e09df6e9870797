"""batch_launches: independent launches are batched by dependence level.

Similar launches of a recurrent layer's directions and gates are far apart: sums of the input, gradients of weights; so
are the gradients of the weights of query, key and value. Independent ones may run at once.

Assumes: a merged program.
Guarantees: in phases of layers launches, and loops as wholes, are sorted by dependence level, and launches of one
kernel on one level are one launch (in phases with chains, rows, which launches had joined before). Loops on one level
with as many steps are one loop (named after the first), and launches of a step are batched as those around it; a loop
that pays as a chain stays as it is. Tables are permuted so that rows of a launch are adjacent.
Does not: change other phases, or programs that launch a row twice; batch launches of different steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import levels, of_unit, parts_of
from compiler.passes.program.decisions import Decision

Group = list[l2.Launch]
"""Rows, as launches, that are one launch."""


@dataclass(frozen=True)
class _Unit:
    """Launches that stay together: one, or those of a loop."""

    launches: tuple[l2.Launch, ...]
    loop: l2.Loop | None = None


def _units(phase: l2.Phase, apart: bool) -> list[_Unit]:
    """`apart`: the rows of a launch may part."""
    found: list[_Unit] = []
    done = 0
    for loop in (*phase.loops, None):
        loose = phase.launches[done : None if loop is None else loop.first]
        found += [_Unit((one,)) for x in loose for one in (_rows(x) if apart else [x])]
        if loop is not None:
            found.append(_Unit(phase.launches[loop.first : loop.last], loop))
            done = loop.last
    return found


def _levels(merged: l2.Merged, units: Sequence[_Unit]) -> list[int]:
    """Dependence level of each unit."""
    parts = parts_of(merged.arrays)
    return levels(of_unit(merged, x.launches, x.loop, parts) for x in units)


def _rows(x: l2.Launch) -> list[l2.Launch]:
    return [replace(x, lo=row, hi=row + 1) for row in range(x.lo, x.hi)]


def _batched(merged: l2.Merged, units: Sequence[_Unit]) -> list[tuple[list[Group], l2.Loop | None]]:
    """The units by level, those of one kernel as one launch, loops of as many steps as one loop."""
    alike: dict[tuple[int, ...], list[_Unit]] = {}
    for n, (level, unit) in enumerate(zip(_levels(merged, units), units, strict=True)):
        if unit.loop is None:
            (x,) = unit.launches
            key: tuple[int, ...] = (level, x.template, x.every, x.offset)
        else:
            key = (level, n) if unit.loop.pays else (level, -unit.loop.steps)
        alike.setdefault(key, []).append(unit)
    found: list[tuple[list[Group], l2.Loop | None]] = []
    for key in sorted(alike, key=lambda k: k[0]):
        together = alike[key]
        loop = together[0].loop
        if loop is None:
            groups = [[row for unit in together for x in unit.launches for row in _rows(x)]]
        elif loop.pays:
            groups = [_rows(x) for x in together[0].launches]
        else:
            body = _batched(merged, [_Unit((x,)) for unit in together for x in unit.launches])
            groups = [group for inner, _ in body for group in inner]
        found.append((groups, loop))
    return found


def _gathered(merged: l2.Merged, phase: l2.Phase) -> tuple[list[Group], l2.Phase]:
    """The launches of a phase as lists of rows, and the phase with the new places of its loops: unchanged, where
    sorting does not reduce the launches."""
    before = [_rows(x) for x in phase.launches]
    if phase.name not in l2.LAYERS:
        return before, phase
    found: list[Group] = []
    loops: list[l2.Loop] = []
    for groups, loop in _batched(merged, _units(phase, bool(phase.chains))):
        if loop is not None:
            loops.append(replace(loop, first=len(found), last=len(found) + len(groups)))
        found += groups
    if len(found) >= len(before):
        return before, phase
    return found, replace(phase, loops=tuple(loops))


def _again(merged: l2.Merged) -> bool:
    """Whether a row is launched twice: then its position in the table cannot suit both launches."""
    rows = [(x.template, row) for p in merged.phases for x in p.launches for row in range(x.lo, x.hi)]
    return len(set(rows)) < len(rows)


def gather(merged: l2.Merged) -> tuple[l2.Merged, list[Decision]]:
    """The program with fewer launches in some of its phases, and how many."""
    if not any(p.name in l2.LAYERS for p in merged.phases) or _again(merged):
        return merged, []
    phases = [_gathered(merged, phase) for phase in merged.phases]
    places: list[dict[int, int]] = [{} for _ in merged.templates]  # by template: old row -> new row
    for groups, _ in phases:
        for x in (row for group in groups for row in group):
            places[x.template].setdefault(x.lo, len(places[x.template]))
    for place, rows in zip(places, merged.tables, strict=True):
        for row in range(rows.count):
            place.setdefault(row, len(place))
    tables = tuple(rows.taken(list(place)) for rows, place in zip(merged.tables, places, strict=True))
    made = tuple(replace(p, launches=tuple(_one(g, places) for g in groups)) for groups, p in phases)
    decisions = [
        Decision("gather", old.name, f"{len(new.launches)} launches", f"before {len(old.launches)}")
        for old, new in zip(merged.phases, made, strict=True)
        if old.chains or len(new.launches) < len(old.launches)
    ]
    return replace(merged, tables=tables, phases=made), decisions


def _one(group: Sequence[l2.Launch], places: Sequence[Mapping[int, int]]) -> l2.Launch:
    first = places[group[0].template][group[0].lo]
    return replace(group[0], lo=first, hi=first + len(group))
