"""insert_delays: how long events and deliveries are kept.

Assumes: a legal model.
Guarantees: the largest number of steps that the events of a population are asked for (delays of its projections, back
delays of projections onto it), which its ring of events must hold; and inputs whose deliveries go through a ring of
their own. These are the inputs of static synapses with delays of their own, which deliver at emission (what else goes
into such an input does the same), and inputs that synapses read: what is delivered in a step must not be seen in it.
Does not: make arrays (lower_cells).
"""

from __future__ import annotations

from compiler.ir.model import Model
from compiler.passes.synapse_names import read_of_neurons


def _read_inputs(model: Model) -> set[tuple[str, str]]:
    """(population, input) of inputs that statements of synapses read."""
    inputs = {p.name: {i.name for i in p.neuron.inputs} for p in model.populations}
    found: set[tuple[str, str]] = set()
    known: dict[int, set[tuple[str, str]]] = {}
    for projection in model.projections:
        synapse = projection.synapse
        if synapse is None:
            continue
        if id(synapse) not in known:
            traces = {
                (end, s.name)
                for end, block in (("pre", synapse.pre), ("post", synapse.post))
                if block is not None
                for s in block.state
            }
            known[id(synapse)] = read_of_neurons(synapse) - traces
        for end, variable in known[id(synapse)]:
            for member in projection.members:
                population = member.source if end == "pre" else member.target
                if variable in inputs[population]:
                    found.add((population, variable))
    return found


def delays_and_rings(model: Model) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """(population -> steps that its events are kept for, (population, input) -> slots of its ring, a power of two)."""
    longest: dict[str, int] = {}
    rings = dict.fromkeys(sorted(_read_inputs(model)), 1)
    static = [(m, (m.target, p.into)) for p in model.projections if p.synapse is None for m in p.members]
    ringed = {key for member, key in static if member.delays is not None} | rings.keys()
    for member, target in static:
        if target in ringed:  # what has one delay for all its synapses goes through the ring, too
            rings[target] = max(rings.get(target, 1), 1 << member.delay.bit_length())
        else:
            longest[member.source] = max(longest.get(member.source, 0), member.delay)
    for projection in model.projections:
        if projection.synapse is not None:
            for member in projection.members:
                longest[member.source] = max(longest.get(member.source, 0), member.delay)
                longest[member.target] = max(longest.get(member.target, 0), member.back_delay)
    return longest, rings
