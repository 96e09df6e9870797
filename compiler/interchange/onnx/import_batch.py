"""Tracking of the batch axis of ONNX tensors through data movement.

Assumes: values of layers/shared/onnx/importer.py.
Guarantees: the batch may be any axis of the graph's tensors, possibly merged with the sample's axis before or after it
(heads and batch, as in PyTorch's attention); a sample has the same elements in the same order.
Does not: resolve the batch uniquely when the graph fixes it at 1 and shapes are ambiguous: a separate axis at an
unchanged position is preferred then, and the last axis last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.layers.shared.onnx.importer import MARKS, Array, Batches, Computed, Importer, Sized, refused
from compiler.layers.shared.onnx.inputs import Attrs, constant, hint_of

Extent = int | Batches


def extents(m: Importer, x: Computed) -> list[Extent]:
    """The shape of the graph's tensor."""
    times = math.prod(x.own)
    return [*x.ahead, Batches(times) if m.batch is None else times * m.batch, *x.behind]


def shape_of(m: Importer, x: Computed, start: int, end: int | None) -> Array | Sized:
    """The result of the operator Shape."""
    found = extents(m, x)[start:end]
    one, two = (np.array([e if isinstance(e, int) else e.times * mark for e in found], np.int64) for mark in MARKS)
    return one if np.array_equal(one, two) else Sized((one, two))


def wanted_extents(node: Any, ins: Sequence[Any], k: int) -> list[Extent]:
    """Input k as the extents of a shape. Raises RunError (E0918)."""
    value = ins[k] if k < len(ins) else None
    if isinstance(value, Sized):
        found = value.extents()
        if found is None:
            raise refused(node, "it computes with the size of the batch")
        return found
    return [int(v) for v in constant(node, ins, k).reshape(-1)]


def relaid(m: Importer, x: Computed, target: Sequence[Extent]) -> tuple[tuple[int, ...], Computed] | None:
    """The shape of a sample and (as an example of it) the position of the batch after reshaping the graph's tensor to
    the extents `target`, of which one may be -1. None if the batch is not within one axis then."""
    total, given = math.prod(x.shape), list(target)
    if -1 in given:
        known = math.prod(e for e in given if isinstance(e, int) and e != -1)
        times = math.prod(e.times for e in given if isinstance(e, Batches))
        whole = total * (m.batch or 1)
        if known * times == 0 or whole % (known * times):
            return None
        left = whole // (known * times)
        has = m.batch is not None or any(isinstance(e, Batches) for e in given)
        given[given.index(-1)] = left if has else Batches(left)
    ahead, behind = math.prod(x.shape[: x.batch]), math.prod(x.shape[x.batch :])
    found = []
    for k, extent in enumerate(given):
        head, tail = given[:k], given[k + 1 :]
        sizes = [e for e in (*head, *tail) if isinstance(e, int)]
        if len(sizes) < len(given) - 1 or (m.batch is None) != isinstance(extent, Batches) or min(sizes, default=1) < 1:
            continue
        first, last = math.prod(sizes[:k]), math.prod(sizes[k:])
        if ahead % first or behind % last:
            continue
        before, after = ahead // first, behind // last
        if (extent if isinstance(extent, int) else extent.times) != before * after * (m.batch or 1):
            continue
        shape = (*sizes[:k], *([before] if before > 1 else []), *([after] if after > 1 else []), *sizes[k:])
        own = before == after == 1
        last_axis = k == len(given) - 1 and len(given) > 1
        at = Computed(x.name, shape, batch=k + (before > 1), before=int(before > 1), after=int(after > 1))
        found.append(((not own, last_axis, k != x.lead, k), shape, at))
    if not found:
        return None
    _, shape, at = min(found, key=lambda f: f[0])
    return shape, at


def reshaped(m: Importer, node: Any, x: Computed, target: Sequence[Extent]) -> Computed:
    """`x` reshaped. Raises RunError (E0918)."""
    found = relaid(m, x, target)
    if found is None:
        raise refused(node, "it moves elements between the batch and other axes")
    return m.reshape(hint_of(node), x, found[0]).at(found[1])


def transposed(m: Importer, hint: str, x: Computed, perm: Sequence[int]) -> Computed:
    """`x` with permuted axes of the graph's tensor."""
    groups = [[k] for k in range(x.lead)]
    groups.append(list(range(x.lead, x.batch + x.after + 1)))
    groups += [[k] for k in range(x.batch + x.after + 1, len(x.shape) + 1)]
    order = [k for p in perm for k in groups[p]]
    y = m.permute(hint, x, [k - (k > x.batch) for k in order if k != x.batch])
    return replace(y.at(x), batch=order.index(x.batch))


def reshape_target(node: Any, ins: Sequence[Any], attrs: Attrs, known: Sequence[Extent]) -> list[Extent]:
    """The target extents of the operator Reshape, for a tensor with the extents `known`. Raises RunError (E0918)."""
    given = wanted_extents(node, ins, 1) if len(ins) > 1 else [int(v) for v in attrs["shape"]]
    if 0 in given and attrs.get("allowzero", 0):
        raise refused(node, "an axis has no elements")
    return [known[k] if e == 0 and k < len(known) else e for k, e in enumerate(given)]
