"""place_parts: what a concatenation joins is computed in its place in the result.

Assumes: nodes in topological order, and the kernels that the passes of compiler/passes/fusion chose.
Guarantees: all operands of a concatenation lie in the result (l2.Array.within), where their kernels write through
strides, and only maps and moves read them; then it has no kernel. Results are the same bits: no sum runs over a part.
Does not: place slices, or what a library stores, or a strategy that computes another contraction instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

import compiler.ir.level1.graph as l1
from compiler.layout.assign_layouts import strides_of
from compiler.passes.fusion.fuse_epilogues import Readers
from compiler.passes.kernels.nest_builder import Part
from compiler.passes.kernels.tensor_phase import Phase, Place
from compiler.passes.program.decisions import Decision

Made = l1.Map | l1.Contract | l1.Gather | l1.Move


def joined_along(node: l1.Move, tensors: Mapping[str, l1.Tensor]) -> int | None:
    """The axis along which a Move puts its operands side by side, in order; None where it does anything else."""
    parts = [(tensors[n], at) for n, at in zip(node.ins, node.offsets, strict=True)]
    axes = [a for a, extent in enumerate(node.out.shape) if any(t.shape[a] != extent for t, _ in parts)]
    if len(parts) < 2 or len(axes) != 1:
        return None
    (axis,), done = axes, 0
    for tensor, at in parts:
        if at[axis] != -done or any(x for a, x in enumerate(at) if a != axis):
            return None
        done += tensor.shape[axis]
    return axis if done == node.out.shape[axis] else None


def place_parts(
    p: Phase,
    nodes: tuple[l1.Node, ...],
    fixed: Set[str],
    ended: Set[str],
    strides: Callable[[str], bool],
) -> None:
    """Reserves the places of all parts in the phase. `fixed`: tensors that have, or give away, an array; `ended`: those
    whose kernels have an epilogue; `strides`: whether the kernel of a tensor writes it element by element."""
    g = Readers(nodes)
    made = {n.out.name for n in nodes if isinstance(n, Made)} - fixed - p.places.keys()
    for node in nodes:
        if not isinstance(node, l1.Move) or node.out.name in ended | fixed | p.places.keys() | p.parts.keys():
            continue
        axis = joined_along(node, p.tensors)
        if axis is None:
            continue
        free = made - p.parts.keys() - p.joined
        apart = [n for n in node.ins if node.ins.count(n) > 1 or n not in free or not _fits(g, node, n, strides)]
        if apart:
            why = f"{apart[0]} is made or read in ways that need its elements side by side"
            p.decisions.append(Decision("place_parts", f"{p.graph.phase}: {node.out.name}", "copied", why))
            continue
        p.joined.add(node.out.name)
        array = p.arrays[node.out.name] = p.temporary(node.out, node.span)
        for name, at in zip(node.ins, node.offsets, strict=True):
            p.parts[name] = Part(node.out, axis)
            p.places[name] = Place(array, -at[axis] * strides_of(node.out, p.lanes)[axis])
        why = "its parts are computed there"
        p.decisions.append(Decision("place_parts", f"{p.graph.phase}: {node.out.name}", "in place", why))


def _fits(g: Readers, node: l1.Move, name: str, strides: Callable[[str], bool]) -> bool:
    """Whether an operand may lie in the result."""
    tensor = g.tensors[name]
    if (tensor.dtype, tensor.batched) != (node.out.dtype, node.out.batched) or not strides(name):
        return False
    if tensor.windows or node.out.windows or tensor.pitch or node.out.pitch:
        return False
    return all(isinstance(g.nodes[at], l1.Map | l1.Move) for at in g.readers[name])
