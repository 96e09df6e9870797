"""place_parts: concatenations, slices and orders of steps without copies: a part lies in its whole (l1.Tensor.whole,
l2.Array.within).

Assumes: nodes in topological order, and the kernels that the passes of compiler/passes/fusion chose, before arrays are
reused.
Guarantees: what a concatenation joins is computed in its place in the result, a slice, or a reshape of one, is read
where it lies, and sequences are made, or read, in the order of steps, where all kernels that make or read them go
through strides: those of maps, moves and generic nests do, of strategies those that say so. Then there is no copy.
Results are the same bits: strategies, and the loops of sums, are those that there are without.
Does not: place what a library or the copy engine reads, or what another contraction is computed from; join what
attention reads; on a GPU place what each step of a Scan reads, which chains fetch ahead from where samples are side by
side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from math import prod

import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.layout.assign_layouts import strides_of
from compiler.passes.fusion.fuse_epilogues import Readers
from compiler.passes.kernels.lower_scan import by_steps
from compiler.passes.kernels.tensor_phase import Phase, Place
from compiler.passes.program.decisions import Decision
from compiler.strategies import Choice
from compiler.strategies.choice import LIMIT
from compiler.strategies.cuda.fused_attention import ALIGNED
from compiler.strategies.variants import TUNED

Made = l1.Map | l1.Contract | l1.Gather | l1.Move
Kept = l1.Weight | l1.Variable


def joined_along(node: l1.Move, tensors: Mapping[str, l1.Tensor]) -> int | None:
    """The axis along which a Move puts its operands side by side, in order; None where it does anything else."""
    parts = [(tensors[n], at) for n, at in zip(node.ins, node.offsets, strict=True)]
    axes = [a for a, extent in enumerate(node.out.shape) if any(t.shape[a] != extent for t, _ in parts)]
    if len(parts) < 2 or len(axes) != 1:
        return None
    (axis,), done = axes, 0
    for tensor, at in parts:
        if at[axis] != -done or any(x for a, x in enumerate(at) if a != axis):
            return None
        done += tensor.shape[axis]
    return axis if done == node.out.shape[axis] else None


def place_parts(
    p: Phase,
    nodes: tuple[l1.Node, ...],
    fixed: Set[str],
    ended: Set[str],
    strides: Callable[[str], bool],
    choose: Callable[[l1.Contract], Choice | None],
) -> None:
    """Reserves the places of all parts in the phase. `fixed`: tensors that have an array of their own; `ended`: those
    whose kernels have an epilogue; `strides`: whether the kernel of a tensor writes it element by element; `choose`:
    the strategy of a contraction."""
    placing = _Placing(p, Readers(nodes), fixed, ended, strides, choose)
    moves = [n for n in nodes if isinstance(n, l1.Move) and n.out.name not in ended | fixed | p.places.keys()]
    for node in reversed(moves):  # a whole before its parts, which may be joined, too
        placing.join(node)
    for each in nodes:
        if isinstance(each, l1.StepsFirst) and not each.back and each.out.name not in fixed:
            placing.steps(each)
    for each in nodes:
        if isinstance(each, l1.StepsFirst) and each.back:
            placing.view(each, (), by_steps(p.tensors[each.source], each.out))
        elif isinstance(each, l1.Move) and each in moves:
            placing.slice(each)


@dataclass
class _Placing:
    p: Phase
    g: Readers
    fixed: Set[str]
    ended: Set[str]
    strides: Callable[[str], bool]
    choose: Callable[[l1.Contract], Choice | None]
    made: dict[str, l1.Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made = {out.name: node for node in self.g.nodes for out in l1.results(node)}

    def join(self, node: l1.Move) -> None:
        """A concatenation."""
        axis = joined_along(node, self.p.tensors)
        if axis is None:
            return
        whole = self.p.tensors[node.out.name]
        found: dict[str, l1.Tensor] = {}
        for name in node.ins:
            made = self._part(name, whole, node) if node.ins.count(name) == 1 else None
            if made is None:
                self._decide(node, "copied", f"{name} is made or read in ways that need its elements side by side")
                return
            found |= made
        array = self.p.arrays[node.out.name] = self.p.temporary(node.out, node.span)
        at_first = self.p.places.get(node.out.name, Place(array, 0))
        for name, at in zip(node.ins, node.offsets, strict=True):
            first = at_first.first - at[axis] * strides_of(whole, self.p.lanes)[axis]
            self.p.places[name] = Place(at_first.within, first)
        self.p.joined.add(node.out.name)
        self._place(node, found, "its parts are computed there")
        self.p.held |= {node.out.name, *node.ins}

    def _part(self, name: str, whole: l1.Tensor, into: l1.Node) -> dict[str, l1.Tensor] | None:
        """What is computed in a result, that of `into`, and its reshapes, as they lie there."""
        node, tensor = self.made[name], self.p.tensors[name]
        free = name not in self.fixed | self.p.places.keys() | self.p.joined and name not in self.p.graph.outputs
        if not isinstance(node, Made) or not free or not self.strides(name):
            return None
        found = self._read(tensor, whole, into)
        return None if found is None or self._attended(found) else found

    def slice(self, node: l1.Move) -> None:
        (source, *others), shape = node.ins, node.out.shape
        whole = self.p.tensors[source]
        inside = all(0 <= at <= e - n for at, e, n in zip(node.offsets[0], whole.shape, shape, strict=True))
        if not others and inside and not (self.p.lanes and whole.batched and shape[0] != whole.shape[0]):
            self.view(node, node.offsets[0], whole)

    def view(self, node: l1.Move | l1.StepsFirst, at: tuple[int, ...], whole: l1.Tensor) -> None:
        """What lies in its operand, from that element on."""
        name, base = node.out.name, self._bases(whole.name)
        if name in self.fixed | self.p.places.keys() | self.p.joined | {*self.p.graph.outputs}:
            return
        found, by = self._read(node.out, whole), strides_of(whole, self.p.lanes)
        first = sum(x * step for x, step in zip(at, by, strict=False))
        if found is None or isinstance(self.made[base[-1]], Kept) or self.fixed & {*base}:
            self._decide(node, "copied", f"{name} is read in ways that need its elements side by side")
            return
        if self._attended(found) and (first % ALIGNED or self._first(whole.name) % ALIGNED):
            self._decide(node, "copied", f"attention reads {ALIGNED} elements of {name} at a time")
            return
        self.p.slices[name] = first
        self._place(node, found, f"it is read in {whole.name}")
        self.p.held |= {*base, *found}

    def steps(self, node: l1.StepsFirst) -> None:
        """The samples of steps, which are made in their order."""
        rows = by_steps(node.out, self.p.tensors[node.source])
        found = self._part(node.source, rows, node)
        if found is None or node.out.name in {*self.p.graph.outputs, *self.p.places}:
            self._decide(node, "copied", f"{node.source} is made or read in ways that need its elements in order")
            return
        self.p.arrays[node.out.name] = self.p.temporary(node.out, node.span)
        self.p.places[node.source] = Place(self.p.arrays[node.out.name], 0)
        self.p.joined.add(node.out.name)
        self._place(node, found, f"{node.source} is made there")
        self.p.held |= {node.out.name, node.source}

    def _attended(self, found: Mapping[str, l1.Tensor]) -> bool:
        """Whether attention reads one of these."""
        readers = (self.g.nodes[at] for name in found for at in self.g.readers.get(name, ()))
        return any(isinstance(x, l1.Attention) for x in readers)

    def _first(self, name: str) -> int:
        """The first element of a tensor in its array."""
        for base in self._bases(name):
            if base in self.p.places:
                return self.p.places[base].first
            node = self.made[base]
            if base in self.p.slices and isinstance(node, l1.Move | l1.StepsFirst):
                return self.p.slices[base] + self._first(l1.operands(node)[0])
        return 0

    def _bases(self, name: str) -> tuple[str, ...]:
        """A tensor, and those that it is a reshape of."""
        node = self.made[name]
        return (name, *self._bases(node.source)) if isinstance(node, l1.Reindex) else (name,)

    def _place(self, node: l1.Move | l1.StepsFirst, found: Mapping[str, l1.Tensor], why: str) -> None:
        self.p.tensors |= found
        self._decide(node, "in place", why)

    def _decide(self, node: l1.Move | l1.StepsFirst, verdict: str, why: str) -> None:
        self.p.decisions.append(Decision("place_parts", f"{self.p.graph.phase}: {node.out.name}", verdict, why))

    def _read(self, part: l1.Tensor, whole: l1.Tensor, into: l1.Node | None = None) -> dict[str, l1.Tensor] | None:
        """A part and its reshapes as they lie in the array of the whole, if all that reads them can."""
        if (part.dtype, part.batched) != (whole.dtype, whole.batched) or part.windows or whole.windows:
            return None
        extents = whole.whole or whole.shape
        if part.pitch or part.panel or whole.pitch or whole.panel or prod(extents) >= LIMIT:
            return None
        placed = replace(part, whole=() if extents == part.shape else extents, steps_first=whole.steps_first)
        return self._readable(placed, into)

    def _readable(self, tensor: l1.Tensor, into: l1.Node | None = None) -> dict[str, l1.Tensor] | None:
        """The tensor and its reshapes as they lie there, if all that reads them can."""
        found = {tensor.name: tensor}
        for at in self.g.readers.get(tensor.name, ()):
            match self.g.nodes[at]:
                case l1.Map() | l1.Move() | l1.Gather() | l1.ScatterAdd():
                    pass
                case l1.StepsFirst() as node if node is into:
                    pass
                case l1.Scan() as scan if not self.p.rows and _only_given(scan, tensor.name):
                    parts = [g.part for g in scan.given if g.whole == tensor.name]
                    found |= {t.name: replace(t, whole=(*t.shape[:1], *tensor.whole[1:])) for t in parts}
                case l1.Contract() as node if self._sums(node, tensor):
                    pass
                case l1.Attention() as node if tensor.name in node.ins[:3] and _heads(tensor):
                    pass
                case l1.Reindex(out) if out.name not in self.fixed | {*self.p.graph.outputs}:
                    extents = reshaped(tensor, out.shape)
                    whole = () if extents == out.shape else extents
                    placed = replace(out, whole=whole, steps_first=tensor.steps_first)
                    others = self._readable(placed) if extents else None
                    if others is None:
                        return None
                    found |= others
                case _:
                    return None
        return found

    def _sums(self, node: l1.Contract, tensor: l1.Tensor) -> bool:
        """Whether a contraction reads the tensor by the same strategy, or nest, with the same loops over its terms."""
        before, known = self.choose(node), self.p.tensors[tensor.name]
        self.p.tensors[tensor.name] = tensor
        after = self.choose(node)
        self.p.tensors[tensor.name] = known
        if node.out.windows:
            return False
        if before is None and after is None:
            serial = self.p.builder.order is l2.Order.BITWISE
            return serial or all(_apart(node, tensor, k) for k, name in enumerate(node.ins) if name == tensor.name)
        if before is None or after is None or before.exchange is not None or after.exchange is not None:
            return False
        return _way(before) == _way(after)


def _heads(tensor: l1.Tensor) -> bool:
    """Whether attention may read it: steps side by side but for features of others, heads side by side, and several
    elements of one at a time."""
    by_sample, by_step, *own = strides_of(tensor, 0)
    return own == [tensor.shape[-1], 1] and by_sample == tensor.shape[1] * by_step and by_step % ALIGNED == 0


def _only_given(scan: l1.Scan, name: str) -> bool:
    """Whether a Scan has a tensor step by step alone, and maps alone read that."""
    parts = {g.part.name for g in scan.given if g.whole == name}
    readers = [n for n in scan.body if parts & {*l1.operands(n)}]
    if name in (*l1.outside(scan), *(c.start for c in scan.carried)) or parts & {*l1.taken(scan)}:
        return False
    return all(isinstance(n, l1.Map) for n in readers)


def _way(choice: Choice) -> object:
    tuned = tuple((n, v) for n, v in choice.columns if n in TUNED)
    return choice.strategy, choice.literals, tuned, choice.scratch_bytes, choice.workspace, choice.tiled


def _apart(node: l1.Contract, tensor: l1.Tensor, operand: int) -> bool:
    """Whether no gap is between two axes that a sum runs along, which would be one loop without it."""
    out = {d for axis in node.out_map for d, _ in axis.terms}
    summed = [bool({d for d, _ in axis.terms} - out) for axis in node.in_maps[operand]]
    gaps = (own != extent for own, extent in zip(tensor.shape, tensor.whole or tensor.shape, strict=True))
    gaps = (gap or (tensor.steps_first and a < 3) for a, gap in enumerate(gaps))
    return not any(a and gap and summed[a - 1] and summed[a] for a, gap in enumerate(gaps))


def reshaped(tensor: l1.Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of the whole that a part of another shape has; () where its elements would have no strides there."""
    if tensor.steps_first and tensor.shape[:2] != shape[:2]:
        return ()
    pairs = [pair for pair in zip(tensor.shape, tensor.whole or tensor.shape, strict=True) if pair != (1, 1)]
    found: list[int] = []
    for extent in reversed(shape):
        while len(pairs) > 1 and pairs[-1][0] == pairs[-1][1] < extent:  # axes without a gap between them
            (inner, _), (own, whole) = pairs.pop(), pairs.pop()
            pairs.append((own * inner, whole * inner))
        own, whole = pairs[-1] if pairs else (1, 1)
        if extent == own and pairs:
            found.append(whole)
            pairs.pop()
        elif extent > 1 and (own % extent or whole % extent):
            return ()
        else:  # an inner part of an axis
            found.append(extent)
            pairs[-1:] = [(own // extent, whole // extent)] if pairs else []
    return tuple(reversed(found)) if all(own == 1 for own, _ in pairs) else ()
