"""Lowers a model (level 0) to a merged program (level 2): runs all passes for one model and one target; for inference
(lower_predict) to one of the phase "predict", from inputs that the host writes to outputs that it reads.

Assumes: a legal model, and the capabilities of the target; for inference with `network`; `train` may be missing.
Guarantees: see compiler/passes/pipeline/manager.py. Inference has no loss, no metrics, no inputs that only a loss
reads. The host writes samples, row-major, with the values of data files (their `scale` is applied here), into
`data.<input>` and their indices into `predict.order` (-1: no sample); step 1 computes the outputs. A separate program
from that of training.
Does not: emit code, or read files or weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.gc_pause import no_garbage_collection
from compiler.core.source import NOWHERE
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes import passes_for
from compiler.passes.layers.load_data import DataSet
from compiler.passes.layers.lower_network import lower_network
from compiler.passes.pipeline.manager import DRIVE, Context, Lowering, Ran, run_passes
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.fold_norms import Fold, fold_norms
from compiler.strategies.layout import row_major
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pins

if TYPE_CHECKING:
    from compiler.passes.layers.load_data import DataSet
    from compiler.strategies.forks import Fork


@dataclass(frozen=True)
class Lowered:
    """Every level of one model for one target, and the decisions of the passes."""

    model: l0.Model
    spiking: SpikingGraph | None
    tensors: tuple[l1.TensorGraph, ...]
    program: l2.Program
    merged: l2.Merged
    decisions: tuple[Decision, ...]
    driving: Mapping[str, str] = field(default_factory=dict)
    """The array of each layer or network input that drives populations."""
    forks: tuple[Fork, ...] = ()


def context_of(model: l0.Model, capabilities: Capabilities, verify: bool = False, pins: Pins | None = None) -> Context:
    """The context of the passes, for a model and a target."""
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    target = permitted(capabilities, model.numerics)
    driving = driving_layers(model)
    phases = ("train", "eval", *((DRIVE,) if driving else ()))
    order = l2.Order(model.numerics.order)
    mixed = model.numerics.precision == "mixed"
    return Context(target, precision, order, verify, mixed, pins or {}, phases=phases, driving=driving)


def driving_layers(model: l0.Model) -> tuple[str, ...]:
    """The layers and network inputs that drive populations, each once."""
    return tuple(dict.fromkeys(a.layer for a in model.timed if a.layer))


def lowered(ir: Lowering) -> Lowered:
    """The levels after the last pass."""
    assert ir.merged is not None
    graphs = tuple(g.graph for g in ir.graphs)
    kept = next((g.kept for g in ir.graphs if g.phase == DRIVE), ())
    driving = {n: f"{DRIVE}/{t}" for n, t in zip(driving_layers(ir.model), kept, strict=True)} if kept else {}
    return Lowered(ir.model, ir.spiking, graphs, ir.programs[0], ir.merged, ir.decisions, driving, ir.forks)


@no_garbage_collection()
def lower(
    model: l0.Model,
    capabilities: Capabilities,
    verify: bool = False,
    pins: Pins | None = None,
    observe: Callable[[Ran], None] | None = None,
    only: frozenset[str] | None = None,
) -> Lowered:
    """All levels of `model` for a target. `pins`: prescribed strategies of contractions; `observe`: called after each
    pass; `only`: the optional passes that run (None: all)."""
    context = replace(context_of(model, capabilities, verify, pins), only=only)
    ir = Lowering(model, model.name, model.network, model.train)
    return lowered(run_passes(passes_for(bool(model.populations), model.network is not None), context, ir, observe))


def lower_evaluation(
    model: l0.Model, capabilities: Capabilities, data: DataSet, verify: bool = False, pins: Pins | None = None
) -> Lowered:
    """The program `<name>_evaluate`: the phase "eval" alone, on samples that the host gives."""
    context = context_of(model, capabilities, verify, pins)
    phases = tuple(p for p in context.phases if p != "train")
    context = replace(context, phases=phases, populations=model.in_trials)
    ir = Lowering(model, f"{model.name}_evaluate", model.network, model.train, data=data)
    return lowered(run_passes(passes_for(context.populations), context, ir))


PHASE = "predict"
ORDER = f"{PHASE}.order"


@dataclass(frozen=True)
class Output:
    """`array`: holds the values of a layer; `shape`: of a sample."""

    name: str
    array: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Prediction:
    """A lowered network. `inputs`: those that the outputs depend on, in the model's order; `graph`: with all weights of
    the whole network, before folding; `folds`: the folding to apply to them; `trials`: whether outputs depend on
    populations, so that each batch is simulated."""

    lowered: Lowered
    inputs: tuple[l0.TensorInput, ...]
    outputs: tuple[Output, ...]
    batch: int
    graph: l1.TensorGraph
    folds: tuple[Fold, ...]
    trials: bool = False


def data_name(name: str) -> str:
    """The array into which the host writes the samples of an input."""
    return f"data.{name}"


def default_outputs(model: l0.Model) -> tuple[str, ...]:
    """The layers that a loss compares, and layers without readers that depend on no input used by a loss alone."""
    assert model.network is not None
    network = model.network
    read = network.readers
    ends = [layer.name for layer in network.layers if layer.name not in read]
    if model.train is None:
        return tuple(ends)
    loss = model.train.loss
    compared = [t.prediction for t in loss.each if any(t.prediction == layer.name for layer in network.layers)]
    targets = {i.name for i in network.inputs if i.name in loss.reads} - network.needed(compared)
    chosen = {*compared, *(n for n in ends if not network.needed((n,)) & targets)} or set(ends)
    return tuple(layer.name for layer in network.layers if layer.name in chosen)


def _fed(network: l0.Network, scales: dict[str, float], batch: int) -> l0.Train:
    """What lower_network needs of a training: the sources of inputs and the batch size."""
    arrays = tuple((i.name, i.name, scales.get(i.name, 1.0)) for i in network.inputs)
    no_loss = l0.Loss("expression", "", "")
    return l0.Train(l0.Data("", arrays, 0.0), no_loss, (), l0.OptimizerDef("none", (), (), ()), batch, 1, 0)


def inputs_of(model: l0.Model, outputs: tuple[str, ...] = ()) -> tuple[l0.TensorInput, ...]:
    """The inputs that `outputs` (else `default_outputs`) depend on, through populations too, in the model's order;
    without those that are computed in trials."""
    assert model.network is not None
    needed = _needed(model, outputs or default_outputs(model))
    return tuple(i for i in model.network.inputs if i.name in needed and i.activity is None)


def in_trials(model: l0.Model, outputs: tuple[str, ...]) -> bool:
    """Whether `outputs` depend on what populations do in a trial."""
    assert model.network is not None
    needed = model.network.needed(outputs)
    return any(i.name in needed and i.activity is not None for i in model.network.inputs)


def refuse_trials(model: l0.Model, outputs: tuple[str, ...], what: str) -> None:
    """ModelError (E0802) where an output depends on populations, which `what` cannot have."""
    assert model.network is not None
    for item in model.network.inputs:
        if item.activity is not None and item.name in model.network.needed(outputs or default_outputs(model)):
            of = item.activity.population
            message = f"the outputs depend on what `{of}` does in a trial, which {what} cannot compute"
            help = "name layers that no population acts on: `--layers`"
            raise ModelError([Diagnostic("E0802", message, item.span, help)])


def _needed(model: l0.Model, outputs: tuple[str, ...]) -> set[str]:
    """Layers and inputs that `outputs` depend on, through populations too."""
    assert model.network is not None
    needed = model.network.needed(outputs)
    return needed | model.network.needed(driving_layers(model)) if in_trials(model, outputs) else needed


def capabilities_of(model: l0.Model, capabilities: Capabilities, batch: int) -> Capabilities:
    """What a target may take for batches of `batch` samples: row-major tensors where most lanes would stay empty."""
    target = permitted(capabilities, model.numerics)
    return target if 2 * batch >= target.lanes else row_major(target)


def lower_predict(
    model: l0.Model,
    capabilities: Capabilities,
    batch: int,
    outputs: tuple[str, ...] = (),
    verify: bool = False,
    fold: bool = True,
    observe: Callable[[Ran], None] | None = None,
    pins: Pins | None = None,
) -> Prediction:
    """The program `<name>_predict` for batches of `batch` samples. `outputs`: names of layers (default:
    `default_outputs`). Batches that would leave most lanes of a target empty are stored row by row. `observe`: called
    after each pass; `pins`: prescribed strategies of contractions. Where outputs depend on populations, `batch` is the
    number of instances of the training."""
    assert model.network is not None
    names = outputs or default_outputs(model)
    trials = in_trials(model, names)
    scales = {n: s for n, _, s in model.train.data.arrays} if model.train is not None else {}
    order = l2.Order(model.numerics.order)
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    whole = model.network
    needed = _needed(model, names)
    used = replace(
        whole,
        inputs=tuple(i for i in whole.inputs if i.name in needed),
        layers=tuple(layer for layer in whole.layers if layer.name in needed),
    )
    fed = _fed(whole, scales, batch)
    everything = l1.TensorGraph(PHASE, tuple(lower_network(whole, fed, "eval")[0].graph.nodes))
    simple, folds, stands, decisions = fold_norms(used, names, trials or order is l2.Order.BITWISE or not fold)
    target = capabilities_of(model, capabilities, batch)
    if target.lanes != capabilities.lanes:
        decisions.append(Decision("lower_predict", model.name, "row by row", f"batches of {batch} leave lanes empty"))
    driving = tuple(stands.get(n, n) for n in driving_layers(model)) if trials else ()
    context = Context(
        target,
        precision,
        order,
        verify,
        model.numerics.precision == "mixed",
        pins or {},
        phases=(PHASE, DRIVE) if driving else (PHASE,),
        outputs=tuple(stands.get(n, n) for n in names),
        driving=driving,
        populations=trials,
    )
    data = DataSet({}, {PHASE: batch}, NOWHERE)
    fed = _fed(simple, scales, batch)
    ir = Lowering(model, f"{model.name}_predict", simple, fed, data=data, decisions=tuple(decisions))
    ir = run_passes(passes_for(trials), context, ir, observe)
    layers: dict[str, l0.Layer] = {layer.name: layer for layer in whole.layers}
    kept = next(g.kept for g in ir.graphs if g.phase == PHASE)
    results = tuple(Output(n, f"{PHASE}/{t}", layers[n].shape) for n, t in zip(names, kept, strict=True))
    inputs = tuple(i for i in simple.inputs if i.activity is None)
    return Prediction(lowered(ir), inputs, results, batch, everything, folds, trials)
