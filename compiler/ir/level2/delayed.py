"""Variables of neurons that synapses read with the delay: `delayed(pre.v)`.

Assumes: level 0: they stand as calls with one dotted name, anywhere in a synapse but its `pre:` and `post:` blocks.
Guarantees: one place that knows what they look like, for frontend and lowering.
Does not: keep the past (passes/keep_past.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from compiler.expr.ast import Call, Expr, Ref, children, with_children

DELAYED: Final = "delayed"


def delayed_name(e: Expr) -> str | None:
    """`pre.v` of `delayed(pre.v)`; None for any other expression."""
    match e:
        case Call(func, (Ref(name),)) if func == DELAYED:
            return name
    return None


def read_delayed(e: Expr) -> set[str]:
    """The names that `e` reads with the delay."""
    name = delayed_name(e)
    return {name} if name is not None else set[str]().union(*(read_delayed(k) for k in children(e)))


def read_now(e: Expr) -> set[str]:
    """The names that `e` reads without the delay."""
    if isinstance(e, Ref):
        return {e.name}
    return set() if delayed_name(e) is not None else set[str]().union(*(read_now(k) for k in children(e)))


def put_delayed(e: Expr, new: Mapping[str, Expr]) -> Expr:
    """`e` with what `new` has for a name in place of that name's delayed reads."""
    name = delayed_name(e)
    if name is not None:
        return new[name]
    kids = children(e)
    return with_children(e, tuple(put_delayed(k, new) for k in kids)) if kids else e
