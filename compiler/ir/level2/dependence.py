"""Dependence analysis: what launches access, which of them may be joined, batched or run concurrently, and where
barriers have to stand.

Assumes: formals whose modes declare the accesses of a kernel to an array; what touches an array touches its parts.
Guarantees: one rule for all questions (`commute`): of two launches that access one array the later waits, unless both
read it or both add to it. Touched answers by sets of arrays; Launched, for launches some steps apart, knows slots of
ring buffers and which accesses are a thread's own.
Does not: reorder. The verifier checks the rows of one launch by itself, as an oracle (verify/program.py); what samples
of a batch access is another question (batch_independence.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Expr, Num, Ref

Ints = npt.NDArray[np.int64]
Parts = Mapping[str, tuple[str, ...]]
_FAR: Final = 1 << 62
_NONE: Final[Mapping[str, frozenset[str]]] = MappingProxyType({})


def commute(a: l2.Mode, b: l2.Mode) -> bool:
    """Whether accesses to one array of these modes have any order."""
    return a is b and a in (l2.Mode.READ, l2.Mode.ACCUMULATE)


def parts_of(arrays: Iterable[l2.Array]) -> Parts:
    """The arrays that lie in each array, if there are some, and those that have elements in common with a part and do
    not begin before it."""
    inside: dict[str, list[l2.Array]] = {}
    for a in arrays:
        if a.within:
            inside.setdefault(a.within, []).append(a)
    found: dict[str, tuple[str, ...]] = {}
    for whole, members in inside.items():
        sizes = {a.name: a.physical_size for a in members}
        members.sort(key=lambda a: (a.first, -sizes[a.name]))
        names = found[whole] = tuple(a.name for a in members)
        found |= {a.name: tuple(names[n] for n in meets) for a, meets in zip(members, meeting(members), strict=True)}
    return {name: parts for name, parts in found.items() if parts}


def meeting(parts: Sequence[l2.Array]) -> Iterator[Ints]:
    """For each of the parts of one whole, which are sorted by their first elements, the numbers of those behind it that
    may have elements in common with it. Two have none where they are boxes of one grid, as what a concatenation joins
    and slices of it are, and apart along one of its axes."""
    first = np.array([a.first for a in parts], np.int64)
    end = first + np.array([a.physical_size for a in parts], np.int64)
    strides = [tuple(by for extent, by in a.walk if extent > 1) for a in parts]
    kinds = list(dict.fromkeys(strides))
    kind_of = np.array([kinds.index(x) for x in strides], np.int64)
    of_kind = [np.flatnonzero(kind_of == kind) for kind in range(len(kinds))]
    boxes: dict[tuple[int, int], Ints] = {}

    def boxed(kind: int, other: int, numbers: Ints) -> Ints:
        """The boxes of some parts of a kind, on the grid that it has with another one."""
        if (kind, other) not in boxes:
            grid = sorted({1, *kinds[kind], *kinds[other]}, reverse=True)
            boxes[kind, other] = np.array([_box(parts[int(n)], grid) for n in of_kind[kind]])
        return boxes[kind, other][np.searchsorted(of_kind[kind], numbers)]

    for n in range(len(parts)):
        behind = np.arange(n + 1, np.searchsorted(first, end[n]))
        found = [behind[:0]]
        for kind in np.unique(kind_of[behind]):
            these = behind[kind_of[behind] == kind]
            ((low, high),), others = boxed(kind_of[n], kind, np.array([n])), boxed(kind, kind_of[n], these)
            found.append(these[(others[:, 0] < high).all(1) & (low < others[:, 1]).all(1)])
        yield np.sort(np.concatenate(found))


def _box(a: l2.Array, grid: Sequence[int]) -> Ints:
    """From where to where a part extends along the axes of a grid, given by their strides; everywhere where it is no
    box."""
    found: list[tuple[int, int]] = []
    extents = {by: extent for extent, by in a.walk if extent > 1}
    rest, outer = a.first, 0
    for by in grid:
        at, rest = divmod(rest, by)
        end = at + extents.get(by, 1)
        if outer % by or (outer and end > outer // by):
            return np.array([[-_FAR] * len(grid), [_FAR] * len(grid)], np.int64)
        found.append((at, end))
        outer = by
    return np.array(found, np.int64).T


@dataclass(frozen=True)
class Touched:
    """Arrays that launches read, write and add to."""

    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    added: set[str] = field(default_factory=set)

    def include(self, other: Touched) -> None:
        self.read.update(other.read)
        self.written.update(other.written)
        self.added.update(other.added)

    @property
    def names(self) -> set[str]:
        return self.read | self.written | self.added

    def modes(self) -> Iterator[tuple[l2.Mode, set[str]]]:
        yield from ((l2.Mode.READ, self.read), (l2.Mode.WRITE, self.written), (l2.Mode.ACCUMULATE, self.added))

    def needs(self, earlier: Touched) -> bool:
        """Whether these launches must wait for earlier ones."""
        return any(
            not commute(a, b) and not own.isdisjoint(other) for a, own in self.modes() for b, other in earlier.modes()
        )


def touched(
    templates: Sequence[l2.Template],
    tables: Sequence[l2.Rows],
    launches: Iterable[l2.Launch],
    parts: Parts,
    shared: Mapping[str, frozenset[str]] = _NONE,
) -> Touched:
    """Arrays that launches touch, and their parts; a write to an array also writes those that share its memory
    (layout/plan_memory.py: `overlaps`)."""
    found: dict[l2.Mode, set[str]] = {mode: set() for mode in l2.Mode}
    for x in launches:
        for formal in templates[x.template].formals:
            if isinstance(formal, l2.ArrayFormal):
                found[formal.mode].update(tables[x.template].arrays[formal.name][x.lo : x.hi])
    for names in found.values() if parts else ():
        names.update([part for name in names for part in parts.get(name, ())])
    written = found[l2.Mode.WRITE] | found[l2.Mode.UPDATE]
    if shared:
        written.update(*(shared.get(n, ()) for n in written | found[l2.Mode.ACCUMULATE]))
    return Touched(found[l2.Mode.READ] | found[l2.Mode.UPDATE], written, found[l2.Mode.ACCUMULATE])


def over_steps(touches: Touched, arrays: Iterable[l2.Array], steps: int) -> Touched:
    """What the launches of a loop touch in all of its steps: of an array that has a part for each step, the whole, in
    which other loops have parts, and what lies where these parts are."""
    inside: dict[str, list[l2.Array]] = {}
    moving: dict[str, l2.Array] = {}
    for a in arrays:
        if a.by_step:
            moving[a.name] = a
        elif a.within:
            inside.setdefault(a.within, []).append(a)

    def met(a: l2.Array) -> Iterator[str]:
        yield a.within
        first, end = a.over(steps)
        for b in inside.get(a.within, ()):
            if b.first < end and first < b.first + b.physical_size:
                yield b.name

    def wide(names: set[str]) -> set[str]:
        return names.union(*(met(moving[name]) for name in names if name in moving))

    return Touched(wide(touches.read), wide(touches.written), wide(touches.added))


def of_unit(merged: l2.Merged, launches: Sequence[l2.Launch], loop: l2.Loop | None, parts: Parts) -> Touched:
    """What launches touch, those of a loop in all of its steps."""
    found = touched(merged.templates, merged.tables, launches, parts)
    return found if loop is None else over_steps(found, merged.arrays, loop.steps)


def conflicts(launches: Sequence[Touched], wide: Sequence[Touched] = ()) -> list[frozenset[int]]:
    """For each launch of a phase those that may not run concurrently with it, itself included: of two of them the later
    one waits, in a step or in one of the next steps. `wide`: what each touches, where a write to an array also writes
    those that share its memory. One of the two is taken without it: launches that write to different parts of the
    memory of a third array have no conflict."""
    wide = wide or launches
    found: list[set[int]] = [{n} for n in range(len(launches))]
    for n, launch in enumerate(launches):
        for m in range(n):
            if wide[n].needs(launches[m]) or launch.needs(wide[m]):
                found[n].add(m)
                found[m].add(n)
    return [frozenset(x) for x in found]


class Latest:
    """The largest number of the launches that access an array in a mode."""

    def __init__(self) -> None:
        self._of: dict[l2.Mode, dict[str, int]] = {mode: {} for mode in l2.Mode}

    def before(self, own: Touched) -> int:
        """That of the launches that `own` must wait for; -1 without one."""
        waits = ((names, seen) for a, names in own.modes() for b, seen in self._of.items() if not commute(a, b))
        return max((seen.get(name, -1) for names, seen in waits if seen for name in names), default=-1)

    def include(self, own: Touched, number: int) -> None:
        for mode, names in own.modes():
            seen = self._of[mode]
            seen.update((name, max(seen.get(name, -1), number)) for name in names)


def levels(launches: Iterable[Touched]) -> list[int]:
    """Dependence level of each: the length of the longest path of launches that run before it."""
    latest, found = Latest(), list[int]()
    for own in launches:
        found.append(latest.before(own) + 1)
        latest.include(own, found[-1])
    return found


def joined(
    templates: Sequence[l2.Template], tables: Sequence[l2.Rows], launches: Iterable[l2.Launch], parts: Parts
) -> tuple[l2.Launch, ...]:
    """Launches in order; consecutive independent ones that run adjacent rows of one template are joined."""
    found: list[l2.Launch] = []
    before = Touched()  # by the last of them
    for x in launches:
        own = touched(templates, tables, [x], parts)
        last = found[-1] if found else replace(x, template=-1)
        adjacent = (last.template, last.hi, last.every, last.offset) == (x.template, x.lo, x.every, x.offset)
        if adjacent and not own.needs(before):
            found[-1] = replace(last, hi=x.hi)
            before.include(own)
        else:
            found.append(x)
            before = own
    return tuple(found)


# -------------------------------------------------------------------------------- steps apart


@dataclass(frozen=True, eq=False)
class Ring:
    """The slots of a ring buffer that the rows of a launch access in step s: s + first .. s + last, modulo `slots`; by
    row."""

    first: Ints
    last: Ints
    slots: Ints


@dataclass(frozen=True, eq=False)
class Use:
    """Accesses of a launch to the arrays of one formal, by row. `own`: thread for thread the element of its point."""

    names: tuple[str, ...]
    mode: l2.Mode
    own: bool = False
    ring: Ring | None = None


class Meet(IntEnum):
    """The conflict between two launches: none, one between rows that must run on the same block, one that waits."""

    NOT = 0
    ALIKE = 1
    WAIT = 2


@dataclass(frozen=True, eq=False)
class Launched:
    """A launch of a phase with all its accesses."""

    launch: l2.Launch
    flat: bool
    uses: tuple[Use, ...]


def is_flat(template: l2.Template) -> bool:
    """Whether every point of the kernel has its own thread: one dimension, no sum."""
    body = template.body
    return isinstance(body, l2.Nest) and [d.kind for d in body.dims] == [l2.DimKind.PAR] and body.combine is None


def _places(nest: l2.Nest) -> dict[str, tuple[int, str]]:
    """Locals that are a slot of a ring buffer: (steps from now, column of its slots)."""
    found: dict[str, tuple[int, str]] = {}
    for s in nest.prologue:
        if isinstance(s, l2.Assign) and isinstance(s.value, Binary) and s.value.op == "%":
            steps, slots = _steps(s.value.left), s.value.right
            if steps is not None and isinstance(slots, Ref):
                found[s.target] = steps, slots.name
    return found


def _steps(e: Expr) -> int | None:
    """k of `step + k` or `step - k`."""
    match e:
        case Ref("step"):
            return 0
        case Binary(op, Ref("step"), Num(k)) if op in "+-":
            return int(k) if op == "+" else -int(k)
    return None


def launched(program: l2.Merged, launch: l2.Launch) -> Launched:
    """The accesses of the rows of a launch."""
    template, rows = program.templates[launch.template], program.tables[launch.template]
    many = launch.hi - launch.lo
    least = {a.name: a.least for a in program.arrays}

    def column(name: str) -> Ints:
        return np.asarray(rows.scalars[name][launch.lo : launch.hi], np.int64)

    def ring(first: int | Ints, last: int | Ints, slots: str) -> Ring:
        return Ring(np.broadcast_to(first, many), np.broadcast_to(last, many), column(slots))

    def names(formal: str) -> tuple[str, ...]:
        return rows.arrays[formal][launch.lo : launch.hi]

    def late(formal: str, slots: str) -> tuple[Ints, Ints]:
        """The least and the largest delay of each row."""
        if formal in rows.arrays:
            return np.array([least[n] for n in names(formal)], np.int64), column(slots) - 1
        return column(formal), column(slots) * 0 + column(formal)

    flat, rings = is_flat(template), _rings_of_events(template.body, column, ring)
    places = _places(template.body) if isinstance(template.body, l2.Nest) else {}

    def use(f: l2.ArrayFormal) -> Use:
        own, where = False, rings.get(f.name)
        match f.access:
            case l2.At(_, (delay, slots, _), past):
                low, high = late(delay, slots)
                where = ring(-high, -low, slots) if past else ring(low, high, slots)
            case l2.Strided((l2.Axis(((slot, _),)), element)) if (
                flat and slot in places and element == l2.ELEMENT.axes[0]
            ):
                steps, slots = places[slot]
                own, where = True, ring(steps, steps, slots)
            case l2.Strided():
                own = flat and f.access == l2.ELEMENT
        return Use(names(f.name), f.mode, own, where)

    return Launched(launch, flat, tuple(map(use, template.arrays)))


def _rings_of_events(
    body: l2.Body, column: Callable[[str], Ints], ring: Callable[[int | Ints, int | Ints, str], Ring]
) -> dict[str, Ring]:
    """The slots of the lists of events and of their counts, by formal."""
    match body:
        case l2.Nest(prologue=prologue):
            emits = [s for s in prologue if isinstance(s, l2.Emit)]
            return {s.list: ring(0, 0, s.slots) for s in emits} | {s.count: ring(0, 1, s.slots) for s in emits}
        case l2.Propagate(l2.Events(events, count, slots, delay, _)):
            return dict.fromkeys((events, count), ring(-column(delay), -column(delay), slots))
        case l2.RecordEvents():
            return dict.fromkeys(("list", "count"), ring(0, 0, "slots"))
    return {}


@dataclass(frozen=True)
class Pair:
    """The conflicts of launch b, some steps after launch a, with it: `always`; and where both access slots of one ring
    buffer, the first and the last of b's relative to those of a, the number of slots, and the conflict if they
    coincide."""

    always: Meet
    rings: frozenset[tuple[int, int, int, Meet]]

    def after(self, steps: int) -> Meet:
        """b `steps` steps after a."""
        met = (m for low, high, slots, m in self.rings if (high + steps) // slots > (low + steps - 1) // slots)
        return max((self.always, *met))


def pair(a: Launched, b: Launched) -> Pair:
    """The conflicts between two launches."""
    always, rings = Meet.NOT, set[tuple[int, int, int, Meet]]()
    for x in a.uses:
        known = set(x.names)
        for y in b.uses:
            common = set() if commute(x.mode, y.mode) else known.intersection(y.names)
            if not common:
                continue
            what = Meet.ALIKE if x.own and y.own else Meet.WAIT
            if x.ring is None or y.ring is None:
                always = max(always, what)
            else:
                rings |= {(*gap, what) for gap in _gaps(x, x.ring, y, y.ring, common)}
    return Pair(always, frozenset(rings))


def _gaps(x: Use, first: Ring, y: Use, second: Ring, common: set[str]) -> set[tuple[int, int, int]]:
    """(least, largest, slots) distance between the slots of the second use and those of the first."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(x.names):
        if name in common:
            rows.setdefault(name, []).append(row)
    pairs = np.array([(m, n) for n, name in enumerate(y.names) for m in rows.get(name, ())], np.int64)
    m, n = pairs[:, 0], pairs[:, 1]
    low, high, slots = second.first[n] - first.last[m], second.last[n] - first.first[m], first.slots[m]
    slots = np.where(slots == second.slots[n], slots, 1)  # in unequal ring buffers any two slots may coincide
    found = np.unique(np.stack([low, high, slots], axis=1), axis=0)
    return {(int(a), int(b), int(c)) for a, b, c in found}


Pairs = Sequence[Sequence[Pair]]
"""pairs[m][n]: what launch n has to do with launch m."""


def paired(launches: Sequence[Launched]) -> Pairs:
    """All pairs of launches."""
    return [[pair(a, b) for b in launches] for a in launches]


def beside(pairs: Pairs, steps: int) -> list[frozenset[tuple[int, int]]]:
    """For each launch: (earlier one, steps before) of those within `steps` steps that it may run concurrently with,
    although they share ring buffers."""
    out = []
    for n in range(len(pairs)):
        free = set[tuple[int, int]]()
        for m in range(len(pairs)):
            found = pairs[m][n]
            if found.rings and found.always is Meet.NOT:
                free |= {(m, k) for k in range(0 if m < n else 1, steps) if found.after(k) is Meet.NOT}
        out.append(frozenset(free))
    return out
