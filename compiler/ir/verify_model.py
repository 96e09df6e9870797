"""Legality of level 0: models.

Assumes: nothing.
Guarantees: every breach is named.
  names        distinct within populations, projections, functions, params, layers and network
               inputs
  neurons      distinct names; ODEs, updates, resets and holds are about declared states;
               expressions read only what NeuronDef allows; no quantity with a unit is left
  populations  a positive size; exactly one value for each declared param, initial values for
               declared states
  projections  members join existing populations through an input of the target; delays are whole
               and >= 0; lists of pairs are there and stay inside both populations
  records      populations, variables and members exist
  networks     layers read inputs or layers before them; shapes are positive
  train        loss and data name what exists; the optimizer reads what it declares
Does not: repeat what the frontend tells users; a breach found here is a fault of the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from compiler.expr.ast import Expr, Quantity, children, refs
from compiler.expr.functions import CONSTANTS
from compiler.ir.model import (
    Model,
    Network,
    NeuronDef,
    OptimizerDef,
    Population,
    Projection,
    Set,
    Train,
)

RULES: Final = frozenset({"all_to_all", "one_to_one", "fixed_probability", "fixed_total", "pairs"})


def model_violations(model: Model) -> list[str]:
    """Every breach of the spec by a model."""
    found: list[str] = []
    found += _distinct("param", [p.name for p in model.params])
    found += _distinct("function", [f.name for f in model.functions])
    found += _distinct("population", [p.name for p in model.populations])
    found += _distinct("projection", [p.name for p in model.projections])
    for f in model.functions:
        found += _reads(f.body, f.args, f"function {f.name}")
    seen: set[int] = set()
    params = {p.name for p in model.params}
    for p in model.populations:
        if id(p.neuron) not in seen:
            seen.add(id(p.neuron))
            found += (f"neuron {p.neuron.name}: {v}" for v in _neuron(p.neuron, params))
        found += (f"population {p.name}: {v}" for v in _population(p))
    populations = {p.name: p for p in model.populations}
    for projection in model.projections:
        found += (f"projection {projection.name}: {v}" for v in _projection(projection, populations))
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


def _distinct(what: str, names: list[str]) -> Iterator[str]:
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"{what} `{name}` is declared twice"


def _reads(e: Expr, allowed: Iterable[str], where: str) -> Iterator[str]:
    for name in sorted(refs(e) - set(allowed) - CONSTANTS.keys()):
        yield f"{where} reads `{name}`, which is not known there"
    stack = [e]
    while stack:
        x = stack.pop()
        if isinstance(x, Quantity):
            yield f"{where} holds a quantity"
        stack.extend(children(x))


def _statements(statements: Iterable[Set], known: set[str], fixed: set[str]) -> Iterator[str]:
    for s in statements:
        yield from _reads(s.value, known, f"`{s.target} = ...`")
        if s.target in fixed:
            yield f"`{s.target}` cannot be assigned to"
        known.add(s.target)


def _neuron(neuron: NeuronDef, model_params: set[str]) -> Iterator[str]:
    params = [p.name for p in neuron.params]
    states, inputs = [s.name for s in neuron.state], [i.name for i in neuron.inputs]
    yield from _distinct("name", [*params, *states, *inputs])
    for name in neuron.model_params:
        if name not in model_params:
            yield f"`{name}` is not a param of the model"
    fixed = {*params, *neuron.model_params, "t", "dt"}
    known = {*fixed, *states, *inputs}
    for i in neuron.inputs:
        if i.decay is not None:
            yield from _reads(i.decay, fixed, f"the decay of `{i.name}`")
    yield from _statements(neuron.lets, known, fixed)
    yield from _distinct("the derivative of", [o.state for o in neuron.dynamics])
    for ode in neuron.dynamics:
        if ode.state not in states:
            yield f"`{ode.state}` has a derivative, but is not a state"
        yield from _reads(ode.rhs, known, f"d{ode.state}/dt")
    yield from _statements(neuron.update, known, fixed)
    if neuron.spike is not None:
        yield from _reads(neuron.spike.when, known, "the spike condition")
        yield from _statements(neuron.spike.reset, known, fixed)
        if neuron.spike.refractory is not None:
            yield from _reads(neuron.spike.refractory, fixed, "the refractory period")
        for name in neuron.spike.hold:
            if name not in (*states, *inputs):
                yield f"`{name}` is held, but is not a state"


def _population(p: Population) -> Iterator[str]:
    if p.size < 1:
        yield f"its size is {p.size}"
    params, init = [name for name, _ in p.params], [name for name, _ in p.init]
    yield from _distinct("param", params)
    yield from _distinct("initial value", init)
    declared = {d.name for d in p.neuron.params}
    for name in sorted(declared - set(params)):
        yield f"param `{name}` has no value"
    for name in sorted(set(params) - declared):
        yield f"`{name}` has a value, but is not a param"
    states = {s.name for s in p.neuron.state} | {i.name for i in p.neuron.inputs}
    for name in sorted(set(init) - states):
        yield f"`{name}` has an initial value, but is not a state"
    for name in sorted({s.name for s in p.neuron.state} - set(init)):
        yield f"state `{name}` has no initial value"


def _projection(projection: Projection, populations: dict[str, Population]) -> Iterator[str]:
    if projection.rule not in RULES:
        yield f"the rule is `{projection.rule}`"
    for i, member in enumerate(projection.members):
        where = f"member {i} ({member.source} -> {member.target})"
        source, target = populations.get(member.source), populations.get(member.target)
        if source is None or target is None:
            yield f"{where} joins a population that does not exist"
            continue
        if projection.into not in {x.name for x in target.neuron.inputs}:
            yield f"{where} delivers into `{projection.into}`, which is not an input"
        if member.delay < 0:
            yield f"{where} has a delay of {member.delay} steps"
        if projection.rule == "one_to_one" and source.size != target.size:
            yield f"{where} joins {source.size} to {target.size} neurons one to one"
        if (projection.rule == "pairs") != (member.pairs is not None):
            yield f"{where} does not fit the rule `{projection.rule}`"
        elif member.pairs is not None:
            if not 0 <= member.pairs < len(projection.pair_lists):
                yield f"{where} has no list of pairs"
            elif any(
                not (0 <= a < source.size and 0 <= b < target.size) for a, b in projection.pair_lists[member.pairs]
            ):
                yield f"{where} has a pair outside its populations"


def _records(model: Model, populations: dict[str, Population]) -> Iterator[str]:
    for record in model.spikes:
        for name in record.populations:
            if name not in populations:
                yield f"spikes of `{name}` are recorded, which is not a population"
    for trace in model.traces:
        p = populations.get(trace.population)
        if p is None:
            yield f"`{trace.population}` is recorded, which is not a population"
            continue
        variables = {s.name for s in p.neuron.state} | {i.name for i in p.neuron.inputs}
        for name in trace.variables:
            if name not in variables:
                yield f"`{p.name}.{name}` is recorded, which does not exist"
        if not trace.members or any(not 0 <= m < p.size for m in trace.members):
            yield f"members of `{p.name}` are recorded that do not exist"
        if trace.every < 1:
            yield f"`{p.name}` is recorded every {trace.every} steps"


def _network(network: Network) -> Iterator[str]:
    names = [x.name for x in network.inputs]
    yield from _distinct("layer", [*names, *(x.name for x in network.layers)])
    known = set(names)
    for layer in network.layers:
        for name in layer.inputs:
            if name not in known:
                yield f"layer {layer.name} reads `{name}`, which is not before it"
        if not layer.inputs:
            yield f"layer {layer.name} reads nothing"
        if any(n < 1 for n in layer.shape):
            yield f"layer {layer.name} has the shape {layer.shape}"
        if layer.function is not None:
            yield from _reads(layer.function.body, layer.function.args, f"layer {layer.name}")
        known.add(layer.name)


def _train(train: Train, network: Network | None) -> Iterator[str]:
    if network is None:
        yield "there is something to train with, but no network"
        return
    inputs = {x.name for x in network.inputs}
    layers = inputs | {x.name for x in network.layers}
    for name in (train.loss.prediction, train.loss.target):
        if name not in layers:
            yield f"the loss reads `{name}`, which does not exist"
    for name, _, _ in train.data.arrays:
        if name not in inputs:
            yield f"data is given for `{name}`, which is not an input"
    if train.batch < 1 or train.epochs < 0 or not 0 <= train.data.validation < 1:
        yield f"batch {train.batch}, epochs {train.epochs}, validation {train.data.validation}"
    yield from (f"optimizer {train.optimizer.name}: {v}" for v in _optimizer(train.optimizer))


def _optimizer(optimizer: OptimizerDef) -> Iterator[str]:
    params, state = [n for n, _ in optimizer.params], [n for n, _ in optimizer.state]
    yield from _distinct("name", [*params, *state, "param", "gradient", "step"])
    fixed = {*params, "gradient", "step"}
    yield from _statements(optimizer.update, {*fixed, *state, "param"}, fixed)
    if "param" not in {s.target for s in optimizer.update}:
        yield "`param` is never changed"
