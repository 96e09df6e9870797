"""Legality of level 0: models.

Assumes: nothing.
Guarantees: every breach is named.
  names        distinct within populations, projections, functions, params, layers and network
               inputs
  neurons      distinct names; ODEs, updates, resets and holds are about declared states;
               expressions read only what NeuronDef allows; no quantity with a unit is left
  populations  a positive size; exactly one value for each declared param, initial values for
               declared states, from params and states before
  projections  members join existing populations through an input of the target; delays are whole
               and >= 0; lists of pairs are there and stay inside both populations; the storage can hold what synapses
               have of their own; synapses: verify/synapses.py
  drives       go into parameters or inputs without decay, have a value for each name of their source; timed arrays
               exist, have rows and whole steps
  records      populations, variables and members exist
  networks     layers read inputs or layers before them; shapes are positive
  train        loss and data name what exists; the optimizer reads what it declares
Does not: repeat what the frontend tells users; a breach found here is a fault of the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
import compiler.verify.control as control
from compiler.connect import RULE, Form
from compiler.connect.storage import STORAGES, misfit
from compiler.verify.synapses import use_violations
from compiler.verify.violations import distinct, reads, statements

STORAGE: Final = frozenset({"auto", *(s.name for s in STORAGES.values() if s.written)})
PLACES: Final = frozenset(f"{axis}_{end}" for axis in "xyc" for end in "ij") | frozenset(
    {"i", "j", "n_from", "n_to", "w_from", "h_from", "w_to", "h_to"}
)
"""What the expression of a rule may read beside its arguments."""


def model_violations(model: l0.Model) -> list[str]:
    """Every breach of the spec by a model."""
    found: list[str] = []
    found += distinct("param", [p.name for p in model.params])
    found += distinct("function", [f.name for f in model.functions])
    found += distinct("population", [p.name for p in model.populations])
    found += distinct("projection", [p.name for p in model.projections])
    for f in model.functions:
        found += reads(f.body, f.args, f"function {f.name}")
    found += control.phase_violations(model.phases)
    seen: set[int] = set()
    params = {p.name for p in model.params}
    populations, counters = {p.name: p for p in model.populations}, control.counter_names(model.phases)
    for p in model.populations:
        if id(p.neuron) not in seen:
            seen.add(id(p.neuron))
            shared = control.shared_names(p.neuron, model.phases)
            found += (f"neuron {p.neuron.name}: {v}" for v in _neuron(p.neuron, params, shared))
            found += (f"neuron {p.neuron.name}: {v}" for v in control.control_violations(p.neuron, model.phases))
        found += (
            f"population {p.name}: {v}" for v in (*_population(p), *control.population_violations(p, populations))
        )
    for projection in model.projections:
        own = use_violations(projection, populations, params, counters)
        found += (f"projection {projection.name}: {v}" for v in (*_projection(projection, populations), *own))
    found += _drives(model, populations, params)
    found += _records(model, populations)
    if model.populations and model.simulate is None:
        found.append("there are populations, but nothing says how to simulate them")
    if model.simulate is not None and (model.simulate.dt <= 0 or model.simulate.steps < 0):
        found.append(f"dt is {model.simulate.dt}, for {model.simulate.steps} steps")
    if model.network is not None:
        found += _network(model.network)
    if model.train is not None:
        found += _train(model.train, model.network)
    return found


def _neuron(neuron: l0.NeuronDef, model_params: set[str], shared: AbstractSet[str] = frozenset()) -> Iterator[str]:
    params = [p.name for p in neuron.params]
    states, inputs = [s.name for s in neuron.state], [i.name for i in neuron.inputs]
    yield from distinct("name", [*params, *states, *inputs])
    for name in neuron.model_params:
        if name not in model_params:
            yield f"`{name}` is not a param of the model"
    fixed = {*params, *neuron.model_params, "t", "dt", *shared}
    known = {*fixed, *states, *inputs}
    for i in neuron.inputs:
        if i.decay is not None:
            yield from reads(i.decay, fixed, f"the decay of `{i.name}`")
    yield from statements(neuron.lets, known, fixed)
    yield from distinct("the derivative of", [o.state for o in neuron.dynamics])
    for ode in neuron.dynamics:
        if ode.state not in states:
            yield f"`{ode.state}` has a derivative, but is not a state"
        yield from reads(ode.rhs, known, f"d{ode.state}/dt")
    yield from statements(neuron.update, known, fixed)
    if neuron.spike is not None:
        yield from reads(neuron.spike.when, known, "the spike condition")
        yield from statements(neuron.spike.reset, known, fixed)
        if neuron.spike.refractory is not None:
            yield from reads(neuron.spike.refractory, fixed, "the refractory period")
        for name in neuron.spike.hold:
            if name not in (*states, *inputs):
                yield f"`{name}` is held, but is not a state"
    yield from statements(neuron.after, known, fixed)
    yield from (f"the event `{name}` has no state" for name in neuron.events if name not in states)


def _population(p: l0.Population) -> Iterator[str]:
    if p.size < 1 or (p.shape and math.prod(p.shape) != p.size):
        yield f"its size is {p.size}, its shape {p.shape}"
    params, init = [name for name, _ in p.params], [name for name, _ in p.init]
    yield from distinct("param", params)
    yield from distinct("initial value", init)
    declared = {d.name for d in p.neuron.params}
    for name in sorted(declared - set(params)):
        yield f"param `{name}` has no value"
    for name in sorted(set(params) - declared):
        yield f"`{name}` has a value, but is not a param"
    states = {s.name for s in p.neuron.state} | {i.name for i in p.neuron.inputs}
    for name in sorted(set(init) - states):
        yield f"`{name}` has an initial value, but is not a state"
    given = *params, *init
    for k, (name, value) in enumerate((*p.params, *p.init)):
        if isinstance(value, l0.Formula):
            yield from reads(value.expr, set(given[:k]), f"the value of `{name}`")
    for name in sorted({s.name for s in p.neuron.state} - set(init)):
        yield f"state `{name}` has no initial value"


def _projection(projection: l0.Projection, populations: dict[str, l0.Population]) -> Iterator[str]:
    rule = RULE.get(projection.rule)
    if rule is None or projection.storage not in STORAGE:
        yield f"the rule is `{projection.rule}`, the storage `{projection.storage}`"
    elif (wrong := misfit(projection)) is not None:
        yield wrong
    if (projection.planes is not None) != (rule is not None and rule.form is Form.WINDOWS):
        yield f"the rule `{projection.rule}` has planes, or lacks them"
    if (projection.probability is not None) != (rule is not None and rule.expression):
        yield f"the rule `{projection.rule}` has an expression, or lacks one"
    elif projection.probability is not None:
        given = {name for member in projection.members[:1] for name, _ in member.args}
        if projection.members:
            yield from reads(projection.probability, given | PLACES, "the rule")
    if projection.clear is not None and not 0 <= projection.clear[1] < projection.clear[0]:
        yield f"it is cleared at step {projection.clear[1]} of {projection.clear[0]}"
    for i, member in enumerate(projection.members):
        where = f"member {i} ({member.source} -> {member.target})"
        source, target = populations.get(member.source), populations.get(member.target)
        if source is None or target is None:
            yield f"{where} joins a population that does not exist"
        else:
            yield from (f"{where} {v}" for v in _member(projection, member, source, target))


def _member(
    projection: l0.Projection, member: l0.Member, source: l0.Population, target: l0.Population
) -> Iterator[str]:
    named = projection.into or projection.synapse is None  # else the synapse names every input itself
    if named and projection.into not in {x.name for x in target.neuron.inputs}:
        yield f"delivers into `{projection.into}`, which is not an input"
    if member.delay < 0:
        yield f"has a delay of {member.delay} steps"
    form = RULE[projection.rule].form if projection.rule in RULE else None
    if form is Form.DIAGONAL and source.size != target.size:
        yield f"joins {source.size} to {target.size} neurons one to one"
    if (form is Form.GIVEN) != (member.pairs is not None):
        yield f"does not fit the rule `{projection.rule}`"
    elif member.pairs is not None:
        if not 0 <= member.pairs < len(projection.pair_lists):
            yield "has no list of pairs"
        elif any(not (0 <= a < source.size and 0 <= b < target.size) for a, b in projection.pair_lists[member.pairs]):
            yield "has a pair outside its populations"


def _records(model: l0.Model, populations: dict[str, l0.Population]) -> Iterator[str]:
    for record in model.spikes:
        for name in record.populations:
            if name not in populations:
                yield f"spikes of `{name}` are recorded, which is not a population"
    events = {p.name: {e.name for e in p.synapse.events} for p in model.projections if p.synapse is not None}
    for happening in model.events:
        owner = populations.get(happening.source)
        of_neurons = set(owner.neuron.events) if owner is not None else set[str]()
        known = events.get(happening.source, set()) if happening.of_synapses else of_neurons
        for name in set(happening.events) - known:
            yield f"the event `{name}` of `{happening.source}` is recorded, which does not exist"
    for trace in model.traces:
        p = populations.get(trace.population)
        if p is None:
            yield f"`{trace.population}` is recorded, which is not a population"
            continue
        variables = {s.name for s in p.neuron.state} | {i.name for i in p.neuron.inputs}
        variables |= {v for pool in p.neuron.pools for v in pool.variables}
        for name in trace.variables:
            if name not in variables:
                yield f"`{p.name}.{name}` is recorded, which does not exist"
        if not trace.members or any(not 0 <= m < p.size for m in trace.members):
            yield f"members of `{p.name}` are recorded that do not exist"
        if trace.every < 1:
            yield f"`{p.name}` is recorded every {trace.every} steps"


def _drives(model: l0.Model, populations: dict[str, l0.Population], params: set[str]) -> Iterator[str]:
    timed = {a.name for a in model.timed}
    yield from distinct("timed array", [a.name for a in model.timed])
    yield from distinct("drive", [f"{d.name}[{d.population}]" for d in model.drives])
    for array in model.timed:
        if array.rows < 1 or array.every < 1:
            yield f"the timed array `{array.name}` has {array.rows} rows, one every {array.every} steps"
    yield from distinct("lookup table", [x.name for x in model.lookups])
    for table in model.lookups:
        if table.rows < 2 or not table.low < table.high:
            yield f"the lookup table `{table.name}` has {table.rows} values from {table.low} to {table.high}"
    seen: set[int] = set()
    for drive in (*model.drives, *(i.changing for i in model.poisson if i.changing is not None)):
        where, source = f"drive {drive.name}", drive.source
        p = populations.get(drive.population)
        if p is None:
            yield f"{where} is into a population that does not exist"
            continue
        alone = {i.name for i in p.neuron.inputs if i.decay is None} | {d.name for d in p.neuron.params}
        if drive in model.drives and drive.into not in alone:
            yield f"{where} is into `{drive.into}`, which is no parameter and no input without decay"
        for name in sorted(set(source.timed) - timed):
            yield f"{where} reads the timed array `{name}`, which does not exist"
        given = {n for n, _ in (*drive.params, *drive.init)}
        named = {d.name for d in source.neuron.params} | {d.name for d in source.neuron.state}
        for name in sorted(named - given):
            yield f"{where} has no value of `{name}`"
        if id(source) not in seen:
            seen.add(id(source))
            extra = tuple(l0.ParamDecl(l0.hidden(n), "1", None) for n in (*source.timed, *source.noise))
            neuron = replace(source.neuron, params=(*source.neuron.params, *extra))
            known = {*named, *(d.name for d in extra), *(s.target for s in neuron.lets), *neuron.model_params}
            yield from (f"{where}: {v}" for v in _neuron(neuron, params, control.counter_names(model.phases)))
            yield from (f"{where}: {v}" for v in control.control_violations(neuron, model.phases))
            yield from reads(source.value, {*known, "t", "dt", *control.counter_names(model.phases)}, where)


def _network(network: l0.Network) -> Iterator[str]:
    names = [x.name for x in network.inputs]
    yield from distinct("layer", [*names, *(x.name for x in network.layers)])
    known = set(names)
    for layer in network.layers:
        for name in layer.inputs:
            if name not in known:
                yield f"layer {layer.name} reads `{name}`, which is not before it"
        if not layer.inputs and layer.kind != "learned":
            yield f"layer {layer.name} reads nothing"
        if any(n < 1 for n in layer.shape):
            yield f"layer {layer.name} has the shape {layer.shape}"
        if layer.function is not None:
            yield from reads(layer.function.body, layer.function.args, f"layer {layer.name}")
        known.add(layer.name)


def _train(train: l0.Train, network: l0.Network | None) -> Iterator[str]:
    if network is None:
        yield "there is something to train with, but no network"
        return
    inputs = {x.name for x in network.inputs}
    layers = inputs | {x.name for x in network.layers}
    for name in train.loss.reads:
        if name not in layers:
            yield f"the loss reads `{name}`, which does not exist"
    for name, _, _ in train.data.arrays:
        if name not in inputs:
            yield f"data is given for `{name}`, which is not an input"
    if train.batch < 1 or train.epochs < 0 or not 0 <= train.data.kept.fraction < 1:
        yield f"batch {train.batch}, epochs {train.epochs}, validation {train.data.validation}"
    yield from (f"optimizer {o.name}: {v}" for o in train.optimizers for v in _optimizer(o))


def _optimizer(optimizer: l0.OptimizerDef) -> Iterator[str]:
    params, state = [n for n, _ in optimizer.params], [n for n, _ in optimizer.state]
    given = ("gradient", "step", "epoch", "steps", "epochs")
    yield from distinct("name", [*params, *state, "param", "gradient", "step", "epoch"])
    fixed = {*params, *given}
    yield from statements(optimizer.update, {*fixed, *state, "param"}, fixed)
    if "param" not in {s.target for s in optimizer.update}:
        yield "`param` is never changed"
