"""lower_sequences: attention and recurrent layers over inputs of (batch, steps, features).

Assumes: steps are the first axis of a sample.
Guarantees: recurrent layers are unrolled into rows of a few kernels: the text is that of one step, whatever their
number; a sequence is taken apart and put together by halves, so that its gradient costs a logarithm of passes.
Does not: skip steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.ast import Binary, Cond, Expr, Num, Ref
from compiler.ir.level0.model import BESIDE, Layer
from compiler.ir.level1.builder import identity
from compiler.ir.level1.graph import Contract, Tensor
from compiler.ir.space import along
from compiler.layers.norm import softmax
from compiler.layers.shape import joined, sliced
from compiler.layers.shared.context import (
    HIDDEN,
    PRODUCT,
    X0,
    X1,
    X2,
    X3,
    Context,
    add,
    call,
    flag,
    glorot,
    linear,
    mul,
    number,
    reshape,
    weight,
    whole,
)


def attention(c: Context, layer: Layer, ins: list[Tensor]) -> Tensor:
    """Multi-head attention (Vaswani et al. 2017, section 3.2): of one input to itself, or query, key and value."""
    parts, beside = _attended(layer, ins)
    size = whole(layer, "size")
    projected = [linear(c, layer, x, size, part) for part, x in zip(("query", "key", "value"), parts, strict=True)]
    scale = 1.0 / math.sqrt(size // whole(layer, "heads"))
    return linear(c, layer, _dot_attention(c, layer, projected, beside, scale), layer.shape[-1], "out")


def dot_attention(c: Context, layer: Layer, ins: list[Tensor]) -> Tensor:
    """The same without projections: each head has a part of the features."""
    parts, beside = _attended(layer, ins)
    return _dot_attention(c, layer, parts, beside, number(layer, "scale"))


def _attended(layer: Layer, ins: list[Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Query, key and value, and what there is besides."""
    names = [name for name in BESIDE if flag(layer, name)]
    count = len(ins) - len(names)
    parts = ins[:count]
    return parts if count == 3 else parts * 3, dict(zip(names, ins[count:], strict=True))


