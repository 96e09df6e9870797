"""plan_memory: a byte offset for every array, and the size of every arena.

Assumes: a merged program; WORK arrays are only live inside one run of one phase.
Guarantees: offsets are 64-byte aligned; STATE, WEIGHT, CONST, EVENT, DATA, RECORD and SYNAPSE arrays never
share memory; WORK arrays share where their lifetimes (first to last launch, per phase) do not overlap. A part of an
array lies in it, wherever that begins; its uses are uses of the whole. What steps of a loop pass on is live in all of
it; what loops use that run at the same time, in all of them.
Does not: allocate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

import compiler.ir.level2.program as l2
from compiler.ir.level2.dependence import meeting, touched
from compiler.ir.space import Role

ALIGNMENT = 64


@dataclass(frozen=True)
class Placement:
    """`offsets`: bytes from the start of the array's arena. `unshared_bytes`: bytes of WORK without sharing."""

    offsets: Mapping[str, int]
    arena_bytes: Mapping[Role, int]
    unshared_bytes: int


def padded(size: int) -> int:
    """Bytes that an array of this size takes in its arena."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def lifetimes(merged: l2.Merged, names: set[str]) -> dict[str, list[tuple[int, int]]]:
    """Per array: (first, last) launch per phase in which it is used, numbered over all phases. What a loop uses, it
    uses from its first launch to its last one, unless each of its steps makes it anew: those of a chain do not, through
    which each block runs independently."""
    lives: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    if not names:
        return lives
    whole = {a.name: a.within for a in merged.arrays if a.within}
    clock = 0
    for phase in merged.phases:
        spans: dict[str, tuple[int, int]] = {}
        begin = clock
        for launch in phase.launches:
            used = touched(merged.templates, merged.tables, [launch], {}).names
            for name in names.intersection(whole.get(n, n) for n in used):
                spans[name] = spans.get(name, (clock, clock))[0], clock
            clock += 1
        for loop in phase.loops:
            together = [x for x in phase.loops if x is loop or x.name in loop.beside]
            low, high = begin + min(x.first for x in together), begin + max(x.last for x in together) - 1
            for name in _kept(merged, phase.launches[loop.first : loop.last], whole, names, loop.pays):
                first, last = spans[name]
                spans[name] = (min(first, low), max(last, high))
        for name, span in spans.items():
            lives[name].append(span)
    return lives


def _kept(
    merged: l2.Merged, launches: Sequence[l2.Launch], whole: Mapping[str, str], names: set[str], chained: bool
) -> Iterable[str]:
    """Arrays whose contents a step of a loop finds, or leaves to later ones: which it does not write first, or of which
    it writes a part; all, where blocks are in several steps at a time (`chained`)."""
    found: dict[str, bool] = {}
    for launch in launches:
        own = touched(merged.templates, merged.tables, [launch], {})
        kept = own.names if chained else own.read | own.added | own.names.intersection(whole)
        for name, value in [*((n, True) for n in kept), *((n, False) for n in own.names)]:
            found.setdefault(whole.get(name, name), value)
    return (name for name, kept in found.items() if kept and name in names)


def written(merged: l2.Merged, phases: tuple[str, ...]) -> tuple[str, ...]:
    """Arrays that launches of these phases write: those that a loader preserves when it places all arrays again after
    the numbers of synapses are drawn."""
    launches = [x for phase in merged.phases if phase.name in phases for x in phase.launches]
    own = touched(merged.templates, merged.tables, launches, {})
    return tuple(sorted(own.written | own.added))


def _place_work(merged: l2.Merged, sizes: Mapping[str, int], offsets: dict[str, int]) -> tuple[int, int]:
    """Greedy first-fit by size in bytes (largest first) over lifetimes; returns (arena bytes, unshared bytes)."""
    lives = lifetimes(merged, set(sizes))
    names = sorted(sizes, key=lambda n: (-sizes[n], n))
    # Lifetimes of all arrays in order of placement, so that those of placed ones come first.
    owner = np.array([i for i, n in enumerate(names) for _ in lives[n]], np.int64)
    first, last = np.array([span for n in names for span in lives[n]], np.int64).reshape(-1, 2).T
    start = np.zeros(len(names), np.int64)
    size = np.array([sizes[n] for n in names], np.int64)
    done = 0
    for i, name in enumerate(names):
        busy = np.zeros(i, np.bool_)
        for a, b in lives[name]:
            busy[owner[:done][(first[:done] <= b) & (last[:done] >= a)]] = True
        order = np.argsort(start[:i][busy], kind="stable")
        low, high = start[:i][busy][order], (start + size)[:i][busy][order]
        free = np.maximum.accumulate(np.append(0, high))  # from here on, up to the next array
        fits = np.append(low, np.iinfo(np.int64).max) - free >= size[i]
        start[i] = free[np.argmax(fits)]
        done += len(lives[name])
    offsets |= zip(names, start.tolist(), strict=True)
    return int((start + size).max(initial=0)), int(size.sum())


def place(merged: l2.Merged, sizes: Mapping[str, int], apart: int = 0) -> Placement:
    """Offsets of all arrays whose extent is known; `sizes` gives element counts of those known only after connecting
    (arrays it does not name are omitted). Where all WORK arrays together take no more than `apart` bytes, they share no
    memory: launches then have true dependences only."""
    offsets: dict[str, int] = {}
    arena: dict[Role, int] = dict.fromkeys(Role, 0)
    work: dict[str, int] = {}
    for array in merged.arrays:
        count = array.physical_size
        if array.within or (count < 0 and array.name not in sizes):
            continue
        if count < 0:
            count = sizes[array.name]
        if array.role is Role.WORK:
            work[array.name] = padded(count * array.dtype.bytes)
            continue
        offsets[array.name] = arena[array.role]
        arena[array.role] += padded(max(count, 1) * array.dtype.bytes)
    arena[Role.WORK], unshared = _place_work(merged, work, offsets)
    if unshared <= apart:
        arena[Role.WORK] = 0
        for name, size in work.items():
            offsets[name] = arena[Role.WORK]
            arena[Role.WORK] += size
    offsets |= {a.name: offsets[a.within] + a.first * a.dtype.bytes for a in merged.arrays if a.within}
    return Placement(offsets, arena, unshared)


def overlaps(program: l2.Merged, placement: Placement) -> dict[str, frozenset[str]]:
    """WORK arrays that share memory, by name: their lifetimes are disjoint in the order of launches, but may overlap
    when launches run concurrently. So do arrays and their parts, and parts that have elements in common; of those that
    steps of a loop have, all."""
    arrays = [a for a in program.arrays if a.role is Role.WORK and a.name in placement.offsets]
    steps = _steps(program)

    def span(a: l2.Array) -> tuple[int, int, str]:
        begin = placement.offsets[a.name] - a.first * a.dtype.bytes
        first, end = (n * a.dtype.bytes for n in a.over(steps.get(a.name, 1)))
        return begin + first, begin + end, a.name

    beside = side_by_side(a for a in arrays if not a.by_step)
    found = sharing(map(span, arrays))
    return {name: frozenset(others).difference(beside.get(name, ())) for name, others in found.items()}


def side_by_side(parts: Iterable[l2.Array]) -> dict[str, set[str]]:
    """For each part of an array the other ones that have no elements in common with it."""
    inside: dict[str, list[l2.Array]] = {}
    for a in parts:
        if a.within:
            inside.setdefault(a.within, []).append(a)
    found: dict[str, set[str]] = {}
    for members in inside.values():
        members.sort(key=lambda a: a.first)
        names = [a.name for a in members]
        found |= {name: {*names} for name in names}
        for name, meets in zip(names, meeting(members), strict=True):
            for other in (name, *(names[n] for n in meets)):
                found[name].discard(other)
                found[other].discard(name)
    return found


def sharing(spans: Iterable[tuple[int, int, str]]) -> dict[str, list[str]]:
    """For each name those whose spans, from the first byte to behind the last one, have some in common with its own."""
    found: dict[str, list[str]] = {}
    here: list[tuple[int, int, str]] = []
    for begin, end, name in sorted(spans, key=itemgetter(0, 2)):
        here = [x for x in here if x[1] > begin]
        for _, _, other in here:
            found.setdefault(name, []).append(other)
            found.setdefault(other, []).append(name)
        here.append((begin, end, name))
    return found


def _steps(program: l2.Merged) -> dict[str, int]:
    """The steps of the longest loop that uses an array."""
    found: dict[str, int] = {}
    for phase in program.phases:
        for loop in phase.loops:
            body = phase.launches[loop.first : loop.last]
            for name in touched(program.templates, program.tables, body, {}).names:
                found[name] = max(found.get(name, 0), loop.steps)
    return found
