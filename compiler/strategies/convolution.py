"""convolution: recognises convolutions of images by weights, and gradients of their images or weights.

Assumes: Contracts in gather form.
Guarantees: recognition by index maps alone; both operands are read entirely.
Does not: choose a strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final, Generic, NamedTuple, TypeVar

from compiler.strategies.choice import Choice, NotApplicable, Problem, either, named, refuse_if
from compiler.strategies.cost.cpu import OPERATIONS_PER_US
from compiler.strategies.window import WindowAxis, window_axis

T = TypeVar("T")
Orders = Sequence[int]
FIRST: Final = (1,)
"""The axis of channels, behind that of samples."""


@dataclass(frozen=True)
class Walked:
    """`vector`: which operand is the image; then extents and the walks of its rows and columns."""

    vector: int
    samples: int
    groups: int
    outs: int
    ins: int
    rows: WindowAxis
    cols: WindowAxis


@dataclass(frozen=True)
class Convolution(Walked):
    """With the number of weights and their strides along each dim, in elements; `summed`: the dims of channels and of
    the window's rows and columns."""

    weights: int
    w_group: int
    w_out: int
    w_in: int
    w_r: int
    w_c: int
    summed: tuple[str, str, str]


@dataclass(frozen=True)
class WeightGradient(Walked):
    """The gradient of the weights."""


class Axes(NamedTuple, Generic[T]):
    """What there is for each axis of an image."""

    groups: tuple[T, ...]
    samples: T
    channels: T
    rows: T
    cols: T


def axes_of(found: Sequence[T], channels: int = 1) -> Axes[T]:
    """`found`: for the axes in memory; `channels`: the number of that of channels, among those beside the groups."""
    rest = [found[0], *found[-3:]]
    own = rest.pop(channels)
    return Axes(tuple(found[1:-3]), rest[0], own, *rest[1:])


def extents(c: Walked) -> dict[str, int]:
    """The columns with the extents of a convolution."""
    return named(
        groups=c.groups,
        outs=c.outs,
        ins=c.ins,
        rows=c.rows.extent,
        cols=c.cols.extent,
        out_rows=c.rows.out,
        out_cols=c.cols.out,
    )


def strides_of(c: Convolution) -> dict[str, int]:
    """The columns with the strides of the weights."""
    return named(w_group=c.w_group, w_out=c.w_out, w_in=c.w_in, w_r=c.w_r, w_c=c.w_c)


def walk_of(c: Convolution) -> dict[str, int]:
    """The columns with the window's first place, the strides of the weights along its walk, and the first weight: that
    of the last row or column where it is walked backwards, as in the gradient of an image."""
    back = (stride * (axis.taps - 1) for axis, stride in ((c.rows, c.w_r), (c.cols, c.w_c)) if axis.tap < 0)
    return (
        named(from_r=c.rows.low, from_c=c.cols.low, w_first=sum(back))
        | strides_of(c)
        | named(w_r=c.w_r * c.rows.tap, w_c=c.w_c * c.cols.tap)
    )


def by_vectors(name: str, c: Walked, values: Mapping[str, int], scratch: int, operations: float) -> Choice:
    """The choice of a strategy that takes so many vector operations for a group."""
    us = c.groups * operations / OPERATIONS_PER_US
    return Choice(name, (("vector", c.vector),), tuple(values.items()), scratch, us)


def fastest_first(choices: Iterable[Choice]) -> list[Choice]:
    return sorted(choices, key=lambda choice: choice.microseconds)


def convolution(p: Problem) -> Convolution:
    """y[n, g, o, i, j] = sum over c, r, s of x[n, g, c, rows(i, r), cols(j, s)] w(g, o, c, r, s), with or without g,
    the axes of w in any order: forwards, or the gradient of the image."""
    refuse_if(not p.node.out.batched, "the output is not (batch, channels, rows, columns)")
    for vector in (0, 1):
        if p.operands[vector].batched and not p.operands[1 - vector].batched:
            weights = zip(p.plain(1 - vector), p.operands[1 - vector].shape, strict=True)
            refuse_if(any(p.extents[d] != e for d, e in weights if d is not None), "an operand is only partly read")
            return of_image(p, vector)
    raise NotApplicable("it is not images times weights")


def row_major(p: Problem) -> Convolution:
    """`convolution` for tensors without lanes whose first operand is the image."""
    refuse_if(p.lanes, "its tensors are not row-major")
    found = convolution(p)
    refuse_if(found.vector != 0, "the image is not its first operand")
    return found


