"""Attention: ONNX's operator (opset 23 on), and the products and softmax of other graphs, as layers.

Assumes: values of layers/shared/onnx/importer.py; nodes in order.
Guarantees: softmax(q k * scale + offset) v with any number of heads, including grouped queries, with arbitrary masks
and offsets; causal masks are recognised. It becomes a `dot_attention`, and with an output projection an `attention`
that includes the surrounding products as its projections. Other uses of a product read a `matmul` (import_products.py).
Does not: cache keys and values between calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.interchange.onnx.import_batch import extents, relaid, reshape_target
from compiler.interchange.onnx.import_products import plain_product, plain_scores
from compiler.layers.shared.context import HIDDEN
from compiler.layers.shared.onnx.importer import (
    Array,
    Attended,
    Computed,
    Importer,
    LayerText,
    Repeated,
    Scores,
    Setting,
    refused,
)
from compiler.layers.shared.onnx.inputs import Attrs, constant, data, held, hint_of, joined, ranked, repeated

_REALS = (1, 10, 11, 16)  # onnx.TensorProto: FLOAT, FLOAT16, DOUBLE, BFLOAT16
_HIDES = -1e4
"""Smaller values in a mask hide a step: the lowest finite half-precision value is -65504."""


@dataclass(frozen=True)
class _Projected:
    """An input of the layer and its projection: x W + b."""

    x: Computed
    weight: Array
    bias: Array | None


# ------------------------------------------------------------------------------------------- the operator


def import_attention(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """The operator `Attention`. Raises RunError (E0918)."""
    ins = [(repeated(m, node, v) if i < 3 else v.source) if isinstance(v, Repeated) else v for i, v in enumerate(ins)]
    q, k, v = (data(node, ins, i) for i in range(3))
    extra = [i for i in range(4, 7) if i < len(ins) and ins[i] is not None]
    if extra or attrs.get("softcap", 0.0):
        raise refused(node, "it keeps keys from before, counts steps, or limits scores")
    split = len(q.shape) == 3  # (heads, steps, d), else (steps, heads * d)
    if split:
        heads, shared = q.shape[0], k.shape[0]
        q, k, v = (_flat(m, node, x, [1, 0, 2]) for x in (q, k, v))
    else:
        heads, shared = int(attrs["q_num_heads"]), int(attrs["kv_num_heads"])
    d = q.shape[1] // heads
    if k.shape[1] != shared * d or v.shape[1] % shared or heads % shared:
        raise refused(node, "its heads cannot share its keys and values")
    scale = float(attrs.get("scale", 1.0 / math.sqrt(d)))
    causal = bool(attrs.get("is_causal", 0))
    beside = {}
    whole = Computed("", (heads, q.shape[0], k.shape[0]))
    mask = _known_mask(m, node, ins, attrs, whole)
    if isinstance(mask, bool):
        causal = causal or mask
    elif mask is not None:
        if len(mask.shape) != 3:
            raise refused(node, "its mask has no batch")
        beside["mask" if mask.truth else "offset"] = _beside(m, node, mask, whole)
    y = _attended(m, node, Attended(q, k, v, heads, scale, causal, beside))
    if split:
        shape = (q.shape[0], heads, y.shape[1] // heads)
        y = m.permute(hint_of(node), m.reshape(f"{hint_of(node)}_heads", y, shape), [1, 0, 2])
    return y


def _known_mask(m: Importer, node: Any, ins: list[Any], attrs: Attrs, like: Computed) -> Computed | bool | None:
    """The mask of the operator. For a constant one, or a window of steps: whether it is causal (False: it hides
    nothing), or its tensor."""
    mask, whole = ins[3] if len(ins) > 3 else None, like.shape
    left, right = (int(attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    if (left, right) == (-1, -1) and (mask is None or isinstance(mask, Computed)):
        return mask
    if isinstance(mask, Computed):
        raise refused(node, "it has a window and a mask that is computed")
    back = np.arange(whole[1])[:, None] - np.arange(whole[2])[None, :]
    outside = ((left >= 0) & (back > left)) | ((right >= 0) & (-back > right))
    added = np.where(outside, -np.inf, 0.0 if mask is None else _added(np.asarray(mask)))
    causal = _causal(added, *whole[1:])
    if causal is not None:
        return causal
    return held(m, node, _seen(added), like)


def _seen(added: Array) -> Array:
    """The additive mask, or the equivalent Boolean mask."""
    hidden = added < _HIDES
    return ~hidden if not np.any(added[~hidden]) else np.maximum(added, HIDDEN)


def _beside(m: Importer, node: Any, x: Computed, whole: Computed) -> Computed:
    """`x` in the shape of a layer's mask or offset, for scores of shape `whole`. Raises RunError (E0918)."""
    x = ranked(m, x, whole.rank)
    if x.whole or (x.batch, x.before, x.after) != (whole.batch, whole.before, whole.after):
        raise refused(node, "its mask holds whole numbers, or has its batch at another axis than the scores")
    rest = x.shape[next((a for a, e in enumerate(x.shape) if e != 1), len(x.shape) - 1) :]
    if len(rest) > 3 or rest != whole.shape[len(whole.shape) - len(rest) :]:
        raise refused(node, f"its mask has the shape {list(x.shape)}")
    return m.reshape(f"{x.name}_rows", x, rest).at(Computed("", ()))


