"""Dependence analysis: the arrays that the rows of a launch read, write and accumulate into, and which launches may be
joined.

Assumes: formals whose modes declare the accesses of a kernel to an array; what touches an array touches its parts.
Guarantees: launches that are joined are independent of each other.
Does not: reorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

import compiler.ir.level2.program as l2

Parts = Mapping[str, tuple[str, ...]]


def parts_of(arrays: Iterable[l2.Array]) -> Parts:
    """The arrays that lie in each array, if there are some. Of two that overlap, all that both hold is such parts."""
    inside: dict[str, list[l2.Array]] = {}
    sizes: dict[str, int] = {}
    for a in arrays:
        sizes[a.name] = a.physical_size
        if a.within:
            inside.setdefault(a.within, []).append(a)
    found: dict[str, tuple[str, ...]] = {}
    for whole, members in inside.items():
        members.sort(key=lambda a: (a.first, -sizes[a.name]))
        found[whole] = tuple(a.name for a in members)
        for k, a in enumerate(members):
            end = a.first + sizes[a.name]
            later = takewhile(lambda b, end=end: b.first < end, members[k + 1 :])  # type: ignore[misc]
            if parts := tuple(b.name for b in later if b.first + sizes[b.name] <= end):
                found[a.name] = parts
    return found


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

    def needs(self, earlier: Touched) -> bool:
        """Whether these launches must wait for earlier ones: sums into one array commute."""
        apart = self.written.isdisjoint(earlier.read) and self.written.isdisjoint(earlier.added)
        apart = apart and self.added.isdisjoint(earlier.read) and self.read.isdisjoint(earlier.added)
        return not (apart and all(x.isdisjoint(earlier.written) for x in (self.read, self.written, self.added)))


def touched(formals: tuple[l2.Formal, ...], rows: l2.Rows, lo: int, hi: int, parts: Parts) -> Touched:
    """Arrays that rows [lo, hi) touch, and their parts."""
    found: dict[l2.Mode, set[str]] = {mode: set() for mode in l2.Mode}
    for formal in formals:
        if isinstance(formal, l2.ArrayFormal):
            names = rows.arrays[formal.name][lo:hi]
            if parts:
                names = (*names, *(part for name in names for part in parts.get(name, ())))
            found[formal.mode].update(names)
    updated = found[l2.Mode.UPDATE]
    return Touched(found[l2.Mode.READ] | updated, found[l2.Mode.WRITE] | updated, found[l2.Mode.ACCUMULATE])


def joined(
    templates: Sequence[l2.Template], tables: Sequence[l2.Rows], launches: Iterable[l2.Launch], parts: Parts
) -> tuple[l2.Launch, ...]:
    """Launches in order; consecutive independent ones that run adjacent rows of one template are joined."""
    found: list[l2.Launch] = []
    before = Touched()  # by the last of them
    for x in launches:
        own = touched(templates[x.template].formals, tables[x.template], x.lo, x.hi, parts)
        last = found[-1] if found else replace(x, template=-1)
        adjacent = (last.template, last.hi, last.every, last.offset) == (x.template, x.lo, x.every, x.offset)
        if adjacent and not own.needs(before):
            found[-1] = replace(last, hi=x.hi)
            before.include(own)
        else:
            found.append(x)
            before = own
    return tuple(found)
