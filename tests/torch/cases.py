"""The cases of the grids against PyTorch: heads (grid.py) of every kind of layer and loss, a build a group.

Assumes: PyTorch.
Guarantees: `GROUPS` has every deterministic kind of the language (dropout at a rate of 0).
Does not: compare.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from compiler.layers.shared.activations import ACTIVATIONS
from tests.torch.grid import Forward, Head, OwnLoss, Weights, product, yaml
from tests.torch.nets import attention, dense, dot_attention, published_gru, recurrent, wave

functional: Any = torch.nn.functional
Shape = tuple[int, ...]


def layer(kind: str, settings: dict[str, Any], shape: Shape, forward: Forward, **more: Any) -> Head:
    """A head of one layer."""
    lines = f"{kind}: {yaml({'name': '$y', 'inputs': '$x', **settings})}"
    return Head(f"{kind} {yaml(settings)} of {list(shape)}", lines, shape, forward, **more)


def lines(text: str, shape: Shape, forward: Forward, **more: Any) -> Head:
    """A head of several."""
    return Head(f"{' | '.join(text.split(chr(10)))} of {list(shape)}", text, shape, forward, **more)


def each(value: Any, rank: int) -> Shape:
    return value if isinstance(value, tuple) else (value,) * rank


# ------------------------------------------------------------------------------------------ windows


def around(padding: Any, extents: Shape, reach: Shape, stride: Shape) -> list[tuple[int, int]]:
    """(before, after) for each dimension."""
    rank = len(extents)
    if padding == "valid":
        return [(0, 0)] * rank
    if padding == "same":
        needed = [max((-(-e // s) - 1) * s + r - e, 0) for e, r, s in zip(extents, reach, stride, strict=True)]
        return [(n // 2, n - n // 2) for n in needed]
    if isinstance(padding, tuple) and len(padding) == 2 * rank:
        return [(padding[2 * a], padding[2 * a + 1]) for a in range(rank)]
    return [(p, p) for p in each(padding, rank)]


def padded(x: Any, sides: list[tuple[int, int]], value: float = 0.0) -> Any:
    return functional.pad(x, [p for side in reversed(sides) for p in side], value=value)


def conv(rank: int, shape: Shape, filters: int, **s: Any) -> Head:
    kernel, stride, dilation = (each(s.get(n, 1), rank) for n in ("kernel", "stride", "dilation"))
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    mode = s.get("padding_mode")
    sides = around(s.get("padding", "valid"), shape[1:], reach, stride)
    apply = getattr(functional, f"conv{rank}d")

    def forward(w: Weights, x: Any) -> Any:
        pads = [p for side in reversed(sides) for p in side]
        x = functional.pad(x, pads, mode=mode) if mode else padded(x, sides)
        return apply(x, w["y.weight"], w.get("y.bias"), stride=stride, dilation=dilation, groups=s.get("groups", 1))

    return layer(f"conv{rank}d", {"filters": filters, **s}, shape, forward)


def borders() -> Iterator[Head]:
    for mode in ("reflect", "replicate", "circular"):
        yield conv(1, (3, 9), 4, kernel=4, padding="same", padding_mode=mode)
        yield conv(1, (2, 9), 4, kernel=3, padding=(4, 0), dilation=2, padding_mode=mode)
        yield conv(2, (4, 5, 6), 6, kernel=3, padding=(1, 2), stride=2, groups=2, padding_mode=mode)
        yield conv(2, (2, 5, 6), 3, kernel=(3, 2), padding=(2, 0, 1, 1), padding_mode=mode, bias=False)
        yield conv(3, (2, 4, 3, 5), 3, kernel=(2, 3, 1), padding=(1, 1, 0), padding_mode=mode)


def convs(rank: int, extents: Shape, **grid: Any) -> list[Head]:
    """Every combination, without and with groups, depthwise too; every third without a bias."""
    heads = []
    for n, s in enumerate(product(**grid, groups=[1, 2, 4])):
        channels, filters = {1: (3, 5), 2: (4, 6), 4: (4, 8 if n % 2 else 4)}[s["groups"]]
        heads.append(conv(rank, (channels, *extents), filters, **s, **({"bias": False} if n % 3 == 2 else {})))
    return heads


def transpose(rank: int, shape: Shape, filters: int, **s: Any) -> Head:
    """PyTorch knows only equal paddings; others are cut from what it makes without."""
    cut = around(s["padding"], shape[1:], shape[1:], shape[1:])
    apply = getattr(functional, f"conv_transpose{rank}d")
    added = each(s["output_padding"], rank)

    def forward(w: Weights, x: Any) -> Any:
        options = {"stride": s["stride"], "dilation": s["dilation"], "groups": s["groups"]}
        y = apply(x, w["y.weight"], w.get("y.bias"), **options, output_padding=added)
        return y[(..., *(slice(b, e - a) for (b, a), e in zip(cut, y.shape[2:], strict=True)))]

    return layer(f"conv_transpose{rank}d", {"filters": filters, **s}, shape, forward)


def transposes(rank: int, extents: Shape, **grid: Any) -> list[Head]:
    heads = []
    for s in product(**grid, groups=[1, 2]):
        strides, dilations = each(s["stride"], rank), each(s["dilation"], rank)
        room = min(max(a, b) for a, b in zip(strides, dilations, strict=True))
        if max(each(s["output_padding"], rank)) < room:
            heads.append(transpose(rank, (4, *extents), 6, **s))
    return heads


def pool(kind: str, shape: Shape, **s: Any) -> Head:
    rank = int(kind[-2])
    size = each(s["size"], rank)
    stride = each(s.get("stride", size), rank)
    padding, ceil, counted = s.get("padding", 0), s.get("ceil", False), s.get("count_padding", True)
    sides = around(padding, shape[1:], size, stride)
    equal = all(before == after for before, after in sides)
    apply = getattr(functional, kind)

    def forward(w: Weights, x: Any) -> Any:
        options = {"ceil_mode": ceil, "padding": [b for b, _ in sides]}
        if kind.startswith("max"):
            return apply(x, size, stride, **options) if equal else apply(padded(x, sides, -math.inf), size, stride)
        if equal:
            return apply(x, size, stride, **options, count_include_pad=counted)
        y = apply(padded(x, sides), size, stride)
        return y if counted else y / apply(padded(torch.ones_like(x), sides), size, stride)

    return layer(kind, s, shape, forward)


def pools(kind: str, shape: Shape, **grid: Any) -> Iterator[Head]:
    """Combinations that PyTorch knows: a padding of at most half the window; what is rounded up has equal sides."""
    rank = len(shape) - 1
    for s in product(**grid):
        sides = around(s["padding"], shape[1:], each(s["size"], rank), each(s["stride"], rank))
        equal = all(before == after for before, after in sides)
        fits = all(2 * max(side) <= n for side, n in zip(sides, each(s["size"], rank), strict=True))
        if fits and (equal or not s["ceil"]):
            yield pool(kind, shape, **s)


POOLING = {
    1: {"size": [2, 3], "stride": [1, 2, 4], "padding": [0, 1, (1, 0), "same"], "ceil": [False, True]},
    2: {"size": [2, (3, 2)], "stride": [1, 2, (3, 2)], "padding": [0, 1, (1, 0, 0, 1), "same"], "ceil": [False, True]},
    3: {
        "size": [2, (1, 3, 2)],
        "stride": [1, 2, (3, 1, 2)],
        "padding": [0, (0, 1, 1), (0, 0, 1, 0, 0, 1), "same"],
        "ceil": [False, True],
    },
}
COUNTED = {"count_padding": [True, False]}

# ------------------------------------------------------------------------------------------ shapes of data

_EXTENTS = ((1, 3, 3), (2, 16, 16), (17, 5, 4), (32, 3, 3), (3, 5, 40), (1, 1, 9))
SHAPES = [
    *(conv(2, shape, f, kernel=(1, 3), padding="same") for shape in _EXTENTS for f in (1, 7, 16, 33)),
    *(conv(1, (c, 1 + 8 * c), 9, kernel=1, stride=2) for c in (1, 2, 5, 16, 31)),
    *(pool("max_pool2d", (c, 6, 6), size=6) for c in (1, 16, 19)),
]


def denses() -> Iterator[Head]:
    for n, (size, units) in enumerate((i, o) for i in (1, 2, 7, 16, 33) for o in (1, 2, 7, 16, 33)):
        for shape in ((size,), (3, size)):
            if len(shape) == 1 or n % 3 == 1:
                settings = {"units": units, **({"bias": False} if n % 3 == 0 else {})}
                yield layer("dense", settings, shape, lambda w, x: dense(w, "y", x))
    for shape in ((3, 4, 5), (2, 3, 2, 4)):
        yield layer("dense", {"units": 3, "bias": len(shape) == 3}, shape, lambda w, x: dense(w, "y", x))


# ------------------------------------------------------------------------------------------ norms


def batch_norm(shape: Shape, epsilon: float) -> Head:
    def used(w: Weights, x: Any, training: bool = False) -> Any:
        mean, var = w["y.running_mean"].detach().clone(), w["y.running_var"].detach().clone()
        return functional.batch_norm(x, mean, var, w["y.weight"], w["y.bias"], training, eps=epsilon)

    return layer("batch_norm", {"epsilon": epsilon}, shape, lambda w, x: used(w, x, True), in_use=used)


def norm(kind: str, shape: Shape, **s: Any) -> Head:
    epsilon = s.get("epsilon", 1e-5)

    def forward(w: Weights, x: Any) -> Any:
        scale, shift = w.get("y.weight"), w.get("y.bias")
        if kind == "layer_norm":
            return functional.layer_norm(x, x.shape[-s.get("axes", 1) :], scale, shift, epsilon)
        if kind == "group_norm":
            return functional.group_norm(x, s["groups"], scale, shift, epsilon)
        if kind == "rms_norm":
            return functional.rms_norm(x, x.shape[-s.get("axes", 1) :], scale, epsilon)
        return functional.instance_norm(x, None, None, scale, shift, eps=epsilon)

    return layer(kind, s, shape, forward)


def scale_shift(shape: Shape, axis: int) -> Head:
    behind = (1,) * (len(shape) - axis - 1)

    def forward(w: Weights, x: Any) -> Any:
        return x * w["y.weight"].reshape(-1, *behind) + w["y.bias"].reshape(-1, *behind)

    return layer("scale_shift", {"axis": axis}, shape, forward)


_MAPS = ((6, 11), (6, 5, 3), (4, 3, 2, 5))
NORMS = [
    *(batch_norm(shape, e) for shape in ((7,), *_MAPS, (1, 4, 4), (33, 2, 2)) for e in (1e-5, 1e-2)),
    *(norm("layer_norm", shape, axes=a, epsilon=1e-3, **s) for shape in _MAPS for a in range(1, len(shape) + 1)
      for s in ({}, {"affine": False})),
    *(norm("rms_norm", shape, axes=a, epsilon=1e-3, **s) for shape in _MAPS for a in range(1, len(shape) + 1)
      for s in ({}, {"affine": False})),
    *(norm("group_norm", shape, groups=g, **s) for shape in ((6,), *_MAPS) for g in (1, 2, 3)
      if shape[0] % g == 0 and (len(shape) > 1 or g < 6) for s in ({}, {"affine": False, "epsilon": 0.1})),
    *(norm("instance_norm", shape, **s) for shape in _MAPS for s in ({}, {"affine": False})),
    *(scale_shift(shape, a) for shape in ((7,), *_MAPS) for a in range(len(shape))),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ elementwise, axes

# PyTorch's own gradient of hardsigmoid has 1 / 6 in float32, in float64 too.
_TORCH: Mapping[str, Any] = MappingProxyType({
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "hard_sigmoid": lambda x: functional.relu6(x + 3) / 6,
    "hard_swish": functional.hardswish, "hard_tanh": functional.hardtanh,
    "log_sigmoid": functional.logsigmoid, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
    "bump": lambda x: x * torch.exp(-x * x) + 0.1 * torch.abs(x),
})  # fmt: skip


def activations() -> Iterator[Head]:
    for name in (*ACTIVATIONS, "bump"):
        f = _TORCH.get(name) or getattr(functional, name)
        yield layer("activation", {"function": name}, (5, 7), lambda w, x, f=f: f(x))
        yield layer("dense", {"units": 6, "activation": name}, (5,), lambda w, x, f=f: f(dense(w, "y", x)))


def glus() -> Iterator[Head]:
    for name, gate in (("sigmoid", "last"), ("silu", "first"), ("gelu", "last")):
        f = _TORCH.get(name) or getattr(functional, name)

        def forward(w: Weights, x: Any, a: int = -1, f: Any = f, gate: str = gate) -> Any:
            value, by = torch.chunk(x, 2, a)
            value, by = (value, by) if gate == "last" else (by, value)
            return value * f(by)

        yield layer("glu", {"function": name, "gate": gate}, (4, 6), forward)
        for axis in range(3):
            yield layer("glu", {"function": name, "gate": gate, "axis": axis}, (2, 4, 6),
                        lambda w, x, a=axis, forward=forward: forward(w, x, a + 1))  # fmt: skip
    yield layer("glu", {}, (5, 6), lambda w, x: functional.glu(x))


def prelus() -> Iterator[Head]:
    for shape in ((5,), (3, 4), (2, 3, 4)):
        for channels in (False, True):
            yield layer("prelu", {"channels": channels}, shape, lambda w, x: functional.prelu(x, w["y.weight"]))


def reductions() -> Iterator[Head]:
    found = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
    for (name, f), keep in itertools.product(found.items(), (False, True)):
        for shape, axes in (((2, 3, 4), (1,)), ((2, 3, 4), (2, 0)), ((2, 3, 4), (0, 1, 2)), ((5,), (0,))):
            dims = tuple(a + 1 for a in axes)
            yield layer("reduce", {"function": name, "axes": axes, "keep": keep}, shape,
                        lambda w, x, f=f, dims=dims, keep=keep: f(x, dims, keepdim=keep))  # fmt: skip


def softmaxes() -> Iterator[Head]:
    for kind in ("softmax", "log_softmax"):
        f = getattr(torch, kind)
        for shape in ((7,), (3, 6), (2, 3, 5)):
            yield layer(kind, {}, shape, lambda w, x, f=f: f(x, -1))
            for a in range(len(shape)):
                yield layer(kind, {"axis": a}, shape, lambda w, x, f=f, a=a: f(x, a + 1))


ELEMENTWISE = [
    *activations(),
    *glus(),
    *prelus(),
    *softmaxes(),
    *reductions(),
    lines("stop_gradient: {name: $y_s, inputs: $x}\nmap: {$y: $y_s * $x - $y_s}", (4, 3),
          lambda w, x: x.detach() * x - x.detach()),
    lines("add: {name: $y, inputs: [$x, $x, $x]}", (3, 4), lambda w, x: 3 * x),
    lines("activation: {name: $y_s, inputs: $x, function: sigmoid}\nmultiply: {name: $y, inputs: [$y_s, $x, $y_s]}",
          (6,), lambda w, x: torch.sigmoid(x) ** 2 * x),
    lines("map: {$y: 'exp(-$x) * ($x if $x > 0.2 else sin($x)) / (2 + $x ** 2)'}", (4, 3),
          lambda w, x: torch.exp(-x) * torch.where(x > 0.2, x, torch.sin(x)) / (2 + x**2)),
    lines("map: {$y: '$x * max($x, 0.3) * min($x, 0.5) + clip($x, -0.4, 0.6) * tanh($x) + sqrt(abs($x) + 0.1)'}", (9,),
          lambda w, x: x * x.clamp(min=0.3) * x.clamp(max=0.5) + x.clamp(-0.4, 0.6) * torch.tanh(x)
          + torch.sqrt(torch.abs(x) + 0.1)),
    lines("global_avg_pool: {name: $y_a, inputs: $x}\nreshape: {name: $y_b, shape: [3, 1]}\n"
          "map: {$y: $x * $y_b + $y_b}", (3, 4), lambda w, x: (x + 1) * x.mean(2, keepdim=True)),
    lines("dropout: {name: $y, inputs: $x, rate: 0}", (5,), lambda w, x: x),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ movement

IMAGE = (4, 5, 6)


def resized() -> Iterator[Head]:
    """Linear interpolation, other sizes, and pools of so many windows."""
    words = {1: "linear", 2: "bilinear", 3: "trilinear"}
    for shape, size in (((3, 6), 15), ((3, 6), 3), (IMAGE, (10, 6)), (IMAGE, (15, 4)), (IMAGE, 1), ((1, 3, 2, 4), 4)):
        rank = len(shape) - 1
        for aligned in (False, True):
            yield layer("upsample", {"size": size, "method": "linear", "align_corners": aligned}, shape,
                        lambda w, x, size=size, rank=rank, aligned=aligned: functional.interpolate(
                            x, size, mode=words[rank], align_corners=aligned))  # fmt: skip
        yield layer("upsample", {"size": size}, shape, lambda w, x, size=size: functional.interpolate(x, size))
    yield layer("upsample", {"factor": (2, 3), "method": "linear"}, IMAGE,
                lambda w, x: functional.interpolate(x, scale_factor=(2, 3), mode="bilinear"))  # fmt: skip
    pools = (("avg", 1, 4), ("avg", 1, 5), ("max", 1, 2), ("avg", 2, (3, 4)), ("avg", 2, 7), ("max", 2, (5, 2)))
    for kind, rank, size in pools:
        name = f"adaptive_{kind}_pool{rank}d"
        yield layer(name, {"size": size}, (3, 10) if rank == 1 else IMAGE,
                    lambda w, x, name=name, size=size: getattr(functional, name)(x, size))  # fmt: skip


MOVEMENT = [
    *resized(),
    *(layer("upsample", {"factor": f}, s, lambda w, x, f=f: functional.interpolate(x, scale_factor=f))
      for f, s in ((2, IMAGE), ((1, 3), IMAGE), (3, (4, 5)), ((2, 1, 2), (2, 3, 2, 3)))),
    *(layer("pad", {"before": b, "after": a, "value": v}, IMAGE,
            lambda w, x, b=b, a=a, v=v: padded(x, list(zip(b, a, strict=True)), v))
      for b, a, v in (((0, 1, 2), (0, 1, 2), 0), ((1, 0, 0), (0, 2, 3), -1.5), ((0, 0, 0), (2, 0, 1), 0.5))),
    *(layer("pad", {"before": b, "after": a, "mode": m}, shape, lambda w, x, b=b, a=a, m=m: around_by(x, b, a, m))
      for m in ("reflect", "replicate", "circular") for b, a, shape in (
          ((3,), (1,), (4,)), ((0, 2), (2, 0), (3, 4)), ((0, 1, 2), (0, 2, 3), (2, 3, 4)), ((1, 1), (0, 1), (2, 2)))),
    layer("pad", {"before": (4, 7), "after": (9, 0), "mode": "replicate"}, (1, 2),
          lambda w, x: around_by(x, (4, 7), (9, 0), "replicate")),
    layer("pad", {"before": (2,)}, (5,), lambda w, x: functional.pad(x, (2, 2))),
    *(layer("permute", {"axes": a}, IMAGE, lambda w, x, a=a: x.permute(0, *(1 + k for k in a)))
      for a in ((0, 2, 1), (1, 0, 2), (2, 0, 1), (2, 1, 0), (1, 2, 0))),
    *(layer("reshape", {"shape": s}, IMAGE, lambda w, x, s=s: x.reshape(-1, *s))
      for s in ((120,), (8, 15), (2, 3, 4, 5))),
    *(layer("flatten", {}, s, lambda w, x: x.flatten(1)) for s in ((5,), (3, 4), IMAGE)),
    *(layer("slice", {"axis": a, "from": f, "to": t}, IMAGE, lambda w, x, a=a, f=f, t=t: x.narrow(a + 1, f, t - f))
      for a, f, t in ((0, 1, 3), (1, 0, 1), (1, 2, 5), (2, 5, 6), (2, 0, 6))),
    *(lines("activation: {name: $y_t, inputs: $x, function: tanh}\n"
            f"concat: {{name: $y, inputs: [$x, $y_t, $x], axis: {a}}}", IMAGE,
            lambda w, x, a=a: torch.cat([x, torch.tanh(x), x], a + 1)) for a in range(3)),
    *(lines(f"split: {{inputs: $x, into: [$y_a, $y_b, $y_c], axis: {a}, sizes: {list(sizes)}}}\n"
            f"activation: {{name: $y_s, inputs: $y_b, function: sigmoid}}\n"
            f"concat: {{name: $y, inputs: [$y_c, $y_s, $y_a], axis: {a}}}", IMAGE,
            lambda w, x, a=a, sizes=sizes: (lambda p: torch.cat([p[2], torch.sigmoid(p[1]), p[0]], a + 1))(
                torch.split(x, sizes, a + 1)))
      for a, sizes in ((0, (1, 2, 1)), (1, (2, 1, 2)), (2, (3, 1, 2)))),
    lines("split: {inputs: $x, into: [$y_a, $y_b]}\nmultiply: {name: $y, inputs: [$y_b, $y_a]}", IMAGE,
          lambda w, x: x[:, :2] * x[:, 2:]),
    *(layer(k, {}, s, lambda w, x, f=f: f(x.flatten(2), 2)) for s in ((3, 5), IMAGE, (2, 3, 4, 2))
      for k, f in (("global_max_pool", torch.amax), ("global_avg_pool", torch.mean))),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ sequences


def around_by(x: Any, before: Shape, after: Shape, mode: str) -> Any:
    """F.pad with each axis of its own, as it pads three axes at most, and not the first ones."""
    for axis, pads in enumerate(zip(before, after, strict=True), 1):
        lines = x.movedim(axis, -1)
        y = functional.pad(lines.reshape(1, -1, lines.shape[-1]), pads, mode=mode)
        x = y.reshape(*lines.shape[:-1], -1).movedim(-1, axis)
    return x


def attending(shape: Shape, **s: Any) -> Head:
    heads, causal = s["heads"], s.get("causal", False)
    shared = s.get("kv_heads")
    return layer("attention", s, shape, lambda w, x: attention(w, x, x, x, heads, causal, "y", kv_heads=shared))


def crossing(keys: int, **s: Any) -> Head:
    """The first three steps look at the last ones."""
    text = (
        "slice: {name: $y_q, inputs: $x, axis: 0, to: 3}\n"
        f"slice: {{name: $y_k, inputs: $x, axis: 0, from: {5 - keys}}}\n"
        f"attention: {yaml({'name': '$y', **s, 'inputs': '[$y_q, $y_k, $y_k]'})}"
    )

    def forward(w: Weights, x: Any) -> Any:
        k = x[:, 5 - keys :]
        causal, shared = s.get("causal", False), s.get("kv_heads")
        return attention(w, x[:, :3], k, k, s["heads"], causal, "y", kv_heads=shared)

    return lines(text, (5, 6), forward)


def plain(keys: int, **s: Any) -> Head:
    """Queries are the first three steps; values have other features than keys."""
    text = (
        "dense: {name: $y_v, inputs: $x, units: 4}\n"
        f"slice: {{name: $y_k, inputs: $x, axis: 0, from: {5 - keys}}}\n"
        f"slice: {{name: $y_w, inputs: $y_v, axis: 0, from: {5 - keys}}}\n"
        "slice: {name: $y_q, inputs: $x, axis: 0, to: 3}\n"
        f"dot_attention: {yaml({'name': '$y', **s, 'inputs': '[$y_q, $y_k, $y_w]'})}"
    )

    def forward(w: Weights, x: Any) -> Any:
        v = dense(w, "y_v", x)[:, 5 - keys :]
        return dot_attention(x[:, :3], x[:, 5 - keys :], v, s["heads"], s.get("causal", False), scale=s.get("scale"))

    return lines(text, (5, 6), forward)


def sharing(kv_heads: int, **s: Any) -> Head:
    """Four heads of queries; values have other features than keys."""
    text = (
        f"dense: {{name: $y_v, inputs: $x, units: {2 * kv_heads}}}\n"
        f"dense: {{name: $y_k, inputs: $x, units: {3 * kv_heads}}}\n"
        f"dot_attention: {yaml({'name': '$y', 'heads': 4, 'kv_heads': kv_heads, **s, 'inputs': '[$x, $y_k, $y_v]'})}"
    )

    def forward(w: Weights, x: Any) -> Any:
        k, v = dense(w, "y_k", x), dense(w, "y_v", x)
        return dot_attention(x, k, v, 4, s.get("causal", False), scale=s.get("scale"), kv_heads=kv_heads)

    return lines(text, (5, 12), forward)


def recurrences(kind: str, before: bool = False) -> Iterator[Head]:
    """`before`: of a gru, where it resets."""
    flags = [False, True]
    for n, s in enumerate(product(units=[1, 5], sequence=flags, bidirectional=flags, bias=flags)):
        own = {"function": "relu"} if kind == "rnn" and n % 2 else {}
        module = partial(published_gru if before else partial(recurrent, kind, **own), name="y")

        def forward(w: Weights, x: Any, s: dict[str, Any] = s, module: Any = module) -> Any:
            states, ends = module(w, x, s["units"], s["bidirectional"], s["bias"])
            return states if s["sequence"] else torch.cat(list(ends), -1)

        yield layer(kind, {**s, **own, **({"reset": "before"} if before else {})}, ((1, 3, 6)[n % 3], 4), forward)


def begun(kind: str, both: bool) -> Head:
    """What the layer begins with is a layer of the last steps' features."""
    size = 6 if both else 3

    def forward(w: Weights, x: Any) -> Any:
        initial = dense(w, "y_i", x[:, 2:].flatten(1))
        return recurrent(kind, w, x, 3, both, name="y", initial=initial)[0]

    memory = ", initial_memory: $y_i" if kind == "lstm" else ""
    return lines(f"slice: {{name: $y_s, inputs: $x, from: 2}}\nflatten: {{name: $y_f}}\n"
                 f"dense: {{name: $y_i, units: {size}}}\n{kind}: {{name: $y, inputs: $x, units: 3, sequence: true, "
                 f"bidirectional: {str(both).lower()}, initial: $y_i{memory}}}", (4, 2), forward)  # fmt: skip


