"""lower_gathers: rows of tables that integers choose, and their gradients, sums into such rows; elements of rows that
they choose; elements of shifted tensors.

Assumes: a legal graph (Gather, ScatterAdd, Move).
Guarantees: neither time nor memory grows with the rows that are not indexed, except for the zeros of a gradient. An
index out of range reads 0 and adds nothing. Additions: where those of one launch are ordered
(Capabilities.atomic_order), in the order of the positions. Elsewhere each position sums over all positions with its
index, and positions with one index write the same value; without lanes that is the same order, so that the bits are the
same.
Does not: have an epilogue on a scatter-add: its sums are complete only after the launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.expr.ast import Cond, Expr, Num, Ref
from compiler.ir.level1.builder import axis_dims
from compiler.ir.space import Affine, along
from compiler.passes.fusion.fuse_epilogues import Epilogue
from compiler.passes.kernels.lower_epilogues import lower_end
from compiler.passes.kernels.nest_builder import ROW, Loops, Walk
from compiler.passes.kernels.tensor_phase import Phase, Place, Touched, axes_of, emit_walked
from compiler.passes.program.decisions import Decision

Dims = list[tuple[str, int]]


def _dims(index: l1.Tensor, table: l1.Tensor) -> tuple[Dims, Dims]:
    """Of the positions, and of the elements of a row."""
    row = [(f"e{a or ''}", extent) for a, extent in enumerate(table.shape[1:])]
    return [(f"d{a}", extent) for a, extent in enumerate(index.shape)], row


def _along(dims: Dims, begin: str = "") -> tuple[Affine, ...]:
    return tuple(along(f"{begin}{d}") for d, _ in dims)


def lower_elements(
    p: Phase,
    node: l1.Gather | l1.ScatterAdd | l1.Move | l1.StepsFirst,
    epilogue: Epilogue | None,
    in_place: Mapping[str, str],
) -> None:
    """The kernels of one node, or where it lies."""
    match node:
        case l1.Gather():
            _gather(p, node, epilogue, in_place)
        case l1.ScatterAdd():
            _scatter_add(p, node)
        case l1.Move() | l1.StepsFirst() if node.out.name in p.slices:
            _slice(p, node)
        case l1.Move() if node.out.name not in p.joined:
            _move(p, node, epilogue, in_place)


def _slice(p: Phase, node: l1.Move | l1.StepsFirst) -> None:
    """Where its elements lie."""
    name, whole = node.out.name, p.builder.arrays[p.arrays[l1.operands(node)[0]]]
    p.places[name] = Place(whole.within or whole.name, whole.first + p.slices[name])
    p.arrays[name] = p.temporary(node.out, node.span)


def _move(p: Phase, node: l1.Move, epilogue: Epilogue | None, in_place: Mapping[str, str]) -> None:
    """One map over the output's elements. Every axis along which an operand differs in place or extent is guarded."""
    shape, operands = node.out.shape, [p.tensors[n] for n in node.ins]
    moved = list(zip(operands, node.offsets, strict=True))
    shifted = frozenset(a for a in range(len(shape)) if any(at[a] or t.shape[a] != shape[a] for t, at in moved))
    dims = axis_dims(shape)
    end = lower_end(p, node, axes_of(node.out), epilogue, in_place)
    walks = [
        Walk(f"x{k}", t, tuple(Affine(((d, 1),), by) for (d, _), by in zip(dims, at, strict=True)), guarded=shifted)
        for k, (t, at) in enumerate(moved)
    ]
    first, *others = end.arrays
    arrays = [first, *map(p.touched, walks), *others]
    loops = p.loops([t.walk for t in arrays], dims, [d for d, _ in dims])
    value: Expr = Ref("x0")
    for w in walks[1:]:
        value = value + Ref(w.formal)
    nest = l2.Nest(loops.dims, (l2.Assign("acc", value, node.span), *end.statements), fill=node.fill)
    emit_walked(p, first.walk.tensor, "moved", arrays, loops, nest, node.span, tuple(end.scalars.items()))


