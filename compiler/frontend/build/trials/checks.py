"""What a model with both populations and a network must have: the two are connected, and each sample is a trial.

Assumes: a built model with `populations` and `network`, before there are instances.
Guarantees: a network input reads a population, a training runs the trials, nothing that drives a population depends on
one, and whatever would carry something from one trial to the next, or belongs to one long simulation, is an error. A
warning (W0006) for layers whose weights gradients do not reach.
Does not: change the model (copies.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.frontend.build.shared.values import mapping
from compiler.frontend.build.tensors.network import has_weights, how_to_say_untrained
from compiler.frontend.build.trials.driving import Driving
from compiler.frontend.yaml import tree

Problem = tuple[str, Span, str | None]
"""Message, span and help of an E0802."""


def check_trials(model: l0.Model, root: tree.Mapping, driving: Driving, sink: Sink) -> None:
    """Reports whatever does not fit (E0802), and layers that are not trained (W0006)."""
    network = model.network
    assert network is not None
    before = len(sink.items)
    inputs = [i for i in network.inputs if i.activity is not None]
    if not inputs:
        for name, node in driving.layers.items():
            message = f"`{name}` drives a population, but no input of the network reads one: there are no trials"
            help = f"write `inputs: {{activity: {{from: {model.populations[0].name}, of: spikes}}}}`"
            sink.error("E0802", message, node.span, help)
        return
    if not driving.layers:
        message = "no layer and no input of the network drives a population, so that all trials are the same"
        help = "write `inputs: {drive: {to: ..., current: {into: ..., source: {layer: ...}}}}`"
        sink.error("E0802", message, inputs[0].span, help)
    if model.train is None:
        message = f"`{inputs[0].name}` is computed in trials, but there is no `train`, which runs them"
        sink.error("E0103", message, inputs[0].span)
    for text, place, advice in (*_simulation(model, root), *_circle(network, driving), *_carried(model)):
        sink.error("E0802", text, place, advice, (Related("each sample is a trial because of this", inputs[0].span),))
    if len(sink.items) == before and model.train is not None:
        _warn_untrained(network, model.train, driving, sink)


def _simulation(model: l0.Model, root: tree.Mapping) -> Iterator[Problem]:
    """What belongs to one long simulation."""
    block, simulate = mapping(root.get("simulate")), model.simulate
    for key, why, help in (
        ("warmup", "a trial begins with the initial state", "give the states initial values"),
        ("instances", "a trial runs in an instance for each sample of a batch", "set `batch` in `train`"),
        ("weights", "the instances, one for each sample of a batch, have the same synapses", "leave it out"),
        ("stop", "trials have the same length", "leave it out"),
        ("checkpoint", "the training writes checkpoints", "set `checkpoint` in `train`"),
    ):
        entry = None if block is None else block.entry(key)
        if entry is not None:
            yield f"`{key}` is for one simulation: {why}", entry.key.span, help
    record = root.entry("record")
    if record is not None:
        yield "trials of a training are not recorded", record.key.span, "leave `record` out"
    for plot in model.plots:
        if plot.kind not in ("training", "confusion"):
            yield f"a `{plot.kind}` is drawn of a simulation, not of the trials of a training", plot.span, None
    if simulate is None:
        return
    if simulate.steps == 0:
        yield "a trial has no step", simulate.span, "write `duration: 100 ms`"
    for phase in model.phases:
        if simulate.steps % phase.every:
            message = f"a trial of {simulate.steps * simulate.dt:g} ms does not end where a `{phase.name}` ends"
            yield message, phase.span, "make `duration` of `simulate` a multiple of its length"


def _circle(network: l0.Network, driving: Driving) -> Iterator[Problem]:
    """Layers that drive a population and depend on one."""
    inputs = {i.name: i for i in network.inputs if i.activity is not None}
    for name, node in driving.layers.items():
        read = sorted(network.needed((name,)) & inputs.keys())
        if read:
            activity = inputs[read[0]].activity
            of = "" if activity is None else activity.population
            message = f"`{name}` drives a population and depends on `{read[0]}`, known when the trial has ended"
            yield message, node.span, f"a layer that drives populations reads nothing of `{of}`"


def _carried(model: l0.Model) -> Iterator[Problem]:
    """What would be carried from a trial to the next, or begins with the first one alone."""
    for p in model.populations:
        if p.neuron.source != "equations":
            message = f"the spikes of `{p.name}` have times of the first trial alone"
            yield message, p.span, "give its neurons equations, and an input or a layer that drives them"
    for array in model.timed:
        if array.phase is None and not array.layer and array.rows > 1:
            message = f"`{array.name}` has values for times of the first trial alone"
            yield message, array.span, "give it `each: ...`, a phase, or take the values from a `layer`"
    for projection in model.projections:
        yield from _synapse(projection, projection.synapse)


def _synapse(projection: l0.Projection, synapse: l0.SynapseDef | None) -> Iterator[Problem]:
    if synapse is None:
        return
    name = projection.name
    if synapse.event_driven and synapse.dynamics:
        message = f"the synapses of `{name}` are integrated from spike to spike, also of another trial"
        yield message, projection.span, "leave `event_driven` out"
    assigned = {a.target for a in synapse.actions if isinstance(a, l0.Set)} | {o.state for o in synapse.dynamics}
    learned = sorted(assigned & set(synapse.shared or ()))
    if learned:
        message = f"the synapses of `{name}` learn `{learned[0]}` from trial to trial, but each begins anew"
        yield message, projection.span, "leave it out of `shared`: it then changes within each trial"
    if any(isinstance(a, l0.Rewire) for a in synapse.actions):
        yield (
            f"the synapses of `{name}` are rewired, so that samples of a batch cannot share them",
            projection.span,
            None,
        )
    drawn = {n for m in projection.members for n, v in m.init if isinstance(v, l0.Distribution)}
    for state in synapse.state:
        differs = state.name in drawn or isinstance(state.init, l0.Distribution)
        if differs and state.name not in (synapse.shared or ()):
            message = f"`{state.name}` of the synapses of `{name}` would be drawn for each sample of a batch"
            help = f"make it one of `params`, or write `shared: [{state.name}]` if nothing changes it"
            yield message, projection.span, help


def _warn_untrained(network: l0.Network, train: l0.Train, driving: Driving, sink: Sink) -> None:
    """W0006 for layers that reach the loss through a population alone, and are not frozen."""
    trained = network.needed(train.loss.reads)
    for layer in network.layers:
        if layer.name in network.needed(driving.layers) - trained - train.frozen and has_weights(layer):
            message = f"`{layer.name}` is not trained: it acts through a population, where gradients stop"
            sink.warning("W0006", message, layer.span, how_to_say_untrained(layer))
