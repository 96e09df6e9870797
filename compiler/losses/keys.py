"""Keys common to several losses.

Assumes: expr/keys/kinds.py, expr/keys/values.py, layers/shared/keys.py.
Guarantees: one definition per key common to several losses.
Does not: describe a loss (the modules beside this one do, one per family).
"""

from __future__ import annotations

from compiler.expr.keys.kinds import Alternative, Block, Field, Value, instead, required
from compiler.expr.keys.values import PART
from compiler.layers.shared.keys import LAYER_REFERENCE

LOGITS = required("logits", LAYER_REFERENCE, "The layer with the scores, one per class.", example="logits: logits")
TARGET = required("target", LAYER_REFERENCE, "The network input with the right answers.", example="target: label")
ANSWER = required(
    "target",
    LAYER_REFERENCE,
    "A network input with the right answers, or a layer, which the gradient reaches, too, unless it is one of "
    "`stop_gradient`.",
    example="target: y",
)
PREDICTION = required("prediction", LAYER_REFERENCE, "The layer whose output is compared.", example="prediction: out")
SMOOTHING = Field(
    "smoothing",
    PART,
    "How much of each target is spread over all classes (label smoothing).",
    default=0,
    example="smoothing: 0.1",
)


MASK = Field(
    "mask",
    LAYER_REFERENCE,
    "A network input that says what counts: where it is 0, a sample, or an element of it, adds nothing to the loss, "
    "the metrics and the gradients, and the target may be NaN there; other numbers are weights. The mean is over what "
    "counts, in the whole batch. Its shape is that of the losses of a sample, or their first axes: `[]` for whole "
    "samples, `[steps]` for steps of a sequence.",
    example="mask: valid",
)
IGNORE = Field(
    "ignore",
    Value("a whole number", "-1", integer=True),
    "The number in the target that stands for no class, such as that of padding: what has it does not count, as with "
    "`mask`.",
)


def compared(name: str, doc: str, *more: Field) -> Alternative:
    return Alternative(
        name,
        Block(
            "loss",
            (PREDICTION, ANSWER, *more, MASK),
            title=name,
            elsewhere=instead("`prediction`: logits", "`target`: label labels", "`mask`: weights sample_weight"),
            example="{prediction: out, target: y}",
        ),
        doc,
        example=f"{{{name}: {{prediction: out, target: y}}}}",
    )
