"""dense_groups: convolutions in groups become convolutions of all channels, whose weights between groups are 0.

Matrix units multiply tiles of 64 channels and more. Where groups have few, they compute all products of a convolution
without groups before other units have computed those of one in groups.

Assumes: gather form; a target without lanes that stores bf16, in mixed precision, before types are chosen.
Guarantees: a contraction in groups, forward, of the image's gradient or of the weights', is replaced where it takes
less so by estimate, with its operands in bf16, or little more (MARGIN). Its results are sums of the same products and
of zeros. Gradients of weights are read from the blocks along the diagonal of those of all channels.
Does not: choose for a layer as a whole; replace groups of one channel where a strategy has them as they are, faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Cond, Num, Ref
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import along, plain_dim
from compiler.passes.layouts.channels_last import moved_contraction, moved_tensor
from compiler.passes.program.decisions import Decision
from compiler.strategies import in_rows

NAME: Final = "dense_groups"
MARGIN: Final = 1.1
"""Without groups channels may come last, of what is beside a convolution, too."""
_AXES: Final = 5
"""Of (batch, groups, channels, rows, columns) and of (groups, outputs, inputs, rows, columns)."""


def dense_groups(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], target: Capabilities
) -> tuple[tuple[l1.Node, ...], tuple[Decision, ...]]:
    """The graph without groups where they take longer, and a decision for each contraction that has them. `outputs`:
    tensors that the host reads."""
    tensors, made, result, decisions = l1.tensors_of(nodes), set[str](), list[l1.Node](), list[Decision]()
    for node in nodes:
        found = _Grouped.of(node, tensors)
        if found is None:
            result.append(node)
            continue
        before, after = found.microseconds(target)
        pays = after is not None and before is not None and after < MARGIN * before
        if before is not None and after is not None:
            why = f"{found.groups} groups: about {before:.1f} us, {after:.1f} us as one with zeros between groups"
            decisions.append(Decision(NAME, found.node.out.name, "one group" if pays else "as it is", why))
        result += found.replaced(made) if pays else [node]
    return (_without_detours(result, outputs) if made else nodes), tuple(decisions)


def _without_detours(nodes: Sequence[l1.Node], outputs: tuple[str, ...]) -> tuple[l1.Node, ...]:
    """Reshapes of what is reshaped already are of the first tensor, and none where they have its shape."""
    tensors, first, same, result = l1.tensors_of(nodes), dict[str, str](), dict[str, str](), list[l1.Node]()
    for node in nodes:
        node = l1.renamed(node, same)
        if isinstance(node, l1.Reindex) and node.out.batched:
            name, source = node.out.name, first.get(node.source, node.source)
            first[name] = source
            node = replace(node, source=source)
            if tensors[source].shape == node.out.shape and name not in outputs:
                same[name] = source
                continue
        result.append(node)
    return tuple(result)


@dataclass(frozen=True)
class _Grouped:
    """A convolution in groups, or a gradient of one: its dims of groups and of channels on both sides."""

    node: l1.Contract
    tensors: Mapping[str, l1.Tensor]
    group: str
    channels: frozenset[str]

    @staticmethod
    def of(node: l1.Node, tensors: Mapping[str, l1.Tensor]) -> _Grouped | None:
        if not isinstance(node, l1.Contract) or not l1.is_sum_of_products(node):
            return None
        every = [(node.out, node.out_map), *((tensors[n], m) for n, m in zip(node.ins, node.in_maps, strict=True))]
        images = [axes for t, axes in every if t.batched and len(axes) == _AXES and t.dtype == "real"]
        weights = [axes for t, axes in every if not t.batched and len(axes) == _AXES and t.dtype == "real"]
        if len(images) != 2 or len(weights) != 1:
            return None
        group, *sides = (plain_dim(a) for a in weights[0][:3])
        own = [plain_dim(axes[2]) for axes in images]
        if group is None or None in sides or {*own} != {*sides} or {plain_dim(a[1]) for a in images} != {group}:
            return None
        return _Grouped(node, tensors, group, frozenset(s for s in sides if s is not None))

    @property
    def groups(self) -> int:
        return dict(self.node.dims)[self.group]

    def _whole(self, tensor: l1.Tensor) -> l1.Tensor:
        """A tensor without an axis of groups: all channels are along one axis, of weights along two."""
        shape, name, many = tensor.shape, f"{tensor.name}.dense", self.groups
        if tensor.batched:
            return replace(tensor, name=name, shape=(shape[0], many * shape[2], *shape[3:]))
        return replace(tensor, name=name, shape=(many * shape[1], many * shape[2], *shape[3:]))

    def dense(self) -> l1.Contract:
        """The contraction over all channels."""
        node = self.node
        dims = tuple((d, self.groups * n if d in self.channels else n) for d, n in node.dims if d != self.group)
        maps = [
            axes[:1] + axes[2:] if t.batched else axes[1:]
            for t, axes in [
                (node.out, node.out_map),
                *((self.tensors[n], m) for n, m in zip(node.ins, node.in_maps, strict=True)),
            ]
        ]
        ins = tuple(self._whole(self.tensors[n]).name for n in node.ins)
        return replace(node, out=self._whole(node.out), dims=dims, out_map=maps[0], ins=ins, in_maps=tuple(maps[1:]))

    def microseconds(self, target: Capabilities) -> tuple[float | None, float | None]:
        """Estimates in groups, with channels in either order, and without, channels last."""
        before = {n: replace(self.tensors[n], dtype="bf16") for n in self.node.ins}
        dense = self.dense()
        after = {t.name: replace(t, dtype="bf16") for t in (self._whole(self.tensors[n]) for n in self.node.ins)}
        ways = [_time(self.node, before, target), _moved_time(self.node, before, target)]
        known = [us for us in ways if us is not None]
        return min(known, default=None), _moved_time(dense, after, target)

    def replaced(self, made: set[str]) -> list[l1.Node]:
        """The nodes in place of the contraction; `made`: tensors without groups that there are."""
        found: list[l1.Node] = []
        for name in self.node.ins:
            tensor = self.tensors[name]
            whole = self._whole(tensor)
            if whole.name in made:
                continue
            made.add(whole.name)
            if tensor.batched:
                found.append(l1.Reindex(whole, name, self.node.span))
            else:
                found += self._spread(tensor, whole)
        dense = self.dense()
        found.append(dense)
        if dense.out.batched:
            return [*found, l1.Reindex(self.node.out, dense.out.name, self.node.span)]
        return [*found, *self._diagonal(dense.out)]

    def _spread(self, tensor: l1.Tensor, whole: l1.Tensor) -> list[l1.Node]:
        """Weights with zeros between groups."""
        many, (_, outs, ins, *taps) = self.groups, tensor.shape
        names = ("g", "k", "h", "c", *(f"t{a}" for a in range(len(taps))))
        dims = tuple(zip(names, (many, outs, many, ins, *taps), strict=True))
        out = replace(tensor, name=f"{tensor.name}.spread", shape=tuple(n for _, n in dims))
        walk = tuple(along(d) for d in names)
        body = Cond(Ref("g").eq(Ref("h")), Ref("x0"), Num(0.0))
        read = (walk[:2] + walk[3:],)
        spread = l1.Contract(out, dims, walk, (tensor.name,), read, body, span=self.node.span)
        return [spread, l1.Reindex(whole, out.name, self.node.span)]

    def _diagonal(self, whole: l1.Tensor) -> list[l1.Node]:
        """The gradient of the weights in groups, of that of all channels."""
        out = self.node.out
        many, outs, ins, *taps = out.shape
        blocks = replace(whole, name=f"{out.name}.blocks", shape=(many, outs, many, ins, *taps))
        names = ("g", "k", "c", *(f"t{a}" for a in range(len(taps))))
        walk = tuple(along(d) for d in names)
        read = ((*walk[:2], walk[0], *walk[2:]),)
        dims = tuple(zip(names, out.shape, strict=True))
        diagonal = l1.Contract(out, dims, walk, (blocks.name,), read, Ref("x0"), span=self.node.span)
        return [l1.Reindex(blocks, whole.name, self.node.span), diagonal]


def _time(node: l1.Contract, tensors: Mapping[str, l1.Tensor], target: Capabilities) -> float | None:
    """Estimated microseconds; None without a strategy."""
    found = in_rows(node, tensors, target)
    return None if found is None else found.microseconds


def _moved_time(node: l1.Contract, tensors: Mapping[str, l1.Tensor], target: Capabilities) -> float | None:
    """With channels last."""
    moved = {n: moved_tensor(t) for n, t in tensors.items()}
    if node.out.batched:
        moved[node.out.name] = moved_tensor(node.out)
    last = {*moved}
    return _time(
        moved_contraction(node, moved | {node.out.name: moved.get(node.out.name, node.out)}, last), moved, target
    )
