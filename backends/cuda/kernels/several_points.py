"""several_points: maps whose threads process several points at a time, so that their loads overlap: two or four that
lie a block of threads apart, or four neighbours along the last dim, whose elements are neighbours in memory.

Assumes: the statements of one point (cprint.Body): declarations, assignments, stores at the end, which print an element
by its `place`; points of a thread share no element.
Guarantees: the same operations in the same order for each point. Random numbers are drawn for both points before
preceding kernels have ended, if they are drawn first (`wait` follows them); then both points are loaded, then
processed. Compilers do not move loads across stores to possibly aliased arrays. Aligned neighbours are read and written
by one instruction each, and an index is divided once for four of them; others are taken one at a time.
Does not: change the statements, or choose how many points a block has (launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.point_nest import PointNest
from backends.kernel_ir import stmt
from backends.kernel_ir.expr import braces, call, code, form, name
from backends.kernel_ir.stmt import (
    Closure,
    Do,
    Each,
    For,
    If,
    Kind,
    Leave,
    Let,
    Stmt,
    Struct,
    Style,
    names_of,
    walk,
    when,
)
from backends.kernel_ir.tree import Code, Variable
from compiler.expr.ast import refs


@dataclass(frozen=True)
class _Stage:
    """What is computed for both points before the rest: its declarations become a structure."""

    name: str
    own: Sequence[Stmt]

    @property
    def declared(self) -> list[Let]:
        return [x for x in self.own if isinstance(x, Let)]

    def copies(self) -> list[Let]:
        """The declarations again, from the structure."""
        return [Let(x.type, x.name, code(f"nl_{self.name}_of.{x.name}"), const=False) for x in self.declared]


def in_pairs(inner: Sequence[Stmt], index: Code, wait: Do, pointers: Set[str]) -> list[Stmt]:
    """The loop over the points of a block, from `nl_me.part * nl_t.chunk` to `nl_end`; `index`: the name of the point
    in `inner`."""
    drawn = list(inner).index(wait) if wait in inner else 0
    rest = inner[drawn + 1 if drawn else 0 :]
    first = _loaded(rest, pointers)
    stages = [_Stage("draw", inner[:drawn])] if drawn else []
    stages += [_Stage("load", first)] if first else []
    made = [x for n in range(len(stages)) for x in _stage(stages[: n + 1], index)]
    loop: list[Stmt] = [
        Let("nl_i64", code("nl_b"), code("nl_a + blockDim.x")),
        Let("bool", code("nl_two"), code("nl_b < nl_end")),
    ]
    for n, stage in enumerate(stages):
        a, b = ("".join(f", nl_{x.name}_{p}" for x in stages[:n]) for p in "ab")
        found = f"nl_{stage.name}_found"
        loop += [
            Let(found, code(f"nl_{stage.name}_a"), f"nl_{stage.name}(nl_a{a})"),
            Let(found, code(f"nl_{stage.name}_b"), f"nl_{stage.name}_a", const=False),
            when("nl_two", stmt.Set(code(f"nl_{stage.name}_b"), f"nl_{stage.name}(nl_b{b})")),
            *([wait] if stage.name == "draw" else []),
        ]
    a, b = ("".join(f", nl_{x.name}_{p}" for x in stages) for p in "ab")
    loop += [Do(f"nl_work(nl_a{a})"), when("nl_two", Do(f"nl_work(nl_b{b})"))]
    points = For(
        code("nl_a"), "nl_me.part * nl_t.chunk + threadIdx.x", "nl_end", loop, "2 * blockDim.x", kind=Kind.ONCE
    )
    return [*made, _work(stages, rest, index), points]


def in_fours(
    inner: Sequence[Stmt],
    index: Code,
    pointers: Set[str],
    begin: str = "nl_me.part * nl_t.chunk + threadIdx.x",
    end: str = "nl_end",
    by: str = "blockDim.x",
) -> list[Stmt]:
    """As in_pairs, four points at a time, which lie a block of threads apart (in general, every `by`-th one from
    `begin` to `end`); those that are left one at a time."""
    first = _loaded(inner, pointers)
    stages = [_Stage("load", first)] if first else []
    given, one = (", nl_load_of[nl_n]", ", nl_load(nl_a)") if stages else ("", "")
    a, n = code("nl_a"), code("nl_n")
    loads: list[Stmt] = [
        Let("nl_load_found", code("nl_load_of[4]")),
        Each(n, 4, [stmt.Set(code("nl_load_of[nl_n]"), f"nl_load(nl_a + nl_n * {by})")], Style.BESIDE),
    ]
    work = Each(n, 4, [Do(f"nl_work(nl_a + nl_n * {by}{given})")], Style.BESIDE)
    four, fours = f"nl_a + 3ll * {by} < {end}", form("4 * {}", code(by))
    return [
        *(_stage(stages, index) if stages else []),
        _work(stages, inner, index),
        Let("nl_i64", a, begin, const=False),
        For(a, None, None, [*(loads if stages else []), work], fours, kind=Kind.ONCE, test=four),
        For(a, None, end, [Do(f"nl_work(nl_a{one})")], by, kind=Kind.ONCE, style=Style.BESIDE),
    ]


def _work(stages: Sequence[_Stage], inner: Sequence[Stmt], index: Code) -> Stmt:
    """The rest, as a function of the point and of what the stages found."""
    before = [x for stage in stages for x in stage.own]
    rest = [x for x in inner if not any(x is y for y in before)]
    body = [*(x for stage in stages for x in stage.copies()), *rest]
    return Closure("nl_work", _given(stages, index), body)


def _loaded(statements: Sequence[Stmt], pointers: Set[str]) -> list[Stmt]:
    """The loads, and earlier declarations that depend on no assigned value."""
    changed: set[str] = set()
    found: list[Stmt] = []
    last = 0
    for x in statements:
        if isinstance(x, Let) and x.value is not None and not code(x.value).names & changed:
            found.append(x)
            last = len(found) if code(x.value).names & pointers else last
            continue
        for inside in walk([x]):
            if isinstance(inside, Let):
                changed |= inside.name.names
            elif isinstance(inside, stmt.Set):
                changed |= inside.target.names if isinstance(inside.target, Variable) else set()
    return found[:last]


def _given(stages: Sequence[_Stage], index: Code) -> list[Let]:
    return [Let("nl_i64", index), *(Let(f"const nl_{x.name}_found &", code(f"nl_{x.name}_of")) for x in stages)]


def _stage(stages: Sequence[_Stage], index: Code) -> list[Stmt]:
    """The results of the last stage for a point, as a structure, and the function that computes it."""
    *before, last = stages
    used, found = names_of(last.own), f"nl_{last.name}_found"
    copies = [x for stage in before for x in stage.copies() if x.name.text in used]
    result = Leave("return", braces(*(x.name for x in last.declared), type=found))
    return [
        Struct(f"struct {found}", [Let(x.type, x.name) for x in last.declared]),
        Closure(f"nl_{last.name}", _given(before, index), [*copies, *last.own, result]),
    ]


# ------------------------------------------------------------------------------------------- neighbours


@dataclass(frozen=True)
class Beside:
    """An array that four neighbouring points read or write at once: their elements are neighbours, too (`few`), or they
    share one. `first`: that of the first one, in `pointer`; `type`: what a thread has of it; `fixed`: points of all
    other lines read the same."""

    formal: str
    pointer: Code
    first: Code
    type: str
    few: bool
    read: bool
    written: bool
    fixed: bool

    @property
    def place(self) -> Code:
        """Of a point's element."""
        return code(f"{'nl_same' if self.fixed else 'nl_x'}.{self.pointer}" + (".x[nl_n]" if self.few else ""))

    @property
    def member(self) -> Let:
        """Of a structure that has the elements of four points."""
        return Let(f"nl_few<{self.type}>" if self.few else self.type, self.pointer)

    @property
    def value(self) -> Code:
        """Of that member."""
        if not self.few:
            return self.first
        return form("{}<{}>(&{}, nl_many)", name("nl_get"), self.type, self.first) if self.read else braces()

    @property
    def store(self) -> Code:
        return call("nl_put", form("&{}", self.first), f"nl_x.{self.pointer}", "nl_many")


