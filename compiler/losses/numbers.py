"""Losses of numbers of one shape: a mean over elements of one expression, and the cosine."""

from __future__ import annotations

from compiler.expr.ast import Call, Num, substitute
from compiler.expr.keys.kinds import Alternative, Field, ListOf, Value, entry, instead
from compiler.expr.parse import own_expr
from compiler.ir.level1.builder import identity
from compiler.losses.keys import ANSWER, LOGITS, MASK, SMOOTHING, compared
from compiler.losses.kind import Answers, LossKind, Measured, Rows
from compiler.losses.rows import X0, X1, X2, along_lists, mean_rows, rows_of


def elementwise(
    keys: Alternative,
    text: str,
    *synonyms: str,
    weighted: str = "",
    along: bool = False,
    answers: Answers = Answers.NUMBERS,
) -> LossKind:
    """A loss that is the mean of `text`, an expression over prediction `p`, target `t` and the settings; with class
    weights (`zero`, `one`) that of `weighted`. `along`: summed over the last axis."""

    def rows(m: Measured) -> Rows:
        operands = (identity(m.prediction), identity(m.target))
        weights = tuple(zip(("zero", "one"), m.loss.class_weights, strict=False))
        body = substitute(own_expr(weighted if weights else text), {"p": X0, "t": X1})
        scalars = (*m.loss.attrs, *weights)
        found = mean_rows(m.g, f"{m.name}.rows", body, operands, m.prediction, m.rank, scalars, int(along))
        return found, frozenset()

    return LossKind(keys, answers, rows, along, synonyms=synonyms)


def _cosine(m: Measured) -> Rows:
    """Mean over rows of 1 - p t / (|p| |t|) along the last axis; each norm at least 1e-8, as in PyTorch."""
    dot = along_lists(m, "dot", X0 * X1, m.prediction, m.target)
    pp = along_lists(m, "prediction", X0 * X0, m.prediction)
    tt = along_lists(m, "target", X0 * X0, m.target)
    floor = Num(1e-8)
    sizes = Call("max", (Call("sqrt", (X1,)), floor)) * Call("max", (Call("sqrt", (X2,)), floor))
    body = 1.0 - X0 / sizes
    each = m.g.map(f"{m.name}.each", body, (identity(dot), identity(pp), identity(tt)))
    return rows_of(m, each)


BINARY_CROSS_ENTROPY = elementwise(
    entry(
        "loss",
        "binary_cross_entropy",
        "Cross-entropy of yes-or-no questions: scores (before the sigmoid) and targets of 0 to 1, of one shape.",
        LOGITS,
        ANSWER,
        SMOOTHING,
        Field(
            "class_weights",
            ListOf(Value("a number", "1", low=0), low=2, high=2, example="[1, 5]"),
            "A factor for what a target of 0 adds, and one for 1; the mean is still over all elements.",
        ),
        MASK,
        title="binary_cross_entropy",
        elsewhere=instead(
            "`logits`: prediction",
            "`target`: label",
            "`smoothing`: label_smoothing",
            "`class_weights: [1, ...]`: pos_weight",
        ),
        example="{logits: score, target: label}",
    ),
    # log(1 + exp(p)) - p t, for scores p
    "softplus(p) - p * (t * (1 - smoothing) + 0.5 * smoothing)",
    *("bce", "bce_loss", "bce_with_logits_loss", "binary_crossentropy"),
    # a class of weight 0 is excluded
    weighted="(one * (t * (1 - smoothing) + 0.5 * smoothing) * softplus(-p)"
    " if one * (t * (1 - smoothing) + 0.5 * smoothing) != 0.0 else 0.0)"
    " + (zero * (1 - t * (1 - smoothing) - 0.5 * smoothing) * softplus(p)"
    " if zero * (1 - t * (1 - smoothing) - 0.5 * smoothing) != 0.0 else 0.0)",
    answers=Answers.YES_NO,
)

MEAN_SQUARED_ERROR = elementwise(
    compared("mean_squared_error", "The mean over all elements of the squared difference."),
    "(p - t) * (p - t)",
    *("mse", "l2", "mse_loss"),
)

MEAN_ABSOLUTE_ERROR = elementwise(
    compared("mean_absolute_error", "The mean over all elements of the size of the difference."),
    "abs(p - t)",
    *("mae", "l1", "l1_loss"),
)


def _border(name: str) -> Field:
    """The difference at which a loss turns from squares to sizes."""
    positive = Value("a positive number", "1", low=0, above=True)
    return Field(name, positive, "The difference from which on it is a straight line.", default=1)


HUBER = elementwise(
    compared(
        "huber",
        "Squares of small differences, and the size of large ones (Huber 1964).",
        _border("delta"),
    ),
    "0.5 * (p - t) * (p - t) if abs(p - t) <= delta else delta * (abs(p - t) - 0.5 * delta)",
    *("huber_loss",),
)

SMOOTH_L1 = elementwise(
    compared(
        "smooth_l1",
        "The size of large differences, and squares of small ones (Girshick 2015): `huber` over its `delta`.",
        _border("beta"),
    ),
    "0.5 * (p - t) * (p - t) / beta if abs(p - t) < beta else abs(p - t) - 0.5 * beta",
    *("smooth_l1_loss",),
)

POISSON = elementwise(
    compared(
        "poisson",
        "Minus the logarithm of the probability of counts, without what does not depend on the prediction, which is "
        "the logarithm of the rate: exp(prediction) - target * prediction.",
    ),
    "exp(p) - t * p",
    *("poisson_nll", "poisson_nll_loss"),
)

HINGE = elementwise(
    compared("hinge", "The hinge max(0, 1 - prediction * target), for targets of -1 and 1."), "max(0.0, 1.0 - p * t)"
)

KL_DIVERGENCE = elementwise(
    compared(
        "kl_divergence",
        "The divergence of the target's probabilities from the prediction's, which are given as logarithms "
        "(`log_softmax`); summed over the last axis.",
    ),
    "t * (log(t) - p) if t > 0.0 else 0.0",  # 0 log 0 is 0
    *("kl", "kl_div_loss"),
    along=True,
)

COSINE = LossKind(
    compared("cosine", "One less the cosine of the angle between prediction and target along the last axis."),
    Answers.NUMBERS,
    _cosine,
    along=True,
    synonyms=("cosine_similarity",),
)
