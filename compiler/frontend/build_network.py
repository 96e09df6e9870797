"""The network of layers: shapes inferred, names given, activations resolved.

Assumes: `repeat` has been expanded.
Guarantees: a layer reads layers before it or inputs of the network; every shape is positive and
what `expect` says; attributes have the meaning that compiler/ir/model.py gives them.
Does not: say how a layer is computed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.ast import refs
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend import tree
from compiler.frontend.build_functions import Functions
from compiler.frontend.language.layers import ACTIVATIONS
from compiler.frontend.tree import Node, Scalar, Sequence
from compiler.frontend.values import Context, bounded, items_of, mapping, pair_of, text_of, whole
from compiler.frontend.wording import allowed
from compiler.ir.model import Attr, FunctionDef, Layer, Network, TensorInput
from compiler.source import Span

Shape = tuple[int, ...]
_MOST = (1 << 31) - 1


@dataclass
class Built:
    """What later blocks need to know of the network. A shape is None after an error."""

    inputs: dict[str, TensorInput] = field(default_factory=dict)
    shapes: dict[str, Shape | None] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    network: Network | None = None


@dataclass
class _Reader:
    c: Context
    functions: Functions
    precision: str
    out: Built
    named: dict[str, Span]  # every name that a layer is given, for references to later ones
    counts: dict[str, int] = field(default_factory=dict)
    previous: str | None = None


def build_network(block: tree.Mapping, c: Context, functions: Functions, precision: str) -> Built:
    """The network of `block`; `network` is None in the result after an error."""
    before = len(c.sink.items)
    out = Built()
    layers = block.get("layers")
    items = layers.items if isinstance(layers, Sequence) else ()
    named: dict[str, Span] = {}
    for item in items:
        settings = _settings(item)
        name = settings.get("name") if settings is not None else None
        if isinstance(name, Scalar):
            named.setdefault(name.text, name.span)
    r = _Reader(c, functions, precision, out, named)
    inputs = mapping(block.get("inputs"))
    for entry in inputs.entries if inputs is not None else ():
        _input(r, entry.name, mapping(entry.value), entry.key.span)
    for item in items:
        _layer(r, item)
    if not any(i.severity == "error" for i in c.sink.items[before:]):
        out.network = Network(tuple(out.inputs.values()), tuple(out.layers), block.span)
    return out


def _settings(item: Node) -> tree.Mapping | None:
    if isinstance(item, tree.Mapping) and len(item.entries) == 1:
        return mapping(item.entries[0].value)
    return None


def _input(r: _Reader, name: str, block: tree.Mapping | None, at: Span) -> None:
    if block is None:
        return
    shape = _shape(block.get("shape"), r.c, f"`shape` of `{name}`")
    dtype = block.get("dtype")
    text = text_of(dtype)
    kind = "int32" if text == "int32" else "real"
    if dtype is not None and text not in ("int32", r.precision):
        if text == "int64":
            r.c.sink.error("E0801", "`int64` is not supported yet", dtype.span, "write `int32`")
        else:
            message = f"`{name}` is {text}, but the model computes in {r.precision}"
            help = "leave `dtype` out: real inputs follow `numerics: {precision: ...}`"
            r.c.sink.error("E0802", message, dtype.span, help)
    r.out.places[name] = at
    r.out.shapes[name] = shape
    r.out.inputs[name] = TensorInput(name, shape or (), kind, at)


def _shape(node: Node | None, c: Context, what: str) -> Shape | None:
    if not isinstance(node, Sequence):
        return None
    extents = [whole(i, c, f"each number of {what}", 1, _MOST) for i in node.items]
    return None if None in extents else tuple(e for e in extents if e is not None)


# ---------------------------------------------------------------------------------------- layers


def _layer(r: _Reader, item: Node) -> None:
    settings = _settings(item)
    if settings is None or not isinstance(item, tree.Mapping):
        return
    kind, at = item.entries[0].name, item.entries[0].key.span
    name_node = settings.get("name")
    name = text_of(name_node) or _automatic(r, kind)
    place = name_node.span if name_node is not None else at
    if name in r.out.places:
        noun = "an input" if name in r.out.inputs else "a layer"
        related = (Related("it is declared here", r.out.places[name]),)
        r.c.sink.error("E0207", f"{noun} of the network is called `{name}` already", place, None, related)
        r.previous = f"{name}'"  # a layer of unknown shape, for those that follow
        r.out.shapes[r.previous] = None
        return
    sources = _sources(r, kind, settings, at)
    r.out.places[name] = place
    shape: Shape | None = None
    attrs: dict[str, Attr] = {}
    known = [None if s is None else r.out.shapes[s] for s in sources]
    before = len(r.c.sink.items)
    if known and None not in known:
        shapes = [s for s in known if s is not None]
        found = _LAYERS[kind](_Place(r.c, name, kind, at, settings, sources[0] or ""), shapes)
        if found is not None:
            shape, attrs = found
    else:
        _LAYERS[kind](_Place(r.c, name, kind, at, settings, ""), [])
    activation, function = _activation(r, settings, kind)
    r.out.shapes[name] = shape
    if shape is not None:
        shape = _expected(r, settings, name, shape)
        r.out.shapes[name] = shape
    r.previous = name
    if shape is not None and len(r.c.sink.items) == before:
        inputs = tuple(s for s in sources if s is not None)
        ordered = tuple(sorted(attrs.items()))
        r.out.layers.append(Layer(kind, name, inputs, ordered, activation, function, shape, at))


def _automatic(r: _Reader, kind: str) -> str:
    """`conv2d_1`, `conv2d_2`, ... over the layers of the kind that have no name."""
    while True:
        r.counts[kind] = r.counts.get(kind, 0) + 1
        name = f"{kind}_{r.counts[kind]}"
        if name not in r.named and name not in r.out.places:
            return name


def _sources(r: _Reader, kind: str, settings: tree.Mapping, at: Span) -> list[str | None]:
    """What the layer reads; None for a reference with a mistake."""
    c, node = r.c, settings.get("inputs")
    if node is None:
        if r.previous is not None:
            return [r.previous]
        real = [n for n, i in r.out.inputs.items() if i.dtype == "real"]
        if len(real) == 1:
            return [real[0]]
        if r.out.inputs:
            which = " or ".join(f"`{n}`" for n in real) if real else "an input with real numbers"
            message = f"the first layer must say which input it reads: {which}"
            help = f"write `inputs: {real[0]}`" if real else None
            c.sink.error("E0103", message, at, help)
        return [None]
    out: list[str | None] = []
    for item in items_of(node):
        out.append(_reference(r, item) if isinstance(item, Scalar) else None)
    if kind != "add" and len(out) != 1:
        help = "add layers with `- add: {inputs: [a, b]}`"
        c.sink.error("E0106", f"a {kind} layer reads one input; here are {len(out)}", node.span, help)
        return [None]
    return out


def _reference(r: _Reader, item: Scalar) -> str | None:
    name, c = item.text, r.c
    if name in r.out.shapes:
        declared = r.out.inputs.get(name)
        if declared is not None and declared.dtype != "real":
            message = f"`{name}` holds whole numbers; layers read real ones"
            related = (Related("declared here", declared.span),)
            c.sink.error("E0501", message, item.span, None, related)
            return None
        return name
    if name in r.named:
        message = f"the layer `{name}` comes later; a layer reads layers before it"
        related = (Related("it stands here", r.named[name]),)
        c.sink.error("E0201", message, item.span, None, related)
        return None
    help = did_you_mean(name, r.out.places) or allowed("before this one there are", r.out.places)
    c.sink.error("E0201", f"there is no layer or network input `{name}`", item.span, help)
    return None


def _expected(r: _Reader, settings: tree.Mapping, name: str, shape: Shape) -> Shape:
    """E0502 where `expect` says another shape; the expected one is gone on with."""
    expect = mapping(settings.get("expect"))
    node = expect.get("shape") if expect is not None else None
    wanted = _shape(node, r.c, "`expect`") if node is not None else None
    if wanted is None or wanted == shape or node is None:
        return shape
    message = f"the output of `{name}` has the shape {shown(shape)}, not {shown(wanted)}"
    r.c.sink.error("E0502", message, node.span, f"write `expect: {{shape: {shown(shape)}}}`")
    return wanted


def _activation(r: _Reader, settings: tree.Mapping, kind: str) -> tuple[str | None, FunctionDef | None]:
    node = settings.get("function" if kind == "activation" else "activation")
    if not isinstance(node, Scalar):
        return None, None
    name = node.text
    if name in r.functions.known:
        function = r.functions.known[name]
        if function is not None and len(function.args) != 1:
            message = f"an activation takes one argument; `{name}` takes {len(function.args)}"
            related = (Related("the function is declared here", function.span),)
            r.c.sink.error("E0304", message, node.span, None, related)
            return None, None
        if function is not None and function.args[0] not in refs(function.body):
            message = f"`{name}` gives the same for every `{function.args[0]}`; an activation must depend on it"
            related = (Related("the function is declared here", function.span),)
            r.c.sink.error("E0802", message, node.span, None, related)
            return None, None
        return name, None if function is None else r.functions.closed(name)
    if name in ACTIVATIONS:
        return name, None
    help = did_you_mean(name, (*r.functions.known, *ACTIVATIONS))
    if help is None:
        help = allowed("activations are", ACTIVATIONS) + f", or write it: `functions: {{{name}(x): ...}}`"
    r.c.sink.error("E0201", f"there is no activation or function `{name}`", node.span, help)
    return None, None


WITH_WEIGHTS = frozenset({"dense", "conv2d", "batch_norm"})


def check_use(network: Network, outputs: tuple[str, ...], read: tuple[str, ...], c: Context) -> None:
    """Warn of layers and inputs that `outputs` do not depend on (`read`: inputs that the loss reads);
    an error where nothing is left to train."""
    layers = {layer.name: layer for layer in network.layers}
    seen = set(read)
    stack = list(outputs)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack += layers[name].inputs if name in layers else ()
    for item in network.inputs:
        if item.name not in seen:
            c.sink.warning("W0003", f"nothing reads the input `{item.name}`", item.span)
    for layer in network.layers:
        if layer.name not in seen and not any(layer.name in other.inputs for other in network.layers):
            c.sink.warning("W0003", f"nothing reads the layer `{layer.name}`", layer.span)
    if outputs and not any(layers[n].kind in WITH_WEIGHTS for n in seen if n in layers):
        message = f"there is nothing to train: `{outputs[0]}` depends on no layer that has weights"
        c.sink.error("E0103", message, layers[outputs[0]].span, "for example `- dense: {units: 10}`")


def shown(shape: Shape) -> str:
    return "[" + ", ".join(str(n) for n in shape) + "]"


# ------------------------------------------------------------------------- one function per kind


@dataclass(frozen=True)
class _Place:
    """One layer, for the rules of its kind. `source`: what it reads."""

    c: Context
    name: str
    kind: str
    at: Span
    settings: tree.Mapping
    source: str

    def fail(self, message: str, help: str | None = None, key: str | None = None) -> None:
        node = self.settings.get(key) if key is not None else None
        self.c.sink.error("E0501", message, node.span if node is not None else self.at, help)

    def whole(self, key: str, default: int | None = None) -> int | None:
        node = self.settings.get(key)
        if node is None:
            return default
        return whole(node, self.c, f"`{key}`", 1, _MOST)

    def pair(self, key: str, default: tuple[int, int] | None = (1, 1)) -> tuple[int, int] | None:
        node = self.settings.get(key)
        return default if node is None else pair_of(node, self.c, f"`{key}`", 1)

    def flag(self, key: str, default: bool) -> bool:
        node = self.settings.get(key)
        return bool(node.value) if isinstance(node, Scalar) and isinstance(node.value, bool) else default


_Result = tuple[Shape, dict[str, Attr]] | None


def _dense(p: _Place, shapes: list[Shape]) -> _Result:
    units = p.whole("units")
    if not shapes:
        return None
    if len(shapes[0]) != 1:
        message = f"a dense layer reads a list of numbers; `{p.source}` has the shape {shown(shapes[0])}"
        help = "put `- flatten: {}` before it" if len(shapes[0]) > 1 else None
        p.fail(message, help)
        return None
    return None if units is None else ((units,), {"units": units, "bias": p.flag("bias", True)})


def _image(p: _Place, shapes: list[Shape]) -> Shape | None:
    """The input's (channels, height, width)."""
    if not shapes:
        return None
    if len(shapes[0]) != 3:
        message = f"a {p.kind} layer reads channels, height and width; `{p.source}` has the shape {shown(shapes[0])}"
        help = f"write its shape as [1, {', '.join(map(str, shapes[0]))}]" if len(shapes[0]) == 2 else None
        p.fail(message, help)
        return None
    return shapes[0]


