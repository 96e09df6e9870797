"""Sums in statements, over synapses and over instances of the network: `w = w * total / sum_post(w)`.

Assumes: a parsed value of a statement, and the scope at the beginning of its list.
Guarantees: the summand is checked on its own; the value is checked with the sum replaced by a name of the same
dimension.
Does not: decide where sums are allowed (frontend/build/synapses/statements.py, frontend/build/instances/neurons.py).
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, replace

from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Ref, calls, children, refs, shorten, substitute, with_children
from compiler.expr.units import DIMENSIONLESS, Dimension
from compiler.frontend.build.shared.definition_builder import Draft
from compiler.frontend.build.shared.scope import Checked, Scope, Wanted, check_tree
from compiler.ir.level0.pool_sums import POOL_SUMS
from compiler.ir.level2.synapse_values import SUMS

NO_RANDOM = "it cannot be random; draw in a statement before, into a state"


@dataclass
class Taken:
    """Sums extracted from a value: their placeholder names and definitions."""

    calls: dict[str, Call]
    dimensions: dict[str, Dimension | None]
    wrong: bool = False

    def scope(self, scope: Scope) -> Scope:
        """`scope` with the sums as names."""
        return scope.extended(self.dimensions) if self.calls else scope

    def back(self, found: Checked | None, d: Draft) -> Checked | None:
        """The checked value with its sums in place."""
        if found is None or not self.calls:
            return found
        value = self.put(found.expr)
        d.read |= refs(value)
        return replace(found, expr=value)

    def put(self, e: Expr) -> Expr:
        known: dict[str, Expr] = {**self.calls}
        return substitute(e, known)


def has_own_sums(e: Expr, scope: Scope, functions: Collection[str] = SUMS) -> bool:
    """Whether `e` calls a sum, by one of `functions`, that is not a function of the file with that name."""
    return bool(calls(e) & set(functions) - scope.functions.keys())


def take_sums(
    e: Expr, span: Span, scope: Scope, local: Container[str], d: Draft, functions: Container[str] = SUMS
) -> tuple[Expr, Taken]:
    """`e` with each sum, by one of `functions`, replaced by a name, inner ones first. `scope`: that of a sum, without
    the list's `local` names."""
    taken = Taken({}, {})

    def walk(x: Expr) -> Expr:
        kids = tuple(walk(k) for k in children(x))
        x = with_children(x, kids) if kids else x
        if not isinstance(x, Call) or x.func not in functions or x.func in scope.functions:
            return x
        return _one(x, span, scope, local, d, taken)

    return walk(e), taken


def _one(x: Call, span: Span, scope: Scope, local: Container[str], d: Draft, taken: Taken) -> Expr:
    sink = d.c.sink
    if len(x.args) != 1:
        message = f"`{x.func}` takes 1 argument, {len(x.args)} given"
        sink.error("E0304", message, x.span, f"for example `{x.func}(w)`")
        taken.wrong = True
        return x
    mine = sorted(n for n in refs(x.args[0]) if n in local)
    if mine:
        message = f"`{mine[0]}` belongs to these statements: the others have no such value that could be summed"
        help = "write its expression inside of the sum, or declare it under `state`"
        sink.error("E0302", message, x.args[0].span, help)
        taken.wrong = True
        return x
    wanted = Wanted(f"what `{x.func}` reads", None, False, NO_RANDOM)
    found = check_tree(x.args[0], span, taken.scope(scope), wanted, sink)
    if found is None:
        taken.wrong = True
        return x
    dimension = found.dimension
    if POOL_SUMS.get(x.func, ("", ""))[0] == "argmax":
        dimension = DIMENSIONLESS
        if not isinstance(found.expr, Ref) or found.expr.name not in (*d.states, *d.inputs):
            sink.error("E0311", f"`{x.func}` takes a state or an input", x.args[0].span, "put the value into a state")
            taken.wrong = True
            return x
    name = shorten(x)
    taken.calls[name] = Call(x.func, (taken.put(found.expr),), x.span)
    taken.dimensions[name] = dimension
    return Ref(name, x.span)
