"""lower_scan: the arrays of a Scan, whose body is lowered once, to the launches of a loop; sequences by steps.

Assumes: a legal Scan; row-major arrays, or lanes that divide the rows of a step.
Guarantees: what the Scan gives for all steps is one array, of which a step has a part (l2.Array.by_step): the kernel
that computes it writes it there. States before and after steps lie in one array, shifted by a step; if nothing keeps
them, in a ring of two. What comes from outside for each step is read where it is, and what a Scan begins with is made
in its place, where a kernel of this phase makes it and nothing else has it there: copied are only values that have two
places, and those that no kernel makes. A constant is made in each place. A StepsFirst is one copy.
Does not: lower the body (lower_tensors); choose layouts (strategies/layout.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from math import prod

import compiler.ir.level1.graph as l1
from compiler.core.source import Span
from compiler.ir.space import Role
from compiler.layout.assign_layouts import array_of, strides_of
from compiler.passes.kernels.nest_builder import Walk
from compiler.passes.kernels.tensor_phase import Phase, Place, axes_of, emit_copy


@dataclass
class Steps:
    """A Scan while it is lowered. `begins`: copies of what it begins with, with their sources; `ends`: those of what a
    step makes that has its place elsewhere; `states`: the places of states before a step."""

    scan: l1.Scan
    begins: list[tuple[l1.Tensor, str]] = field(default_factory=list)
    ends: list[tuple[l1.Tensor, str]] = field(default_factory=list)
    states: dict[str, Place] = field(default_factory=dict)


def own_starts(nodes: Iterable[l1.Node], outputs: Iterable[str]) -> tuple[l1.Node, ...]:
    """The nodes, with a constant of its own for each state that begins with one: it is made in its place."""
    constants: dict[str, l1.Map] = {}
    found: list[l1.Node] = []
    for node in nodes:
        if isinstance(node, l1.Map) and not node.ins:
            constants[node.out.name] = node
        elif isinstance(node, l1.Scan):
            own = {c: replace(c.state, name=f"{c.state.name}.start") for c in node.carried if c.start in constants}
            found += [replace(constants[c.start], out=start) for c, start in own.items()]
            node = replace(node, carried=tuple(replace(c, start=own[c].name) if c in own else c for c in node.carried))
        found.append(node)
    unread = constants.keys() - {*outputs, *(name for node in found for name in l1.operands(node))}
    return tuple(node for node in found if not (isinstance(node, l1.Map) and node.out.name in unread))


def reserve(p: Phase, nodes: Iterable[l1.Node], fixed: Set[str]) -> dict[str, Steps]:
    """The arrays of all Scans, by the names of their first results. `fixed`: tensors that have arrays of their own."""
    nodes = tuple(nodes)
    readers = Counter(name for node in nodes for name in l1.operands(node))
    made = {
        n.out.name for n in nodes if isinstance(n, l1.Map | l1.Contract | l1.Gather | l1.ScatterAdd | l1.Move)
    } - fixed
    found: dict[str, Steps] = {}
    for node in nodes:
        if isinstance(node, l1.Scan):
            free = {c.start for c in node.carried} & made - p.places.keys()
            found[name_of(node)] = _Reserving(p, node, free, readers).run()
    return found


def name_of(scan: l1.Scan) -> str:
    return next((t.name for t in l1.results(scan)), scan.name)


class _Reserving:
    """`free`: what it begins with that may be made in its place; `readers`: how many nodes read a tensor."""

    def __init__(self, p: Phase, scan: l1.Scan, free: set[str], readers: Counter[str]) -> None:
        self.p, self.scan, self.free, self.readers = p, scan, free, readers
        self.steps = Steps(scan)
        self.wholes = {s.part: s.whole for s in scan.stacked}
        self.computed = {n.out.name: n.out for n in scan.body if not isinstance(n, l1.Reindex)}

    def run(self) -> Steps:
        for c in self.scan.carried:
            self.state(c)
        steps = self.scan.steps
        for part, whole in self.wholes.items():
            array = self.p.arrays[whole.name] = self.p.temporary(whole, self.scan.span)
            size = prod(whole.shape) // steps
            by = -size if self.scan.reverse else size
            self.result(part, f"{whole.name}.part", Place(array, (steps - 1) * size if self.scan.reverse else 0, by))
        return self.steps

    def state(self, c: l1.Carried) -> None:
        """The array of a state, whose slots are its values before and after steps."""
        p, steps, back = self.p, self.scan.steps, self.scan.reverse
        before, after = (self.wholes.pop(n, None) for n in (c.state.name, c.after))
        kept, rows, size = before is not None or after is not None, c.state.shape[0], prod(c.state.shape)
        slots = steps + 1 if kept else 2
        shape = (slots * rows, *c.state.shape[1:])
        read = {t.name for t in (before, after, c.last) if t is not None} & {*p.graph.outputs}
        name = f"{p.graph.phase}/{c.state.name}.slots"
        role = Role.STATE if read else Role.WORK
        array = p.builder.array(
            array_of(replace(c.state, shape=shape), name, p.builder.precision, p.lanes, role, span=self.scan.span)
        )
        first, second, end = (0, 1, steps % 2) if not kept else (steps, steps - 1, 0) if back else (0, 1, steps)
        by, ring = (second - first) * size, 0 if kept else 2
        self.steps.states[c.state.name] = Place(array, first * size, by, ring)
        self.result(c.after, f"{c.state.name}.next", Place(array, second * size, by if kept else -by, ring))
        for tensor, slot in ((before, int(back)), (after, int(not back)), (c.last, end)):
            if tensor is not None:
                self.p.places[tensor.name] = Place(array, slot * size)
                self.p.arrays[tensor.name] = self.p.temporary(tensor, self.scan.span)
        self._begin(c, Place(array, first * size), kept)

    def _begin(self, c: l1.Carried, place: Place, kept: bool) -> None:
        alone = self.readers[c.start] == 1 and c.start not in l1.outside(self.scan)
        alike = self.p.tensors[c.start].dtype == c.state.dtype
        if c.start in self.free and alike and (kept or alone):
            self.free.remove(c.start)
            self.p.places[c.start] = place
        else:
            copy = replace(c.state, name=f"{c.state.name}.start")
            self.p.places[copy.name] = place
            self.steps.begins.append((copy, c.start))

    def result(self, name: str, copy: str, place: Place) -> None:
        """What a step makes has its place, or a copy there."""
        if name in self.computed and name not in self.p.places:
            self.p.places[name] = place
        else:
            self.p.places[copy] = place
            self.steps.ends.append((replace(self.p.tensors[name], name=copy), name))


def enter(p: Phase, steps: Steps) -> None:
    """What the steps read: their states, and their parts of what is given."""
    scan = steps.scan
    for copy, start in steps.begins:
        _copy(p, copy, start, scan.span)
    for c in scan.carried:
        p.arrays[c.state.name] = _view(p, c.state, c.state.name, steps.states[c.state.name], scan.span)
    for g in scan.given:
        whole = p.builder.arrays[p.arrays[g.whole]]
        size = -(-g.part.shape[0] // max(p.lanes, 1)) * strides_of(p.placed(p.tensors[g.whole]), p.lanes)[0]
        first, by = ((scan.steps - 1) * size, -size) if scan.reverse else (0, size)
        place = Place(whole.within or whole.name, whole.first + first, by)
        name = f"{g.whole}.{'back' if scan.reverse else 'step'}"
        p.arrays[g.part.name] = _view(p, p.placed(g.part), name, place, scan.span)


def leave(p: Phase, steps: Steps) -> None:
    """Copies at the end of a step."""
    for copy, made in steps.ends:
        _copy(p, copy, made, steps.scan.span)


def _view(p: Phase, tensor: l1.Tensor, name: str, place: Place, span: Span) -> str:
    p.places[name] = place
    return p.temporary(replace(tensor, name=name), span)


def _copy(p: Phase, copy: l1.Tensor, source: str, span: Span) -> None:
    given, axes = p.tensors[source], axes_of(copy)
    _copied(p, copy, Walk("y", copy, axes), Walk("x0", given, axes), span)


def lower_steps_first(p: Phase, node: l1.StepsFirst) -> None:
    source = p.tensors[node.source]
    rows = by_steps(source, node.out) if node.back else by_steps(node.out, source)
    out, given = (node.out, rows) if node.back else (rows, source)
    axes = axes_of(out)
    _copied(p, node.out, Walk("y", out, axes), Walk("x0", given, axes), node.span)


def by_steps(rows: l1.Tensor, sequence: l1.Tensor) -> l1.Tensor:
    """The rows of all steps, with the shape of the sequence."""
    whole = (*sequence.shape[:2], *rows.whole[1:]) if rows.whole else ()
    return replace(rows, shape=sequence.shape, whole=whole, steps_first=True)


def _copied(p: Phase, out: l1.Tensor, y: Walk, x: Walk, span: Span) -> None:
    """A kernel that copies a tensor to an array of its own."""
    p.tensors.setdefault(out.name, out)
    p.arrays[out.name] = p.temporary(out, span)
    emit_copy(p, out, "copy", y, x, span)
