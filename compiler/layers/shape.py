"""Layers of data movement: flatten, reshape, permute, concat, split, slice, pad.

Assumes: inputs of (batch, ...).
Guarantees: offsets and extents are data; text depends only on the number of inputs.
Does not: copy where a view suffices (reshape).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.keys.kinds import Field, ListOf, Name, Value, choice, required
from compiler.expr.keys.values import COUNT, POSITIVE
from compiler.layers.shared.context import (
    X0,
    Context,
    ints,
    joined,
    moved,
    number,
    reshape,
    sliced,
    turned,
    whole,
)
from compiler.layers.shared.keys import AXIS, AXIS_NUMBER, SHAPE, layer, several
from compiler.layers.shared.kind import Array, LayerKind, Misfit, Place, Result, Shape, fixed, shown
from compiler.layers.shared.onnx.graph import Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, hint_of

# ---------------------------------------------------------------------------------------- one order


def _reshaped(p: Place, x: Shape) -> Result:
    wanted = p.integers("shape")
    if math.prod(wanted) != math.prod(x):
        message = (
            f"`{p.source}` has {math.prod(x):,} elements (shape {shown(x)}), but {shown(wanted)} {math.prod(wanted):,}"
        )
        raise Misfit(message, None, "shape")
    return wanted, {}


def _reshape(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    return reshape(c, f"{layer.name}.y", x, (x.shape[0], *layer.shape), layer)


def _reshaped_elements(layer: l0.Layer, elements: Array) -> Array:
    return elements.reshape(layer.shape)


def _write_reshape(w: Writer, layer: l0.Layer) -> str:
    return w.graph.reshape(w.source(layer), layer.shape, layer.name)


FLATTEN = LayerKind(
    layer("flatten", "All axes but the batch as one."),
    lambda p, x: ((math.prod(x),), {}),
    _reshape,
    _write_reshape,
    moves=True,
    carries=_reshaped_elements,
)
RESHAPE = LayerKind(
    layer(
        "reshape",
        "The same elements, in order, with other axes.",
        required("shape", SHAPE, "The new shape, without the batch.", example="shape: [16, 25]"),
        elsewhere={"target_shape": "`shape`"},
    ),
    _reshaped,
    _reshape,
    _write_reshape,
    moves=True,
    carries=_reshaped_elements,
)

# -------------------------------------------------------------------------------------- permutation


def _permuted(p: Place, x: Shape) -> Result:
    axes = p.integers("axes")
    if sorted(axes) != list(range(len(x))):
        known = ", ".join(str(a) for a in range(len(x)))
        message = f"`axes` must name each axis of `{p.source}` once ({known}; its shape is {shown(x)})"
        raise Misfit(message, None, "axes")
    return tuple(x[a] for a in axes), {"axes": axes}


def permute(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Output axis a is input axis axes[a] (without the batch, from 0)."""
    order = (0, *(1 + a for a in ints(layer, "axes")))
    target = tuple(order.index(a) for a in range(len(order)))
    out = l1.Tensor("", (x.shape[0], *layer.shape), x.dtype, True)
    return c.graph.map(f"{layer.name}.y", X0, ((x, target),), like=out, dtype=x.dtype, span=layer.span)


def _write_permute(w: Writer, layer: l0.Layer) -> str:
    axes = [0, *(1 + a for a in ints(layer, "axes"))]
    return w.graph.node("Transpose", [w.source(layer)], layer.name, {"perm": axes})


PERMUTE = LayerKind(
    layer(
        "permute",
        "The axes in another order.",
        required(
            "axes",
            ListOf(AXIS_NUMBER, low=1, example="[1, 0]"),
            "For each axis of the output, that of the input it is, from 0, without the batch.",
        ),
        elsewhere={"dims": "`axes`", "perm": "`axes`"},
    ),
    _permuted,
    permute,
    _write_permute,
    moves=True,
    carries=lambda layer, elements: elements.transpose(ints(layer, "axes")),
)

# ------------------------------------------------------------------------------- joining and cutting


def _concatenated(p: Place, *shapes: Shape) -> Result:
    axis = p.axis(shapes[0])
    rest = [(*s[:axis], *s[axis + 1 :]) for s in shapes]
    if any(len(s) != len(shapes[0]) for s in shapes) or any(r != rest[0] for r in rest):
        listed = ", ".join(shown(s) for s in shapes)
        message = f"inputs of a concat layer differ along its axis {axis} only; these have {listed}"
        raise Misfit(message, None, "inputs")
    total = sum(s[axis] for s in shapes)
    return (*shapes[0][:axis], total, *shapes[0][axis + 1 :]), {"axis": axis}


