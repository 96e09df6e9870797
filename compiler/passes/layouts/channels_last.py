"""channels_last: activations of convolutions are stored with their channels last, [n][rows][columns][channels].

In that order the terms of a sum over channels are neighbours in memory, and convolutions are products that matrix units
take as they are (compiler/strategies/cuda/stored_products.py).

Assumes: gather form; maps are fused; a target without lanes, that stores bf16.
Guarantees: a part of a graph (tensors of a batch with three axes or more, connected by the nodes that read and write
them, but for maps that turn axes, as `permute`) has its axis of channels, axis 1, moved behind the others in all of its
tensors, or in none: where convolutions are faster so by estimate, by more than MARGIN. Rounded weights of its
convolutions follow. Index maps follow the axes, so that every element is computed from the same ones; only the order of
sums changes. Contractions whose windows have one element are products without a window. What the host reads or writes,
and what other nodes than maps, contractions, moves and reshapes touch, keeps its order.
Does not: move axes of weights, of their gradients, or of tensors whose channels are no multiple of CHANNELS: the copy
engine fetches 16 bytes at least.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import Affine, plain_dim
from compiler.passes.program.decisions import Decision
from compiler.strategies import in_rows, problem_key

NAME: Final = "channels_last"
CHANNELS: Final = 8
"""Of which the channels of a tensor are a multiple."""
MARGIN: Final = 0.9
_T = TypeVar("_T")
_Followed: Final = l1.Map | l1.Contract | l1.Move | l1.Reindex
"""Nodes that follow the axes of their tensors."""


def channels_last(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], target: Capabilities
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph with parts of it in the other order, and a decision for each part that has convolutions. `outputs`:
    tensors that the host reads."""
    found = _Graph.of(nodes, outputs, target)
    decisions, last = list[Decision](), set[str]()
    for part in found.parts():
        taken, decision = found.decide(part)
        decisions += [decision] if decision is not None else []
        last |= taken
    if not last:
        return nodes, tuple(decisions)
    moved = found.tensors | {n: moved_tensor(found.tensors[n]) for n in last}
    return tuple(_rewritten(n, moved, last) for n in nodes), tuple(decisions)


@dataclass(frozen=True)
class _Graph:
    """`candidates`: tensors whose axes may be moved; `factors`: rounded weights that only contractions read."""

    nodes: tuple[l1.Node, ...]
    target: Capabilities
    tensors: dict[str, l1.Tensor]
    candidates: frozenset[str]
    factors: frozenset[str]
    times: dict[object, float | None] = field(default_factory=dict)

    @staticmethod
    def of(nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], target: Capabilities) -> _Graph:
        tensors = {t.name: t for n in nodes for t in l1.results(n)}
        other = {x for n in nodes if not isinstance(n, _Followed) for x in l1.operands(n)} | {*outputs}
        made = {n.out.name for n in nodes if isinstance(n, _Followed)} - other
        read = {x for n in nodes if not isinstance(n, l1.Contract) for x in l1.operands(n)}
        rounded = {n.out.name for n in nodes if isinstance(n, l1.Map)} - read - {*outputs}
        return _Graph(
            nodes,
            target,
            tensors,
            _joined(nodes, tensors, {n for n in made if tensors[n].batched and _has_channels(tensors[n])}),
            frozenset(n for n in rounded if not tensors[n].batched and _has_channels(tensors[n])),
        )

    def parts(self) -> list[frozenset[str]]:
        """Candidates that nodes connect, in the order of their first ones."""
        part: dict[str, str] = {}

        def root(name: str) -> str:
            while part[name] != name:
                part[name] = part[part[name]]
                name = part[name]
            return name

        for node in self.nodes:
            here = [x for x in _touched(node) if x in self.candidates]
            for name in here:
                part.setdefault(name, name)
            alike = [x for x in here if x not in _turned(node)]
            for name in alike:
                part[root(name)] = root(alike[0])
        found: dict[str, set[str]] = {}
        for name in part:
            found.setdefault(root(name), set()).add(name)
        return [frozenset(x) for x in found.values()]

    def decide(self, part: frozenset[str]) -> tuple[frozenset[str], Decision | None]:
        """The tensors whose axes are moved, of a part and of the weights of its convolutions: all or none."""
        here = (n for n in self.nodes if isinstance(n, l1.Contract) and not part.isdisjoint(_touched(n)))
        found = [n for n in here if l1.is_sum_of_products(n)]
        if not any(len(a.terms) > 1 for n in found for axes in n.in_maps for a in axes):
            return frozenset(), None
        every = part | {x for n in found for x in n.ins if x in self.factors}
        moved = self.tensors | {n: moved_tensor(self.tensors[n]) for n in every}
        before = [self._time(n, self.tensors) for n in found]
        after = [self._time(moved_contraction(n, moved, every), moved) for n in found]
        known = [
            (x, min(x, y) if _walks_other(n, every) else y)
            for n, x, y in zip(found, before, after, strict=True)
            if x is not None and y is not None
        ]
        first, last = (sum(pair[side] for pair in known) for side in (0, 1))
        pays = last < MARGIN * first and all(y is not None for x, y in zip(before, after, strict=True) if x is not None)
        why = f"{len(part)} tensors: convolutions take about {last:.0f} us so, {first:.0f} us with pixels side by side"
        decision = Decision(NAME, found[0].out.name, "moved" if pays else "not moved", why)
        return every if pays else frozenset(), decision

    def _time(self, node: l1.Contract, tensors: Mapping[str, l1.Tensor]) -> float | None:
        """Estimated microseconds of a contraction; None without a strategy."""
        key = problem_key(node, tensors)
        if key not in self.times:
            found = in_rows(node, tensors, self.target)
            self.times[key] = None if found is None else found.microseconds
        return self.times[key]