def _dot_attention(c: Context, layer: Layer, parts: list[Tensor], beside: dict[str, Tensor], scale: float) -> Tensor:
    """softmax(q k^T * scale + offset) v over tensors of (batch, steps, heads * d)."""
    name, span, heads = layer.name, layer.span, whole(layer, "heads")
    q, k, v = (
        reshape(c, f"{name}.{part}.heads", x, (*x.shape[:2], heads, x.shape[2] // heads), layer)
        for part, x in zip(("query", "key", "value"), parts, strict=True)
    )
    batch, steps, _, d = q.shape
    others = k.shape[1]
    n, h, t, s, e = (along(x) for x in ("n", "h", "t", "s", "e"))
    extents = (("n", batch), ("h", heads), ("t", steps), ("s", others))
    scores = c.graph.add(
        Contract(
            Tensor(f"{name}.scores", (batch, heads, steps, others), "real", True),
            (*extents, ("e", d)),
            (n, h, t, s),
            (q.name, k.name),
            ((n, t, h, e), (n, s, h, e)),
            PRODUCT,
            span=span,
        )
    )
    scores = _scaled(c, layer, scores, beside, scale)
    p = softmax(c, layer, scores, f"{name}.softmax")
    if "mask" in beside:  # a step that sees nothing
        none = Cond(Binary("<=", X1, Num(HIDDEN / 2)), Num(0.0), X0)
        p = c.graph.map(f"{name}.seen", none, (identity(p), identity(scores)), span=span)
    features = v.shape[3]
    y = c.graph.add(
        Contract(
            Tensor(f"{name}.context", (batch, steps, heads, features), "real", True),
            (("n", batch), ("t", steps), ("h", heads), ("e", features), ("s", others)),
            (n, t, h, e),
            (p.name, v.name),
            ((n, h, t, s), (n, s, h, e)),
            PRODUCT,
            span=span,
        )
    )
    return reshape(c, f"{name}.joined", y, (batch, steps, heads * features), layer)


def _scaled(c: Context, layer: Layer, scores: Tensor, beside: dict[str, Tensor], scale: float) -> Tensor:
    """Scores of (batch, heads, steps, keys), scaled and moved; what is not seen is hidden last."""
    body: Expr = mul(X0, Ref("scale"))
    operands = [identity(scores)]
    for key in (key for key in ("offset", "mask") if key in beside):
        own = Ref(f"x{len(operands)}")
        body = add(body, own) if key == "offset" else Cond(Binary("!=", own, Num(0.0)), body, Num(HIDDEN))
        operands.append((beside[key], (0, *range(5 - len(beside[key].shape), 4))))
    name, scalars = f"{layer.name}.scaled", (("scale", scale),)
    if not flag(layer, "causal"):
        return c.graph.map(name, body, operands, scalars=scalars, span=layer.span)
    dims = tuple(zip(("n", "h", "t", "s"), scores.shape, strict=True))
    axes = tuple(along(d) for d, _ in dims)
    body = Cond(Binary("<=", Ref("s"), Ref("t")), body, Num(HIDDEN))
    return c.graph.add(
        Contract(
            Tensor(name, scores.shape, "real", True),
            dims,
            axes,
            tuple(x.name for x, _ in operands),
            tuple(tuple(axes[a] for a in read if a is not None) for _, read in operands),
            body,
            scalars=scalars,
            span=layer.span,
        )
    )


# ----------------------------------------------------------------------------------------- recurrent


def recurrent(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """rnn (Elman 1990), gru (Cho et al. 2014, with the reset before the candidate's product, or after it as in PyTorch)
    or lstm (Hochreiter & Schmidhuber 1997, with forget gates): the last state, or all of them."""
    ways = [_one_way(c, layer, x, "", False)]
    if flag(layer, "bidirectional"):
        ways.append(_one_way(c, layer, x, "backward.", True))
    return joined(c, f"{layer.name}.ways", ways, len(ways[0].shape) - 1, layer)


GATES = {"rnn": ("state",), "gru": ("reset", "update", "candidate"), "lstm": ("input", "forget", "cell", "output")}


ONNX_GATES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "rnn": ("state",),
        "gru": ("update", "reset", "candidate"),
        "lstm": ("input", "output", "forget", "cell"),
    }
)
"""The gates of recurrent layers in ONNX's order."""


def _one_way(c: Context, layer: Layer, x: Tensor, way: str, backward: bool) -> Tensor:
    units, steps = whole(layer, "units"), x.shape[1]
    per_gate = []
    for gate in GATES[layer.kind]:
        y = linear(c, layer, x, units, f"{way}{gate}")
        per_gate.append(_apart(c, f"{layer.name}.{way}{gate}", y, layer))
    start = Tensor("", (x.shape[0], units), "real", True)
    zero = c.graph.map(f"{layer.name}.{way}start", Num(0.0), (), like=start, span=layer.span)
    h, memory = zero, zero
    states: list[Tensor] = []
    order = range(steps - 1, -1, -1) if backward else range(steps)
    for t in order:
        h, memory = _step(c, layer, f"{layer.name}.{way}at_{t}", way, [gate[t] for gate in per_gate], h, memory)
        states.append(h)
    if not flag(layer, "sequence"):
        return h
    if backward:
        states.reverse()
    single = [reshape(c, f"{s.name}.step", s, (s.shape[0], 1, units), layer) for s in states]
    return _together(c, f"{layer.name}.{way}all", single, layer)


def _apart(c: Context, name: str, x: Tensor, layer: Layer, path: str = "") -> list[Tensor]:
    """The steps of a sequence, by halves: (batch, features) each. Names end in `part_` and the way to the half, which
    labels of kernels leave out (tensor_phase.py)."""
    steps = x.shape[1]
    label = f"{name}.part_{path}"
    if steps == 1:
        return [reshape(c, f"{label}.step", x, (x.shape[0], x.shape[2]), layer)]
    half = steps // 2
    first = sliced(c, f"{label}l", x, 1, 0, half, layer)
    second = sliced(c, f"{label}r", x, 1, half, steps, layer)
    return [*_apart(c, name, first, layer, path + "l"), *_apart(c, name, second, layer, path + "r")]


def _together(c: Context, name: str, parts: list[Tensor], layer: Layer, path: str = "") -> Tensor:
    """The reverse of `_apart`."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    ends = [
        _together(c, name, parts[:half], layer, path + "l"),
        _together(c, name, parts[half:], layer, path + "r"),
    ]
    return joined(c, f"{name}.part_{path}", ends, 1, layer)


def _carried(c: Context, layer: Layer, name: str, part: str, h: Tensor) -> Tensor:
    """The product of the state before with the trained array of a gate."""
    units = h.shape[1]
    w = weight(c, f"{layer.name}.{part}.recurrent", (units, units), "uniform", glorot(units, units), layer)
    return c.graph.add(
        Contract(
            Tensor(name, h.shape, "real", True),
            (("n", h.shape[0]), ("o", units), ("k", units)),
            (along("n"), along("o")),
            (h.name, w.name),
            ((along("n"), along("k")), (along("o"), along("k"))),
            PRODUCT,
            span=layer.span,
        )
    )


def _step(
    c: Context, layer: Layer, name: str, way: str, given: list[Tensor], h: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """State and memory after one step. `given`: what the step's input adds to each gate."""
    g, span = c.graph, layer.span
    gates = GATES[layer.kind]
    reset_first = layer.kind == "gru" and layer.attr("reset") == "before"
    both = add(X0, X1)

    def product(k: int, state: Tensor) -> Tensor:
        return _carried(c, layer, f"{name}.{gates[k]}.carried", f"{way}{gates[k]}", state)

    carried = [product(k, h) for k in range(len(gates) - reset_first)]

    def gate(k: int, func: str) -> Tensor:
        label = f"{name}.{gates[k]}"
        return g.map(label, call(func, both), (identity(carried[k]), identity(given[k])), span=span)

    if layer.kind == "rnn":
        function = layer.attr("function")
        assert isinstance(function, str)
        return gate(0, function), memory
    if layer.kind == "gru":
        reset, update = gate(0, "sigmoid"), gate(1, "sigmoid")
        if reset_first:
            carried.append(product(2, g.map(f"{name}.left", PRODUCT, (identity(reset), identity(h)), span=span)))
            candidate = gate(2, "tanh")
        else:
            candidate = _after_product(c, layer, f"{name}.candidate", way, (given[2], reset, carried[2]))
        mixed = add(mul(Binary("-", Num(1.0), X0), X1), mul(X0, X2))
        return g.map(f"{name}.h", mixed, (identity(update), identity(candidate), identity(h)), span=span), memory
    enter, forget, cell, out = gate(0, "sigmoid"), gate(1, "sigmoid"), gate(2, "tanh"), gate(3, "sigmoid")
    kept = add(mul(X0, X1), mul(X2, X3))
    operands_4 = (identity(forget), identity(memory), identity(enter), identity(cell))
    memory = g.map(f"{name}.memory", kept, operands_4, span=span)
    body = mul(X0, call("tanh", X1))
    return g.map(f"{name}.h", body, (identity(out), identity(memory)), span=span), memory


def _after_product(c: Context, layer: Layer, name: str, way: str, parts: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The candidate of a gru whose reset comes after the product. `parts`: what the input adds, the reset gate, and the
    product of the state."""
    given, reset, inner = parts
    if layer.attr("bias"):
        bias = weight(c, f"{layer.name}.{way}candidate.recurrent_bias", (inner.shape[1],), "zeros", (), layer)
        inner = c.graph.map(f"{name}.biased", add(X0, X1), (identity(inner), (bias, (1,))), span=layer.span)
    body = call("tanh", add(X0, mul(X1, X2)))
    return c.graph.map(name, body, (identity(given), identity(reset), identity(inner)), span=layer.span)
