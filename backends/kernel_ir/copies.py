"""Variables that hold what another one holds become one variable.

Assumes: statements in the form that is printed; functions change no real argument but by its address.
Guarantees: what is stored is the same. `real y = acc;`, behind which neither changes, is left out: the accumulator is
called `y` from its declaration on, where that name is free; a constant keeps its own.
Does not: look into frames, whose names stay as they are, or at integers: some functions change those that they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from backends.kernel_ir import stmt
from backends.kernel_ir.stmt import Closure, For, Frame, Let, Stmt, Text, rewritten, trees, walk
from backends.kernel_ir.tree import Code, Unary, Variable, nodes

_REAL: Final = ("real", "float", "double")


def without_copies(statements: Sequence[Stmt]) -> list[Stmt]:
    """These statements, and those inside them."""
    changing = dict[str, frozenset[str]]()
    for s in walk(statements):
        if isinstance(s, Closure):  # and those that it calls, which stand before it
            called = [changed for name, changed in changing.items() if name in s.mentions]
            changing[s.name] = frozenset(_set([s])).union(*called, changing.get(s.name, ()))
    return _within(statements, changing)


def _within(statements: Sequence[Stmt], changing: dict[str, frozenset[str]]) -> list[Stmt]:
    found, rest = list[Stmt](), list(statements)
    while rest:
        s, *rest = rest
        if isinstance(s, Let) and isinstance(s.name, Variable) and not s.beside and str(s.type) in _REAL:
            s, rest = _one(s, rest, changing)
        inside = {x: _within(body, changing) for x in s.INSIDE if (body := getattr(s, x)) and x not in _FIELDS}
        found.append(replace(s, **inside) if inside else s)
    return found


_FIELDS: Final = ("beside", "params", "fields")


def _one(source: Let, rest: list[Stmt], changing: dict[str, frozenset[str]]) -> tuple[Let, list[Stmt]]:
    """A variable and what follows its declaration, without its copies."""
    held = source.name
    copies = [s for s in walk(rest) if isinstance(s, Let) and s.value == held and str(s.type) == str(source.type)]
    names = {s.name for s in copies}
    if len(names) != 1 or any(s.beside for s in copies):
        return source, rest
    ((name),) = names
    both = held.names | name.names
    declared = [s for s in walk(rest) if isinstance(s, Let | For) and s.mentions and _name(s) == name]
    framed = any(isinstance(s, Frame | Text) and s.mentions & both for s in walk(rest))
    if framed or len(declared) != len(copies) or not _apart(rest, copies, both, changing):
        return source, rest
    kept, gone = (held, name) if source.const else (name, held)
    others = rewritten(_dropped(rest, copies), lambda x: kept if x == gone else None)
    return replace(source, name=kept), others


def _name(s: Let | For) -> Code:
    return s.var if isinstance(s, For) else s.name


def _apart(
    statements: Sequence[Stmt], copies: Sequence[Let], both: frozenset[str], changing: dict[str, frozenset[str]]
) -> bool:
    """Whether nothing behind a copy changes what is copied or the copy, which nothing else names."""
    (name,) = copies[0].name.names
    for n, s in enumerate(statements):
        behind = statements[n + 1 :]
        if isinstance(s, Let) and any(s is x for x in copies):
            again = {f for f, changed in changing.items() if changed & both}
            return not both.intersection(_set(behind)) and not any(map(again.intersection, map(_called, behind)))
        if any(x is c for x in walk([s]) for c in copies):
            if not all(_apart(body, copies, both, changing) for body in s.bodies):
                return False
        elif name in s.mentions:
            return False
    return True


def _called(s: Stmt) -> frozenset[str]:
    """The names in a statement, but for those of functions that it defines."""
    return s.mentions - {x.name for x in walk([s]) if isinstance(x, Closure)}


def _dropped(statements: Iterable[Stmt], copies: Sequence[Let]) -> list[Stmt]:
    found = list[Stmt]()
    for s in statements:
        if not any(s is x for x in copies):
            inside = {x: _dropped(body, copies) for x in s.INSIDE if (body := getattr(s, x)) and x not in _FIELDS}
            found.append(replace(s, **inside) if inside else s)
    return found


def _set(statements: Sequence[Stmt]) -> Iterator[str]:
    """The variables that statements store to, or whose addresses they take."""
    for s in walk(statements):
        if isinstance(s, stmt.Set):
            target = s.target
            while not isinstance(target, Variable) and target.parts:
                target = target.parts[0]
            yield from target.names
    for tree in trees(statements):
        for x in nodes(tree):
            if isinstance(x, Unary) and x.op == "&":
                yield from x.names