def _walks_other(node: l1.Contract, last: AbstractSet[str]) -> bool:
    """Whether it walks an image whose axes are not moved: one of few channels, which is packed (pack_windows) where its
    outputs are in another order."""
    walked = zip(node.ins, node.in_maps, strict=True)
    return any(name not in last and any(len(a.terms) > 1 for a in axes) for name, axes in walked)


def _has_channels(tensor: l1.Tensor) -> bool:
    return len(tensor.shape) > 2 and tensor.dtype != "int" and tensor.shape[1] % CHANNELS == 0


def _touched(node: l1.Node) -> tuple[str, ...]:
    return (*(t.name for t in l1.results(node)), *l1.operands(node))


def _turned(node: l1.Node) -> frozenset[str]:
    """Operands of a map whose axis 1 is not that of the result: they, or it, have another order already."""
    if not isinstance(node, l1.Map):
        return frozenset()
    ways = zip(node.ins, node.maps, strict=True)
    return frozenset(n for n, axes in ways if len(axes) < 2 or axes[1] != 1) - {node.out.name}


def _joined(nodes: tuple[l1.Node, ...], tensors: Mapping[str, l1.Tensor], free: set[str]) -> frozenset[str]:
    """Those that are reshapes only of each other, with the same samples and channels, and parts only of each other."""
    shapes = [(n.out, tensors[n.source]) for n in nodes if isinstance(n, l1.Reindex)]
    groups = [_touched(n) for n in nodes if isinstance(n, l1.Move)]
    groups += [(a.name, b.name) for a, b in shapes if a.shape[:2] == b.shape[:2]]
    free = free - {t.name for a, b in shapes if a.shape[:2] != b.shape[:2] for t in (a, b)}
    while True:
        apart = {name for group in groups if not free.issuperset(group) for name in group}
        if apart.isdisjoint(free):
            return frozenset(free)
        free = free - apart


# ----------------------------------------------------------------------------------------------- rewriting


def _order(rank: int) -> tuple[int, ...]:
    """The axis that comes to each place: axis 1 to the last one."""
    return (0, *range(2, rank), 1)


def moved_tensor(tensor: l1.Tensor) -> l1.Tensor:
    return replace(tensor, shape=tuple(tensor.shape[a] for a in _order(len(tensor.shape))))


def _rewritten(node: l1.Node, moved: Mapping[str, l1.Tensor], last: AbstractSet[str]) -> l1.Node:
    """A node over tensors of which those in `last` have their axes moved."""
    if last.isdisjoint(_touched(node)):
        return node
    match node:
        case l1.Map(out=out):
            place = {a: at for at, a in enumerate(_order(len(out.shape)))} if out.name in last else None
            maps = [_along(n, axes, last) for n, axes in zip(node.ins, node.maps, strict=True)]
            if place is not None:
                maps = [tuple(None if a is None else place[a] for a in axes) for axes in maps]
            return replace(node, out=moved[out.name], maps=tuple(maps))
        case l1.Contract():
            return moved_contraction(node, moved, last)
        case l1.Move(out=out):
            offsets = tuple(_along(n, at, last) for n, at in zip(node.ins, node.offsets, strict=True))
            return replace(node, out=moved[out.name], offsets=offsets)
        case l1.Reindex(out=out):
            return replace(node, out=moved[out.name])
        case _:
            raise AssertionError(f"{type(node).__name__} keeps the order of its tensors")


def _along(name: str, axes: tuple[_T, ...], last: AbstractSet[str]) -> tuple[_T, ...]:
    """What there is of each axis of a tensor, in the order of its axes."""
    return tuple(axes[a] for a in _order(len(axes))) if name in last else axes


def moved_contraction(node: l1.Contract, moved: Mapping[str, l1.Tensor], last: AbstractSet[str]) -> l1.Contract:
    """Loops run over the output, then over what is summed, in the order in which they lie in memory; in the gradient of
    weights the channels of the image come last."""
    node = _without_window(node)
    out_map = _along(node.out.name, node.out_map, last)
    in_maps = tuple(_along(n, axes, last) for n, axes in zip(node.ins, node.in_maps, strict=True))
    first = out_map if node.out.batched or len(out_map) < 3 else _along("", out_map, {""})
    walked = (axes for n, axes in zip(node.ins, in_maps, strict=True) if n in last)
    order = dict.fromkeys(d for axes in (first, *walked, *in_maps) for a in axes for d, _ in a.terms)
    extents = dict(node.dims)
    dims = tuple((d, extents.pop(d)) for d in order)
    return replace(node, out=moved[node.out.name], dims=(*dims, *extents.items()), out_map=out_map, in_maps=in_maps)


def _without_window(node: l1.Contract) -> l1.Contract:
    """A sum of products whose window has one element as one of plain indices; others as they are."""
    if not l1.is_sum_of_products(node):
        return node
    out = {d for a in node.out_map for d, _ in a.terms}
    beside = {d for axes in node.in_maps for a in axes if len(a.terms) > 1 for d, _ in a.terms}
    ones = {d for d, extent in node.dims if extent == 1 and d in beside and not (d in out and node.out.batched)}
    maps = tuple(
        tuple(replace(a, terms=tuple(t for t in a.terms if t[0] not in ones)) for a in axes) for axes in node.in_maps
    )
    if not all(a == Affine() or plain_dim(a) is not None for axes in maps for a in axes):
        return node
    return replace(node, dims=tuple(d for d in node.dims if d[0] in out or d[0] not in ones), in_maps=maps)
