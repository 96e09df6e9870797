"""Each kind of layer as ONNX nodes.

Assumes: layers of level 0 (compiler/ir/level0/model.py says what their attributes mean).
Guarantees: tensors are (batch, ...), as in the language; a kind that is not here is refused by name (E0918).
Does not: apply activations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from compiler.ir.level0.model import BESIDE, Layer
from compiler.layers.shared.onnx.graph import BOOL, INT64, Reals, Writer, no_operator
from compiler.layers.recurrent import ONNX_GATES
from compiler.layers.shared.context import HIDDEN
from compiler.passes.tensors.fold_norms import TRAINING_ONLY


def write_layer(w: Writer, layer: Layer) -> str:
    """The tensor of a layer, before its activation. Raises RunError (E0918)."""
    write = _KINDS.get(layer.kind)
    if write is None:
        raise no_operator(f"the layer `{layer.name}` ({layer.kind})")
    return write(w, layer)


def _ints(layer: Layer, name: str) -> tuple[int, ...]:
    value = layer.attr(name)
    assert isinstance(value, tuple)
    return value


def _pads(padding: tuple[int, ...]) -> list[int]:
    """(before, after) per dimension -> all before, then all after."""
    return [*padding[0::2], *padding[1::2]]


def linear(w: Writer, layer: Layer, x: str, rank: int, part: str = "", bias: bool | None = None) -> str:
    """x W + b over the last axis of a tensor with `rank` axes besides the batch."""
    g, lead = w.graph, f"{part}." if part else ""
    has_bias = bool(layer.attr("bias")) if bias is None else bias
    name = f"{layer.name}/{part or 'sum'}"
    if rank == 1:
        ins = [x, w.weight(layer, f"{lead}weight")] + ([w.weight(layer, f"{lead}bias")] if has_bias else [])
        return g.node("Gemm", ins, name, {"transB": 1})
    matrix = g.weight(f"{layer.name}.{lead}weight", w.weights[f"{layer.name}.{lead}weight"].T)
    y = g.node("MatMul", [x, matrix], name)
    return g.node("Add", [y, w.weight(layer, f"{lead}bias")], f"{name}/biased") if has_bias else y


def _dense(w: Writer, layer: Layer) -> str:
    return linear(w, layer, w.source(layer), len(w.shape(layer)))


def _conv(w: Writer, layer: Layer) -> str:
    attrs: dict[str, object] = {
        "kernel_shape": list(_ints(layer, "kernel")),
        "strides": list(_ints(layer, "stride")),
        "dilations": list(_ints(layer, "dilation")),
        "pads": _pads(_ints(layer, "padding")),
        "group": layer.attr("groups"),
    }
    op = "Conv"
    if layer.kind.startswith("conv_transpose"):
        op = "ConvTranspose"
        added = []
        for a, extent in enumerate(w.shape(layer)[1:]):
            reach = (extent - 1) * _ints(layer, "stride")[a] + _ints(layer, "dilation")[a] * (
                _ints(layer, "kernel")[a] - 1
            )
            padding = _ints(layer, "padding")
            added.append(layer.shape[1 + a] - (reach + 1 - padding[2 * a] - padding[2 * a + 1]))
        if any(added):
            attrs["output_padding"] = added
    ins = [w.source(layer), w.weight(layer, "weight")]
    ins += [w.weight(layer, "bias")] if layer.attr("bias") else []
    return w.graph.node(op, ins, f"{layer.name}/sum", attrs)


def _pool(w: Writer, layer: Layer) -> str:
    size, stride, padding = _ints(layer, "size"), _ints(layer, "stride"), _ints(layer, "padding")
    leaves = any(
        (o - 1) * stride[a] + size[a] > e + padding[2 * a] + padding[2 * a + 1]
        for a, (o, e) in enumerate(zip(layer.shape[1:], w.shape(layer)[1:], strict=True))
    )
    attrs: dict[str, object] = {"kernel_shape": list(size), "strides": list(stride), "pads": _pads(padding)}
    if leaves:
        attrs["ceil_mode"] = 1
    if layer.kind.startswith("max"):
        return w.graph.node("MaxPool", [w.source(layer)], layer.name, attrs)
    attrs["count_include_pad"] = int(bool(dict(layer.attrs).get("count_padding", True)))
    return w.graph.node("AveragePool", [w.source(layer)], layer.name, attrs)


def _global(w: Writer, layer: Layer) -> str:
    op = "GlobalMaxPool" if layer.kind == "global_max_pool" else "GlobalAveragePool"
    y = w.graph.node(op, [w.source(layer)], f"{layer.name}/pooled")
    return w.graph.reshape(y, layer.shape, layer.name)


def _upsample(w: Writer, layer: Layer) -> str:
    scales = w.graph.unique("scales")
    w.graph.initializers[scales] = np.array([1, 1, *_ints(layer, "factor")], np.float32)
    attrs = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return w.graph.node("Resize", [w.source(layer), "", scales], layer.name, attrs)


def _reshape(w: Writer, layer: Layer) -> str:
    return w.graph.reshape(w.source(layer), layer.shape, layer.name)


def _permute(w: Writer, layer: Layer) -> str:
    axes = [0, *(1 + a for a in _ints(layer, "axes"))]
    return w.graph.node("Transpose", [w.source(layer)], layer.name, {"perm": axes})


def _axis(layer: Layer, rank: int) -> int:
    value = dict(layer.attrs).get("axis", rank - 1)
    assert isinstance(value, int)
    return 1 + value


def _concat(w: Writer, layer: Layer) -> str:
    ins = [w.named[n] for n in layer.inputs]
    return w.graph.node("Concat", ins, layer.name, {"axis": _axis(layer, 1)})


def _slice(w: Writer, layer: Layer) -> str:
    start, stop = _ints(layer, "range")
    parts = [w.graph.constant([v], True) for v in (start, stop, _axis(layer, 1))]
    return w.graph.node("Slice", [w.source(layer), *parts], layer.name)


def _pad(w: Writer, layer: Layer) -> str:
    before, value = _ints(layer, "before"), layer.attr("value")
    assert isinstance(value, int | float)
    after = [o - e - b for o, e, b in zip(layer.shape, w.shape(layer), before, strict=True)]
    pads = w.graph.constant([0, *before, 0, *after], True)
    return w.graph.node("Pad", [w.source(layer), pads, w.graph.constant(float(value))], layer.name)


def _combined(w: Writer, layer: Layer) -> str:
    y = w.source(layer)
    for k in range(1, len(layer.inputs)):
        y = w.graph.node("Add" if layer.kind == "add" else "Mul", [y, w.source(layer, k)], layer.name)
    return y


def _map(w: Writer, layer: Layer) -> str:
    assert layer.function is not None
    bound: dict[str, str] = {}
    for k, name in enumerate(layer.inputs):
        shape, x = w.shapes[name], w.named[name]
        if len(shape) != len(layer.shape):  # the batch is in front whatever the rank
            shape = (*(1 for _ in range(len(layer.shape) - len(shape))), *shape)
            x = w.graph.reshape(x, shape, f"{layer.name}/{name}")
        bound[layer.function.args[k]] = x
    bound |= {n: w.graph.constant(float(v)) for n, v in layer.attrs if isinstance(v, int | float)}
    return w.graph.expression(layer.function.body, bound, layer.name)


def _softmax(w: Writer, layer: Layer) -> str:
    op = "Softmax" if layer.kind == "softmax" else "LogSoftmax"
    return w.graph.node(op, [w.source(layer)], layer.name, {"axis": _axis(layer, len(layer.shape))})


def _same(w: Writer, layer: Layer) -> str:
    return w.source(layer)


def _epsilon(layer: Layer) -> float:
    value = layer.attr("epsilon")
    assert isinstance(value, int | float)
    return float(value)


def _batch_norm(w: Writer, layer: Layer) -> str:
    parts = [w.weight(layer, p) for p in ("weight", "bias", "running_mean", "running_var")]
    return w.graph.node("BatchNormalization", [w.source(layer), *parts], layer.name, {"epsilon": _epsilon(layer)})


def _affine(w: Writer, layer: Layer, shape: tuple[int, ...]) -> list[str]:
    """Scale and shift: trained, or 1 and 0."""
    if layer.attr("affine"):
        return [w.weight(layer, "weight"), w.weight(layer, "bias")]
    return [w.graph.constant(np.ones(shape)), w.graph.constant(np.zeros(shape))]


def _layer_norm(w: Writer, layer: Layer) -> str:
    axes = layer.attr("axes")
    assert isinstance(axes, int)
    ins = [w.source(layer), *_affine(w, layer, layer.shape[len(layer.shape) - axes :])]
    return w.graph.node("LayerNormalization", ins, layer.name, {"axis": -axes, "epsilon": _epsilon(layer)})


def _group_norm(w: Writer, layer: Layer) -> str:
    ins = [w.source(layer), *_affine(w, layer, (layer.shape[0],))]
    attrs: dict[str, object] = {"epsilon": _epsilon(layer)}
    if layer.kind == "instance_norm":
        return w.graph.node("InstanceNormalization", ins, layer.name, attrs)
    attrs["num_groups"] = layer.attr("groups")
    if len(layer.shape) > 1:
        return w.graph.node("GroupNormalization", ins, layer.name, attrs)
    ins[0] = w.graph.reshape(ins[0], (*layer.shape, 1), f"{layer.name}/channels")
    return w.graph.reshape(w.graph.node("GroupNormalization", ins, layer.name, attrs), layer.shape, layer.name)


def _embedding(w: Writer, layer: Layer) -> str:
    return w.graph.node("Gather", [w.weight(layer, "weight"), w.source(layer)], layer.name)


def _one_hot(w: Writer, layer: Layer) -> str:
    g = w.graph
    # onnxruntime knows the operator of 64-bit integers
    x = g.node("Cast", [w.source(layer)], f"{layer.name}/places", {"to": INT64})
    ins = [x, g.constant(layer.shape[-1], True), g.constant([0.0, 1.0])]
    return g.node("OneHot", ins, layer.name)


def _learned(w: Writer, layer: Layer) -> str:
    """The array, once for each sample of the batch of some input."""
    g = w.graph
    sizes = g.node("Shape", [next(iter(w.named.values()))], f"{layer.name}/batch", {"end": 1})
    shape = g.node("Concat", [sizes, g.constant(list(layer.shape), True)], f"{layer.name}/shape", {"axis": 0})
    one = g.weight(f"{layer.name}.weight", w.weights[f"{layer.name}.weight"][None])
    return g.node("Expand", [one, shape], layer.name)


def _positions(w: Writer, layer: Layer) -> str:
    steps, size = layer.shape
    if layer.attr("encoding") == "trained":
        table = w.weight(layer, "weight")
    else:
        e = np.arange(size)
        angle = np.arange(steps)[:, None] * np.exp((e - e % 2) * (-9.210340371976184 / size))
        table = w.graph.constant(np.where(e % 2 == 0, np.sin(angle), np.cos(angle)))
    return w.graph.node("Add", [w.source(layer), table], layer.name)


def _attention(w: Writer, layer: Layer) -> str:
    ways = _attended(layer)
    parts = [linear(w, layer, w.source(layer, k), 2, part) for k, part in zip(ways, _PARTS, strict=True)]
    size = layer.attr("size")
    assert isinstance(size, int)
    return linear(w, layer, _dot_product(w, layer, parts, [size] * 3), 2, "out")


def _dot_attention(w: Writer, layer: Layer) -> str:
    ways = _attended(layer)
    return _dot_product(w, layer, [w.source(layer, k) for k in ways], [w.shape(layer, k)[1] for k in ways])


_PARTS = ("query", "key", "value")


def _attended(layer: Layer) -> list[int]:
    """Which inputs are query, key and value."""
    return [0, 1, 2] if len(layer.inputs) > 2 + len(_beside(layer)) else [0] * 3


def _beside(layer: Layer) -> list[str]:
    return [key for key in BESIDE if dict(layer.attrs).get(key)]


def _dot_product(w: Writer, layer: Layer, parts: list[str], sizes: list[int]) -> str:
    """softmax(q k * scale + offset) v. `sizes`: features of the parts."""
    g, heads, ways = w.graph, layer.attr("heads"), _attended(layer)
    assert isinstance(heads, int)
    steps, others = (w.shape(layer, k)[0] for k in ways[:2])
    turned = []
    for part, x, k, size in zip(_PARTS, parts, ways, sizes, strict=True):
        y = g.reshape(x, (w.shape(layer, k)[0], heads, size // heads), f"{layer.name}/{part}/heads")
        axes = [0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]
        turned.append(g.node("Transpose", [y], f"{layer.name}/{part}/turned", {"perm": axes}))
    scores = g.node("MatMul", turned[:2], f"{layer.name}/scores")
    scale = dict(layer.attrs).get("scale", 1.0 / math.sqrt(sizes[0] // heads))
    assert isinstance(scale, int | float)
    scores = g.node("Mul", [scores, g.constant(float(scale))], f"{layer.name}/scaled")
    beside = _beside(layer)
    read: dict[str, str] = {}
    for k, key in enumerate(beside, len(layer.inputs) - len(beside)):
        shape, x = w.shape(layer, k), w.source(layer, k)
        if key == "mask":
            x = g.node("Cast", [x], f"{layer.name}/seen", {"to": BOOL})
        read[key] = g.reshape(x, (*(1 for _ in range(3 - len(shape))), *shape), f"{layer.name}/{key}")
    if "offset" in read:
        scores = g.node("Add", [scores, read["offset"]], f"{layer.name}/moved")
    late = np.arange(others)[None, :] > np.arange(steps)[:, None]
    if layer.attr("causal"):
        scores = g.node("Add", [scores, g.constant(np.where(late, HIDDEN, 0.0))], f"{layer.name}/masked")
    if "mask" in read:
        scores = g.node("Where", [read["mask"], scores, g.constant(HIDDEN)], f"{layer.name}/hidden")
    p = g.node("Softmax", [scores], f"{layer.name}/softmax", {"axis": -1})
    if "mask" in read:  # zeros where nothing is seen
        seen = g.node("Cast", [read["mask"]], f"{layer.name}/ones", {"to": g.real})
        p = g.node("Mul", [p, seen], f"{layer.name}/kept")
        if layer.attr("causal"):
            p = g.node("Mul", [p, g.constant(np.where(late, 0.0, 1.0))], f"{layer.name}/early")
    y = g.node("MatMul", [p, turned[2]], f"{layer.name}/context")
    y = g.node("Transpose", [y], f"{layer.name}/joined", {"perm": [0, 2, 1, 3]})
    return g.reshape(y, (steps, sizes[2]), f"{layer.name}/flat")


def _recurrent(w: Writer, layer: Layer) -> str:
    g, units = w.graph, layer.attr("units")
    assert isinstance(units, int)
    gates, op = ONNX_GATES[layer.kind], layer.kind.upper()
    ways = ("", "backward.") if layer.attr("bidirectional") else ("",)

    def stacked(part: str, missing: float | None = None) -> Reals:
        return np.stack([
            np.concatenate([w.weights[f"{layer.name}.{way}{gate}.{part}"] for gate in gates]) for way in ways
        ])  # fmt: skip

    x = g.node("Transpose", [w.source(layer)], f"{layer.name}/steps", {"perm": [1, 0, 2]})
    ins = [
        x,
        g.weight(f"{layer.name}.weight", stacked("weight")),
        g.weight(f"{layer.name}.recurrent", stacked("recurrent")),
    ]
    after = layer.kind == "gru" and layer.attr("reset") == "after"
    if layer.attr("bias"):
        second = np.zeros((len(ways), len(gates) * units))
        if after:
            for k, way in enumerate(ways):
                second[k, 2 * units :] = w.weights[f"{layer.name}.{way}candidate.recurrent_bias"]
        ins.append(g.weight(f"{layer.name}.bias", np.concatenate([stacked("bias"), second], 1)))
    attrs: dict[str, object] = {
        "hidden_size": units, "direction": "bidirectional" if len(ways) == 2 else "forward",
    }  # fmt: skip
    if after:
        attrs["linear_before_reset"] = 1
    if layer.kind == "rnn":
        attrs["activations"] = [str(layer.attr("function")).capitalize()] * len(ways)
    if layer.attr("sequence"):
        y = g.node(op, ins, f"{layer.name}/all", attrs)
        y = g.node("Transpose", [y], f"{layer.name}/batch", {"perm": [2, 0, 1, 3]})
    else:
        y = g.node(op, ins, f"{layer.name}/last", attrs, outputs=2)
        y = g.node("Transpose", [y], f"{layer.name}/batch", {"perm": [1, 0, 2]})
    return g.reshape(y, layer.shape, layer.name)


_KINDS: Mapping[str, Callable[[Writer, Layer], str]] = MappingProxyType(
    {
        "dense": _dense,
        **dict.fromkeys(("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"), _conv),
        **dict.fromkeys(("max_pool1d", "avg_pool1d", "max_pool2d", "avg_pool2d"), _pool),
        **dict.fromkeys(("global_max_pool", "global_avg_pool"), _global),
        "upsample": _upsample,
        **dict.fromkeys(("flatten", "reshape"), _reshape),
        "permute": _permute,
        "concat": _concat,
        "slice": _slice,
        "pad": _pad,
        **dict.fromkeys(("add", "multiply"), _combined),
        "map": _map,
        **dict.fromkeys(("softmax", "log_softmax"), _softmax),
        **dict.fromkeys(("activation", *TRAINING_ONLY), _same),
        "batch_norm": _batch_norm,
        "layer_norm": _layer_norm,
        **dict.fromkeys(("group_norm", "instance_norm"), _group_norm),
        "embedding": _embedding,
        "one_hot": _one_hot,
        "learned": _learned,
        "positions": _positions,
        "attention": _attention,
        "dot_attention": _dot_attention,
        **dict.fromkeys(("rnn", "gru", "lstm"), _recurrent),
    }
)
