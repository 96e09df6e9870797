"""lines: points that are neighbours along the last dim, of which a thread has several at a time, as their elements are
neighbours in memory: of maps, of sums over windows, of rows, and of what follows sums.

Assumes: the statements of one point (cprint.Body) print an element by its `place`; points share no element that one of
them changes.
Guarantees: the same operations in the same order for each point. An index is divided once for all of them. Elements are
read and written by one instruction each where they are aligned; whether all are is asked once. They are read as words:
whoever takes a word apart waits for it, so that all is read first.
Does not: choose how many points a block has (launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Element, Scope
from backends.c_family.point_nest import PointNest, Total, read_in_terms
from backends.kernel_ir.expr import braces, call, code, every, form, name
from backends.kernel_ir.stmt import (
    Closure,
    Do,
    Each,
    For,
    If,
    Kind,
    Leave,
    Let,
    Set,
    Stmt,
    Struct,
    Style,
    constants,
    names_of,
    when,
)
from backends.kernel_ir.tree import Code
from compiler.expr.ast import refs
from compiler.ir.space import DType

_N: Final = Let("int", code("nl_n"))
"""The number of a point of a thread."""


@dataclass(frozen=True)
class Beside:
    """An array that neighbouring points read or write at once: their elements are neighbours, too (`few`), or they
    share one. `first`: that of the first one, in `pointer`; `type`: what it is computed with as; `stored`: what it is
    in memory; `fixed`: points of all other lines read the same."""

    formal: str
    pointer: Code
    first: Code
    type: str
    stored: str
    few: bool
    read: bool
    written: bool
    fixed: bool

    @property
    def place(self) -> Code:
        """Of a point's element."""
        return code(f"{'nl_same' if self.fixed else 'nl_x'}.{self.pointer}" + (".x[nl_n]" if self.few else ""))

    def member(self, many: int = 4) -> Let:
        """Of a structure that has the elements of so many points."""
        return Let(f"nl_few<{self.type}, {many}>" if self.few else self.type, self.pointer)

    def got(self, many: int = 4) -> Code:
        """Of that member."""
        return form("{}<{}>(&{}, nl_many, nl_even)", name("nl_get"), many, self.first) if self.few else self.first

    def computed(self, words: Code | None) -> Code:
        """The elements of points, of what is in memory; None where nothing is read."""
        if words is None:
            return braces()
        return form("{}<{}>({})", name("nl_as"), self.type, words) if self.few else words

    def value(self, many: int = 4) -> Code:
        """The elements of so many points."""
        return self.computed(self.got(many) if self.read else None)

    @property
    def store(self) -> Code:
        return call("nl_put", form("&{}", self.first), f"nl_x.{self.pointer}", "nl_many", "nl_even")


def besides(
    k: Kernel,
    nest: PointNest,
    statements: Sequence[l2.Statement],
    fast: Sequence[str],
    lines: Sequence[str] = (),
    held: AbstractSet[str] = frozenset(),
) -> tuple[list[Beside], bool]:
    """Those of the statements of a point, and whether they use other arrays. `fast`: the dims along which points are
    neighbours. `lines`: dims of which an array that reads none is `fixed`. `held`: formals whose values are in
    locals."""
    found, others = list[Beside](), False
    written, wanted = {s.target for s in statements if not isinstance(s, l2.Emit)}, set[str]()
    for s in statements:
        wanted |= refs(s.when if isinstance(s, l2.Emit) else s.value)
    known = {d.name for d in nest.nest.dims} | {f.name for f in k.template.columns}
    for f, access in k.strided:
        if f.name not in written | (wanted - held):
            continue
        element, reads = nest.elements[f.name], f.mode is l2.Mode.READ
        few = len(fast) == 1 and access.neighbours(fast[0])
        names = access.dims | {a.const for a in access.axes if isinstance(a.const, str)}
        plain = names <= known and element.inside is None and f.mode is not l2.Mode.ACCUMULATE
        if not plain or not (few or (reads and access.dims.isdisjoint(fast))):
            others = True
            continue
        fixed = reads and bool(lines) and access.dims.isdisjoint(lines)
        kind, stored = k.dialect.type_name(element.type), k.dialect.type_name(f.dtype)
        read, changed, pointer = f.mode is not l2.Mode.WRITE, f.name in written, k.pointers[f.name]
        found.append(Beside(f.name, pointer, element.place, kind, stored, few, read, changed, fixed))
    return found, others


