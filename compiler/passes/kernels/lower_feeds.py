"""lower_feeds: the sources of a phase: batches of the data set, the mask of valid rows, random tensors.

Assumes: the host writes `<phase>.order`: for each batch of an epoch the example of each row, -1 for padding.
Guarantees: gathered on the device of the program, in any layout; random numbers are keyed by logical element, not by
layout.
Does not: shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.ir.space import DType, Role
from compiler.passes.kernels.nest_builder import LANE
from compiler.passes.kernels.tensor_phase import Phase, emit_row
from compiler.passes.layers.load_data import DataSet


@dataclass(frozen=True)
class _Rows:
    """Loops over the rows and features of a batched tensor: dims, the axes of an access, columns; the number of a row,
    and how many there are, with padding and without."""

    dims: tuple[l2.Dim, ...]
    axes: tuple[l2.Axis, ...]
    columns: dict[str, int]
    number: Expr
    padded: int
    count: int


def _rows(p: Phase, tensor: l1.Tensor, steps: int = 0) -> _Rows:
    """Those of one step after another, where there are `steps`."""
    features, rows = prod(tensor.shape[1:]), tensor.shape[0] // max(steps, 1)
    columns = {"n_f": features}
    dims: tuple[l2.Dim, ...] = (l2.Dim("f", "n_f"),)
    by_step: tuple[l2.Axis, ...] = ()
    if steps:
        columns |= {"n_t": steps, "by_t": rows * features, "by_example": steps * features}
        dims, by_step = (l2.Dim("t", "n_t"), *dims), (l2.Axis((("t", 1),), stride="by_t"),)
    if not p.lanes:
        columns["n_row"] = rows
        axes = (l2.Axis((("row", 1),), stride="n_f"), *by_step, l2.Axis((("f", 1),)))
        return _Rows((l2.Dim("row", "n_row"), *dims), axes, columns, Ref("row"), rows, rows)
    blocks = -(-rows // p.lanes)
    columns |= {"n_block": blocks, "by_block": features * p.lanes}
    axes = (
        l2.Axis((("block", 1),), stride="by_block"),
        *by_step,
        l2.Axis((("f", 1),), stride=p.lanes),
        l2.Axis(((LANE, 1),)),
    )
    dims = (l2.Dim("block", "n_block"), *dims, l2.Dim(LANE, p.lanes, l2.DimKind.LANE))
    return _Rows(dims, axes, columns, Ref("block") * p.lanes + Ref(LANE), blocks * p.lanes, rows)


def _ordered(p: Phase, out: l1.Tensor, rows: _Rows, data: DataSet, span: Span) -> tuple[dict[str, str], l2.ArrayFormal]:
    """The arrays of a result and of the order of rows, which are columns, too; the formal of the result."""
    batches = -(-max(data.rows[p.graph.phase], 1) // rows.count)
    order = f"{p.graph.phase}.order"
    if order not in p.builder.arrays:
        p.builder.array(l2.Array(order, DType.I32, (batches, rows.padded), Role.DATA))
    rows.columns.update(batches=batches, padded=rows.padded)
    array = p.arrays[out.name] = p.temporary(out, span)
    return {"y": array, "order": order}, l2.ArrayFormal("y", p.dtype(out), l2.Mode.WRITE, l2.Strided(rows.axes))


_ORDER = l2.ArrayFormal("order", DType.I32, l2.Mode.READ, l2.Strided((l2.Axis((("k", 1),)),)))


def _position(rows: _Rows) -> l2.Assign:
    return l2.Assign("k", (Ref("step") - 1) % Ref("batches") * Ref("padded") + rows.number)


def lower_source(p: Phase, node: l1.Feed | l1.BatchMask | l1.Rand, data: DataSet) -> None:
    match node:
        case l1.Feed():
            _feed(p, node, data)
        case l1.BatchMask():
            _mask(p, node, data)
        case l1.Rand():
            _rand(p, node)


def _mask(p: Phase, node: l1.BatchMask, data: DataSet) -> None:
    """1 for the rows that exist."""
    rows = _rows(p, node.out)
    columns = {"n_row": rows.count} if not p.lanes else {"n_block": rows.columns["n_block"]}
    lead = l2.Axis(((rows.dims[0].name, 1),), stride=p.lanes or 1)
    dims = tuple(d for d in rows.dims if d.name != "f")
    rows = replace(rows, dims=dims, axes=(lead, *rows.axes[2:]), columns=columns)
    bound, y = _ordered(p, node.out, rows, data, data.span)
    nest = l2.Nest(rows.dims, (_position(rows), l2.Assign("y", Cond(Ref("order") >= 0, Num(1.0), Num(0.0)))))
    emit_row(p, node.out, "rows that exist", [y, _ORDER], bound, columns, (), nest, data.span)


def _feed(p: Phase, node: l1.Feed, data: DataSet) -> None:
    """Rows of the data set in the order that the host wrote. Padding rows (-1) read the first example: the mask
    excludes them from every sum, and values that occur in the data cannot make a derivative infinite, as zeros
    could."""
    rows = _rows(p, node.out, node.steps)
    bound, y = _ordered(p, node.out, rows, data, node.span)
    bound["data"] = node.array
    example = l2.Axis((("example", 1),), stride="by_example" if node.steps else "n_f")
    by_step = (l2.Axis((("t", 1),), stride="n_f"),) if node.steps else ()
    access = l2.Strided((example, *by_step, l2.Axis((("f", 1),))))
    formals = [y, _ORDER, l2.ArrayFormal("data", p.builder.arrays[node.array].dtype, l2.Mode.READ, access)]
    element: Expr = Ref("data")
    scalars: tuple[tuple[str, float], ...] = ()
    if node.out.dtype == "real":
        element, scalars = element * Ref("factor"), (("factor", node.scale),)
    first = l2.Assign("example", Call("max", (Ref("order"), Num(0))))
    nest = l2.Nest(rows.dims, (_position(rows), first, l2.Assign("y", element)))
    what = "batch of " + node.array
    emit_row(p, node.out, what, formals, bound, rows.columns, scalars, nest, node.span)


def _rand(p: Phase, node: l1.Rand) -> None:
    """Uniform draws at (step, logical row-major index), independent of the layout."""
    rows = _rows(p, node.out)
    index = rows.number * Ref("n_f") + Ref("f")
    array = p.arrays[node.out.name] = p.temporary(node.out, node.span)
    y = l2.ArrayFormal("y", p.builder.precision, l2.Mode.WRITE, l2.Strided(rows.axes))
    nest = l2.Nest(rows.dims, (l2.Assign("y", Call("uniform", (Ref("key"), index, Num(0)))),))
    bound, key = {"y": array}, {"key": l2.StreamKey(node.stream)}
    emit_row(p, node.out, "uniform draws", [y], bound, rows.columns, (), nest, node.span, key)
