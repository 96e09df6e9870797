"""The passes of the tensor half: from layers (level 0) over one graph a phase (level 1) to kernels (level 2).

Assumes: a legal model; passes here run only where it has a `network`, on the phases that they name.
Guarantees: phases "train" (forward, backward, updates), "eval" (forward, metrics), "init" (weights), or "predict";
"drive" (forward) where layers drive populations.
The only output of "train" and "eval" is the loss of the last batch: sums over an epoch are in the metric variables.
Does not: merge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.space import DType, Role
from compiler.passes.pipeline.manager import Context, Lowering, Pass, PhaseGraph
from compiler.passes.program.decisions import Decision

if TYPE_CHECKING:
    from compiler.ir.level1.builder import GraphBuilder
    from compiler.strategies.cuda.fused_attention import Attending
    from compiler.strategies.forks import Fork
    from compiler.strategies.pins import Pins

TRAINING = ("train", "eval")
DRIVE = "drive"
"""The phase of the layers that drive populations, on one batch."""
GIVING = ("predict", DRIVE)
"""Phases that give the values of layers."""
ALL = (*TRAINING, *GIVING)
APART: Final = "contractions"
"""The way of attention that is not computed at once."""


@dataclass(frozen=True)
class TensorPass(Pass):
    """A pass for models with a network. `phases`: those whose graphs it is for."""

    phases: tuple[str, ...] = ALL

    def applies(self, context: Context, ir: Lowering) -> bool:
        return ir.network is not None and any(p in self.phases for p in context.phases)


class GraphPass(TensorPass):
    """A pass from graph to graph, one phase at a time."""

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        raise NotImplementedError

    def run(self, context: Context, ir: Lowering) -> Lowering:
        graphs = tuple(self.rewrite(context, ir, g) if g.phase in self.phases else g for g in ir.graphs)
        return replace(ir, graphs=graphs)


# ---------------------------------------------------------------------------------------- to level 1


@dataclass(frozen=True)
class LoadData(TensorPass):
    """Sizes and types of the samples: compiler/passes/layers/load_data.py."""

    phases: tuple[str, ...] = ("train",)

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.layers.load_data import load_data, streaming

        assert ir.network is not None and ir.train is not None
        data = load_data(ir.network, ir.train, context.precision)
        return replace(ir, data=data).decided(streaming(data, ir.train))


class LowerNetwork(TensorPass):
    """Layers become a graph for each phase: compiler/passes/layers/lower_network.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.layers.lower_network import lower_network
        from compiler.strategies.cuda.fused_attention import Attending

        assert ir.network is not None and ir.train is not None
        attending = Attending.of(context.capabilities, context.precision, context.order, context.mixed)
        graphs: list[PhaseGraph] = []
        forks: list[Fork] = []
        for phase in context.phases:
            made: list[Decision] = []
            attend = partial(self.attend, attending, context.pins, phase, made, forks)
            layers = lower_network(ir.network, ir.train, "train" if phase == "train" else "eval", attend)[0]
            graphs.append(PhaseGraph(phase, layers=layers, decisions=tuple(made)))
        return replace(ir, graphs=tuple(graphs), forks=(*ir.forks, *forks))

    @staticmethod
    def attend(
        attending: Attending,
        pins: Pins,
        phase: str,
        made: list[Decision],
        forks: list[Fork],
        graph: GraphBuilder,
        name: str,
        node: l1.Attention,
    ) -> int:
        """The parts of factors of attention that is computed at once, else 0; the decision, and where there is one."""
        from compiler.strategies.cuda.fused_attention import Extents
        from compiler.strategies.forks import Fork, problem_of, taken

        found = attending.match(node, graph)
        if found is None:
            return 0
        if isinstance(found, tuple):
            ways = [f.way.name for f in found]
            ways.insert(len(ways) if found[0].pays else 0, APART)
            problem = problem_of(Extents.of(node, graph), node.beside, attending.mixed)
            fork = Fork(f"{phase}/{name}", problem, tuple(ways), found[0].reason)
            way, reason = taken(fork, pins)
            forks.append(fork)
            parts = next((f.way.parts for f in found if f.way.name == way), 0)
        else:
            parts, reason = 0, found.reason
        made.append(Decision("choose_strategies", name, "at once" if parts else "by contractions", reason))
        return parts


