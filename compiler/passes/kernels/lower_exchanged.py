"""lower_exchanged: a contraction by an equivalent one (compiler/strategies/exchange.py): copies of its operands, the
equivalent, and its result as the contraction has it.

Assumes: with the batch in the lanes, every dim that is a batch of either side of a copy is a multiple of the lanes.
Guarantees: all steps are Contracts in gather form; copies are sums of one term. With the batch in the lanes they walk
arrays as they are stored, where a batch is blocks and lanes, and a result with other lanes is copied once more, so that
its epilogue finds it in the lanes.
Does not: choose.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Ref
from compiler.ir.space import Affine, along, plain_dim
from compiler.passes.kernels.tensor_phase import Phase, axes_of
from compiler.strategies.choice import Exchange


@dataclass(frozen=True)
class Steps:
    """In order: `copies` of operands, the equivalent, copies of its result, and the one that has the epilogue.
    `in_place`: the tensor whose array each result is written to."""

    copies: tuple[l1.Contract, ...]
    node: l1.Contract
    after: tuple[l1.Contract, ...]
    result: l1.Contract
    in_place: dict[str, str]


def exchange_steps(p: Phase, node: l1.Contract, exchange: Exchange) -> Steps:
    """Makes the arrays and views of all steps but the last in the phase."""
    name, in_place = node.out.name, dict[str, str]()
    copies, ins = [], []
    for k, (operand, of, reads) in enumerate(zip(exchange.operands, exchange.sources, exchange.reads, strict=True)):
        source = p.tensors[node.ins[of]]
        if reads is not None:
            copy = _made(p, replace(operand, name=f"{name}.x{k}"), node, in_place)
            copies.append(_copy(p, copy, source, reads, in_place))
            source = copy
        ins.append(source.name)
    other = _made(p, replace(exchange.node.out, name=f"{name}.exchanged"), node, in_place)
    equivalent = replace(exchange.node, out=other, ins=tuple(ins), span=node.span)
    if not p.lanes or exchange.same_lanes:
        return Steps(tuple(copies), equivalent, (), copied(node.out, other, exchange.back), in_place)
    back = _made(p, replace(node.out, name=f"{name}.back"), node, in_place)
    after = _copy(p, back, other, exchange.back, in_place)
    return Steps(tuple(copies), equivalent, (after,), copied(node.out, back), in_place)


def _made(p: Phase, tensor: l1.Tensor, node: l1.Contract, in_place: dict[str, str]) -> l1.Tensor:
    p.tensors[tensor.name] = tensor
    p.arrays[tensor.name] = p.temporary(tensor, node.span)
    in_place[tensor.name] = tensor.name
    return tensor


def copied(out: l1.Tensor, source: l1.Tensor, reads: tuple[Affine, ...] | None = None) -> l1.Contract:
    """A sum of one term: for each element of `out` the one of `source` at an index (None: the same)."""
    dims = tuple((f"d{k}", extent) for k, extent in enumerate(out.shape))
    return l1.Contract(out, dims, axes_of(out), (source.name,), (axes_of(out) if reads is None else reads,), Ref("x0"))


def _copy(
    p: Phase, out: l1.Tensor, source: l1.Tensor, reads: tuple[Affine, ...], in_place: dict[str, str]
) -> l1.Contract:
    """The copy of a tensor, by views of both where other dims are their batches."""
    batches = {plain_dim(axes[0]) for t, axes in ((out, axes_of(out)), (source, reads)) if t.batched}
    if not p.lanes or (out.batched == source.batched and len(batches) < 2):
        return copied(out, source, reads)
    split = {d for d in batches if d is not None}
    to, written = _view(p, out, axes_of(out), split, "to")
    of, read = _view(p, source, reads, split, "of")
    in_place[to.name] = out.name
    extents = dict(zip((a.terms[0][0] for a in written), to.shape, strict=True))
    order = [d for k in range(len(out.shape)) for d in (f"d{k}", f"d{k}_lane") if d in extents]
    if out.batched and source.batched:  # squares of lanes, each of which is read and written in one go
        order.sort(key=lambda d: (d.endswith("_lane"), d == f"{plain_dim(axes_of(out)[0])}_lane"))
    dims = tuple((d, extents[d]) for d in order)
    return l1.Contract(to, dims, written, (of.name,), (read,), Ref("x0"))


def _view(
    p: Phase, t: l1.Tensor, axes: tuple[Affine, ...], split: Set[str], what: str
) -> tuple[l1.Tensor, tuple[Affine, ...]]:
    """A tensor as it is stored, its split axes as blocks and lanes, and its axes."""
    shape, found, last = list[int](), list[Affine](), list[Affine]()
    for extent, axis in zip(t.shape, axes, strict=True):
        d = plain_dim(axis)
        if d not in split:
            shape.append(extent)
            found.append(axis)
            continue
        lane = along(f"{d}_lane")
        shape.append(extent // p.lanes)
        found.append(along(str(d)))
        if t.batched and len(found) == 1:
            last.append(lane)
        else:
            shape.append(p.lanes)
            found.append(lane)
    view = l1.Tensor(f"{t.name}.{what}", (*shape, *(p.lanes for _ in last)), t.dtype)
    p.tensors[view.name], p.arrays[view.name] = view, p.arrays[t.name]
    return view, (*found, *last)
