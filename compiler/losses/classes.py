"""The loss of a choice among classes."""

from __future__ import annotations

import math

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Expr, Ref
from compiler.expr.keys.kinds import Field, ListOf, Value, entry, instead
from compiler.ir.level1.builder import GraphBuilder, Operand, identity
from compiler.losses.keys import IGNORE, LOGITS, MASK, SMOOTHING, TARGET
from compiler.losses.kind import Answers, LossKind, Rows
from compiler.losses.rows import X0, X1, X2, chosen, mean_rows


def _cross_entropy(g: GraphBuilder, loss: l0.Loss, logits: l1.Tensor, target: l1.Tensor, name: str, rank: int) -> Rows:
    """-log softmax(logits)[target] per row, shifted by the largest logit (which cancels in the gradient). With
    smoothing s the target is 1 - s there and s / classes everywhere (Szegedy et al. 2016, section 7). Scores of rows
    whose class has weight 0 are not used."""
    last = len(logits.shape) - 1
    row = tuple(range(last))
    of_class: l1.Tensor | None = None
    if loss.class_weights:
        classes = g.add(
            l1.Constant(l1.Tensor(f"{name}.class_weights", (logits.shape[-1],)), loss.class_weights, loss.span)
        )
        of_class = g.gather(f"{name}.weight", classes, target)
        if 0.0 in loss.class_weights:
            logits = chosen(g, f"{name}.weighted", logits, of_class)
    largest = g.reduce(f"{name}.largest", X0, (identity(logits),), logits, row, combine="max", fill=-math.inf)
    exponent = Call("exp", (X0 - X1,))
    total = g.reduce(f"{name}.total", exponent, (identity(logits), (largest, row)), logits, row)
    operands: list[Operand] = [identity(total), identity(largest)]
    body: Expr = Call("log", (X0,)) + X1
    scalars: tuple[tuple[str, float], ...] = ()
    if smoothing := dict(loss.attrs).get("smoothing", 0.0):
        operands += [identity(g.reduce(f"{name}.scores", X0, (identity(logits),), logits, row))]
        scalars = (("right", 1.0 - smoothing), ("everywhere", smoothing / logits.shape[-1]))
        body = body - Ref("everywhere") * X2
    picked = Ref(f"x{len(operands)}")
    operands.append(identity(g.pick(f"{name}.picked", logits, target, loss.span)))
    body = body - (Ref("right") * picked if smoothing else picked)
    if of_class is not None:
        body = body * Ref(f"x{len(operands)}")
        operands.append(identity(of_class))
    each = g.map(f"{name}.rows" if last == rank else f"{name}.steps", body, operands, scalars=scalars)
    return mean_rows(g, f"{name}.rows", X0, (identity(each),), each, rank), frozenset({largest.name})


SOFTMAX_CROSS_ENTROPY = LossKind(
    entry(
        "loss",
        "softmax_cross_entropy",
        "Cross-entropy between the softmax of the scores and the right class; the target is the class's number. "
        "Scores with more axes, such as [steps, classes] or [height, width, classes], have a class at each place.",
        LOGITS,
        TARGET,
        SMOOTHING,
        Field(
            "class_weights",
            ListOf(Value("a number", "1", low=0), low=2, example="[1, 2, 1]"),
            "A factor for the loss of the samples of each class; the mean is still over all samples.",
        ),
        MASK,
        IGNORE,
        title="softmax_cross_entropy",
        elsewhere=instead(
            {
                "`logits`": "prediction",
                "`target`": "label labels",
                "`smoothing`": "label_smoothing",
                "`ignore`": "ignore_index",
                "`mask`": "sample_weight",
            }
        ),
    ),
    Answers.CLASSES,
    _cross_entropy,
    along=True,
    zero=False,
    synonyms=(
        "cross_entropy",
        "crossentropy",
        "categorical_crossentropy",
        "sparse_categorical_crossentropy",
        "nll",
        "cross_entropy_loss",
        "nll_loss",
    ),
)
