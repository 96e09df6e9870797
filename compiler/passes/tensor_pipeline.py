"""From a network of layers to level-2 kernels: the tensor half of the pipeline.

Assumes: a legal model with `network` and `train`.
Guarantees: phases "train" (forward, backward, updates), "eval" (forward, metrics) and "init" (weights).
Does not: merge.
"""

from __future__ import annotations

from compiler.ir.level0.model import Model
from compiler.ir.level1.graph import Node, TensorGraph
from compiler.ir.level2.program import Order, Program
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.kernels.lower_tensors import lower_tensors
from compiler.passes.kernels.require_fusion import require_fusion
from compiler.passes.layers.load_data import load_data, streaming
from compiler.passes.layers.lower_loss import add_loss
from compiler.passes.layers.lower_network import lower_network
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
from compiler.passes.tensors.recompute import recompute
from compiler.passes.tensors.simplify_graph import simplify_graph
from compiler.strategies.pins import Pins


def tensor_graphs(
    model: Model, batches: int, verify: bool = False, phases: tuple[str, ...] = ("train", "eval")
) -> tuple[tuple[TensorGraph, ...], list[Decision]]:
    """The graphs of the "train" and "eval" phases, in gather form, simplified and fused; and what was decided.
    `batches`: of an epoch, which schedules of the optimizer may ask for.

    Their only output is the loss of the last batch: sums over an epoch are in the metric variables.
    """
    assert model.network is not None and model.train is not None
    graphs: list[TensorGraph] = []
    decisions: list[Decision] = []
    averages: dict[str, str] = {}
    for phase in phases:
        context, named = lower_network(model.network, model.train, phase)
        g = context.graph
        lost = add_loss(g, model.train, named, context.mask, context.count, model.network)
        loss, forward = lost.loss, frozenset(g.tensors)
        if phase == "train":
            constants = lost.constants | context.constants
            means = [
                Mean(count, differentiate(g, mean, constants, f".of_{k}" if k else ""))
                for k, (mean, count) in enumerate(lost.means)
            ]
            expand_updates(g, model.network, model.train, means, batches)
        outputs = (loss.name,)
        nodes: tuple[Node, ...] = tuple(g.nodes)
        if phase == "train":
            averages = averages_of(nodes, model.train)
        elif averages:
            nodes = averaged(nodes, averages)

        def checked(
            nodes: tuple[Node, ...], gathered: bool, phase: str = phase, kept: str = loss.name
        ) -> tuple[Node, ...]:
            if verify:
                from compiler.ir.verify.verify import verify_graph  # large, and seldom asked for

                verify_graph(TensorGraph(phase, nodes, (kept,)), gather_only=gathered)
            return nodes

        nodes = checked(decompose(checked(nodes, False)), True)
        nodes = checked(simplify_graph(nodes, outputs), True)
        moved = compose_moves(nodes, outputs)
        if moved != nodes:
            nodes = checked(simplify_graph(checked(moved, True), outputs), True)
        nodes, made = fuse_maps(nodes, outputs)
        hoisted = hoist_factors(nodes)
        if hoisted != nodes:
            nodes = checked(simplify_graph(checked(hoisted, True), outputs), True)
            nodes, more = fuse_maps(nodes, outputs)
            made = [*(d for d in made if d.verdict == "fused"), *more]
        nodes = checked(early_factors(checked(nodes, True)), True)
        if phase == "train" and context.blocks:
            nodes, again = recompute(nodes, context.blocks, forward, outputs)
            checked(nodes, True)
            made += again
        decisions += [d.within(phase) for d in made]
        graphs.append(TensorGraph(phase, nodes, outputs))
    return tuple(graphs), decisions


def lower_network_to_program(
    model: Model, precision: DType, order: Order, capabilities: Capabilities, verify: bool, pins: Pins | None = None
) -> tuple[tuple[TensorGraph, ...], Program, list[Decision]]:
    """Both phases as one program."""
    assert model.network is not None and model.train is not None
    data = load_data(model.network, model.train, precision)
    batches = -(-data.rows["train"] // model.train.batch)
    graphs, decisions = tensor_graphs(model, batches, verify)
    builder = ProgramBuilder(model.name, precision, order)
    decisions += streaming(data, model.train)
    decisions += lower_tensors(builder, graphs, data, capabilities, pins)
    require_fusion(model.network, graphs, decisions)
    return graphs, builder.finish(), decisions
