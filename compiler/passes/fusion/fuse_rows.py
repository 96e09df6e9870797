"""fuse_rows: reductions of rows, reductions that read their results, and elementwise work on the rows become one
kernel (a normalisation: mean, variance and standardized elements).

Assumes: nodes in topological order; the kernels that fuse_epilogues, fuse_sums and horizontal_fusion chose.
Guarantees: a kernel begins with reductions of a tensor whose every element is a term of one result, and its threads
share such a row (`fits`). Reductions with the same loops join where they read its results or the same tensor; then
elementwise work over the tensor's elements, which may begin with a Contract that sums nothing (it reads indices: a
choice by class). So does a reduction over windows side by side (pooling_gradient.py), which the choice of an element in
each joins. Whatever else they read is
computed before the first reduction, where the kernel runs. Refusals are Decisions.
Does not: join reductions that a strategy computes, or change the graph: lower_tensors uses the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import compiler.ir.level1.graph as l1
from compiler.ir.level2.target import Target
from compiler.ir.space import Affine, along, plain_dim
from compiler.passes.fusion.fuse_epilogues import Epilogue, Readers, read_elsewhere
from compiler.passes.fusion.fuse_sums import JoinedSums, loops_of, reads_plainly, whole_operands
from compiler.passes.fusion.horizontal_fusion import MOST_ARRAYS
from compiler.passes.fusion.pooling_gradient import scattered, tiles
from compiler.passes.program.decisions import Decision
from compiler.strategies.cost import cuda as cost
from compiler.strategies.pins import AGAIN


def fits(node: l1.Contract, device: Target) -> bool:
    """Whether a reduction is of rows that a thread, a warp or a block may have, whose terms no blocks share: of
    neighbours, along one dim or all but that of channels; or, where no operand is read whole, over windows. Short ones
    have a thread each, where that costs less than a launch."""
    kept = {a.terms[0][0] for a in node.out_map}
    if not whole_operands(node):
        return True
    red = [n for d, n in node.dims if d not in kept]
    rows, terms = prod(n for d, n in node.dims if d in kept), prod(red)
    if not red or plain_dim(whole_operands(node)[0][1][-1]) in kept:
        return False
    few = rows * terms <= cost.at_once(device, cost.POINT_THREADS)
    return terms <= cost.LONG_SUM * (4 if len(red) == 1 else 1) and (terms >= device.warp or few)


@dataclass(frozen=True)
class Stage:
    """Reductions in the same loops, and their epilogue."""

    sums: tuple[l1.Contract, ...]
    end: Epilogue


@dataclass(frozen=True)
class Row:
    """The kernel's stages, and the elementwise work after them, which may begin with a `choice`, a Contract that sums
    nothing; `kept`: results that are stored."""

    stages: tuple[Stage, ...]
    maps: tuple[l1.Map, ...]
    kept: frozenset[str]
    choice: l1.Contract | None = None

    @property
    def all_maps(self) -> tuple[l1.Map, ...]:
        return (*(m for s in self.stages for m in s.end.maps), *self.maps)

    @property
    def sums(self) -> tuple[l1.Contract, ...]:
        return tuple(node for s in self.stages for node in s.sums)

    @property
    def contracts(self) -> tuple[l1.Contract, ...]:
        return self.sums if self.choice is None else (*self.sums, self.choice)

    @property
    def nodes(self) -> tuple[l1.Contract | l1.Map, ...]:
        return (*self.contracts, *self.all_maps)


def rows(
    nodes: tuple[l1.Node, ...],
    outputs: tuple[str, ...],
    in_place: Mapping[str, str],
    joined: JoinedSums,
    groups: Mapping[str, Epilogue],
    may_begin: Callable[[l1.Contract], bool],
    is_plain: Callable[[l1.Contract], bool],
) -> tuple[dict[str, Row], list[Decision]]:
    """The first reduction of each kernel of rows -> the kernel; and the decisions. `joined`, `groups`: the kernels of
    reductions and of maps; `may_begin`: whether threads share a row of a reduction; `is_plain`: whether no strategy
    computes it."""
    search = _Search(Readers(nodes), outputs, in_place, joined, groups, is_plain)
    for i, node in enumerate(nodes):
        if not isinstance(node, l1.Contract) or node.out.name in search.taken or node.out.name in search.beside:
            continue
        if not may_begin(node) or not is_plain(node):
            continue
        if whole_operands(node) and reads_plainly(node):
            search.grow(i, node)
        elif tiles(node, search.g.tensors):
            search.spread(i, node)
    return search.found, search.decisions


class _Search:
    def __init__(
        self,
        g: Readers,
        outputs: tuple[str, ...],
        in_place: Mapping[str, str],
        joined: JoinedSums,
        groups: Mapping[str, Epilogue],
        is_plain: Callable[[l1.Contract], bool],
    ) -> None:
        self.g, self.outputs, self.in_place, self.joined = g, outputs, in_place, joined
        self.groups, self.is_plain = groups, is_plain
        self.decisions: list[Decision] = []
        self.found: dict[str, Row] = {}
        self.taken: set[str] = set()
        self.beside = {node.out.name for group in joined.groups.values() for node in group}
        self.number = {node.out.name: at for at, node in enumerate(g.nodes) if hasattr(node, "out")}
        self.kernel = {m.out.name: name for ends in (joined.fused, groups) for name, e in ends.items() for m in e.maps}
        for name, end in (*joined.fused.items(), *groups.items()):
            g.place |= dict.fromkeys((m.out.name for m in end.maps), g.place[name])
        for name, more in joined.groups.items():
            g.place |= {node.out.name: g.place[name] for node in more}

    def stage(self, node: l1.Contract) -> Stage:
        name = node.out.name
        end = self.joined.fused.get(name, Epilogue((), frozenset({name})))
        return Stage((node, *self.joined.groups.get(name, ())), end)

    def grow(self, i: int, first: l1.Contract) -> None:
        """The kernel that begins with `first`, node number `i`, if anything follows it there."""
        stages, made = [self.stage(first)], names_of(self.stage(first))
        for at in self.later(i, first, made):
            other = self.g.nodes[at]
            if not isinstance(other, l1.Contract) or not self._follows(first, other):
                continue
            more = self.stage(other)
            if not _at_rows(first, made, more.sums, more.end.maps, _dims(first.out_map)):
                continue
            if self._joins(i, first, other.out.name, stages, more.sums, more.end.maps):
                stages = _with(stages, more)
                made |= names_of(more)
        choice, maps = self._elementwise(i, first, stages, made)
        if maps or len(stages) > 1:
            self._finish(i, Row(tuple(stages), maps, frozenset(), choice))

    def later(self, i: int, first: l1.Contract, made: Iterable[str]) -> list[int]:
        """Nodes behind number `i` that read the tensor of `first`, what is made, or what that makes, in order."""
        found: set[int] = set()
        waiting = [whole_operands(first)[0][0], *made]
        while waiting:
            for at in self.g.readers.get(waiting.pop(), ()):
                node = self.g.nodes[at]
                if at > i and at not in found:
                    found.add(at)
                    waiting += [node.out.name] if isinstance(node, l1.Contract) else []
        return sorted(found)

    def spread(self, i: int, first: l1.Contract) -> None:
        """The kernel of `first`, a reduction over windows side by side, of another one that reads its result, and of a
        gradient that chooses in each."""
        stage = self.stage(first)
        for at in sorted({at for name in names_of(stage) for at in self.g.readers.get(name, ()) if at > i}):
            node = self.g.nodes[at]
            if not isinstance(node, l1.Contract) or node.out.name in self.joined.groups or not self.is_plain(node):
                continue
            if node.out.windows:
                continue
            if self._alike(first, node) and self._joins(i, first, node.out.name, [stage], (node,), ()):
                return self._finish(i, Row((stage, self.stage(node)), (), frozenset()))
            name, choice = node.out.name, scattered(first, node, self.g.tensors)
            maps = self.joined.fused[name].maps if name in self.joined.fused else ()
            if choice is not None and self._joins(i, first, name, [stage], (choice,), maps):
                return self._finish(i, Row((stage,), maps, frozenset(), choice))

    def _alike(self, first: l1.Contract, other: l1.Contract) -> bool:
        """Whether another reduction walks the same windows, without an epilogue."""
        alone = self._has_loops_of(first, other) and other.out.name not in self.joined.fused
        return alone and tiles(other, self.g.tensors) == tiles(first, self.g.tensors)

    def _has_loops_of(self, first: l1.Contract, other: l1.Contract) -> bool:
        return other.out.name not in self.taken and loops_of(first) == loops_of(replace(other, fill=first.fill))

    def _follows(self, first: l1.Contract, other: l1.Contract) -> bool:
        alone = self._has_loops_of(first, other) and other.out.name not in self.beside
        return alone and other.walks_plainly and self.is_plain(other)

    def _elementwise(
        self, i: int, first: l1.Contract, stages: list[Stage], made: set[str]
    ) -> tuple[l1.Contract | None, tuple[l1.Map, ...]]:
        """The first elementwise kernel over the elements of the rows that reads what is made."""
        walk = _dims(whole_operands(first)[0][1])
        shape = tuple(dict(first.dims)[d or ""] for d in walk)
        for at in sorted({at for name in made for at in self.g.readers.get(name, ()) if at > i}):
            reader = self.g.nodes[at]
            if not isinstance(reader, l1.Map) or reader.out.name in made or reader.out.shape != shape:
                continue
            if reader.out.batched is not self._batched(first):
                continue
            name, choice, maps = self._kernel_of(first, reader)
            sums = () if choice is None else (choice,)
            if not _at_rows(first, made, sums, maps, walk):
                continue
            if maps and name not in self.taken and self._joins(i, first, name, stages, sums, maps):
                return choice, maps
        return None, ()

    def _kernel_of(self, first: l1.Contract, reader: l1.Map) -> tuple[str, l1.Contract | None, tuple[l1.Map, ...]]:
        """The elementwise kernel that a map is in: its first result, the Contract that sums nothing with which it
        begins, and its maps (none: the map is in another kernel)."""
        name = self.kernel[reader.out.name]
        if name in self.groups:
            return name, None, self.groups[name].maps
        node = self.g.nodes[self.number[name]]
        if not isinstance(node, l1.Contract) or name in self.joined.groups:
            return name, None, ()
        if not _is_choice(first, node) or not self.is_plain(node):
            return name, None, ()
        return name, node, self.joined.fused[name].maps

    def _batched(self, first: l1.Contract) -> bool:
        return self.g.tensors[whole_operands(first)[0][0]].batched

    def _joins(
        self,
        i: int,
        first: l1.Contract,
        name: str,
        stages: list[Stage],
        sums: tuple[l1.Contract, ...],
        maps: tuple[l1.Map, ...],
    ) -> bool:
        """Whether sums and maps join the kernel of `first`, node number `i`; and the decision."""
        row = Row(tuple(stages), (), frozenset())
        made = {n.out.name for n in row.nodes}
        new: tuple[l1.Contract | l1.Map, ...] = (*sums, *maps)
        own = {n.out.name for n in new}
        reason = None
        late = [n for x in sums for n in x.ins if n not in made and self.g.place[n] >= i]
        late += [n for x in maps for n in x.ins if n not in made | own and self.g.place[n] >= i]
        operands = {n for x in row.nodes for n in x.ins}
        touched = operands | {n for x in new for n in x.ins} | made | own
        written = [m for m in maps if m.out.name in self.in_place]
        changed = [n for x in new for n in x.ins if n in made and n in self.in_place]
        if late:
            reason = f"it needs {late[0]}, which is made later"
        elif changed:
            reason = f"it reads {changed[0]}, which is written where its old value was"
        elif len((touched - made - own) | self._stored(made | own)) > MOST_ARRAYS:
            reason = "the kernel would touch too many arrays"
        elif any(n.endswith(AGAIN) for n in own) and not first.out.name.endswith(AGAIN):
            reason = "it is computed again later, so that nothing keeps it"
        elif any(read_elsewhere(self.g, i, operands, m, self.in_place[m.out.name]) for m in written):
            reason = "it writes what something else reads"
        if reason is not None:
            self.decisions.append(Decision("fuse_rows", name, "not fused", f"with {first.out.name}: {reason}"))
            return False
        self.decisions.append(Decision("fuse_rows", name, "fused", f"into the kernel of {first.out.name}"))
        return True

    def _stored(self, made: set[str]) -> set[str]:
        """Results that something else reads."""
        inside = {self.number[n] for n in made}
        read = {n for n in made if not inside.issuperset(self.g.readers.get(n, ()))}
        return read | {n for n in made if n in self.outputs or n in self.in_place}

    def _finish(self, i: int, row: Row) -> None:
        """A kernel, node number `i`, with what it stores."""
        made = {n.out.name for n in row.nodes}
        self.found[row.sums[0].out.name] = replace(row, kept=frozenset(self._stored(made)))
        self.taken |= made
        self.g.place |= dict.fromkeys(made, i)


def _is_choice(first: l1.Contract, node: l1.Contract) -> bool:
    """Whether a Contract sums nothing, over the elements of the rows of `first`."""
    same = node.dims == first.dims and node.out_map == whole_operands(first)[0][1]
    return same and len(node.out_map) == len(node.dims) and node.walks_plainly and node.out.dtype == "real"


def _dims(axes: Iterable[Affine]) -> tuple[str | None, ...]:
    return tuple(plain_dim(a) for a in axes)


def _at_rows(
    first: l1.Contract,
    made: Collection[str],
    sums: Iterable[l1.Contract],
    maps: Iterable[l1.Map],
    walk: tuple[str | None, ...],
) -> bool:
    """Whether a row reads of what is `made` what it has made itself, not what another one has: along the same dims,
    whatever their extents. `walk`: the dims of the axes of `maps`."""
    read = [(n, _dims(axes)) for x in sums for n, axes in zip(x.ins, x.in_maps, strict=True)]
    for x in maps:
        read += [
            (n, tuple(None if a is None else walk[a] for a in axes)) for n, axes in zip(x.ins, x.maps, strict=True)
        ]
    rows = _dims(first.out_map)
    return all(d in (None, own) for n, dims in read if n in made for d, own in zip(dims, rows, strict=True))


def _with(stages: list[Stage], more: Stage) -> list[Stage]:
    """The stages and one more, which shares the loop of the last one where it reads nothing of it."""
    *before, last = stages
    read = {n for x in more.sums for n in x.ins}
    if last.sums[0].combine != more.sums[0].combine or read & names_of(last):
        return [*stages, more]
    end = Epilogue((*last.end.maps, *more.end.maps), last.end.kept | more.end.kept)
    return [*before, Stage((*last.sums, *more.sums), end)]


def names_of(stage: Stage) -> set[str]:
    """All results of a stage."""
    return {n.name for n in (*(x.out for x in stage.sums), *(m.out for m in stage.end.maps))}


def elements_of(row: Row) -> tuple[Affine, ...]:
    """How the elementwise work of a row is walked."""
    if row.choice is not None or not row.maps:
        return row.choice.out_map if row.choice is not None else ()
    return tuple(along(plain_dim(a) or "") for a in whole_operands(row.sums[0])[0][1])
