"""pick_in_rows: an element that an index picks in a row becomes a sum over the row, of which one term counts, where the
threads of a kernel have the row anyway.

Assumes: a graph in topological order, for a target whose threads go on with a row (Capabilities.rows).
Guarantees: a Gather of an element in its own row, where a reduction of such rows begins a kernel (fuse_rows.fits), is a
Contract that compares every place with the index, so that it joins that kernel, as loss and gradient do. The value is
the same: all other terms are 0. Elsewhere it stays a Gather, which reads one element where a sum reads all of them.
Does not: fuse.
"""

from __future__ import annotations

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Cond, Num, Ref
from compiler.ir.level1.builder import axis_dims
from compiler.ir.level2.target import Target
from compiler.ir.space import along
from compiler.passes.fusion.fuse_rows import fits
from compiler.passes.fusion.fuse_sums import reads_plainly, whole_operands
from compiler.passes.program.decisions import Decision


def pick_in_rows(nodes: tuple[l1.Node, ...], device: Target) -> tuple[tuple[l1.Node, ...], list[Decision]]:
    """The graph, and the decision about each such Gather."""
    tensors = l1.tensors_of(nodes)
    shared = {
        (name, node.out.shape)
        for node in nodes
        if isinstance(node, l1.Contract) and reads_plainly(node) and fits(node, device)
        for name, _ in whole_operands(node)
    }
    result: list[l1.Node] = []
    decisions: list[Decision] = []
    for node in nodes:
        if isinstance(node, l1.Gather) and node.own:
            inside = (node.table, node.out.shape) in shared
            verdict = "summed over its row" if inside else "read where it stands"
            why = "whose elements threads of one kernel have" if inside else "no kernel has the row in its threads"
            decisions.append(Decision("pick_in_rows", node.out.name, verdict, why))
            node = _masked(node, tensors[node.table]) if inside else node
        result.append(node)
    return tuple(result), decisions


def _masked(node: l1.Gather, table: l1.Tensor) -> l1.Contract:
    axes = tuple(along(d) for d, _ in axis_dims(table.shape))
    body = Cond(Ref(axes[-1].terms[0][0]).eq(Ref("x1")), Ref("x0"), Num(0.0))
    ins, maps = (node.table, node.index), (axes, axes[:-1])
    return l1.Contract(node.out, axis_dims(table.shape), axes[:-1], ins, maps, body, span=node.span)
