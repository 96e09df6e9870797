"""freeze_learning: a model with frozen synapses.

Assumes: a legal model; `simulate.freeze` names projections.
Guarantees: in these projections states of synapses and traces of their ends are constant: their equations and the
assignments to them are removed, and no synapse is rewired. Deliveries stay, with the locals that they read, and of ends
with the variables that they follow; deliveries that used a changed state use the frozen one. Nothing else changes.
Does not: distinguish learning from other states (short-term plasticity of a named projection is frozen too).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import refs


def freeze_learning(model: l0.Model) -> l0.Model:
    """The model that runs in place of `model`."""
    if model.simulate is None or not model.simulate.freeze:
        return model
    named = set(model.simulate.freeze)
    recorded: dict[str, frozenset[str]] = {}
    for r in model.events:
        recorded[r.source] = recorded.get(r.source, frozenset()) | frozenset(r.events)
    known: dict[tuple[int, frozenset[str]], l0.SynapseDef] = {}

    def frozen(synapse: l0.SynapseDef, kept: frozenset[str]) -> l0.SynapseDef:
        if (id(synapse), kept) not in known:
            known[id(synapse), kept] = frozen_synapse(synapse, kept)
        return known[id(synapse), kept]

    return replace(
        model,
        projections=tuple(
            replace(p, synapse=frozen(p.synapse, recorded.get(p.name, frozenset())))
            if p.name in named and p.synapse is not None
            else p
            for p in model.projections
        ),
    )


def frozen_synapse(synapse: l0.SynapseDef, recorded: frozenset[str] = frozenset()) -> l0.SynapseDef:
    """A synapse model that only delivers; events that are `recorded`, or whose times are read, still happen."""
    state = {s.name for s in synapse.state}

    def actions(items: tuple[l0.Action, ...]) -> tuple[l0.Action, ...]:
        kept = tuple(
            a
            for a in items
            if not (isinstance(a, l0.Rewire) or (isinstance(a, l0.Set | l0.Transpose) and a.target in state))
        )
        return kept if any(isinstance(a, l0.Send) for a in kept) else ()

    frozen = replace(
        synapse,
        pre=_still(synapse.pre),
        post=_still(synapse.post),
        dynamics=(),
        update=actions(synapse.update),
        on_pre=actions(synapse.on_pre),
        on_post=actions(synapse.on_post),
        events=tuple(replace(e, actions=actions(e.actions)) for e in synapse.events),
        on=tuple(replace(h, actions=kept) for h in synapse.on if (kept := actions(h.actions))),
        event_driven=False,
    )
    read = set[str]().union(*(refs(e) for e in frozen.expressions))

    def needed(e: l0.SynapseEvent) -> bool:
        return bool(e.actions) or e.name in recorded or any(f"{e.end}.{t}" in read for t in l0.times_of(e.name))

    return replace(frozen, events=tuple(e for e in frozen.events if needed(e)))


def _still(end: l0.EndDef | None) -> l0.EndDef | None:
    """The variables of an end as they are, but for those that what it delivers depends on."""
    if end is None:
        return None
    read = {n.partition(".")[2] or n for x in end.deliver for n in refs(x.value)} & {x.name for x in end.state}
    changes = [(o.state, o.rhs) for o in end.dynamics] + [(s.target, s.value) for s in end.statements]
    while more := {n for target, value in changes if target in read for n in refs(value)} - read:
        read |= more

    def sets(items: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
        return tuple(s for s in items if s.target in read)

    return replace(
        end,
        dynamics=tuple(o for o in end.dynamics if o.state in read),
        update=sets(end.update),
        on_spike=sets(end.on_spike),
        on=tuple(replace(h, actions=kept) for h in end.on if (kept := sets(h.actions))),
    )
