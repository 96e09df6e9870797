"""Losses and metrics.

Assumes: expr/keys/kinds.py, expr/keys/values.py, layers/shared/keys.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check the compatibility of metrics and losses (frontend/build/tensors/loss.py does).
"""

from __future__ import annotations

from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Choice,
    Expression,
    Field,
    Kind,
    Later,
    ListOf,
    OneKey,
    OneOf,
    Option,
    Reference,
    Value,
)
from compiler.expr.keys.values import NUMBER, PART, POSITIVE, TEMPLATE_KEY
from compiler.layers.shared.keys import LAYER_REFERENCE

_LOGITS = Field(
    "logits",
    LAYER_REFERENCE,
    "The layer with the scores, one per class.",
    required=True,
    example="logits: logits",
)
_TARGET = Field(
    "target",
    LAYER_REFERENCE,
    "The network input with the right answers.",
    required=True,
    example="target: label",
)
_PREDICTION = Field(
    "prediction",
    LAYER_REFERENCE,
    "The layer whose output is compared.",
    required=True,
    example="prediction: out",
)
_SMOOTHING = Field(
    "smoothing",
    PART,
    "How much of each target is spread over all classes (label smoothing).",
    default=0,
    example="smoothing: 0.1",
)


_MASK = Field(
    "mask",
    LAYER_REFERENCE,
    "A network input that says what counts: where it is 0, a sample, or an element of it, adds nothing to the loss, "
    "the metrics and the gradients, and the target may be NaN there; other numbers are weights. The mean is over what "
    "counts, in the whole batch. Its shape is that of the losses of a sample, or their first axes: `[]` for whole "
    "samples, `[steps]` for steps of a sequence.",
    example="mask: valid",
)
_IGNORE = Field(
    "ignore",
    Value("a whole number", "-1", integer=True),
    "The number in the target that stands for no class, such as that of padding: what has it does not count, as with "
    "`mask`.",
    example="ignore: -1",
)


def _compared(name: str, doc: str, *more: Field) -> Alternative:
    return Alternative(
        name,
        Block(
            "loss",
            (_PREDICTION, _TARGET, *more, _MASK),
            title=name,
            elsewhere={
                "logits": "`prediction`",
                "label": "`target`",
                "labels": "`target`",
                "weights": "`mask`",
                "sample_weight": "`mask`",
            },
            example="{prediction: out, target: y}",
        ),
        doc,
        example=f"{{{name}: {{prediction: out, target: y}}}}",
    )


def _loss() -> Kind:
    return LOSS


