"""shared_functions: elementary functions that many expressions call, as functions of vectors in place of copies.

Assumes: the statements of all kernels of a file.
Guarantees: of a function that a kernel calls more than IN_KERNEL times, or all kernels more than IN_FILE times, gcc
compiles one text for scalars and for vectors of each width, which vectorised loops call (NL_SHARED): compile time does
not grow with the copies, and registers are not spilled between many of them. A function that is called under a
condition stays a copy, since loops are vectorised only where both sides can be computed.
Does not: share what costs no more than a call, or what the text of a skeleton calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from backends.c_family.device_library import long_functions
from backends.kernel_ir.stmt import Frame, If, Stmt, names_of
from backends.kernel_ir.tree import Binary, Call, Code, Select, Variable

IN_KERNEL: Final = 4
"""Calls as a rule of Runge and Kutta has."""
IN_FILE: Final = 16
LEAST: Final = 20
"""Lines of a function, with those that it calls."""


def shared_functions(kernels: Iterable[Sequence[Stmt]]) -> frozenset[str]:
    of_file, most, copied = Counter[str](), Counter[str](), set[str]()
    for kernel in kernels:
        if long_functions(LEAST).isdisjoint(names_of(kernel)):
            continue
        calls = list(_calls(kernel, False))
        copied.update(name for name, maybe in calls if maybe)
        found = Counter(name for name, _ in calls)
        of_file += found
        most |= found
    many = {n for n, count in of_file.items() if count > IN_FILE or most[n] > IN_KERNEL}
    return frozenset(many - copied)


def _calls(statements: Iterable[Stmt], maybe: bool) -> Iterator[tuple[str, bool]]:
    """(function, whether under a condition) of each call."""
    for s in statements:
        if long_functions(LEAST).isdisjoint(s.mentions):
            continue
        if isinstance(s, Frame):
            yield from ((name, True) for name in s.names & long_functions(LEAST))
        for x in s.TREES:
            if (tree := getattr(s, x)) is not None:
                yield from _called(tree, maybe)
        for body in s.bodies:
            yield from _calls(body, maybe or isinstance(s, If))


def _called(tree: Code, maybe: bool) -> Iterator[tuple[str, bool]]:
    todo = [(tree, maybe)]
    while todo:
        x, maybe = todo.pop()
        match x:
            case Select(test, then, orelse):
                todo += [(test, maybe), (then, True), (orelse, True)]
            case Binary("&&" | "||", left, right):
                todo += [(left, maybe), (right, True)]
            case Call(Variable(name)) if name in long_functions(LEAST):
                yield name, maybe
                todo += [(part, maybe) for part in x.parts]
            case _:
                todo += [(part, maybe) for part in x.parts]
