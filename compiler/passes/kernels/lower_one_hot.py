"""lower_one_hot: one-hot contractions become gathers of rows of tables, and their gradients scatter-adds (one_hot.py).

Assumes: nodes that `row_read` or `rows_added` recognise.
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
from compiler.expr.ast import Cond, Num, Ref
from compiler.ir.space import Affine, plain_dim
from compiler.layout.assign_layouts import strides_of
from compiler.passes.kernels.fuse_epilogues import Epilogue
from compiler.passes.kernels.lower_epilogues import lower_end
from compiler.passes.kernels.nest_builder import Loops, Walk
from compiler.passes.kernels.one_hot import Lookup
from compiler.passes.kernels.tensor_phase import Phase, array_formal, axes_of, emit_row, meaning
from compiler.passes.program.decisions import Decision

ROW = "row"
"""The local that holds a row's number."""


def lower_row_read(
    p: Phase, node: l1.Contract, lookup: Lookup, epilogue: Epilogue | None, in_place: Mapping[str, str]
) -> None:
    """A gather: one map over the output's elements."""
    _decided(p, node, "rows are read", "one term of each sum counts")
    end = lower_end(p, node, epilogue, in_place)
    walks = [t.walk for t in end.arrays]
    tables: dict[str, tuple[l1.Tensor, tuple[Affine, ...]]] = {}
    for k, (name, axes) in enumerate(zip(node.ins, node.in_maps, strict=True)):
        if lookup.rows in map(plain_dim, axes):
            tables[f"x{k}"] = (p.tensors[name], axes)
        else:
            walks.append(Walk(f"x{k}", p.tensors[name], axes))
    loops = _loops(p, walks, [d for d in node.dims if d[0] != lookup.rows])
    columns = dict(loops.columns)
    result = end.arrays[0].walk.tensor
    formals = [array_formal(t.walk, t.dtype, t.mode, loops, result) for t in end.arrays]
    for k, name in enumerate(node.ins):
        formal, dtype = f"x{k}", p.dtype(p.tensors[name])
        if formal in tables:
            access = _at_row(p, formal, *tables[formal], lookup.rows, columns)
            formals.append(l2.ArrayFormal(formal, dtype, l2.Mode.READ, access, meaning(p.tensors[name], result)))
        else:
            walk = next(w for w in walks if w.formal == formal)
            formals.append(array_formal(walk, dtype, l2.Mode.READ, loops, result))
    bound = {t.walk.formal: t.array for t in end.arrays} | {f"x{k}": p.arrays[n] for k, n in enumerate(node.ins)}
    statements = (l2.Assign(ROW, Ref(f"x{lookup.index}")), l2.Assign("acc", lookup.value, node.span), *end.statements)
    scalars = tuple(end.scalars.items())
    nest = l2.Nest(loops.dims, statements)
    emit_row(p, l2.Kind.MAP, result, "rows", formals, bound, columns, scalars, nest, node.span)


def lower_rows_added(p: Phase, node: l1.Contract, lookup: Lookup) -> None:
    """A scatter-add: zeros, then the sums."""
    way = "in order" if p.ordered else "by each place that asks for it, as additions of a launch have no order"
    _decided(p, node, "rows are added to", way)
    out = node.out
    array = p.arrays[out.name] = p.temporary(out, node.span)
    dims = [(f"d{a}", e) for a, e in enumerate(out.shape)]
    whole = Walk("y", out, axes_of(out))
    flat = p.loops([whole], dims, [d for d, _ in dims])
    zeros = l2.Nest(flat.dims, (l2.Assign("y", Num(0.0), node.span),))
    y = array_formal(whole, p.builder.precision, l2.Mode.WRITE, flat)
    emit_row(p, l2.Kind.MAP, out, "zeros", [y], {"y": array}, flat.columns, (), zeros, node.span)

    summed = [d for d in node.dims if d[0] not in {plain_dim(a) for a in node.out_map}]
    kept = [d for d in node.dims if d not in summed and d[0] != lookup.rows]
    walks = [Walk(f"x{k}", p.tensors[n], axes) for k, (n, axes) in enumerate(zip(node.ins, node.in_maps, strict=True))]
    bound = {"y": array} | {f"x{k}": p.arrays[n] for k, n in enumerate(node.ins)}
    index = f"x{lookup.index}"
    if p.ordered:
        loops = _loops(p, walks, [*summed, *kept])
        nest = l2.Nest(loops.dims, (l2.Assign(ROW, Ref(index)), l2.Add("y", lookup.value, node.span)))
        mode, kind = l2.Mode.ACCUMULATE, l2.Kind.MAP
    else:
        asked = [(f"at_{d}", e) for d, e in summed]
        renamed = tuple(Affine(((f"at_{plain_dim(a)}", 1),)) for a in node.in_maps[lookup.index])
        asking = {plain_dim(a) for a in renamed}
        walks.append(Walk("place", p.tensors[node.ins[lookup.index]], renamed))
        bound["place"] = bound[index]
        loops = _loops(p, walks, [*(d for d in asked if d[0] in asking), *kept, *summed], [d for d, _ in summed])
        term = Cond(Ref(index).eq(Ref(ROW)), lookup.value, Num(0.0))
        prologue, epilogue = (l2.Assign(ROW, Ref("place")),), (l2.Assign("y", Ref("acc"), node.span),)
        nest = l2.Nest(loops.dims, prologue, "add", term, "acc", epilogue)
        mode, kind = l2.Mode.WRITE, l2.Kind.REDUCE
    columns = dict(loops.columns)
    access = _at_row(p, "y", out, node.out_map, lookup.rows, columns)
    formals = [l2.ArrayFormal("y", p.builder.precision, mode, access, meaning(out, out))]
    formals += [array_formal(w, p.dtype(w.tensor), l2.Mode.READ, loops, out) for w in walks]
    emit_row(p, kind, out, "sums of rows", formals, bound, columns, node.scalars, nest, node.span)


def _decided(p: Phase, node: l1.Contract, verdict: str, reason: str) -> None:
    p.decisions.append(Decision("lower_lookups", f"{p.graph.phase}: {node.out.name}", verdict, reason))


def _loops(p: Phase, walks: Sequence[Walk], dims: Sequence[tuple[str, int]], summed: Sequence[str] = ()) -> Loops:
    names = [d for d, _ in dims]
    return p.loops(walks, dims, [d for d in names if d not in summed], separate=frozenset(names))


def _at_row(
    p: Phase, formal: str, tensor: l1.Tensor, axes: tuple[Affine, ...], rows: str, columns: dict[str, int]
) -> l2.Strided:
    """The element of a tensor without a batch where the local ROW stands for the dim `rows`."""
    found = []
    for a, (axis, stride) in enumerate(zip(axes, strides_of(tensor, p.lanes), strict=True)):
        dim = plain_dim(axis)
        assert dim is not None
        by: int | str = stride
        if a < len(axes) - 1:
            by = f"{formal}_by{a}"
            columns[by] = stride
        extent = None
        if dim == rows:
            extent = f"{formal}_rows"
            columns[extent] = tensor.shape[a]
        found.append(l2.Axis(((ROW if dim == rows else dim, 1),), 0, 1, extent, by))
    return l2.Strided(tuple(found))
