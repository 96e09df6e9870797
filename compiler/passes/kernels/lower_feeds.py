"""lower_feeds: the sources of a phase: batches of the data set, the mask of valid rows, random tensors.

Assumes: the host writes `<phase>.order`: for each batch of an epoch the example of each row, -1 for padding.
Guarantees: gathered on the device of the program, in any layout; random numbers are keyed by logical element, not by
layout.
Does not: shuffle.
"""

from __future__ import annotations

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.ir.space import DType, Role
from compiler.passes.kernels.nest_builder import LANE
from compiler.passes.kernels.tensor_phase import Phase, emit_row
from compiler.passes.layers.load_data import DataSet


def _gather_dims(p: Phase, tensor: l1.Tensor) -> tuple[tuple[l2.Dim, ...], l2.Strided, dict[str, int], Expr, int]:
    """Loops over rows and features of a batched tensor; its access, columns, row number and padded rows."""
    features = 1
    for extent in tensor.shape[1:]:
        features *= extent
    rows = tensor.shape[0]
    columns = {"n_f": features}
    if not p.lanes:
        columns["n_row"] = rows
        dims: tuple[l2.Dim, ...] = (l2.Dim("row", "n_row"), l2.Dim("f", "n_f"))
        axes = (l2.Axis((("row", 1),), stride="n_f"), l2.Axis((("f", 1),)))
        return dims, l2.Strided(axes), columns, Ref("row"), rows
    blocks = -(-rows // p.lanes)
    columns["n_block"] = blocks
    columns["by_block"] = features * p.lanes
    dims = (l2.Dim("block", "n_block"), l2.Dim("f", "n_f"), l2.Dim(LANE, p.lanes, l2.DimKind.LANE))
    axes_l = (
        l2.Axis((("block", 1),), stride="by_block"),
        l2.Axis((("f", 1),), stride=p.lanes),
        l2.Axis(((LANE, 1),)),
    )
    number = Ref("block") * p.lanes + Ref(LANE)
    return dims, l2.Strided(axes_l), columns, number, blocks * p.lanes


def lower_feed(p: Phase, node: l1.Feed | l1.BatchMask, data: DataSet) -> None:
    """Rows of the data set in the order that the host wrote. Padding rows (-1) read the first example: the mask
    excludes them from every sum, and values that occur in the data cannot make a derivative infinite, as zeros
    could."""
    out = node.out
    dims, access, columns, number, padded = _gather_dims(p, out)
    batches = -(-max(data.rows[p.graph.phase], 1) // out.shape[0])
    order = f"{p.graph.phase}.order"
    if order not in p.builder.arrays:
        p.builder.array(l2.Array(order, DType.I32, (batches, padded), Role.DATA))
    columns |= {"batches": batches, "padded": padded}
    position = (Ref("step") - 1) % Ref("batches") * Ref("padded") + number
    bound = {"y": p.temporary(out, getattr(node, "span", data.span)), "order": order}
    p.arrays[out.name] = bound["y"]
    look = l2.ArrayFormal("order", DType.I32, l2.Mode.READ, l2.Strided((l2.Axis((("k", 1),)),)))
    dtype = p.builder.arrays[bound["y"]].dtype
    formals = [l2.ArrayFormal("y", dtype, l2.Mode.WRITE, access), look]
    scalars: tuple[tuple[str, float], ...] = ()
    if isinstance(node, l1.BatchMask):
        value: Expr = Cond(Ref("order") >= 0, Num(1.0), Num(0.0))
        statements: tuple[l2.Statement, ...] = (l2.Assign("k", position), l2.Assign("y", value))
        dims = tuple(d for d in dims if d.name != "f")
        axes = tuple(a for a in access.axes if a.terms[0][0] != "f")
        if not p.lanes:
            axes = (l2.Axis((("row", 1),)),)
            columns.pop("n_f")
        else:
            columns.pop("n_f")
            columns.pop("by_block")
            axes = (l2.Axis((("block", 1),), stride=p.lanes), l2.Axis(((LANE, 1),)))
        formals[0] = l2.ArrayFormal("y", dtype, l2.Mode.WRITE, l2.Strided(axes))
        label = "rows that exist"
    else:
        bound["data"] = node.array
        read = l2.Strided((l2.Axis((("example", 1),), stride="n_f"), l2.Axis((("f", 1),))))
        formals.append(l2.ArrayFormal("data", p.builder.arrays[node.array].dtype, l2.Mode.READ, read))
        element: Expr = Ref("data")
        if out.dtype == "real":
            element = element * Ref("factor")
            scalars = (("factor", node.scale),)
        statements = (
            l2.Assign("k", position),
            l2.Assign("example", Call("max", (Ref("order"), Num(0)))),
            l2.Assign("y", element),
        )
        label = "batch of " + node.array
    emit_row(
        p,
        l2.Kind.MAP,
        out,
        label,
        formals,
        bound,
        columns,
        scalars,
        l2.Nest(dims, statements),
        getattr(node, "span", data.span),
    )


def lower_rand(p: Phase, node: l1.Rand) -> None:
    """Uniform draws at (step, logical row-major index), independent of the layout."""
    dims, access, columns, number, _ = _gather_dims(p, node.out)
    index = number * Ref("n_f") + Ref("f")
    array = p.temporary(node.out, node.span)
    p.arrays[node.out.name] = array
    emit_row(
        p,
        l2.Kind.MAP,
        node.out,
        "uniform draws",
        [l2.ArrayFormal("y", p.builder.precision, l2.Mode.WRITE, access)],
        {"y": array},
        columns,
        (),
        l2.Nest(dims, (l2.Assign("y", Call("uniform", (Ref("key"), index, Num(0)))),)),
        node.span,
        {"key": l2.StreamKey(node.stream)},
    )