LOSS = OneKey(
    "loss",
    (
        Alternative(
            "softmax_cross_entropy",
            Block(
                "loss",
                (
                    _LOGITS,
                    _TARGET,
                    _SMOOTHING,
                    Field(
                        "class_weights",
                        ListOf(Value("a number", "1", low=0), low=2, example="[1, 2, 1]"),
                        "A factor for the loss of the samples of each class; the mean is still over all samples.",
                        example="class_weights: [1, 2, 1]",
                    ),
                    _MASK,
                    _IGNORE,
                ),
                title="softmax_cross_entropy",
                elsewhere={
                    "prediction": "`logits`",
                    "label": "`target`",
                    "labels": "`target`",
                    "label_smoothing": "`smoothing`",
                    "ignore_index": "`ignore`",
                    "sample_weight": "`mask`",
                },
                example="{logits: logits, target: label}",
            ),
            "Cross-entropy between the softmax of the scores and the right class; the target is the class's number. "
            "Scores of shape [steps, classes] have a class for each step.",
            example="{softmax_cross_entropy: {logits: logits, target: label}}",
        ),
        Alternative(
            "binary_cross_entropy",
            Block(
                "loss",
                (
                    _LOGITS,
                    _TARGET,
                    _SMOOTHING,
                    Field(
                        "class_weights",
                        ListOf(Value("a number", "1", low=0), low=2, high=2, example="[1, 5]"),
                        "A factor for what a target of 0 adds, and one for 1; the mean is still over all elements.",
                        example="class_weights: [1, 5]",
                    ),
                    _MASK,
                ),
                title="binary_cross_entropy",
                elsewhere={
                    "prediction": "`logits`",
                    "label": "`target`",
                    "label_smoothing": "`smoothing`",
                    "pos_weight": "`class_weights: [1, ...]`",
                },
                example="{logits: score, target: label}",
            ),
            "Cross-entropy of yes-or-no questions: scores (before the sigmoid) and targets of 0 to 1, of one shape.",
            example="{binary_cross_entropy: {logits: score, target: label}}",
        ),
        _compared("mean_squared_error", "The mean over all elements of the squared difference."),
        _compared("mean_absolute_error", "The mean over all elements of the size of the difference."),
        _compared(
            "huber",
            "Squares of small differences, and the size of large ones (Huber 1964).",
            Field(
                "delta",
                Value("a positive number", "1", low=0, above=True),
                "The difference from which on it is a straight line.",
                default=1,
                example="delta: 1",
            ),
        ),
        _compared("hinge", "The hinge max(0, 1 - prediction * target), for targets of -1 and 1."),
        _compared(
            "kl_divergence",
            "The divergence of the target's probabilities from the prediction's, which are given as logarithms "
            "(`log_softmax`); summed over the last axis.",
        ),
        _compared("cosine", "One less the cosine of the angle between prediction and target along the last axis."),
        Alternative(
            "expression",
            Block(
                "loss",
                (
                    Field(
                        "value",
                        Expression("(out - y) ** 2 * (2 if y > out else 1)"),
                        "An expression over layers, network inputs and `params`; its mean over all elements is the "
                        "loss.",
                        required=True,
                        example="value: (out - y) ** 2 * (2 if y > out else 1)",
                    ),
                    _MASK,
                ),
                title="expression_loss",
                example="{value: (out - y) ** 2}",
            ),
            "A loss of your own.",
            example="{expression: {value: (out - y) ** 2}}",
        ),
        Alternative(
            "sum",
            ListOf(
                Block(
                    "term",
                    (
                        Field("weight", NUMBER, "The factor of the term.", default=1, example="weight: 0.5"),
                        Field(
                            "loss",
                            Later("loss", _loss),
                            "The term.",
                            required=True,
                            example="loss: {mean_squared_error: {prediction: out, target: y}}",
                        ),
                    ),
                    title="loss_term",
                    example="{weight: 0.5, loss: {...}}",
                ),
                low=1,
                example="[{loss: {...}}, {weight: 0.5, loss: {...}}]",
            ),
            "Several losses, each with a weight. Metrics are those of the first.",
            example="{sum: [{loss: {...}}, {weight: 0.5, loss: {...}}]}",
        ),
    ),
    title="loss",
    doc="What training makes small; the mean over the batch.",
    elsewhere={
        "mse": "`mean_squared_error`",
        "l2": "`mean_squared_error`",
        "mae": "`mean_absolute_error`",
        "l1": "`mean_absolute_error`",
        "smooth_l1": "`huber`",
        "kl": "`kl_divergence`",
        "bce": "`binary_cross_entropy`",
        "cosine_similarity": "`cosine`",
        "custom": "`expression`",
        "cross_entropy": "`softmax_cross_entropy`",
        "crossentropy": "`softmax_cross_entropy`",
        "categorical_crossentropy": "`softmax_cross_entropy`",
        "sparse_categorical_crossentropy": "`softmax_cross_entropy`",
        "nll": "`softmax_cross_entropy`",
        "cross_entropy_loss": "`softmax_cross_entropy`",
        "nll_loss": "`softmax_cross_entropy`",
        "mse_loss": "`mean_squared_error`",
        "l1_loss": "`mean_absolute_error`",
        "smooth_l1_loss": "`huber`",
        "huber_loss": "`huber`",
        "bce_loss": "`binary_cross_entropy`",
        "bce_with_logits_loss": "`binary_cross_entropy`",
        "binary_crossentropy": "`binary_cross_entropy`",
        "kl_div_loss": "`kl_divergence`",
    },
)

METRIC: Kind = OneOf(
    (
        Choice(
            "metric",
            (
                Option("accuracy", "The part of the samples whose largest score is that of the right class."),
                Option("precision", "Right ones among those taken for a class, mean over the classes."),
                Option("recall", "Those found among the samples of a class, mean over the classes."),
                Option("f1", "The harmonic mean of precision and recall, mean over the classes."),
                Option(
                    "confusion",
                    "How often a class (row) was taken for another (column), in `confusion.jsonl` and as a plot.",
                ),
                Option("mean_absolute_error", "The mean over all elements of the size of the difference."),
                Option("mean_squared_error", "The mean over all elements of the squared difference."),
                Option("r2", "The part of the targets' variance that is explained."),
            ),
        ),
        OneKey(
            "metric",
            (
                Alternative(
                    "top",
                    POSITIVE,
                    "The part of the samples whose right class is among the so many largest scores; called `top_5`.",
                    example="{top: 5}",
                ),
            ),
            title="metric_with_value",
            doc="A metric that needs a number.",
        ),
    )
)

PENALTY = Block(
    "penalty",
    (
        Field("l1", Value("a number", "1e-5", low=0), "The factor of the sum of sizes.", default=0, example="l1: 1e-5"),
        Field("l2", Value("a number", "1e-4", low=0), "The factor of the sum of squares.", default=0,
              example="l2: 1e-4"),
        Field(
            "of",
            OneOf((
                Reference("layer or class of weights", "weights", TEMPLATE_KEY, ("weights", "biases", "norms", "all")),
                ListOf(Reference("layer or class of weights", "weights", TEMPLATE_KEY), low=1, example="[a, b]"),
            )),
            "Layers, or classes of weights: `weights`, `biases`, `norms`, `all`.",
            default="weights",
            example="of: weights",
        ),
    ),
    doc="What large weights add to the loss.",
    title="penalty",
    at_least_one=("l1", "l2"),
    example="{l2: 1e-4}",
)  # fmt: skip
