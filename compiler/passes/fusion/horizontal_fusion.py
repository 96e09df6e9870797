"""horizontal_fusion: elementwise Maps over the same space that share operands, or read each other's results, become one
kernel with several outputs.

Assumes: nodes in topological order, and the epilogues chosen by fuse_epilogues.
Guarantees: a Map joins an earlier one when both read the same whole tensor, or it reads the other's result elementwise,
and its other operands are computed before the earlier one. Its result is then computed early: only over a short
distance, or where the operands' lifetimes end there, so that peak memory does not grow. Other refusals are Decisions.
Does not: change the graph: lower_tensors uses the groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import compiler.ir.level1.graph as l1
from compiler.expr.simplify import has_random
from compiler.passes.fusion.fuse_epilogues import Epilogue, Readers, read_elsewhere
from compiler.passes.program.decisions import Decision
from compiler.strategies.pins import AGAIN

MOST_ARRAYS = 14
"""Arrays that a kernel touches; the addresses of more would not fit into registers."""

NEAR = 8
"""Nodes of the graph between two Maps that may join whatever memory it takes."""


def siblings(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], in_place: Mapping[str, str], fused: Mapping[str, Epilogue]
) -> tuple[dict[str, Epilogue], list[Decision]]:
    """First map of a group -> the group, in order, the first included; and the decision about each candidate.
    `in_place`: map -> the variable that it writes; `fused`: the epilogues."""
    g = Readers(nodes)
    for name, end in fused.items():
        g.place |= dict.fromkeys((m.out.name for m in end.maps), g.place[name])
    taken = {m.out.name for end in fused.values() for m in end.maps}
    groups: dict[str, Epilogue] = {}
    decisions: list[Decision] = []
    for i, first in enumerate(nodes):
        if isinstance(first, l1.Map) and first.out.name not in taken and not has_random(first.body):
            group = _Group(g, outputs, in_place, i, {first.out.name: first}, {i})
            decisions += group.grow(taken)
            if len(group.maps) > 1:
                taken |= group.maps.keys()
                groups[first.out.name] = Epilogue(tuple(group.maps.values()), group.kept())
    return groups, decisions


@dataclass
class _Group:
    """Maps of one kernel, which runs at the position of the first of them, node number `i`. `members`: their
    numbers."""

    g: Readers
    outputs: tuple[str, ...]
    in_place: Mapping[str, str]
    i: int
    maps: dict[str, l1.Map]
    members: set[int]
    seen: set[int] = field(default_factory=set)

    def grow(self, taken: set[str]) -> list[Decision]:
        """All maps that can join, except those that are `taken`; and the decisions."""
        decisions = []
        first = next(iter(self.maps.values()))
        waiting = self._candidates(first)
        while waiting:
            at = heapq.heappop(waiting)
            reader = self.g.nodes[at]
            if not isinstance(reader, l1.Map) or reader.out.name in taken or not same_space(reader.out, first.out):
                continue
            name = reader.out.name
            reads = dict.fromkeys(n for n in reader.ins if n in self.maps)
            shared = [n for n in whole_operands(reader) if any(n in whole_operands(m) for m in self.maps.values())]
            later = any(self.g.place[n] >= self.i for n in reader.ins if n not in self.maps)
            if later or not (reads or shared):
                continue
            if reason := self._refusal(at, reader):
                decisions.append(Decision("fuse_siblings", name, "not fused", f"with {first.out.name}: {reason}"))
                continue
            if reads:
                decisions.append(Decision("fuse_siblings", name, "fused", f"into {', '.join(reads)}"))
            else:
                why = f"both read {shared[0]}"
                decisions.append(Decision("fuse_siblings", name, f"shares the kernel of {first.out.name}", why))
            self.maps[name] = reader
            self.members.add(at)
            self.g.place[name] = self.i
            for more in self._candidates(reader):
                heapq.heappush(waiting, more)
        return decisions

    def kept(self) -> frozenset[str]:
        """Results that are read outside the group."""
        outside = (n for n in self.maps if not self.members.issuperset(self.g.readers.get(n, ())))
        return frozenset({*outside, *(n for n in self.maps if n in self.outputs or n in self.in_place)})

    def _candidates(self, node: l1.Map) -> list[int]:
        """Later nodes, in order, that read the result of `node` or a whole tensor that it reads; each once."""
        names = (node.out.name, *whole_operands(node))
        found = sorted({at for n in names for at in self.g.readers.get(n, ()) if at > self.i} - self.seen)
        self.seen.update(found)
        return found

    def _refusal(self, at: int, reader: l1.Map) -> str | None:
        """Why `reader`, node number `at`, cannot join."""
        name = reader.out.name
        if name.endswith(AGAIN) and not next(iter(self.maps)).endswith(AGAIN):
            return "it is computed again later, so that nothing keeps it"
        if has_random(reader.body):
            return "it draws random numbers"
        whole = whole_operands(reader)
        for operand in reader.ins:
            if operand in self.maps and (operand not in whole or reader.ins.count(operand) > 1):
                return f"it does not read {operand} element by element"
        operands = {n for m in self.maps.values() for n in m.ins}
        if len(operands | {*self.maps, *reader.ins, name}) > MOST_ARRAYS:
            return "the kernel would touch too many arrays"
        target = self.in_place.get(name)
        if target is not None and read_elsewhere(self.g, self.i, operands, reader, target):
            return f"it writes {target}, which something else reads"
        if at - self.i > NEAR and _size(reader.out) > sum(self._ended(n, at) for n in {*reader.ins}):
            return "its result would be kept for longer"
        return None

    def _ended(self, name: str, at: int) -> int:
        """The size of a tensor whose only readers are the group and node number `at`, so that its lifetime ends here;
        else 0."""
        kept = self.g.place[name] < 0 or name in self.outputs
        alone = self.members.issuperset(other for other in self.g.readers[name] if other != at)
        return _size(self.g.tensors[name]) if alone and not kept else 0


def whole_operands(node: l1.Map) -> list[str]:
    """Operands that are read elementwise."""
    axes = tuple(range(len(node.out.shape)))
    return [name for name, walked in zip(node.ins, node.maps, strict=True) if walked == axes and axes]


def same_space(a: l1.Tensor, b: l1.Tensor) -> bool:
    return a.shape == b.shape and a.batched == b.batched


def _size(tensor: l1.Tensor) -> int:
    return prod(tensor.shape)
