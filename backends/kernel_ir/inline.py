"""Loads that one statement reads, put where it reads them; loops of one statement lose their braces.

Assumes: statements in the form that is printed: no other pass looks for their loads. `reads` tells whether an array is
never stored to, and holds elements of a type.
Guarantees: what is stored is the same. A load moves into the statement behind it, if no other one names it, where it is
carried out in any case (not into an arm of a selection: loops are without branches), and where that stays short.
Does not: move loads over statements, or look into frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from backends.kernel_ir.stmt import Do, For, If, Let, Set, Stmt, Style, changed, names_of
from backends.kernel_ir.tree import Code, Index, Select, Variable, rebuilt
from backends.kernel_ir.types import Typed

_MOST: Final = 80
"""Characters of a value with a load in it."""
Reads = Callable[[Code, Typed], bool]


def inlined(statements: Sequence[Stmt], reads: Reads) -> list[Stmt]:
    """These statements, and those inside them."""

    def inside(s: Stmt) -> Stmt:
        bodies = [x for x in s.INSIDE if x in ("body", "orelse") or (x == "then" and isinstance(s, If))]
        s = replace(s, **{x: _joined(getattr(s, x), reads) for x in bodies}) if bodies else s
        if isinstance(s, For) and s.style is Style.BRACES and not s.note and len(s.body) == 1:
            return replace(s, style=Style.NEXT) if isinstance(s.body[0], Set | Do) else s
        return s

    return _joined(changed(statements, inside), reads)


def _joined(body: Sequence[Stmt], reads: Reads) -> list[Stmt]:
    found = list[Stmt]()
    for s in reversed(body):
        if found and isinstance(s, Let) and (short := _read_in(s, found, reads)):
            found[0] = short
        else:
            found.insert(0, s)
    return found


def _read_in(load: Let, behind: Sequence[Stmt], reads: Reads) -> Stmt | None:
    """The first statement behind a load with that in it, if it may stand there."""
    s, *others = behind
    place, name = load.value, load.name.text
    if not isinstance(place, Index) or not load.const or load.beside or not reads(place.array, load.type):
        return None
    if not isinstance(s, Set | Let) or not isinstance(s.value, Code) or _times(s.value, name) != 1:
        return None
    if name in (s.target.names if isinstance(s, Set) else names_of(s.beside)) | names_of(others):
        return None
    value = rebuilt(s.value, lambda x: place if x == load.name else None)
    return replace(s, value=value) if len(value.text) <= _MOST else None


def _times(x: Code, name: str) -> int:
    """How often an expression reads a variable; twice for each time in an arm of a selection."""
    if isinstance(x, Variable):
        return int(x.name == name)
    arms = 2 if isinstance(x, Select) else 1
    first, *others = x.parts or (None,)
    return 0 if first is None else _times(first, name) + arms * sum(_times(part, name) for part in others)
