"""The condition of `form(...)`, evaluated at vacant synapse positions.

Assumes: a checked SynapseDef.
Guarantees: the condition reads only what a vacant position has: parameters, the neuron that is kept, sums over that
neuron's synapses.
Does not: check projections (fits.py).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.expr.ast import Call, Expr, children, refs
from compiler.frontend.build.synapses.checks import with_lets
from compiler.frontend.build.synapses.statements import ENDS, SynapseDraft
from compiler.ir.level2.synapse_sums import SUMS


def check_formed(s: l0.SynapseDef, d: SynapseDraft) -> None:
    """E0302 for a condition of `form` that reads variables of an existing synapse."""
    for action in s.actions:
        if isinstance(action, l0.Rewire) and action.how == "form":
            end = "post" if action.keep == "indegree" else "pre"
            whole = with_lets(action.value, s.lets, "the condition of `form`", d.c.sink)
            wrong = sorted(_of_a_synapse(whole, end, d)) if whole is not None else ()
            if wrong:
                message = f"`form` tests vacant places, which have no `{wrong[0]}`"
                side = "source" if end == "pre" else "target"
                help = f"it may read the {side} (`{end}.v`), sums over its synapses (`sum_{end}(1)`), and draw"
                related = (Related("declared here", d.places[wrong[0]]),) if wrong[0] in d.places else ()
                d.c.sink.error("E0302", message, action.span, help, related)


def _of_a_synapse(e: Expr, end: str, d: SynapseDraft) -> set[str]:
    """The names of variables of a synapse or its other end."""
    if isinstance(e, Call) and e.func in SUMS:
        return set() if SUMS[e.func][1] == end else {e.func}
    kids = children(e)
    if kids:
        return set().union(*(_of_a_synapse(k, end, d) for k in kids))
    return {n for n in refs(e) if n in d.states or (n.partition(".")[0] in ENDS and n.partition(".")[0] != end)}
