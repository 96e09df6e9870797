"""lower_tensors: tensor graphs become kernels, arrays and launches.

Assumes: graphs in gather form (decompose), simplified; one per phase.
Guarantees: a phase runs its feeds, its blocks in the order of the graph, copies of stores, then all updates of the
optimizer side by side (one kernel, a row per weight). Phase "init" draws the weights; other first values are
constants. Arrays of the data set are CONST `data.<array>`, written by the host in the program's precision
(i32 for integers); the order of samples is DATA (lower_feeds.order_array).
Does not: merge, or place arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from compiler.expr.ast import refs
from compiler.ir.graph import (
    BatchMask,
    Contract,
    Feed,
    Map,
    Rand,
    Store,
    TensorGraph,
    Update,
    Variable,
    Weight,
)
from compiler.ir.program import Array, Assign, Body, Kind, Mode, Order, Program
from compiler.ir.space import DType, Role, along
from compiler.ir.target import Capabilities
from compiler.passes.assign_layouts import assign_layouts
from compiler.passes.block_list import BlockList
from compiler.passes.blocks import Block, Known, Loop, Operand, Scalar, contract_block, map_block
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.choose_strategies import choose_strategy
from compiler.passes.decisions import Decision
from compiler.passes.fuse_epilogues import fuse_epilogues
from compiler.passes.fuse_maps import fuse_maps
from compiler.passes.lower_feeds import lower_feed, lower_mask, order_array, rand_block, weight_block
from compiler.passes.lower_nest import LoweredNest, Machine, lower_nest
from compiler.passes.place_stores import place_stores
from compiler.source import NOWHERE, Span

INIT = "init"


@dataclass
class _Lowering:
    """Mutable while lowering."""

    builder: ProgramBuilder
    machine: Machine
    capabilities: Capabilities
    arrays: dict[str, Array]
    samples: int
    decisions: list[Decision] = field(default_factory=list)

    def use(self, lowered: LoweredNest) -> None:
        """Arrays enter the program when a kernel first names them."""
        for name in lowered.arrays.values():
            if name not in self.builder.arrays:
                self.builder.array(self.arrays[name])

    def launch(self, phase: str, path: str, what: str, kind: Kind, lowered: LoweredNest, body: Body, span: Span) -> None:
        self.use(lowered)
        key = (kind, lowered.formals, body)
        row = self.builder.row(
            key, f"{path}: {what}", kind, lowered.formals, body, lowered.arrays, lowered.scalars, path, span
        )
        self.builder.launch(phase, key, row, row + 1)

    def block(self, phase: str, block: Block) -> None:
        """One block as one row of a kernel."""
        chosen, decision = choose_strategy(block, self.machine, self.capabilities)
        if decision is not None:
            self.decisions.append(decision)
        if chosen is not None:
            self.launch(phase, block.name, chosen.what, Kind.CONTRACT, chosen.lowered, chosen.body, block.span)
            return
        lowered = lower_nest(block, self.machine)
        kind = Kind.MAP if block.combine is None else Kind.REDUCE
        self.launch(phase, block.name, block.what, kind, lowered, lowered.nest, block.span)

    def constant(self, name: str, value: float) -> None:
        """First value of an array that does not start as zero."""
        array = self.arrays[name]
        if value != 0.0:
            contents = np.full(array.physical_size, value, array.dtype.numpy)
            self.builder.array(array, contents)
        elif name not in self.builder.arrays:
            self.builder.array(array)

    def feeds(self, graph: TensorGraph, known: Known, batches: int) -> None:
        order = order_array(graph.phase)
        for node in graph.nodes:
            if not isinstance(node, (Feed, BatchMask)):
                continue
            rows = batches * node.out.shape[0]
            self.arrays.setdefault(order, Array(order, DType.I32, (rows,), Role.DATA))
            if isinstance(node, Feed):
                dtype = DType.I32 if node.out.dtype == "int" else self.machine.precision
                shape = (self.samples, *node.out.shape[1:])
                self.arrays.setdefault(node.array, Array(node.array, dtype, shape, Role.CONST))
                lowered = lower_feed(node, self.machine, order, batches, self.samples)
                span, what = node.span, "feed"
            else:
                lowered = lower_mask(node, self.machine, order, batches)
                span, what = NOWHERE, "mask"
            lowered.arrays["y0"] = known.roots[node.out.name]
            self.launch(graph.phase, node.out.name, what, Kind.MAP, lowered, lowered.nest, span)


def _update_block(node: Update, known: Known, lowering: _Lowering) -> Block:
    """The optimizer on one weight: one loop over its elements, statements as they stand in the model."""
    shape = known.tensors[node.weight].shape
    dims = tuple(Loop(f"i{a}", n) for a, n in enumerate(shape))
    index = tuple(along(d.name) for d in dims)
    operands: list[Operand] = []
    used: set[str] = set()
    for s in node.statements:
        used |= refs(s.value) | {s.target}
    written = {s.target for s in node.statements}

    def mode(name: str) -> Mode:
        return Mode.UPDATE if name in written else Mode.READ

    if "gradient" in used:
        operands.append(known.operand("gradient", node.gradient, index))
    operands.append(known.operand("param", node.weight, index, mode("param")))
    for name, init in node.state:
        array = f"{node.weight}.{name}"
        lowering.arrays[array] = Array(array, lowering.machine.precision, shape, Role.STATE, span=node.span)
        lowering.constant(array, init)
        operands.append(Operand(name, array, shape, index, False, None, mode(name)))
    scalars = tuple(Scalar(n, v) for n, v in node.params if n in used)
    statements = tuple(Assign(s.target, s.value, s.span) for s in node.statements)
    return Block(node.weight, "update", dims, tuple(operands), statements, scalars=scalars, span=node.span)


def _phase(lowering: _Lowering, graph: TensorGraph, known: Known, batches: int) -> None:
    lowering.feeds(graph, known, batches)
    blocks: list[Block] = []
    updates: list[Block] = []
    stores: list[Store] = []
    for node in graph.nodes:
        match node:
            case Map():
                blocks.append(map_block(node, known))
            case Contract():
                blocks.append(contract_block(node, known))
            case Rand():
                blocks.append(rand_block(node, known))
            case Store():
                stores.append(node)
            case Update():
                updates.append(_update_block(node, known, lowering))
            case _:
                pass
    outputs = frozenset(known.roots[o] for o in graph.outputs)
    pinned = outputs | {known.roots[s.value] for s in stores} | {o.tensor for b in updates for o in b.reads}
    fusing = BlockList(blocks, pinned)
    lowering.decisions += fuse_maps(fusing)
    lowering.decisions += fuse_epilogues(fusing)
    done, decisions = place_stores(fusing, tuple(stores), outputs, known)
    lowering.decisions += decisions
    for block in (*done, *updates):
        lowering.block(graph.phase, block)


def _first_values(lowering: _Lowering, graph: TensorGraph, known: Known, done: set[str]) -> None:
    """Draws of weights (phase "init"), constants of everything else that starts with a value."""
    for node in graph.nodes:
        if not isinstance(node, (Weight, Variable)) or node.out.name in done:
            continue
        done.add(node.out.name)
        if isinstance(node, Variable):
            lowering.constant(node.out.name, node.init)
        elif node.init == "uniform":
            lowering.block(INIT, weight_block(node, known))
        elif node.init in ("zeros", "ones"):
            lowering.constant(node.out.name, float(node.init == "ones"))
        else:
            raise AssertionError(f"{node.out.name}: initializer {node.init} passed the frontend")


def lower_tensors(
    name: str,
    graphs: tuple[TensorGraph, ...],
    precision: DType,
    order: Order,
    capabilities: Capabilities,
    *,
    samples: int | None = None,
    batches: Mapping[str, int] | None = None,
) -> tuple[Program, list[Decision]]:
    """The program of all phases, and what was decided. `samples`: rows of the data set (default: one batch);
    `batches`: batches of an epoch per phase (default 1)."""
    lanes = capabilities.lanes * DType.F32.bytes // precision.bytes
    phases, arrays = assign_layouts(graphs, precision, lanes)
    batch = max((n.out.shape[0] for g in graphs for n in g.nodes if isinstance(n, (Feed, BatchMask))), default=1)
    lowering = _Lowering(
        ProgramBuilder(name, precision, order),
        Machine(lanes, precision, order),
        capabilities,
        arrays,
        samples if samples is not None else batch,
    )
    done: set[str] = set()
    for graph, known in zip(graphs, phases, strict=True):
        _first_values(lowering, graph, known, done)
    for graph, known in zip(graphs, phases, strict=True):
        _phase(lowering, graph, known, (batches or {}).get(graph.phase, 1))
    return lowering.builder.finish(), lowering.decisions
