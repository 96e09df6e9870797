"""Networks of layers. A new layer is one Alternative in LAYER; validator, schema and reference follow.

Assumes: kinds.py, values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: infer shapes.
"""

from __future__ import annotations

from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
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
    Value,
)
from compiler.frontend.language.values import (
    COUNT,
    DESCRIPTION,
    FRACTION,
    POSITIVE,
    TEMPLATE_KEY,
)

_PAIR = ListOf(POSITIVE, low=2, high=2, example="[3, 3]")
_EXTENT: Kind = OneOf((POSITIVE, _PAIR))
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

LAYER_REFERENCE = Reference("layer or network input", "conv1", TEMPLATE_KEY)
ACTIVATIONS = ("relu", "leaky_relu", "elu", "gelu", "silu", "sigmoid", "tanh", "softplus")
"""The activations that compiler/passes/lower_network.py knows; a test compares the two."""

_FUNCTION = Reference("activation or one of the file's `functions`", "relu", known=ACTIVATIONS)

_NAME = Field(
    "name",
    Name("conv1"),
    "The layer's name, by which others refer to it and under which its weights are written.",
    example="name: conv1",
)
_INPUTS = Field(
    "inputs",
    OneOf((LAYER_REFERENCE, ListOf(LAYER_REFERENCE, low=1, example="[a, b]"))),
    "The layer, layers or network input that this one reads. Without it, the layer before (the "
    "first layer: the network's input, if only one holds real numbers).",
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
_BIAS = Field("bias", Flag(), "Whether a trained bias is added.", default=True, example="bias: false")

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
        Field("stride", _EXTENT, "The step of the window; without it, `size`.", example="stride: 2"),
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
                ListOf(LAYER_REFERENCE, low=2, example="[a, b]"),
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
                                    Option("int64", "64-bit integers.", supported=False),
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
