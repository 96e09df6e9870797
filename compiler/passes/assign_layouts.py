"""assign_layouts: which array every tensor lies in, and how.

Assumes: legal graphs; weights and variables of one name are the same in every phase.
Guarantees: a Reindex is another shape of its source's array (features are row-major within a sample, so batched ones
too). Batched arrays have the Lanes layout when the target has lanes, others are row-major. Weights are WEIGHT,
variables STATE (float64 when wide), outputs RECORD (kept for the host), everything else WORK. Intermediate tensors
of one name and shape share an array across phases; when their shapes differ, later phases get arrays of their own.
Does not: place arrays in memory.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.graph import Node, Reindex, Store, Tensor, TensorGraph, Update, Variable, Weight
from compiler.ir.program import Array, Lanes
from compiler.ir.space import DType, Role
from compiler.passes.blocks import Known
from compiler.source import NOWHERE, Span


def _array(node: Node, tensor: Tensor, precision: DType, lanes: int, kept: bool) -> Array:
    role = Role.RECORD if kept else Role.WORK
    dtype = DType.I32 if tensor.dtype == "int" else precision
    if isinstance(node, Weight):
        role = Role.WEIGHT
    elif isinstance(node, Variable):
        role = Role.STATE
        dtype = DType.F64 if node.wide else dtype
    layout = Lanes(lanes) if tensor.batched and lanes else None
    span: Span = getattr(node, "span", NOWHERE)
    return Array(tensor.name, dtype, tensor.shape, role, layout, span=span)


def assign_layouts(
    graphs: tuple[TensorGraph, ...], precision: DType, lanes: int
) -> tuple[tuple[Known, ...], dict[str, Array]]:
    """Per phase what its tensors lie in, and all arrays by name."""
    arrays: dict[str, Array] = {}
    phases: list[Known] = []
    for graph in graphs:
        tensors: dict[str, Tensor] = {}
        roots: dict[str, str] = {}
        for node in graph.nodes:
            if isinstance(node, (Store, Update)):
                continue
            tensor = node.out
            tensors[tensor.name] = tensor
            if isinstance(node, Reindex):
                roots[tensor.name] = roots[node.source]
                continue
            array = _array(node, tensor, precision, lanes, tensor.name in graph.outputs)
            if array.name in arrays and arrays[array.name] != array:
                array = replace(array, name=f"{graph.phase}/{array.name}")
            arrays.setdefault(array.name, array)
            roots[tensor.name] = array.name
        for name in graph.outputs:
            root = arrays[roots[name]]
            if root.role is Role.WORK:
                arrays[root.name] = replace(root, role=Role.RECORD)
        wide = frozenset(n for n, a in arrays.items() if a.dtype is DType.F64 and a.role is Role.STATE)
        phases.append(Known(tensors, roots, wide))
    return tuple(phases), arrays
