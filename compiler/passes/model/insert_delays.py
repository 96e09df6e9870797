"""insert_delays: the sizes of the ring buffers of events and deliveries.

Assumes: a legal model.
Guarantees: per population the longest delay, in steps, with which its events are read (delays of its projections, back
delays of projections onto it, where synapses react to them), which its ring buffer of events must hold; and inputs with
a separate ring buffer of deliveries. These are the inputs of known deliveries with individual delays, which are made at
emission (as all of them into such an input are, but those of projections that are cleared, whose spikes wait at their
source), and inputs that synapses read: deliveries of a step must not be visible in it.
Does not: make arrays (lower_cells).
"""

from __future__ import annotations

import math

import compiler.ir.level0.model as l0
from compiler.ir.level1.projections import StoredProjection
from compiler.passes.model.known_deliveries import input_of
from compiler.passes.model.synapse_symbols import read_of_neurons


def _read_inputs(model: l0.Model) -> set[tuple[str, str]]:
    """(population, input) of inputs that statements of synapses read."""
    inputs = {p.name: {i.name for i in p.neuron.inputs} for p in model.populations}
    found: set[tuple[str, str]] = set()
    known: dict[int, set[tuple[str, str]]] = {}
    for projection in model.projections:
        synapse = projection.statements
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


def _waits(synapse: l0.SynapseDef, end: str) -> bool:
    """Whether spikes of an end have an effect."""
    block, statements = (synapse.pre, synapse.on_pre) if end == "pre" else (synapse.post, synapse.on_post)
    of_a_block = block is not None and bool(block.on_spike)
    return (
        bool(statements) or of_a_block or any((end, time) in read_of_neurons(synapse) for time in l0.times_of(l0.SPIKE))
    )


def _longest(member: l0.Member, precision: str) -> int:
    """Upper bound in steps on the delays of known deliveries. A normal number is within 6.6 standard deviations in
    float32, 8.6 in float64 (backends/device/philox.h); one step more for rounding."""
    drawn = member.delays
    if not isinstance(drawn, l0.Distribution) or drawn.kind != "normal":
        return member.delay
    given, reach = dict(drawn.args), 6.6 if precision == "float32" else 8.6
    return min(member.delay, math.ceil(given["mean"] + reach * given["std"]) + 1)


def delays_and_rings(
    model: l0.Model, projections: tuple[StoredProjection, ...]
) -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    """(population -> steps that its events are kept for, (population, input) -> slots of its ring buffer)."""
    longest: dict[str, int] = {}
    rings = dict.fromkeys(sorted(_read_inputs(model)), 1)
    known = [p.family for p in projections if p.known is not None]
    sent = [(p.clear is not None, m, (m.target, into)) for p in known for into in (input_of(p),) for m in p.members]
    ringed = {key for cleared, member, key in sent if member.delays is not None and not cleared} | rings.keys()
    for cleared, member, target in sent:
        if target in ringed and not cleared:  # projections with a uniform delay use the ring buffer, too
            rings[target] = max(rings.get(target, 1), _longest(member, model.numerics.precision) + 1)
        else:
            longest[member.source] = max(longest.get(member.source, 0), member.delay)
    for projection in (p.family for p in projections if p.known is None):
        pre, post = (_waits(projection.statements, end) for end in ("pre", "post"))
        for member in projection.members:
            longest[member.source] = max(longest.get(member.source, 0), member.delay if pre else 0)
            longest[member.target] = max(longest.get(member.target, 0), member.back_delay if post else 0)
    return longest, rings
