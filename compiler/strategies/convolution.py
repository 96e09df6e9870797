"""convolution: recognises convolutions of images by weights, and gradients of their images or weights.

Assumes: Contracts in gather form.
Guarantees: recognition by index maps alone; both operands are read entirely.
Does not: choose a strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

from compiler.strategies.choice import Choice, NotApplicable, Problem, either, refuse_if
from compiler.strategies.cost.cpu import OPERATIONS_PER_US
from compiler.strategies.window import WindowAxis, window_axis


@dataclass(frozen=True)
class Convolution:
    """`vector`: which operand is the image; then extents, the walks of its rows and columns, the number of weights and
    their strides along each dim, in elements; `summed`: the dims of channels and of the window's rows and columns."""

    vector: int
    batch: int
    groups: int
    outs: int
    ins: int
    rows: WindowAxis
    cols: WindowAxis
    weights: int
    w_group: int
    w_out: int
    w_in: int
    w_r: int
    w_c: int
    summed: tuple[str, str, str]


@dataclass(frozen=True)
class WeightGradient:
    """`vector`: which operand is the image; then extents and the walks of its rows and columns."""

    vector: int
    samples: int
    groups: int
    outs: int
    ins: int
    rows: WindowAxis
    cols: WindowAxis


def extents(c: Convolution | WeightGradient) -> dict[str, int]:
    """The columns with the extents of a convolution."""
    return {
        "s_groups": c.groups,
        "s_outs": c.outs,
        "s_ins": c.ins,
        "s_rows": c.rows.extent,
        "s_cols": c.cols.extent,
        "s_out_rows": c.rows.out,
        "s_out_cols": c.cols.out,
    }


def strides_of(c: Convolution) -> dict[str, int]:
    """The columns with the strides of the weights."""
    return {"s_w_group": c.w_group, "s_w_out": c.w_out, "s_w_in": c.w_in, "s_w_r": c.w_r, "s_w_c": c.w_c}


def walk_of(c: Convolution) -> dict[str, int]:
    """The columns with the window's first place, the strides of the weights along its walk, and the first weight: that
    of the last row or column where it is walked backwards, as in the gradient of an image."""
    back = (stride * (axis.taps - 1) for axis, stride in ((c.rows, c.w_r), (c.cols, c.w_c)) if axis.tap < 0)
    return {
        "s_from_r": c.rows.low,
        "s_from_c": c.cols.low,
        "s_w_first": sum(back),
        **strides_of(c),
        "s_w_r": c.w_r * c.rows.tap,
        "s_w_c": c.w_c * c.cols.tap,
    }


def by_vectors(
    name: str, c: Convolution | WeightGradient, values: Mapping[str, int], scratch: int, operations: float
) -> Choice:
    """The choice of a strategy that takes so many vector operations for a group."""
    us = c.groups * operations / OPERATIONS_PER_US
    return Choice(name, (("vector", c.vector),), tuple(values.items()), scratch, us)


def fastest_first(choices: Iterable[Choice]) -> list[Choice]:
    return sorted(choices, key=lambda choice: choice.microseconds)


def convolution(p: Problem) -> Convolution:
    """y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, rows(i, r), cols(j, s)] w(g, o, c, r, s), with or without g,
    the axes of w in any order: forwards, or the gradient of the image."""
    refuse_if(not p.node.out.batched or len(p.out) not in (4, 5), "the output is not (batch, channels, rows, columns)")
    for vector in (0, 1):
        if p.operands[vector].batched and not p.operands[1 - vector].batched:
            return _of(p, vector)
    raise NotApplicable("it is not images times weights")


def row_major(p: Problem) -> Convolution:
    """`convolution` for tensors without lanes whose first operand is the image."""
    refuse_if(p.lanes, "its tensors are not row-major")
    found = convolution(p)
    refuse_if(found.vector != 0, "the image is not its first operand")
    return found


def weight_gradient(p: Problem) -> WeightGradient:
    """y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)], with or without g."""
    refuse_if(p.node.out.batched or len(p.out) not in (4, 5), "the output is not (filters, channels, rows, columns)")
    refuse_if(not all(t.batched for t in p.operands), "an operand has no batch")
    return either(1, partial(_gradient_of, p))


def _of(p: Problem, vector: int) -> Convolution:
    x, w = p.operands[vector], p.operands[1 - vector]
    grouped = len(p.out) == 5
    group, o, i, j = (p.out[1] if grouped else ""), *p.out[-3:]
    walked, weights = p.plain(vector), p.plain(1 - vector)
    if len(walked) != len(p.out) or walked[: 1 + grouped] != p.out[: 1 + grouped]:
        raise NotApplicable("the image's axes are not (batch, channels, rows, columns)")
    c = walked[-3]
    rest = [d for d in p.extents if d not in {*p.out, c}]
    named = {d for d in weights if d is not None}
    wanted = {o, c, *rest} | ({group} if grouped else set())
    if c is None or len(rest) != 2 or named != wanted or len(weights) != len(wanted):
        raise NotApplicable("the weights' axes are not plain dims, two of them a window")
    refuse_if(tuple(p.extents[d] for d in (*p.out[: 1 + grouped], c)) != x.shape[:-2], "an operand is only partly read")
    if any(p.extents[d] != e for d, e in zip(weights, w.shape, strict=True) if d is not None):
        raise NotApplicable("an operand is only partly read")
    extents = dict(p.extents)
    by = dict(zip(weights, w.strides, strict=True))
    for r, s in (rest, rest[::-1]):
        rows = window_axis(p.axes(vector)[-2], i, r, extents, x.shape[-2])
        cols = window_axis(p.axes(vector)[-1], j, s, extents, x.shape[-1])
        if rows is not None and cols is not None:
            groups, w_group = (extents[group], by[group]) if grouped else (1, 0)
            steps = w_group, by[o], by[c], by[r], by[s]
            many = extents[p.out[0]], groups, extents[o], extents[c]
            return Convolution(vector, *many, rows, cols, prod(w.shape), *steps, (c, r, s))
    raise NotApplicable("rows and columns are not walked by one window dim each")


def _gradient_of(p: Problem, vector: int) -> WeightGradient:
    x, d = p.operands[vector], p.operands[1 - vector]
    grouped = len(p.out) == 5
    group, o, c, r, s = p.out if grouped else ("", *p.out)
    walked, other = p.plain(vector), p.plain(1 - vector)
    groups = (group,) if grouped else ()
    if len(walked) != 4 + grouped or len(other) != 4 + grouped:
        raise NotApplicable("the operands' axes are not (batch, channels, rows, columns)")
    n, i, j = other[0], other[-2], other[-1]
    if n is None or i is None or j is None or other != (n, *groups, o, i, j):
        raise NotApplicable("the gradient's axes are not (batch, channels, rows, columns)")
    if walked[: 2 + grouped] != (n, *groups, c) or set(p.extents) != {*p.out, n, i, j}:
        raise NotApplicable("the image's axes are not (batch, channels, rows, columns)")
    refuse_if(x.shape[:-2] != tuple(p.extents[q] for q in (n, *groups, c)), "an operand is only partly read")
    refuse_if(d.shape != tuple(p.extents[q] for q in (n, *groups, o, i, j)), "an operand is only partly read")
    extents = dict(p.extents)
    rows = window_axis(p.axes(vector)[-2], i, r, extents, x.shape[-2])
    cols = window_axis(p.axes(vector)[-1], j, s, extents, x.shape[-1])
    if rows is None or cols is None or rows.div != 1 or cols.div != 1:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    return WeightGradient(vector, extents[n], extents[group] if grouped else 1, extents[o], extents[c], rows, cols)
