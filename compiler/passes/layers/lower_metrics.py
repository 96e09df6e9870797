"""lower_metrics: metrics beside the loss, as sums over the valid rows of the batch.

Assumes: the loss (of a sum the first) defines prediction and target; `mask` is the weight of each row, or of each
element of its first axes.
Guarantees: a metric has one or more sums, by name: `accuracy`, or `f1.hits`, ...; compiler/runtime/common/metrics.py
computes metrics from them after an epoch.
Does not: divide.
"""

from __future__ import annotations

import math

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.ir.level1.builder import FIRST, GraphBuilder, Operand, identity
from compiler.ir.space import along

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))


def add_metric(
    g: GraphBuilder, name: str, loss: l0.Loss, named: dict[str, l1.Tensor], mask: l1.Tensor
) -> dict[str, l1.Tensor]:
    """The sums of a metric."""
    prediction, target = named[loss.prediction], named[loss.target]
    if name == "accuracy" and loss.kind == "softmax_cross_entropy":
        return {name: _accuracy(g, prediction, target, mask)}
    if name.startswith("top_"):
        return {name: _top(g, name, int(name.removeprefix("top_")), prediction, target, mask)}
    if name in ("precision", "recall", "f1"):
        if loss.kind == "binary_cross_entropy":
            return _binary_counts(g, name, prediction, target, mask)
        return _class_counts(g, name, prediction, target, mask)
    if name == "confusion":
        return {"confusion.counts": _confusion(g, prediction, target, mask)}
    off = X0 - X1
    if name == "r2":
        bodies: dict[str, Expr] = {"residual": off * off, "total": X1, "square": X1 * X1}
        return {f"r2.{part}": _mean(g, f"r2.{part}", body, prediction, target, mask) for part, body in bodies.items()}
    plain: dict[str, Expr] = {
        "mean_absolute_error": Call("abs", (off,)),
        "mean_squared_error": off * off,
        "accuracy": Cond(_same_side(X0, X1), Num(1.0), Num(0.0)),
    }
    return {name: _mean(g, f"{name}.sum", plain[name], prediction, target, mask)}


def _along(mask: l1.Tensor) -> Operand:
    """The weight of rows, or of their first axes, in a body over all axes."""
    return mask, tuple(range(len(mask.shape)))


def _same_side(score: Expr, target: Expr) -> Expr:
    """Whether a score of a binary class is on the side of its target."""
    return (score > 0.0).eq(target > 0.5)


