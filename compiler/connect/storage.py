"""Storage of a family's connections: which one it has, and what that can hold.

Assumes: a family of level 0.
Guarantees: frontend, verifier, passes and estimates of memory agree on what a storage can hold.
Does not: report errors at their places (frontend/build/projections/storage.py), or make arrays (passes/relations).
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level0.model as l0
from compiler.connect import ConnectRule, Form, rule_of
from compiler.expr.ast import refs, substitute
from compiler.expr.simplify import has_random
from compiler.ir.level2.synapse_sums import has_sums
from compiler.ir.level2.synapse_values import COUNTED

UNSTORED: Final = frozenset({"bitmask", "procedural", "toeplitz"})
"""Storages that hold nothing for each synapse, and find synapses from their sources alone."""


def sums_over(synapse: l0.SynapseDef) -> bool:
    """Whether statements read other synapses."""
    return any(has_sums(e) for e in synapse.values)


def draws(synapse: l0.SynapseDef) -> bool:
    """Whether statements of a synapse draw random numbers, for which it needs a number of its own."""
    return any(has_random(e) for e in synapse.values)


def at_targets(synapse: l0.SynapseDef) -> bool:
    """Whether statements run at events of a target."""
    return bool(synapse.on_post) or any(e.end == "post" and e.actions for e in synapse.events)


def kernel_fault(synapse: l0.SynapseDef) -> str | None:
    """Why the states of a synapse cannot be those of the elements of a kernel, which its synapses share; None where
    they can: events of phases alone change them, in the same way at all positions."""
    states = {x.name for x in synapse.state}
    at_spikes = (*synapse.update, *synapse.on_pre, *synapse.on_post, *(a for e in synapse.events for a in e.actions))
    if synapse.dynamics or any(isinstance(a, l0.Set) and a.target in states for a in at_spikes):
        return "they change beside events of phases"
    for handler in synapse.on:
        if not any(isinstance(a, l0.Set) and a.target in states for a in handler.actions):
            continue
        if not all(isinstance(a, l0.Set) for a in handler.actions):
            return f"`{handler.phase}.{handler.event}` does more than change them"
        inner = {let.target: let.value for let in synapse.lets}
        values = [substitute(value, inner) for value in l0.values_of(handler.actions)]
        read = set[str]().union(*(refs(value) for value in values))
        own = {n for n in read if n.partition(".")[0] in ("pre", "post") or n in COUNTED}
        if own or any(has_sums(value) for value in values):
            return f"what changes them at `{handler.phase}.{handler.event}` differs from synapse to synapse"
    return None


def holds_kernel(projection: l0.Projection) -> bool:
    """Whether the states of its synapse are those of the elements of a kernel."""
    synapse = projection.synapse
    if synapse is None or not synapse.state or projection.storage != "toeplitz":
        return False
    return kernel_fault(synapse) is None


def keeps_state(projection: l0.Projection) -> bool:
    """Whether synapses have individual state, or are stored by target too, or (where the number that this needs is
    otherwise missing) draw random numbers."""
    if any(m.delays is not None or m.back_delays is not None for m in projection.members):
        return True
    synapse = projection.synapse
    if synapse is None:
        return False
    own = bool(synapse.state) and not holds_kernel(projection)
    if own or sums_over(synapse) or (at_targets(synapse) and projection.storage not in UNSTORED):
        return True
    return not numbers(rule_of(projection), projection.storage) and draws(synapse)


def numbers(rule: ConnectRule, storage: str) -> bool:
    """Whether synapses have a number, by which they can draw, though nothing is stored for each."""
    return rule.form is not Form.WINDOWS and storage != "bitmask" and (storage != "procedural" or rule.ordered)


def shares_elements(projection: l0.Projection) -> bool:
    """Whether synapses are those of a convolution that have nothing but their element of the kernel."""
    return rule_of(projection).form is Form.WINDOWS and not keeps_state(projection)


def storage_of(projection: l0.Projection) -> str:
    """The storage of a family: sparse | dense | one_to_one | bitmask | procedural | toeplitz."""
    if projection.storage != "auto":
        return projection.storage
    if any(m.parts != (None, None) for m in projection.members):
        return "sparse"
    if shares_elements(projection):
        return "toeplitz"
    return {Form.ALL: "dense", Form.DIAGONAL: "one_to_one"}.get(rule_of(projection).form, "sparse")


def drawn_again(projection: l0.Projection) -> bool:
    """Whether weights may be a distribution that is drawn again at every event, by the numbers of synapses."""
    return projection.storage == "procedural" and projection.synapse is None and rule_of(projection).ordered


def misfit(projection: l0.Projection) -> str | None:
    """What the storage of a family cannot hold; None where it can hold all."""
    storage, rule = projection.storage, rule_of(projection)
    if storage not in UNSTORED:
        return None
    if keeps_state(projection):
        return f"synapses have a state, a delay or a number of their own, but the storage is `{storage}`"
    if storage == "toeplitz":
        return None if rule.form is Form.WINDOWS else "only convolutions are stored as `toeplitz`"
    one = (l0.Const, l0.Placed, l0.Distribution) if drawn_again(projection) else (l0.Const, l0.Placed)
    for m in projection.members:
        if not isinstance(m.weight, one) or not all(isinstance(value, l0.Const | l0.Placed) for _, value in m.params):
            return f"synapses have values of their own, but the storage is `{storage}`"
    if storage == "procedural":
        return None if rule.redrawn else f"connections of `{rule.name}` cannot be drawn again source by source"
    twice = any(len(set(pairs)) < len(pairs) for pairs in projection.pair_lists)
    return "one bit cannot hold a pair twice" if twice or rule.repeats or rule.form is Form.WINDOWS else None
