"""known_deliveries: synapses that deliver what is known when their source spikes.

Assumes: a legal SynapseDef.
Guarantees: such a delivery may be made at the spike, into a ring buffer of the input, instead of when it arrives: its
value depends on params and numbers of the model alone, and nothing else happens at the synapse. Passes agree on which
these are.
Does not: choose where spikes wait (insert_delays).
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.symbols import symbol
from compiler.expr.ast import Expr, Ref, calls, refs, substitute
from compiler.expr.inline import named
from compiler.expr.simplify import has_random
from compiler.ir.level2.synapse_values import has_sums

WEIGHT: Final = Ref("weight")
"""What synapses without a model deliver."""


def known_delivery(projection: l0.Projection) -> Expr | None:
    """What a spike delivers, over symbols of params of the synapse and of the model and `dt`; None where that is open,
    or not all that synapses do."""
    s = projection.statements
    if projection.synapse is None:
        return WEIGHT
    if len(s.on_pre) != 1 or not isinstance(s.on_pre[0], l0.Send) or s.on_pre[0].end != "post":
        return None
    if s.state or s.dynamics or s.update or s.on_post or s.events or s.on or s.pre or s.post or s.rewired:
        return None
    value = substitute(s.on_pre[0].value, named(s.lets))
    known = {"dt", *(p.name for p in s.params), *s.model_params}
    if not refs(value) <= known or has_random(value) or has_sums(value) or "delayed" in calls(value):
        return None
    formulas = any(isinstance(v, l0.Formula) for m in projection.members for _, v in m.params)
    return None if formulas else substitute(value, {n: Ref(symbol(n)) for n in refs(value) - {"dt"}})


def send_of(projection: l0.Projection) -> l0.Send:
    """The statement of a known delivery."""
    (send,) = projection.statements.on_pre
    assert isinstance(send, l0.Send)
    return send


def input_of(projection: l0.Projection) -> str:
    """The input that a known delivery goes into."""
    return send_of(projection).into or projection.into