def _mean(
    g: GraphBuilder, name: str, body: Expr, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> l1.Tensor:
    """The sum over rows of the mean over the elements of a row; masked elements are excluded by a select, as they may
    be NaN."""
    whole = Cond(X2.ne(0.0), body * X2 * Ref("share"), Num(0.0))
    share = (("share", 1.0 / math.prod(prediction.shape[len(mask.shape) :])),)
    operands = (identity(prediction), identity(target), _along(mask))
    return g.reduce(name, whole, operands, prediction, (), scalars=share)


def _first(g: GraphBuilder, name: str, scores: l1.Tensor) -> l1.Tensor:
    """The first class with the largest score."""
    last = len(scores.shape) - 1
    row = tuple(range(last))
    largest = g.reduce(f"{name}.largest", X0, (identity(scores),), scores, row, combine="max", fill=-math.inf)
    return g.reduce(
        f"{name}.first",
        Cond(X0.eq(X1), Ref(f"d{last}"), Num(FIRST)),
        (identity(scores), (largest, row)),
        scores,
        row,
        combine="min",
        fill=math.inf,
    )


def _right(g: GraphBuilder, name: str, test: Expr, found: l1.Tensor, target: l1.Tensor, mask: l1.Tensor) -> l1.Tensor:
    """The sum over rows of the part of a row's classes for which `test` holds."""
    body: Expr = Cond(test, X2, Num(0.0))
    operands = (identity(found), identity(target), _along(mask))
    if len(found.shape) == len(mask.shape):
        return g.reduce(f"{name}.sum", body, operands, found, ())
    share = (("share", 1.0 / math.prod(found.shape[len(mask.shape) :])),)
    return g.reduce(f"{name}.sum", body * Ref("share"), operands, found, (), scalars=share)


def _accuracy(g: GraphBuilder, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor) -> l1.Tensor:
    return _right(g, "accuracy", X0.eq(X1), _first(g, "accuracy", scores), target, mask)


def _top(g: GraphBuilder, name: str, k: int, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor) -> l1.Tensor:
    """Rows in which fewer than k scores rank above the target's; ties rank in the order of the classes."""
    last = len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    chosen = Cond(d.eq(X1), X0, Num(0.0))
    own = g.reduce(f"{name}.own", chosen, (identity(scores), (target, row)), scores, row)
    before = (X0 > X1) | X0.eq(X1) & (d < X2)
    operands = (identity(scores), (own, row), (target, row))
    rank = g.reduce(f"{name}.rank", Cond(before, Num(1.0), Num(0.0)), operands, scores, row)
    limit = g.map(f"{name}.k", Ref("k"), (), like=l1.Tensor("", ()), scalars=(("k", float(k)),))
    body: Expr = Cond(X0 < X1, X2, Num(0.0))
    share = (("share", 1.0 / math.prod(rank.shape[len(mask.shape) :])),)
    reads = (identity(rank), (limit, ()), _along(mask))
    return g.reduce(f"{name}.sum", body * Ref("share"), reads, rank, (), scalars=share)


def _class_counts(
    g: GraphBuilder, name: str, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> dict[str, l1.Tensor]:
    """Per class: true positives, predicted positives and actual positives, in rows (and steps)."""
    first = _first(g, name, scores)
    classes = scores.shape[-1]
    k = Ref("k")
    found, there = X0.eq(k), X1.eq(k)
    counts: dict[str, tuple[tuple[l1.Tensor, ...], Expr]] = {
        "hits": ((first, target, mask), Cond(found & there, X2, Num(0.0))),
        "found": ((first, mask), Cond(found, X1, Num(0.0))),
        "there": ((target, mask), Cond(X0.eq(k), X1, Num(0.0))),
    }
    sums: dict[str, l1.Tensor] = {}
    rows = tuple(zip(("n", "s"), scores.shape[:-1], strict=False))
    axes = tuple(along(d) for d, _ in rows)
    for part, (operands, body) in counts.items():
        sums[f"{name}.{part}"] = g.add(
            l1.Contract(
                l1.Tensor(f"{name}.{part}", (classes,)),
                (("k", classes), *rows),
                (along("k"),),
                tuple(t.name for t in operands),
                tuple(axes[: len(t.shape)] for t in operands),
                body,
            )
        )
    return sums


def _confusion(g: GraphBuilder, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor) -> l1.Tensor:
    """The confusion matrix (classes, classes). A product of two one-hot matrices, which has fast strategies."""
    first = _first(g, "confusion", scores)
    classes, last = scores.shape[-1], len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    same = X0.eq(d)
    one_hot = Cond(same, Num(1.0), Num(0.0))
    every = (*row, last)
    there = g.reduce("confusion.there", Cond(same, X1, Num(0.0)), ((target, row), _along(mask)), scores, every)
    found = g.reduce("confusion.found", one_hot, ((first, row),), scores, every)
    rows = tuple((f"n{a}", extent) for a, extent in enumerate(scores.shape[:-1]))
    at = tuple(along(n) for n, _ in rows)
    return g.add(
        l1.Contract(
            l1.Tensor("confusion.counts", (classes, classes)),
            (("k", classes), ("j", classes), *rows),
            (along("k"), along("j")),
            (there.name, found.name),
            ((*at, along("k")), (*at, along("j"))),
            X0 * X1,
        )
    )


def _binary_counts(
    g: GraphBuilder, name: str, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> dict[str, l1.Tensor]:
    found, there = X0 > 0.0, X1 > 0.5
    tests: dict[str, Expr] = {"hits": found & there, "found": found, "there": there}
    return {
        f"{name}.{part}": _mean(g, f"{name}.{part}", Cond(test, Num(1.0), Num(0.0)), scores, target, mask)
        for part, test in tests.items()
    }
