"""lower_parts: the rows of all steps of a sequence as one array; rows of each step are a part of it.

Assumes: Stacks and Parts in topological order; row-major arrays, or lanes that divide the rows of a part.
Guarantees: a Part is a part of its source's array. A part of a Stack is made in its place by the kernel that computes
it, in the first Stack that has it; one that the host reads, that a Store takes or that no kernel of this phase makes is
copied. A StepsFirst is one copy.
Does not: choose layouts (strategies/layout.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from math import prod

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.expr.ast import Ref
from compiler.ir.space import Role
from compiler.passes.kernels.nest_builder import Walk
from compiler.passes.kernels.tensor_phase import Phase, array_formal, axes_of, emit_row

Moves = l1.Part | l1.Stack | l1.StepsFirst


def places(nodes: Iterable[l1.Node], fixed: Set[str]) -> dict[str, tuple[str, int]]:
    """Tensor -> the Stack that it is made in, and its first element there. `fixed`: tensors that have arrays of their
    own."""
    found: dict[str, tuple[str, int]] = {}
    made: dict[str, l1.Tensor] = {}
    for node in nodes:
        if isinstance(node, l1.Map | l1.Contract | l1.Gather | l1.ScatterAdd | l1.Move):
            made[node.out.name] = node.out
        elif isinstance(node, l1.Stack) and node.out.name not in fixed:
            for k, name in enumerate(node.ins):
                part = made.get(name)
                if part is not None and name not in fixed and name not in found and part.dtype == node.out.dtype:
                    found[name] = node.out.name, k * prod(part.shape)
    return found


def lower_move(p: Phase, node: Moves) -> None:
    match node:
        case l1.Part():
            p.arrays[node.out.name] = _part(p, node)
        case l1.Stack():
            for k, name in enumerate(node.ins):
                part = p.tensors[name]
                place = node.out.name, k * prod(part.shape)
                if p.places.get(name) != place:
                    copy = replace(part, name=f"{node.out.name}.part_{k}", dtype=node.out.dtype, step=None)
                    p.places[copy.name] = place
                    axes = axes_of(part)
                    _copied(p, copy, Walk("y", copy, axes), part, Walk("x0", part, axes), node.span)
        case l1.StepsFirst():
            source = p.tensors[node.source]
            shape = node.out.shape if node.back else source.shape
            out, given = (replace(t, shape=shape) for t in (node.out, source))
            axes = axes_of(out)
            y, x = Walk("y", out, axes, not node.back), Walk("x0", given, axes, node.back)
            _copied(p, node.out, y, source, x, node.span)


def _part(p: Phase, node: l1.Part) -> str:
    source = p.builder.arrays[p.arrays[node.source]]
    assert source.role is Role.WORK, "the host reads no tensor that has parts"
    first = source.first + node.first * prod(node.out.shape[1:])
    name = p.temporary(node.out, node.span)
    return p.builder.array(replace(p.builder.arrays[name], within=source.within or source.name, first=first))


def _copied(p: Phase, out: l1.Tensor, y: Walk, source: l1.Tensor, x: Walk, span: Span) -> None:
    """A kernel that copies a tensor."""
    p.tensors[out.name] = out
    array = p.arrays[out.name] = p.temporary(out, span)
    dims = [(f"d{a}", extent) for a, extent in enumerate(y.tensor.shape)]
    loops = p.loops([y, x], dims, [d for d, _ in dims])
    formals = [
        array_formal(y, p.dtype(out), l2.Mode.WRITE, loops, out),
        array_formal(x, p.dtype(source), l2.Mode.READ, loops, out),
    ]
    bound = {"y": array, "x0": p.arrays[source.name]}
    nest = l2.Nest(loops.dims, (l2.Assign("y", Ref("x0"), span),))
    emit_row(p, l2.Kind.MAP, out, "copy", formals, bound, loops.columns, (), nest, span)
