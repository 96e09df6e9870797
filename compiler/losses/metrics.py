"""Metrics beside the loss, as sums over the valid rows of the batch, and the numbers of an epoch that come of them.

Assumes: the loss (of a sum the first) defines prediction and target; `mask` is the weight of each row, or of each
element of its first axes.
Guarantees: precision, recall and F1 are macro averages (a class that is never predicted, or has no samples, counts 0),
R2 is 1 - residual / variance (nan where the targets do not vary).
Does not: accumulate (passes/layers/lower_loss.py), or write (runtime).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Alternative
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import FIRST, GraphBuilder, Operand, identity
from compiler.ir.space import along
from compiler.losses.kind import Answers, MetricKind, Parts
from compiler.losses.rows import X0, X1, X2

Sums = Mapping[str, l1.Tensor]

# ------------------------------------------------------------------------------------------ nodes


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


def _top(g: GraphBuilder, name: str, k: int, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor) -> l1.Tensor:
    """Rows in which fewer than k scores rank above the target's; ties rank in the order of the classes."""
    last = len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    own = g.pick(f"{name}.own", scores, target)
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
    rows = tuple((("n", "s", "h", "w")[a] if a < 4 else f"n{a}", extent) for a, extent in enumerate(scores.shape[:-1]))
    axes = tuple(along(d) for d, _ in rows)
    for part, (operands, body) in counts.items():
        reads = [(t, axes[: len(t.shape)]) for t in operands]
        dims = (("k", classes), *rows)
        sums[part] = g.contract(f"{name}.{part}", dims, (along("k"),), reads, body, batched=False)
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
    return g.contract(
        "confusion.counts",
        (("k", classes), ("j", classes), *rows),
        (along("k"), along("j")),
        ((there, (*at, along("k"))), (found, (*at, along("j")))),
        X0 * X1,
        batched=False,
    )


def _binary_counts(
    g: GraphBuilder, name: str, scores: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> dict[str, l1.Tensor]:
    found, there = X0 > 0.0, X1 > 0.5
    tests: dict[str, Expr] = {"hits": found & there, "found": found, "there": there}
    return {
        part: _mean(g, f"{name}.{part}", Cond(test, Num(1.0), Num(0.0)), scores, target, mask)
        for part, test in tests.items()
    }


# ------------------------------------------------------------------------------------------ numbers of an epoch


def _ratio(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def _precision(parts: Parts) -> npt.NDArray[np.float64]:
    return _ratio(parts["hits"], parts["found"])


def _recall(parts: Parts) -> npt.NDArray[np.float64]:
    return _ratio(parts["hits"], parts["there"])


def _f1(parts: Parts, count: float) -> float:
    precision, recall = _precision(parts), _recall(parts)
    return float(_ratio(2 * precision * recall, precision + recall).mean())


def _r2(parts: Parts, count: float) -> float:
    residual, total, square = (float(np.sum(parts[p])) for p in ("residual", "total", "square"))
    spread = square - total * total / count
    return 1.0 - residual / spread if spread > 0 else math.nan


# ------------------------------------------------------------------------------------------ the metrics

_CLASSES = frozenset({Answers.CLASSES})
_CHOICES = frozenset({Answers.CLASSES, Answers.YES_NO})
_NUMBERS = frozenset({Answers.NUMBERS})


def _mean_of(body: Expr) -> Callable[..., Sums]:
    """The sums of a metric that is the mean of an expression over prediction `x0` and target `x1`."""

    def sums(
        g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
    ) -> Sums:
        return {"": _mean(g, f"{name}.sum", body, prediction, target, mask)}

    return sums


def _of_classes(prediction: l1.Tensor, target: l1.Tensor) -> bool:
    """Whether the target is the number of a class; else it has an answer for each score."""
    return len(target.shape) < len(prediction.shape)


def _accuracies(
    g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> Sums:
    if _of_classes(prediction, target):
        return {"": _right(g, name, X0.eq(X1), _first(g, name, prediction), target, mask)}
    right = Cond(_same_side(X0, X1), Num(1.0), Num(0.0))
    return _mean_of(right)(g, name, loss, prediction, target, mask)


def _counts(
    g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> Sums:
    counts = _class_counts if _of_classes(prediction, target) else _binary_counts
    return counts(g, name, prediction, target, mask)


def _top_sums(
    g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> Sums:
    return {"": _top(g, name, int(name.removeprefix("top_")), prediction, target, mask)}


def _matrix(
    g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> Sums:
    return {"counts": _confusion(g, prediction, target, mask)}


def _moments(
    g: GraphBuilder, name: str, loss: l0.Loss, prediction: l1.Tensor, target: l1.Tensor, mask: l1.Tensor
) -> Sums:
    off = X0 - X1
    bodies: dict[str, Expr] = {"residual": off * off, "total": X1, "square": X1 * X1}
    return {part: _mean(g, f"{name}.{part}", body, prediction, target, mask) for part, body in bodies.items()}


METRICS: tuple[MetricKind, ...] = (
    MetricKind(
        "accuracy", "The part of the samples whose largest score is that of the right class.", _CHOICES, _accuracies
    ),
    MetricKind(
        "precision",
        "Right ones among those taken for a class, mean over the classes.",
        _CHOICES,
        _counts,
        lambda parts, count: float(_precision(parts).mean()),
    ),
    MetricKind(
        "recall",
        "Those found among the samples of a class, mean over the classes.",
        _CHOICES,
        _counts,
        lambda parts, count: float(_recall(parts).mean()),
    ),
    MetricKind("f1", "The harmonic mean of precision and recall, mean over the classes.", _CHOICES, _counts, _f1),
    MetricKind(
        "confusion",
        "How often a class (row) was taken for another (column), in `confusion.jsonl` and as a plot.",
        _CLASSES,
        _matrix,
        None,
    ),
    MetricKind(
        "mean_absolute_error",
        "The mean over all elements of the size of the difference.",
        _NUMBERS,
        _mean_of(Call("abs", (X0 - X1,))),
    ),
    MetricKind(
        "mean_squared_error",
        "The mean over all elements of the squared difference.",
        _NUMBERS,
        _mean_of((X0 - X1) * (X0 - X1)),
    ),
    MetricKind("r2", "The part of the targets' variance that is explained.", _NUMBERS, _moments, _r2),
    MetricKind(
        "top",
        "",
        _CLASSES,
        _top_sums,
        number=Alternative(
            "top",
            POSITIVE,
            "The part of the samples whose right class is among the so many largest scores; called `top_5`.",
            example="{top: 5}",
        ),
    ),
)
"""In the order of the reference."""
