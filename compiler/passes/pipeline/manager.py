"""The interface of passes, their context, and the loop that runs them.

Assumes: passes in an order that satisfies the assumptions of each (compiler/passes/pipeline).
Guarantees: passes run in sequence, and only here. With `Context.verify` every level that a pass made or changed is
checked against its legality spec before the next pass runs. `observe` sees the levels after each pass.
Does not: select passes; a pass itself declares to which models and phases it applies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.program.decisions import Decision

if TYPE_CHECKING:  # most models have one half: imports of the other one are deferred
    from compiler.layers.shared.context import Context as LayerContext
    from compiler.passes.layers.load_data import DataSet
    from compiler.passes.layers.lower_loss import Lost
    from compiler.strategies.forks import Fork
    from compiler.strategies.pins import Pins

TRAINING: Final = ("train", "eval")
DRIVE: Final = "drive"
"""The phase of the layers that drive populations, on one batch."""
GIVING: Final = ("predict", DRIVE)
"""Phases that give the values of layers."""


@dataclass(frozen=True)
class Context:
    """Read-only inputs of every pass."""

    capabilities: Capabilities
    """Of the target, less what the model's numerics do not permit."""
    precision: DType
    order: l2.Order
    verify: bool = False
    mixed: bool = False
    """Whether activations and factors of products are bf16 (passes/kernels/mixed_precision.py)."""
    pins: Pins = field(default_factory=dict)
    """Strategies of contractions, and ways of forks, that are decided already."""
    phases: tuple[str, ...] = ("train", "eval")
    """Of the network: these two, "eval" alone, or "predict"; beside the first two, and "eval", "drive" where layers
    drive populations."""
    outputs: tuple[str, ...] = ()
    """Layers whose values the phase "predict" gives."""
    driving: tuple[str, ...] = ()
    """Layers and inputs whose values the phase "drive" gives."""
    populations: bool = True
    """Whether the half of the populations is lowered, too."""
    only: frozenset[str] | None = None
    """Names of the optional passes that run; None: all."""


@dataclass(frozen=True)
class PhaseGraph:
    """The tensors of one phase while they are lowered."""

    phase: str
    nodes: tuple[l1.Node, ...] = ()
    """Empty while `layers` is still being added to."""
    outputs: tuple[str, ...] = ()
    layers: LayerContext | None = None
    lost: Lost | None = None
    forward: frozenset[str] = frozenset()
    """Tensors of the forward pass."""
    marks: tuple[l1.Store, ...] = ()
    """Stores that follow the outputs of a prediction; with them the nodes are no legal graph yet."""
    kept: tuple[str, ...] = ()
    """The tensor of each output of a prediction."""
    gathered: bool = False
    """Whether the nodes are in gather form (decompose)."""
    decisions: tuple[Decision, ...] = ()

    @property
    def graph(self) -> l1.TensorGraph:
        return l1.TensorGraph(self.phase, self.nodes, self.outputs)

    def rewritten(self, nodes: tuple[l1.Node, ...], made: Iterable[Decision] = ()) -> PhaseGraph:
        """With other nodes, and what was decided."""
        return replace(self, nodes=nodes, decisions=(*self.decisions, *made))


@dataclass(frozen=True)
class Lowering:
    """All levels of one model; a pass replaces those that it makes or changes."""

    model: l0.Model
    name: str
    """Of the program."""
    network: l0.Network | None = None
    train: l0.Train | None = None
    """Of a prediction: where inputs come from and how many rows a batch has."""
    spiking: SpikingGraph | None = None
    data: DataSet | None = None
    graphs: tuple[PhaseGraph, ...] = ()
    programs: tuple[l2.Program, ...] = ()
    """One for each half of the model."""
    merged: l2.Merged | None = None
    decisions: tuple[Decision, ...] = ()
    forks: tuple[Fork, ...] = ()
    """Where it may be made in other ways."""

    def decided(self, decisions: Iterable[Decision]) -> Lowering:
        return replace(self, decisions=(*self.decisions, *decisions))


@dataclass(frozen=True)
class Pass:
    """One pass. `run`: the levels after it; raises ModelError for what the target cannot do. `applies`: whether it does
    to this model and these phases; `optional`: whether a program without it computes the same, only slower."""

    name: str
    run: Callable[[Context, Lowering], Lowering]
    applies: Callable[[Context, Lowering], bool]
    optional: bool = False


@dataclass(frozen=True)
class Ran:
    """A pass that ran: its name, CPU seconds and the levels after it."""

    name: str
    seconds: float
    ir: Lowering


def run_passes(
    passes: Iterable[Pass], context: Context, ir: Lowering, observe: Callable[[Ran], None] | None = None
) -> Lowering:
    """The levels of a model after all passes that apply to it."""
    if context.verify:
        _verify(None, ir)
    for one in passes:
        left_out = one.optional and context.only is not None and one.name not in context.only
        if left_out or not one.applies(context, ir):
            continue
        begin = time.process_time()
        after = one.run(context, ir)
        seconds = time.process_time() - begin
        if context.verify:
            _verify(ir, after)
        ir = after
        if observe is not None:
            observe(Ran(one.name, seconds, ir))
    return ir


def _verify(before: Lowering | None, after: Lowering) -> None:
    """Checks every new level against its legality spec. Raises InternalError."""
    from compiler.verify import verify  # large and rarely used

    if before is None or after.model is not before.model:
        verify.verify_model(after.model)
    if after.spiking is not None and (before is None or after.spiking is not before.spiking):
        for cell in (*after.spiking.cells, *(x.cell for x in after.spiking.sources)):
            verify.verify_cell(cell)
        for synapse in after.spiking.synapses:
            verify.verify_synapse(synapse)
        if after.spiking.turns:
            verify.verify_turns(after.spiking)
        old = None if before is None or before.spiking is None else before.spiking.projections
        for projection in after.spiking.projections if old is not after.spiking.projections else ():
            verify.verify_projection(projection)
    known: Mapping[str, PhaseGraph] = {g.phase: g for g in before.graphs} if before is not None else {}
    for g in after.graphs:
        if g.nodes and not g.marks and (g.phase not in known or known[g.phase].nodes is not g.nodes):
            verify.verify_graph(g.graph, gather_only=g.gathered)
    if before is None or after.programs is not before.programs:
        for program in after.programs:
            verify.verify_program(program)
    if after.merged is not None and (before is None or after.merged is not before.merged):
        fresh = before is None or before.merged is None
        verify.verify_merged(after.merged, after.programs[0] if fresh else None)
