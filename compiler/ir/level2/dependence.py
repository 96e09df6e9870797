"""Dependence analysis: the arrays that the rows of a launch read, write and accumulate into, and which launches may be
joined.

Assumes: formals whose modes declare the accesses of a kernel to an array; what touches an array touches its parts.
Guarantees: launches that are joined are independent of each other.
Does not: reorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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


def touched(
    formals: tuple[l2.Formal, ...], rows: l2.Rows, lo: int, hi: int, parts: Parts
) -> tuple[set[str], set[str], set[str]]:
    """Arrays that rows [lo, hi) read, write and accumulate into, and their parts."""
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for formal in formals:
        if isinstance(formal, l2.ArrayFormal):
            names = rows.arrays[formal.name][lo:hi]
            if parts:
                names = (*names, *(part for name in names for part in parts.get(name, ())))
            if formal.mode in (l2.Mode.READ, l2.Mode.UPDATE):
                read.update(names)
            if formal.mode in (l2.Mode.WRITE, l2.Mode.UPDATE):
                written.update(names)
            if formal.mode is l2.Mode.ACCUMULATE:
                added.update(names)
    return read, written, added


def joined(
    templates: Sequence[l2.Template], tables: Sequence[l2.Rows], launches: Iterable[l2.Launch], parts: Parts
) -> tuple[l2.Launch, ...]:
    """Launches in order; consecutive independent ones that run adjacent rows of one template are joined."""
    found: list[l2.Launch] = []
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for x in launches:
        r, w, a = touched(templates[x.template].formals, tables[x.template], x.lo, x.hi, parts)
        last = found[-1] if found else None
        joins = (
            last is not None
            and last.template == x.template
            and last.hi == x.lo
            and (last.every, last.offset) == (x.every, x.offset)
            and all(w.isdisjoint(before) for before in (read, written, added))
            and all(r.isdisjoint(before) for before in (written, added))
            and all(a.isdisjoint(before) for before in (read, written))
        )
        if joins and last is not None:
            found[-1] = replace(last, hi=x.hi)
            read |= r
            written |= w
            added |= a
        else:
            found.append(x)
            read, written, added = r, w, a
    return tuple(found)
