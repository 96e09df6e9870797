"""Losses of places in a space, which are lists of numbers: what belongs together shall be near, and all else far."""

from __future__ import annotations

import math

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Field, Value, entry, instead, required, switch
from compiler.ir.level1.builder import identity
from compiler.ir.space import along
from compiler.layers.shared.keys import LAYER_REFERENCE
from compiler.losses.keys import MASK
from compiler.losses.kind import Answers, LossKind, Measured, Rows
from compiler.losses.rows import X0, X1, X2, X3, along_lists, rows_of

_FLOOR = 1e-12
"""Of lengths, or of their squares, as in PyTorch."""


def _triplet(m: Measured) -> Rows:
    """max(0, margin + |a - p| - |a - n|) (Schroff et al. 2015, eq. 2, with distances, not their squares); with `swap`
    the negative is as far as it is from the nearer of both (Balntas et al. 2016, section 3.2)."""
    a, p, n = m.prediction, m.target, m.beside["negative"]
    off = X0 - X1 + 1e-6  # as in PyTorch: equal places have a derivative
    pairs = {"near": (a, p), "far": (a, n)} | ({"other": (p, n)} if dict(m.loss.attrs)["swap"] else {})
    squares = [along_lists(m, name, off * off, *pair) for name, pair in pairs.items()]
    far: Expr = Call("sqrt", (X1,))
    if len(squares) > 2:
        far = Call("min", (far, Call("sqrt", (X2,))))
    body = Call("relu", (Ref("margin") + Call("sqrt", (X0,)) - far,))
    each = m.g.map(f"{m.name}.each", body, [identity(s) for s in squares], scalars=m.loss.attrs)
    return rows_of(m, each)


def _cosine_embedding(m: Measured) -> Rows:
    a, b = m.prediction, m.beside["other"]
    parts = [along_lists(m, name, X0 * X1, *pair) for name, pair in {"dot": (a, b), "aa": (a, a), "bb": (b, b)}.items()]
    cosine = X0 / Call("sqrt", ((X1 + _FLOOR) * (X2 + _FLOOR),))
    apart = Call("relu", (cosine - Ref("margin"),))
    body = Cond(X3 > 0.0, 1.0 - cosine, apart)
    operands = (*(identity(p) for p in parts), identity(m.target))
    each = m.g.map(f"{m.name}.each", body, operands, scalars=m.loss.attrs)
    return rows_of(m, each)


def _unit(m: Measured, name: str, x: l1.Tensor) -> l1.Tensor:
    """Places of length 1."""
    square = along_lists(m, f"{name}.square", X0 * X1, x, x)
    body = X0 / Call("max", (Call("sqrt", (X1,)), Num(_FLOOR)))
    return m.g.map(f"{m.name}.{name}", body, (identity(x), (square, (0,))))


def _info_nce(m: Measured) -> Rows:
    """Cross-entropy of the softmax of cosines over the temperature, whose right class is the sample's own positive (van
    den Oord et al. 2018, eq. 4); samples of weight 0 are no classes. `symmetric`: the mean of both ways (Radford et al.
    2021, figure 3)."""
    g, name, attrs = m.g, m.name, dict(m.loss.attrs)
    a, b = _unit(m, "anchor", m.prediction), _unit(m, "positive", m.target)
    (batch, size), (i, j, k) = a.shape, (along(d) for d in "ijk")
    dims = (("i", batch), ("j", batch), ("k", size))
    dots = g.contract(f"{name}.dots", dims, (i, j), ((a, (i, k)), (b, (j, k))), X0 * X1)
    scaled, scalars = X0 / Ref("temperature"), (("temperature", attrs["temperature"]),)
    cosines = g.map(f"{name}.cosines", scaled, (identity(dots),), scalars=scalars)
    parts = [g.map(f"{name}.own", scaled, (identity(along_lists(m, "pairs", X0 * X1, a, b)),), scalars=scalars)]
    both = (("d0", batch), ("d1", batch))
    for way, other, kept in (("choices", 1, along("d0")), ("returns", 0, along("d1")))[: 1 + bool(attrs["symmetric"])]:
        of = [(cosines, (along("d0"), along("d1"))), (m.mask, (along(f"d{other}"),))]
        there = Cond(X1.ne(0.0), X0, Num(-math.inf))
        largest = g.contract(f"{name}.{way}.largest", both, (kept,), of, there, combine="max", fill=-math.inf)
        exponent = Cond(X1.ne(0.0), Call("exp", (X0 - X2,)), Num(0.0))
        parts += [largest, g.contract(f"{name}.{way}.total", both, (kept,), (*of, (largest, (kept,))), exponent)]
    loss: Expr = X1 + Call("log", (X2,)) - X0
    if len(parts) > 3:
        loss = 0.5 * (loss + X3 + Call("log", (Ref("x4"),)) - X0)
    rows = g.map(f"{name}.rows", loss, [identity(p) for p in parts])
    return rows, frozenset(t.name for t in parts[1::2])


