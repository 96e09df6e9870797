"""Loads that one statement reads, put where it reads them; loops and tests of one statement lose their braces.

Assumes: statements in the form that is printed: no other pass looks for their loads. `reads` tells whether the array of
an element is never stored to, and holds elements of a type.
Guarantees: what is stored is the same. A load, or a number in its place under a condition, moves into the statement
behind it, if no other one names it, where it is carried out in any case (not into an arm of a selection: loops are
without branches), and where that stays short. What is added to an element, or taken from it, is so (`x[i] += y`).
Does not: move loads over statements, or look into frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from backends.kernel_ir.expr import ZERO
from backends.kernel_ir.stmt import Do, For, If, Leave, Let, Set, Stmt, Style, changed, names_of
from backends.kernel_ir.tree import Binary, Code, Index, Number, Place, Select, Variable, rebuilt
from backends.kernel_ir.types import Typed

_MOST: Final = 88
"""Characters of a value with a load in it."""
_FIRST: Final = {Set: "value", Let: "value", Do: "code", If: "test"}
"""What a statement computes first."""
Reads = Callable[[Index, Typed], bool]


def inlined(statements: Sequence[Stmt], reads: Reads) -> list[Stmt]:
    """These statements, and those inside them."""

    def inside(s: Stmt) -> Stmt:
        bodies = [x for x in s.INSIDE if x in ("body", "orelse") or (x == "then" and isinstance(s, If))]
        s = replace(s, **{x: _joined(getattr(s, x), reads) for x in bodies}) if bodies else s
        return _bare(s)

    return _joined(changed(statements, inside), reads)


def _bare(s: Stmt) -> Stmt:
    """A loop or a test without braces around one statement, behind which no `else` can stand."""
    match s:
        case For(body=[Set() | Do() | For()], style=Style.BRACES, note=""):
            return replace(s, style=Style.NEXT)
        case If(then=[Set() | Do() | Leave()], orelse=[] | (), style=Style.BRACES, note=""):
            return replace(s, style=Style.BESIDE)
    return s


def _joined(body: Sequence[Stmt], reads: Reads) -> list[Stmt]:
    found = list[Stmt]()
    for s in reversed(body):
        if found and isinstance(s, Let) and (short := _read_in(s, found, reads)):
            found[0] = short
        else:
            found.insert(0, s)
    return _added(found)


def _read_in(load: Let, behind: Sequence[Stmt], reads: Reads) -> Stmt | None:
    """The first statement behind a load with that in it, if it may stand there."""
    s, *others = behind
    value, name = load.value, load.name.text
    place = value.then if _chosen(value) and isinstance(value, Select) and isinstance(s, Set) and s.op == "=" else value
    if not isinstance(place, Index) or not load.const or load.beside or not reads(place, load.type):
        return None
    if (field := _FIRST.get(type(s))) is None or not isinstance(e := getattr(s, field), Code) or _times(e, name) != 1:
        return None
    if name in names_of([replace(s, **{field: ZERO}), *others]):
        return None
    assert isinstance(value, Code)
    found = rebuilt(e, lambda x: value if x == load.name else None)
    return replace(s, **{field: found}) if len(found.text) <= _MOST else None


def _chosen(x: object) -> bool:
    return isinstance(x, Select) and isinstance(x.orelse, Number)


def _added(body: Sequence[Stmt]) -> list[Stmt]:
    """Elements that a value is added to, or taken from, without a name for what they were."""
    found = list(body)
    for load in body:
        if not isinstance(load, Let) or not isinstance(load.value, Place) or load.beside:
            continue
        behind = found[found.index(load) + 1 :]
        named = [n for n, s in enumerate(behind) if not load.name.names.isdisjoint(s.mentions)]
        match [behind[n] for n in named]:
            case [Set(target, Binary("+" | "-" as op, before, value), "=") as s] if target == load.value and (
                before == load.name and load.name.names.isdisjoint(value.names) and _keep(behind[: named[0]], target)
            ):
                at = found.index(load)
                found[at:] = [*behind[: named[0]], replace(s, value=value, op=f"{op}="), *behind[named[0] + 1 :]]
    return found


def _keep(statements: Sequence[Stmt], place: Code) -> bool:
    """Whether statements are loads, and stores to elements of other formals: what is read at `place` stays the same."""
    stored = (s.target for s in statements if isinstance(s, Set))
    others = (isinstance(x, Place) and isinstance(place, Place) and x.formal != place.formal for x in stored)
    return all(isinstance(s, Let | Set) for s in statements) and all(others)


def _times(x: Code, name: str) -> int:
    """How often an expression reads a variable; twice for each time in an arm of a selection."""
    if isinstance(x, Variable):
        return int(x.name == name)
    arms = 2 if isinstance(x, Select) else 1
    first, *others = x.parts or (None,)
    return 0 if first is None else _times(first, name) + arms * sum(_times(part, name) for part in others)
