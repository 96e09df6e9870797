"""Lowers a model (level 0) to a merged program (level 2): runs all passes for one model and one target.

Assumes: a legal model, and the capabilities of the target.
Guarantees: see compiler/passes/pipeline/manager.py.
Does not: emit code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.gc_pause import no_garbage_collection
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes import passes_for
from compiler.passes.pipeline.manager import DRIVE, Context, Lowering, Ran, run_passes
from compiler.passes.program.decisions import Decision
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
