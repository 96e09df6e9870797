"""place_parts: concatenations and slices without copies: a part lies in its whole (l1.Tensor.whole, l2.Array.within).

Assumes: nodes in topological order, and the kernels that the passes of compiler/passes/fusion chose, before arrays are
reused.
Guarantees: what a concatenation joins is computed in its place in the result, and a slice, or a reshape of one, is read
where it lies, where all kernels that make or read it go through strides: those of maps, moves and generic nests do, of
strategies those that say so. Then there is no copy. Results are the same bits: strategies, and the loops of sums, are
those that there are without.
Does not: place what a library, attention or the copy engine reads, or what another contraction is computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from math import prod

import compiler.ir.level1.graph as l1
from compiler.layout.assign_layouts import strides_of
from compiler.passes.fusion.fuse_epilogues import Readers
from compiler.passes.kernels.tensor_phase import Phase, Place
from compiler.passes.program.decisions import Decision
from compiler.strategies import Choice
from compiler.strategies.choice import LIMIT
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
    for node in moves:
        placing.slice(node)


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
            made = self._part(name, whole) if node.ins.count(name) == 1 else None
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

    def _part(self, name: str, whole: l1.Tensor) -> dict[str, l1.Tensor] | None:
        """What is computed in a result, and its reshapes, as they lie there."""
        node, tensor = self.made[name], self.p.tensors[name]
        free = name not in self.fixed | self.p.places.keys() | self.p.joined and name not in self.p.graph.outputs
        if not isinstance(node, Made) or not free or not self.strides(name):
            return None
        return self._read(tensor, whole)

    def slice(self, node: l1.Move) -> None:
        """A slice."""
        name, (source, *others), shape = node.out.name, node.ins, node.out.shape
        whole = self.p.tensors[source]
        inside = all(0 <= at <= e - n for at, e, n in zip(node.offsets[0], whole.shape, shape, strict=True))
        if others or not inside or name in self.p.places or name in self.p.joined or name in self.p.graph.outputs:
            return
        base = self._bases(source)
        if self.p.lanes and whole.batched and shape[0] != whole.shape[0]:
            return
        found = self._read(node.out, whole)
        if found is None or isinstance(self.made[base[-1]], Kept) or self.fixed & {*base}:
            self._decide(node, "copied", f"{name} is read in ways that need its elements side by side")
            return
        first = sum(at * by for at, by in zip(node.offsets[0], strides_of(whole, self.p.lanes), strict=True))
        self.p.slices[name] = first
        self._place(node, found, f"it is read in {source}")
        self.p.held |= {*base, *found}

    def _bases(self, name: str) -> tuple[str, ...]:
        """A tensor, and those that it is a reshape of."""
        node = self.made[name]
        return (name, *self._bases(node.source)) if isinstance(node, l1.Reindex) else (name,)

    def _place(self, node: l1.Move, found: Mapping[str, l1.Tensor], why: str) -> None:
        self.p.tensors |= found
        self._decide(node, "in place", why)

    def _decide(self, node: l1.Move, verdict: str, why: str) -> None:
        self.p.decisions.append(Decision("place_parts", f"{self.p.graph.phase}: {node.out.name}", verdict, why))

    def _read(self, part: l1.Tensor, whole: l1.Tensor) -> dict[str, l1.Tensor] | None:
        """A part and its reshapes as they lie in the array of the whole, if all that reads them can."""
        if (part.dtype, part.batched) != (whole.dtype, whole.batched) or part.windows or whole.windows:
            return None
        extents = whole.whole or whole.shape
        if part.pitch or part.panel or whole.pitch or whole.panel or prod(extents) >= LIMIT:
            return None
        return self._readable(replace(part, whole=extents))

    def _readable(self, tensor: l1.Tensor) -> dict[str, l1.Tensor] | None:
        """The tensor and its reshapes as they lie there, if all that reads them can."""
        found = {tensor.name: tensor}
        for at in self.g.readers.get(tensor.name, ()):
            match self.g.nodes[at]:
                case l1.Map() | l1.Move():
                    pass
                case l1.Contract() as node if self._sums(node, tensor):
                    pass
                case l1.Reindex(out) if out.name not in self.fixed | {*self.p.graph.outputs}:
                    extents = reshaped(tensor, out.shape)
                    others = self._readable(replace(out, whole=extents)) if extents else None
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
            return all(_apart(node, tensor, k) for k, name in enumerate(node.ins) if name == tensor.name)
        if before is None or after is None or before.exchange is not None or after.exchange is not None:
            return False
        return _way(before) == _way(after)


def _way(choice: Choice) -> object:
    tuned = tuple((n, v) for n, v in choice.columns if n in TUNED)
    return choice.strategy, choice.literals, tuned, choice.scratch_bytes, choice.workspace, choice.tiled


def _apart(node: l1.Contract, tensor: l1.Tensor, operand: int) -> bool:
    """Whether no gap is between two axes that a sum runs along, which would be one loop without it."""
    out = {d for axis in node.out_map for d, _ in axis.terms}
    summed = [bool({d for d, _ in axis.terms} - out) for axis in node.in_maps[operand]]
    gaps = (own != extent for own, extent in zip(tensor.shape, tensor.whole, strict=True))
    return not any(a and gap and summed[a - 1] and summed[a] for a, gap in enumerate(gaps))


def reshaped(tensor: l1.Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of the whole that a part of another shape has; () where its elements would have no strides there."""
    pairs = [pair for pair in zip(tensor.shape, tensor.whole, strict=True) if pair != (1, 1)]
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
