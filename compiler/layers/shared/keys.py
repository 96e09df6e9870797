"""What layers of every family share: names, inputs, activations, windows, and how a kind of layer is described.

Assumes: kinds.py, values.py.
Guarantees: one definition per key that several layers have.
Does not: describe a kind of layer (the modules beside this one do, one per family).
"""

from __future__ import annotations

from compiler.expr.activations import ACTIVATIONS as ACTIVATION_TEXTS
from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Choice,
    Field,
    Flag,
    Kind,
    ListOf,
    Name,
    OneOf,
    Option,
    Reference,
    Value,
)
from compiler.expr.keys.values import COUNT, POSITIVE, TEMPLATE_KEY

SHAPE = ListOf(POSITIVE, example="[16, 5, 5]")

LAYER_REFERENCE = Reference("layer or network input", "conv1", TEMPLATE_KEY)
ACTIVATIONS = tuple(ACTIVATION_TEXTS)
"""The activations that are built in."""

FUNCTION = Reference("activation or one of the file's `functions`", "relu", known=ACTIVATIONS)

NAME = Field(
    "name",
    Name("conv1"),
    "The layer's name, by which others refer to it and under which its weights are written.",
    example="name: conv1",
)
INPUTS = Field(
    "inputs",
    OneOf((LAYER_REFERENCE, ListOf(LAYER_REFERENCE, low=1, example="[a, b]"))),
    "The layer, layers or network input that this one reads. Without it, the layer before (the "
    "first layer: the network's input, if only one holds real numbers).",
    example="inputs: image",
)
EXPECT = Field(
    "expect",
    Block(
        "expectation",
        (
            Field(
                "shape",
                SHAPE,
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
ACTIVATION = Field(
    "activation",
    FUNCTION,
    "A function that is applied to every element of the output: a known one, or one of `functions`.",
    example="activation: relu",
)
BIAS = Field("bias", Flag(), "Whether a trained bias is added.", default=True, example="bias: false")
EPSILON = Field(
    "epsilon",
    Value("a positive number", "1e-5", low=0, above=True),
    "Added to the variance.",
    default=1e-5,
    example="epsilon: 1e-5",
)
AFFINE = Field("affine", Flag(), "Whether a trained scale and shift follow.", default=True, example="affine: false")

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
    "dropout": "a layer of its own: `- dropout: {rate: 0.5}`",
    "batch_norm": "a layer of its own: `- batch_norm: {}`",
    "kernel_regularizer": "`penalty: {l2: ...}` in `train`",
    "kernel_initializer": "`init`",
}


def layer(
    name: str,
    doc: str,
    *own: Field,
    elsewhere: dict[str, str] | None = None,
    example: str | None = None,
    inputs: Field | None = INPUTS,
) -> Alternative:
    """One kind of layer: the keys that all layers have, and its own. `inputs`: None for one that reads nothing."""
    words = {**_ELSEWHERE, **(elsewhere or {})}
    names = {f.name for f in own} | {"inputs", "name", "expect"}
    block = Block(
        f"{name} layer",
        (NAME, *(() if inputs is None else (inputs,)), *own, EXPECT),
        title=f"layer_{name}",
        elsewhere={k: v for k, v in words.items() if k not in names},
        example=example or "{}",
    )
    return Alternative(name, block, doc, example=f"{{{name}: {block.example}}}")


def several(doc: str, low: int = 2, high: int | None = None) -> Field:
    """`inputs` of a layer that reads several."""
    return Field(
        "inputs",
        ListOf(LAYER_REFERENCE, low=low, high=high, example="[a, b]"),
        doc,
        required=True,
        example="inputs: [conv1, conv2]",
    )


# ------------------------------------------------------------------------------------------ windows

DIMENSIONS = {1: "length", 2: "height, width", 3: "depth, height, width"}


def extent(rank: int) -> Kind:
    """One number for all dimensions, or one for each."""
    if rank == 1:
        return POSITIVE
    return OneOf((POSITIVE, ListOf(POSITIVE, low=rank, high=rank, example=f"[{', '.join(['3'] * rank)}]")))


_SAME_OR_VALID = Choice(
    "padding",
    (
        Option("same", "As much as keeps the extents (divided by the stride, rounded up)."),
        Option("valid", "None."),
    ),
)


def padding(rank: int, words: bool = True) -> Kind:
    """`same`, `valid`, a number, one per dimension, or two (before and after) per dimension."""
    numbers = ListOf(COUNT, low=rank if rank > 1 else 2, high=2 * rank, example=f"[{', '.join(['1'] * max(rank, 2))}]")
    one = Value("a whole number", "1", integer=True, low=0)
    return OneOf((_SAME_OR_VALID, one, numbers)) if words else OneOf((one, numbers))


def padding_doc(rank: int, what: str) -> str:
    """What the forms of a padding mean."""
    forms = {
        1: "[before, after]",
        2: "[height, width] or [top, bottom, left, right]",
        3: "[depth, height, width] or two numbers for each of them",
    }
    return f"{what}: `same`, `valid` (none), a number, or {forms[rank]}."
