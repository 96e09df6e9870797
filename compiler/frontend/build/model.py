"""From the resolved tree to the level-0 model.

Assumes: a validated, resolved tree; the values of the parameters.
Guarantees: the Model of compiler/ir/level0/model.py with the invariants in its header, or None with all errors in the
sink; an error in one block does not hide those of others.
Does not: read the YAML file or expand anything (frontend/load.py, frontend/resolve/resolve.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.expr.keys.kinds import Block
from compiler.expr.types import Kind
from compiler.expr.units import Dimension, canonical_name
from compiler.frontend.build.functions import Functions, build_functions
from compiler.frontend.build.instances.expand import check_instances, expand_instances
from compiler.frontend.build.plots import build_plots
from compiler.frontend.build.projections.projections import build_projections
from compiler.frontend.build.run import build_expectations, build_numerics, build_simulate, read_step, read_trial
from compiler.frontend.build.shared.definitions import Definitions
from compiler.frontend.build.shared.phases import build_phases
from compiler.frontend.build.shared.positive import check_positive
from compiler.frontend.build.shared.scope import Scope
from compiler.frontend.build.shared.values import Context, Names, Step, entries_of, mapping, text_of
from compiler.frontend.build.shared.zero_divisors import check_divisors
from compiler.frontend.build.spiking.currents import Currents
from compiler.frontend.build.spiking.drives import Drives
from compiler.frontend.build.spiking.given_spikes import check_repeated
from compiler.frontend.build.spiking.inputs import build_inputs
from compiler.frontend.build.spiking.populations import Populations, build_populations
from compiler.frontend.build.spiking.records import build_records
from compiler.frontend.build.spiking.timed import build_timed
from compiler.frontend.build.synapses.synapses import Synapses
from compiler.frontend.build.tables import build_tables
from compiler.frontend.build.tensors.network import Built, build_network, check_use
from compiler.frontend.build.tensors.optimizer import check_others
from compiler.frontend.build.tensors.train import build_train
from compiler.frontend.build.trials.activity import Activities
from compiler.frontend.build.trials.checks import check_trials
from compiler.frontend.build.trials.copies import with_trials
from compiler.frontend.build.trials.driving import Driving, with_layers
from compiler.frontend.language.spiking.currents import CURRENT
from compiler.frontend.language.spiking.neurons import NEURON
from compiler.frontend.language.spiking.synapses import SYNAPSE
from compiler.frontend.language.training.training import OPTIMIZER
from compiler.frontend.resolve.resolve import Resolved
from compiler.frontend.resolve.use import LIBRARY_KINDS, Uses
from compiler.frontend.resolve.values import ParamValue, kind_of_value
from compiler.frontend.schema.wording import quoted
from compiler.frontend.yaml import tree

_OF_SPIKING = ("projections", "record", "classes", "inputs", "phases")


def build_model(
    resolved: Resolved,
    name: str,
    folder: Path,
    sink: Sink,
    unread: frozenset[str] = frozenset(),
    between: Callable[[], object] = object,
) -> l0.Model | None:
    """The model of a resolved file; `name` is used when the file gives none, `between` is called between parts of long
    work. None after an error."""
    root = _check_parts(resolved.root, sink)
    c = Context(sink, _names(resolved.params), folder, unread=unread, between=between)
    lookups = build_tables(root.get("tables"), c)
    functions = build_functions(root.get("functions"), resolved.uses.imported(), c)
    simulate_block = mapping(root.get("simulate"))
    step = read_step(simulate_block, c)
    c.phases = build_phases(root.get("phases"), step, c)
    numerics = build_numerics(mapping(root.get("numerics")), root.get("network") is not None, c)
    spiking = _spiking(root, step, resolved.uses, functions, numerics, c)
    populations, projections, drives = spiking.populations, spiking.projections, spiking.drives
    named = tuple(e.name for e in entries_of(resolved.root.get("projections")))
    simulate = None if simulate_block is None else build_simulate(simulate_block, populations, projections, named, c)
    recorded = build_records(root.get("record"), populations, projections, named, c)
    network = spiking.driving.built.network
    recorded.trials = network is not None and any(i.activity is not None for i in network.inputs)
    train = _train(root, spiking.driving, resolved.uses, c)
    has_train = mapping(root.get("train")) is not None
    plots = build_plots(root.get("plots"), populations, recorded, has_train, c)
    expect = build_expectations(root.get("expect"), populations, recorded, train, has_train, c)
    c.unread_params.warn(sink)
    if sink.failed():
        return None
    model = l0.Model(
        name=text_of(root.get("name")) or name,
        description=text_of(root.get("description")).strip(),
        params=tuple(_param(p) for p in resolved.params.values()),
        functions=tuple(f for n in functions.own if (f := functions.closed(n)) is not None),
        populations=tuple(populations.built[n] for n in populations.names),
        projections=projections,
        simulate=simulate,
        spikes=tuple(recorded.spikes),
        traces=tuple(recorded.traces),
        synapses=tuple(recorded.synapses),
        rates=tuple(recorded.rates),
        histograms=tuple(recorded.histograms),
        tables=tuple(recorded.tables),
        events=tuple(recorded.events),
        network=network,
        train=train,
        plots=plots,
        expect=expect,
        numerics=numerics,
        poisson=spiking.poisson,
        drives=tuple(drives.found),
        timed=tuple(drives.timed.values()),
        phases=() if step is None else c.phases,  # without steps their times are not known, and nothing runs
        lookups=lookups,
        span=root.span,
    )
    return _with_copies(model, root, spiking.driving, sink)


def _with_copies(model: l0.Model, root: tree.Mapping, driving: Driving, sink: Sink) -> l0.Model | None:
    """The model with its instances; None after an error."""
    simulate = mapping(root.get("simulate"))
    if model.populations and model.network is not None:
        check_trials(model, root, driving, sink)
        if sink.failed():
            return None
    if model.in_trials:
        return with_trials(model, sink)
    if model.simulate is None or simulate is None:
        return model
    shared = text_of(simulate.get("weights")) == "shared"
    if model.simulate.instances > 1:
        check_instances(model, shared, simulate.span, sink)
    return None if sink.failed() else expand_instances(model, shared)


@dataclass(frozen=True)
class _Spiking:
    """Populations, what connects them and what drives them, the layers of the network among it."""

    populations: Populations
    projections: tuple[l0.Projection, ...]
    drives: Drives
    poisson: tuple[l0.PoissonInput, ...]
    driving: Driving


def _spiking(
    root: tree.Mapping, step: Step | None, uses: Uses, functions: Functions, numerics: l0.Numerics, c: Context
) -> _Spiking:
    def definitions(collection: str, noun: str, kind: Block) -> Definitions:
        return Definitions(collection, noun, kind, root, uses, c.sink, True)

    timed = build_timed(root.get("timed"), c, step)
    populations = build_populations(root, c, definitions("neurons", "neuron", NEURON), step)
    driving = _network(root, populations, step, functions, numerics, c)
    timed = with_layers(timed, root.get("timed"), driving)
    synapses = Synapses(c, definitions("synapses", "synapse", SYNAPSE))
    synapses.build_own()
    projections = build_projections(root, c, populations, synapses)
    check_repeated(populations.repeated, projections, c.sink)
    drives = Drives(c, {a.name: a for a in timed})
    for made in populations.drives:
        if made.population in populations.built:
            drives.add(made, populations.built[made.population].size)
    currents = Currents(c, definitions("currents", "current", CURRENT), drives, driving.current)
    poisson = build_inputs(root.get("inputs"), populations, currents, c)
    currents.check_others()
    drives.add_hidden(populations.built.values())
    drives.check_poisson(poisson, populations.built)
    check_divisors(populations.built.values(), projections, drives.found, c)
    check_positive(populations.built.values(), projections, drives.found, c)
    return _Spiking(populations, projections, drives, poisson, driving)


def _network(
    root: tree.Mapping,
    populations: Populations,
    step: Step | None,
    functions: Functions,
    numerics: l0.Numerics,
    c: Context,
) -> Driving:
    """The network, which may read populations, as what may drive them."""
    trial, network = read_trial(mapping(root.get("simulate")), step, c), mapping(root.get("network"))
    activity = Activities(populations, trial, c)
    built = Built() if network is None else build_network(network, c, functions, numerics.precision, activity)
    missing = network is None and root.get("train") is not None
    return Driving(built, trial, 0.0 if step is None else step.dt, c, missing)


def _train(root: tree.Mapping, driving: Driving, uses: Uses, c: Context) -> l0.Train | None:
    """The training; optimizers that nothing chooses are checked, too."""
    optimizers = Definitions("optimizers", "optimizer", OPTIMIZER, root, uses, c.sink, True)
    train, built = mapping(root.get("train")), driving.built
    if train is None or root.get("network") is None:
        check_others(c, optimizers)
        return None
    trained = build_train(train, built, c, optimizers)
    if trained is not None and built.network is not None:
        read = trained.loss.reads
        layers = tuple(n for n in read if n not in built.inputs)
        driven = tuple(n for n in driving.layers if n in built.places)
        check_use(built.network, layers, tuple(n for n in read if n in built.inputs), driven, trained.frozen, c)
    return trained


def _names(params: dict[str, ParamValue]) -> Names:
    """The parameters of the model as the outermost scope."""
    kinds = {n: Kind.REAL if p.kind == "float" else kind_of_value(p.value) for n, p in params.items()}
    dimensions: dict[str, Dimension | None] = {n: p.dimension for n, p in params.items()}
    scope = Scope(kinds, dimensions, places={n: p.span for n, p in params.items()})
    return Names(scope, {n: p.value for n, p in params.items()})


def _param(p: ParamValue) -> l0.ModelParam:
    return l0.ModelParam(p.name, p.kind, p.value, canonical_name(p.dimension), p.doc.strip(), p.span)


_DEFINITIONS = (*LIBRARY_KINDS, "functions", "tables", "phases", "classes", "projections")
_OF_MODELS = ("populations", "inputs", "network", "train", "simulate", "record", "plots", "expect", "timed")


def only_definitions(root: tree.Mapping) -> bool:
    """Whether a file is for others to take definitions from: it has nothing to run."""
    return any(k in root for k in _DEFINITIONS) and not any(k in root for k in _OF_MODELS)


def _check_parts(root: tree.Mapping, sink: Sink) -> tree.Mapping:
    """Reports blocks whose required blocks are missing; returns `root` without them."""
    if only_definitions(root):
        return tree.without(root, "projections")
    blocks = mapping(root.get("populations"))
    spiking = blocks is not None and bool(blocks.entries)
    if spiking and root.entry("simulate") is None:
        at = root.entry("populations")
        help = "for example `simulate: {dt: 0.1 ms, duration: 1 s}`"
        sink.error("E0103", "`populations` need a `simulate` block", at.key.span if at else root.span, help)
    alone = [e for k in ("simulate", *_OF_SPIKING) if (e := root.entry(k)) and not spiking and k != "classes"]
    if alone:
        message = f"{quoted((e.name for e in alone), 'and')} {'needs' if len(alone) == 1 else 'need'} `populations`"
        help = "for example `populations: {exc: {neuron: library/neurons/lif, size: 100}}`"
        sink.error("E0103", message, alone[0].key.span, help)
    network, train = root.entry("network"), root.entry("train")
    if train is not None and network is None:
        sink.error("E0103", "`train` needs a `network`", train.key.span)
    if not spiking and network is None and train is None:
        others = [k for k in ("simulate", *_OF_SPIKING) if root.entry(k) is not None]
        if not others:
            at_span = root.entries[0].key.span if root.entries else root.span
            help = "a file of definitions is taken over by others: `use: this_file.yaml#name`"
            sink.error("E0103", "the file has neither `populations` nor a `network`", at_span, help)
    if alone:
        return tree.without(root, "projections", "inputs", "record", "plots", "expect")
    return root
