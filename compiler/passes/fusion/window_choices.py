"""window_choices: the gradient of a maximum over windows side by side stays where the windows are.

Such a gradient has at most one element in each window that is not 0: that which equals the maximum first. Which one
this is, is found where the maximum is computed, so that nothing reads the whole tensor again; what a slope of an
activation multiplies it by is of the maximum's value, so that it multiplies the gradient of the maximum; a sum over all
of it is a sum over windows; and contractions whose strategies spread windows where they stage an operand read it as it
is: its tensor says its `windows`, and no array has all its elements.

Assumes: Contracts in gather form, simplified and fused; a target without lanes, whose threads go on with windows; an
order that is not bitwise.
Guarantees: the same values, but for sums, which leave out elements that are 0, and for windows without an element that
equals the maximum (it is NaN), whose gradients sums do not leave out. A gradient stays where anything reads it in
another way, and where strategies that spread windows are slower, by estimate, than memory that is not touched then
takes; the reason is a Decision.
Does not: choose strategies, or join the choice with the maximum (fuse_rows does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Final

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Binary, Call, Cond, Expr, Num, Ref
from compiler.ir.level1.builder import FIRST
from compiler.ir.space import plain_dim
from compiler.passes.fusion.fuse_epilogues import Readers
from compiler.passes.fusion.pooling_gradient import scattered, tiles
from compiler.passes.program.decisions import Decision

NAME: Final = "window_choices"
MOST: Final = 32
"""Elements of a window, whose stores are unrolled."""
_AXES: Final = 4
"""Of the tensors of a convolution: batch, channels, rows, columns."""
Costs = Callable[[l1.Contract, Mapping[str, l1.Tensor]], float]
"""Microseconds, by estimate, that a contraction takes longer where an operand is of windows (inf: no strategy reads
it)."""


@dataclass(frozen=True)
class _Choice:
    """`top`: the maximum; `first`: which element of a window it is; `spread`: the gradient of all elements, and `map`:
    it, times a slope (None: nothing is); `windows`: their extents."""

    top: l1.Contract
    first: l1.Contract
    spread: l1.Contract
    map: l1.Map | None
    windows: tuple[int, ...]

    @property
    def out(self) -> l1.Tensor:
        return self.spread.out if self.map is None else self.map.out


@dataclass
class _Graph(Readers):
    """`per_element`: microseconds for reading, or writing, an element; `launch`: of a launch that waits."""

    outputs: tuple[str, ...] = ()
    costs: Costs = lambda _node, _tensors: inf
    per_element: float = 0.0
    launch: float = 0.0
    decisions: list[Decision] = field(default_factory=list)

    def reading(self, name: str) -> list[l1.Node]:
        return [self.nodes[at] for at in self.readers.get(name, ())]

    def maker(self, name: str) -> l1.Node | None:
        return self.nodes[self.place[name]] if self.place.get(name, -1) >= 0 else None

    def choice(self, first: l1.Contract) -> _Choice | None:
        """What a node that finds elements equal to a maximum belongs to; None where it does not."""
        walked = tiles(first, self.tensors) if first.combine == "min" and len(first.ins) == 2 else ()
        if len(walked) != _AXES or self.tensors[first.ins[0]].dtype != "real":
            return None
        place, top = _place(first), self.maker(first.ins[1])
        if place is None or not isinstance(top, l1.Contract) or top.combine != "max" or top.body != Ref("x0"):
            return None
        walk = first.ins[:1], first.in_maps[:1], first.dims, first.out_map
        if (top.ins, top.in_maps, top.dims, top.out_map) != walk:
            return None
        found = self.reading(first.out.name)
        spread = found[0] if len(found) == 1 else None
        if not isinstance(spread, l1.Contract) or len(spread.ins) != 2 or spread.ins[1] != first.out.name:
            return None
        by_window = scattered(first, spread, self.tensors)
        if by_window is None or by_window.body != Cond(Ref("x1").eq(place), Ref("x0"), Num(0.0)):
            return None
        windows = tuple(max((c for _, c in axis.terms), default=1) for axis in walked)
        after = self.reading(spread.out.name)
        slope = after[0] if len(after) == 1 and isinstance(after[0], l1.Map) else None
        if slope is not None and not self._multiplies(slope, spread.out.name, first.ins[0]):
            return None
        return _Choice(top, first, spread, slope, windows)

    def _multiplies(self, slope: l1.Map, gradient: str, whole: str) -> bool:
        """Whether a Map is the gradient times a slope of finitely many values that depends on the tensor whose maximum
        is taken: it is 0 where the gradient is, and the same for equal elements of the tensor."""
        same = tuple(range(len(slope.out.shape)))
        match slope.body:
            case Binary("*", Ref("x0"), factor) if slope.ins == (gradient, whole) and not slope.scalars:
                return all(m == same for m in slope.maps) and _piecewise(factor)
        return False

    def refusal(self, c: _Choice) -> str | None:
        """Why the gradient of all elements has to be there."""
        if c.windows[:2] != (1, 1) or not 2 <= prod(c.windows) <= MOST:
            return f"its windows are not of rows and columns, up to {MOST} elements"
        if c.out.name in self.outputs or c.spread.out.name in self.outputs:
            return "it is a result"
        if c.map is None and len(self.reading(c.spread.ins[0])) > 1:
            return f"something else reads {c.spread.ins[0]}"
        tensors = {**self.tensors, c.out.name: replace(c.out, windows=c.windows)}
        more, touched = 0.0, 2  # it is written, and the operand of the maximum is read
        for node in self.reading(c.out.name):
            if not isinstance(node, l1.Contract):
                return "something reads it that is no contraction"
            touched += 1
            more += 0.0 if _sums(node, c) else self.costs(node, tensors)
        saved = touched * prod(c.out.shape) * self.per_element + self.launch
        return None if more <= saved else "strategies that spread windows take longer"

    def rewritten(self, c: _Choice) -> tuple[list[l1.Node], list[l1.Node], dict[str, l1.Node]]:
        """What follows the maximum, what stands in place of the gradient of all elements, and in place of its sums, by
        name."""
        early: list[l1.Node] = [c.first]
        made: list[l1.Node] = []
        gradient, name = c.spread.ins[0], f"{c.out.name}.of_windows"
        value = gradient
        if c.map is not None:
            flat, of = gradient, self.tensors[gradient]
            top = c.top.out.name
            source = self.maker(gradient)
            if isinstance(source, l1.Reindex) and len(self.reading(gradient)) == 1:
                flat, of = source.source, self.tensors[source.source]
                early.append(l1.Reindex(replace(of, name=f"{name}.top"), top, span=c.map.span))
                top = f"{name}.top"
            ins = tuple(flat if n == c.spread.out.name else top for n in c.map.ins)
            whole = (tuple(range(len(of.shape))),) * len(ins)
            out = replace(of, name=name if flat == gradient else f"{name}.flat")
            made.append(replace(c.map, out=out, ins=ins, maps=whole))
            value = out.name
            if flat != gradient:
                made.append(l1.Reindex(replace(c.top.out, name=name), value, span=c.map.span))
                value = name
        spread = replace(c.spread, out=replace(c.out, windows=c.windows), ins=(value, c.first.out.name))
        sums: dict[str, l1.Node] = {}
        for node in self.reading(c.out.name):
            if isinstance(node, l1.Contract) and _sums(node, c):
                extents = dict(zip(map(plain_dim, node.in_maps[0]), c.top.out.shape, strict=True))
                dims = tuple((d, extents[d]) for d, _ in node.dims)
                sums[node.out.name] = replace(node, ins=(value,), dims=dims)
        return early, [*made, spread], sums


def _piecewise(e: Expr) -> bool:
    """Whether an expression is constant between comparisons with constants."""
    match e:
        case Cond(Binary(op, Ref("x1"), Num()), then, other) if op in ("<", "<=", ">", ">=", "==", "!="):
            return _piecewise(then) and _piecewise(other)
    return isinstance(e, Num)


def _place(first: l1.Contract) -> Call | None:
    """The number of an element in its window, where a Contract finds the first one that equals what is given."""
    match first.body:
        case Cond(test, Call("float") as place, Num(value)) if test == Ref("x0").eq(Ref("x1")) and value == FIRST:
            return place
    return None


def _sums(node: l1.Contract, c: _Choice) -> bool:
    """Whether a Contract sums the gradient of all elements, whole windows at once."""
    if node.ins != (c.out.name,) or node.body != Ref("x0") or node.combine != "add" or node.scalars:
        return False
    dims, extents = [plain_dim(a) for a in node.in_maps[0]], dict(node.dims)
    kept = {d for a in node.out_map for d, _ in a.terms}
    each = len(node.dims) == len({*dims}) == len(dims) and None not in dims
    whole = each and [extents[d] for d in dims if d is not None] == [*c.out.shape]
    return whole and all(d not in kept for d, n in zip(dims, c.windows, strict=True) if n > 1)


def window_choices(
    nodes: tuple[l1.Node, ...], outputs: tuple[str, ...], costs: Costs, per_element: float, launch: float
) -> tuple[tuple[l1.Node, ...], list[Decision]]:
    """The graph, and the decision about the gradient of each maximum. `per_element`, `launch`: as _Graph has them."""
    g = _Graph(nodes, outputs=outputs, costs=costs, per_element=per_element, launch=launch)
    early: dict[str, Sequence[l1.Node]] = {}
    gone: set[str] = set()
    instead: dict[str, Sequence[l1.Node]] = {}
    for node in nodes:
        c = g.choice(node) if isinstance(node, l1.Contract) else None
        if c is None:
            continue
        reason = g.refusal(c)
        verdict = "spread where it is read" if reason is None else "written whole"
        why = reason or f"one element of {c.windows[2]} x {c.windows[3]} counts"
        g.decisions.append(Decision(NAME, c.out.name, verdict, why))
        if reason is None:
            early[c.top.out.name], made, sums = g.rewritten(c)
            gone |= {c.first.out.name, c.spread.out.name}
            instead |= {c.out.name: made} | {name: [x] for name, x in sums.items()}
    result: list[l1.Node] = []
    for node in nodes:
        name = node.out.name if isinstance(node, l1.Contract | l1.Map) else ""
        if name in instead:
            result += instead[name]
        elif name not in gone:
            result.append(node)
        if name in early:
            result += early[name]
    return tuple(result), g.decisions