def at_places(nest: PointNest, found: Sequence[Beside]) -> None:
    """Points take elements from structures from now on; what these have for bf16 is rounded when it is written."""
    narrow = nest.k.dialect.type_name(DType.BF16)
    for x in found:
        rounds = x.few and x.stored == narrow
        nest.elements[x.formal] = replace(nest.elements[x.formal], place=x.place, rounds=rounds)


def even(k: Kernel, arrays: Sequence[Beside], last: str, many: int) -> list[Code]:
    """The tests that groups of `many` neighbours along the dim `last`, from a multiple of `many` on, are aligned in all
    of these arrays."""
    accesses = {f.name: access for f, access in k.strided}
    found = dict[str, Code]()
    for x in arrays:
        tests = [form("{}<{}>({})", name("nl_is_aligned"), many, x.pointer)]
        for axis in accesses[x.formal].axes:
            own = last in dict(axis.terms)
            steps = [axis.const, *(c for d, c in axis.terms if d != last)] if own else [axis.stride]
            uneven = (s for s in steps if not (isinstance(s, int) and s % many == 0))
            tests += [form("{} % {} == 0", k.extent(s), many) for s in uneven]
        found |= {t.text: t for t in tests}
    return list(found.values())


@dataclass(frozen=True)
class _Lines:
    """Arrays of points of which a thread has `many` neighbours along the dim `own` at a time, where `wide`."""

    many: int
    own: Code
    fixed: Sequence[Beside]
    moving: Sequence[Beside]
    wide: str = "nl_wide"

    def read(self, x: Beside) -> Code:
        """As it is in memory."""
        return form("{}<{}>(&{}, {})", name("nl_read"), self.many, x.first, self.wide)

    def each(self, function: str) -> list[Stmt]:
        """A call for each of its points."""
        each: list[Stmt] = [Do(f"nl_each<{self.many}>({function})")]
        if self.wide == "true":
            return each
        return [If("!nl_wide", [Do(f"{function}(0)")], each, Style.BESIDE)]

    def shifted(self, inner: Sequence[Stmt]) -> list[Stmt]:
        """Statements of point nl_n, if they use its index."""
        shift = [constants("nl_i64", nl_own=self.own + code("nl_n")), Let("nl_i64", self.own, "nl_own")]
        return [*(shift if self.own.names & names_of(inner) else ()), *inner]

    def point(self, split: Sequence[Stmt], inner: Sequence[Stmt], before: Sequence[Stmt] = ()) -> list[Stmt]:
        """What a thread does for its points. `before`: once all is read."""
        few, others = [x for x in self.moving if x.few], [x for x in self.moving if not x.few]
        ahead = {x.formal: code(f"nl_{x.pointer}") for x in few if x.read}
        again = [Set(code(f"nl_same.{x.pointer}"), x.computed(self.read(x))) for x in self.fixed]
        values = [x.computed(ahead.get(x.formal)) for x in few] + [x.first for x in others]
        fields = [x.member(self.many) for x in (*few, *others)]
        return [
            *split,
            *(Let("auto", ahead[x.formal], self.read(x)) for x in few if x.read),
            *([If(form("{} != nl_known", self.own), [Set(code("nl_known"), self.own), *again])] if again else []),
            *before,
            Struct("struct", fields, name("nl_x"), braces(*values)),
            Closure("nl_point", [_N], self.shifted(inner)),
            *self.each("nl_point"),
            *(Do(call("nl_write", form("&{}", x.first), f"nl_x.{x.pointer}", self.wide)) for x in few if x.written),
        ]