def _added(mask: Array) -> Array:
    """A Boolean mask as an additive one."""
    return np.where(mask, 0.0, -np.inf) if mask.dtype == bool else np.asarray(mask, np.float64)


# ------------------------------------------------------------------------------------------- products


def product_of(m: Importer, node: Any, ins: list[Any]) -> Scores | Computed:
    """The product of two computed tensors, as attention scores if it may be. Raises RunError (E0918)."""
    like = next(i for i in ins if isinstance(i, Computed))
    q, k = (data(node, [held(m, node, i, like) if isinstance(i, np.ndarray) else i], moved=True) for i in ins)
    return scores_of(m, node, q, k)


def scores_of(m: Importer, node: Any, q: Computed, k: Computed) -> Scores | Computed:
    """Queries (..., steps, d) times keys (..., d, others), where `...` has the batch; a `matmul` where their leading
    axes differ. Raises RunError (E0918)."""
    rank = max(q.rank, k.rank)
    q, k = ranked(m, q, rank), ranked(m, k, rank)
    same = (q.batch, q.before, q.after, q.shape[:-2]) == (k.batch, k.before, k.after, k.shape[:-2])
    if not same or q.lead > rank - 3 or q.shape[-1] != k.shape[-2]:
        return plain_product(m, node, q, k)
    whole = Computed("", (*q.shape[:-1], k.shape[-1])).at(q)
    (q, one), (k, two) = _unscaled(m, q), _unscaled(m, k)
    return Scores(_of_heads(m, q), _of_heads(m, k), whole, one * two)


def _unscaled(m: Importer, x: Computed) -> tuple[Computed, float]:
    """`x` as a scalar multiple: the source and the factor."""
    source, factor = m.factors.get(x.name, (x, 1.0))
    return (source.at(x), factor) if source.shape == x.shape else (x, 1.0)


def _of_heads(m: Importer, x: Computed) -> Computed:
    """`x` as samples of (heads, steps, d), or (steps, d)."""
    lead = x.shape[:-2]
    shape = x.shape if len(lead) < 2 else (math.prod(lead), *x.shape[-2:])
    return m.reshape(f"{x.name}_heads", x, shape).at(Computed("", ()))


