"""States that all instances of a network have in common, `shared: [w]`, of synapses and of neurons.

Assumes: states have been declared.
Guarantees: each name is a state of the definition.
Does not: check what is assigned to them (frontend/build/synapses/checks.py, frontend/build/instances/neurons.py).
"""

from __future__ import annotations

from compiler.expr.ast import Call, Expr, children, refs
from compiler.frontend.build.shared.definition_builder import Draft
from compiler.frontend.build.shared.values import items_of, text_of
from compiler.frontend.schema.wording import suggested
from compiler.ir.level2.synapse_values import OVER_INSTANCES


def shared_states(d: Draft) -> tuple[str, ...] | None:
    """The states listed in `shared`; None without the key."""
    node = d.node.get("shared")
    if node is None:
        return None
    out: list[str] = []
    for item in items_of(node):
        name = text_of(item)
        if name in d.states:
            out.append(name)
            continue
        help = suggested(name, "they are", d.states, "it has no `state`")
        d.c.sink.error("E0201", f"{d.noun} `{d.name}` has no state variable `{name}`", item.span, help)
    return tuple(dict.fromkeys(out))


def read_alone(e: Expr) -> set[str]:
    """The names read outside of reductions over instances."""
    if isinstance(e, Call) and e.func in OVER_INSTANCES:
        return set()
    kids = children(e)
    return set().union(*(read_alone(k) for k in kids)) if kids else refs(e)
