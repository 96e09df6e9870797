"""The tensor part of the language: layers, losses, optimizers and training.

Assumes: kinds.py, values.py.
Guarantees: every key of these blocks, with its hover text, default and example. A new layer is one
Alternative in LAYERS; validator, schema and reference follow.
Does not: infer shapes or know the parameters of a library optimizer (they stand in its own file).
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
    Expression,
    Field,
    Flag,
    Kind,
    Later,
    ListOf,
    MapOf,
    Name,
    OneKey,
    OneOf,
    Option,
    Reference,
    Statement,
    Text,
    Value,
)
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

_PAIR = ListOf(POSITIVE, low=2, high=2, example="[3, 3]")
_EXTENT: Kind = OneOf((POSITIVE, _PAIR))
_MARGIN: Kind = OneOf((COUNT, ListOf(COUNT, low=2, high=2, example="[1, 1]")))
_SAME_OR_VALID = Choice(
    "padding",
    (
        Option("same", "As much as keeps height and width (divided by the stride, rounded up)."),
        Option("valid", "None."),
    ),
)
_PADDING: Kind = OneOf(
    (
        _SAME_OR_VALID,
        Value("a whole number", "1", integer=True, low=0),
        ListOf(COUNT, low=2, high=2, example="[1, 1]"),
    )
)
_SHAPE = ListOf(POSITIVE, example="[16, 5, 5]")

_LAYER_REFERENCE = Reference("layer or network input", "conv1", TEMPLATE_KEY)
_FUNCTION = Reference(
    "activation or one of the file's `functions`",
    "relu",
    known=("relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "softplus"),
)

_NAME = Field(
    "name",
    Name("conv1"),
    "The layer's name, by which others refer to it and under which its weights are written.",
    example="name: conv1",
)
_INPUTS = Field(
    "inputs",
    OneOf((_LAYER_REFERENCE, ListOf(_LAYER_REFERENCE, low=1, example="[a, b]"))),
    "The layer, layers or network input that this one reads. Without it, the layer before (the "
    "first layer: the network's first input).",
    example="inputs: image",
)
_EXPECT = Field(
    "expect",
    Block(
        "expectation",
        (
            Field(
                "shape",
                _SHAPE,
                "The shape that the layer's output must have, without the batch.",
                required=True,
                example="shape: [16, 5, 5]",
            ),
        ),
        title="expect_shape",
        example="{shape: [16, 5, 5]}",
    ),
    "Checks the shape that was inferred; another one is an error here.",
    example="expect: {shape: [16, 5, 5]}",
)
_ACTIVATION = Field(
    "activation",
    _FUNCTION,
    "A function that is applied to every element of the output: a known one, or one of `functions`.",
    example="activation: relu",
)
_BIAS = Field("bias", Flag(), "Whether a trained bias is added.", default=True, example=("bias: false"))

_ELSEWHERE = {
    "kernel_size": "`kernel`",
    "strides": "`stride`",
    "pool_size": "`size`",
    "kernels": "`kernel`",
    "out_channels": "`filters`",
    "channels": "`filters`",
    "out_features": "`units`",
    "features": "`units`",
    "input": "`inputs`",
    "input_shape": "the network's `inputs: {name: {shape: [...]}}`",
    "in_channels": "nothing: it is inferred",
    "in_features": "nothing: it is inferred",
    "use_bias": "`bias`",
    "dilation_rate": "`dilation`",
    "eps": "`epsilon`",
    "nonlinearity": "`activation`",
    "output_shape": "`expect: {shape: [...]}`",
    "shape": "`expect: {shape: [...]}`",
}


def _layer(
    name: str,
    doc: str,
    *own: Field,
    elsewhere: dict[str, str] | None = None,
    example: str | None = None,
    inputs: Field = _INPUTS,
) -> Alternative:
    """One kind of layer: the keys that all layers have, and its own."""
    block = Block(
        f"{name} layer",
        (_NAME, inputs, *own, _EXPECT),
        title=f"layer_{name}",
        elsewhere={**_ELSEWHERE, **(elsewhere or {})},
        example=example or "{}",
    )
    return Alternative(name, block, doc, example=f"{{{name}: {block.example}}}")


def _pool(name: str, doc: str, *more: Field) -> Alternative:
    return _layer(
        name,
        doc,
        Field("size", _EXTENT, "The window's height and width.", required=True, example="size: 2"),
        Field("stride", _EXTENT, "The step of the window; without it, `size`.", example=("stride: 2")),
        Field(
            "padding",
            _PADDING,
            "Rows and columns around the input.",
            default=0,
            example="padding: 1",
        ),
        *more,
        elsewhere={"kernel": "`size`", "kernel_size": "`size`"},
        example="{size: 2}",
    )


def _layers() -> Kind:
    return LAYERS


LAYER = OneKey(
    "layer",
    (
        _layer(
            "dense",
            "A fully connected layer: y = x W + b.",
            Field("units", POSITIVE, "The number of outputs.", required=True, example="units: 10"),
            _ACTIVATION,
            _BIAS,
            example="{units: 10}",
        ),
        _layer(
            "conv2d",
            "A two-dimensional convolution (cross-correlation) over channels, height, width.",
            Field(
                "filters",
                POSITIVE,
                "The number of output channels.",
                required=True,
                example="filters: 16",
            ),
            Field(
                "kernel",
                _EXTENT,
                "The kernel's height and width, or one number for both.",
                required=True,
                example="kernel: 3",
            ),
            Field("stride", _EXTENT, "The step of the kernel.", default=1, example="stride: 2"),
            Field(
                "padding",
                _PADDING,
                "Zeros around the input: `same`, `valid` (none), a number, or [height, width].",
                default="valid",
                example="padding: same",
            ),
            Field(
                "dilation",
                _EXTENT,
                "The distance of the kernel's taps.",
                default=1,
                example="dilation: 2",
            ),
            Field(
                "groups",
                POSITIVE,
                "Input and output channels are split into this many groups that do not see each other.",
                default=1,
                example="groups: 2",
            ),
            _ACTIVATION,
            _BIAS,
            elsewhere={"units": "`filters`", "size": "`kernel`"},
            example="{filters: 16, kernel: 3}",
        ),
        _pool("max_pool2d", "The largest value of each window."),
        _pool("avg_pool2d", "The mean of each window."),
        _layer("flatten", "All axes but the batch as one.", example="{}"),
        _layer(
            "add",
            "The sum of several layers of one shape, elementwise: a residual connection.",
            inputs=Field(
                "inputs",
                ListOf(_LAYER_REFERENCE, low=2, example="[a, b]"),
                "The layers that are added.",
                required=True,
                example="inputs: [conv1, conv2]",
            ),
            example="{inputs: [a, b]}",
        ),
        _layer(
            "batch_norm",
            "Normalises each channel over the batch, then scales and shifts it; running means are "
            "used outside training.",
            Field(
                "momentum",
                FRACTION,
                "The part of the running mean that is kept at each step.",
                default=0.9,
                example="momentum: 0.9",
            ),
            Field(
                "epsilon",
                Value("a positive number", "1e-5", low=0, above=True),
                "Added to the variance.",
                default=1e-5,
                example="epsilon: 1e-5",
            ),
        ),
        _layer(
            "dropout",
            "Sets elements to zero at random while training, and scales the others up.",
            Field(
                "rate",
                FRACTION,
                "The probability with which an element is dropped.",
                required=True,
                example="rate: 0.5",
            ),
            elsewhere={"p": "`rate`", "probability": "`rate`"},
            example="{rate: 0.5}",
        ),
        _layer(
            "activation",
            "Applies a function to every element.",
            Field("function", _FUNCTION, "The function.", required=True, example="function: relu"),
            elsewhere={"activation": "`function`", "name": "`name`"},
            example="{function: relu}",
        ),
        Alternative(
            "repeat",
            Block(
                "repeat",
                (
                    Field("times", POSITIVE, "How many copies.", required=True, example="times: 3"),
                    Field(
                        "layers",
                        Later("layers", _layers),
                        "The layers of one copy. A layer called `a` becomes `a_1`, `a_2`, ...; "
                        "inside a copy, names refer to that copy.",
                        required=True,
                        example="layers: [{dense: {units: 128, activation: tanh}}]",
                    ),
                ),
                title="layer_repeat",
                elsewhere={
                    "count": "`times`",
                    "n": "`times`",
                    "number": "`times`",
                    "body": "`layers`",
                },
                example="{times: 3, layers: [...]}",
            ),
            "Layers, several times in a row, each copy with weights of its own.",
            example="{repeat: {times: 3, layers: [...]}}",
        ),
    ),
    title="layer",
    doc="One layer.",
    elsewhere={
        "conv": "`conv2d`",
        "convolution": "`conv2d`",
        "linear": "`dense`",
        "fully_connected": "`dense`",
        "fc": "`dense`",
        "maxpool": "`max_pool2d`",
        "max_pool": "`max_pool2d`",
        "max_pooling2d": "`max_pool2d`",
        "avg_pool": "`avg_pool2d`",
        "average_pooling2d": "`avg_pool2d`",
        "pool": "`max_pool2d` or `avg_pool2d`",
        "relu": "`activation: {function: relu}`",
        "sigmoid": "`activation: {function: sigmoid}`",
        "tanh": "`activation: {function: tanh}`",
        "batchnorm": "`batch_norm`",
        "batch_normalization": "`batch_norm`",
        "residual": "`add`",
    },
)

LAYERS = ListOf(LAYER, low=1, example="[{dense: {units: 10}}]")

NETWORK = Block(
    "network",
    (
        Field(
            "inputs",
            MapOf(
                "network input",
                Block(
                    "network input",
                    (
                        Field(
                            "shape",
                            _SHAPE,
                            "The shape of one sample, without the batch; `[]` is a single value.",
                            required=True,
                            example="shape: [1, 28, 28]",
                        ),
                        Field(
                            "dtype",
                            Choice(
                                "element type",
                                (
                                    Option("float32", "32-bit floating point."),
                                    Option("float64", "64-bit floating point."),
                                    Option("int32", "32-bit integers, as for class labels."),
                                    Option("int64", "64-bit integers."),
                                ),
                            ),
                            "The type of the elements; without it, that of `numerics: {precision: ...}`.",
                            example="dtype: int32",
                        ),
                        DESCRIPTION,
                    ),
                    title="network_input",
                    elsewhere={"type": "`dtype`", "size": "`shape`"},
                    example="{shape: [1, 28, 28]}",
                ),
                key_example="image",
                low=1,
                example="{image: {shape: [1, 28, 28]}}",
            ),
            "What a sample consists of: images, labels, targets.",
            required=True,
            example="inputs: {image: {shape: [1, 28, 28]}, label: {shape: [], dtype: int32}}",
        ),
        Field(
            "layers",
            LAYERS,
            "The layers, in order; each reads the one before unless `inputs` says otherwise.",
            required=True,
            example="layers: [{dense: {units: 10}}]",
        ),
        DESCRIPTION,
    ),
    doc="A network of layers. Shapes are inferred; the batch is an implicit leading axis.",
    title="network",
    elsewhere={"input": "`inputs`", "layer": "`layers`"},
    example="{inputs: {...}, layers: [...]}",
)

_LOGITS = Field(
    "logits",
    _LAYER_REFERENCE,
    "The layer with the scores, one per class.",
    required=True,
    example="logits: logits",
)
_TARGET = Field(
    "target",
    _LAYER_REFERENCE,
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
                        _LAYER_REFERENCE,
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
            MapOf("parameter", OneOf((NUMBER, PARAMETER)), example=("{learning_rate: 1e-3, beta: 0.9}")),
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