def concat(c: Context, layer: l0.Layer, *ins: l1.Tensor) -> l1.Tensor:
    """Concatenation of inputs along an axis."""
    return joined(c, f"{layer.name}.y", list(ins), 1 + whole(layer, "axis"), layer)


def _write_concat(w: Writer, layer: l0.Layer) -> str:
    ins = [w.named[n] for n in layer.inputs]
    return w.graph.node("Concat", ins, layer.name, {"axis": 1 + whole(layer, "axis")})


CONCAT = LayerKind(
    layer(
        "concat",
        "Several layers one after the other along an axis.",
        Field("axis", AXIS_NUMBER, AXIS, default=0, example="axis: 0"),
        elsewhere={"dim": "`axis`"},
        inputs=several("The layers that are joined; they differ in the extent of the axis only."),
        example="{inputs: [a, b]}",
    ),
    _concatenated,
    concat,
    _write_concat,
    carries=lambda layer, *parts: np.concatenate(parts, whole(layer, "axis")),
)


def _sliced(p: Place, x: Shape) -> Result:
    axis = p.axis(x)
    extent = x[axis]
    start, stop = p.integer("from"), p.integer("to", extent)
    if stop > extent or start >= stop:
        raise Misfit(
            f"elements {start} to {stop - 1} are not in axis {axis} of `{p.source}`, which has {extent}",
            None,
            "to" if stop > extent else "from",
        )
    return (*x[:axis], stop - start, *x[axis + 1 :]), {"axis": axis, "range": (start, stop)}


