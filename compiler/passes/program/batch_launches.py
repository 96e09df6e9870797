"""batch_launches: independent launches are batched by dependence level.

In an unrolled recurrent layer, similar launches of its directions and gates are far apart: sums of the input, gradients
of weights; so are the gradients of the weights of query, key and value. Independent ones may run at once.

Assumes: a merged program.
Guarantees: in phases of layers launches, and chains as wholes, are sorted by dependence level, and launches of one
kernel on one level are one launch (in phases with chains, rows, which launches had joined before); tables are permuted
so that these rows are adjacent.
Does not: change other phases, or programs that launch a row twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import levels, parts_of, touched
from compiler.passes.program.decisions import Decision

Unit = tuple[tuple[l2.Launch, ...], l2.Chain | None]
"""Launches that stay together: one, or those of a chain."""


def _units(phase: l2.MergedPhase, apart: bool) -> list[Unit]:
    """`apart`: the rows of a launch may part."""
    found: list[Unit] = []
    done = 0
    for chain in (*phase.chains, None):
        loose = phase.launches[done : None if chain is None else chain.first]
        found += [((one,), None) for x in loose for one in (_rows(x) if apart else [x])]
        if chain is not None:
            found.append((phase.launches[chain.first : chain.last], chain))
            done = chain.last
    return found


def _levels(merged: l2.Merged, units: Iterable[Unit]) -> list[int]:
    """Dependence level of each unit."""
    parts = parts_of(merged.arrays)
    return levels(touched(merged.templates, merged.tables, launches, parts) for launches, _ in units)


def _rows(x: l2.Launch) -> list[l2.Launch]:
    return [replace(x, lo=row, hi=row + 1) for row in range(x.lo, x.hi)]


def _gathered(merged: l2.Merged, phase: l2.MergedPhase) -> tuple[list[list[l2.Launch]], tuple[l2.Chain, ...]]:
    """The launches of a phase as lists of rows, and the new positions of its chains: unchanged, where sorting does not
    reduce the launches."""
    before = [_rows(x) for x in phase.launches]
    if phase.name not in l2.LAYERS:
        return before, phase.chains
    units = _units(phase, bool(phase.chains))
    groups: dict[tuple[int, ...], tuple[list[list[l2.Launch]], l2.Chain | None]] = {}
    for n, (level, (launches, chain)) in enumerate(zip(_levels(merged, units), units, strict=True)):
        if chain is not None:
            groups[level, n] = [[x] for x in launches], chain
        else:
            (x,) = launches
            groups.setdefault((level, x.template, x.every, x.offset), ([[]], None))[0][0].extend(_rows(x))
    found: list[list[l2.Launch]] = []
    chains: list[l2.Chain] = []
    for key in sorted(groups, key=lambda k: k[0]):
        group, chain = groups[key]
        if chain is not None:
            chains.append(replace(chain, first=len(found), last=len(found) + len(group)))
        found += group
    return (found, tuple(chains)) if len(found) < len(before) else (before, phase.chains)


def _again(merged: l2.Merged) -> bool:
    """Whether a row is launched twice: then its position in the table cannot suit both launches."""
    rows = [(x.template, row) for p in merged.phases for x in p.launches for row in range(x.lo, x.hi)]
    return len(set(rows)) < len(rows)


def _permuted(rows: l2.Rows, order: Sequence[int]) -> l2.Rows:
    at = np.array(order, np.int64)
    return l2.Rows(
        rows.count,
        {name: tuple(bound[n] for n in order) for name, bound in rows.arrays.items()},
        {
            name: values[at] if isinstance(values, np.ndarray) else tuple(values[n] for n in order)
            for name, values in rows.scalars.items()
        },
        tuple(rows.paths[n] for n in order) if rows.paths else (),
    )


def gather(merged: l2.Merged) -> tuple[l2.Merged, list[Decision]]:
    """The program with fewer launches in some of its phases, and how many."""
    if not any(p.name in l2.LAYERS for p in merged.phases) or _again(merged):
        return merged, []
    phases = [(phase, *_gathered(merged, phase)) for phase in merged.phases]
    places: list[dict[int, int]] = [{} for _ in merged.templates]  # by template: old row -> new row
    for _, groups, _ in phases:
        for x in (row for group in groups for row in group):
            places[x.template].setdefault(x.lo, len(places[x.template]))
    for place, rows in zip(places, merged.tables, strict=True):
        for row in range(rows.count):
            place.setdefault(row, len(place))
    tables = tuple(_permuted(rows, list(place)) for rows, place in zip(merged.tables, places, strict=True))
    made = tuple(l2.MergedPhase(p.name, tuple(_one(g, places) for g in groups), chains) for p, groups, chains in phases)
    decisions = [
        Decision("gather", old.name, f"{len(new.launches)} launches", f"before {len(old.launches)}")
        for old, new in zip(merged.phases, made, strict=True)
        if old.chains or len(new.launches) < len(old.launches)
    ]
    return replace(merged, tables=tables, phases=made), decisions


def _one(group: Sequence[l2.Launch], places: Sequence[Mapping[int, int]]) -> l2.Launch:
    first = places[group[0].template][group[0].lo]
    return replace(group[0], lo=first, hi=first + len(group))
