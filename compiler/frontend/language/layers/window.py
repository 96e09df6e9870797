"""Layers with windows: convolutions, pooling, and what changes the extents of images.

Assumes: layer_parts.py.
Guarantees: every key of these layers, with its hover text, default and example.
Does not: infer shapes.
"""

from __future__ import annotations

from compiler.expr.keys.kinds import Alternative, Field, Flag, Kind, ListOf, OneOf, Value
from compiler.expr.keys.values import COUNT, POSITIVE
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import (
    ACTIVATION,
    BIAS,
    DIMENSIONS,
    extent,
    layer,
    padding,
    padding_doc,
)

_FILTERS = Field("filters", POSITIVE, "The number of output channels.", required=True, example="filters: 16")
_GROUPS = Field(
    "groups",
    POSITIVE,
    "Input and output channels are split into this many groups that do not see each other; as many as there are "
    "channels: a depthwise convolution.",
    default=1,
    example="groups: 2",
)


def _conv_fields(rank: int) -> tuple[Field, ...]:
    one = "The kernel's length." if rank == 1 else f"The kernel's {DIMENSIONS[rank]}, or one number for all."
    return (
        _FILTERS,
        Field("kernel", extent(rank), one, required=True, example="kernel: 3"),
        Field("stride", extent(rank), "The step of the kernel.", default=1, example="stride: 2"),
        Field(
            "padding", padding(rank), padding_doc(rank, "Zeros around the input"), default="valid",
            example="padding: same",
        ),
        Field("dilation", extent(rank), "The distance of the kernel's taps.", default=1, example="dilation: 2"),
        _GROUPS,
        ACTIVATION,
        BIAS,
        INIT,
    )  # fmt: skip


def _conv(rank: int) -> Alternative:
    words = {1: "one", 2: "two", 3: "three"}[rank]
    return layer(
        f"conv{rank}d",
        f"A {words}-dimensional convolution (cross-correlation) over channels, {DIMENSIONS[rank]}.",
        *_conv_fields(rank),
        elsewhere={"units": "`filters`", "size": "`kernel`"},
        example="{filters: 16, kernel: 3}",
    )


def _transpose(rank: int) -> Alternative:
    words = {1: "one", 2: "two"}[rank]
    fields = [f for f in _conv_fields(rank) if f.name != "padding"]
    added: Kind = COUNT if rank == 1 else ListOf(COUNT, low=rank, high=rank, example="[1, 1]")
    fields[3:3] = [
        Field(
            "padding",
            padding(rank, words=False),
            "What is cut off at each side of the output: a number, or "
            + ("[before, after]." if rank == 1 else "[height, width] or [top, bottom, left, right]."),
            default=0,
            example="padding: 1",
        ),
        Field(
            "output_padding",
            added if rank == 1 else _one_or(added),
            "Rows that are added at the end of each dimension, which a stride leaves open.",
            default=0,
            example="output_padding: 1",
        ),
    ]
    return layer(
        f"conv_transpose{rank}d",
        f"The transpose of a {words}-dimensional convolution: with a stride it enlarges.",
        *fields,
        elsewhere={"units": "`filters`", "size": "`kernel`"},
        example="{filters: 16, kernel: 4, stride: 2, padding: 1}",
    )


def _one_or(several: Kind) -> Kind:
    return OneOf((COUNT, several))


def _pool(name: str, rank: int, doc: str) -> Alternative:
    mean = name.startswith("avg")
    counted = (
        Field(
            "count_padding",
            Flag(),
            "Whether the mean counts the padding as zeros.",
            default=True,
            example="count_padding: false",
        ),
    )
    what = "Elements around the input" if rank == 1 else "Rows and columns around the input"
    return layer(
        name,
        doc,
        Field("size", extent(rank), f"The window's {DIMENSIONS[rank]}.", required=True, example="size: 2"),
        Field("stride", extent(rank), "The step of the window; without it, `size`.", example="stride: 2"),
        Field("padding", padding(rank), padding_doc(rank, what), default=0, example="padding: 1"),
        Field(
            "ceil",
            Flag(),
            "Whether a last window that reaches over the end counts: extents are rounded up.",
            default=False,
            example="ceil: true",
        ),
        *(counted if mean else ()),
        elsewhere={"kernel": "`size`", "kernel_size": "`size`", "ceil_mode": "`ceil`"}
        | ({"count_include_pad": "`count_padding`"} if mean else {}),
        example="{size: 2}",
    )


WINDOW_LAYERS = (
    _conv(1),
    _conv(2),
    _conv(3),
    _transpose(1),
    _transpose(2),
    _pool("max_pool1d", 1, "The largest value of each window along the length."),
    _pool("avg_pool1d", 1, "The mean of each window along the length."),
    _pool("max_pool2d", 2, "The largest value of each window."),
    _pool("avg_pool2d", 2, "The mean of each window."),
    layer("global_max_pool", "The largest value of each channel."),
    layer("global_avg_pool", "The mean of each channel."),
    layer(
        "upsample",
        "Every element, repeated along each dimension after the channels (nearest neighbour).",
        Field(
            "factor",
            _one_or(ListOf(POSITIVE, low=1, example="[2, 2]")),
            "How often; one number for all dimensions, or one for each.",
            required=True,
            example="factor: 2",
        ),
        elsewhere={"scale_factor": "`factor`", "size": "`factor`"},
        example="{factor: 2}",
    ),
    layer(
        "pad",
        "Elements of one value around the input.",
        Field("before", ListOf(COUNT, low=1, example="[0, 1, 1]"), "How many before each axis.", required=True,
              example="before: [0, 1, 1]"),
        Field("after", ListOf(COUNT, low=1, example="[0, 1, 1]"), "How many after each axis; without it, `before`.",
              example="after: [0, 2, 2]"),
        Field("value", Value(), "Their value.", default=0, example="value: 0"),
        elsewhere={"padding": "`before` and `after`"},
        example="{before: [0, 1, 1]}",
    ),
)  # fmt: skip
