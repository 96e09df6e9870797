"""lower_sequences: attention and recurrent layers over inputs of (batch, steps, features).

Assumes: steps are the first axis of a sample.
Guarantees: recurrent layers are unrolled into rows of a few kernels: the text is that of one step, whatever their
number; a sequence is taken apart and put together by halves, so that its gradient costs a logarithm of passes.
Does not: skip steps.
"""

from __future__ import annotations

import math

from compiler.expr.ast import Binary, Cond, Expr, Num, Ref
from compiler.ir.graph import Contract, Tensor
from compiler.ir.model import Layer
from compiler.ir.space import along
from compiler.passes.graph_builder import identity
from compiler.passes.layer_context import (
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
    reshape,
    weight,
    whole,
)
from compiler.passes.lower_norms import softmax
from compiler.passes.lower_shapes import joined, sliced


def attention(c: Context, layer: Layer, ins: list[Tensor]) -> Tensor:
    """Multi-head attention (Vaswani et al. 2017, section 3.2): of one input to itself, or query, key and value."""
    query, key, value = ins if len(ins) == 3 else (ins[0],) * 3
    size, heads = whole(layer, "size"), whole(layer, "heads")
    projected = []
    for part, x in (("query", query), ("key", key), ("value", value)):
        y = linear(c, layer, x, size, part)
        shape = (y.shape[0], y.shape[1], heads, size // heads)
        projected.append(reshape(c, f"{layer.name}.{part}.heads", y, shape, layer))
    y = dot_attention(c, layer, projected[0], projected[1], projected[2])
    y = reshape(c, f"{layer.name}.joined", y, (y.shape[0], y.shape[1], size), layer)
    return linear(c, layer, y, layer.shape[-1], "out")


def dot_attention(c: Context, layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(d)) v over tensors of (batch, steps, heads, d). `causal`: a step sees none after it."""
    batch, steps, heads, d = q.shape
    others = k.shape[1]
    name, span = layer.name, layer.span
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
    scaled: Expr = mul(X0, Ref("scale"))
    scale = (("scale", 1.0 / math.sqrt(d)),)
    if flag(layer, "causal"):
        body = Cond(Binary("<=", Ref("s"), Ref("t")), scaled, Num(-1.0e30))
        kept = Tensor(f"{name}.scaled", scores.shape, "real", True)
        order = (n, h, t, s)
        scores = c.graph.add(Contract(kept, extents, order, (scores.name,), (order,), body, scalars=scale, span=span))
    else:
        scores = c.graph.map(f"{name}.scaled", scaled, (identity(scores),), scalars=scale, span=span)
    p = softmax(c, layer, scores, f"{name}.softmax")
    return c.graph.add(
        Contract(
            Tensor(f"{name}.context", (batch, steps, heads, v.shape[3]), "real", True),
            (("n", batch), ("t", steps), ("h", heads), ("e", v.shape[3]), ("s", others)),
            (n, t, h, e),
            (p.name, v.name),
            ((n, h, t, s), (n, s, h, e)),
            PRODUCT,
            span=span,
        )
    )


# ----------------------------------------------------------------------------------------- recurrent


def recurrent(c: Context, layer: Layer, x: Tensor) -> Tensor:
    """rnn (Elman 1990), gru (Cho et al. 2014, with the candidate's reset after its product as in PyTorch) or lstm
    (Hochreiter & Schmidhuber 1997, with forget gates): the last state, or all of them."""
    ways = [_one_way(c, layer, x, "", False)]
    if flag(layer, "bidirectional"):
        ways.append(_one_way(c, layer, x, "backward.", True))
    return joined(c, f"{layer.name}.ways", ways, len(ways[0].shape) - 1, layer)


GATES = {"rnn": ("state",), "gru": ("reset", "update", "candidate"), "lstm": ("input", "forget", "cell", "output")}


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
    carried = [_carried(c, layer, f"{name}.{gate}.carried", f"{way}{gate}", h) for gate in gates]
    both = add(X0, X1)

    def gate(k: int, func: str) -> Tensor:
        label = f"{name}.{gates[k]}"
        return g.map(label, call(func, both), (identity(carried[k]), identity(given[k])), span=span)

    if layer.kind == "rnn":
        function = layer.attr("function")
        assert isinstance(function, str)
        return gate(0, function), memory
    if layer.kind == "gru":
        reset, update = gate(0, "sigmoid"), gate(1, "sigmoid")
        inner = carried[2]
        if layer.attr("bias"):
            bias = weight(c, f"{layer.name}.{way}candidate.recurrent_bias", (h.shape[1],), "zeros", (), layer)
            inner = g.map(f"{name}.candidate.biased", both, (identity(inner), (bias, (1,))), span=span)
        body = call("tanh", add(X0, mul(X1, X2)))
        operands = (identity(given[2]), identity(reset), identity(inner))
        candidate = g.map(f"{name}.candidate", body, operands, span=span)
        mixed = add(mul(Binary("-", Num(1.0), X0), X1), mul(X0, X2))
        return g.map(f"{name}.h", mixed, (identity(update), identity(candidate), identity(h)), span=span), memory
    enter, forget, cell, out = gate(0, "sigmoid"), gate(1, "sigmoid"), gate(2, "tanh"), gate(3, "sigmoid")
    kept = add(mul(X0, X1), mul(X2, X3))
    operands_4 = (identity(forget), identity(memory), identity(enter), identity(cell))
    memory = g.map(f"{name}.memory", kept, operands_4, span=span)
    body = mul(X0, call("tanh", X1))
    return g.map(f"{name}.h", body, (identity(out), identity(memory)), span=span), memory
