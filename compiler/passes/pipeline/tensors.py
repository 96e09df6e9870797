"""The passes of the tensor half: from layers (level 0) over one graph a phase (level 1) to kernels (level 2).

Assumes: a legal model; passes here run only where it has a `network`, on the phases that they name.
Guarantees: phases "train" (forward, backward, updates), "eval" (forward, metrics), "init" (weights), or "predict";
"drive" (forward) where layers drive populations.
The only output of "train" and "eval" is the loss of the last batch: sums over an epoch are in the metric variables.
Does not: merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.level1.builder import GraphBuilder
from compiler.ir.space import DType, Role
from compiler.passes.fusion.pick_in_rows import pick_in_rows
from compiler.passes.fusion.sum_in_tiles import sum_in_tiles
from compiler.passes.fusion.window_choices import window_choices
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.kernels.mixed_precision import mixed_precision
from compiler.passes.layers.load_data import load_data, streaming, trial_data
from compiler.passes.layers.lower_loss import add_loss
from compiler.passes.layers.lower_network import lower_network
from compiler.passes.layouts.channels_last import channels_last
from compiler.passes.layouts.dense_groups import dense_groups
from compiler.passes.layouts.late_reshapes import late_reshapes
from compiler.passes.layouts.one_tap import one_tap
from compiler.passes.layouts.pack_panels import pack_panels
from compiler.passes.layouts.pack_windows import pack_windows
from compiler.passes.layouts.pad_rows import pad_rows
from compiler.passes.pipeline.manager import DRIVE, GIVING, TRAINING, Context, Lowering, Pass, PhaseGraph
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.accumulate import Mean, averaged, averages_of
from compiler.passes.tensors.compose_moves import compose_moves
from compiler.passes.tensors.decompose import decompose
from compiler.passes.tensors.differentiate import differentiate
from compiler.passes.tensors.early_factors import early_factors
from compiler.passes.tensors.expand_updates import expand_updates
from compiler.passes.tensors.fuse_maps import fuse_maps
from compiler.passes.tensors.hoist_factors import hoist_factors
from compiler.passes.tensors.prepare_weights import PREPARE, prepare_weights
from compiler.passes.tensors.recompute import recompute
from compiler.passes.tensors.require_fusion import require_fusion
from compiler.passes.tensors.shift_variances import shift_variances
from compiler.passes.tensors.simplify_graph import live_nodes, simplify_graph
from compiler.strategies import in_rows
from compiler.strategies.choice import NotApplicable, Tiles
from compiler.strategies.cost.cuda import LAUNCH_US, waits
from compiler.strategies.cpu import rows_panels
from compiler.strategies.cuda.fused_attention import Attending, Extents
from compiler.strategies.forks import Fork, problem_of, taken
from compiler.strategies.layout import laid_out, row_major
from compiler.strategies.pins import Pins, Refused, path_of, pinned

ALL: Final = (*TRAINING, *GIVING)
APART: Final = "contractions"
"""The way of attention that is not computed at once."""

Run = Callable[[Context, Lowering], Lowering]
Rewrite = Callable[[Context, PhaseGraph], PhaseGraph]


def _pass(
    name: str,
    run: Run,
    phases: tuple[str, ...] = ALL,
    when: Callable[[Context], bool] = lambda context: True,
    optional: bool = False,
) -> Pass:
    """A pass for models with a network. `phases`: those whose graphs it is for; `when`: the targets and numerics."""

    def applies(context: Context, ir: Lowering) -> bool:
        return ir.network is not None and any(p in phases for p in context.phases) and when(context)

    return Pass(name, run, applies, optional)


def _each(rewrite: Rewrite, phases: tuple[str, ...] = ALL) -> Run:
    """From graph to graph, one phase at a time."""

    def run(context: Context, ir: Lowering) -> Lowering:
        return replace(ir, graphs=tuple(rewrite(context, g) if g.phase in phases else g for g in ir.graphs))

    return run


def _rewrite(
    name: str,
    rewrite: Rewrite,
    phases: tuple[str, ...] = ALL,
    when: Callable[[Context], bool] = lambda context: True,
    optional: bool = False,
) -> Pass:
    return _pass(name, _each(rewrite, phases), phases, when, optional)


def _cleaned(first: Rewrite, *then: Rewrite) -> Rewrite:
    """A pass that may change nothing, and what cleans up where it did."""

    def rewrite(context: Context, graph: PhaseGraph) -> PhaseGraph:
        after = first(context, graph)
        if after.nodes == graph.nodes:
            return replace(after, nodes=graph.nodes)
        for one in then:
            after = one(context, after)
        return after

    return rewrite


# ---------------------------------------------------------------------------------------- to level 1


def _load_data(context: Context, ir: Lowering) -> Lowering:
    """Sizes and types of the samples."""
    assert ir.network is not None and ir.train is not None
    data = load_data(ir.network, ir.train, context.precision)
    return replace(ir, data=data).decided(streaming(data, ir.train))


def _lower_network(context: Context, ir: Lowering) -> Lowering:
    """Layers become a graph for each phase."""
    assert ir.network is not None and ir.train is not None
    attending = Attending.of(context.capabilities, context.precision, context.order, context.mixed)
    graphs: list[PhaseGraph] = []
    forks: list[Fork] = []
    for phase in context.phases:
        made: list[Decision] = []
        attend = partial(_attend, attending, context.pins, phase, made, forks)
        layers = lower_network(ir.network, ir.train, "train" if phase == "train" else "eval", attend)[0]
        graphs.append(PhaseGraph(phase, layers=layers, decisions=tuple(made)))
    return replace(ir, graphs=tuple(graphs), forks=(*ir.forks, *forks))


def _attend(
    attending: Attending,
    pins: Pins,
    phase: str,
    made: list[Decision],
    forks: list[Fork],
    graph: GraphBuilder,
    name: str,
    node: l1.Attention,
) -> int:
    """The factors of attention that is computed at once, else 0; the decision, and where there is one."""
    try:
        if not (found := attending.match(node, graph)):
            return 0
        ways = [f.way.name for f in found]
        ways.insert(len(ways) if found[0].pays else 0, APART)
        problem = problem_of(Extents.of(node, graph), node.beside, attending.mixed)
        fork = Fork(f"{phase}/{name}", problem, tuple(ways), found[0].reason)
        way, reason = taken(fork, pins)
        forks.append(fork)
        factors = next((f.way.factors for f in found if f.way.name == way), 0)
    except NotApplicable as why:
        factors, reason = 0, str(why)
    made.append(Decision("choose_strategies", name, "at once" if factors else "by contractions", reason))
    return factors


def _add_loss(context: Context, ir: Lowering) -> Lowering:
    """The loss and the sums of the metrics."""

    def with_loss(context: Context, graph: PhaseGraph) -> PhaseGraph:
        c = graph.layers
        assert c is not None and ir.train is not None
        with c.graph.of(ir.train.loss.span):
            lost = add_loss(c.graph, ir.train, c.named, c.mask, c.count, ir.network)
        return replace(graph, lost=lost, outputs=(lost.loss.name,), forward=frozenset(c.graph.tensors))

    return _each(with_loss, TRAINING)(context, ir)


def _differentiate(context: Context, ir: Lowering) -> Lowering:
    """Gradients and updates."""
    network, train, data = ir.network, ir.train, ir.data
    assert network is not None and train is not None and data is not None
    read = [(i.name, i.activity.population) for i in network.inputs if i.activity is not None]
    stops = [
        Decision("differentiate", name, "gradients stop here", f"it is what `{p}` does in a trial") for name, p in read
    ]

    def with_gradients(context: Context, graph: PhaseGraph) -> PhaseGraph:
        c, lost = graph.layers, graph.lost
        assert c is not None and lost is not None
        constants = lost.constants | c.constants
        means = [
            Mean(count, differentiate(c.graph, mean, constants, f".of_{k}" if k else ""))
            for k, (mean, count) in enumerate(lost.means)
        ]
        expand_updates(c.graph, network, train, means, -(-data.rows["train"] // train.batch))
        return graph.rewritten(graph.nodes, stops)

    return _each(with_gradients, ("train",))(context, ir)


def _mark_outputs(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Stores that mark the outputs of a prediction, so that they survive simplification, which shares equal tensors."""
    assert graph.layers is not None
    outputs = context.driving if graph.phase == DRIVE else context.outputs
    marks = tuple(l1.Store(f"output {k}", graph.layers.named[n].name) for k, n in enumerate(outputs))
    return replace(graph, marks=marks)


