"""Metrics beside the loss, as sums over the valid rows of the batch, and the numbers of an epoch that come of them.

Assumes: the loss (of a sum the first) defines prediction and target; `mask` is the weight of each row, or of each
element of its first axes.
Guarantees: precision, recall and F1 are macro averages (a class that is never predicted, or has no samples, counts 0),
R2 is 1 - residual / variance (nan where the targets do not vary).
Does not: accumulate (passes/layers/lower_loss.py), or write (runtime).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Alternative
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import Operand, identity
from compiler.ir.space import along
from compiler.losses.kind import Answers, Measured, MetricKind, Parts, Sums
from compiler.losses.rows import X0, X1, X2, first_class
from compiler.losses.sequences import LABEL_ERROR_RATE

# ------------------------------------------------------------------------------------------ nodes


def _along(mask: l1.Tensor) -> Operand:
    """The weight of rows, or of their first axes, in a body over all axes."""
    return mask, tuple(range(len(mask.shape)))


def _mean(m: Measured, body: Expr, part: str = "sum") -> l1.Tensor:
    """The sum over rows of the mean over the elements of a row; masked elements are excluded by a select, as they may
    be NaN."""
    whole = Cond(X2.ne(0.0), body * X2 * Ref("share"), Num(0.0))
    operands = (identity(m.prediction), identity(m.target), _along(m.mask))
    return m.g.reduce(f"{m.name}.{part}", whole, operands, m.prediction, (), scalars=_share(m.prediction, m.mask))


def _share(summed: l1.Tensor, mask: l1.Tensor) -> tuple[tuple[str, float], ...]:
    """The part that an element has of what a weight is for."""
    return (("share", 1.0 / math.prod(summed.shape[len(mask.shape) :])),)


def _right(m: Measured) -> Sums:
    """The sum over rows of the part of a row's classes that are right."""
    found, body = first_class(m), Cond(X0.eq(X1), X2, Num(0.0))
    operands = (identity(found), identity(m.target), _along(m.mask))
    if len(found.shape) == len(m.mask.shape):
        return {"": m.g.reduce(f"{m.name}.sum", body, operands, found, ())}
    share = _share(found, m.mask)
    return {"": m.g.reduce(f"{m.name}.sum", body * Ref("share"), operands, found, (), scalars=share)}


def _top(m: Measured) -> Sums:
    """Rows in which fewer than k scores rank above the target's; ties rank in the order of the classes."""
    g, name, scores = m.g, m.name, m.prediction
    last = len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    own = g.pick(f"{name}.own", scores, m.target)
    before = (X0 > X1) | X0.eq(X1) & (d < X2)
    operands = (identity(scores), (own, row), (m.target, row))
    rank = g.reduce(f"{name}.rank", Cond(before, Num(1.0), Num(0.0)), operands, scores, row)
    k = float(name.rpartition("top_")[2])
    limit = g.map(f"{name}.k", Ref("k"), (), like=l1.Tensor("", ()), scalars=(("k", k),))
    body: Expr = Cond(X0 < X1, X2, Num(0.0))
    reads = (identity(rank), (limit, ()), _along(m.mask))
    return {"": g.reduce(f"{name}.sum", body * Ref("share"), reads, rank, (), scalars=_share(rank, m.mask))}


def _class_counts(m: Measured) -> Sums:
    """Per class: true positives, predicted positives and actual positives, in rows (and steps)."""
    first, target, mask = first_class(m), m.target, m.mask
    *extents, classes = m.prediction.shape
    k = Ref("k")
    found, there = X0.eq(k), X1.eq(k)
    counts: dict[str, tuple[tuple[l1.Tensor, ...], Expr]] = {
        "hits": ((first, target, mask), Cond(found & there, X2, Num(0.0))),
        "found": ((first, mask), Cond(found, X1, Num(0.0))),
        "there": ((target, mask), Cond(X0.eq(k), X1, Num(0.0))),
    }
    sums: dict[str, l1.Tensor] = {}
    rows = tuple((("n", "s", "h", "w")[a] if a < 4 else f"n{a}", extent) for a, extent in enumerate(extents))
    axes = tuple(along(d) for d, _ in rows)
    for part, (operands, body) in counts.items():
        reads = [(t, axes[: len(t.shape)]) for t in operands]
        dims = (("k", classes), *rows)
        sums[part] = m.g.contract(f"{m.name}.{part}", dims, (along("k"),), reads, body, batched=False)
    return sums


