"""fuse_epilogues: elementwise Maps that follow a Contract, a Gather or a Move become the epilogue of its kernel, which
may have several outputs.

Assumes: nodes in topological order.
Guarantees: a Map is fused when it reads the contraction's result, or an already fused Map, elementwise, and its other
operands are computed before it; every refusal is a Decision with its reason.
Does not: change the graph: lower_tensors uses the groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

import compiler.ir.level1.graph as l1
from compiler.passes.program.decisions import Decision
from compiler.strategies.pins import AGAIN

Ended = l1.Contract | l1.Gather | l1.ScatterAdd | l1.Move
"""Nodes whose kernels may have an epilogue; that of a ScatterAdd has none, and says why."""

MOST_ARRAYS = 8
"""Arrays that an epilogue touches beside the operands of its contraction; more would spill registers."""


@dataclass(frozen=True)
class Epilogue:
    """`maps` in order: each reads the contraction's result, or an earlier map, elementwise. `kept`: names of the
    results (the contraction's or those of maps) that are stored because other kernels read them."""

    maps: tuple[l1.Map, ...]
    kept: frozenset[str]


@dataclass
class Readers:
    """`readers` of each tensor, by number. `place`: the node that computes a tensor, by number, -1 for tensors that
    exist before the phase begins."""

    nodes: tuple[l1.Node, ...]
    readers: dict[str, list[int]] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, l1.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.readers |= l1.readers_of(self.nodes)
        for i, node in enumerate(self.nodes):
            for out in l1.results(node):
                self.tensors[out.name] = out
                self.place[out.name] = -1 if isinstance(node, (l1.Weight, l1.Variable)) else i
                if isinstance(node, l1.TileSum):  # the product's kernel computes it
                    self.place[out.name] = self.place[node.product]


def epilogues(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], in_place: Mapping[str, str]
) -> tuple[dict[str, Epilogue], list[Decision]]:
    """Contract's tensor -> its epilogue; and the decision about each candidate. `in_place`: map -> the variable that it
    writes."""
    g = Readers(nodes)
    fused: dict[str, Epilogue] = {}
    decisions: list[Decision] = []
    for i, node in enumerate(nodes):
        if not isinstance(node, Ended):
            continue
        name = node.out.name
        group: dict[str, l1.Map] = {}
        members = {i}
        waiting = list(dict.fromkeys(g.readers.get(name, ())))
        seen = set(waiting)
        heapq.heapify(waiting)
        while waiting:
            at = heapq.heappop(waiting)
            reader = nodes[at]
            if not isinstance(reader, l1.Map):
                continue
            reason = _refusal(g, i, node, group, reader, in_place.get(reader.out.name))
            if reason is None:
                group[reader.out.name] = reader
                members.add(at)
                decisions.append(Decision("fuse_epilogues", reader.out.name, "fused", f"into {name}"))
                for further in g.readers.get(reader.out.name, ()):
                    if further not in seen:
                        seen.add(further)
                        heapq.heappush(waiting, further)
            else:
                subject = name if name in reader.ins else reader.out.name
                decisions.append(Decision("fuse_epilogues", subject, "not fused", reason))
        for n in group:
            g.place[n] = i
        if group:
            results = (name, *group)
            kept = {n for n in results if n in outputs or not members.issuperset(g.readers.get(n, ()))}
            fused[name] = Epilogue(tuple(group.values()), frozenset(kept | (in_place.keys() & group.keys())))
    return fused, decisions


def _refusal(
    g: Readers, i: int, node: Ended, group: Mapping[str, l1.Map], reader: l1.Map, target: str | None
) -> str | None:
    """Why `reader` cannot join the epilogue of `node` (number i) with `group`; `target`: the variable that it
    writes."""
    name = reader.out.name
    if isinstance(node, l1.ScatterAdd):
        return f"{node.out.name} is complete after all additions to its rows only"
    if name.endswith(AGAIN) and not node.out.name.endswith(AGAIN):
        return f"{name} is computed again later, so that nothing keeps it"
    same = tuple(range(len(reader.out.shape)))
    for operand, axes in zip(reader.ins, reader.maps, strict=True):
        if operand == node.out.name or operand in group:
            if axes != same:
                return f"{name} does not read {operand} element by element"
        elif g.place[operand] > i:
            return f"{name} needs {operand}, which is made later"
    arrays = {n for m in (*group.values(), reader) for n in (*m.ins, m.out.name)}
    if len(arrays) > MOST_ARRAYS:
        return f"with {name} the kernel would touch too many arrays"
    if target is not None and read_elsewhere(
        g, i, {*l1.operands(node), *(n for m in group.values() for n in m.ins)}, reader, target
    ):
        return f"{name} writes {target}, which something else reads"
    return None


def read_elsewhere(g: Readers, i: int, operands_of_kernel: set[str], reader: l1.Map, target: str) -> bool:
    """Whether the old value of the variable `target` is read in the kernel by others than `reader`, or after node i."""
    if target in operands_of_kernel:
        return True
    later = [g.nodes[at] for at in g.readers.get(target, ()) if at > i or isinstance(g.nodes[at], l1.Reindex)]
    return any(n is not reader for n in later)
