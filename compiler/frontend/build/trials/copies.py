"""A model whose samples are trials: an instance for each sample of a batch, with what is counted in them.

Assumes: a model that check_trials has accepted.
Guarantees: the populations that inputs read in spikes count them, in a hidden state that begins with 0; what inputs
read is recorded at the end of each frame. There are as many instances as a batch has samples. They share all synapses;
values of neurons that are drawn at the start are those of the first instance in all of them, so that it does not matter
which one runs a sample; what is drawn while they run differs.
Does not: run trials (runtime/trials.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.expr.ast import Ref
from compiler.frontend.build.instances.expand import check_instances, copy_name, expand_instances
from compiler.frontend.build.trials.activity import COUNTED

COUNTER: Final = l0.hidden("spikes")
"""The hidden state that counts the spikes of a neuron in a trial."""


def with_trials(model: l0.Model, sink: Sink) -> l0.Model | None:
    """The model with its instances; None after an error."""
    assert model.simulate is not None and model.train is not None and model.network is not None
    read = [(i.name, i.activity) for i in model.network.inputs if i.activity is not None]
    counted = {activity.population for _, activity in read if activity.variable in COUNTED}
    batch, at = model.train.batch, model.train.span
    model = replace(
        model,
        populations=_counting(model.populations, counted),
        projections=tuple(_with_own_states(p) for p in model.projections),
        simulate=replace(model.simulate, instances=batch),
    )
    if batch > 1:
        before = len(sink.items)
        check_instances(model, True, at, sink)
        if len(sink.items) > before:
            return None
    names = [p.name for p in model.populations]
    model = expand_instances(model, True)
    first = {copy_name(n, k): copy_name(n, 0) for n in names for k in range(batch)} if batch > 1 else {}
    return replace(
        model,
        populations=tuple(_alike(p, first.get(p.name, p.name)) for p in model.populations),
        drives=tuple(_alike_drive(d, first.get(d.population, d.population)) for d in model.drives),
        traces=tuple(t for name, activity in read for t in _recorded(model, name, activity)),
    )


def _recorded(model: l0.Model, name: str, activity: l0.Activity) -> Iterator[l0.RecordTraces]:
    """The recordings of what a network input reads, one for each instance."""
    assert model.simulate is not None
    sizes = {p.name: p.size for p in model.populations}
    copies, frames = model.simulate.instances, model.simulate.steps // activity.every
    variable = COUNTER if activity.variable in COUNTED else activity.variable
    for copy in range(copies):
        population = copy_name(activity.population, copy) if copies > 1 else activity.population
        members = tuple(range(sizes[population]))
        yield l0.RecordTraces(population, (variable,), members, activity.every, input=name, capacity=frames)


def _counting(populations: tuple[l0.Population, ...], counted: set[str]) -> tuple[l0.Population, ...]:
    """The populations, of which those in `counted` count their spikes."""
    made: dict[int, l0.NeuronDef] = {}

    def counting(p: l0.Population) -> l0.Population:
        if p.name not in counted:
            return p
        if id(p.neuron) not in made:
            made[id(p.neuron)] = _with_counter(p.neuron)
        return replace(p, neuron=made[id(p.neuron)], init=(*p.init, (COUNTER, l0.Const(0.0))))

    return tuple(map(counting, populations))


def _with_counter(neuron: l0.NeuronDef) -> l0.NeuronDef:
    assert neuron.spike is not None
    count = l0.Set(COUNTER, Ref(COUNTER) + 1.0, neuron.spike.span)
    spike = replace(neuron.spike, reset=(*neuron.spike.reset, count))
    return replace(neuron, state=(*neuron.state, l0.StateDecl(COUNTER, "1", l0.Const(0.0))), spike=spike)


def _with_own_states(projection: l0.Projection) -> l0.Projection:
    """Synapses whose states differ between samples, unless their model says what is shared."""
    synapse = projection.synapse
    if synapse is None or synapse.shared is not None:
        return projection
    return replace(projection, synapse=replace(synapse, shared=()))


def _drawn(values: tuple[tuple[str, l0.Value], ...], owner: str) -> tuple[tuple[str, l0.Value], ...]:
    """Values, of which those that are drawn are drawn as those of `owner`."""
    return tuple(
        (n, replace(v, stream=f"{owner}.{n}") if isinstance(v, l0.Distribution) and not v.stream else v)
        for n, v in values
    )


def _alike(p: l0.Population, first: str) -> l0.Population:
    return replace(p, params=_drawn(p.params, first), init=_drawn(p.init, first))


def _alike_drive(d: l0.Drive, first: str) -> l0.Drive:
    owner = f"{d.name}[{first}]"
    return replace(d, params=_drawn(d.params, owner), init=_drawn(d.init, owner))
