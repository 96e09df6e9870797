"""Attention over the steps of a sequence.

Assumes: inputs of (batch, steps, features).
Guarantees: masked scores are HIDDEN; a fully masked step gives zeros.
Does not: cache keys and values between calls.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Field, ListOf, OneOf, Value, required, switch
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import identity
from compiler.ir.space import along
from compiler.layers.norm import softmax
from compiler.layers.shared.context import HIDDEN, PRODUCT, X0, X1, Context, flag, linear, number, reshape, whole
from compiler.layers.shared.initial import INIT
from compiler.layers.shared.keys import BIAS, LAYER_REFERENCE, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, always, article, shown
from compiler.layers.shared.onnx.graph import BOOL, Writer

_KV_HEADS = Field(
    "kv_heads",
    POSITIVE,
    "The number of heads of keys and values, a divisor of `heads`: neighbours share one. Without it, `heads`.",
    example="kv_heads: 2",
)
_HEADS_SHARE = "Its shape is [keys], [steps, keys], or [heads, steps, keys]."
_SEEN = (
    switch("causal", "Whether a step sees none after it."),
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
    **dict.fromkeys(("num_kv_heads", "num_key_value_heads", "enable_gqa"), "`kv_heads`"),
}

# -------------------------------------------------------------------------------------------- shapes


def _parts(p: Place, shapes: tuple[Shape, ...]) -> tuple[tuple[Shape, Shape, Shape], dict[str, l0.Attr]]:
    """Query, key and value, and the attributes common to both kinds; `kv_heads` only where they are fewer. Raises
    Misfit."""
    heads, kv_heads = _heads(p)
    beside = [key for key in l0.BESIDE if key in p.values]
    ins = shapes[: len(shapes) - len(beside)]
    for s in ins:
        if len(s) != 2:
            message = f"layer reads steps and features; one of its inputs has the shape {shown(s)}"
            raise Misfit(f"{article(p.kind)} {p.kind} {message}")
    if len(ins) == 2:
        message = "layer reads one input, or three: query, key and value"
        help = "a layer that is both key and value is named twice: `[query, memory, memory]`"
        raise Misfit(f"{article(p.kind)} {p.kind} {message}", help, "inputs")
    query, key, value = ins if len(ins) == 3 else ins * 3
    if key[0] != value[0]:
        raise Misfit(f"key and value have different steps: {shown(key)} and {shown(value)}", None, "inputs")
    for name, given in zip(beside, shapes[len(ins) :], strict=True):
        fits = (heads, query[0], key[0])
        if not given or given != fits[3 - len(given) :]:
            wanted = " or ".join(shown(fits[k:]) for k in (2, 1, 0))
            raise Misfit(f"the shape of a {name} is {wanted} here, not {shown(given)}", None, name)
    return (query, key, value), (
        p.attrs("heads", "causal")
        | {name: True for name in beside}
        | ({"kv_heads": kv_heads} if kv_heads < heads else {})
    )


def _heads(p: Place) -> tuple[int, int]:
    """Of queries, and of keys and values. Raises Misfit."""
    heads = p.integer("heads")
    kv_heads = p.integer("kv_heads", heads)
    if heads % kv_heads:
        raise Misfit(f"{heads} heads cannot share {kv_heads} heads of keys and values", None, "kv_heads")
    return heads, kv_heads


def _split(size: int, heads: int, key: str) -> None:
    if size % heads:
        raise Misfit(f"{size} features cannot be split among {heads} heads", None, key)


def _projected(p: Place, *shapes: Shape) -> Result:
    (query, _, _), attrs = _parts(p, shapes)
    size = p.integer("size", query[1])
    _split(size, p.integer("heads"), "size" if "size" in p.values else "heads")
    return query, {**attrs, "size": size, **p.attrs("bias")}


def _plain(p: Place, *shapes: Shape) -> Result:
    (query, key, value), attrs = _parts(p, shapes)
    heads, kv_heads = _heads(p)
    if kv_heads == heads and query[1] != key[1]:
        raise Misfit(f"query and key have different features: {shown(query)} and {shown(key)}", None, "inputs")
    _split(query[1], heads, "heads")
    d = query[1] // heads
    if key[1] != kv_heads * d:
        message = f"queries have {heads} heads of {d} features, so keys have {kv_heads} of {d}, not {key[1]} in all"
        raise Misfit(message, None, "inputs")
    _split(value[1], kv_heads, "kv_heads" if kv_heads < heads else "heads")
    return (query[0], value[1] // kv_heads * heads), {**attrs, "scale": p.real("scale", 1 / math.sqrt(d))}


# ------------------------------------------------------------------------------------------ lowering


def attention(c: Context, layer: l0.Layer, *ins: l1.Tensor) -> l1.Tensor:
    """Multi-head attention (Vaswani et al. 2017, section 3.2): self-attention of one input, or of query, key and
    value."""
    parts, beside = _attended(layer, list(ins))
    size = whole(layer, "size")
    heads = whole(layer, "heads")
    sizes = [size // heads * count for count in _counts(layer)]
    projected = [linear(c, layer, x, n, part) for part, x, n in zip(_PARTS, parts, sizes, strict=True)]
    scale = 1.0 / math.sqrt(size // heads)
    return linear(c, layer, _dot_attention(c, layer, projected, beside, scale), layer.shape[-1], "out")


def dot_attention(c: Context, layer: l0.Layer, *ins: l1.Tensor) -> l1.Tensor:
    """The same without projections: each head has a slice of the features."""
    parts, beside = _attended(layer, list(ins))
    return _dot_attention(c, layer, parts, beside, number(layer, "scale"))


_PARTS = ("query", "key", "value")


def _counts(layer: l0.Layer) -> tuple[int, int, int]:
    """The heads of queries, keys and values."""
    attrs = dict(layer.attrs)
    heads = attrs["heads"]
    shared = attrs.get("kv_heads", heads)
    assert isinstance(heads, int) and isinstance(shared, int)
    return heads, shared, shared


def _each_head(c: Context, layer: l0.Layer, x: l1.Tensor, part: str) -> l1.Tensor:
    """(batch, steps, kv heads, d) as (batch, steps, heads, d): neighbouring heads have the same."""
    batch, steps, shared, d = x.shape
    heads = whole(layer, "heads")
    if shared == heads:
        return x
    name = f"{layer.name}.{part}.shared"
    like = l1.Tensor("", (batch, steps, shared, heads // shared, d), x.dtype, x.batched)
    y = c.graph.map(name, X0, ((x, (0, 1, 2, 4)),), like=like, span=layer.span)
    return reshape(c, f"{layer.name}.{part}.each", y, (batch, steps, heads, d), layer)


def _attended(layer: l0.Layer, ins: list[l1.Tensor]) -> tuple[list[l1.Tensor], dict[str, l1.Tensor]]:
    """Query, key and value, and the optional operands."""
    names = [name for name in l0.BESIDE if flag(layer, name)]
    count = len(ins) - len(names)
    parts = ins[:count]
    return parts if count == 3 else parts * 3, dict(zip(names, ins[count:], strict=True))


def _dot_attention(
    c: Context, layer: l0.Layer, parts: list[l1.Tensor], beside: dict[str, l1.Tensor], scale: float
) -> l1.Tensor:
    """softmax(q k^T * scale + offset) v over tensors of (batch, steps, heads * d)."""
    name, span, heads = layer.name, layer.span, whole(layer, "heads")
    split = [
        reshape(c, f"{name}.{part}.heads", x, (*x.shape[:2], count, x.shape[2] // count), layer)
        for part, x, count in zip(_PARTS, parts, _counts(layer), strict=True)
    ]
    q, k, v = (_each_head(c, layer, x, part) for x, part in zip(split, _PARTS, strict=True))
    joined = (*q.shape[:2], heads * v.shape[3])
    names = tuple(key for key in ("offset", "mask") if key in beside)
    ins = (q.name, k.name, v.name, *(beside[key].name for key in names))
    out = l1.Tensor(f"{name}.context", (*q.shape[:3], v.shape[3]), "real", True)
    node = l1.Attention(out, ins, "context", scale, 0, flag(layer, "causal"), names, span)
    if factors := c.attention(layer.name, node):
        return reshape(c, f"{name}.joined", c.graph.add(replace(node, factors=factors)), joined, layer)
    batch, steps, _, d = q.shape
    others = k.shape[1]
    n, h, t, s, e = (along(x) for x in ("n", "h", "t", "s", "e"))
    extents = (("n", batch), ("h", heads), ("t", steps), ("s", others))
    scores = c.graph.contract(
        f"{name}.scores", (*extents, ("e", d)), (n, h, t, s), ((q, (n, t, h, e)), (k, (n, s, h, e))), PRODUCT, span=span
    )
    scores = _scaled(c, layer, scores, beside, scale)
    p = softmax(c, layer, scores, f"{name}.softmax")
    if "mask" in beside:  # a fully masked step
        none = Cond(X1 <= Num(HIDDEN / 2), Num(0.0), X0)
        p = c.graph.map(f"{name}.seen", none, (identity(p), identity(scores)), span=span)
    features = v.shape[3]
    y = c.graph.contract(
        f"{name}.context",
        (("n", batch), ("t", steps), ("h", heads), ("e", features), ("s", others)),
        (n, t, h, e),
        ((p, (n, h, t, s)), (v, (n, s, h, e))),
        PRODUCT,
        span=span,
    )
    return reshape(c, f"{name}.joined", y, joined, layer)


def _scaled(c: Context, layer: l0.Layer, scores: l1.Tensor, beside: dict[str, l1.Tensor], scale: float) -> l1.Tensor:
    """Scores of (batch, heads, steps, keys), scaled, with offset; masked last."""
    body: Expr = X0 * Ref("scale")
    operands = [identity(scores)]
    for key in (key for key in ("offset", "mask") if key in beside):
        own = Ref(f"x{len(operands)}")
        body = body + own if key == "offset" else Cond(own.ne(0.0), body, Num(HIDDEN))
        operands.append((beside[key], (0, *range(5 - len(beside[key].shape), 4))))
    name, scalars = f"{layer.name}.scaled", (("scale", scale),)
    if not flag(layer, "causal"):
        return c.graph.map(name, body, operands, scalars=scalars, span=layer.span)
    dims = tuple(zip(("n", "h", "t", "s"), scores.shape, strict=True))
    axes = tuple(along(d) for d, _ in dims)
    body = Cond(Ref("s") <= Ref("t"), body, Num(HIDDEN))
    reads = [(x, tuple(axes[a] for a in read if a is not None)) for x, read in operands]
    return c.graph.contract(name, dims, axes, reads, body, scalars=scalars, span=layer.span)


# ---------------------------------------------------------------------------------------------- ONNX


def _write_attention(w: Writer, layer: l0.Layer) -> str:
    ways = _which(layer)
    parts = [w.linear(layer, w.source(layer, k), 2, part) for k, part in zip(ways, _PARTS, strict=True)]
    size = layer.attr("size")
    assert isinstance(size, int)
    d = size // _counts(layer)[0]
    return w.linear(layer, _dot_product(w, layer, parts, [d * count for count in _counts(layer)]), 2, "out")


def _write_dot(w: Writer, layer: l0.Layer) -> str:
    ways = _which(layer)
    return _dot_product(w, layer, [w.source(layer, k) for k in ways], [w.shape(layer, k)[1] for k in ways])


def _which(layer: l0.Layer) -> list[int]:
    """The inputs that are query, key and value."""
    return [0, 1, 2] if len(layer.inputs) > 2 + len(_beside(layer)) else [0] * 3


def _beside(layer: l0.Layer) -> list[str]:
    return [key for key in l0.BESIDE if dict(layer.attrs).get(key)]


def _dot_product(w: Writer, layer: l0.Layer, parts: list[str], sizes: list[int]) -> str:
    """softmax(q k * scale + offset) v. `sizes`: features of the parts."""
    g, counts, ways = w.graph, _counts(layer), _which(layer)
    heads = counts[0]
    steps, others = (w.shape(layer, k)[0] for k in ways[:2])
    turned = []
    for part, x, k, size, count in zip(_PARTS, parts, ways, sizes, counts, strict=True):
        rows, d = w.shape(layer, k)[0], size // count
        y = g.reshape(x, (rows, count, d) if count == heads else (rows, count, 1, d), f"{layer.name}/{part}/heads")
        if count < heads:
            times = g.constant([1, 1, 1, heads // count, 1], True)
            y = g.node("Expand", [y, times], f"{layer.name}/{part}/shared")
            y = g.reshape(y, (rows, heads, d), f"{layer.name}/{part}/each")
        axes = [0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]
        turned.append(g.node("Transpose", [y], f"{layer.name}/{part}/turned", {"perm": axes}))
    scores = g.node("MatMul", turned[:2], f"{layer.name}/scores")
    scale = dict(layer.attrs).get("scale", 1.0 / math.sqrt(sizes[0] // heads))
    assert isinstance(scale, int | float)
    scores = g.node("Mul", [scores, g.constant(float(scale))], f"{layer.name}/scaled")
    beside = _beside(layer)
    read: dict[str, str] = {}
    for k, key in enumerate(beside, len(layer.inputs) - len(beside)):
        shape = w.shape(layer, k)
        if key == "mask":
            x = g.node("Cast", [w.source(layer, k)], f"{layer.name}/seen", {"to": BOOL})
        else:
            x = w.real(layer, k)
        read[key] = g.reshape(x, (*(1 for _ in range(3 - len(shape))), *shape), f"{layer.name}/{key}")
    if "offset" in read:
        scores = g.node("Add", [scores, read["offset"]], f"{layer.name}/moved")
    late = np.arange(others)[None, :] > np.arange(steps)[:, None]
    if layer.attr("causal"):
        scores = g.node("Add", [scores, g.constant(np.where(late, HIDDEN, 0.0))], f"{layer.name}/masked")
    if "mask" in read:
        scores = g.node("Where", [read["mask"], scores, g.constant(HIDDEN)], f"{layer.name}/hidden")
    p = g.node("Softmax", [scores], f"{layer.name}/softmax", {"axis": -1})
    if "mask" in read:  # zeros for fully masked steps
        seen = g.node("Cast", [read["mask"]], f"{layer.name}/ones", {"to": g.real})
        p = g.node("Mul", [p, seen], f"{layer.name}/kept")
        if layer.attr("causal"):
            p = g.node("Mul", [p, g.constant(np.where(late, 0.0, 1.0))], f"{layer.name}/early")
    y = g.node("MatMul", [p, turned[2]], f"{layer.name}/context")
    y = g.node("Transpose", [y], f"{layer.name}/joined", {"perm": [0, 2, 1, 3]})
    return g.reshape(y, (steps, sizes[2] // counts[2] * heads), f"{layer.name}/flat")


ATTENTION = LayerKind(
    layer(
        "attention",
        "Multi-head attention over the steps of a sequence, with trained projections.",
        required("heads", POSITIVE, "The number of heads.", example="heads: 4"),
        _KV_HEADS,
        Field(
            "size",
            POSITIVE,
            "The length of queries, keys (but for `kv_heads`) and values, all heads together; without it, the input's.",
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
        trained=True,
    ),
    _projected,
    attention,
    _write_attention,
    trained=always,
    matrices=True,
)
DOT_ATTENTION = LayerKind(
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
        _KV_HEADS,
        Field(
            "scale",
            Value("a number", "0.125"),
            "The factor of the products; without it, 1 / sqrt(features of a query in a head).",
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
    _plain,
    dot_attention,
    _write_dot,
)
