"""Calls replaced by what they stand for: the file's own functions, and known functions that are
built from others.

Assumes: arities have been checked (types.py).
Guarantees: after `inline` no call of the given functions is left; after `expand` none of a function
with a definition in functions.py. Arguments that are used more than once are copied, not shared
(emitters find common subexpressions).
Does not: check the bodies; copy an argument that draws random numbers (such a call is refused).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from compiler.diagnostics import Sink
from compiler.expr.ast import Call, Expr, Ref, children, substitute, with_children
from compiler.expr.functions import FUNCTIONS
from compiler.expr.parse import MAX_DEPTH, parse_expr
from compiler.expr.simplify import has_random
from compiler.source import NOWHERE

_LARGEST = 20_000  # nodes of an inlined expression
_DEEPEST = MAX_DEPTH + 50  # every stage recurses over the tree


@dataclass(frozen=True)
class Definition:
    """A function of the file: `swish(x): x / (1 + exp(-x))`."""

    name: str
    parameters: tuple[str, ...]
    body: Expr


def inline(e: Expr, functions: Mapping[str, Definition], sink: Sink) -> Expr | None:
    """`e` without calls of `functions`; None after an error (E0307: a function that calls itself,
    an argument with a random draw that is used more than once, a result that is too large)."""
    result = _Inliner(functions, sink).run(e, ())
    if result is None or result is e:
        return result
    size, depth = _extent(result)
    if size > _LARGEST or depth > _DEEPEST:
        message = "the expression grows too large when its functions are put in"
        sink.error("E0307", message, e.span)
        return None
    return result


def expand(e: Expr) -> Expr:
    """`e` with relu, sigmoid, clip, ... replaced by their definitions in functions.py; for backends
    that print only the basic functions. A call whose argument draws random numbers is kept."""
    kids = tuple(expand(k) for k in children(e))
    e = with_children(e, kids) if kids else e
    if not isinstance(e, Call) or e.func not in FUNCTIONS:
        return e
    known = FUNCTIONS[e.func]
    if known.definition is None or any(has_random(a) for a in e.args):
        return e
    bindings = dict(zip(known.parameters, e.args, strict=True))
    return expand(substitute(_definition(known.definition), bindings))


@functools.cache
def _definition(text: str) -> Expr:
    sink = Sink()
    tree = parse_expr(text, NOWHERE, sink, exact=False)
    sink.check()
    assert tree is not None
    return tree


class _Inliner:
    """One inlining; `bodies` holds each function's body once it is inlined (None: it has an
    error), so that the work is bounded by the number of functions and not by the number of paths
    through them."""

    def __init__(self, functions: Mapping[str, Definition], sink: Sink) -> None:
        self.functions, self.sink = functions, sink
        self.bodies: dict[str, Expr | None] = {}

    def run(self, e: Expr, inside: tuple[str, ...]) -> Expr | None:
        new: list[Expr] = []
        for kid in children(e):
            done = self.run(kid, inside)
            if done is None:
                return None
            new.append(done)
        if any(a is not b for a, b in zip(children(e), new, strict=True)):
            e = with_children(e, tuple(new))
        if isinstance(e, Call) and e.func in self.functions:
            return self.put_in(e, self.functions[e.func], inside)
        return e

    def put_in(self, e: Call, function: Definition, inside: tuple[str, ...]) -> Expr | None:
        if e.func in inside:
            path = " -> ".join((*inside[inside.index(e.func) :], e.func))
            help = "functions cannot call themselves; a recurrence belongs into `update:`"
            self.sink.error("E0307", f"the function `{e.func}` calls itself ({path})", e.span, help)
            return None
        for parameter, argument in zip(function.parameters, e.args, strict=True):
            if has_random(argument) and _uses(function.body, parameter) != 1:
                message = f"the argument `{parameter}` of `{e.func}` draws random numbers"
                help = "assign the draw to a name in a statement of its own"
                self.sink.error("E0307", message, argument.span, help)
                return None
        if e.func not in self.bodies:
            self.bodies[e.func] = self.run(function.body, (*inside, e.func))
        body = self.bodies[e.func]
        if body is None:
            return None
        result = substitute(body, dict(zip(function.parameters, e.args, strict=True)))
        size, depth = _extent(result)
        if size > _LARGEST or depth > _DEEPEST:
            how = f"grows beyond {_LARGEST:,} parts" if size > _LARGEST else "is nested too deeply"
            self.sink.error("E0307", f"`{e.func}` {how} when it is put in", e.span)
            return None
        return result


def _uses(e: Expr, name: str) -> int:
    return int(isinstance(e, Ref) and e.name == name) + sum(_uses(k, name) for k in children(e))


def _extent(e: Expr) -> tuple[int, int]:
    """Number of nodes of `e` (counted up to just beyond the limit) and its depth."""
    count, deepest = 0, 0
    stack = [(e, 1)]
    while stack and count <= _LARGEST:
        node, depth = stack.pop()
        count, deepest = count + 1, max(deepest, depth)
        stack.extend((k, depth + 1) for k in children(node))
    return count, deepest