def _padding(
    p: _Place, default: str, image: Shape, size: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> tuple[int, int, int, int] | None:
    """(top, bottom, left, right). `same` gives an output of the input's extent divided by the
    stride, rounded up; an odd rest goes to the bottom and the right, as in TensorFlow."""
    node = p.settings.get("padding")
    text = default if node is None else text_of(node)
    if text == "valid":
        return 0, 0, 0, 0
    if text == "same":
        edges: list[int] = []
        for axis in (0, 1):
            extent = image[1 + axis]
            out = -(-extent // stride[axis])
            reach = (size[axis] - 1) * dilation[axis] + 1
            total = max((out - 1) * stride[axis] + reach - extent, 0)
            edges += [total // 2, total - total // 2]
        return edges[0], edges[1], edges[2], edges[3]
    if node is None:
        return 0, 0, 0, 0
    pair = pair_of(node, p.c, "`padding`", 0)
    return None if pair is None else (pair[0], pair[0], pair[1], pair[1])


def _windows(
    p: _Place,
    image: Shape,
    size: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    key: str,
) -> tuple[int, int] | None:
    """Height and width of the output."""
    out: list[int] = []
    for axis, word in ((0, "high"), (1, "wide")):
        extent = image[1 + axis] + padding[2 * axis] + padding[2 * axis + 1]
        reach = (size[axis] - 1) * dilation[axis] + 1
        if reach > extent:
            padded = " with its padding" if any(padding) else ""
            p.fail(
                f"the {'kernel' if key == 'kernel' else 'window'} is {reach} {word}, "
                f"but `{p.source}`{padded} only {extent}",
                "write `padding: same`" if not any(padding) else None,
                key,
            )
            return None
        out.append((extent - reach) // stride[axis] + 1)
    return out[0], out[1]


def _conv2d(p: _Place, shapes: list[Shape]) -> _Result:
    filters, groups = p.whole("filters"), p.whole("groups", 1)
    kernel, stride, dilation = p.pair("kernel", None), p.pair("stride"), p.pair("dilation")
    image = _image(p, shapes)
    if image is None or kernel is None or stride is None or dilation is None:
        return None
    padding = _padding(p, "valid", image, kernel, stride, dilation)
    if padding is None or filters is None or groups is None:
        return None
    channels = f"{image[0]} channel{'' if image[0] == 1 else 's'}"
    for what, count in ((f"`{p.source}` has {channels}, which", image[0]), (f"{filters} filters", filters)):
        if count % groups:
            p.fail(f"{what} cannot be split into {groups} groups of one size", None, "groups")
            return None
    extent = _windows(p, image, kernel, stride, dilation, padding, "kernel")
    if extent is None:
        return None
    attrs: dict[str, Attr] = {
        "filters": filters,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
        "bias": p.flag("bias", True),
    }
    return (filters, *extent), attrs


def _pool2d(p: _Place, shapes: list[Shape]) -> _Result:
    size = p.pair("size", None)
    stride = p.pair("stride", size)
    image = _image(p, shapes)
    if image is None or size is None or stride is None:
        return None
    padding = _padding(p, "valid", image, size, stride, (1, 1))
    if padding is None:
        return None
    if max(padding[:2]) >= size[0] or max(padding[2:]) >= size[1]:
        p.fail("a window could lie in the padding as a whole", "a padding is smaller than `size`", "padding")
        return None
    extent = _windows(p, image, size, stride, (1, 1), padding, "size")
    if extent is None:
        return None
    return (image[0], *extent), {"size": size, "stride": stride, "padding": padding}


def _flatten(p: _Place, shapes: list[Shape]) -> _Result:
    return ((math.prod(shapes[0]),), {}) if shapes else None


def _add(p: _Place, shapes: list[Shape]) -> _Result:
    if not shapes:
        return None
    if any(s != shapes[0] for s in shapes):
        listed = ", ".join(shown(s) for s in shapes)
        p.fail(f"an add layer reads inputs of one shape; these have {listed}", None, "inputs")
        return None
    return shapes[0], {}


def _batch_norm(p: _Place, shapes: list[Shape]) -> _Result:
    keep = _number(p, "momentum", "0.9", 0.0, 1.0)
    epsilon = _number(p, "epsilon", "1e-5", 0.0, None, above=True)
    if not shapes or keep is None or epsilon is None:
        return None
    if not shapes[0]:
        p.fail(f"batch_norm needs channels; `{p.source}` is a single number")
        return None
    # The file says which part of the running mean is kept, the IR which part is new; exactly.
    new = float(1 - Fraction(repr(keep)))
    return shapes[0], {"momentum": new, "epsilon": epsilon}


def _number(
    p: _Place, key: str, default: str, low: float, high: float | None, *, above: bool = False, below: bool = False
) -> float | None:
    node = p.settings.get(key)
    if node is None:
        return float(default)
    return bounded(node, p.c, f"`{key}`", DIMENSIONLESS, low, high, above=above, below=below)


def _dropout(p: _Place, shapes: list[Shape]) -> _Result:
    rate = _number(p, "rate", "0", 0.0, 1.0, below=True)
    return None if not shapes or rate is None else (shapes[0], {"rate": rate})


def _elementwise(p: _Place, shapes: list[Shape]) -> _Result:
    return (shapes[0], {}) if shapes else None


_LAYERS = {
    "dense": _dense,
    "conv2d": _conv2d,
    "max_pool2d": _pool2d,
    "avg_pool2d": _pool2d,
    "flatten": _flatten,
    "add": _add,
    "batch_norm": _batch_norm,
    "dropout": _dropout,
    "activation": _elementwise,
}