def _place(name: str, doc: str) -> Field:
    return required(name, LAYER_REFERENCE, doc, example=f"{name}: {name}")


_ANCHOR = _place("anchor", "The layer with the places; the last axis is a list of coordinates.")
_POSITIVE = _place("positive", "A layer or network input with what belongs to it.")

TRIPLET = LossKind(
    entry(
        "loss",
        "triplet",
        "How much less than `margin` the negative is farther from the anchor than the positive is: "
        "max(0, margin + |anchor - positive| - |anchor - negative|), in Euclidean distances.",
        _ANCHOR,
        _POSITIVE,
        _place("negative", "A layer or network input with what does not belong to it."),
        Field(
            "margin", Value("a positive number", "0.2", low=0, above=True), "The difference that is enough.", default=1
        ),
        switch("swap", "Whether the distance from positive to negative counts where it is smaller."),
        MASK,
        title="triplet",
        example="{anchor: one, positive: same, negative: other}",
    ),
    Answers.PLACES,
    _triplet,
    along=True,
    beside=("negative",),
    synonyms=("triplet_margin", "triplet_margin_loss", "triplet_loss"),
)

COSINE_EMBEDDING = LossKind(
    entry(
        "loss",
        "cosine_embedding",
        "One less the cosine of the angle between both places where the target is 1; elsewhere, for -1, the cosine as "
        "far as it exceeds `margin`.",
        _ANCHOR,
        _place("other", "A layer or network input with another place."),
        required(
            "target", LAYER_REFERENCE, "The network input with 1 (together) or -1 (apart).", example="target: same"
        ),
        Field("margin", Value("a number", "0.5", low=-1, high=1), "The cosine that is small enough.", default=0),
        MASK,
        title="cosine_embedding",
        elsewhere=instead("`anchor`: input1", "`other`: input2"),
        example="{anchor: one, other: two, target: same}",
    ),
    Answers.PLACES,
    _cosine_embedding,
    along=True,
    beside=("other",),
    synonyms=("cosine_embedding_loss",),
)

INFO_NCE = LossKind(
    entry(
        "loss",
        "info_nce",
        "Cross-entropy of the choice of a sample's own positive among those of all samples of the batch, by the "
        "cosines of their angles with the anchor over a temperature (contrastive learning, as in SimCLR and CLIP).",
        _ANCHOR,
        _POSITIVE,
        Field(
            "temperature",
            Value("a positive number", "0.1", low=0, above=True),
            "What cosines are divided by.",
            default=0.07,
        ),
        switch("symmetric", "Whether anchors are chosen for positives, too: the mean of both, as in CLIP."),
        MASK,
        title="info_nce",
        example="{anchor: picture, positive: words}",
    ),
    Answers.PLACES,
    _info_nce,
    whole=True,
    synonyms=("contrastive", "nt_xent", "clip_loss"),
)
