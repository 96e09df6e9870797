"""How a network of layers is trained: data, losses, metrics, optimizers; and functions of the file.

Assumes: kinds.py, values.py, layers.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: know the parameters of a library optimizer (they stand in its own file).
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
    Expression,
    Field,
    Flag,
    ListOf,
    MapOf,
    OneKey,
    OneOf,
    Option,
    Reference,
    Statement,
    Text,
)
from compiler.frontend.language.layers import LAYER_REFERENCE
from compiler.frontend.language.values import (
    COUNT,
    DESCRIPTION,
    FOR,
    FRACTION,
    NUMBER,
    PARAMETER,
    POSITIVE,
    TEMPLATE_KEY,
    USE,
    values_map,
)

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

LOSS = OneKey(
    "loss",
    (
        Alternative(
            "softmax_cross_entropy",
            Block(
                "loss",
                (_LOGITS, _TARGET),
                title="softmax_cross_entropy",
                elsewhere={"prediction": "`logits`", "label": "`target`", "labels": "`target`"},
                example="{logits: logits, target: label}",
            ),
            "Cross-entropy between the softmax of the scores and the right class; the target is the class's number.",
            example="{softmax_cross_entropy: {logits: logits, target: label}}",
        ),
        Alternative(
            "mean_squared_error",
            Block(
                "loss",
                (
                    Field(
                        "prediction",
                        LAYER_REFERENCE,
                        "The layer whose output is compared.",
                        required=True,
                        example="prediction: out",
                    ),
                    _TARGET,
                ),
                title="mean_squared_error",
                elsewhere={"logits": "`prediction`", "label": "`target`", "labels": "`target`"},
                example="{prediction: out, target: y}",
            ),
            "The mean over all elements of the squared difference.",
            example="{mean_squared_error: {prediction: out, target: y}}",
        ),
    ),
    title="loss",
    doc="What training makes small; the mean over the batch.",
    elsewhere={
        "mse": "`mean_squared_error`",
        "l2": "`mean_squared_error`",
        "cross_entropy": "`softmax_cross_entropy`",
        "crossentropy": "`softmax_cross_entropy`",
        "categorical_crossentropy": "`softmax_cross_entropy`",
        "sparse_categorical_crossentropy": "`softmax_cross_entropy`",
        "nll": "`softmax_cross_entropy`",
    },
)

METRIC = Choice(
    "metric",
    (
        Option("accuracy", "The part of the samples whose largest score is that of the right class."),
        Option("mean_absolute_error", "The mean over all elements of the size of the difference."),
    ),
)

_OPTIMIZER_VALUES = values_map("optimizer parameter", NUMBER, "{learning_rate: 1e-3}")

OPTIMIZER_CHOICE = OneKey(
    "optimizer",
    (
        Alternative(
            "sgd",
            _OPTIMIZER_VALUES,
            "Stochastic gradient descent.",
            example="{sgd: {learning_rate: 0.1}}",
        ),
        Alternative(
            "momentum",
            _OPTIMIZER_VALUES,
            "Gradient descent with momentum.",
            example="{momentum: {learning_rate: 0.1}}",
        ),
        Alternative(
            "adam",
            _OPTIMIZER_VALUES,
            "Adam (Kingma & Ba 2015).",
            example="{adam: {learning_rate: 1e-3}}",
        ),
    ),
    title="optimizer_choice",
    doc="An optimizer of this file's `optimizers` or of the library, with its parameters.",
    own=_OPTIMIZER_VALUES,
)

OPTIMIZER = Block(
    "optimizer",
    (
        USE,
        FOR,
        DESCRIPTION,
        Field(
            "params",
            MapOf("parameter", OneOf((NUMBER, PARAMETER)), example="{learning_rate: 1e-3, beta: 0.9}"),
            "Parameters with their default values; `train: {optimizer: ...}` may give others.",
            example="params: {learning_rate: 1e-3, beta1: 0.9}",
        ),
        Field(
            "state",
            values_map("state variable", NUMBER, "{m: 0}"),
            "Variables with their initial values, one of each per trained value.",
            example="state: {m: 0, v: 0}",
        ),
        Field(
            "update",
            ListOf(
                Statement("param = param - learning_rate * gradient"),
                low=1,
                example="[param = param - learning_rate * gradient]",
            ),
            "Assignments that run once per step for every trained value, in order, each reading "
            "the newest values. `param`, `gradient` and `step` (from 1) are given; other names on "
            "the left are temporaries.",
            required=True,
            example="update: [param = param - learning_rate * gradient]",
        ),
    ),
    doc="An optimizer, written out.",
    title="optimizer",
    elsewhere={
        "parameters": "`params`",
        "step": "`update: [...]`",
        "rule": "`update: [...]`",
        "variables": "`state`",
    },
    open_with=("use",),
    example="{params: {learning_rate: 0.1}, update: [...]}",
)

_DATA = Block(
    "data",
    (
        Field(
            "file",
            Reference("data file", "data/digits.npz", r"^.+\.npz$"),
            "The `.npz` file with the samples, relative to the model file. The first axis of each "
            "array counts samples.",
            required=True,
            example="file: data/digits.npz",
        ),
        Field(
            "inputs",
            MapOf(
                "array",
                Text("the name of an array", "images"),
                key_example="image",
                low=1,
                example="{image: images}",
            ),
            "For each input of the network, the array of the file that it is read from.",
            required=True,
            example="inputs: {image: images, label: labels}",
        ),
        Field(
            "scale",
            MapOf("factor", NUMBER, key_example="image", example="{image: 1 / 255}"),
            "Factors that inputs are multiplied by as they are read.",
            example="scale: {image: 1 / 255}",
        ),
        Field(
            "split",
            Block(
                "split",
                (
                    Field(
                        "validation",
                        FRACTION,
                        "The part of the samples that is kept for validation.",
                        example="validation: 0.2",
                    ),
                    Field(
                        "test",
                        FRACTION,
                        "The part that is kept for a final test.",
                        example="test: 0.1",
                        supported=False,
                    ),
                ),
                title="split",
                elsewhere={"train": "nothing: it is what the others leave", "val": "`validation`"},
                example="{validation: 0.2}",
            ),
            "Which part of the samples is not trained on; drawn with the training's `seed`.",
            example="split: {validation: 0.2}",
        ),
        Field(
            "shuffle",
            Flag(),
            "Whether samples are put into a new order in each epoch.",
            default=True,
            example="shuffle: false",
        ),
    ),
    doc="Where the samples come from.",
    title="train_data",
    elsewhere={
        "path": "`file`",
        "arrays": "`inputs`",
        "validation": "`split: {validation: ...}`",
        "batch": "`train: {batch: ...}`",
    },
    example="{file: data/digits.npz, inputs: {image: images, label: labels}}",
)

TRAIN = Block(
    "training",
    (
        Field(
            "data",
            _DATA,
            "The samples.",
            required=True,
            example="data: {file: data/digits.npz, inputs: {image: images}}",
        ),
        Field(
            "loss",
            LOSS,
            "What is made small.",
            required=True,
            example="loss: {softmax_cross_entropy: {logits: logits, target: label}}",
        ),
        Field(
            "metrics",
            ListOf(METRIC, example="[accuracy]"),
            "What is measured at each epoch.",
            example="metrics: [accuracy]",
        ),
        Field(
            "optimizer",
            OPTIMIZER_CHOICE,
            "How weights follow their gradients.",
            required=True,
            example="optimizer: {adam: {learning_rate: 1e-3}}",
        ),
        Field(
            "batch",
            POSITIVE,
            "Samples per step; the last batch of an epoch may be shorter.",
            default=32,
            example="batch: 64",
        ),
        Field(
            "epochs",
            POSITIVE,
            "How often each sample is seen.",
            required=True,
            example="epochs: 20",
        ),
        Field(
            "seed",
            COUNT,
            "The seed of initial weights, split, order and dropout.",
            default=0,
            example="seed: 3",
        ),
        Field(
            "checkpoint",
            Block(
                "checkpoint",
                (
                    Field(
                        "every",
                        POSITIVE,
                        "Epochs between checkpoints.",
                        default=1,
                        example="every: 5",
                    ),
                ),
                title="checkpoint",
                example="{every: 5}",
            ),
            "Writes checkpoints that a run can be resumed from, bit for bit.",
            example="checkpoint: {every: 5}",
        ),
    ),
    doc="How the network is trained.",
    title="train",
    elsewhere={
        "batch_size": "`batch`",
        "lr": "`optimizer: {adam: {learning_rate: ...}}`",
        "learning_rate": "`optimizer: {adam: {learning_rate: ...}}`",
        "dataset": "`data`",
        "criterion": "`loss`",
        "objective": "`loss`",
        "metric": "`metrics`",
        "epoch": "`epochs`",
        "iterations": "`epochs`",
        "random_seed": "`seed`",
    },
    example="{data: {...}, loss: {...}, optimizer: {...}, epochs: 20}",
)

OPTIMIZERS = MapOf("optimizer", OPTIMIZER, TEMPLATE_KEY, "my_optimizer")
FUNCTIONS = MapOf(
    "function",
    Expression("x / (1 + exp(-x))"),
    key=r"^[A-Za-z][A-Za-z0-9_]*\(\s*[A-Za-z][A-Za-z0-9_]*(?:\s*,\s*[A-Za-z][A-Za-z0-9_]*)*\s*\)$",
    key_example="swish(x)",
    example="{swish(x): x / (1 + exp(-x))}",
)