def besides(
    k: Kernel, nest: PointNest, statements: Sequence[l2.Statement], fast: Sequence[str], lines: Sequence[str] = ()
) -> tuple[list[Beside], bool]:
    """Those of the statements of a point, and whether they use other arrays. `fast`: the dims along which points are
    neighbours. `lines`: dims of which an array that reads none is `fixed`; with some, elements stay as they are in
    memory, as points of several lines are under way."""
    found, others = list[Beside](), False
    written, wanted = {s.target for s in statements if not isinstance(s, l2.Emit)}, set[str]()
    for s in statements:
        wanted |= refs(s.when if isinstance(s, l2.Emit) else s.value)
    known = {d.name for d in nest.nest.dims} | {f.name for f in k.template.formals if isinstance(f, l2.ScalarFormal)}
    for f, access in k.strided:
        if f.name not in written | wanted:
            continue
        element, reads = nest.elements[f.name], f.mode is l2.Mode.READ
        terms = [(d, a.stride, c) for a in access.axes for d, c in a.terms]
        along = [(stride, c) for d, stride, c in terms if d in fast]
        few = len(fast) == 1 and along == [(1, 1)]
        names = {d for d, _, _ in terms} | {a.const for a in access.axes if isinstance(a.const, str)}
        plain = names <= known and element.inside is None and f.mode is not l2.Mode.ACCUMULATE
        if not plain or not (few or (reads and not along)):
            others = True
            continue
        fixed = reads and bool(lines) and not any(d in lines for d, _, _ in terms)
        kind = k.dialect.type_name(f.dtype if few and lines else element.type)
        read = f.mode is not l2.Mode.WRITE
        found.append(Beside(f.name, k.pointers[f.name], element.place, kind, few, read, f.name in written, fixed))
    return found, others


