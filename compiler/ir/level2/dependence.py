"""Dependence analysis: the arrays that the rows of a launch read, write and accumulate into, and which launches may be
joined.

Assumes: formals whose modes declare the accesses of a kernel to an array.
Guarantees: launches that are joined are independent of each other.
Does not: reorder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import compiler.ir.level2.program as l2


def touched(formals: tuple[l2.Formal, ...], rows: l2.Rows, lo: int, hi: int) -> tuple[set[str], set[str], set[str]]:
    """Arrays that rows [lo, hi) read, write and accumulate into."""
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for formal in formals:
        if isinstance(formal, l2.ArrayFormal):
            names = rows.arrays[formal.name][lo:hi]
            if formal.mode in (l2.Mode.READ, l2.Mode.UPDATE):
                read.update(names)
            if formal.mode in (l2.Mode.WRITE, l2.Mode.UPDATE):
                written.update(names)
            if formal.mode is l2.Mode.ACCUMULATE:
                added.update(names)
    return read, written, added


def joined(
    templates: Sequence[l2.Template], tables: Sequence[l2.Rows], launches: Iterable[l2.Launch]
) -> tuple[l2.Launch, ...]:
    """Launches in order; consecutive independent ones that run adjacent rows of one template are joined."""
    found: list[l2.Launch] = []
    read: set[str] = set()
    written: set[str] = set()
    added: set[str] = set()
    for x in launches:
        r, w, a = touched(templates[x.template].formals, tables[x.template], x.lo, x.hi)
        last = found[-1] if found else None
        joins = (
            last is not None
            and last.template == x.template
            and last.hi == x.lo
            and (last.every, last.offset) == (x.every, x.offset)
            and not (w & (read | written | added))
            and not (r & (written | added))
            and not (a & (read | written))
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
