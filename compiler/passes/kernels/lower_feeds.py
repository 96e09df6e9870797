"""lower_feeds: what a phase begins with: batches of the data set, the mask of rows that exist, random tensors.

Assumes: the host writes `<phase>.order`: for each batch of an epoch the example of each row, -1 where there is none.
Guarantees: gathered on the device of the program, in any layout; draws are keyed by logical element, not by layout.
Does not: shuffle.
"""

from __future__ import annotations

from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.ir.level1.graph import (
    BatchMask,
    Feed,
    Rand,
    Tensor,
)
from compiler.ir.level2.program import (
    Array,
    ArrayFormal,
    Assign,
    Axis,
    Dim,
    DimKind,
    Kind,
    Mode,
    Nest,
    Statement,
    StreamKey,
    Strided,
)
from compiler.ir.space import DType, Role
from compiler.passes.kernels.nest_builder import LANE
from compiler.passes.kernels.tensor_phase import Phase, emit_row
from compiler.passes.layers.load_data import DataSet


def _gather_dims(p: Phase, tensor: Tensor) -> tuple[tuple[Dim, ...], Strided, dict[str, int], Expr, int]:
    """Loops over rows and features of a batched tensor; its access, columns, row number and padded rows."""
    features = 1
    for extent in tensor.shape[1:]:
        features *= extent
    rows = tensor.shape[0]
    columns = {"n_f": features}
    if not p.lanes:
        columns["n_row"] = rows
        dims: tuple[Dim, ...] = (Dim("row", "n_row"), Dim("f", "n_f"))
        axes = (Axis((("row", 1),), stride="n_f"), Axis((("f", 1),)))
        return dims, Strided(axes), columns, Ref("row"), rows
    blocks = -(-rows // p.lanes)
    columns["n_block"] = blocks
    columns["by_block"] = features * p.lanes
    dims = (Dim("block", "n_block"), Dim("f", "n_f"), Dim(LANE, p.lanes, DimKind.LANE))
    axes_l = (
        Axis((("block", 1),), stride="by_block"),
        Axis((("f", 1),), stride=p.lanes),
        Axis(((LANE, 1),)),
    )
    number = Ref("block") * p.lanes + Ref(LANE)
    return dims, Strided(axes_l), columns, number, blocks * p.lanes


def lower_feed(p: Phase, node: Feed | BatchMask, data: DataSet) -> None:
    """Rows of the data set in the order that the host wrote. Rows that do not exist (-1) read the first example: the
    mask takes them out of every sum, and numbers that occur cannot make a slope infinite, as zeros could."""
    out = node.out
    dims, access, columns, number, padded = _gather_dims(p, out)
    batches = -(-max(data.rows[p.graph.phase], 1) // out.shape[0])
    order = f"{p.graph.phase}.order"
    if order not in p.builder.arrays:
        p.builder.array(Array(order, DType.I32, (batches, padded), Role.DATA))
    columns |= {"batches": batches, "padded": padded}
    position = (Ref("step") - 1) % Ref("batches") * Ref("padded") + number
    bound = {"y": p.temporary(out, getattr(node, "span", data.span)), "order": order}
    p.arrays[out.name] = bound["y"]
    look = ArrayFormal("order", DType.I32, Mode.READ, Strided((Axis((("k", 1),)),)))
    dtype = p.builder.arrays[bound["y"]].dtype
    formals = [ArrayFormal("y", dtype, Mode.WRITE, access), look]
    scalars: tuple[tuple[str, float], ...] = ()
    if isinstance(node, BatchMask):
        value: Expr = Cond(Ref("order") >= 0, Num(1.0), Num(0.0))
        statements: tuple[Statement, ...] = (Assign("k", position), Assign("y", value))
        dims = tuple(d for d in dims if d.name != "f")
        axes = tuple(a for a in access.axes if a.terms[0][0] != "f")
        if not p.lanes:
            axes = (Axis((("row", 1),)),)
            columns.pop("n_f")
        else:
            columns.pop("n_f")
            columns.pop("by_block")
            axes = (Axis((("block", 1),), stride=p.lanes), Axis(((LANE, 1),)))
        formals[0] = ArrayFormal("y", dtype, Mode.WRITE, Strided(axes))
        label = "rows that exist"
    else:
        bound["data"] = node.array
        read = Strided((Axis((("example", 1),), stride="n_f"), Axis((("f", 1),))))
        formals.append(ArrayFormal("data", p.builder.arrays[node.array].dtype, Mode.READ, read))
        element: Expr = Ref("data")
        if out.dtype == "real":
            element = element * Ref("factor")
            scalars = (("factor", node.scale),)
        statements = (
            Assign("k", position),
            Assign("example", Call("max", (Ref("order"), Num(0)))),
            Assign("y", element),
        )
        label = "batch of " + node.array
    emit_row(
        p,
        Kind.MAP,
        f"{out.name}: {label}",
        formals,
        bound,
        columns,
        scalars,
        Nest(dims, statements),
        out.name,
        getattr(node, "span", data.span),
    )


def lower_rand(p: Phase, node: Rand) -> None:
    """Uniform draws at (step, logical row-major index), whatever the layout."""
    dims, access, columns, number, _ = _gather_dims(p, node.out)
    index = number * Ref("n_f") + Ref("f")
    array = p.temporary(node.out, node.span)
    p.arrays[node.out.name] = array
    emit_row(
        p,
        Kind.MAP,
        f"{node.out.name}: uniform draws",
        [ArrayFormal("y", p.builder.precision, Mode.WRITE, access)],
        {"y": array},
        columns,
        (),
        Nest(dims, (Assign("y", Call("uniform", (Ref("key"), index, Num(0)))),)),
        node.out.name,
        node.span,
        {"key": StreamKey(node.stream)},
    )
