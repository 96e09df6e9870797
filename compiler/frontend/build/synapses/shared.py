"""States of a plastic synapse shared between the instances of a network: `shared: [w]`.

Assumes: a checked SynapseDef.
Guarantees: shared states have no equations, and are assigned to in `update` and `on` only, with values that are equal
in all instances: per-instance values appear only inside reductions over instances (`mean_instances(dw)`). Does not:
know the number of instances (frontend/build/instances/expand.py).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import Span
from compiler.expr.ast import refs
from compiler.frontend.build.instances.shared import read_alone
from compiler.frontend.build.synapses.checks import with_lets
from compiler.frontend.build.synapses.statements import ENDS, SynapseDraft
from compiler.frontend.yaml import tree
from compiler.ir.level2.synapse_sums import INSTANCES


def check_shared(s: l0.SynapseDef, d: SynapseDraft) -> None:
    """E0310 where the spikes or the equations of one instance would change a shared state, E0802 for a value that
    differs between instances."""
    shared = set(s.shared or ())
    node = d.node.get("shared")
    if not shared or node is None:
        return
    related = (Related("shared here", node.span),)
    for ode in s.dynamics:
        if ode.state in shared:
            message = f"`{ode.state}` is shared by all instances, and follows no equation"
            help = f"change it in `update`: `{ode.state} = ...`"
            d.c.sink.error("E0310", message, _key_of(d.node, ode.state, ode.span), help, related)
    for x in s.state:
        if x.name in shared and isinstance(x.init, l0.Formula):
            others = sorted((refs(x.init.expr) & d.states.keys()) - shared)
            if others:
                message = f"`{x.name}` is shared by all instances, but `{others[0]}` differs between them"
                d.c.sink.error("E0802", message, x.init.span, None, related)
    of_one: list[tuple[l0.Action, ...]] = [s.on_pre, s.on_post, *(e.actions for e in s.events)]
    for action in (a for actions in of_one for a in actions):
        if isinstance(action, l0.Set) and action.target in shared:
            message = f"`{action.target}` is shared by all instances: a spike of one of them cannot change it"
            help = "add up the changes in another state, `dw = dw + ...`, and apply `mean_instances(dw)` in `on`"
            d.c.sink.error("E0310", message, action.span, help, related)
    of_all = [s.update, *(h.actions for h in s.on)]
    for action in (a for actions in of_all for a in actions):
        if not isinstance(action, l0.Set) or action.target not in shared:
            continue
        whole = with_lets(action.value, s.lets, f"`{action.target}`", d.c.sink)
        alone = read_alone(whole) if whole is not None else ()
        differs = sorted(n for n in alone if n not in shared and _of_one(n, d))
        if differs:
            name = differs[0]
            message = f"`{action.target}` is shared by all instances, but `{name}` differs between them"
            what = f"`mean_{INSTANCES}({name})` or `sum_{INSTANCES}({name})`"
            d.c.sink.error("E0802", message, action.span, f"write {what}: that is one value for all", related)


def _key_of(node: tree.Mapping, state: str, otherwise: Span) -> Span:
    """The span of `dw/dt`."""
    block = node.get("dynamics")
    entries = block.entries if isinstance(block, tree.Mapping) else ()
    return next((e.key.span for e in entries if e.key.text == f"d{state}/dt"), otherwise)


def _of_one(name: str, d: SynapseDraft) -> bool:
    """Whether `name` is a state of the synapse, of one of its neurons, or of another population."""
    end, dot, _ = name.partition(".")
    return name in d.states or (dot != "" and end in ENDS) or name in d.others