def weight_gradient(p: Problem) -> WeightGradient:
    """y[g, o, c, r, s] = sum over n, i, j of d[n, g, o, i, j] x[n, g, c, rows(i, r), cols(j, s)], with or without g."""
    refuse_if(p.node.out.batched, "the output is not (filters, channels, rows, columns)")
    refuse_if(not all(t.batched for t in p.operands), "an operand has no batch")
    return either(1, partial(of_weights, p))


def of_image(p: Problem, vector: int, orders: Orders = FIRST) -> Convolution:
    """`convolution` of that operand; `orders`: which axis of the image, and of the output, may be that of channels. The
    weights may be a part of their operand."""
    x, w = p.operands[vector], p.operands[1 - vector]
    walked, weights = p.plain(vector), p.plain(1 - vector)
    refuse_if(len(p.out) not in (4, 5), "the output is not (batch, channels, rows, columns)")
    own = next((a for a in orders if axes_of(p.out, a).channels in weights), None)
    both = len(walked) == len(p.out)
    at = next((a for a in orders if both and axes_of(walked, a).channels not in (None, *p.out)), None)
    if own is None or at is None:
        raise NotApplicable("the weights' axes are not plain dims, two of them a window")
    group, n, o, i, j = axes_of(p.out, own)
    groups, first, c, _, _ = axes_of(walked, at)
    if (groups, first) != (group, n):
        raise NotApplicable("the image's axes are not (batch, channels, rows, columns)")
    rest = [d for d in p.extents if d not in {*p.out, c}]
    if c is None or len(rest) != 2 or None in weights or sorted(map(str, weights)) != sorted([*group, o, c, *rest]):
        raise NotApplicable("the weights' axes are not plain dims, two of them a window")
    shape, index, extents = axes_of(x.shape, at), axes_of(p.axes(vector), at), dict(p.extents)
    many = tuple(extents[g] for g in group)
    refuse_if(shape[:3] != (many, extents[n], extents[c]), "an operand is only partly read")
    by = dict(zip(weights, w.strides, strict=True))
    for r, s in (rest, rest[::-1]):
        rows = window_axis(index.rows, i, r, extents, shape.rows)
        cols = window_axis(index.cols, j, s, extents, shape.cols)
        if rows is not None and cols is not None:
            sizes = extents[n], prod(many), extents[o], extents[c]
            steps = sum(by[g] for g in group), by[o], by[c], by[r], by[s]
            return Convolution(vector, *sizes, rows, cols, prod(w.shape), *steps, (c, r, s))
    raise NotApplicable("rows and columns are not walked by one window dim each")


def of_weights(p: Problem, vector: int, orders: Orders = FIRST) -> WeightGradient:
    """`weight_gradient` of that operand as the image; `orders`: as in `of_image`."""
    x, d = p.operands[vector], p.operands[1 - vector]
    walked, other = p.plain(vector), p.plain(1 - vector)
    refuse_if(len(p.out) not in (4, 5), "the output is not (filters, channels, rows, columns)")
    group, (o, c, r, s) = p.out[:-4], p.out[-4:]
    both = len(walked) == len(other) == len(p.out)
    own = next((a for a in orders if both and axes_of(other, a).channels == o), None)
    at = next((a for a in orders if both and axes_of(walked, a).channels == c), None)
    if own is None or at is None:
        raise NotApplicable("the operands' axes are not (batch, channels, rows, columns)")
    groups, n, _, i, j = axes_of(other, own)
    if n is None or i is None or j is None or groups != group:
        raise NotApplicable("the gradient's axes are not (batch, channels, rows, columns)")
    dims = {*p.out, n, i, j}
    if axes_of(walked, at)[:2] != (group, n) or set(p.extents) != dims or len(dims) != len(p.out) + 3:
        raise NotApplicable("the image's axes are not (batch, channels, rows, columns)")
    shape, index, extents = axes_of(x.shape, at), axes_of(p.axes(vector), at), dict(p.extents)
    many = tuple(extents[g] for g in group)
    refuse_if(shape[:3] != (many, extents[n], extents[c]), "an operand is only partly read")
    refuse_if(axes_of(d.shape, own) != (many, *(extents[q] for q in (n, o, i, j))), "an operand is only partly read")
    rows = window_axis(index.rows, i, r, extents, shape.rows)
    cols = window_axis(index.cols, j, s, extents, shape.cols)
    if rows is None or cols is None or rows.div != 1 or cols.div != 1:
        raise NotApplicable("rows and columns are not walked by one window dim each")
    return WeightGradient(vector, extents[n], prod(many), extents[o], extents[c], rows, cols)
