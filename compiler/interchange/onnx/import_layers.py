"""ONNX operators as layers: those of a kind of layer (compiler/layers), and those without a kind.

Assumes: nodes in topological order (onnx.checker verifies it).
Guarantees: an operator gives a layer of the same meaning or raises RunError (E0918) with the reason.
Does not: optimize: a layer per operator, except that a bias is folded into the preceding layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

import compiler.interchange.onnx.import_shapes as shapes
from compiler.interchange.onnx.import_attention import import_attention, import_scores, probabilities, product_of
from compiler.interchange.onnx.import_batch import shape_of
from compiler.interchange.onnx.import_einsum import import_einsum, product
from compiler.interchange.onnx.import_maps import ELEMENTWISE, import_elementwise
from compiler.interchange.onnx.import_reductions import REDUCTIONS, import_reduction, unit_norm
from compiler.interchange.onnx.package import onnx_package
from compiler.layers import KINDS
from compiler.layers.shared.kind import Reads
from compiler.layers.shared.onnx.importer import Computed, Importer, Repeated, Scores, Sized, refused
from compiler.layers.shared.onnx.inputs import Attrs, axis_of, constant, cut, data, hint_of, repeated


def import_node(m: Importer, node: Any) -> None:
    """Adds what a node computes to the model. Raises RunError (E0918)."""
    onnx = onnx_package()
    if node.domain not in ("", "ai.onnx"):
        raise refused(node, f"it belongs to `{node.domain}`")
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attrs = {k: v.decode() if isinstance(v, bytes) else v for k, v in attrs.items()}
    ins = [m.values[n] if n else None for n in node.input]
    if node.op_type == "Shape" and isinstance(ins[0], Computed | Repeated):
        x = ins[0] if isinstance(ins[0], Computed) else Computed("", ins[0].shape).at(ins[0].source)
        m.values[node.output[0]] = shape_of(m, x, attrs.get("start", 0), attrs.get("end"))
        return
    if node.op_type != "Einsum" and any(isinstance(i, Scores) for i in ins):
        found = import_scores(m, node, ins, attrs)
        if found is not None:
            m.values[node.output[0]] = found
            return
        ins = [probabilities(m, node, i) if isinstance(i, Scores) else i for i in ins]
    if all(i is None or isinstance(i, np.ndarray | Sized) for i in ins):
        shapes.fold(m, node, [i for i in ins if i is None or isinstance(i, np.ndarray | Sized)])
        return
    if node.op_type in ELEMENTWISE:
        if len([o for o in node.output if o]) > 1:
            raise refused(node, "its second output")
        m.values[node.output[0]] = import_elementwise(m, node, ins, attrs)
        return
    if node.op_type not in _AS_REPEATED:
        ins = [repeated(m, node, i) if isinstance(i, Repeated) else i for i in ins]
    convert = _OPERATORS.get(node.op_type)
    if convert is None:
        raise refused(node, "no layer of the language does the same")
    used = [o for o in node.output if m.uses.get(o)]
    made = convert(m, node, ins, attrs)
    results = made if isinstance(made, list) else [made]
    if any(o not in node.output[: len(results)] for o in used):
        raise refused(node, "an output that is read is none of a layer")
    m.values.update(zip(node.output, results, strict=False))


# ------------------------------------------------------------------------------------------- products


def _gemm(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    x = data(node, ins, moved=True)
    if attrs.get("transA", 0) or x.rank != 2 or x.lead != 0:
        raise refused(node, "its first input is not (batch, features)")
    w = constant(node, ins, 1)
    w = w if attrs.get("alpha", 1.0) == 1.0 else w * attrs["alpha"]
    w = w if attrs.get("transB", 0) else w.T
    bias = None
    if len(ins) > 2 and ins[2] is not None:
        bias = constant(node, ins, 2) * attrs.get("beta", 1.0)
        if bias.ndim > 1 and bias.shape[0] != 1:
            raise refused(node, "what it adds differs from sample to sample")
        bias = np.broadcast_to(bias.reshape(-1), (w.shape[0],))
    return product(m, hint_of(node), x, w, bias)


def _matmul(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed | Scores:
    if isinstance(ins[1], Computed):
        return product_of(m, node, ins)
    x = data(node, ins, moved=True)
    w = constant(node, ins, 1)
    if w.ndim > 2 and w.ndim <= x.rank and w.size == w.shape[-2] * w.shape[-1]:
        w = w.reshape(w.shape[-2:])
    if w.ndim > 2:
        return product_of(m, node, ins)
    if w.ndim != 2 or not x.shape or x.lead == x.rank - 1:
        raise refused(node, "its second input is not a matrix, or it works along the batch")
    return product(m, hint_of(node), x, w.T, None)


# ------------------------------------------------------------------------------------------- movement


def _same(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Any:
    if node.op_type == "Dropout" and len(ins) > 2 and ins[2] is not None and np.any(ins[2]):
        raise refused(node, "it is in training mode")
    return ins[0]


def _cast(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Any:
    if isinstance(ins[0], Repeated):
        return replace(ins[0], source=_cast(m, node, [ins[0].source], attrs))
    onnx, x = onnx_package().TensorProto, ins[0]
    assert isinstance(x, Computed)
    to, hint = attrs["to"], hint_of(node)
    integer = x.whole or x.counted
    if to in (onnx.FLOAT, onnx.DOUBLE, onnx.FLOAT16, onnx.BFLOAT16):
        made = replace(m.real(x), counted=False, truth=False)
    elif to == onnx.BOOL:
        source = m.real(x)
        made = x if x.truth else m.formula(hint, f"1.0 if {source.name} != 0.0 else 0.0", x.shape, True)
    elif to in (onnx.INT32, onnx.INT64) and (integer or x.truth):
        made = x if integer else replace(x, truth=False, counted=True)
    else:
        raise refused(node, "it turns real numbers into others")
    return made.at(x)


def _split(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> list[Computed]:
    x = data(node, ins, moved=True, kinds=True)
    axis = axis_of(node, int(attrs.get("axis", 0)), x)
    extent, count = x.shape[axis], len(node.output)
    given = constant(node, ins, 1) if len(ins) > 1 and ins[1] is not None else attrs.get("split")
    each = -(-extent // count)
    sizes = [int(v) for v in np.asarray(given).reshape(-1)] if given is not None else [each] * (count - 1)
    sizes = sizes if given is not None else [*sizes, extent - each * (count - 1)]
    if min(sizes) < 1:
        raise refused(node, "a part has no elements")
    parts, at = [], 0
    for out, size in zip(node.output, sizes, strict=True):
        parts.append(cut(m, out, x, axis, at, at + size))
        at += size
    return parts


def _blocks(m: Importer, node: Any, ins: list[Any], attrs: Attrs) -> Computed:
    """DepthToSpace and SpaceToDepth: blocks of channels to blocks of positions, and the inverse."""
    x, b = data(node, ins), int(attrs["blocksize"])
    if len(x.shape) != 3:
        raise refused(node, "its input is no image")
    c, h, w = x.shape
    if node.op_type == "SpaceToDepth":
        y = m.reshape(f"{hint_of(node)}_split", x, (c, h // b, b, w // b, b))
        axes = [2, 4, 0, 1, 3] if attrs.get("mode", "DCR") == "DCR" else [0, 2, 4, 1, 3]
        y = m.permute(f"{hint_of(node)}_turned", y, axes)
        return m.reshape(hint_of(node), y, (c * b * b, h // b, w // b))
    if attrs.get("mode", "DCR") == "DCR":
        y, axes = m.reshape(f"{hint_of(node)}_split", x, (b, b, c // (b * b), h, w)), [2, 3, 0, 4, 1]
    else:
        y, axes = m.reshape(f"{hint_of(node)}_split", x, (c // (b * b), b, b, h, w)), [0, 3, 1, 4, 2]
    y = m.permute(f"{hint_of(node)}_turned", y, axes)
    return m.reshape(hint_of(node), y, (c // (b * b), h * b, w * b))


COMPOSITE: Mapping[str, Reads] = MappingProxyType(
    {
        "Gemm": _gemm,
        "MatMul": _matmul,
        **dict.fromkeys(REDUCTIONS, import_reduction),
        "LpNormalization": unit_norm,
        "Attention": import_attention,
        **dict.fromkeys(("Identity", "Dropout"), _same),
        "Cast": _cast,
        "Reshape": shapes.import_reshape,
        "Flatten": shapes.import_flatten,
        "Transpose": shapes.import_transpose,
        **dict.fromkeys(("Squeeze", "Unsqueeze"), shapes.import_squeeze),
        "Concat": shapes.import_concat,
        "Tile": shapes.import_tile,
        "Expand": shapes.import_expand,
        "Einsum": import_einsum,
        "Split": _split,
        "Slice": shapes.import_slice,
        "Gather": shapes.import_gather,
        **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    }
)
"""Operators without a kind: they become several layers, or none, or depend on preceding nodes."""
_OPERATORS: Mapping[str, Reads] = MappingProxyType({**COMPOSITE, **{op: f for k in KINDS for op, f in k.read.items()}})
_AS_REPEATED = frozenset(("Attention", "Cast", "Dropout", "Expand", "Identity", "Reshape"))
"""Operators that preserve deferred broadcasts."""