def at_places(nest: PointNest, found: Sequence[Beside]) -> None:
    """Points take elements from structures from now on."""
    nest.elements |= {x.formal: replace(nest.elements[x.formal], place=x.place) for x in found}


def neighbours(
    nest: PointNest,
    e: Code,
    split: Sequence[Stmt],
    statements: Sequence[l2.Statement],
    point: Callable[[], list[Stmt]],
    pairs: bool = False,
) -> list[Stmt] | None:
    """The loop over the points of a block, from `nl_me.part * nl_t.chunk` to `nl_end`, four neighbours at a time; None
    where elements of neighbours are no neighbours. `split`: the dims of the point e; `statements`: those whose arrays
    are read and written for all four at once; `point`: prints what one of them does. `pairs`: two at a time, where a
    line is no multiple of four."""
    found, others = besides(nest.k, nest, statements, [d.name for d in nest.par[-1:]])
    if others or not any(x.few for x in found):
        return None
    at_places(nest, found)
    inner, last = point(), nest.vars[nest.par[-1].name]
    own = [Let("nl_i64", code("nl_own"), last + code("nl_n")), Let("nl_i64", last, code("nl_own"))]
    extent, even = nest.k.extent(nest.par[-1].extent), code("nl_t.chunk >= 4 * blockDim.x")
    if split:
        even = form("{} && {} % 4 == 0", even, extent)
    width = form("nl_t.chunk < 4 * blockDim.x ? 1 : ({} % 4 == 0 ? 4 : ({} % 2 == 0 ? 2 : 1))", extent, extent)
    each = [Do("nl_each<4>(nl_point)")]
    rest = [If("nl_many == 2", [Do("nl_each<2>(nl_point)")], each, Style.BESIDE)] if pairs else each
    points: list[Stmt] = [
        Let("int", code("nl_many"), form("(int){}", call("nl_least", "nl_width", form("nl_end - {}", e)))),
        *split,
        Struct("struct", [x.member for x in found], name("nl_x"), braces(*(x.value for x in found))),
        Closure("nl_point", [Let("int", code("nl_n"))], [*(own if last.names & names_of(inner) else ()), *inner]),
        If("nl_many == 1", [Do("nl_point(0)")], rest, Style.BESIDE),
        *(Do(x.store) for x in found if x.written),
    ]
    first = "nl_me.part * nl_t.chunk + nl_width * threadIdx.x"
    return [
        Let("int", code("nl_width"), width if pairs else form("{} ? 4 : 1", even)),
        For(e, first, "nl_end", points, "nl_width * blockDim.x", kind=Kind.ONCE, long=True),
    ]