@dataclass(frozen=True)
class Lines:
    """A loop over points, of which a thread has `many` neighbours at a time; it holds what `held` arrays have for all
    of its points."""

    loop: tuple[Stmt, ...]
    many: int
    held: int


def many_of(nest: PointNest, found: Sequence[Beside]) -> int:
    """Neighbours that have 16 bytes of the narrowest array."""
    narrow = nest.k.dialect.type_name(DType.BF16)
    return 8 if nest.k.dialect.precision is DType.F32 and any(x.few and x.stored == narrow for x in found) else 4


def in_lines(nest: PointNest, e: Code, split: Sequence[Stmt], statements: Sequence[l2.Statement]) -> Lines | None:
    """The loop over the points of a map of a block, from `nl_me.part * nl_t.chunk` to `nl_end`, four neighbours at a
    time or, where an array is bf16, eight: 16 bytes of the narrowest one. None where elements of neighbours are no
    neighbours. `split`: the dims of the point e; `statements`: those of a point. Whether all is aligned is asked once.
    All is read before any of it is used, so that a thread waits once; what depends on the last dim alone is read again
    only where a thread comes to another index of it."""
    if not nest.par:
        return None
    *lines, last = [d.name for d in nest.par]
    found, others = besides(nest.k, nest, statements, [last])
    if others or not any(x.few for x in found):
        return None
    dims = {f.name: access.dims for f, access in nest.k.strided}
    found = [replace(x, fixed=bool(lines) and x.few and not x.written and dims[x.formal] == {last}) for x in found]
    at_places(nest, found)
    fixed, moving = ([x for x in found if x.fixed == same] for same in (True, False))
    made = _Lines(many_of(nest, found), nest.vars[last], fixed, moving)
    return _looped(nest, e, made, made.point(split, nest.body().finish(statements)), found)


def _looped(nest: PointNest, e: Code, made: _Lines, points: Sequence[Stmt], found: Sequence[Beside]) -> Lines:
    """The loop over points, of which neighbours of all arrays in `found` are read together where they are aligned."""
    many, lines = made.many, len(nest.par) > 1
    tests = [form("nl_t.chunk >= {} * blockDim.x", many)]
    tests += [form("{} % {} == 0", nest.k.extent(nest.par[-1].extent), many)] if lines else []
    wide = every([*tests, *even(nest.k, [x for x in found if x.few], nest.par[-1].name, many)]) or code("true")
    width, by = constants("int", nl_width=f"nl_wide ? {many} : 1"), "nl_width * blockDim.x"
    begin, end = ("nl_me.part * nl_t.chunk", "nl_end") if lines else ("nl_from", "nl_to")
    loop = For(e, f"{begin} + nl_width * threadIdx.x", end, points, by, kind=Kind.ONCE, long=True)
    if lines:
        known: list[Stmt] = []
        if made.fixed:
            known.append(Struct("struct", [x.member(many) for x in made.fixed], name("nl_same")))
            known.append(Let("nl_i64", code("nl_known"), "-1", const=False))
        return Lines((constants("bool", nl_wide=wide), width, *known, loop), many, len(made.fixed))
    rest = [when("nl_to == nl_end", Leave("break")), Set(code("nl_from"), "nl_to")]
    to = constants("nl_i64", nl_to="nl_end - (nl_end - nl_from) % nl_width")
    inner = [width, to, loop, *rest]
    twice = For(code("nl_wide"), "nl_every", None, inner, "false", "bool", Kind.ONCE, test="true", op="=")
    start = Let("nl_i64", code("nl_from"), "nl_me.part * nl_t.chunk", const=False)
    return Lines((constants("bool", nl_every=wide), start, twice), many, 0)