SEQUENCES = [
    *(begun(kind, both) for kind in ("rnn", "gru", "lstm") for both in (False, True)),
    *(attending((5, 6), heads=h, **s) for h in (1, 2, 3) for s in (
        {}, {"causal": True}, {"size": 12, "bias": False}, {"size": 12, "causal": True})),
    *(attending((5, 12), heads=6, kv_heads=k, causal=c) for k in (1, 2, 3, 6) for c in (False, True)),
    attending((5, 6), heads=4, kv_heads=2, size=20, bias=False),
    *(sharing(k, **s) for k in (1, 2, 4) for s in ({}, {"causal": True}, {"scale": 0.3})),
    crossing(2, heads=6, kv_heads=3),
    *(crossing(k, heads=2, causal=c) for k in (2, 5) for c in (False, True)),
    *(plain(k, heads=h, **s) for k in (3, 5) for h in (1, 2) for s in ({}, {"causal": True}, {"scale": 0.3})),
    *(layer("positions", {"encoding": e}, shape, f)
      for e, f in (("trained", lambda w, x: x + w["y.weight"]), ("sinusoidal", lambda w, x: wave(x)))
      for shape in ((1, 1), (6, 5), (9, 8))),
    *(lines(f"learned: {{name: $y_l, shape: {list(s[a:])}, init: {i}}}\nmap: {{$y: $x * exp($y_l)}}", s,
            lambda w, x: x * torch.exp(w["y_l.weight"]))
      for s in ((5,), (3, 4), (2, 3, 4)) for a in range(len(s)) for i in ("{normal: {std: 1}}", "{uniform: {}}")),
    *(lines(f"one_hot: {{name: $y_h, inputs: $x, count: {n}}}\ndense: {{name: $y, units: 3}}", shape,
            lambda w, x, n=n: dense(w, "y", functional.one_hot(x, n).to(w["y.weight"].dtype)), count=n)
      for n, shape in ((2, (4,)), (7, ()))),
    lines("dense: {name: $y_a, inputs: $x, units: 6, activation: tanh}\ndense: {name: $y, units: 6, weights: $y_a}",
          (6,), lambda w, x: dense(w, "y_a", torch.tanh(dense(w, "y_a", x)))),
    lines("conv2d: {name: $y_a, inputs: $x, filters: 3, kernel: 3, padding: same}\n"
          "conv2d: {name: $y, filters: 3, kernel: 3, weights: $y_a, bias: false}", (3, 5, 4), lambda w, x:
          functional.conv2d(functional.conv2d(x, w["y_a.weight"], w["y_a.bias"], padding=1), w["y_a.weight"])),
    lines("dense: {name: $y_a, inputs: $x, units: 3, activation: tanh}\n"
          "dense: {name: $y, units: 4, weights: $y_a, transposed: true}", (2, 4), lambda w, x: functional.linear(
              torch.tanh(dense(w, "y_a", x)), w["y_a.weight"].T, w["y.bias"])),
    lines("embedding: {name: $y_e, inputs: $x, count: 7, size: 4}\ndense: {name: $y, units: 7, weights: $y_e}", (3,),
          lambda w, x: functional.linear(w["y_e.weight"][x], w["y_e.weight"], w["y.bias"]), count=7),
    *(lines(f"slice: {{name: $y_s, inputs: $x, axis: {a}, from: 1, to: 3}}\npermute: {{name: $y_p, axes: [1, 0]}}\n"
            "embedding: {name: $y, count: 7, size: 4}", (3, 5), lambda w, x, a=a:
            w["y.weight"][(x[:, 1:3] if a == 0 else x[:, :, 1:3]).mT], count=7) for a in (0, 1)),
    *(lines(f"pad: {{name: $y_p, inputs: $x, before: [{b}], {how}}}\nconcat: {{name: $y_c, inputs: [$y_p, $x]}}\n"
            "embedding: {name: $y, count: 7, size: 4}", (5,), lambda w, x, b=b, kind=kind: w["y.weight"][
                torch.cat([functional.pad(x.double(), (b, b), **kind).long(), x], 1)], count=7)
      for b, how, kind in ((2, "value: 6", {"value": 6}), (3, "mode: reflect", {"mode": "reflect"}),
                           (1, "mode: circular", {"mode": "circular"}))),
    *(layer("embedding", {"count": n, "size": d}, shape, lambda w, x: w["y.weight"][x], count=n)
      for n, d, shape in ((5, 3, (4,)), (2, 16, (7,)), (40, 1, (3,)))),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ products


def matmul(a: Shape, b: Shape, transposed: str = "none") -> Head:
    """The factors are parts of one list."""
    size = math.prod(a)
    text = (
        f"slice: {{name: $y_p, inputs: $x, to: {size}}}\nreshape: {{name: $y_a, shape: {list(a)}}}\n"
        f"slice: {{name: $y_q, inputs: $x, from: {size}}}\nreshape: {{name: $y_b, shape: {list(b)}}}\n"
        f"matmul: {{name: $y, inputs: [$y_a, $y_b], transposed: {transposed}}}"
    )

    def forward(w: Weights, x: Any) -> Any:
        one, two = x[:, :size].reshape(-1, *a), x[:, size:].reshape(-1, *b)
        one, two = (v.mT if transposed in (n, "both") else v for v, n in ((one, "first"), (two, "second")))
        return torch.stack([torch.matmul(p, q) for p, q in zip(one, two, strict=True)])

    return lines(text, (size + math.prod(b),), forward)


def factors(rows: int, terms: int, columns: int, transposed: str) -> tuple[Shape, Shape]:
    a, b = (rows, terms), (terms, columns)
    return (a[::-1] if transposed in ("first", "both") else a), (b[::-1] if transposed in ("second", "both") else b)


def by_hand(causal: bool) -> Head:
    """Attention of two heads."""
    hidden = "map: {$y_c: $y_s * 0.5}"
    if causal:
        hidden = "learned: {name: $y_l, shape: [5, 5], init: {normal: {std: 1}}}\nmap: {$y_c: $y_s * 0.5 + $y_l}"
    parts = "\n".join(
        f"dense: {{name: $y_{n}, inputs: $x, units: 8}}\nreshape: {{name: $y_{n}r, shape: [5, 2, 4]}}\n"
        f"permute: {{name: $y_{n}h, axes: [1, 0, 2]}}" for n in "qkv"
    )  # fmt: skip
    text = (
        f"{parts}\nmatmul: {{name: $y_s, inputs: [$y_qh, $y_kh], transposed: second}}\n{hidden}\n"
        "softmax: {name: $y_t, inputs: $y_c}\nmatmul: {name: $y_o, inputs: [$y_t, $y_vh]}\n"
        "permute: {name: $y_m, axes: [1, 0, 2]}\nreshape: {name: $y, shape: [5, 8]}"
    )

    def forward(w: Weights, x: Any) -> Any:
        q, k, v = (dense(w, f"y_{n}", x).reshape(-1, 5, 2, 4).transpose(1, 2) for n in "qkv")
        scores = q @ k.mT * 0.5 + (w["y_l.weight"] if causal else 0.0)
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(-1, 5, 8)

    return lines(text, (5, 8), forward)


PRODUCTS = [
    *(matmul(*factors(*sizes, t), t) for sizes in ((3, 4, 5), (1, 7, 17), (16, 33, 8), (4, 1, 6))
      for t in ("none", "first", "second", "both")),
    *(matmul((*p, *a), (*q, *b), t) for p, q in (
        ((2,), (2,)), ((2, 3), (2, 3)), ((2, 3), ()), ((), (3,)), ((2, 1), (3,)), ((1, 3), (2, 1)), ((1,), (1,)))
      for t in ("none", "second") for a, b in (factors(4, 5, 3, t),)),
    *(matmul(a, b) for a, b in (((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)))),
    matmul((5,), (2, 3, 5), "second"),
    lines("matmul: {name: $y, inputs: [$x, $x], transposed: second}", (3, 6), lambda w, x: x @ x.mT),
    lines("matmul: {name: $y, inputs: [$x, $x], transposed: first}", (2, 3, 6), lambda w, x: x.mT @ x),
    lines("learned: {name: $y_l, shape: [6, 4], init: {normal: {std: 1}}}\nmatmul: {name: $y, inputs: [$x, $y_l]}",
          (3, 6), lambda w, x: x @ w["y_l.weight"]),
    lines("learned: {name: $y_l, shape: [5, 3], init: {normal: {std: 1}}}\nmatmul: {name: $y, inputs: [$y_l, $x]}",
          (2, 3, 6), lambda w, x: w["y_l.weight"] @ x),
    by_hand(False), by_hand(True),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ losses


def whole(classes: int) -> Any:
    return lambda rng, shape: rng.integers(0, classes, shape[:-1])


def normal(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.normal(size=shape)


def chances(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.dirichlet(np.ones(shape[-1]), shape[:-1])


def signs(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.choice([-1.0, 1.0], shape)


def entropy(y: Any, t: Any, smoothing: float = 0.0) -> Any:
    return functional.cross_entropy(y.movedim(-1, 1), t, label_smoothing=smoothing)


def weighed(y: Any, t: Any, smoothing: float = 0.0) -> Any:
    """The mean over all samples, not PyTorch's over the sum of the weights."""
    return by_weight(y, t, smoothing, reduction="none").mean()


def by_weight(y: Any, t: Any, smoothing: float = 0.0, **more: Any) -> Any:
    weights = torch.tensor([1, 0.5, 2, 0], dtype=y.dtype)
    return functional.cross_entropy(y.movedim(-1, 1), t, weight=weights, label_smoothing=smoothing, **more)


def weighed_binary(y: Any, t: Any, weight: float) -> Any:
    return functional.binary_cross_entropy_with_logits(y, t, pos_weight=torch.tensor(weight, dtype=y.dtype))


def kl(y: Any, t: Any) -> Any:
    return functional.kl_div(y, t, reduction="none").sum(-1).mean()


def smooth_binary(y: Any, t: Any) -> Any:
    return functional.binary_cross_entropy_with_logits(y, 0.8 * t + 0.1)


def transcribed(y: Any, t: Any) -> Any:
    whole = [torch.full((len(y),), a.shape[1]) for a in (y, t)]
    return functional.ctc_loss(torch.log_softmax(y, -1).transpose(0, 1), t, *whole)


def chosen(a: Any, b: Any, temperature: float = 0.07, symmetric: bool = False) -> Any:
    scores = functional.normalize(a, dim=-1) @ functional.normalize(b, dim=-1).T / temperature
    own = torch.arange(len(a))
    one = functional.cross_entropy(scores, own)
    return (one + functional.cross_entropy(scores.T, own)) / 2 if symmetric else one


_PLACES: list[tuple[str, Any]] = [
    ("triplet: {anchor: $y_a, positive: $y_b, negative: $y_c}",
     lambda y, t: functional.triplet_margin_loss(*y.unbind(1))),
    ("triplet: {anchor: $y_a, positive: $y_b, negative: $y_c, margin: 2.5, swap: true}",
     lambda y, t: functional.triplet_margin_loss(*y.unbind(1), margin=2.5, swap=True)),
    ("cosine_embedding: {anchor: $y_a, other: $y_b, target: $t, margin: 0.2}",
     lambda y, t: functional.cosine_embedding_loss(y[:, 0], y[:, 1], t, margin=0.2)),
    ("info_nce: {anchor: $y_a, positive: $y_b}", lambda y, t: chosen(y[:, 0], y[:, 1])),
    ("info_nce: {anchor: $y_a, positive: $y_b, temperature: 0.5, symmetric: true}",
     lambda y, t: chosen(y[:, 0], y[:, 1], 0.5, True)),
]  # fmt: skip
_PARTS = "\n".join([
    "dense: {name: $y, inputs: $x, units: 4}", "split: {inputs: $y, into: [$y_d, $y_e, $y_f]}",
    *(f"flatten: {{name: $y_{a}, inputs: $y_{b}}}" for a, b in ("ad", "be", "cf")),
])  # fmt: skip

_LOGITS, _PAIR = "{logits: $y, target: $t", "{prediction: $y, target: $t"
_KINDS: list[tuple[str, Any, Any]] = [
    (f"softmax_cross_entropy: {_LOGITS}}}", entropy, whole(4)),
    (f"softmax_cross_entropy: {_LOGITS}, smoothing: 0.3}}", lambda y, t: entropy(y, t, 0.3), whole(4)),
    (f"softmax_cross_entropy: {_LOGITS}, class_weights: [1, 0.5, 2, 0]}}", weighed, whole(4)),
    (f"softmax_cross_entropy: {_LOGITS}, class_weights: [1, 0.5, 2, 0], smoothing: 0.3}}",
     lambda y, t: weighed(y, t, 0.3), whole(4)),
    (f"softmax_cross_entropy: {_LOGITS}, class_weights: [1, 0.5, 2, 0], mean: weights}}", by_weight, whole(4)),
    (f"softmax_cross_entropy: {_LOGITS}, class_weights: [1, 0.5, 2, 0], mean: weights, smoothing: 0.3}}",
     lambda y, t: by_weight(y, t, 0.3), whole(4)),
    (f"binary_cross_entropy: {_LOGITS}}}", functional.binary_cross_entropy_with_logits, chances),
    (f"binary_cross_entropy: {_LOGITS}, smoothing: 0.2}}", smooth_binary, chances),
    (f"binary_cross_entropy: {_LOGITS}, class_weights: [1, 3]}}", lambda y, t: weighed_binary(y, t, 3.0), chances),
    (f"binary_cross_entropy: {_LOGITS}, class_weights: [0.5, 2], smoothing: 0.2}}",
     lambda y, t: 0.5 * weighed_binary(y, 0.8 * t + 0.1, 4.0), chances),
    (f"mean_squared_error: {_PAIR}}}", functional.mse_loss, normal),
    (f"mean_absolute_error: {_PAIR}}}", functional.l1_loss, normal),
    (f"huber: {_PAIR}}}", functional.huber_loss, normal),
    (f"huber: {_PAIR}, delta: 0.3}}", lambda y, t: functional.huber_loss(y, t, delta=0.3), normal),
    (f"smooth_l1: {_PAIR}}}", functional.smooth_l1_loss, normal),
    (f"smooth_l1: {_PAIR}, beta: 0.3}}", lambda y, t: functional.smooth_l1_loss(y, t, beta=0.3), normal),
    (f"poisson: {_PAIR}}}", functional.poisson_nll_loss, chances),
    (f"hinge: {_PAIR}}}", lambda y, t: functional.relu(1 - y * t).mean(), signs),
    (f"cosine: {_PAIR}}}", lambda y, t: (1 - functional.cosine_similarity(y, t, -1)).mean(), normal),
    ("expression: {value: ($y - $t) ** 2 * (2 if $t > $y else 1)}",
     lambda y, t: ((y - t) ** 2 * torch.where(t > y, 2.0, 1.0)).mean(), normal),
]  # fmt: skip


def losses() -> Iterator[Head]:
    """Over a list of four scores, and over three steps of four."""
    for shape in ((4,), (3, 4)):
        for text, apply, targets in _KINDS:
            own = OwnLoss(text, apply, targets)
            yield Head(f"{text} of {list(shape)}", "dense: {name: $y, inputs: $x, units: 4}", shape,
                       lambda w, x: dense(w, "y", x), loss=own)  # fmt: skip
        double = "smooth_l1: {prediction: $y, target: $y_t}"
        twice = OwnLoss(double, lambda y, t: functional.smooth_l1_loss(y, 2 * y), normal)
        yield Head(f"a layer as the target, {list(shape)}", "dense: {name: $y, inputs: $x, units: 3}\n"
                   "map: {$y_t: 2 * $y}", shape, lambda w, x: dense(w, "y", x), loss=twice)  # fmt: skip
        yield Head(f"kl_divergence of {list(shape)}", "log_softmax: {name: $y, inputs: $x}", shape,
                   lambda w, x: torch.log_softmax(x, -1),
                   loss=OwnLoss(f"kl_divergence: {_PAIR}}}", kl, chances))  # fmt: skip
    for text, apply in _PLACES:
        own = OwnLoss(text, apply, lambda rng, shape: signs(rng, shape[:1]))
        yield Head(text, _PARTS, (3, 4), lambda w, x: dense(w, "y", x), loss=own)
    labels = OwnLoss(f"ctc: {_LOGITS}}}", transcribed, lambda rng, shape: rng.integers(1, 4, (shape[0], 3)))
    yield Head("ctc", "dense: {name: $y, inputs: $x, units: 4}", (7, 4), lambda w, x: dense(w, "y", x), loss=labels)


# ------------------------------------------------------------------------------------------ groups

_CONV1D = {"stride": [1, 3], "padding": ["valid", "same", (2, 1)], "dilation": [1, 2]}
_CONV2D = {"stride": [1, (2, 1)], "padding": ["valid", "same", 1, (0, 2, 1, 0)], "dilation": [1, (2, 1)]}
_CONV3D = {
    "stride": [1, (1, 2, 1), (2, 1, 3)],
    "padding": ["valid", "same", (1, 0, 1), (0, 2, 1, 1, 2, 0)],
    "dilation": [1, 2, (1, 2, 1)],
}
_TURNED = {"stride": [1, 2, 3], "padding": [0, 1], "output_padding": [0, 1], "dilation": [1, 2]}

GROUPS: Mapping[str, list[Head]] = MappingProxyType({
    **{f"conv1d_{k}": convs(1, (11,), kernel=[k], **_CONV1D) for k in (1, 2, 4)},
    **{f"conv2d_{n}": convs(2, (7, 6), kernel=[k], **_CONV2D) for n, k in (("1", 1), ("3", 3), ("2x3", (2, 3)))},
    **{f"conv3d_{n}": convs(3, (5, 5, 4), kernel=[k], **_CONV3D)
       for n, k in (("2", 2), ("1x3x2", (1, 3, 2)), ("3x1x1", (3, 1, 1)))},
    "transpose1d": transposes(1, (5,), kernel=[2, 3], **{**_TURNED, "padding": [0, 1, (1, 0)]}),
    **{f"transpose2d_{n}": transposes(2, (4, 3), kernel=[k], **{**_TURNED, "padding": [0, 1, (1, 0, 0, 1)]})
       for n, k in (("3", 3), ("4x2", (4, 2)))},
    **{f"transpose3d_{n}": transposes(3, (3, 3, 4), kernel=[k], **{**_TURNED, "padding": [0, 1, (1, 0, 0, 1, 0, 1)]})
       for n, k in (("2", 2), ("3x1x2", (3, 1, 2)))},
    **{f"{kind}_pool{rank}d": list(pools(f"{kind}_pool{rank}d", (3, 8, 7, 5)[: rank + 1], **POOLING[rank],
                                         **(COUNTED if kind == "avg" else {})))
       for kind in ("max", "avg") for rank in (1, 2, 3)},
    "shapes": SHAPES,
    "dense": list(denses()),
    "norms": NORMS,
    "elementwise": ELEMENTWISE,
    "movement": MOVEMENT,
    "sequences": SEQUENCES,
    **{kind: list(recurrences(kind)) for kind in ("rnn", "gru", "lstm")},
    "gru_before": list(recurrences("gru", True)),
    "products": PRODUCTS,
    "borders": list(borders()),
    "losses": list(losses()),
})  # fmt: skip

SLICE = [GROUPS[name][-5] for name in ("conv2d_2x3", "transpose2d_3", "avg_pool2d", "norms", "losses")]
"""One of several groups."""
