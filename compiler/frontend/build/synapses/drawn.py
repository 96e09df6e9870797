"""Random initial values of a synapse's states: distributions over its parameters.

Assumes: the parameters are declared.
Guarantees: dimensions are checked at the definition; numbers use the parameters' defaults.
Does not: compute a projection's values (use.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import compiler.ir.level0.model as l0
from compiler.core.errors import Sink
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.units import Dimension
from compiler.frontend.build.shared.initial_values import initial_value
from compiler.frontend.build.shared.random_help import words_of
from compiler.frontend.build.shared.scope import TOTAL, total_name
from compiler.frontend.build.shared.values import Names
from compiler.frontend.build.synapses.statements import SynapseDraft
from compiler.frontend.yaml.tree import Node


def drawn_value(
    d: SynapseDraft, params: tuple[l0.ParamDecl, ...], node: Node, what: str
) -> tuple[l0.Value | None, Dimension | None]:
    """A distribution of initial values over the parameters, with their defaults; each projection evaluates it with its
    own. A parameter without a default counts as 1 while the dimensions are checked."""
    words = words_of(node)
    d.read |= words & d.params.keys()
    numbers, complete = default_numbers(params, d.c.names.numbers)
    later = {*d.states, *d.late, *(total_name(name) for name in d.params)}
    names = Names(d.scope(d.params, d.states), {**dict.fromkeys(later, 1.0), **numbers})
    if complete and not words & {*d.states, *d.late, TOTAL}:
        return initial_value(node, d.c, what, None, names)
    own = Sink()
    _, dimension = initial_value(node, replace(d.c, sink=own), what, None, names)
    d.c.sink.items += [i for i in own.items if i.code not in ("E0106", "E0308")]  # those concern the values
    return l0.Const(0.0, node.span), dimension


def default_numbers(params: tuple[l0.ParamDecl, ...], numbers: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The defaults of parameters as numbers, evaluated with those of the model, and whether each has one (else 1)."""
    out, complete = dict(numbers), True
    for p in params:
        value: Any = None
        if isinstance(p.default, l0.Const):
            value = p.default.value
        elif isinstance(p.default, l0.Formula):
            try:
                value = evaluate(p.default.expr, out)
            except ExprError:
                value = None
        complete = complete and value is not None
        out[p.name] = 1.0 if value is None else value
    return out, complete
