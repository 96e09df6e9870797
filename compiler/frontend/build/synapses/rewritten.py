"""Rewriting of every expression of a synapse.

Assumes: a built definition.
Guarantees: the structure is preserved; only the results of the function differ.
Does not: rename anything, or touch initial values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import Expr


def rewritten_synapse(s: l0.SynapseDef, put: Callable[[Expr], Expr]) -> l0.SynapseDef:
    """The synapse with `put` applied to every expression of its equations and statements."""

    def sets(items: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
        return tuple(replace(i, value=put(i.value)) for i in items)

    def actions(items: tuple[l0.Action, ...]) -> tuple[l0.Action, ...]:
        return tuple(i if isinstance(i, l0.Transpose) else _put(i, put(i.value)) for i in items)

    def odes(items: tuple[l0.Ode, ...]) -> tuple[l0.Ode, ...]:
        return tuple(replace(o, rhs=put(o.rhs)) for o in items)

    def end(e: l0.EndDef | None) -> l0.EndDef | None:
        if e is None:
            return None
        on = tuple(replace(h, actions=sets(h.actions)) for h in e.on)
        sends = tuple(replace(x, value=put(x.value)) for x in e.deliver)
        inputs = tuple(i if i.decay is None else replace(i, decay=put(i.decay)) for i in e.inputs)
        own = replace(e, dynamics=odes(e.dynamics), update=sets(e.update), on_spike=sets(e.on_spike), on=on)
        return replace(own, inputs=inputs, deliver=sends)

    return replace(
        s,
        lets=sets(s.lets),
        pre=end(s.pre),
        post=end(s.post),
        dynamics=odes(s.dynamics),
        update=actions(s.update),
        on_pre=actions(s.on_pre),
        on_post=actions(s.on_post),
        events=tuple(replace(e, when=put(e.when), actions=actions(e.actions)) for e in s.events),
        on=tuple(replace(h, actions=actions(h.actions)) for h in s.on),
    )


def _put(action: l0.Set | l0.Send | l0.Rewire, value: Expr) -> l0.Action:
    return replace(action, value=value)
