"""late_reshapes: elementwise work behind a reshape that joins axes of a product's result comes before it.

The sums of a convolution in groups have the axes group and channel, which a reshape joins; a bias, an activation or a
sum behind it are computed with both axes, so that they can be the epilogue of the convolution (fuse_epilogues).

Assumes: nodes in gather form, in topological order.
Guarantees: no value changes. What such a Map reads beside the result is a view of its operand with these axes, made as
soon as the operand is; its own result is reshaped behind it, for whatever reads it.
Does not: move what may be the epilogue of another product, which is computed later; look at sums of one operand, at
reshapes that split axes, or at outputs of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from math import prod

import compiler.ir.level1.graph as l1

Runs = tuple[tuple[int, ...], ...]
"""For each axis of a reshaped tensor, those of its source that it joins."""


def joined_axes(source: tuple[int, ...], shape: tuple[int, ...]) -> Runs | None:
    """Of a reshape that does nothing but join axes next to each other; None of another one."""
    runs, at = list[tuple[int, ...]](), 0
    for extent in shape:
        first, product = at, 1
        while at < len(source) and (at == first or product < extent):
            product *= source[at]
            at += 1
        if product != extent:
            return None
        runs.append(tuple(range(first, at)))
    while at < len(source) and source[at] == 1 and runs:
        runs[-1] = (*runs[-1], at)
        at += 1
    return tuple(runs) if at == len(source) and len(source) > len(shape) else None


@dataclass(frozen=True)
class _Split:
    """The tensor of more axes that a reshaped one is a view of. `place`: of the product that it begins with."""

    source: l1.Tensor
    runs: Runs
    place: int


@dataclass
class _Moving:
    """State of the pass: what is reshaped, and views to be made behind the nodes that make their sources. `latest`: by
    tensor the place of the last product that it, or elementwise work, begins with."""

    tensors: dict[str, l1.Tensor] = field(default_factory=dict)
    split: dict[str, _Split] = field(default_factory=dict)
    views: dict[str, list[l1.Reindex]] = field(default_factory=dict)
    known: dict[tuple[str, tuple[int, ...]], l1.Tensor] = field(default_factory=dict)
    latest: dict[str, int] = field(default_factory=dict)

    def begins(self, names: Iterable[str]) -> int:
        return max((self.latest.get(n, -1) for n in names), default=-1)

    def moved(self, node: l1.Map) -> tuple[l1.Map, _Split] | None:
        """The Map with the axes of the last product that it reads reshaped, and its result with them; None where it
        reads none, or not so."""
        plain = tuple(range(len(node.out.shape)))
        found = [
            self.split[x] for x, axes in zip(node.ins, node.maps, strict=True) if x in self.split and axes == plain
        ]
        if not found:
            return None
        last = max(found, key=lambda x: x.place)
        runs, shape = last.runs, last.source.shape
        if self.begins(node.ins) > last.place:
            return None
        if node.out.shape != tuple(prod(shape[a] for a in run) for run in runs):
            return None
        ins, maps = list[str](), list[tuple[int | None, ...]]()
        for name, axes in zip(node.ins, node.maps, strict=True):
            source, walk = self.operand(name, axes, runs, shape)
            ins.append(source)
            maps.append(walk)
        out = replace(node.out, name=self.name(node.out), shape=shape)
        return replace(node, out=out, ins=tuple(ins), maps=tuple(maps)), replace(last, source=out)

    def operand(
        self, name: str, axes: tuple[int | None, ...], runs: Runs, shape: tuple[int, ...]
    ) -> tuple[str, tuple[int | None, ...]]:
        """An operand with the axes of `shape`, and how they are walked."""
        own = self.split.get(name)
        if own is not None and own.source.shape == shape and own.runs == runs and axes == tuple(range(len(runs))):
            return own.source.name, tuple(range(len(shape)))
        tensor = self.tensors[name]
        extents, walk = list[int](), list[int | None]()
        for extent, axis in zip(tensor.shape, axes, strict=True):
            parts = [] if axis is None else [a for a in runs[axis] if shape[a] > 1] or [runs[axis][-1]]
            extents += [shape[a] for a in parts] or [extent]
            walk += parts or [None]
        return self.view(tensor, tuple(extents)).name, tuple(walk)

    def name(self, tensor: l1.Tensor) -> str:
        """A new one."""
        names = (f"{tensor.name}.grouped{'.' * bool(n)}{n or ''}" for n in count())
        return next(n for n in names if n not in self.tensors)

    def view(self, tensor: l1.Tensor, shape: tuple[int, ...]) -> l1.Tensor:
        if shape == tensor.shape:
            return tensor
        if (tensor.name, shape) not in self.known:
            out = l1.Tensor(self.name(tensor), shape, tensor.dtype, tensor.batched)
            self.known[tensor.name, shape] = self.tensors[out.name] = out
            self.views.setdefault(tensor.name, []).append(l1.Reindex(out, tensor.name))
        return self.known[tensor.name, shape]


def late_reshapes(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """The graph with such Maps before reshapes."""
    state, result = _Moving(), list[l1.Node]()
    products = dict[str, int]()
    for place, node in enumerate(nodes):
        for out in l1.results(node):
            state.tensors[out.name] = out
        if isinstance(node, l1.Contract) and len(node.ins) == 2:
            products[node.out.name] = state.latest[node.out.name] = place
        elif isinstance(node, l1.Reindex) and node.source in products:
            source = state.tensors[node.source]
            if runs := joined_axes(source.shape, node.out.shape):
                state.split[node.out.name] = _Split(source, runs, products[node.source])
        if isinstance(node, l1.Map | l1.Reindex):
            state.latest[node.out.name] = state.begins(l1.operands(node))
        if isinstance(node, l1.Map) and node.out.name not in outputs and (found := state.moved(node)) is not None:
            moved, state.split[node.out.name] = found
            state.tensors[moved.out.name] = moved.out
            result += [moved, l1.Reindex(node.out, moved.out.name, node.span)]
            continue
        result.append(node)
    views = {n: tuple(v for out in l1.results(x) for v in state.views.get(out.name, ())) for n, x in enumerate(result)}
    return tuple(x for n, node in enumerate(result) for x in (node, *views[n]))
