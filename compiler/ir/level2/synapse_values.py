"""Readable variables of a projection's synapses, by the model's names.

Assumes: a legal projection.
Guarantees: frontend, lowering and runner agree on names, arrays and units.
Does not: read the values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
from compiler.ir.level2.variable_arrays import array_name, own_array

COUNTED: Final[Mapping[str, str]] = MappingProxyType({"n_in": "post", "n_out": "pre"})
"""What expressions call the number of synapses of the neuron at an end."""


def synapse_variables(projection: l0.Projection) -> tuple[str, ...]:
    """The states of a synapse model; of static synapses the weight, and per-synapse delays."""
    if projection.synapse is None:
        drawn = any(m.delays is not None for m in projection.members)
        return ("weight", "delay") if drawn else ("weight",)
    return tuple(s.name for s in projection.synapse.state)


def synapse_unit(projection: l0.Projection, variable: str, populations: Iterable[l0.Population]) -> str:
    """The canonical unit of one of them; a weight has that of the input."""
    if projection.synapse is not None:
        return next(s.unit for s in projection.synapse.state if s.name == variable)
    if variable == "delay":
        return "ms"
    targets = {m.target for m in projection.members}
    inputs = (i for p in populations if p.name in targets for i in p.neuron.inputs if i.name == projection.into)
    return next((i.unit for i in inputs), "1")


def member_name(projection: l0.Projection, member: l0.Member) -> str:
    """Model path of one projection of a family (or of the one that it shares its synapses with); the arrays of its
    synapses begin with it."""
    source, target = member.like or (member.source, member.target)
    return f"{projection.name}[{source}->{target}]"


def own_name(projection: l0.Projection, member: l0.Member) -> str:
    """Model path of one projection of a family, whether it shares its synapses or not: for arrays that it does not
    share."""
    return f"{projection.name}[{member.source}->{member.target}]"


def variable_array(projection: l0.Projection, member: l0.Member, variable: str) -> str:
    """The array of a variable of the synapses."""
    if projection.synapse is None and variable == "delay":
        return own_array(member_name(projection, member), variable)
    shared = projection.synapse is None or variable in (projection.synapse.shared or ())
    return array_name((member_name if shared else own_name)(projection, member), variable)


def event_name(projection: l0.Projection, member: l0.Member, event: str) -> str:
    """Model path of an event of the synapses; the arrays of its lists begin with it."""
    return f"{own_name(projection, member)}.{event}"


def recorded_events(
    model: l0.Model, record: l0.RecordSynapseEvents | l0.RecordNeuronEvents
) -> Iterator[tuple[str, str]]:
    """(model path, population of the neurons) of every event that a record asks for."""
    if isinstance(record, l0.RecordNeuronEvents):
        yield from ((f"{record.population}.{event}", record.population) for event in record.events)
        return
    family = next(p for p in model.projections if p.name == record.projection)
    assert family.synapse is not None
    ends = {e.name: e.end for e in family.synapse.events}
    for m in family.members:
        for event in record.events:
            yield event_name(family, m, event), m.source if ends[event] == "pre" else m.target


def stored_by_target(projection: l0.Projection) -> bool:
    """Whether synapses are numbered target by target, sources ascending: those that keep their target when they are
    rewired. All others are numbered source by source."""
    return projection.synapse is not None and projection.synapse.rewired == "indegree"
