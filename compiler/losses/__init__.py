"""The losses and metrics of the language, in the order of its reference; one file per family.

Language, frontend, passes and runtime derive their handling of losses and metrics from these objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Expression,
    Field,
    Kind,
    Later,
    ListOf,
    OneKey,
    OneOf,
    choice,
    entry,
    required,
)
from compiler.expr.keys.values import NUMBER
from compiler.losses.classes import SOFTMAX_CROSS_ENTROPY
from compiler.losses.keys import MASK
from compiler.losses.kind import Answers, LossKind, MetricKind
from compiler.losses.metrics import METRICS
from compiler.losses.numbers import (
    BINARY_CROSS_ENTROPY,
    COSINE,
    HINGE,
    HUBER,
    KL_DIVERGENCE,
    MEAN_ABSOLUTE_ERROR,
    MEAN_SQUARED_ERROR,
    POISSON,
    SMOOTH_L1,
)
from compiler.losses.places import COSINE_EMBEDDING, INFO_NCE, TRIPLET
from compiler.losses.sequences import CTC

__all__ = ["LOSS", "LOSSES", "LOSS_KIND", "METRIC", "METRICS", "Answers", "LossKind", "MetricKind", "metric_of"]


def _loss() -> Kind:
    return LOSS


_EXPRESSION = LossKind(
    entry(
        "loss",
        "expression",
        "A loss of your own.",
        required(
            "value",
            Expression("(out - y) ** 2 * (2 if y > out else 1)"),
            "An expression over layers, network inputs and `params`; its mean over all elements is the loss.",
        ),
        MASK,
        title="expression_loss",
        example="{value: (out - y) ** 2}",
    ),
    Answers.OWN,
    synonyms=("custom",),
)

_NAMED: Final = (
    SOFTMAX_CROSS_ENTROPY, BINARY_CROSS_ENTROPY, MEAN_SQUARED_ERROR, MEAN_ABSOLUTE_ERROR, HUBER, SMOOTH_L1, HINGE,
    KL_DIVERGENCE, POISSON, COSINE, COSINE_EMBEDDING, TRIPLET, INFO_NCE, CTC,
)  # fmt: skip

_SUM = LossKind(
    Alternative(
        "sum",
        ListOf(
            Block(
                "term",
                (
                    Field("weight", NUMBER, "The factor of the term.", default=1, example="weight: 0.5"),
                    required(
                        "loss",
                        Later("loss", _loss),
                        "The term.",
                        example="loss: {mean_squared_error: {prediction: out, target: y}}",
                    ),
                ),
                elsewhere={k.name: f"`{{loss: {{{k.name}: {{...}}}}}}`" for k in (*_NAMED, _EXPRESSION)},
                title="loss_term",
                example="{weight: 0.5, loss: {...}}",
            ),
            low=1,
            example="[{loss: {...}}, {weight: 0.5, loss: {...}}]",
        ),
        "Several losses, each with a weight. Metrics are those of the first.",
    ),
    Answers.OWN,
)

LOSSES: Final[tuple[LossKind, ...]] = (*_NAMED, _EXPRESSION, _SUM)

LOSS_KIND: Final[Mapping[str, LossKind]] = MappingProxyType({k.name: k for k in LOSSES})
"""By name."""

LOSS: Final = OneKey(
    "loss",
    tuple(k.keys for k in LOSSES),
    title="loss",
    doc="What training makes small; the mean over the batch.",
    elsewhere={word: f"`{k.name}`" for k in LOSSES for word in k.synonyms},
)

METRIC: Final[Kind] = OneOf(
    (
        choice(
            "metric",
            {
                **{f"top{between}{k}": f"`{{top: {k}}}`" for between in ("", "_") for k in (2, 3, 5, 10)},
                **dict.fromkeys(("top_k", "top_k_accuracy", "top_k_categorical_accuracy"), "`{top: 5}`"),
                **dict.fromkeys(("mse", "rmse"), "`mean_squared_error`"),
                **dict.fromkeys(("mae", "l1"), "`mean_absolute_error`"),
                **dict.fromkeys(("cer", "wer", "edit_distance"), "`label_error_rate`"),
            },
            **{m.name: m.doc for m in METRICS if m.number is None},
        ),
        OneKey(
            "metric",
            tuple(m.number for m in METRICS if m.number is not None),
            title="metric_with_value",
            doc="A metric that needs a number.",
        ),
    )
)

_METRIC: Final[Mapping[str, MetricKind]] = MappingProxyType({m.name: m for m in METRICS})


def metric_of(name: str) -> MetricKind:
    """The metric of a name, that of one with a number too: `top_5`."""
    return _METRIC.get(name) or _METRIC[name.rpartition("_")[0]]