def _gather(p: Phase, node: l1.Gather, epilogue: Epilogue | None, in_place: Mapping[str, str]) -> None:
    """One map over the output's elements."""
    _decided(p, node, f"{'elements' if node.own else 'rows'} are read", "one for each position")
    index, table = p.tensors[node.index], p.tensors[node.table]
    places, row = _dims(index, table)
    if node.own:
        row, read = [], Walk("x1", table, (*_along(places), along(ROW)), chosen=len(places))
    else:
        read = Walk("x1", table, (along(ROW), *_along(row)), chosen=0)
    end = lower_end(p, node, _along([*places, *row]), epilogue, in_place)
    arrays = [*end.arrays, p.touched(Walk("x0", index, _along(places))), p.touched(read)]
    loops = _loops(p, arrays, [*places, *row])
    statements = (l2.Assign(ROW, Ref("x0")), l2.Assign("acc", Ref("x1"), node.span), *end.statements)
    nest, what = l2.Nest(loops.dims, statements), "elements" if node.own else "rows"
    emit_walked(p, arrays[0].walk.tensor, what, arrays, loops, nest, node.span, tuple(end.scalars.items()))


def _scatter_add(p: Phase, node: l1.ScatterAdd) -> None:
    """Zeros, then the sums."""
    way = "in order" if p.ordered else "by each place that asks for it, as additions of a launch have no order"
    _decided(p, node, "rows are added to", way)
    out = node.out
    p.arrays[out.name] = p.temporary(out, node.span)
    _zeros(p, node)
    source, index = p.tensors[node.source], p.tensors[node.index]
    places, row = _dims(index, out)
    added = Walk("y", out, (along(ROW), *_along(row)), chosen=0)
    mode = l2.Mode.ACCUMULATE if p.ordered else l2.Mode.WRITE
    read = (Walk("x0", source, _along([*places, *row])), Walk("x1", index, _along(places)))
    arrays = [p.touched(added, mode), *map(p.touched, read)]
    if p.ordered:
        loops = _loops(p, arrays, [*places, *row])
        nest = l2.Nest(loops.dims, (l2.Assign(ROW, Ref("x1")), l2.Add("y", Ref("x0"), node.span)))
    else:
        arrays.append(p.touched(Walk("place", index, _along(places, "at_"))))
        asking = [(f"at_{d}", e) for d, e in places]
        loops = _loops(p, arrays, [*asking, *row, *places], [d for d, _ in places])
        term = Cond(Ref("x1").eq(Ref(ROW)), Ref("x0"), Num(0.0))
        prologue, epilogue = (l2.Assign(ROW, Ref("place")),), (l2.Assign("y", Ref("acc"), node.span),)
        nest = l2.Nest(loops.dims, prologue, "add", term, "acc", epilogue)
    emit_walked(p, out, "sums of rows", arrays, loops, nest, node.span)


def _zeros(p: Phase, node: l1.ScatterAdd) -> None:
    dims, y = axis_dims(node.out.shape), p.touched(Walk("y", node.out, axes_of(node.out)), l2.Mode.WRITE)
    flat = p.loops([y.walk], dims, [d for d, _ in dims])
    zeros = l2.Nest(flat.dims, (l2.Assign("y", Num(0.0), node.span),))
    emit_walked(p, node.out, "zeros", [y], flat, zeros, node.span)


def _decided(p: Phase, node: l1.Gather | l1.ScatterAdd, verdict: str, reason: str) -> None:
    p.decisions.append(Decision("lower_gathers", f"{p.graph.phase}: {node.out.name}", verdict, reason))


def _loops(p: Phase, arrays: Sequence[Touched], dims: Dims, summed: Sequence[str] = ()) -> Loops:
    names = [d for d, _ in dims]
    return p.loops([t.walk for t in arrays], dims, [d for d in names if d not in summed], separate=frozenset(names))
