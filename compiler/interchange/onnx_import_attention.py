"""Attention: ONNX's operator (opset 23 on), and the products and softmax of other graphs, as `attention` layers.

Assumes: values of onnx_import.py; nodes in order.
Guarantees: softmax(q k * scale) v of any heads, also when several share their keys and values, with no mask or a
causal one; the layer's projections are the identity, or those of the products around it. Anything else, such as other
masks, is refused (E0918), and so is a product of two computed tensors that is no attention.
Does not: keep keys and values from call to call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.interchange.onnx_import_inputs import Attrs, constant, data, hint_of
from compiler.interchange.onnx_importer import Array, Attended, Computed, Importer, Scores, Setting, refused

_REALS = (1, 10, 11, 16)  # onnx.TensorProto: FLOAT, FLOAT16, DOUBLE, BFLOAT16
_HIDES = -1e4
"""Smaller numbers in a mask hide a step: the least that half precision holds is -65504."""


@dataclass(frozen=True)
class _Projected:
    """What one of the layer's inputs is and how it is projected: x W + b."""

    x: Computed
    weight: Array
    bias: Array | None


# ------------------------------------------------------------------------------------------- the operator


def import_attention(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """The operator `Attention`. Raises RunError (E0918)."""
    q, k, v = (data(node, ins, i) for i in range(3))
    extra = [i for i in range(4, 7) if i < len(ins) and ins[i] is not None]
    windows = (attrs.get("left_window_size", -1), attrs.get("right_window_size", -1))
    if extra or attrs.get("softcap", 0.0) or windows != (-1, -1):
        raise refused(node, "it keeps keys from before, counts steps, has a window, or limits scores")
    split = len(q.shape) == 3  # (heads, steps, d), else (steps, heads * d)
    if split:
        heads, shared = q.shape[0], k.shape[0]
        q, k, v = (_flat(m, node, x, [1, 0, 2]) for x in (q, k, v))
    else:
        heads, shared = int(attrs["q_num_heads"]), int(attrs["kv_num_heads"])
    d = q.shape[1] // heads
    if k.shape[1] != shared * d or v.shape[1] != shared * d or heads % shared:
        raise refused(node, "its values have another length than its keys")
    scale = float(attrs.get("scale", 1.0 / math.sqrt(d)))
    causal = bool(attrs.get("is_causal", 0))
    if len(ins) > 3 and ins[3] is not None:
        mask = constant(node, ins, 3)
        causal = _causal(node, _added(mask), q.shape[0], k.shape[0]) or causal
    y = _attended(m, node, Attended(q, k, v, heads, scale, causal))
    if split:
        y = m.permute(hint_of(node), m.reshape(f"{hint_of(node)}_heads", y, (q.shape[0], heads, d)), [1, 0, 2])
    return y


def _added(mask: Array) -> Array:
    """A mask of truth values as what is added to scores."""
    return np.where(mask, 0.0, -np.inf) if mask.dtype == bool else np.asarray(mask, np.float64)


# ------------------------------------------------------------------------------------------- products


def product_of(node: Any, q: Computed, k: Computed) -> Scores:
    """The product of two computed tensors, as the beginning of attention. Raises RunError (E0918)."""
    if len(q.shape) not in (2, 3) or len(q.shape) != len(k.shape) or q.shape[:-2] != k.shape[:-2]:
        raise refused(node, "it multiplies two computed tensors")
    return Scores(q, k)


def import_scores(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores:
    """What is done to scores until the values come in. Raises RunError (E0918)."""
    op, at = node.op_type, next(k for k, v in enumerate(ins) if isinstance(v, Scores))
    scores: Scores = ins[at]
    other = ins[1 - at] if len(ins) == 2 else None
    if op in ("Identity", "Dropout") or (op == "Cast" and attrs["to"] in _REALS):
        if any(m.uses.get(o) for o in node.output[1:]) or (len(ins) > 2 and np.any(ins[2])):
            raise refused(node, "it is in training mode, or its second output is read")
        return scores
    if op == "MatMul" and scores.normal and at == 0 and isinstance(other, Computed):
        return _with_values(m, node, scores, data(node, ins, 1))
    if not scores.normal:
        one = float(other.reshape(-1)[0]) if isinstance(other, np.ndarray) and other.size == 1 else None
        if op == "Mul" and one is not None:
            return replace(scores, scale=scores.scale * one)
        if op == "Div" and one and at == 0:
            return replace(scores, scale=scores.scale / one)
        steps, others = scores.q.shape[-2], scores.k.shape[-1]
        if op == "Add" and isinstance(other, np.ndarray):
            return replace(scores, causal=_causal(node, other, steps, others) or scores.causal)
        if op == "Where" and at > 0 and isinstance(ins[0], np.ndarray):
            low = constant(node, ins, 3 - at).astype(np.float64)
            if np.any(low >= _HIDES):
                raise refused(node, "it puts numbers in the place of scores")
            mask = np.where(ins[0] if at == 1 else ~ins[0], 0.0, low)
            return replace(scores, causal=_causal(node, mask, steps, others) or scores.causal)
        if op == "Softmax" and int(attrs.get("axis", -1)) in (-1, len(scores.q.shape)) and m.opset >= 13:
            return replace(scores, normal=True)
    raise refused(node, "it computes with a product of two computed tensors that is no attention")


def _causal(node: Any, mask: Array, steps: int, others: int) -> bool:
    """Whether a mask hides later steps; False if it hides none. Raises RunError (E0918) for another one."""
    hidden = np.asarray(mask, np.float64)
    late = np.arange(others)[None, :] > np.arange(steps)[:, None]
    if hidden.shape[-2:] in ((steps, others), (1, others), (steps, 1), (1, 1)) or hidden.ndim < 2:
        if not hidden.any():
            return False
        if np.array_equal(np.broadcast_to(hidden < _HIDES, (*hidden.shape[:-2], steps, others)),
                          np.broadcast_to(late, (*hidden.shape[:-2], steps, others))) and not np.any(
                              hidden[hidden >= _HIDES]):  # fmt: skip
            return True
    raise refused(node, "its mask is not causal")


def _with_values(m: Importer, node: Any, scores: Scores, v: Computed) -> Computed:
    q, k = scores.q, scores.k
    if len(q.shape) != len(v.shape) or v.shape[:-2] != q.shape[:-2] or v.shape[-1] != q.shape[-1]:
        raise refused(node, "its values have another length than its keys")
    heads = q.shape[0] if len(q.shape) == 3 else 1
    if len(q.shape) == 2:
        k = m.permute(f"{hint_of(node)}_keys", k, [1, 0])
        return _attended(m, node, Attended(q, k, v, 1, scores.scale, scores.causal))
    flat_q, flat_k, flat_v = (_flat(m, node, x, a) for x, a in ((q, [1, 0, 2]), (k, [2, 0, 1]), (v, [1, 0, 2])))
    y = _attended(m, node, Attended(flat_q, flat_k, flat_v, heads, scores.scale, scores.causal))
    y = m.reshape(f"{hint_of(node)}_heads", y, (q.shape[1], heads, q.shape[2]))
    return m.permute(hint_of(node), y, [1, 0, 2])


def _attended(m: Importer, node: Any, a: Attended) -> Computed:
    made = _layer(m, hint_of(node), a)
    assert made is not None  # the queries have as many features as heads and lengths make
    return made


def _flat(m: Importer, node: Any, x: Computed, axes: list[int]) -> Computed:
    """(steps, heads * d) of what has these as its axes in another order."""
    y = m.permute(f"{hint_of(node)}_steps", x, axes)
    return m.reshape(f"{hint_of(node)}_flat", y, (y.shape[0], math.prod(y.shape[1:])))


# ------------------------------------------------------------------------------------------- the layer


def projected(m: Importer, hint: str, x: Computed, out: Array) -> Computed | None:
    """x times `out` when `x` is attention without a last projection: that is its projection then."""
    known = m.attended.get(x.name)
    return _layer(m, hint, replace(known, out=out)) if known is not None and known.out is None else None


def biased(m: Importer, hint: str, x: Computed, bias: Array) -> Computed | None:
    """x + `bias` when `x` is attention with a last projection that has none."""
    known = m.attended.get(x.name)
    fits = bias.size == x.shape[-1] == bias.shape[-1]
    if known is None or known.out is None or known.bias is not None or not fits:
        return None
    return _layer(m, hint, replace(known, bias=bias.reshape(-1)))


def _layer(m: Importer, hint: str, a: Attended) -> Computed | None:
    """A layer over (steps, features). What it projects are the sources of the products before, if the shapes allow: it
    gives as many features as its queries have. None if they do not."""
    size = a.q.shape[1]
    d = size // a.heads
    out = np.eye(size) if a.out is None else a.out
    ways = [_source(m, x) for x in (a.q, a.k, a.v)]
    if ways[0].x.shape[1] != len(out):
        ways[0] = _Projected(a.q, np.eye(size), None)
    if ways[0].x.shape[1] != len(out):
        return None
    shared = np.arange(a.heads) // (size // a.k.shape[1])
    rows = (shared[:, None] * d + np.arange(d)).reshape(-1)
    factors = (a.scale * math.sqrt(d), 1.0, 1.0)
    parts: dict[str, Array] = {}
    for name, way, factor, chosen in zip(_PARTS, ways, factors, (np.arange(size), rows, rows), strict=True):
        parts[f"{name}.weight"] = way.weight[chosen] * factor
        if a.bias is not None or any(w.bias is not None for w in ways):
            parts[f"{name}.bias"] = np.zeros(size) if way.bias is None else way.bias[chosen] * factor
    parts["out.weight"] = out
    has_bias = "query.bias" in parts
    if has_bias:
        parts["out.bias"] = np.zeros(len(out)) if a.bias is None else a.bias
    settings: dict[str, Setting] = {"heads": a.heads, "size": size, "causal": a.causal, "bias": has_bias}
    inputs = [w.x for w in ways]
    inputs = inputs[:1] if len({x.name for x in inputs}) == 1 else inputs
    made = m.layer("attention", hint, inputs, settings, ways[0].x.shape, parts)
    m.attended[made.name] = a
    return made


_PARTS = ("query", "key", "value")


def _source(m: Importer, x: Computed) -> _Projected:
    """What `x` is a product of, if it is that, and else itself."""
    layer, read = m.made(x.name), m.sources.get(x.name)
    if layer is None or layer.kind != "dense" or read is None or len(read.shape) != 2:
        return _Projected(x, np.eye(x.shape[1]), None)
    parts = m.parts(x.name)
    return _Projected(read, parts["weight"], parts.get("bias"))
