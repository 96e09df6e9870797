"""fuse_sums: independent reductions over the same elements become one kernel with several sums.

Assumes: nodes in topological order, and the epilogues chosen by fuse_epilogues.
Guarantees: a reduction joins an earlier one when both read one tensor of which each point of their space is another
element, have the same dims, result axes and combination, and whatever else the later one and its epilogue read is
computed before the earlier one, which the later one does not read. Each sum keeps its order. Refusals are Decisions.
Does not: join contractions that a strategy computes, or change the graph: lower_tensors uses the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import compiler.ir.level1.graph as l1
from compiler.expr.ast import refs
from compiler.ir.space import Affine, plain_dim
from compiler.passes.fusion.fuse_epilogues import Epilogue, Readers, read_elsewhere
from compiler.passes.fusion.horizontal_fusion import MOST_ARRAYS
from compiler.passes.program.decisions import Decision
from compiler.strategies.pins import AGAIN

Operand = tuple[str, tuple[Affine, ...]]


@dataclass(frozen=True)
class JoinedSums:
    """`groups`: the first reduction of each kernel -> the others, in order; `fused`: the epilogues of all contractions,
    of a group by its first one."""

    groups: Mapping[str, tuple[l1.Contract, ...]]
    fused: Mapping[str, Epilogue]


def joined_sums(
    nodes: tuple[l1.Node, ...],
    outputs: tuple[str, ...],
    in_place: Mapping[str, str],
    fused: Mapping[str, Epilogue],
    is_plain: Callable[[l1.Contract], bool],
) -> tuple[JoinedSums, list[Decision]]:
    """The kernels of several sums; and the decision about each candidate. `in_place`: map -> the variable that it
    writes; `fused`: the epilogues; `is_plain`: whether no strategy computes a contraction."""
    search = _Search(Readers(nodes), outputs, in_place, fused, is_plain, {}, dict(fused), [])
    taken: set[str] = set()
    for i, node in enumerate(nodes):
        if isinstance(node, l1.Contract) and node.out.name not in taken:
            taken.update(search.grow(i, node, taken))
    return JoinedSums(search.groups, search.joined), search.decisions


def whole_operands(node: l1.Contract) -> list[Operand]:
    """Operands of which each point of the iteration space is another element."""
    found = []
    for name, axes in zip(node.ins, node.in_maps, strict=True):
        dims = [plain_dim(a) for a in axes]
        if None not in dims and {*dims} == {d for d, _ in node.dims} and len(dims) == len(node.dims):
            found.append((name, axes))
    return found


@dataclass
class _Search:
    g: Readers
    outputs: tuple[str, ...]
    in_place: Mapping[str, str]
    fused: Mapping[str, Epilogue]
    is_plain: Callable[[l1.Contract], bool]
    groups: dict[str, tuple[l1.Contract, ...]]
    joined: dict[str, Epilogue]
    decisions: list[Decision]

    def __post_init__(self) -> None:
        for name, end in self.fused.items():
            self.g.place |= dict.fromkeys((m.out.name for m in end.maps), self.g.place[name])

    def grow(self, i: int, first: l1.Contract, taken: set[str]) -> list[str]:
        """Joins all reductions that can with `first`, node number `i`: their names."""
        shared = whole_operands(first)
        later = sorted({at for name, _ in shared for at in self.g.readers.get(name, ()) if at > i})
        group: list[l1.Contract] = []
        for at in later:
            other = self.g.nodes[at]
            if not isinstance(other, l1.Contract) or other.out.name in taken or not _alike(first, other):
                continue
            common = [name for name, axes in whole_operands(other) if (name, axes) in shared]
            if not common or not (self._is_sum(first) and self._is_sum(other)):
                continue
            name = other.out.name
            if reason := self._refusal(i, [first, *group], other):
                self.decisions.append(Decision("fuse_sums", name, "not fused", f"with {first.out.name}: {reason}"))
                continue
            why = f"both sum over {common[0]}"
            self.decisions.append(Decision("fuse_sums", name, f"shares the kernel of {first.out.name}", why))
            group.append(other)
            self._join(first, other)
            self.g.place |= dict.fromkeys((n.name for n in self._results(other)), i)
        if group:
            self.groups[first.out.name] = tuple(group)
        return [node.out.name for node in group]

    def _is_sum(self, node: l1.Contract) -> bool:
        tensors = [self.g.tensors[name] for name in node.ins]
        return node.out.dtype == "real" and all(t.dtype != "int" for t in tensors) and self.is_plain(node)

    def _join(self, first: l1.Contract, other: l1.Contract) -> None:
        """One epilogue of both."""
        ends = [self.joined.get(node.out.name, Epilogue((), frozenset({node.out.name}))) for node in (first, other)]
        self.joined.pop(other.out.name, None)
        kept = ends[0].kept | ends[1].kept
        self.joined[first.out.name] = Epilogue((*ends[0].maps, *ends[1].maps), kept)

    def _results(self, node: l1.Contract) -> tuple[l1.Tensor, ...]:
        end = self.fused.get(node.out.name)
        return (node.out, *(m.out for m in (end.maps if end is not None else ())))

    def _refusal(self, i: int, group: list[l1.Contract], other: l1.Contract) -> str | None:
        """Why `other` cannot join the kernel of `group`, which runs as node number `i`."""
        if other.out.name.endswith(AGAIN) and not group[0].out.name.endswith(AGAIN):
            return "it is computed again later, so that nothing keeps it"
        made = {t.name for node in group for t in self._results(node)}
        late = [n for n in other.ins if n in made or self.g.place[n] >= i]
        maps = self.fused[other.out.name].maps if other.out.name in self.fused else ()
        own = {other.out.name, *(m.out.name for m in maps)}
        late += [n for m in maps for n in m.ins if n not in made | own and self.g.place[n] >= i]
        if late:
            return f"it needs {late[0]}, which is made later"
        same = tuple(range(len(other.out.shape)))
        for m in maps:
            if across := [n for n, axes in zip(m.ins, m.maps, strict=True) if n in made and axes != same]:
                return f"{m.out.name} does not read {across[0]} element by element"
        end = self.joined.get(group[0].out.name)
        operands = {n for node in group for n in node.ins} | {n for m in (end.maps if end else ()) for n in m.ins}
        if len(operands | made | {*other.ins} | own | {n for m in maps for n in m.ins}) > MOST_ARRAYS:
            return "the kernel would touch too many arrays"
        for m in maps:
            target = self.in_place.get(m.out.name)
            if target is not None and read_elsewhere(self.g, i, operands | {*other.ins}, m, target):
                return f"it writes {target}, which something else reads"
        return None


def _alike(first: l1.Contract, other: l1.Contract) -> bool:
    """Whether two reductions have the same loops: everything but the term."""
    same = loops_of(first) == loops_of(other) and first.combine == other.combine
    return same and reads_plainly(first) and reads_plainly(other)


def reads_plainly(node: l1.Contract) -> bool:
    """Whether every index is a plain dim, and the term reads none."""
    return node.walks_plainly and not refs(node.body) & {d for d, _ in node.dims}


def loops_of(node: l1.Contract) -> tuple[object, ...]:
    """What reductions have in common that run in the same loops."""
    return node.dims, node.out_map, node.fill, node.out.shape, node.out.batched
