"""The loss of a choice among classes."""

from __future__ import annotations

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Expr, Ref
from compiler.expr.keys.kinds import Field, ListOf, Value, choice, entry, instead
from compiler.ir.level1.builder import Operand, identity
from compiler.losses.keys import IGNORE, LOGITS, MASK, SMOOTHING, TARGET
from compiler.losses.kind import Answers, LossKind, Measured, Rows
from compiler.losses.rows import X0, X1, X2, chosen, mean_rows, softmax_parts


def _cross_entropy(m: Measured) -> Rows:
    """-log softmax(logits)[target] per row, shifted by the largest logit (which cancels in the gradient). With
    smoothing s the target is 1 - s there and s / classes everywhere (Szegedy et al. 2016, section 7). Class weights
    multiply the terms of the classes, as in PyTorch. Without smoothing, scores of rows whose class has weight 0 are not
    used."""
    g, loss, logits, target, name, rank = m.g, m.loss, m.prediction, m.target, m.name, m.rank
    last = len(logits.shape) - 1
    row = tuple(range(last))
    smoothing = dict(loss.attrs).get("smoothing", 0.0)
    of_class: l1.Tensor | None = None
    weighed: tuple[Operand, ...] = ()
    if loss.class_weights:
        classes = g.add(
            l1.Constant(l1.Tensor(f"{name}.class_weights", (logits.shape[-1],)), loss.class_weights, loss.span)
        )
        of_class = g.gather(f"{name}.weight", classes, target)
        weighed = ((classes, (last,)),)
        if 0.0 in loss.class_weights and not smoothing:
            logits = chosen(g, f"{name}.weighted", logits, of_class)
    largest, total = softmax_parts(g, name, logits)
    operands: list[Operand] = [identity(total), identity(largest)]
    body: Expr = Call("log", (X0,)) + X1
    scalars: tuple[tuple[str, float], ...] = ()
    spread: Expr | None = None
    if smoothing:
        score = X0 * X1 if weighed else X0
        operands += [identity(g.reduce(f"{name}.scores", score, (identity(logits), *weighed), logits, row))]
        every = smoothing / logits.shape[-1]
        scalars = (("right", 1.0 - smoothing), ("everywhere", every))
        if weighed:
            spread = Ref("spread") * body - Ref("everywhere") * X2
            scalars = (*scalars, ("spread", every * sum(loss.class_weights)))
        else:
            body = body - Ref("everywhere") * X2
    picked = Ref(f"x{len(operands)}")
    operands.append(identity(g.pick(f"{name}.picked", logits, target, loss.span)))
    body = body - (Ref("right") * picked if smoothing and not weighed else picked)
    if of_class is not None:
        own = Ref(f"x{len(operands)}")
        operands.append(identity(of_class))
        body = body * own if spread is None else Ref("right") * own * body + spread
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
            "A factor for what each class adds to the loss, as in PyTorch: with `smoothing` every class adds "
            "something to that of a sample. The mean is over all samples, unless `mean` says otherwise.",
        ),
        Field(
            "mean",
            choice(
                "mean",
                samples="The sum is divided by the number of samples.",
                weights="By the sum of the weights of the right classes in the batch, as in PyTorch.",
            ),
            "With `class_weights`: what the mean is over.",
            default="samples",
            example="mean: weights",
        ),
        MASK,
        IGNORE,
        title="softmax_cross_entropy",
        elsewhere=instead(
            "`logits`: prediction",
            "`target`: label labels",
            "`smoothing`: label_smoothing",
            "`ignore`: ignore_index",
            "`mask`: sample_weight",
            "`class_weights`: weight weights",
        ),
        needs=(("mean", ("class_weights",)),),
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
