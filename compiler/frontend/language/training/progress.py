"""Keys of `train` for the course of a training: gradient accumulation, weight averaging, and the metrics monitored for
learning rate reduction, early stopping and best weights.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: check the metrics of a training (frontend/build/tensors/train.py does).
"""

from __future__ import annotations

from compiler.expr.keys.kinds import Block, Field, Reference, Value, choice, required
from compiler.expr.keys.values import POSITIVE

_WATCHED = Reference("metric", "validation_loss")
_MARGIN = Field(
    "margin",
    Value("a number", "1e-4", low=0),
    "By how much a value must be better than the best before to count.",
    default=0,
)
_METRIC = required(
    "metric",
    _WATCHED,
    "What is watched: `loss` or one of `metrics`, with `validation_` before it for that of the validation samples.",
)

BEST = Field(
    "best",
    _WATCHED,
    "Keeps the weights of the epoch in which this metric was best, in `best.safetensors`; of equal epochs the first. "
    "`weights.safetensors` holds them, too, unless `weights: last` says otherwise.",
    example="best: validation_accuracy",
)
WEIGHTS = Field(
    "weights",
    choice(
        "weights",
        best="Those of the epoch in which the metric of `checkpoint: {best: ...}`, or of `stop`, was best.",
        last="Those after the last epoch.",
    ),
    "Which weights `weights.safetensors` holds, and so `evaluate`, `predict` and `export` use: `best` is the default "
    "with `stop` or `checkpoint: {best: ...}`, `last` without. Checkpoints hold the last ones, to go on from.",
    example="weights: last",
)
ACCUMULATE = Field(
    "accumulate",
    POSITIVE,
    "Batches whose gradients are summed before the weights change: the mean is over all of their samples, as in a "
    "batch that is as many times larger. `step` and `steps` in schedules count changes of the weights. Sums go on from "
    "epoch to epoch.",
    default=1,
    example="accumulate: 4",
)
AVERAGE = Field(
    "average",
    Value("a number between 0 and 1", "0.999", low=0, high=1, above=True, below=True),
    "Keeps an exponential moving average of the weights, of which this part remains at each step. It begins with the "
    "weights after the first step. Validation uses it, and `weights.safetensors` holds it; checkpoints hold both.",
)
STOP = Field(
    "stop",
    Block(
        "early stopping",
        (
            _METRIC,
            required(
                "patience",
                POSITIVE,
                "Epochs without a better value after which the training ends.",
                example="patience: 5",
            ),
            _MARGIN,
        ),
        title="stop",
        elsewhere={
            "monitor": "`metric`",
            "min_delta": "`margin`",
            "restore_best_weights": "`weights: best` beside `stop`",
        },
    ),
    "Ends the training before its last epoch when a metric gets no better. The best weights are kept: see `weights`.",
)
PLATEAU = Field(
    "plateau",
    Block(
        "plateau",
        (
            _METRIC,
            Field(
                "patience",
                POSITIVE,
                "Epochs without a better value after which the rate is lowered; then counting begins again.",
                default=10,
                example="patience: 10",
            ),
            Field(
                "factor",
                Value("a number between 0 and 1", "0.1", low=0, high=1, above=True, below=True),
                "What the learning rate is multiplied by each time.",
                default=0.1,
                example="factor: 0.5",
            ),
            Field(
                "lowest",
                Value("a number from 0 to 1", "1e-3", low=0, high=1),
                "The smallest part of the learning rate that is left.",
                default=0,
            ),
            _MARGIN,
        ),
        elsewhere={"monitor": "`metric`", "threshold": "`margin`", "min_lr": "`lowest`, a part of the rate"},
        example="{metric: validation_loss, patience: 5, factor: 0.5}",
    ),
    "Lowers the optimizer's `learning_rate` (a schedule too) when a metric gets no better.",
)