@dataclass(frozen=True)
class AddLoss(GraphPass):
    """The loss and the sums of the metrics: compiler/passes/layers/lower_loss.py."""

    phases: tuple[str, ...] = TRAINING

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.layers.lower_loss import add_loss

        c = graph.layers
        assert c is not None and ir.train is not None
        lost = add_loss(c.graph, ir.train, c.named, c.mask, c.count, ir.network)
        return replace(graph, lost=lost, outputs=(lost.loss.name,), forward=frozenset(c.graph.tensors))


@dataclass(frozen=True)
class Differentiate(GraphPass):
    """Gradients and updates: compiler/passes/tensors/differentiate.py, compiler/passes/tensors/expand_updates.py."""

    phases: tuple[str, ...] = ("train",)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.accumulate import Mean
        from compiler.passes.tensors.differentiate import differentiate
        from compiler.passes.tensors.expand_updates import expand_updates

        c, lost, train = graph.layers, graph.lost, ir.train
        assert c is not None and lost is not None and train is not None
        assert ir.network is not None and ir.data is not None
        constants = lost.constants | c.constants
        means = [
            Mean(count, differentiate(c.graph, mean, constants, f".of_{k}" if k else ""))
            for k, (mean, count) in enumerate(lost.means)
        ]
        expand_updates(c.graph, ir.network, train, means, -(-ir.data.rows["train"] // train.batch))
        read = [(i.name, i.activity.population) for i in ir.network.inputs if i.activity is not None]
        stops = (
            Decision(self.name, name, "gradients stop here", f"it is what `{p}` does in a trial") for name, p in read
        )
        return replace(graph, decisions=(*graph.decisions, *stops))


@dataclass(frozen=True)
class MarkOutputs(GraphPass):
    """Stores that mark the outputs of a prediction, so that they survive simplification, which shares equal tensors."""

    phases: tuple[str, ...] = GIVING

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        assert graph.layers is not None
        outputs = context.driving if graph.phase == DRIVE else context.outputs
        marks = tuple(l1.Store(f"output {k}", graph.layers.named[n].name) for k, n in enumerate(outputs))
        return replace(graph, marks=marks)


class FinishGraph(TensorPass):
    """Finalises the graph. The phase "eval" of a training that averages its weights reads the averages:
    compiler/passes/tensors/accumulate.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        graphs = [replace(g, nodes=(*g.layers.graph.nodes, *g.marks)) for g in ir.graphs if g.layers is not None]
        train = next((g for g in graphs if g.phase == "train"), None)
        if train is not None and ir.train is not None and ir.train.average:
            from compiler.passes.tensors.accumulate import averaged, averages_of

            names = averages_of(train.nodes, ir.train)
            graphs = [g if g is train else replace(g, nodes=averaged(g.nodes, names)) for g in graphs]
        return replace(ir, graphs=tuple(graphs))


# ------------------------------------------------------------------------------------- within level 1


class Decompose(GraphPass):
    """Scatters become gathers: compiler/passes/tensors/decompose.py."""

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.decompose import decompose

        return replace(graph, nodes=decompose(graph.nodes), gathered=True)


@dataclass(frozen=True)
class PickInRows(GraphPass):
    """Elements that an index picks in rows join the kernels of these rows: compiler/passes/fusion/pick_in_rows.py."""

    phases: tuple[str, ...] = TRAINING

    def applies(self, context: Context, ir: Lowering) -> bool:
        target = context.capabilities
        inside = target.rows and not target.lanes and context.order is not l2.Order.BITWISE
        return inside and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.fusion.pick_in_rows import pick_in_rows

        nodes, made = pick_in_rows(graph.nodes)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


class SimplifyGraph(GraphPass):
    """Common subexpression and dead code elimination: compiler/passes/tensors/simplify_graph.py."""

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.simplify_graph import simplify_graph

        return replace(graph, nodes=simplify_graph(graph.nodes, graph.outputs))


@dataclass(frozen=True)
class NameOutputs(GraphPass):
    """Resolves each marked output of a prediction to its tensor and removes the marks. A mere reshape keeps its own
    name: it is the same array."""

    phases: tuple[str, ...] = GIVING

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        found = {n.target: n.value for n in graph.nodes if isinstance(n, l1.Store)}
        nodes = tuple(n for n in graph.nodes if not isinstance(n, l1.Store))
        source = {n.out.name: n.source for n in nodes if isinstance(n, l1.Reindex)}
        kept = []
        for mark in graph.marks:
            name = found[mark.target]
            while name in source:
                name = source[name]
            kept.append(name)
        return replace(graph, nodes=nodes, outputs=tuple(dict.fromkeys(kept)), kept=tuple(kept), marks=())


@dataclass(frozen=True)
class Changing(GraphPass):
    """A pass that may change nothing, and the cleanup passes that run where it did."""

    first: GraphPass = field(default_factory=GraphPass)
    then: tuple[GraphPass, ...] = ()

    optional: ClassVar = True

    @property
    def name(self) -> str:
        return self.first.name

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        after = self.first.rewrite(context, ir, graph)
        if after.nodes == graph.nodes:
            return graph
        for one in self.then:
            after = one.rewrite(context, ir, after)
        return after


class ComposeMoves(GraphPass):
    """Nested slices become one slice, sums of two padded parts one concatenation:
    compiler/passes/tensors/compose_moves.py."""

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.compose_moves import compose_moves

        return replace(graph, nodes=compose_moves(graph.nodes, graph.outputs))


class FuseMaps(GraphPass):
    """Elementwise nodes join their readers (vertical fusion): compiler/passes/tensors/fuse_maps.py."""

    optional: ClassVar = True

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.fuse_maps import fuse_maps

        nodes, made = fuse_maps(graph.nodes, graph.outputs)
        # Refusals of an earlier run of this pass are decided again.
        before = tuple(d for d in graph.decisions if d.pass_name != self.name or d.verdict == "fused")
        return replace(graph, nodes=nodes, decisions=(*before, *made))


@dataclass(frozen=True)
class HoistFactors(GraphPass):
    """Factors invariant in a reduction multiply its result: compiler/passes/tensors/hoist_factors.py."""

    phases: tuple[str, ...] = TRAINING

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.hoist_factors import hoist_factors

        return replace(graph, nodes=hoist_factors(graph.nodes))


@dataclass(frozen=True)
class WindowChoices(GraphPass):
    """Gradients of maxima over windows stay where the windows are: compiler/passes.fusion.window_choices.py."""

    phases: tuple[str, ...] = ("train",)
    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        target = context.capabilities
        inside = target.rows and not target.lanes and context.order is not l2.Order.BITWISE
        return inside and not context.mixed and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.fusion.window_choices import window_choices

        if graph.layers is not None and graph.layers.blocks:  # what these keep is computed again
            return graph
        costs = partial(self._costs, context, graph)
        device, real = context.capabilities.device, context.precision.bytes
        per_element = real / device.bandwidth / 1e3 if device.bandwidth else 0.0
        nodes, made = window_choices(graph.nodes, graph.outputs, costs, per_element)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))

    @staticmethod
    def _costs(context: Context, graph: PhaseGraph, node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> float:
        """window_choices.Costs; one whose strategy a lock file pins stays as it is."""
        from compiler.strategies import choose
        from compiler.strategies.pins import path_of

        target, real = context.capabilities, context.precision.bytes
        whole = {name: replace(t, windows=()) for name, t in tensors.items()}
        spread, plain = (choose(node, x, 0, real, target.strategies, target.device)[0] for x in (tensors, whole))
        if spread is None or path_of(graph.phase, node.out) in context.pins:
            return math.inf
        return spread.microseconds - (spread if plain is None else plain).microseconds


class EarlyFactors(GraphPass):
    """Factors that depend on weights alone are scheduled early: compiler/passes/tensors/early_factors.py."""

    optional: ClassVar = True

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.early_factors import early_factors

        return replace(graph, nodes=early_factors(graph.nodes))


@dataclass(frozen=True)
class Recompute(GraphPass):
    """Values of checkpointed blocks are recomputed for gradients: compiler/passes/tensors/recompute.py."""

    phases: tuple[str, ...] = ("train",)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        assert graph.layers is not None
        if not graph.layers.blocks:
            return graph
        from compiler.passes.tensors.recompute import recompute

        nodes, made = recompute(graph.nodes, graph.layers.blocks, graph.forward, graph.outputs)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


class MixedPrecision(GraphPass):
    """Activations and factors of products become bf16: compiler/passes/kernels/mixed_precision.py."""

    def applies(self, context: Context, ir: Lowering) -> bool:
        return context.mixed and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.kernels.mixed_precision import mixed_precision

        nodes, made = mixed_precision(graph.nodes, graph.outputs, context.capabilities.bf16)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


class ChannelsLast(GraphPass):
    """Activations of convolutions are stored with their channels last: compiler/passes/layouts/channels_last.py."""

    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        target = context.capabilities
        return context.mixed and target.bf16 and not target.lanes and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.layouts.channels_last import channels_last

        nodes, made = channels_last(graph.nodes, graph.outputs, context.capabilities)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


class ShiftVariances(GraphPass):
    """Means and variances come from one pass over a batch: compiler/passes/tensors/shift_variances.py."""

    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        fast = context.capabilities.name == "cuda" and context.order is not l2.Order.BITWISE
        return fast and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.tensors.shift_variances import shift_variances

        nodes, made = shift_variances(graph.nodes)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


@dataclass(frozen=True)
class PrepareWeights(TensorPass):
    """What is of weights alone is computed before predictions: compiler/passes/tensors/prepare_weights.py."""

    phases: tuple[str, ...] = ("predict",)
    optional: ClassVar = True

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.tensors.prepare_weights import PREPARE, prepare_weights

        graphs = list[PhaseGraph]()
        for graph in ir.graphs:
            if graph.phase in self.phases:
                before, after, made = prepare_weights(graph.nodes, graph.outputs)
                graphs += [PhaseGraph(PREPARE, before, gathered=True)] if before else []
                graph = replace(graph, nodes=after, decisions=(*graph.decisions, *made))
            graphs.append(graph)
        return replace(ir, graphs=tuple(graphs))


class PackWindows(GraphPass):
    """Convolutions of few channels take taps for channels: compiler/passes/layouts/pack_windows.py."""

    optional: ClassVar = True

    def applies(self, context: Context, ir: Lowering) -> bool:
        target = context.capabilities
        return context.mixed and target.bf16 and not target.lanes and super().applies(context, ir)

    def rewrite(self, context: Context, ir: Lowering, graph: PhaseGraph) -> PhaseGraph:
        from compiler.passes.layouts.pack_windows import pack_windows

        nodes, made = pack_windows(graph.nodes, context.capabilities)
        return replace(graph, nodes=nodes, decisions=(*graph.decisions, *made))


# ---------------------------------------------------------------------------------------- to level 2


class LowerTensors(TensorPass):
    """Graphs become arrays, kernels and launches: compiler/passes/kernels/lower_tensors.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.kernels.lower_tensors import lower_tensors
        from compiler.passes.layers.load_data import trial_data
        from compiler.passes.program.build_program import ProgramBuilder
        from compiler.strategies.layout import laid_out

        assert ir.network is not None and ir.data is not None
        data = ir.data
        if DRIVE in context.phases and ir.train is not None:
            data = replace(data, rows={**data.rows, DRIVE: ir.train.batch})
        builder = ProgramBuilder(ir.name, context.precision, context.order)
        if "predict" in context.phases:  # the host writes the samples
            for item in ir.network.inputs:
                dtype = context.precision if item.dtype == "real" else DType.I32
                shape = (data.rows["predict"], math.prod(item.shape))
                name = f"data.{item.name}" if item.activity is None else trial_data(item.name)
                builder.array(l2.Array(name, dtype, shape, Role.DATA))
        graphs = tuple(g.graph for g in ir.graphs)
        ir = ir.decided(d.within(g.phase) for g in ir.graphs for d in g.decisions)
        layout = laid_out(graphs, context.precision, context.order, context.capabilities)
        if layout.reason:
            ir = ir.decided([Decision("lower_tensors", ir.name, "row by row", layout.reason)])
        made = lower_tensors(builder, graphs, data, layout.capabilities, context.pins)
        return replace(ir, programs=(*ir.programs, builder.finish())).decided(made)


@dataclass(frozen=True)
class RequireFusion(TensorPass):
    """Missed fusions in blocks with `fuse: required` are errors: compiler/passes/tensors/require_fusion.py."""

    phases: tuple[str, ...] = ("train", "predict")

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.tensors.require_fusion import require_fusion

        assert ir.network is not None
        require_fusion(ir.network, tuple(g.graph for g in ir.graphs), ir.decisions)
        return ir
