"""Embeddings, one-hot vectors, learned arrays and positional encodings.

Assumes: inputs of (batch, ...).
Guarantees: an embedding is a Gather, whose gradient is a ScatterAdd.
Does not: mask steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Field, choice, required, switch
from compiler.expr.keys.values import POSITIVE
from compiler.ir.level1.builder import identity
from compiler.ir.space import along
from compiler.layers.shared.context import X0, X1, Context, flag, weight, whole
from compiler.layers.shared.initial import INIT, WITH_FANS
from compiler.layers.shared.keys import SHAPE, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, always, steps_and_features
from compiler.layers.shared.onnx.graph import INT64, Writer
from compiler.layers.shared.onnx.importer import Computed, Importer, refused
from compiler.layers.shared.onnx.inputs import Attrs, axis_of, constant, hint_of


def embedding(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """Row x of a trained table (count, size), drawn standard normal as in PyTorch."""
    count, size = whole(layer, "count"), whole(layer, "size")
    table = weight(c, f"{layer.name}.weight", (count, size), "normal", (1.0,), layer)
    return c.graph.gather(f"{layer.name}.y", table, x, layer.span)


EMBEDDING = LayerKind(
    layer(
        "embedding",
        "A trained row of numbers for each whole number, as of words.",
        required("count", POSITIVE, "How many numbers there are: 0 to count - 1.", example="count: 1000"),
        required("size", POSITIVE, "The length of a row.", example="size: 64"),
        elsewhere={"num_embeddings": "`count`", "embedding_dim": "`size`", "units": "`size`"},
        example="{inputs: words, count: 1000, size: 64}",
        trained=True,
    ),
    lambda p, x: ((*x, p.integer("size")), p.attrs("count", "size")),
    embedding,
    lambda w, layer: w.graph.node("Gather", [w.weight(layer, "weight"), w.source(layer)], layer.name),
    trained=always,
    integers="rows",
)


def one_hot(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """1 at index x, 0 elsewhere. A `lenient` layer counts negative indices from the end."""
    dims = (*((f"d{a}", e) for a, e in enumerate(x.shape)), ("v", whole(layer, "count")))
    axes = tuple(along(d) for d, _ in dims)
    out = l1.Tensor(f"{layer.name}.y", tuple(e for _, e in dims), "real", True)
    at: Expr = X0
    scalars: tuple[tuple[str, float], ...] = ()
    if flag(layer, "lenient"):
        at = Cond(X0 >= 0, X0, X0 + Ref("count"))
        scalars = (("count", float(whole(layer, "count"))),)
    body = Cond(Ref("v").eq(at), Num(1.0), Num(0.0))
    return c.graph.add(l1.Contract(out, dims, axes, (x.name,), (axes[:-1],), body, scalars=scalars, span=layer.span))


def _write_one_hot(w: Writer, layer: l0.Layer) -> str:
    g = w.graph
    # onnxruntime supports the operator for 64-bit integers
    x = g.node("Cast", [w.source(layer)], f"{layer.name}/places", {"to": INT64})
    ins = [x, g.constant(layer.shape[-1], True), g.constant([0.0, 1.0])]
    return g.node("OneHot", ins, layer.name)


def _read_one_hot(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x, count = ins[0], int(constant(node, ins, 1).reshape(-1)[0])
    off, on = (float(v) for v in constant(node, ins, 2))
    if not isinstance(x, Computed) or not x.whole:
        raise refused(node, "its input holds no whole numbers")
    if x.lead:
        raise refused(node, "its input has the batch as another axis than the first")
    y = m.layer("one_hot", f"{hint_of(node)}_places", [x], {"count": count, "lenient": True}, (*x.shape, count))
    at = axis_of(node, int(attrs.get("axis", -1)), y)
    y = m.permute(f"{hint_of(node)}_turned", y, [*range(at), len(x.shape), *range(at, len(x.shape))])
    return y if (off, on) == (0.0, 1.0) else m.formula(hint_of(node), f"{off!r} + {on - off!r} * {y.name}", y.shape)


ONE_HOT = LayerKind(
    layer(
        "one_hot",
        "For each whole number, as many numbers as there are classes: 1 at its own place, 0 elsewhere.",
        required("count", POSITIVE, "How many classes there are: 0 to count - 1.", example="count: 10"),
        switch(
            "lenient",
            "Whether all whole numbers are taken, as in ONNX: negative ones count from the end (-1 is the last class), "
            "those that are still outside have zeros only.",
        ),
        elsewhere={"num_classes": "`count`", "depth": "`count`", "num_tokens": "`count`"},
        example="{inputs: kind, count: 10}",
    ),
    lambda p, x: ((*x, p.integer("count")), p.attrs("count", "lenient")),
    one_hot,
    _write_one_hot,
    {"OneHot": _read_one_hot},
    integers="places",
)


def _learned_shape(p: Place) -> Result:
    shape = p.integers("shape")
    if len(shape) < 2 and p.values.get("init") in WITH_FANS:
        raise Misfit("this initialiser needs two axes or more; `normal` and others do not", None, "init")
    return shape, {}


def learned(c: Context, layer: l0.Layer) -> l1.Tensor:
    """A trained array, the same for every sample, initialized normal with standard deviation 0.02."""
    w = weight(c, f"{layer.name}.weight", layer.shape, "normal", (0.02,), layer)
    out = l1.Tensor("", (c.mask.shape[0], *layer.shape), "real", True)
    return c.graph.map(f"{layer.name}.y", X0, ((w, tuple(range(1, len(out.shape)))),), like=out, span=layer.span)


def _write_learned(w: Writer, layer: l0.Layer) -> str:
    """The array, broadcast over the batch of some input."""
    g = w.graph
    sizes = g.node("Shape", [next(iter(w.named.values()))], f"{layer.name}/batch", {"end": 1})
    shape = g.node("Concat", [sizes, g.constant(list(layer.shape), True)], f"{layer.name}/shape", {"axis": 0})
    one = g.weight(f"{layer.name}.weight", w.values(layer, "weight")[None])
    return g.node("Expand", [one, shape], layer.name)


LEARNED = LayerKind(
    layer(
        "learned",
        "Trained numbers that depend on no input, the same for every sample: queries, a token in front of a sequence, "
        "an `offset` of attention.",
        required("shape", SHAPE, "Their shape, without the batch.", example="shape: [8, 64]"),
        INIT,
        inputs=None,
        elsewhere={"size": "`shape`", "value": "`init`"},
        example="{name: token, shape: [1, 64]}",
        trained=True,
    ),
    _learned_shape,
    learned,
    _write_learned,
    trained=always,
)


def positions(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """x plus a positional encoding along its first axis: trained, or sinusoidal (Vaswani et al. 2017, section 3.5)."""
    steps, size = x.shape[1:]
    if layer.attr("encoding") == "trained":
        table = weight(c, f"{layer.name}.weight", (steps, size), "normal", (0.02,), layer)
    else:
        e = Ref("e")
        pair = e - e % 2
        slow = Call("exp", (Call("float", (pair,)) * Ref("fall"),))
        angle = Call("float", (Ref("t"),)) * slow
        wave = Cond((e % 2).eq(0), Call("sin", (angle,)), Call("cos", (angle,)))
        table = c.graph.contract(
            f"{layer.name}.table",
            (("t", steps), ("e", size)),
            (along("t"), along("e")),
            (),
            wave,
            batched=False,
            scalars=(("fall", -9.210340371976184 / size),),
            span=layer.span,
        )
    return c.graph.map(f"{layer.name}.y", X0 + X1, (identity(x), (table, (1, 2))), span=layer.span)


def _write_positions(w: Writer, layer: l0.Layer) -> str:
    steps, size = layer.shape
    if layer.attr("encoding") == "trained":
        table = w.weight(layer, "weight")
    else:
        e = np.arange(size)
        angle = np.arange(steps)[:, None] * np.exp((e - e % 2) * (-9.210340371976184 / size))
        table = w.graph.constant(np.where(e % 2 == 0, np.sin(angle), np.cos(angle)))
    return w.graph.node("Add", [w.source(layer), table], layer.name)


POSITIONS = LayerKind(
    layer(
        "positions",
        "Adds to each step of a sequence what tells its place.",
        Field(
            "encoding",
            choice(
                "encoding",
                sinusoidal="Sines and cosines of falling frequencies.",
                trained="A trained row for each place.",
            ),
            "What is added.",
            default="sinusoidal",
        ),
        elsewhere={"kind": "`encoding`"},
        trained=True,
    ),
    lambda p, x: (steps_and_features(p, x), p.attrs("encoding")),
    positions,
    _write_positions,
    trained=lambda layer: layer.attr("encoding") == "trained",
)
