"""Delayed reads of neuron variables by synapses: `delayed(pre.v)`.

Assumes: level 0: they are calls with one dotted name, anywhere in a synapse but its `pre:` and `post:` blocks.
Guarantees: one definition of their form, for frontend and lowering.
Does not: store past state (passes/cells/state_history.py).
"""

from __future__ import annotations

from typing import Final

from compiler.expr.ast import Call, Expr, Num, Ref, nodes, refs, rewrite

DELAYED: Final = "delayed"


def delayed_name(e: Expr) -> str | None:
    """`pre.v` of `delayed(pre.v)`; None for any other expression."""
    match e:
        case Call(func, (Ref(name),)) if func == DELAYED:
            return name
    return None


def read_delayed(e: Expr) -> set[str]:
    """The names with delayed reads in `e`."""
    return {name for x in nodes(e) if (name := delayed_name(x)) is not None}


def read_now(e: Expr) -> set[str]:
    """The names with undelayed reads in `e`."""
    return refs(rewrite(e, lambda x: x if delayed_name(x) is None else Num(0), top_down=True))
