"""barrier_placement: grid barriers of a phase, between which its launches may run as one kernel (waves.py).

Assumes: a legal program; the launches of a phase run in order, step after step.
Guarantees: two launches without a barrier between them access disjoint arrays, or different slots of a ring buffer, or
each shared element in the same thread (`alike`: rows that must run on the same block). Launches that do not run in
every step have a barrier before and after them.
Does not: divide work among blocks (waves.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Expr, Num, Ref

Ints = npt.NDArray[np.int64]


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
    """The conflicts between two launches."""

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


def launched(program: l2.Merged, launch: l2.Launch, table: npt.NDArray[np.uint64]) -> Launched:
    """The accesses of the rows of a launch; `table`: the host's table of its template."""
    template, rows = program.templates[launch.template], program.tables[launch.template]
    position = {f.name: k for k, f in enumerate(template.formals)}
    many = launch.hi - launch.lo
    least = {a.name: a.least for a in program.arrays}

    def column(name: str) -> Ints:
        return table[launch.lo : launch.hi, position[name]].view(np.int64)

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

    return Launched(launch, flat, tuple(use(f) for f in template.formals if isinstance(f, l2.ArrayFormal)))


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


def _commute(a: l2.Mode, b: l2.Mode) -> bool:
    return a is b and a in (l2.Mode.READ, l2.Mode.ACCUMULATE)


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
            common = set() if _commute(x.mode, y.mode) else known.intersection(y.names)
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


@dataclass(frozen=True)
class Meetings:
    """`before`: launches, by their position in the phase, with a barrier before them; `alone`: those with a barrier
    after them, too."""

    before: frozenset[int]
    alone: frozenset[int]


def meetings(launches: Sequence[Launched], pairs: Pairs) -> Meetings:
    """A minimal set of barriers: at least one per step."""
    alone = frozenset(n for n, x in enumerate(launches) if x.launch.every != 1)
    steady = [n for n in range(len(launches)) if n not in alone]
    best: frozenset[int] | None = None
    for start in range(len(steady)):
        before = frozenset(_cut(pairs, steady, start))
        if best is None or len(before) < len(best):
            best = before
    return Meetings((best or frozenset()) | alone, alone)


def _cut(pairs: Pairs, steady: Sequence[int], start: int) -> set[int]:
    """The barriers, if one is before launch `steady[start]` and the others are as late as possible."""
    before: set[int] = set()
    since: list[int] = []
    for n in (*steady[start:], *steady[:start]):
        if not since or any(pairs[m][n].after(int(m > n)) is Meet.WAIT for m in since):
            before.add(n)
            since = []
        since.append(n)
    return before


def alike(launches: Sequence[Launched], steady: Iterable[int]) -> dict[tuple[int, int], int]:
    """(launch, row) -> its group: rows that must be assigned part by part to the same blocks, since they share
    elements."""
    group: dict[tuple[int, int], tuple[int, int]] = {}

    def root(x: tuple[int, int]) -> tuple[int, int]:
        while group.setdefault(x, x) != x:
            x = group[x]
        return x

    owner: dict[str, tuple[int, int]] = {}
    for n in steady:
        if not launches[n].flat:
            continue
        for row in range(launches[n].launch.hi - launches[n].launch.lo):
            root((n, row))
        for use in launches[n].uses:
            for row, name in enumerate(use.names if use.own and use.mode is not l2.Mode.READ else ()):
                group[root((n, row))] = root(owner.setdefault(name, (n, row)))
    for n in steady:
        for use in launches[n].uses if launches[n].flat else ():
            for row, name in enumerate(use.names if use.own and use.mode is l2.Mode.READ else ()):
                if name in owner:
                    group[root((n, row))] = root(owner[name])
    numbers: dict[tuple[int, int], int] = {}
    return {x: numbers.setdefault(root(x), len(numbers)) for x in sorted(group)}
