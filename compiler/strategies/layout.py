"""layout: whether the tensors of a training have the batch in vector lanes or are row-major, by estimate.

Assumes: graphs in gather form; a target with strategies for both layouts.
Guarantees: row-major where products (rows_product) and batches that leave lanes empty make it faster by more than
MARGIN: large products, small batches; and where steps of a sequence would share lanes, or samples are compared with
each other. One layout for all phases of a program, whatever was measured: what was measured in a layout is for that
layout.
Does not: change tensors in the middle of a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.strategies import ROWS, choose, measured, problem_key
from compiler.strategies.choice import rounded
from compiler.strategies.cost.cpu import DRAW, MAP, NEST, OPERATIONS_PER_US, ROW_WINDOW, VECTOR_BYTES
from compiler.strategies.cost.nests import row_nest

MARGIN, EMPTY_MARGIN = 0.9, 1.05
"""Times the estimate of lanes; where the batch leaves some empty, of which that of rows is too high: in batches of 8
rows take 0.76 times as long as lanes where it says 1.00 (depthwise convolutions), 0.49 times where it says 0.91
(DenseNet)."""


@dataclass(frozen=True)
class Layout:
    """`reason`: why tensors are row-major, where the target has lanes."""

    capabilities: Capabilities
    reason: str = ""


def row_major(capabilities: Capabilities) -> Capabilities:
    """The target with row-major tensors, and the strategies for them, or that say so themselves."""
    both = {s.name for s in measured()}
    return replace(capabilities, lanes=0, strategies=capabilities.strategies & (ROWS | both))


def laid_out(
    graphs: Iterable[l1.TensorGraph],
    precision: DType,
    order: l2.Order,
    capabilities: Capabilities,
    packed: Iterable[l1.TensorGraph] | None = None,
) -> Layout:
    """The target in the layout of the program of `graphs`. `packed`: these with weights as rows may have them."""
    count, real = VECTOR_BYTES // precision.bytes, precision.bytes
    graphs = tuple(graphs)
    if not capabilities.lanes:
        return Layout(capabilities)
    if reason := _needs_rows(graphs, count, order):
        return Layout(row_major(capabilities), reason)
    if order is l2.Order.BITWISE or not capabilities.strategies & ROWS:
        return Layout(capabilities)
    plain = replace(capabilities, device=replace(capabilities.device, estimates=()))
    lanes = _total(graphs, count, count, real, plain)
    rows = _total(graphs if packed is None else packed, 0, count, real, plain)
    empty = any(t.batched and t.shape[0] % count for g in graphs for t in l1.tensors_of(g.nodes).values())
    if not 0 < rows < (EMPTY_MARGIN if empty else MARGIN) * lanes:
        return Layout(capabilities)
    wide, flat = lanes / OPERATIONS_PER_US, rows / OPERATIONS_PER_US
    return Layout(row_major(capabilities), f"about {flat:.0f} us; with the batch in vector lanes about {wide:.0f} us")


def _total(graphs: Iterable[l1.TensorGraph], lanes: int, count: int, real: int, capabilities: Capabilities) -> float:
    """Vector operations of graphs with the batch in so many lanes, or row-major (0); vectors have `count` elements."""
    total = 0.0
    known: dict[object, float] = {}
    for graph in graphs:
        tensors = l1.tensors_of(graph.nodes)
        before = {n.source for n in graph.nodes if isinstance(n, l1.Reindex) and n.out.panel}
        for node, times in l1.with_bodies(graph.nodes):
            if isinstance(node, l1.Contract) and node.out.name in before:
                continue  # weights are packed once, before all steps
            if isinstance(node, l1.Map | l1.Gather):
                total += times * MAP * _padded(node.out, lanes) / count
            elif isinstance(node, l1.Rand):
                total += DRAW * _padded(node.out, lanes) / count
            elif isinstance(node, l1.Contract) and len(node.ins) == 2:
                key = problem_key(node, tensors)
                if key not in known:
                    known[key] = _product(node, tensors, lanes, real, capabilities)
                total += times * known[key]
            elif isinstance(node, l1.Contract | l1.Move) and (terms := _window_terms(node)):
                each = NEST * _padded(node.out, lanes) / prod(node.out.shape) / lanes if lanes else ROW_WINDOW
                total += times * each * terms
    return total


def _needs_rows(graphs: tuple[l1.TensorGraph, ...], lanes: int, order: l2.Order) -> str:
    """Why no tensor may have lanes, where that is so."""
    if any(_pairs_samples(g) for g in graphs):
        return "samples of a batch are compared with each other"
    if order is l2.Order.BITWISE:
        return ""
    nodes = [n for g in graphs for n in g.nodes]
    if any(isinstance(n, l1.Reindex) and n.out.panel for n in nodes):
        return "weights are packed for rows"
    if any(c.state.shape[0] % lanes for n in nodes if isinstance(n, l1.Scan) for c in n.carried):
        return f"steps of sequences have batches that {lanes} lanes do not divide"
    return ""


def _pairs_samples(graph: l1.TensorGraph) -> bool:
    """Whether the batch is along two dims of a contraction."""
    tensors = l1.tensors_of(graph.nodes)
    for node in graph.nodes:
        if isinstance(node, l1.Contract):
            walks = [(node.out, node.out_map), *((tensors[n], m) for n, m in zip(node.ins, node.in_maps, strict=True))]
            if len({axes[0] for tensor, axes in walks if tensor.batched}) > 1:
                return True
    return False


def _window_terms(node: l1.Contract | l1.Move) -> int:
    """Elements that are read one by one at places of windows, or of shifted tensors."""
    if isinstance(node, l1.Move):
        return prod(node.out.shape)
    return prod(e for _, e in node.dims) if any(len(a.terms) > 1 for m in node.in_maps for a in m) else 0


def _padded(tensor: l1.Tensor, lanes: int) -> int:
    """Elements of a tensor with the batch in its lanes, if any."""
    if not tensor.batched or not lanes:
        return prod(tensor.shape)
    return rounded(tensor.shape[0], lanes) * prod(tensor.shape[1:])


def _product(
    node: l1.Contract, tensors: Mapping[str, l1.Tensor], lanes: int, real: int, capabilities: Capabilities
) -> float:
    """Vector operations of a contraction."""
    strategies = capabilities.strategies if lanes else capabilities.strategies & ROWS
    choice, _ = choose(node, tensors, lanes, real, strategies, capabilities.device)
    if choice is not None:
        return choice.microseconds * OPERATIONS_PER_US
    if not lanes:
        return row_nest(node, real)
    products = float(prod(e for _, e in node.dims))
    batch = next((tensors[n].shape[0] for n in node.ins if tensors[n].batched), lanes)
    return products * rounded(batch, lanes) / batch / lanes * NEST
