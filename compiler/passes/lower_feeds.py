"""lower_feeds: what brings data into a phase: batches of the data set, the batch mask, random numbers, first weights.

Assumes: the host writes the order of samples (`order_array`) before an epoch: i32 [batches * batch], a row of the
data set for each place, -1 where a short last batch has none; step s of the phase reads batch (s - 1) mod batches.
Guarantees: places without a sample, and lanes beyond the batch, read 0, and 0 in the mask. Draws are keyed by
(seed, path), counted by (step, row-major element), so no layout or batch size of another tensor changes them.
Does not: shuffle or split.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref
from compiler.ir.graph import BatchMask, Feed, Rand, Tensor, Weight
from compiler.ir.program import (
    ArrayFormal,
    Assign,
    Axis,
    ColumnValue,
    Dim,
    DimKind,
    Formal,
    Mode,
    Nest,
    ScalarFormal,
    StreamKey,
    Strided,
)
from compiler.ir.space import DType, along
from compiler.passes.blocks import ELEMENT_NUMBER, Block, Known, Loop, Scalar
from compiler.passes.lower_nest import BLOCK, LANE, LoweredNest, Machine
from compiler.source import Span

SAMPLE = "sample"


def order_array(phase: str) -> str:
    """The array that holds the order of samples of a phase."""
    return "batch.order" if phase == "train" else f"batch.order.{phase}"


def _gather(
    out: Tensor, machine: Machine, order: str, batches: int, source: tuple[str, DType, int] | None, value: Expr
) -> LoweredNest:
    """`value` at every element of `out`, with `sample` the row of the data set that its place holds (or -1) and `x0`
    that row's element. `source`: array, element type and rows of the data set."""
    batch, lanes = out.shape[0], machine.lanes
    features = math.prod(out.shape[1:])
    inner = len(out.shape) > 1
    scalars: dict[str, ColumnValue] = {"batch": batch, "batches": batches}
    dims: list[Dim] = []
    if lanes:
        scalars["n_b"] = -(-batch // lanes)
        dims.append(Dim(BLOCK, "n_b"))
        place = ((BLOCK, lanes), (LANE, 1))
    else:
        dims.append(Dim("n", "batch"))
        place = (("n", 1),)
    if inner:
        scalars["n_i"] = features
        dims.append(Dim("i", "n_i"))
    if lanes:
        dims.append(Dim(LANE, lanes, DimKind.LANE))
    feature = (Axis((("i", 1),)),) if inner else ()
    stride: int | str = "n_i" if inner else 1
    if lanes:
        width: int | str = lanes
        if inner:
            width, scalars["s_b"] = "s_b", features * lanes
        spread = (Axis((("i", 1),), stride=lanes),) if inner else ()
        write = Strided((Axis(((BLOCK, 1),), stride=width), *spread, Axis(((LANE, 1),))))
    else:
        write = Strided((Axis((("n", 1),), stride=stride), *feature))
    bounded = Axis(place, extent="batch")
    dtype = DType.I32 if out.dtype == "int" else machine.precision
    formals: list[Formal] = [
        ArrayFormal("order", DType.I32, Mode.READ, Strided((Axis((("first", 1),)), bounded))),
    ]
    arrays = {"order": order, "y0": out.name}
    if source is not None:
        array, kind, rows = source
        scalars["samples"] = rows
        where = Strided((Axis(((SAMPLE, 1),), extent="samples", stride=stride), *feature))
        formals.append(ArrayFormal("x0", kind, Mode.READ, where))
        arrays["x0"] = array
    formals.append(ArrayFormal("y0", dtype, Mode.WRITE, write))
    formals += [ScalarFormal(n, DType.I64) for n in scalars]
    step = Binary("-", Ref("step"), Num(1))
    first = Binary("*", Binary("%", step, Ref("batches")), Ref("batch"))
    nest = Nest(
        tuple(dims),
        (Assign("first", first), Assign(SAMPLE, Ref("order")), Assign("y0", value)),
        fill=-1.0,
    )
    return LoweredNest(tuple(formals), nest, arrays, scalars)


def lower_feed(node: Feed, machine: Machine, order: str, batches: int, rows: int) -> LoweredNest:
    """A batch of one input; `rows`: samples in the data set."""
    kind = DType.I32 if node.out.dtype == "int" else machine.precision
    value: Expr = Ref("x0")
    zero: Expr = Num(0)
    if node.out.dtype == "real":
        value, zero = Binary("*", Ref("x0"), Ref("scale")), Num(0.0)
    there = Binary(">=", Ref(SAMPLE), Num(0))
    done = _gather(node.out, machine, order, batches, (node.array, kind, rows), Cond(there, value, zero))
    if node.out.dtype == "real":
        formals = (*done.formals, ScalarFormal("scale", machine.precision))
        return LoweredNest(formals, done.nest, done.arrays, {**done.scalars, "scale": float(node.scale)})
    return done


def lower_mask(node: BatchMask, machine: Machine, order: str, batches: int) -> LoweredNest:
    """1 for places with a sample, 0 elsewhere."""
    value = Cond(Binary(">=", Ref(SAMPLE), Num(0)), Num(1.0), Num(0.0))
    return _gather(node.out, machine, order, batches, None, value)


def _drawn(name: str, tensor: Tensor, known: Known, value: Expr, scalars: tuple[Scalar, ...], span: Span) -> Block:
    dims = tuple(Loop(f"i{a}", n) for a, n in enumerate(tensor.shape))
    out = known.operand("y0", name, tuple(along(d.name) for d in dims), Mode.WRITE)
    return Block(name, "map", dims, (out,), (Assign("y0", value, span),), scalars=scalars, span=span)


def _uniform(path: str) -> tuple[Expr, Scalar]:
    return Call("uniform", (Ref("key"), Ref(ELEMENT_NUMBER), Num(0))), Scalar("key", StreamKey(path), DType.U64)


def rand_block(node: Rand, known: Known) -> Block:
    """Uniform numbers of this step."""
    value, key = _uniform(node.stream)
    return _drawn(node.out.name, node.out, known, value, (key,), node.span)


def weight_block(node: Weight, known: Known) -> Block:
    """The first value of a weight drawn uniformly in [-bound, bound)."""
    draw, key = _uniform(node.out.name)
    value = Binary("*", Ref("bound"), Binary("-", Binary("*", Num(2.0), draw), Num(1.0)))
    scalars = (key, Scalar("bound", float(node.init_args[0])))
    return _drawn(node.out.name, node.out, known, value, scalars, node.span)