def slice_of(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    start, stop = ints(layer, "range")
    return sliced(c, f"{layer.name}.y", x, 1 + whole(layer, "axis"), start, stop, layer)


def _slice_elements(layer: l0.Layer, elements: Array) -> Array:
    return elements[(slice(None),) * whole(layer, "axis") + (slice(*ints(layer, "range")),)]


def _write_slice(w: Writer, layer: l0.Layer) -> str:
    start, stop = ints(layer, "range")
    parts = [w.graph.constant([v], True) for v in (start, stop, 1 + whole(layer, "axis"))]
    return w.graph.node("Slice", [w.source(layer), *parts], layer.name)


SLICE = LayerKind(
    layer(
        "slice",
        "Neighbouring elements of an axis.",
        Field("axis", AXIS_NUMBER, AXIS, default=0, example="axis: 0"),
        Field("from", AXIS_NUMBER, "The first element, from 0.", default=0, example="from: 0"),
        Field("to", POSITIVE, "The first element that is left out; without it, all up to the end.", example="to: 5"),
        elsewhere={"start": "`from`", "stop": "`to`", "end": "`to`", "dim": "`axis`"},
        example="{from: 0, to: 5}",
    ),
    _sliced,
    slice_of,
    _write_slice,
    moves=True,
    carries=_slice_elements,
)


def _split(p: Place, x: Shape) -> Result:
    """The shape of the split input; `sizes` of the parts."""
    axis, count = p.axis(x), p.integer("into")
    extent = x[axis]
    if "sizes" not in p.values:
        if extent % count:
            message = f"axis {axis} of `{p.source}` has {extent} elements, which {count} parts cannot share"
            raise Misfit(message, "give `sizes`", "into")
        return x, {"axis": axis, "sizes": (extent // count,) * count}
    sizes = p.integers("sizes")
    if len(sizes) != count or sum(sizes) != extent:
        message = f"`sizes` must be {count} numbers that add up to {extent}, the extent of axis {axis}"
        raise Misfit(message, None, "sizes")
    return x, {"axis": axis, "sizes": sizes}


SPLIT = LayerKind(
    layer(
        "split",
        "The parts of an axis, as several layers.",
        Field("axis", AXIS_NUMBER, AXIS, default=0, example="axis: 0"),
        required(
            "into",
            ListOf(Name("first"), low=2, example="[first, second]"),
            "The names of the parts, by which other layers read them.",
        ),
        Field(
            "sizes",
            ListOf(POSITIVE, low=2, example="[3, 5]"),
            "The extent of each part; without it, parts of one size.",
        ),
        elsewhere={"dim": "`axis`", "outputs": "`into`", "split_size": "`sizes`"},
    ),
    _split,
    slice_of,
    _write_slice,
    carries=_slice_elements,
)
"""Syntax only: in the model, each part is a `slice`."""

# ------------------------------------------------------------------------------------------ padding


MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Modes but for `constant`, in ONNX's words."""
MODE_WORDS = {"edge": "`replicate`", "nearest": "`replicate`", "wrap": "`circular`"}
MODE_DOCS = {
    "reflect": "Those inside, as in a mirror that stands on the outermost: 2 1 0 1 2 3 2 1.",
    "replicate": "The outermost: 0 0 0 1 2 3 3 3.",
    "circular": "Those from the other end: 2 3 0 1 2 3 0 1.",
}


def check_room(p: Place, mode: str, axis: int, amount: int, extent: int, key: str) -> None:
    """Raises Misfit where an axis has fewer elements than a mode takes of it."""
    room = {"reflect": extent - 1, "circular": extent}.get(mode, amount)
    if amount > room:
        message = f"axis {axis} of `{p.source}` has {extent} elements, which give at most {room}"
        raise Misfit(f"{message} more in the mode {mode}, not {amount}", None, key)


def _padded(p: Place, x: Shape) -> Result:
    before = p.integers("before")
    after = p.integers("after") if "after" in p.values else before
    mode = str(p.values["mode"])
    for key, amounts in (("before", before), ("after", after)):
        if len(amounts) != len(x):
            raise Misfit(f"`{key}` has {len(amounts)} numbers, but `{p.source}` has the shape {shown(x)}", None, key)
        for axis, (amount, extent) in enumerate(zip(amounts, x, strict=True)):
            check_room(p, mode, axis, amount, extent, key)
    if mode != "constant" and "value" in p.values:
        raise Misfit(f"`value` is for the mode constant; the mode {mode} takes elements of the input", None, "value")
    shape = tuple(e + b + a for e, b, a in zip(x, before, after, strict=True))
    own: dict[str, l0.Attr] = {"value": p.real("value", 0.0)} if mode == "constant" else {"mode": mode}
    return shape, {"before": before, **own}


def pad(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Padding around the input: constant, or elements of the input itself."""
    before, mode = ints(layer, "before"), dict(layer.attrs).get("mode")
    if mode is None:
        value, shape = number(layer, "value"), (x.shape[0], *layer.shape)
        return moved(c, f"{layer.name}.y", [(x, (0, *before))], shape, value, layer)
    padded = [a for a, extent in enumerate(layer.shape) if extent > x.shape[1 + a]]
    for axis in padded:
        name = f"{layer.name}.y" if axis == padded[-1] else f"{layer.name}.axis_{axis}"
        x = _around(c, layer, name, x, (1 + axis, before[axis], layer.shape[axis]), str(mode))
    return x


def _around(
    c: Context, layer: l0.Layer, name: str, x: l1.Tensor, at: tuple[int, int, int], mode: str
) -> l1.Tensor:  # fmt: skip
    """One axis with elements of its own around it; `at`: the axis, how many stand before, and the new extent."""
    axis, before, wide = at
    extent = x.shape[axis]
    after = wide - extent - before
    # The first and last element inside that go before, and those that go after.
    ends = {
        "reflect": ((1, before + 1), (extent - 1 - after, extent - 1)),
        "replicate": ((0, 1), (extent - 1, extent)),
        "circular": ((extent - before, extent), (0, after)),
    }[mode]
    sides: list[list[l1.Tensor]] = [[], []]
    for side, amount, (start, stop), word in zip(sides, (before, after), ends, ("before", "after"), strict=True):
        if amount:
            own = f"{name}.{word}"
            part = sliced(c, own, x, axis, start, stop, layer)
            if mode == "replicate":
                part = _repeated(c, layer, f"{own}.all", part, axis, amount)
            elif mode == "reflect" and amount > 1:
                part = _turned(c, f"{own}.turned", part, axis, layer)
            side.append(part)
    return joined(c, name, [*sides[0], x, *sides[1]], axis, layer)


def _turned(c: Context, name: str, x: l1.Tensor, axis: int, layer: l0.Layer) -> l1.Tensor:
    """The elements of an axis in reverse order, also those of whole numbers, which no contraction computes."""
    if x.dtype == "real":
        return turned(c, name, x, axis, layer)
    places = reversed(range(x.shape[axis]))
    return joined(c, name, [sliced(c, f"{name}.{k}", x, axis, k, k + 1, layer) for k in places], axis, layer)


def _repeated(c: Context, layer: l0.Layer, name: str, x: l1.Tensor, axis: int, times: int) -> l1.Tensor:
    """The one element of an axis so many times."""
    if times == 1:
        return x
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    like = l1.Tensor("", (*x.shape[:axis], times, *x.shape[axis + 1 :]), x.dtype, x.batched)
    target = tuple(a if a < axis else a + 1 for a in range(len(rest)))
    one = reshape(c, f"{name}.one", x, rest, layer)
    return c.graph.map(name, X0, ((one, target),), like=like, dtype=x.dtype, span=layer.span)


def _pad_elements(layer: l0.Layer, elements: Array) -> Array:
    before, mode = ints(layer, "before"), dict(layer.attrs).get("mode")
    amounts = [(b, o - e - b) for o, e, b in zip(layer.shape, elements.shape, before, strict=True)]
    if mode is not None:
        return np.pad(elements, amounts, str(MODES[str(mode)]))  # type: ignore[call-overload,no-any-return]
    return np.pad(elements, amounts, constant_values=fixed(int(number(layer, "value"))))


def _write_pad(w: Writer, layer: l0.Layer) -> str:
    before, attrs = ints(layer, "before"), dict(layer.attrs)
    mode, value = attrs.get("mode"), attrs.get("value", 0.0)
    assert isinstance(value, int | float)
    after = [o - e - b for o, e, b in zip(layer.shape, w.shape(layer), before, strict=True)]
    pads = w.graph.constant([0, *before, 0, *after], True)
    if mode is not None:
        return w.graph.node("Pad", [w.source(layer), pads], layer.name, {"mode": MODES[str(mode)]})
    if layer.inputs[0] in w.whole:
        return w.graph.node("Pad", [w.source(layer), pads, w.graph.number(int(value))], layer.name)
    return w.graph.node("Pad", [w.source(layer), pads, w.graph.constant(float(value))], layer.name)


def _read_pad(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, kinds=True)
    if x.truth:
        raise refused(node, "its input 0 holds truth values")
    rank = len(x.shape) + 1
    mode = attrs.get("mode", "constant")
    pads = [int(v) for v in (constant(node, ins, 1) if m.opset >= 11 else attrs["pads"])]
    value = float(constant(node, ins, 2, np.zeros(())).reshape(-1)[0]) if m.opset >= 11 else attrs.get("value", 0.0)
    axes = [int(a) % rank for a in constant(node, ins, 3, np.arange(rank)).reshape(-1)]
    both = {a: (pads[k], pads[len(axes) + k]) for k, a in enumerate(axes)}
    if any(both.get(0, (0, 0))) or min(pads, default=0) < 0 or not math.isfinite(value):
        raise refused(node, "it pads the batch, cuts, or pads with no number")
    before = [both.get(a, (0, 0))[0] for a in range(1, rank)]
    after = [both.get(a, (0, 0))[1] for a in range(1, rank)]
    shape = tuple(e + b + a for e, b, a in zip(x.shape, before, after, strict=True))
    own = next(({"mode": ours} for ours, theirs in MODES.items() if theirs == mode), {"value": value})
    return m.layer("pad", hint_of(node), [x], {"before": before, "after": after, **own}, shape).moved(x)


PAD = LayerKind(
    layer(
        "pad",
        "Elements around the input.",
        required("before", ListOf(COUNT, low=1, example="[0, 1, 1]"), "How many before each axis."),
        Field(
            "after",
            ListOf(COUNT, low=1, example="[0, 1, 1]"),
            "How many after each axis; without it, `before`.",
            example="after: [0, 2, 2]",
        ),
        Field(
            "mode",
            choice(
                "mode",
                {**MODE_WORDS, "zeros": "`constant`"},
                constant="They have one value, `value`.",
                **MODE_DOCS,
            ),
            "What they are.",
            default="constant",
        ),
        Field("value", Value(), "Their value, in the mode `constant`; without it, 0.", example="value: 0"),
        elsewhere={"padding": "`before` and `after`"},
    ),
    _padded,
    pad,
    _write_pad,
    {"Pad": _read_pad},
    carries=_pad_elements,
)
