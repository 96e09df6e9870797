"""Layers that rearrange, join and combine; normalisation; sequences.

Assumes: layer_parts.py.
Guarantees: every key of these layers, with its hover text, default and example.
Does not: infer shapes.
"""

from __future__ import annotations

from compiler.expr.keys.kinds import (
    Alternative,
    Choice,
    Expression,
    Field,
    Flag,
    ListOf,
    MapOf,
    Name,
    OneOf,
    Option,
    Value,
)
from compiler.expr.keys.values import COUNT, FRACTION, POSITIVE
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import (
    ACTIVATION,
    AFFINE,
    BIAS,
    EPSILON,
    FUNCTION,
    LAYER_REFERENCE,
    SHAPE,
    layer,
    several,
)

_AXIS = "The axis, from 0, without the batch."

SHAPE_LAYERS = (
    layer("flatten", "All axes but the batch as one.", example="{}"),
    layer(
        "reshape",
        "The same elements, in order, with other axes.",
        Field("shape", SHAPE, "The new shape, without the batch.", required=True, example="shape: [16, 25]"),
        elsewhere={"target_shape": "`shape`"},
        example="{shape: [16, 25]}",
    ),
    layer(
        "permute",
        "The axes in another order.",
        Field(
            "axes",
            ListOf(COUNT, low=1, example="[1, 0]"),
            "For each axis of the output, that of the input it is, from 0, without the batch.",
            required=True,
            example="axes: [1, 0]",
        ),
        elsewhere={"dims": "`axes`", "perm": "`axes`"},
        example="{axes: [1, 0]}",
    ),
    layer(
        "concat",
        "Several layers one after the other along an axis.",
        Field("axis", COUNT, _AXIS, default=0, example="axis: 0"),
        elsewhere={"dim": "`axis`"},
        inputs=several("The layers that are joined; they differ in the extent of the axis only."),
        example="{inputs: [a, b]}",
    ),
    layer(
        "split",
        "The parts of an axis, as several layers.",
        Field("axis", COUNT, _AXIS, default=0, example="axis: 0"),
        Field(
            "into",
            ListOf(Name("first"), low=2, example="[first, second]"),
            "The names of the parts, by which other layers read them.",
            required=True,
            example="into: [first, second]",
        ),
        Field(
            "sizes",
            ListOf(POSITIVE, low=2, example="[3, 5]"),
            "The extent of each part; without it, parts of one size.",
            example="sizes: [3, 5]",
        ),
        elsewhere={"dim": "`axis`", "outputs": "`into`", "split_size": "`sizes`"},
        example="{into: [first, second]}",
    ),
    layer(
        "slice",
        "Neighbouring elements of an axis.",
        Field("axis", COUNT, _AXIS, default=0, example="axis: 0"),
        Field("from", COUNT, "The first element, from 0.", default=0, example="from: 0"),
        Field("to", POSITIVE, "The first element that is left out; without it, all up to the end.", example="to: 5"),
        elsewhere={"start": "`from`", "stop": "`to`", "end": "`to`", "dim": "`axis`"},
        example="{from: 0, to: 5}",
    ),
    layer(
        "add",
        "The sum of several layers of one shape, elementwise: a residual connection.",
        inputs=several("The layers that are added."),
        example="{inputs: [a, b]}",
    ),
    layer(
        "multiply",
        "The product of several layers of one shape, elementwise: a gate.",
        inputs=several("The layers that are multiplied."),
        example="{inputs: [a, b]}",
    ),
    Alternative(
        "map",
        MapOf(
            "formula",
            Expression("a * sigmoid(b)"),
            key_example="y",
            low=1,
            example="{y: a * sigmoid(b)}",
        ),
        "Layers written as formulas: a name, and an expression over layers, inputs and `params`, element by element. "
        "Shapes are broadcast as in NumPy; the derivative is derived.",
        example="{map: {y: a * sigmoid(b)}}",
    ),
    layer(
        "activation",
        "Applies a function to every element.",
        Field("function", FUNCTION, "The function.", required=True, example="function: relu"),
        elsewhere={"activation": "`function`"},
        example="{function: relu}",
    ),
    layer(
        "softmax",
        "Positive numbers whose sum along an axis is 1: exp(x) / sum(exp(x)).",
        Field("axis", COUNT, _AXIS + " Without it, the last.", example="axis: 0"),
        elsewhere={"dim": "`axis`"},
    ),
    layer(
        "log_softmax",
        "The logarithm of a softmax, computed without rounding to 0.",
        Field("axis", COUNT, _AXIS + " Without it, the last.", example="axis: 0"),
        elsewhere={"dim": "`axis`"},
    ),
    layer(
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
    layer(
        "noise",
        "Adds normal noise to every element while training.",
        Field(
            "std",
            Value("a positive number", "0.1", low=0, above=True),
            "The standard deviation.",
            required=True,
            example="std: 0.1",
        ),
        elsewhere={"stddev": "`std`", "sigma": "`std`"},
        example="{std: 0.1}",
    ),
    layer(
        "augment",
        "Changes samples while training by a formula that may draw random numbers.",
        Field(
            "value",
            Expression("x * (0.8 + 0.4 * random())"),
            "What the input `x` becomes, element by element; `random()`, `normal()` and `exponential()` draw numbers.",
            required=True,
            example="value: x * (0.8 + 0.4 * random())",
        ),
        Field(
            "draws",
            Choice(
                "draws",
                (
                    Option("element", "Each element has draws of its own."),
                    Option("sample", "All elements of a sample have the same draws."),
                ),
            ),
            "How many numbers are drawn.",
            default="element",
            example="draws: sample",
        ),
        example="{value: x * (0.8 + 0.4 * random()), draws: sample}",
    ),
    layer(
        "random_flip",
        "Reverses half of the samples along an axis while training, chosen at random.",
        Field(
            "axis",
            COUNT,
            "The axis, without the batch, from 0; without it, the last one (left and right of an image).",
            example="axis: 2",
        ),
        elsewhere={"dim": "`axis`", "mode": "`axis`"},
        example="{axis: 2}",
    ),
    layer(
        "random_crop",
        "Shifts each image by up to `padding` pixels in both directions while training; zeros come in at the edges.",
        Field("padding", POSITIVE, "The largest shift, at most 16.", required=True, example="padding: 4"),
        example="{padding: 4}",
    ),
)

NORM_LAYERS = (
    layer(
        "batch_norm",
        "Normalises each channel over the batch, then scales and shifts it; running means are used outside training.",
        Field(
            "momentum",
            FRACTION,
            "The part of the running mean that is kept at each step.",
            default=0.9,
            example="momentum: 0.9",
        ),
        EPSILON,
    ),
    layer(
        "layer_norm",
        "Normalises the last axes of each sample, then scales and shifts every element of them.",
        Field(
            "axes",
            POSITIVE,
            "How many of the last axes are normalised together.",
            default=1,
            example="axes: 1",
        ),
        EPSILON,
        AFFINE,
        elsewhere={"normalized_shape": "`axes`", "elementwise_affine": "`affine`"},
    ),
    layer(
        "group_norm",
        "Normalises groups of channels of each sample, then scales and shifts each channel.",
        Field("groups", POSITIVE, "The number of groups.", required=True, example="groups: 4"),
        EPSILON,
        AFFINE,
        elsewhere={"num_groups": "`groups`"},
        example="{groups: 4}",
    ),
    layer(
        "instance_norm",
        "Normalises each channel of each sample, then scales and shifts it.",
        EPSILON,
        AFFINE,
    ),
)

_UNITS = Field("units", POSITIVE, "The number of elements of the state.", required=True, example="units: 64")
_SEQUENCE = (
    Field(
        "sequence",
        Flag(),
        "Whether the output has the state of every step; without it, of the last one only.",
        default=False,
        example="sequence: true",
    ),
    Field(
        "bidirectional",
        Flag(),
        "Whether a second one runs from the end to the beginning; both outputs are joined.",
        default=False,
        example="bidirectional: true",
    ),
    BIAS,
    INIT,
)
_CELL_WORDS = {
    "hidden_size": "`units`",
    "return_sequences": "`sequence`",
    "size": "`units`",
    "num_layers": "`repeat: {times: ..., layers: [...]}`",
}

_HEADS_SHARE = "Its shape is [keys], [steps, keys], or [heads, steps, keys]."
_SEEN = (
    Field("causal", Flag(), "Whether a step sees none after it.", default=False, example="causal: true"),
    Field(
        "mask",
        LAYER_REFERENCE,
        f"A layer or network input that says which keys are seen: those where it is 0 are not. {_HEADS_SHARE} A step "
        "that sees none gives zeros.",
        example="mask: valid",
    ),
    Field(
        "offset",
        LAYER_REFERENCE,
        "A layer or network input that is added to the scaled products before the softmax, such as one for each "
        f"distance of steps. {_HEADS_SHARE}",
        example="offset: distances",
    ),
)
_ATTENDED = OneOf((LAYER_REFERENCE, ListOf(LAYER_REFERENCE, low=1, high=3, example="[query, key, value]")))
_ATTENTION_WORDS = {
    "num_heads": "`heads`",
    "attention_mask": "`mask`",
    "key_padding_mask": "`mask`",
    "attn_mask": "`mask`, or `offset` for numbers that are added",
    "is_causal": "`causal`",
}

SEQUENCE_LAYERS = (
    layer(
        "embedding",
        "A trained row of numbers for each whole number, as of words.",
        Field("count", POSITIVE, "How many numbers there are: 0 to count - 1.", required=True, example="count: 1000"),
        Field("size", POSITIVE, "The length of a row.", required=True, example="size: 64"),
        elsewhere={"num_embeddings": "`count`", "embedding_dim": "`size`", "units": "`size`"},
        example="{inputs: words, count: 1000, size: 64}",
    ),
    layer(
        "one_hot",
        "For each whole number, as many numbers as there are classes: 1 at its own place, 0 elsewhere.",
        Field("count", POSITIVE, "How many classes there are: 0 to count - 1.", required=True, example="count: 10"),
        Field(
            "lenient",
            Flag(),
            "Whether all whole numbers are taken, as in ONNX: negative ones count from the end (-1 is the last class), "
            "those that are still outside have zeros only.",
            default=False,
            example="lenient: true",
        ),
        elsewhere={"num_classes": "`count`", "depth": "`count`", "num_tokens": "`count`"},
        example="{inputs: kind, count: 10}",
    ),
    layer(
        "learned",
        "Trained numbers that depend on no input, the same for every sample: queries, a token in front of a sequence, "
        "an `offset` of attention.",
        Field("shape", SHAPE, "Their shape, without the batch.", required=True, example="shape: [8, 64]"),
        INIT,
        inputs=None,
        elsewhere={"size": "`shape`", "value": "`init`"},
        example="{name: token, shape: [1, 64]}",
    ),
    layer(
        "positions",
        "Adds to each step of a sequence what tells its place.",
        Field(
            "encoding",
            Choice(
                "encoding",
                (
                    Option("sinusoidal", "Sines and cosines of falling frequencies."),
                    Option("trained", "A trained row for each place."),
                ),
            ),
            "What is added.",
            default="sinusoidal",
            example="encoding: trained",
        ),
        elsewhere={"kind": "`encoding`"},
    ),
    layer(
        "attention",
        "Multi-head attention over the steps of a sequence, with trained projections.",
        Field("heads", POSITIVE, "The number of heads.", required=True, example="heads: 4"),
        Field(
            "size",
            POSITIVE,
            "The length of queries, keys and values, all heads together; without it, that of the input.",
            example="size: 64",
        ),
        *_SEEN,
        BIAS,
        INIT,
        inputs=Field(
            "inputs",
            _ATTENDED,
            "One sequence that attends to itself, or query, key and value. Without it, the layer before.",
            example="inputs: [decoded, encoded, encoded]",
        ),
        elsewhere=_ATTENTION_WORDS | {"embed_dim": "`size`", "key_dim": "`size`"},
        example="{heads: 4}",
    ),
    layer(
        "dot_attention",
        "Scaled dot-product attention over the steps of a sequence, softmax(q k * scale) v (Vaswani et al. 2017, eq. "
        "1), with no weights of its own. With `heads`, parts of the features attend each for itself.",
        Field(
            "heads",
            POSITIVE,
            "The number of parts, of one size, that queries, keys and values have.",
            default=1,
            example="heads: 4",
        ),
        Field(
            "scale",
            Value("a number", "0.125"),
            "The factor of the products; without it, 1 / sqrt(features of a query in a head).",
            example="scale: 0.125",
        ),
        *_SEEN,
        inputs=Field(
            "inputs",
            _ATTENDED,
            "Query, key and value, or one sequence that is all three. Without it, the layer before. Values may have "
            "other features than keys.",
            example="inputs: [q, k, v]",
        ),
        elsewhere=_ATTENTION_WORDS,
        example="{inputs: [q, k, v]}",
    ),
    layer(
        "rnn",
        "A recurrent layer over the steps of a sequence: h = f(W x + U h + b).",
        _UNITS,
        Field(
            "function",
            Choice("function", (Option("tanh", "Between -1 and 1."), Option("relu", "max(x, 0)."))),
            "The function f, applied to every element of the state.",
            default="tanh",
            example="function: relu",
        ),
        *_SEQUENCE,
        elsewhere=_CELL_WORDS | {"activation": "`function`"},
        example="{units: 64}",
    ),
    layer(
        "gru",
        "Gated recurrent units over the steps of a sequence (Cho et al. 2014).",
        _UNITS,
        Field(
            "reset",
            Choice(
                "place of the reset",
                (
                    Option("after", "tanh(W x + b + r (U h + c)), as in cuDNN, PyTorch and Keras."),
                    Option(
                        "before", "tanh(W x + U (r h) + b), as published (Cho et al. 2014, eq. 8) and ONNX's default."
                    ),
                ),
            ),
            "Whether the reset gate r scales the state h after its product with U in the candidate, or before it.",
            default="after",
            example="reset: before",
        ),
        *_SEQUENCE,
        elsewhere=_CELL_WORDS | {"reset_after": "`reset`", "linear_before_reset": "`reset`"},
        example="{units: 64}",
    ),
    layer(
        "lstm",
        "Long short-term memory over the steps of a sequence (Hochreiter & Schmidhuber 1997; with forget gates).",
        _UNITS,
        *_SEQUENCE,
        elsewhere=_CELL_WORDS,
        example="{units: 64}",
    ),
)

DENSE = layer(
    "dense",
    "A fully connected layer: y = x W + b. A sequence is a list of steps that all have the same weights.",
    Field("units", POSITIVE, "The number of outputs.", required=True, example="units: 10"),
    ACTIVATION,
    BIAS,
    INIT,
    example="{units: 10}",
)
