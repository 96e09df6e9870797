"""row_pointers: what a long subscript adds in each iteration of a loop is added to the array's pointer before it.

Assumes: statements in the form that is printed, whose elements of arrays are told by their formals (tree.Place).
Guarantees: an element has the same address. A pointer is declared before an innermost loop: further out it would take
a register in loops that do not need it. Subscripts of few terms stay whole. Of an element that is read under a
condition only terms that are a loop's variable times a stride move: others may lie outside of the array where the
condition does not hold.
Does not: look into frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Final

from backends.c_family.access import Kernel, array_type
from backends.kernel_ir import stmt
from backends.kernel_ir.expr import total
from backends.kernel_ir.stmt import For, Let, Stmt, Style, rewritten, trees, walk
from backends.kernel_ir.tree import Binary, Code, Number, Place, Select, Variable, nodes

LONG: Final = 3
"""Additions in a subscript that is too long."""


def with_rows(k: Kernel, statements: Sequence[Stmt], loops: Set[str] = frozenset()) -> list[Stmt]:
    """The statements with such pointers. `loops`: variables of the loops around them."""
    found = list[Stmt]()
    for s in statements:
        rows = list[Stmt]()
        if isinstance(s, For) and not any(isinstance(x, For) for x in walk(s.body)):
            rows, s = _bound(k, s, loops)
        inner = loops | s.var.names if isinstance(s, For) else loops
        inside = {x: with_rows(k, body, inner) for x in s.INSIDE if (body := getattr(s, x))}
        more = any(len(body) > len(getattr(s, x)) for x, body in inside.items())
        s = replace(s, **inside) if inside else s
        found += [*rows, replace(s, style=Style.BRACES) if more and isinstance(s, For | stmt.If) else s]
    return found


def _bound(k: Kernel, loop: For, loops: Set[str]) -> tuple[list[Stmt], For]:
    """Pointers before a loop, and the loop with them."""
    varying = frozenset(_varying([loop]))
    rows, places = dict[tuple[str, Code], Let](), dict[Code, Code]()
    for place, guarded in _long(trees(loop.body)):
        if place in places:
            continue
        same = [x for x in _terms(place.at) if varying.isdisjoint(x.names) and (not guarded or _by_stride(x, loops))]
        if len(same) < 2 or place.array.names & varying:
            continue
        key = place.formal, total([place.array, *same])
        if key not in rows:
            kind = f"{array_type(k, k.formal(place.formal))} *const"
            rows[key] = Let(kind, k.namer.beside(place.formal, "row"), key[1], False)
        rest = total(x for x in _terms(place.at) if x not in same)
        places[place] = Place(rows[key].name, rest, place.formal)
    return [*rows.values()], replace(loop, body=rewritten(loop.body, places.get)) if rows else loop


def _varying(statements: Sequence[Stmt]) -> Iterator[str]:
    """The variables that statements set or declare."""
    for s in walk(statements):
        match s:
            case For(var=Variable(name)) | Let(name=Variable(name)) | stmt.Set(target=Variable(name)):
                yield name


def _long(found: Iterator[Code]) -> Iterator[tuple[Place, bool]]:
    """The elements with long subscripts, each with whether it is read under a condition."""
    for tree in found:
        guarded = {x.then for x in nodes(tree) if isinstance(x, Select)}
        for x in nodes(tree):
            if isinstance(x, Place) and sum(isinstance(y, Binary) and y.op == "+" for y in nodes(x.at)) >= LONG:
                yield x, x in guarded


def _terms(x: Code) -> list[Code]:
    return [*_terms(x.left), *_terms(x.right)] if isinstance(x, Binary) and x.op == "+" else [x]


def _by_stride(x: Code, loops: Set[str]) -> bool:
    match x:
        case Binary("*", Variable(name), Variable() | Number()) | Variable(name):
            return name in loops
    return False