def import_scores(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores | None:
    """Operators on scores before the product with the values. None for others, which read a result of its own. Raises
    RunError (E0918)."""
    op, at = node.op_type, next(k for k, v in enumerate(ins) if isinstance(v, Scores))
    scores: Scores = ins[at]
    ins = [v.source if isinstance(v, Repeated) and op != "MatMul" else v for v in ins]
    if op in ("Identity", "Dropout") or (op == "Cast" and attrs["to"] in _REALS):
        if any(m.uses.get(o) for o in node.output[1:]) or (len(ins) > 2 and np.any(ins[2])):
            raise refused(node, "it is in training mode, or its second output is read")
        return scores
    if op == "Reshape" and at == 0 and not scores.undefined:
        moved = _moved_batch(m, node, scores, ins, attrs)
        if moved is not None:
            return moved
    if scores.normal:
        return _of_shares(m, node, scores, ins, at)
    return _before_softmax(m, node, scores, ins, attrs, at)


def _of_shares(m: Importer, node: Any, scores: Scores, ins: list[Any], at: int) -> Computed | Scores | None:
    """What is done to shares, which are operand `at`; None if a layer does not do it. Raises RunError (E0918)."""
    other = ins[1 - at] if len(ins) == 2 else None
    if scores.undefined:
        return _defined(node, scores, ins)
    if node.op_type == "IsNaN":
        return replace(scores, undefined=True)
    if node.op_type == "MatMul" and at == 0 and isinstance(other, Computed | Repeated):
        other = repeated(m, node, other) if isinstance(other, Repeated) else other
        values = data(node, [other], moved=True)
        return with_values(m, node, scores, values) if _fit(scores, values) else None
    return scores if node.op_type == "Mul" and _again(m, scores, other) else None


def _before_softmax(m: Importer, node: Any, scores: Scores, ins: list[Any], attrs: Attrs, at: int) -> Scores | None:
    """What is done to scores, which are operand `at`; None if a layer does not do it. Raises RunError (E0918)."""
    other = ins[1 - at] if len(ins) == 2 else None
    plain = scores.offset is None and scores.mask is None
    match node.op_type:
        case "Mul" if plain and isinstance(other, np.ndarray) and other.size == 1:
            return replace(scores, scale=scores.scale * float(other.reshape(-1)[0]))
        case "Div" if plain and at == 0 and isinstance(other, np.ndarray) and other.size == 1 and other.any():
            return replace(scores, scale=scores.scale / float(other.reshape(-1)[0]))
        case "Add" if isinstance(other, np.ndarray):
            return _moved(m, node, scores, other)
        case "Add" if plain and isinstance(other, Computed):
            mask = m.mask_of(other)
            if mask is not None:
                return replace(scores, mask=_beside(m, node, mask, scores.whole))
            return None if other.truth else replace(scores, offset=_beside(m, node, other, scores.whole))
        case "Where" if at > 0:
            return _replaced(m, node, scores, ins, at == 1)
        case "Softmax" if int(attrs.get("axis", -1)) in (-1, scores.whole.rank - 1) and m.opset >= 13:
            return replace(scores, normal=True)
    return None


def _replaced(m: Importer, node: Any, scores: Scores, ins: list[Any], kept: bool) -> Scores | None:
    """Scores where the condition is what is `kept`, else something low; None if a layer does not do it. Raises RunError
    (E0918)."""
    where, whole, low_at = ins[0], scores.whole, 2 if kept else 1
    if isinstance(where, Computed) and where.truth and scores.mask is None:
        return _hidden(m, node, scores, _beside(m, node, where, whole), constant(node, ins, low_at), kept)
    if not isinstance(where, np.ndarray):
        return None
    low = constant(node, ins, low_at).astype(np.float64)
    if np.any(low >= _HIDES):
        return None
    return _moved(m, node, scores, np.where(where if kept else ~where, 0.0, low))


def _defined(node: Any, scores: Scores, ins: list[Any]) -> Scores:
    """Probabilities with NaN replaced by zeros, as in layers. Raises RunError (E0918)."""
    plain = replace(scores, undefined=False)
    if node.op_type != "Where" or ins[0] != scores or ins[2] != plain or np.any(constant(node, ins, 1)):
        raise refused(node, "it asks where attention gives no numbers")
    return plain


def _moved_batch(m: Importer, node: Any, scores: Scores, ins: list[Any], attrs: Attrs) -> Scores | None:
    """Scores whose heads and batch are merged or split. None for any other rearrangement."""
    found = relaid(m, scores.whole, reshape_target(node, ins, attrs, extents(m, scores.whole)))
    if found is None or found[0] != scores.whole.shape:
        return None
    return replace(scores, whole=scores.whole.at(found[1]))


def _again(m: Importer, scores: Scores, other: Any) -> bool:
    """Whether probabilities are multiplied by the mask of the scores, as export does for fully masked steps."""
    mask = scores.mask
    if mask is None or not isinstance(other, Computed | np.ndarray):
        return False
    if isinstance(other, Computed):
        same = math.prod(other.shape) == math.prod(mask.shape)
        return same and m.reshape(f"{other.name}_rows", other, mask.shape).name == mask.name
    late = np.triu(np.ones((scores.q.shape[-2], scores.k.shape[-1]), bool), 1)
    return scores.causal and other.shape[-2:] == late.shape and bool(np.all(other == ~late))


def _hidden(m: Importer, node: Any, scores: Scores, seen: Computed, low: Array, kept: bool) -> Scores:
    """Scores that are `low` where `seen` differs from `kept`. Minus infinity is a mask, which gives zeros to a fully
    masked step; other values are added: such a step attends uniformly then."""
    if low.size != 1 or np.any(low >= _HIDES):
        raise refused(node, "it puts numbers in the place of scores")
    hint, value = hint_of(node), float(low.reshape(-1)[0])
    if value in (-math.inf, float(np.float32(HIDDEN)), HIDDEN):  # the last ones are those of `netloom export`
        mask = seen if kept else m.formula(f"{hint}_seen", f"1.0 - {seen.name}", seen.shape)
        return replace(scores, mask=mask)
    if scores.offset is not None:
        raise refused(node, "it adds to scores twice")
    ways = (0.0, value) if kept else (value, 0.0)
    text = f"{ways[0]!r} if {seen.name} > 0.5 else {ways[1]!r}"
    return replace(scores, offset=m.formula(f"{hint}_offset", text, seen.shape))


def _moved(m: Importer, node: Any, scores: Scores, array: Array) -> Scores:
    """Scores plus a constant."""
    whole = scores.whole
    causal = _causal(array, *whole.shape[-2:])
    if causal is not None:
        return replace(scores, causal=causal or scores.causal)
    if scores.offset is not None or scores.mask is not None:
        raise refused(node, "it adds to scores twice")
    if np.any(np.all(array < _HIDES, -1)):
        raise refused(node, "a step sees nothing")
    constant_of = held(m, node, np.maximum(array, HIDDEN), whole)
    return replace(scores, offset=_beside(m, node, constant_of, whole))


def _causal(mask: Array, steps: int, others: int) -> bool | None:
    """Whether a mask is causal; False if it hides nothing, None otherwise."""
    hidden = np.asarray(mask, np.float64)
    late = np.arange(others)[None, :] > np.arange(steps)[:, None]
    if hidden.shape[-2:] in ((steps, others), (1, others), (steps, 1), (1, 1)) or hidden.ndim < 2:
        if not hidden.any():
            return False
        if np.array_equal(np.broadcast_to(hidden < _HIDES, (*hidden.shape[:-2], steps, others)),
                          np.broadcast_to(late, (*hidden.shape[:-2], steps, others))) and not np.any(
                              hidden[hidden >= _HIDES]):  # fmt: skip
            return True
    return None


def with_values(m: Importer, node: Any, scores: Scores, v: Computed) -> Computed:
    """Probabilities times values (..., others, d). Raises RunError (E0918)."""
    q, k, whole, hint = scores.q, scores.k, scores.whole, hint_of(node)
    if not _fit(scores, v):
        raise refused(node, "its values have other steps or heads than its keys")
    shape, v = (*whole.shape[:-1], v.shape[-1]), _of_heads(m, v)
    heads = q.shape[0] if len(q.shape) == 3 else 1
    beside = {n: x for n, x in (("offset", scores.offset), ("mask", scores.mask)) if x is not None}
    if len(q.shape) == 2:
        k = m.permute(f"{hint}_keys", k, [1, 0])
    else:
        q, k, v = (_flat(m, node, x, a) for x, a in ((q, [1, 0, 2]), (k, [2, 0, 1]), (v, [1, 0, 2])))
    y = _attended(m, node, Attended(q, k, v, heads, scores.scale, scores.causal, beside))
    y = m.reshape(f"{hint}_heads", y, (q.shape[0], heads, shape[-1]))
    return m.reshape(hint, m.permute(hint, y, [1, 0, 2]), shape).at(whole)


def _fit(scores: Scores, v: Computed) -> bool:
    """Whether values are of the heads and steps of the keys."""
    whole = scores.whole
    same = (v.batch, v.before, v.after, v.shape[:-2]) == (whole.batch, whole.before, whole.after, whole.shape[:-2])
    return same and v.shape[-2] == scores.k.shape[-1]


def probabilities(m: Importer, node: Any, scores: Scores) -> Computed:
    """Scores as a tensor; probabilities as attention with the identity matrix as values. Raises RunError (E0918)."""
    if not scores.normal:
        return plain_scores(m, node, scores)
    if scores not in m.shown:
        others = scores.k.shape[-1]
        values = held(m, node, np.eye(others).reshape((1,) * (scores.whole.rank - 2) + (others, others)), scores.whole)
        for axis in range(len(scores.whole.shape) - 2):
            values = joined(m, f"{hint_of(node)}_each", [values] * scores.whole.shape[axis], axis)
        m.shown[scores] = with_values(m, node, scores, values)
    return m.shown[scores]


def _attended(m: Importer, node: Any, a: Attended) -> Computed:
    """The layer without projections."""
    settings: dict[str, Setting] = {**_heads(a), "scale": a.scale, "causal": a.causal}
    settings |= {key: x.name for key, x in a.beside.items()}
    shape = (a.q.shape[0], a.v.shape[1] // _shared(a) * a.heads)
    made = m.layer("dot_attention", hint_of(node), [a.q, a.k, a.v], settings, shape)
    m.attended[made.name] = a
    return made


def _shared(a: Attended) -> int:
    """The heads of keys and values."""
    return a.k.shape[1] * a.heads // a.q.shape[1]


def _heads(a: Attended) -> dict[str, Setting]:
    shared: dict[str, Setting] = {"kv_heads": _shared(a)} if _shared(a) < a.heads else {}
    return {"heads": a.heads} | shared


def _flat(m: Importer, node: Any, x: Computed, axes: list[int]) -> Computed:
    """(steps, heads * d) of a tensor with these axes in another order."""
    y = m.permute(f"{hint_of(node)}_steps", x, axes)
    return m.reshape(f"{hint_of(node)}_flat", y, (y.shape[0], math.prod(y.shape[1:])))


# ------------------------------------------------------------------------------------------- the layer


def projected(m: Importer, hint: str, x: Computed, out: Array, bias: Array | None) -> Computed | None:
    """x times `out` as the output projection, when `x` is attention without one."""
    known = m.attended.get(x.name)
    if known is None or known.out is not None or len(x.shape) != 2:
        return None
    return _layer(m, hint, replace(known, out=out, bias=bias))


def biased(m: Importer, hint: str, x: Computed, bias: Array) -> Computed | None:
    """x + `bias`, when `x` is attention with an output projection without bias."""
    known = m.attended.get(x.name)
    fits = bias.size == x.shape[-1] == bias.shape[-1]
    if known is None or known.out is None or known.bias is not None or not fits:
        return None
    return _layer(m, hint, replace(known, bias=bias.reshape(-1)))


def _layer(m: Importer, hint: str, a: Attended) -> Computed | None:
    """An `attention` over (steps, features). Its inputs are the sources of the preceding products, if the shapes
    allow: its output has as many features as its queries. None if they do not."""
    size, out = a.q.shape[1], a.out
    d = size // a.heads
    if out is None or a.v.shape[1] != a.k.shape[1]:
        return None
    ways = [_source(m, x) for x in (a.q, a.k, a.v)]
    if ways[0].x.shape[1] != len(out):
        ways[0] = _Projected(a.q, np.eye(size), None)
    if ways[0].x.shape[1] != len(out):
        return None
    factors = (a.scale * math.sqrt(d), 1.0, 1.0)
    parts: dict[str, Array] = {}
    for name, way, factor in zip(_PARTS, ways, factors, strict=True):
        parts[f"{name}.weight"] = way.weight * factor
        if a.bias is not None or any(w.bias is not None for w in ways):
            parts[f"{name}.bias"] = np.zeros(len(way.weight)) if way.bias is None else way.bias * factor
    parts["out.weight"] = out
    has_bias = "query.bias" in parts
    if has_bias:
        parts["out.bias"] = np.zeros(len(out)) if a.bias is None else a.bias
    settings: dict[str, Setting] = {**_heads(a), "size": size, "causal": a.causal, "bias": has_bias}
    settings |= {key: x.name for key, x in a.beside.items()}
    inputs = [w.x for w in ways]
    inputs = inputs[:1] if len({x.name for x in inputs}) == 1 else inputs
    made = m.layer("attention", hint, inputs, settings, ways[0].x.shape, parts)
    m.attended[made.name] = a
    return made


_PARTS = ("query", "key", "value")


def _source(m: Importer, x: Computed) -> _Projected:
    """The projection behind `x`, (steps, features): itself, or columns of a `dense` rearranged by later layers."""
    way, at = [], x
    while (layer := m.made(at.name)) is not None and layer.kind in ("reshape", "permute", "slice"):
        way.append(layer)
        at = m.sources[at.name]
    layer, read = m.made(at.name), m.sources.get(at.name)
    plain = _Projected(x, np.eye(x.shape[1]), None)
    if (
        layer is None
        or layer.kind != "dense"
        or read is None
        or len(read.shape) != 2
        or len(read.shape) != len(at.shape)
    ):
        return plain
    places = np.arange(math.prod(at.shape)).reshape(at.shape)
    for step in reversed(way):
        places = _moved_places(places, step)
    if places.shape != x.shape or len(places) != at.shape[0]:
        return plain
    columns = places[0]
    if np.any(places != columns + at.shape[1] * np.arange(at.shape[0])[:, None]) or np.any(columns >= at.shape[1]):
        return plain
    parts = m.parts(at.name)
    bias = parts.get("bias")
    return _Projected(read, parts["weight"][columns], None if bias is None else bias[columns])


def _moved_places(places: Array, layer: LayerText) -> Array:
    """The effect of a data movement layer on an array."""
    of = layer.settings
    if layer.kind == "slice":
        axis, start, stop = (of[key] for key in ("axis", "from", "to"))
        assert isinstance(axis, int) and isinstance(start, int) and isinstance(stop, int)
        return places.take(range(start, stop), axis)
    numbers = of["shape" if layer.kind == "reshape" else "axes"]
    assert isinstance(numbers, list)
    listed = [int(n) for n in numbers]
    return places.reshape(listed) if layer.kind == "reshape" else places.transpose(listed)