def windows_in_lines(nest: PointNest, e: Code, split: Sequence[Stmt]) -> Lines | None:
    """As in_lines, of sums over few terms, whose guards neighbours share: a thread walks the window once for all of its
    points."""
    last = nest.par[-1].name
    read = _in_terms(nest, last)
    found, others = besides(nest.k, nest, nest.nest.epilogue, [last])
    if read is None or others or nest.nest.prologue or nest.nest.staged or nest.nest.beside:
        return None
    few = [x for x in read if x.few]
    if not few or not any(x.few for x in found):
        return None
    made = _Lines(many_of(nest, [*found, *few]), nest.vars[last], (), found)
    (total,) = nest.totals(nest.scope)
    sums = replace(total, at=form("{}.x[nl_n]", total.at))
    kind = f"nl_few<{nest.k.dialect.type_name(total.type)}, {made.many}>"
    before = [
        Let(kind, total.at),
        Each(name("nl_n"), made.many, [Set(sums.at, nest.identity(total.type))], Style.BESIDE),
        *nest.in_window(_term(nest, made, few, sums)),
    ]
    at_places(nest, found)
    body = nest.body()
    body.scope |= sums.symbol
    return _looped(nest, e, made, made.point(split, body.finish(nest.nest.epilogue), before), [*found, *few])


@dataclass(frozen=True)
class RowLines:
    """Rows whose elements a thread takes `many` neighbours at a time, where `wide` says so. `found`: the arrays of each
    stage's terms, and of what follows the sums, of which it has neighbours."""

    nest: PointNest
    many: int
    found: Sequence[Sequence[Beside]]

    @property
    def wide(self) -> Code:
        """Whether all are aligned, and every thread of a row has some."""
        nest, last = self.nest, self.nest.red[-1]
        arrays = list({x.formal: x for stage in self.found for x in stage}.values())
        terms = [form("{} % {} == 0", nest.k.extent(last.extent), self.many)]
        terms.append(form("{} >= {} * nl_group", nest.k.extent(last.extent), self.many))
        return every([*terms, *even(nest.k, arrays, last.name, self.many)]) or code("true")

    def sums(self, stage: int, r: Code, scope: Scope, totals: Sequence[Total]) -> Stmt:
        """A thread's walk over the terms of a stage."""
        places = {x.formal: replace(self.nest.elements[x.formal], place=x.place) for x in self.found[stage]}
        return self._walk(stage, r, self.nest.summed(scope, totals, {**self.nest.elements, **places}))

    def each(self, r: Code, point: Callable[[], list[Stmt]]) -> Stmt:
        """So, of what follows the sums; `point`: prints what one element does."""
        before = self.nest.elements
        self.nest.elements = dict(before)
        at_places(self.nest, self.found[-1])
        made = self._walk(-1, r, point())
        self.nest.elements = before
        return made

    def _walk(self, stage: int, r: Code, inner: Sequence[Stmt]) -> Stmt:
        made = _Lines(self.many, self.nest.vars[self.nest.red[-1].name], (), self.found[stage], "true")
        points = made.point(self.nest.split(r, self.nest.red), inner)
        return For(
            r, f"{self.many} * nl_first", "nl_terms", points, f"{self.many} * nl_group", kind=Kind.ONCE, long=True
        )


def rows_in_lines(nest: PointNest) -> RowLines | None:
    """The rows of a nest with several stages; None where neighbours are no neighbours in memory."""
    if len(nest.red) != 1:
        return None
    every_one: list[list[l2.Statement]] = [[l2.Assign(s.acc, s.term) for s in x.sums] for x in nest.nest.stages]
    held = {x.target for stage in nest.nest.stages for x in stage.epilogue if isinstance(x, l2.Assign)}
    found = []
    for statements in (*every_one, *([[*nest.nest.each]] if nest.nest.each else [])):
        arrays, others = besides(nest.k, nest, statements, [nest.red[-1].name], held=held)
        few = [x for x in arrays if x.few]
        if others or not few:
            return None
        found.append(few)
    return RowLines(nest, many_of(nest, [x for stage in found for x in stage]), found)