def _confusion(m: Measured) -> Sums:
    """The confusion matrix (classes, classes). A product of two one-hot matrices, which has fast strategies."""
    g, scores, first = m.g, m.prediction, first_class(m)
    classes, last = scores.shape[-1], len(scores.shape) - 1
    row = tuple(range(last))
    d = Ref(f"d{last}")
    same = X0.eq(d)
    one_hot = Cond(same, Num(1.0), Num(0.0))
    every = (*row, last)
    there = g.reduce(f"{m.name}.there", Cond(same, X1, Num(0.0)), ((m.target, row), _along(m.mask)), scores, every)
    found = g.reduce(f"{m.name}.found", one_hot, ((first, row),), scores, every)
    rows = tuple((f"n{a}", extent) for a, extent in enumerate(scores.shape[:-1]))
    at = tuple(along(n) for n, _ in rows)
    dims, out = (("k", classes), ("j", classes), *rows), (along("k"), along("j"))
    operands = ((there, (*at, along("k"))), (found, (*at, along("j"))))
    return {"counts": g.contract(f"{m.name}.counts", dims, out, operands, X0 * X1, batched=False)}


def _binary_counts(m: Measured) -> Sums:
    found, there = X0 > 0.0, X1 > 0.5
    tests: dict[str, Expr] = {"hits": found & there, "found": found, "there": there}
    return {part: _mean(m, Cond(test, Num(1.0), Num(0.0)), part) for part, test in tests.items()}


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


def _mean_of(body: Expr) -> Callable[[Measured], Sums]:
    """The sums of a metric that is the mean of an expression over prediction `x0` and target `x1`."""
    return lambda m: {"": _mean(m, body)}


def _of_classes(m: Measured) -> bool:
    """Whether the target is the number of a class; else it has an answer for each score."""
    return len(m.target.shape) < len(m.prediction.shape)


def _accuracies(m: Measured) -> Sums:
    same_side = (X0 > 0.0).eq(X1 > 0.5)  # of a score and its target
    return _right(m) if _of_classes(m) else {"": _mean(m, Cond(same_side, Num(1.0), Num(0.0)))}


def _counts(m: Measured) -> Sums:
    return _class_counts(m) if _of_classes(m) else _binary_counts(m)


def _moments(m: Measured) -> Sums:
    off = X0 - X1
    bodies: dict[str, Expr] = {"residual": off * off, "total": X1, "square": X1 * X1}
    return {part: _mean(m, body, part) for part, body in bodies.items()}


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
        _confusion,
        None,
    ),
    MetricKind(
        "mean_absolute_error",
        "The mean over all elements of the size of the difference.",
        _NUMBERS,
        _mean_of(Call("abs", (X0 - X1,))),
        smaller=True,
    ),
    MetricKind(
        "mean_squared_error",
        "The mean over all elements of the squared difference.",
        _NUMBERS,
        _mean_of((X0 - X1) * (X0 - X1)),
        smaller=True,
    ),
    MetricKind("r2", "The part of the targets' variance that is explained.", _NUMBERS, _moments, _r2),
    LABEL_ERROR_RATE,
    MetricKind(
        "top",
        "",
        _CLASSES,
        _top,
        number=Alternative(
            "top",
            POSITIVE,
            "The part of the samples whose right class is among the so many largest scores; called `top_5`.",
            example="{top: 5}",
        ),
    ),
)
"""In the order of the reference."""
