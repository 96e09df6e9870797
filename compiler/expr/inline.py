"""Inlining of calls: the file's own functions, and built-in functions that are defined by others.

Assumes: arities have been checked (types.py).
Guarantees: after `inline` no call of the given functions is left; after `expand` none of a function with a definition
in functions.py. Arguments used more than once are shared, not copied; expressions that would be too large when expanded
are rejected, as they are expanded in the end.
Does not: check the bodies; copy an argument that draws random numbers (such a call is rejected).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from compiler.core.diagnostics import Sink
from compiler.expr.ast import Call, Expr, Ref, children, extent, refs, rewrite, substitute, with_children
from compiler.expr.functions import FUNCTIONS
from compiler.expr.parse import MAX_DEPTH, own_expr
from compiler.expr.simplify import has_random

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
    if (how := too_large(result)) is not None:
        sink.error("E0307", f"the expression {how} when its functions are put in", e.span)
        return None
    return result


def too_large(e: Expr) -> str | None:
    """How `e`, when expanded, exceeds the limits of later stages: "grows beyond 20,000 parts", "is nested too deeply";
    None when it does not."""
    return f"grows beyond {_LARGEST:,} parts" if extent(e)[0] > _LARGEST else too_deep(e)


def too_deep(e: Expr) -> str | None:
    """ "is nested too deeply" if it is; sufficient where shared nodes are not expanded."""
    return "is nested too deeply" if extent(e)[1] > _DEEPEST else None


class Let(Protocol):
    """A named expression, which reads only earlier ones: an assignment of any level of the IR."""

    @property
    def target(self) -> str: ...

    @property
    def value(self) -> Expr: ...


def named(lets: Iterable[Let]) -> dict[str, Expr]:
    """Named expressions with earlier ones substituted: name -> expression. Repeated reads are shared; expanded, they
    may be too large."""
    known: dict[str, Expr] = {}
    for let in lets:
        known[let.target] = substitute(let.value, known)
    return known


def reads_through(values: Iterable[Expr], lets: Sequence[Let]) -> set[str]:
    """The names that expressions read, directly or through named expressions."""
    found = set[str]().union(*map(refs, values))
    for let in reversed(lets):
        if let.target in found:
            found |= refs(let.value)
    return found


def expand(e: Expr) -> Expr:
    """`e` with relu, sigmoid, clip, ... replaced by their definitions in functions.py; for backends
    that print only the basic functions. A call whose argument draws random numbers is kept."""
    return rewrite(e, _defined)


def _defined(e: Expr) -> Expr:
    """`e`, whose children are expanded, expanded."""
    known = FUNCTIONS.get(e.func) if isinstance(e, Call) else None
    if not isinstance(e, Call) or known is None or known.definition is None or any(has_random(a) for a in e.args):
        return e
    # the definition's own calls first: the arguments are expanded already
    return substitute(expand(own_expr(known.definition)), dict(zip(known.parameters, e.args, strict=True)))


class _Inliner:
    """One inlining; `bodies` holds each function's body once it is inlined (None: it has an
    error), so that the work is bounded by the number of functions and not by the number of paths
    through them."""

    def __init__(self, functions: Mapping[str, Definition], sink: Sink) -> None:
        self.functions, self.sink = functions, sink
        self.bodies: dict[str, Expr | None] = {}
        self.done: dict[int, Expr] = {}  # a shared node stays shared
        self.calls: dict[Call, Expr] = {}  # so do equal calls of one function

    def run(self, e: Expr, inside: tuple[str, ...]) -> Expr | None:
        if not children(e) and not isinstance(e, Call):
            return e
        found = self.done.get(id(e))
        if found is None:
            found = self.changed(e, inside)
            if found is not None:
                self.done[id(e)] = found
        return found

    def changed(self, e: Expr, inside: tuple[str, ...]) -> Expr | None:
        new: list[Expr] = []
        for kid in children(e):
            done = self.run(kid, inside)
            if done is None:
                return None
            new.append(done)
        if any(a is not b for a, b in zip(children(e), new, strict=True)):
            e = with_children(e, tuple(new))
        if not isinstance(e, Call) or e.func not in self.functions:
            return e
        whole = self.calls.get(e)
        if whole is None:
            whole = self.put_in(e, self.functions[e.func], inside)
            if whole is not None and not has_random(e):
                self.calls[e] = whole
        return whole

    def put_in(self, e: Call, function: Definition, inside: tuple[str, ...]) -> Expr | None:
        if e.func in inside:
            path = " -> ".join((*inside[inside.index(e.func) :], e.func))
            help = "functions cannot call themselves; a recurrence belongs into `update:`"
            self.sink.error("E0307", f"the function `{e.func}` calls itself ({path})", e.span, help)
            return None
        if e.func not in self.bodies:
            self.bodies[e.func] = self.run(function.body, (*inside, e.func))
        body = self.bodies[e.func]
        if body is None:
            return None
        for parameter, argument in zip(function.parameters, e.args, strict=True):
            if has_random(argument) and _uses(body, parameter) != 1:
                message = f"the argument `{parameter}` of `{e.func}` draws random numbers"
                help = "assign the draw to a name in a statement of its own"
                self.sink.error("E0307", message, argument.span, help)
                return None
        result = substitute(body, dict(zip(function.parameters, e.args, strict=True)))
        if (how := too_large(result)) is not None:
            self.sink.error("E0307", f"`{e.func}` {how} when it is put in", e.span)
            return None
        return result


def _uses(e: Expr, name: str) -> int:
    """How often `e` reads `name`, shared nodes counted every time."""
    known: dict[int, int] = {}

    def count(x: Expr) -> int:
        kids = children(x)
        if not kids:
            return int(isinstance(x, Ref) and x.name == name)
        if id(x) not in known:
            known[id(x)] = sum(count(k) for k in kids)
        return known[id(x)]

    return count(e)
