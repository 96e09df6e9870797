"""Nodes that several losses and metrics are made of.

Assumes: (batch, ...) tensors; rows are the first axis, or the first `rank` ones.
Guarantees: excluded elements are excluded by a select: they may be infinite or NaN.
Does not: know any loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import compiler.ir.level1.graph as l1
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.ir.level1.builder import FIRST, GraphBuilder, Operand, Scalars, identity
from compiler.losses.kind import Measured, Rows

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))


def chosen(g: GraphBuilder, name: str, values: l1.Tensor, counted: l1.Tensor) -> l1.Tensor:
    """The values, and 0 where `counted`, which has their first axes, is 0: losses and derivatives of 0 are finite."""
    counts = X1.ne(0.0)
    return g.map(name, Cond(counts, X0, Num(0.0)), (identity(values), first_axes(counted)))


def first_axes(counted: l1.Tensor) -> Operand:
    """The operand in a body over more axes than its own."""
    return counted, tuple(range(len(counted.shape)))


def along_lists(m: Measured, name: str, body: Expr, *tensors: l1.Tensor) -> l1.Tensor:
    """The sum along the last axis of tensors of one shape."""
    keep = tuple(range(len(tensors[0].shape) - 1))
    return m.g.reduce(f"{m.name}.{name}", body, [identity(t) for t in tensors], tensors[0], keep)


def largest_score(g: GraphBuilder, name: str, scores: l1.Tensor) -> l1.Tensor:
    """The largest along the last axis."""
    row = tuple(range(len(scores.shape) - 1))
    return g.reduce(f"{name}.largest", X0, (identity(scores),), scores, row, combine="max", fill=-math.inf)


def softmax_parts(g: GraphBuilder, name: str, scores: l1.Tensor) -> tuple[l1.Tensor, l1.Tensor]:
    """Along the last axis the largest score, and the sum of the exponentials of what the scores are more than that."""
    largest, row = largest_score(g, name, scores), tuple(range(len(scores.shape) - 1))
    exponent = Call("exp", (X0 - X1,))
    return largest, g.reduce(f"{name}.total", exponent, (identity(scores), (largest, row)), scores, row)


def first_class(m: Measured) -> l1.Tensor:
    """The first class with the largest score."""
    scores, last = m.prediction, len(m.prediction.shape) - 1
    row, largest = tuple(range(last)), largest_score(m.g, m.name, m.prediction)
    found = Cond(X0.eq(X1), Ref(f"d{last}"), Num(FIRST))
    operands = (identity(scores), (largest, row))
    return m.g.reduce(f"{m.name}.first", found, operands, scores, row, combine="min", fill=math.inf)


def mean_rows(
    g: GraphBuilder,
    name: str,
    body: Expr,
    operands: Sequence[Operand],
    over: l1.Tensor,
    rank: int,
    scalars: Scalars = (),
    summed: int = 0,
    span: Span = NOWHERE,
) -> l1.Tensor:
    """The mean of an expression over all axes but the first `rank` ones; a sum over the last `summed` ones."""
    if rank == len(over.shape):
        whole = body == X0 and operands[0] == identity(over)
        return over if whole else g.map(name, body, operands, like=over, scalars=scalars, span=span)
    share = ("share", 1.0 / math.prod(over.shape[rank : len(over.shape) - summed]))
    part = body * Ref("share")
    return g.reduce(name, part, operands, over, tuple(range(rank)), scalars=(share, *scalars), span=span)


def rows_of(m: Measured, each: l1.Tensor) -> Rows:
    """The losses of rows, of those of their elements."""
    return mean_rows(m.g, f"{m.name}.rows", X0, (identity(each),), each, m.rank), frozenset()
