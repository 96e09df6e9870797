"""lower_metrics: what is measured beside the loss, as sums over the rows of the batch that exist.

Assumes: the loss says what is compared: its prediction and its target.
Guarantees: a metric gives one or more sums, by name: `accuracy`, or `f1.hits`, ...; compiler/runner/metrics.py makes
numbers of them after an epoch.
Does not: divide.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref
from compiler.ir.graph import Contract, Tensor
from compiler.ir.model import Loss
from compiler.ir.space import along
from compiler.passes.graph_builder import FIRST, GraphBuilder, identity

X0, X1, X2, X3 = (Ref(f"x{i}") for i in range(4))


def add_metric(g: GraphBuilder, name: str, loss: Loss, named: dict[str, Tensor], mask: Tensor) -> dict[str, Tensor]:
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
    off = Binary("-", X0, X1)
    if name == "r2":
        bodies: dict[str, Expr] = {"residual": Binary("*", off, off), "total": X1, "square": Binary("*", X1, X1)}
        return {f"r2.{part}": _mean(g, f"r2.{part}", body, prediction, target, mask) for part, body in bodies.items()}
    plain: dict[str, Expr] = {
        "mean_absolute_error": Call("abs", (off,)),
        "mean_squared_error": Binary("*", off, off),
        "accuracy": Cond(_same_side(X0, X1), Num(1.0), Num(0.0)),
    }
    return {name: _mean(g, f"{name}.sum", plain[name], prediction, target, mask)}


def _same_side(score: Expr, target: Expr) -> Expr:
    """Whether a score of a binary class is on the side of its target."""
    return Binary("==", Binary(">", score, Num(0.0)), Binary(">", target, Num(0.5)))


def _mean(g: GraphBuilder, name: str, body: Expr, prediction: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The sum over rows of the mean over the elements of a row."""
    whole = Binary("*", Binary("*", body, X2), Ref("share"))
    share = (("share", 1.0 / math.prod(prediction.shape[1:])),)
    operands = (identity(prediction), identity(target), (mask, (0,)))
    return g.reduce(name, whole, operands, prediction, (), scalars=share)


def _first(g: GraphBuilder, name: str, scores: Tensor) -> Tensor:
    """The first class with the largest score."""
    last = len(scores.shape) - 1
    row = tuple(range(last))
    largest = g.reduce(f"{name}.largest", X0, (identity(scores),), scores, row, combine="max", fill=-math.inf)
    return g.reduce(
        f"{name}.first",
        Cond(Binary("==", X0, X1), Ref(f"d{last}"), Num(FIRST)),
        (identity(scores), (largest, row)),
        scores,
        row,
        combine="min",
        fill=math.inf,
    )


def _right(g: GraphBuilder, name: str, test: Expr, found: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """The sum over rows of the part of a row's classes for which `test` holds."""
    body: Expr = Cond(test, X2, Num(0.0))
    operands = (identity(found), identity(target), (mask, (0,)))
    if len(found.shape) == 1:
        return g.reduce(f"{name}.sum", body, operands, found, ())
    share = (("share", 1.0 / math.prod(found.shape[1:])),)
    return g.reduce(f"{name}.sum", Binary("*", body, Ref("share")), operands, found, (), scalars=share)


def _accuracy(g: GraphBuilder, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    return _right(g, "accuracy", Binary("==", X0, X1), _first(g, "accuracy", scores), target, mask)


def _top(g: GraphBuilder, name: str, k: int, scores: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Rows whose target's score has fewer than k others before it; equal ones count in the order of the classes."""
    last = len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    chosen = Cond(Binary("==", d, X1), X0, Num(0.0))
    own = g.reduce(f"{name}.own", chosen, (identity(scores), (target, row)), scores, row)
    before = Binary("or", Binary(">", X0, X1), Binary("and", Binary("==", X0, X1), Binary("<", d, X2)))
    operands = (identity(scores), (own, row), (target, row))
    rank = g.reduce(f"{name}.rank", Cond(before, Num(1.0), Num(0.0)), operands, scores, row)
    limit = g.map(f"{name}.k", Ref("k"), (), like=Tensor("", ()), scalars=(("k", float(k)),))
    body: Expr = Cond(Binary("<", X0, X1), X2, Num(0.0))
    share = (("share", 1.0 / math.prod(rank.shape[1:])),)
    reads = (identity(rank), (limit, ()), (mask, (0,)))
    return g.reduce(f"{name}.sum", Binary("*", body, Ref("share")), reads, rank, (), scalars=share)


def _class_counts(g: GraphBuilder, name: str, scores: Tensor, target: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """Per class: rows of it that were found, rows that were taken for it, rows of it."""
    first = _first(g, name, scores)
    classes = scores.shape[-1]
    k = Ref("k")
    found, there = Binary("==", X0, k), Binary("==", X1, k)
    counts: dict[str, tuple[tuple[Tensor, ...], Expr]] = {
        "hits": ((first, target, mask), Cond(Binary("and", found, there), X2, Num(0.0))),
        "found": ((first, mask), Cond(found, X1, Num(0.0))),
        "there": ((target, mask), Cond(Binary("==", X0, k), X1, Num(0.0))),
    }
    sums: dict[str, Tensor] = {}
    n = along("n")
    for part, (operands, body) in counts.items():
        sums[f"{name}.{part}"] = g.add(
            Contract(
                Tensor(f"{name}.{part}", (classes,)),
                (("k", classes), ("n", scores.shape[0])),
                (along("k"),),
                tuple(t.name for t in operands),
                tuple((n,) for _ in operands),
                body,
            )
        )
    return sums


def _binary_counts(g: GraphBuilder, name: str, scores: Tensor, target: Tensor, mask: Tensor) -> dict[str, Tensor]:
    found, there = Binary(">", X0, Num(0.0)), Binary(">", X1, Num(0.5))
    tests: dict[str, Expr] = {"hits": Binary("and", found, there), "found": found, "there": there}
    return {
        f"{name}.{part}": _mean(g, f"{name}.{part}", Cond(test, Num(1.0), Num(0.0)), scores, target, mask)
        for part, test in tests.items()
    }