def _term(nest: PointNest, made: _Lines, few: Sequence[Beside], sums: Total) -> list[Stmt]:
    """One term of all points of a thread; `few`: the arrays that it reads of which they have neighbours."""
    elements, places = nest.term_elements(), dict[str, Element]()
    ahead, computed = list[Stmt](), list[Stmt]()
    for x in few:
        element = elements[x.formal]
        own, words, inside = (code(f"nl_{x.pointer}_{what}") for what in ("of", "words", "inside"))
        got: Stmt = Set(words, made.read(replace(x, first=element.place)))
        ahead.append(Let(f"nl_words<{x.stored}, {made.many}>", words))
        if element.inside is not None:
            ahead.append(Let("bool", inside, element.inside))
            got = If(inside, [got])
        ahead.append(got)
        computed.append(Let("auto", own, x.computed(words)))
        there = None if element.inside is None else inside
        places[x.formal] = replace(element, place=form("{}.x[nl_n]", own), inside=there)
    summed = made.shifted(nest.summed(nest.scope, [sums], {**elements, **places}))
    return [*ahead, *computed, Closure("nl_term", [_N], summed), *made.each("nl_term")]


def _in_terms(nest: PointNest, last: str) -> list[Beside] | None:
    """The arrays that terms read; None where neighbours along the dim `last` are no neighbours in memory, or some of
    them are there alone."""
    wanted, elements = read_in_terms(nest.nest), nest.term_elements()
    found = []
    for f, access in nest.k.strided:
        if f.name not in wanted:
            continue
        own = access.along(last)
        few = access.neighbours(last) and not own[0][0].guarded
        if f.mode is not l2.Mode.READ or (own and not few):
            return None
        element = elements[f.name]
        kind, stored = (nest.k.dialect.type_name(t) for t in (element.type, f.dtype))
        pointer = nest.k.pointers[f.name]
        found.append(Beside(f.name, pointer, element.place, kind, stored, few, True, False, False))
    return found


def neighbours(
    nest: PointNest,
    e: Code,
    split: Sequence[Stmt],
    statements: Sequence[l2.Statement],
    point: Callable[[], list[Stmt]],
) -> list[Stmt] | None:
    """The loop over the points of a block, from `nl_me.part * nl_t.chunk` to `nl_end`, four neighbours at a time, or
    two where a line is no multiple of four; None where elements of neighbours are no neighbours. `split`: the dims of
    the point e; `statements`: those whose arrays are read and written for all at once; `point`: prints what one of them
    does."""
    found, others = besides(nest.k, nest, statements, [d.name for d in nest.par[-1:]])
    if others or not any(x.few for x in found):
        return None
    at_places(nest, found)
    inner, last = point(), nest.vars[nest.par[-1].name]
    own = [Let("nl_i64", code("nl_own"), last + code("nl_n")), Let("nl_i64", last, code("nl_own"))]
    extent = nest.k.extent(nest.par[-1].extent)
    aligned = every(even(nest.k, [x for x in found if x.few], nest.par[-1].name, 4)) or code("true")
    width = form("nl_t.chunk < 4 * blockDim.x ? 1 : ({} % 4 == 0 ? 4 : ({} % 2 == 0 ? 2 : 1))", extent, extent)
    each = [Do("nl_each<4>(nl_point)")]
    rest = [If("nl_many == 2", [Do("nl_each<2>(nl_point)")], each, Style.BESIDE)]
    points: list[Stmt] = [
        Let("int", code("nl_many"), form("(int){}", call("nl_least", "nl_width", form("nl_end - {}", e)))),
        *split,
        Struct("struct", [x.member() for x in found], name("nl_x"), braces(*(x.value() for x in found))),
        Closure("nl_point", [_N], [*(own if last.names & names_of(inner) else ()), *inner]),
        If("nl_many == 1", [Do("nl_point(0)")], rest, Style.BESIDE),
        *(Do(x.store) for x in found if x.written),
    ]
    first = "nl_me.part * nl_t.chunk + nl_width * threadIdx.x"
    return [
        constants("bool", nl_even=aligned),
        constants("int", nl_width=width),
        For(e, first, "nl_end", points, "nl_width * blockDim.x", kind=Kind.ONCE, long=True),
    ]
