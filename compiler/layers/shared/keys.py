"""Keys common to all families of layers: names, inputs, activations, and the description of a kind of layer.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: one definition per key common to several layers.
Does not: describe a kind of layer (the modules beside this one do, one per family).
"""

from __future__ import annotations

from dataclasses import replace

from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Field,
    ListOf,
    Name,
    OneOf,
    Reference,
    Value,
    instead,
    required,
    switch,
)
from compiler.expr.keys.values import COUNT, POSITIVE, TEMPLATE_KEY
from compiler.layers.shared.activations import ACTIVATIONS as ACTIVATION_TEXTS

AXIS = "The axis, from 0, without the batch."
AXIS_NUMBER = replace(COUNT, negative="axes and their elements count from 0, without the batch, not from the end")
SHAPE = ListOf(replace(POSITIVE, negative="every extent is written out: -1 stands for none"), example="[16, 5, 5]")

LAYER_REFERENCE = Reference("layer or network input", "conv1", TEMPLATE_KEY)
ACTIVATIONS = tuple(ACTIVATION_TEXTS)
"""The built-in activations."""

RESERVED = frozenset({"loss", "batch", "metric", "clip", "penalty"})
"""Tensors that belong to no layer have names that begin so (`loss.sum`, `batch.mask`)."""

FUNCTION = Reference("activation or one of the file's `functions`", "relu", known=ACTIVATIONS)

NAME = Field(
    "name", Name("conv1"), "The layer's name, by which others refer to it and under which its weights are written."
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
        (required("shape", SHAPE, "The shape that the layer's output must have, without the batch."),),
        title="expect_shape",
    ),
    "Checks the shape that was inferred; another one is an error here.",
)
ACTIVATION = Field(
    "activation",
    FUNCTION,
    "A function that is applied to every element of the output: a known one, or one of `functions`.",
)
BIAS = switch("bias", "Whether a trained bias is added.", True)
WEIGHTS = Field(
    "weights",
    Reference("layer", "words", TEMPLATE_KEY),
    "A layer before this one: trained arrays that both have (and running means) are that layer's, shared by the two. "
    "Their gradient is the sum of those of both uses.",
)
FROZEN = switch(
    "frozen",
    "With `weights`: the shared arrays do not learn from this layer, only from the other one. Gradients pass on to its "
    "inputs.",
)
EPSILON = Field(
    "epsilon", Value("a positive number", "1e-5", low=0, above=True), "Added to the variance.", default=1e-5
)
AFFINE = switch("affine", "Whether a trained scale and shift follow.", True)

_ELSEWHERE = instead(
    "`kernel`: kernel_size kernels",
    "`stride`: strides",
    "`size`: pool_size",
    "`filters`: out_channels channels",
    "`units`: out_features features",
    "`inputs`: input",
    "the network's `inputs: {name: {shape: [...]}}`: input_shape",
    "nothing: it is inferred: in_channels in_features",
    "`bias`: use_bias",
    "`dilation`: dilation_rate",
    "`epsilon`: eps",
    "`activation`: nonlinearity",
    "`expect: {shape: [...]}`: output_shape shape",
    "a layer of its own: `- dropout: {rate: 0.5}`: dropout",
    "a layer of its own: `- batch_norm: {}`: batch_norm",
    "`penalty: {l2: ...}` in `train`: kernel_regularizer",
    "`init`: kernel_initializer",
    "`groups: [{of: ..., frozen: true}]` in `train`: trainable requires_grad",
)


def layer(
    name: str,
    doc: str,
    *own: Field,
    elsewhere: dict[str, str] | None = None,
    example: str | None = None,
    inputs: Field | None = INPUTS,
    trained: bool = False,
    one_of: tuple[tuple[str, ...], ...] = (),
    needs: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Alternative:
    """One kind of layer: the keys common to all layers, and its own. `inputs`: None for one without sources; `trained`:
    it may have trained arrays."""
    words = {**_ELSEWHERE, **(elsewhere or {})}
    names = {f.name for f in own} | {"inputs", "name", "expect"}
    block = Block(
        f"{name} layer",
        (NAME, *(() if inputs is None else (inputs,)), *own, *((WEIGHTS, FROZEN) if trained else ()), EXPECT),
        title=f"layer_{name}",
        elsewhere={k: v for k, v in words.items() if k not in names},
        one_of=one_of,
        needs=(*needs, *((("frozen", ("weights",)),) if trained else ())),
        example=example,
    )
    return Alternative(name, block, doc)


def several(doc: str, low: int = 2, high: int | None = None) -> Field:
    """`inputs` of a layer with several sources."""
    return required(
        "inputs", ListOf(LAYER_REFERENCE, low=low, high=high, example="[a, b]"), doc, example="inputs: [conv1, conv2]"
    )
