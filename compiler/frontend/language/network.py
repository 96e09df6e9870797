"""Networks of layers. Layers are those of KINDS (compiler/layers); validator, schema and reference are derived.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: infer shapes.
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
from compiler.expr.keys.values import DESCRIPTION, NUMBER, POSITIVE, POSITIVE_TIME, TEMPLATE_KEY
from compiler.ir.level0.tensors import RATE, SPIKES
from compiler.layers import KINDS
from compiler.layers.shared.keys import LAYER_REFERENCE, SHAPE


def _layers() -> k.Kind:
    return LAYERS


BLOCK_SETTINGS = (
    k.switch(
        "checkpoint",
        "`true`: what the layers compute is not kept for the gradients but computed again when they need it. The same "
        "results, bit for bit, in less memory and more time. What layers outside of the block read is kept, and so are "
        "numbers without a batch, such as the statistics of a `batch_norm`.",
    ),
    k.Field(
        "fuse",
        k.choice(
            "fusion",
            auto="Elementwise work becomes part of the kernels beside it where that is possible.",
            required="Where it is not, that is an error that says why.",
        ),
        "Whether elementwise work (biases, normalisations, activations, sums) may be a kernel of its own. Gradients "
        "are not looked at, nor what needs something of the whole tensor first, as a `batch_norm` in training does.",
        default="auto",
    ),
)
"""Settings of a block of layers."""

LAYER = k.OneKey(
    "layer",
    (
        *(kind.keys for kind in KINDS),
        k.entry(
            "repeat",
            "repeat",
            "Layers, several times in a row, each copy with weights of its own. What is set beside `layers` holds for "
            "each copy as a block.",
            k.required("times", POSITIVE, "How many copies."),
            k.required(
                "layers",
                k.Later("layers", _layers),
                "The layers of one copy. A layer called `a` becomes `a_1`, `a_2`, ...; "
                "inside a copy, names refer to that copy.",
                example="layers: [{dense: {units: 128, activation: tanh}}]",
            ),
            *BLOCK_SETTINGS,
            title="layer_repeat",
            elsewhere=k.instead("`times`: count n number", "`layers`: body"),
            example="{times: 3, layers: [...]}",
        ),
        k.entry(
            "block",
            "block",
            "Layers that are treated as one when a training is compiled.",
            k.Field(
                "layers",
                k.Later("layers", _layers),
                "The layers of the block, which stand among the others as if they stood there without it.",
                example="layers: [{dense: {units: 128, activation: tanh}}]",
            ),
            k.Field(
                "use",
                k.Reference("block of the network", "residual"),
                "One of the network's `blocks`, instead of `layers`.",
            ),
            k.Field(
                "name",
                k.Name("first"),
                "With `use`: the name of its last layer, by which others read the block; its layers are called "
                "`first_conv` and so on. Without it, `residual_1`, `residual_2` in the order of the file.",
            ),
            k.Field(
                "with",
                k.MapOf(
                    "argument", k.OneOf((NUMBER, LAYER_REFERENCE)), key_example="channels", example="{channels: 16}"
                ),
                "With `use`: what its arguments are, numbers or names of layers.",
            ),
            *BLOCK_SETTINGS,
            title="layer_block",
            at_least_one=("layers", "use"),
            elsewhere={"body": "`layers`", "recompute": "`checkpoint`", "remat": "`checkpoint`"},
            example="{checkpoint: true, layers: [...]}",
        ),
    ),
    title="layer",
    doc="One layer.",
    elsewhere=k.instead(
        "`conv2d`: conv convolution",
        "`dense`: linear fully_connected fc",
        "`max_pool2d`: maxpool max_pool max_pooling2d",
        "`avg_pool2d`: avg_pool average_pooling2d average_pool2d",
        "`max_pool2d` or `avg_pool2d`: pool",
        "`activation: {function: relu}`: relu",
        "`activation: {function: sigmoid}`: sigmoid",
        "`activation: {function: tanh}`: tanh",
        "`batch_norm`: batchnorm batch_normalization batch_norm1d batch_norm2d",
        "`add`: residual",
        "`conv2d` with as many `groups` as channels: depthwise_conv2d",
        "that `conv2d`, and one of kernel 1 after it: separable_conv2d",
        "`conv_transpose2d`: conv2d_transpose transposed_conv2d deconv2d",
        "`conv_transpose3d`: conv3d_transpose deconv3d",
        "`max_pool3d`: max_pooling3d",
        "`avg_pool3d`: average_pooling3d",
        "`global_avg_pool`: global_average_pooling2d global_average_pooling1d",
        "`global_max_pool`: global_max_pooling2d",
        "`concat`: concatenate cat",
        "`permute`: transpose",
        "`map: {y: a * sigmoid(b)}`: lambda",
        "`attention`: multi_head_attention self_attention multiheadattention",
        "`learned`: parameter constant",
        "`dot_attention`: scaled_dot_product_attention",
        "`positions`: positional_encoding",
        "`rnn`: simple_rnn",
        "`upsample`: upsampling2d interpolate resize",
        "`pad`: zero_padding2d",
        "`pad: {mode: reflect}`: reflection_pad1d reflection_pad2d",
        "`pad: {mode: replicate}`: replication_pad1d replication_pad2d",
        "`pad: {mode: circular}`: circular_pad1d circular_pad2d",
        "`activation: {function: leaky_relu}`: leaky_relu",
        "`activation: {function: elu}`: elu",
        "`activation: {function: gelu}`: gelu",
        "`activation: {function: silu}`: silu swish",
        "`layer_norm`: layernorm layer_normalization",
        "`rms_norm`: rmsnorm rms_normalization",
        "`glu: {function: silu}`: swiglu swi_glu",
        "`glu: {function: gelu}`: geglu",
        "`group_norm`: groupnorm group_normalization",
        "`penalty` in `train`: activity_regularization",
        "the network's `inputs: {name: {shape: [...]}}`: input input_layer",
        "`max_pool1d`: max_pooling1d",
        "`avg_pool1d`: average_pooling1d",
        "`reshape`: view squeeze unsqueeze expand_dims",
        "`slice: {}`, which keeps all elements: identity",
        "`reshape`, `permute` and `reshape`: pixel_shuffle depth_to_space",
        "`slice` and `concat`: roll",
        "`concat` with the same name several times: tile",
        "`reshape` to [..., n, features], `concat` of the same name several times along the last axis, and `reshape`: "
        "repeat_interleave",
        "`matmul`: bmm mat_mul batch_matmul dot outer einsum",
        "`embedding`, or `one_hot` with a `map` and `reduce`: gather index_select",
        "`reduce: {function: sum}`: sum reduce_sum",
        "`reduce: {function: mean}`: mean reduce_mean",
        "`reduce: {function: max}`: max amax reduce_max",
        "`reduce: {function: min}`: min amin reduce_min",
        "`stop_gradient`: detach no_grad",
    ),
)

LAYERS = k.ListOf(LAYER, low=1, example="[{dense: {units: 10}}]")

NETWORK_INPUT = k.Block(
    "network input",
    (
        k.Field(
            "shape",
            SHAPE,
            "The shape of one sample, without the batch; `[]` is a single value.",
            example="shape: [1, 28, 28]",
        ),
        k.Field(
            "from",
            k.Reference("population", "exc"),
            "In place of `shape`: the population whose activity is the input. Each sample of the data "
            "is then a trial of `simulate: {duration: ...}`, which begins with the initial state. "
            "Gradients stop at populations.",
        ),
        k.Field(
            "of",
            k.Reference("variable", "spikes", known=(SPIKES, RATE)),
            "What of the population is read: `spikes`, the number of each neuron in a frame; `rate`, "
            "the same in Hz; or a state or input of its neurons, at the end of each frame, in "
            "ms, mV, pA, nS, pF, GOhm and um.",
        ),
        k.Field(
            "every",
            POSITIVE_TIME,
            "The length of a frame; a trial is a whole number of them, and the input has the shape "
            "[frames, neurons]. Without it the whole trial is one frame, and the shape is [neurons].",
            example="every: 10 ms",
        ),
        k.Field(
            "dtype",
            k.Choice(
                "element type",
                (
                    k.Option("float32", "32-bit floating point."),
                    k.Option("float64", "64-bit floating point."),
                    k.Option("int32", "32-bit integers, as for class labels."),
                    k.Option("int64", "64-bit integers.", supported=False),
                ),
            ),
            "The type of the elements; without it, that of `numerics: {precision: ...}`.",
            example="dtype: int32",
        ),
        DESCRIPTION,
    ),
    one_of=(("shape", "from"),),
    needs=(("from", ("of",)), ("of", ("from",)), ("every", ("from",)), ("dtype", ("shape",))),
    elsewhere={"type": "`dtype`", "size": "`shape`", "population": "`from`", "variable": "`of`"},
    example="{shape: [1, 28, 28]}",
)

_WEIGHTS_FILE = k.Reference("safetensors file", "digits.safetensors", r"^.+\.safetensors$")
_LAYER = k.Reference("layer", "logits", TEMPLATE_KEY)
_LAYER_NAMES = k.OneOf((_LAYER, k.ListOf(_LAYER, low=1, example="[conv1, conv2]")))

INITIAL_WEIGHTS = k.Block(
    "initial weights",
    (
        k.required("file", _WEIGHTS_FILE, "The file, relative to the model file.", example="file: digits.safetensors"),
        k.Field(
            "only",
            _LAYER_NAMES,
            "The layers whose weights, and running statistics, the file gives; others are drawn.",
            example="only: [conv1, conv2]",
        ),
        k.Field(
            "except",
            _LAYER_NAMES,
            "In place of `only`: the layers whose weights are drawn.",
            example="except: [logits]",
        ),
    ),
    doc="The weights of a part of the layers. What else the file holds is left out.",
    one_of=(("only", "except"),),
    elsewhere={
        **dict.fromkeys(("from", "path", "use"), "`file`"),
        **dict.fromkeys(("layers", "include", "keep"), "`only`"),
        **dict.fromkeys(("exclude", "skip", "without"), "`except`"),
        "strict": "`only` or `except`, with the names of layers",
    },
    example="{file: digits.safetensors, except: [logits]}",
)

NETWORK = k.Block(
    "network",
    (
        k.required(
            "inputs",
            k.MapOf(
                "network input", NETWORK_INPUT, key_example="image", low=1, example="{image: {shape: [1, 28, 28]}}"
            ),
            "What a sample consists of: images, labels, targets.",
            example="inputs: {image: {shape: [1, 28, 28]}, label: {shape: [], dtype: int32}}",
        ),
        k.Field(
            "blocks",
            k.MapOf(
                "block",
                LAYERS,
                key=r"^[A-Za-z][A-Za-z0-9_]*\(\s*(?:[A-Za-z][A-Za-z0-9_]*(?:\s*,\s*[A-Za-z][A-Za-z0-9_]*)*)?\s*\)$",
                key_example="residual(channels)",
                example="{residual(channels): [...]}",
            ),
            "Layers with arguments, for `- block: {use: residual, with: {channels: 16}}`. Arguments stand for numbers "
            "and for names of layers.",
            example="blocks: {residual(channels): [{conv2d: {filters: channels, kernel: 3}}]}",
        ),
        k.required("layers", LAYERS, "The layers, in order; each reads the one before unless `inputs` says otherwise."),
        k.Field(
            "weights",
            k.OneOf((_WEIGHTS_FILE, INITIAL_WEIGHTS)),
            "A file with the values that the weights begin with, by name and shape as a run writes them "
            "(`weights.safetensors`), relative to the model file. Without it, they are drawn. A network without "
            "`train` takes its weights from here or from `--weights`.",
            example="weights: digits.safetensors",
        ),
        DESCRIPTION,
    ),
    doc="A network of layers. Shapes are inferred; the batch is an implicit leading axis.",
    elsewhere={"input": "`inputs`", "layer": "`layers`"},
    example="{inputs: {...}, layers: [...]}",
)