def _finish_graph(context: Context, ir: Lowering) -> Lowering:
    """Finalises the graph. The phase "eval" of a training that averages its weights reads the averages."""
    graphs = [replace(g, nodes=(*g.layers.graph.nodes, *g.marks)) for g in ir.graphs if g.layers is not None]
    train = next((g for g in graphs if g.phase == "train"), None)
    if train is not None and ir.train is not None and ir.train.average:
        names = averages_of(train.nodes, ir.train)
        graphs = [g if g is train else replace(g, nodes=averaged(g.nodes, names)) for g in graphs]
    return replace(ir, graphs=tuple(graphs))


# ------------------------------------------------------------------------------------- within level 1


def _simplify(context: Context, graph: PhaseGraph) -> PhaseGraph:
    return replace(graph, nodes=simplify_graph(graph.nodes, graph.outputs))


def _needed(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Nodes that nothing reads go; not behind sum_in_tiles, which leaves some that kernels begin with."""
    return replace(graph, nodes=live_nodes(graph.nodes, graph.outputs))


def _name_outputs(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Resolves each marked output of a prediction to its tensor and removes the marks. A mere reshape keeps its own
    name: it is the same array."""
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


def _fuse_maps(context: Context, graph: PhaseGraph) -> PhaseGraph:
    nodes, made = fuse_maps(graph.nodes, graph.outputs)
    # Refusals of an earlier run of this pass are decided again.
    before = tuple(d for d in graph.decisions if d.pass_name != "fuse_maps" or d.verdict == "fused")
    return replace(graph, decisions=before).rewritten(nodes, made)


def _recompute(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Values of checkpointed blocks are recomputed for gradients."""
    assert graph.layers is not None
    if not graph.layers.blocks:
        return graph
    return graph.rewritten(*recompute(graph.nodes, graph.layers.blocks, graph.forward, graph.outputs))


def _pack_panels(context: Context, ir: Lowering) -> Lowering:
    """Weights are stored as row-major products of predictions read them, where all products are faster so than with the
    batch in the lanes."""
    if context.order is l2.Order.BITWISE:
        return ir
    graphs, real, pins = tuple(g.graph for g in ir.graphs), context.precision.bytes, context.pins
    target = row_major(context.capabilities) if context.capabilities.lanes else context.capabilities
    packed = tuple(
        g.rewritten(*pack_panels(g.nodes, g.phase, target, real, pins)) if g.phase == "predict" else g
        for g in ir.graphs
    )
    as_rows = tuple(g.graph for g in packed)
    if laid_out(graphs, context.precision, context.order, context.capabilities, as_rows).capabilities.lanes:
        return ir
    return replace(ir, graphs=packed)


def _prepare_weights(context: Context, ir: Lowering) -> Lowering:
    """What is of weights alone is computed before predictions."""
    graphs = list[PhaseGraph]()
    for graph in ir.graphs:
        if graph.phase == "predict":
            before, after, made = prepare_weights(graph.nodes, graph.outputs)
            graphs += [PhaseGraph(PREPARE, before, gathered=True)] if before else []
            graph = graph.rewritten(after, made)
        graphs.append(graph)
    return replace(ir, graphs=tuple(graphs))


def _in_rows(context: Context) -> bool:
    """Whether threads share rows."""
    target = context.capabilities
    return target.rows and not target.lanes and context.order is not l2.Order.BITWISE


def _window_choices(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Gradients of maxima over windows stay where the windows are."""
    if graph.layers is not None and graph.layers.blocks:  # what these keep is computed again
        return graph
    costs = partial(_spread_costs, context, graph)
    device, real = context.capabilities.device, context.precision.bytes
    per_element, launch = real / device.bandwidth / 1e3 if device.bandwidth else 0.0, LAUNCH_US * waits(device)
    return graph.rewritten(*window_choices(graph.nodes, graph.outputs, costs, per_element, launch))


def _spread_costs(context: Context, graph: PhaseGraph, node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> float:
    """window_choices.Costs; one whose strategy a lock file pins stays as it is."""
    target, real = context.capabilities, context.precision.bytes
    whole = {name: replace(t, windows=()) for name, t in tensors.items()}
    spread, plain = (in_rows(node, x, target, real) for x in (tensors, whole))
    if spread is None or path_of(graph.phase, node.out) in context.pins:
        return math.inf
    return spread.microseconds - (spread if plain is None else plain).microseconds


def _sum_in_tiles(context: Context, graph: PhaseGraph) -> PhaseGraph:
    """Sums over rows of products begin in their kernels."""
    target, real, tensors = context.capabilities, context.precision.bytes, l1.tensors_of(graph.nodes)

    def tiles(node: l1.Contract) -> Tiles | None:
        pin, given = context.pins.get(path_of(graph.phase, node.out)), (target.strategies, target.device)
        found = None if pin is None else pinned(pin, node, tensors, 0, real, context.order.value, *given)
        if pin is None or isinstance(found, Refused):
            found = in_rows(node, tensors, target, real)
        return None if found is None else found.tiled

    return graph.rewritten(*sum_in_tiles(graph.nodes, graph.outputs, tiles))


def _channels(context: Context) -> bool:
    """Whether convolutions take channels side by side."""
    return context.mixed and context.capabilities.bf16 and not context.capabilities.lanes


def _one_pass(context: Context) -> bool:
    return context.capabilities.name == "cuda" and context.order is not l2.Order.BITWISE


# ---------------------------------------------------------------------------------------- to level 2


def _lower_tensors(context: Context, ir: Lowering) -> Lowering:
    """Graphs become arrays, kernels and launches."""
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


def _require_fusion(context: Context, ir: Lowering) -> Lowering:
    """Missed fusions in blocks with `fuse: required` are errors."""
    assert ir.network is not None
    require_fusion(ir.network, tuple(g.graph for g in ir.graphs), ir.decisions)
    return ir


TENSORS: Final[tuple[Pass, ...]] = (
    _pass("load_data", _load_data, ("train",)),
    _pass("lower_network", _lower_network),
    _pass("add_loss", _add_loss, TRAINING),
    _pass("differentiate", _differentiate, ("train",)),
    _rewrite("mark_outputs", _mark_outputs, GIVING),
    _pass("finish_graph", _finish_graph),
    _rewrite("decompose", lambda c, g: replace(g, nodes=decompose(g.nodes), gathered=True)),
    _rewrite(
        "pick_in_rows", lambda c, g: g.rewritten(*pick_in_rows(g.nodes, c.capabilities.device)), TRAINING, _in_rows
    ),
    _rewrite("simplify_graph", _simplify),
    _rewrite("name_outputs", _name_outputs, GIVING),
    _rewrite("simplify_graph", _simplify, GIVING),
    _rewrite(
        "compose_moves",
        _cleaned(lambda c, g: replace(g, nodes=compose_moves(g.nodes, g.outputs)), _simplify),
        TRAINING,
        optional=True,
    ),
    _rewrite("fuse_maps", _fuse_maps, optional=True),
    _rewrite(
        "hoist_factors",
        _cleaned(lambda c, g: replace(g, nodes=hoist_factors(g.nodes)), _simplify, _fuse_maps),
        TRAINING,
        optional=True,
    ),
    _rewrite(
        "window_choices",
        _cleaned(_window_choices, _needed),
        ("train",),
        lambda c: _in_rows(c) and not c.mixed,
        optional=True,
    ),
    _rewrite(
        "dense_groups",
        _cleaned(lambda c, g: g.rewritten(*dense_groups(g.nodes, g.outputs, c.capabilities)), _simplify),
        when=_channels,
        optional=True,
    ),
    _rewrite(
        "one_tap",
        lambda c, g: g.rewritten(*one_tap(g.nodes, c.capabilities)),
        when=lambda c: _in_rows(c) and c.precision is DType.F32 and not c.mixed,
        optional=True,
    ),
    _rewrite(
        "late_reshapes",
        _cleaned(lambda c, g: replace(g, nodes=late_reshapes(g.nodes, g.outputs)), _needed),
        optional=True,
    ),
    _rewrite("early_factors", lambda c, g: replace(g, nodes=early_factors(g.nodes)), optional=True),
    _rewrite("recompute", _recompute, ("train",)),
    _rewrite(
        "mixed_precision",
        lambda c, g: g.rewritten(*mixed_precision(g.nodes, g.outputs, c.capabilities.bf16)),
        when=lambda c: c.mixed,
    ),
    _rewrite(
        "channels_last",
        lambda c, g: g.rewritten(*channels_last(g.nodes, g.outputs, c.capabilities)),
        when=_channels,
        optional=True,
    ),
    _rewrite(
        "pack_windows", lambda c, g: g.rewritten(*pack_windows(g.nodes, c.capabilities)), when=_channels, optional=True
    ),
    _rewrite(
        "pad_rows",
        lambda c, g: g.rewritten(*pad_rows(g.nodes, g.outputs, c.capabilities)),
        when=lambda c: c.capabilities.bf16 and c.precision is DType.F32 and c.order is not l2.Order.BITWISE,
        optional=True,
    ),
    _rewrite("sum_in_tiles", _sum_in_tiles, ("train",), _one_pass, optional=True),
    _rewrite(
        "shift_variances",
        lambda c, g: g.rewritten(*shift_variances(g.nodes, c.capabilities.device)),
        when=_one_pass,
        optional=True,
    ),
    _pass(
        "pack_panels",
        _pack_panels,
        ("predict",),
        lambda c: rows_panels.NAME in c.capabilities.strategies,
        optional=True,
    ),
    _pass("prepare_weights", _prepare_weights, ("predict",), optional=True),
    _pass("lower_tensors", _lower_tensors),
    _pass("require_fusion", _require_fusion, ("train", "predict")),
)
"""In order: level 0, level 1 (a graph for each phase), level 2 (kernels)."""
