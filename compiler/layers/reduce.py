"""Sums, means, maxima and minima over axes of a sample.

Assumes: inputs of (batch, ...).
Guarantees: the order of the axes that stay; a maximum or minimum passes its gradient to the first element that attains
it.
Does not: reduce the batch.
"""

from __future__ import annotations

import math
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.expr.ast import Expr, Ref
from compiler.expr.keys.kinds import Field, ListOf, OneOf, choice, required, switch
from compiler.ir.level1.builder import identity
from compiler.layers.shared.context import X0, Context, flag, ints, reshape
from compiler.layers.shared.keys import AXIS_NUMBER, layer
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Shape, shown
from compiler.layers.shared.onnx.graph import Writer


def _shape(p: Place, x: Shape) -> Result:
    given = p.values.get("axes", tuple(range(len(x))))
    axes = given if isinstance(given, tuple) else (p.integer("axes"),)
    if len(set(axes)) != len(axes) or any(a >= len(x) for a in axes) or not axes:
        known = ", ".join(str(a) for a in range(len(x))) or "none"
        message = f"`axes` must name axes of `{p.source}`, each once ({known}; its shape is {shown(x)})"
        raise Misfit(message, None, "axes" if "axes" in p.values else None)
    kept = tuple(1 if a in axes else e for a, e in enumerate(x) if p.values["keep"] or a not in axes)
    return kept, {"axes": tuple(sorted(axes)), **p.attrs("function", "keep")}


_FARTHEST: Final = {"max": -math.inf, "min": math.inf}


def reduced(c: Context, layer: l0.Layer, x: l1.Tensor) -> l1.Tensor:
    """`function` of the elements along `axes`."""
    axes, function, g, span = ints(layer, "axes"), layer.attr("function"), c.graph, layer.span
    stay = [0, *(1 + a for a in range(len(x.shape) - 1) if a not in axes)]
    name = f"{layer.name}.y" if not flag(layer, "keep") else f"{layer.name}.flat"
    if function in ("sum", "mean"):
        share = 1.0 / math.prod(x.shape[1 + a] for a in axes)
        body: Expr = X0 * Ref("share") if function == "mean" else X0
        y = g.reduce(name, body, (identity(x),), x, stay, scalars=(("share", share),), span=span)
    else:
        assert function in _FARTHEST
        y = g.reduce(name, X0, (identity(x),), x, stay, combine=function, fill=_FARTHEST[function], span=span)
    return reshape(c, f"{layer.name}.y", y, (x.shape[0], *layer.shape), layer)


_OPERATORS = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin"}


def _write(w: Writer, layer: l0.Layer) -> str:
    axes = w.graph.constant([1 + a for a in ints(layer, "axes")], True)
    op = _OPERATORS[str(layer.attr("function"))]
    return w.graph.node(op, [w.source(layer), axes], layer.name, {"keepdims": int(flag(layer, "keep"))})


REDUCE = LayerKind(
    layer(
        "reduce",
        "The sum, mean, maximum or minimum along axes, such as over the elements of a set or the steps of a sequence.",
        required(
            "function",
            choice(
                "function", sum="The sum.", mean="The mean.", max="The largest element.", min="The smallest element."
            ),
            "What is computed.",
        ),
        Field(
            "axes",
            OneOf((AXIS_NUMBER, ListOf(AXIS_NUMBER, low=1, example="[0, 1]"))),
            "The axis, or axes, from 0, without the batch. Without it, all of them.",
            example="axes: 0",
        ),
        switch("keep", "Whether these axes stay, with one element."),
        elsewhere={"dim": "`axes`", "axis": "`axes`", "keepdim": "`keep`", "keepdims": "`keep`", "op": "`function`"},
        example="{function: sum, axes: 0}",
    ),
    _shape,
    reduced,
    _write,
)
