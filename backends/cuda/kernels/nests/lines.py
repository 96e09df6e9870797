"""lines: points that are neighbours along the last dim, of which a thread has several at a time, as their elements are
neighbours in memory: of maps, of sums over windows, of rows, and of what follows sums.

Assumes: the statements of one point, whose elements are Places; points share no element that one of them changes.
Guarantees: the same operations in the same order for each point. An index is divided once for all of them. Elements are
read and written by one instruction each where they are aligned; whether all are is asked once. They are read as words:
whoever takes a word apart waits for it, so that all is read first.
Does not: choose how many points a block has (backends/cuda/kernels/launch_geometry.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import C_TYPES
from backends.c_family.point_nest import Point, PointNest
from backends.kernel_ir.expr import braces, call, code, every, form, name
from backends.kernel_ir.stmt import Do, Each, For, If, Kind, Let, Set, Stmt, constants
from backends.kernel_ir.tree import Call, Code, Place, Variable, nodes
from compiler.expr.functions import ROUNDED
from compiler.ir.space import DType

_N: Final = Let("int", code("nl_n"))
"""The number of a point of a thread."""
_OF_SUMS: Final = 2
"""Neighbours that a thread sums where their windows are no neighbours: lines are short, and often no multiple of 4."""


@dataclass(frozen=True)
class Beside:
    """An array that neighbouring points read or write at once: their elements are neighbours, too (`few`), or they
    share one. `first`: that of the first one, in `pointer`; `type`: what it is computed with as; `stored`: what it is
    in memory; `fixed`: points of all other lines read the same; `inside`: whether those of a thread are, which share
    that."""

    formal: str
    pointer: Code
    first: Code
    type: str
    stored: str
    few: bool
    read: bool
    written: bool
    fixed: bool
    inside: Code | None = None

    @property
    def guard(self) -> Code:
        """What points know of `inside`."""
        return code(f"nl_has_{self.pointer}")

    @property
    def place(self) -> Code:
        """Of a point's element."""
        return code(f"{'nl_same' if self.fixed else 'nl_x'}.{self.pointer}" + (".x[nl_n]" if self.few else ""))

    @property
    def narrow(self) -> bool:
        """Whether neighbours are bf16 in memory."""
        return self.few and self.stored == C_TYPES[DType.BF16]

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
    nest: PointNest,
    statements: Sequence[Stmt],
    fast: Sequence[str],
    lines: Sequence[str] = (),
    terms: bool = False,
    guarded: bool = False,
) -> tuple[list[Beside], bool]:
    """Those of the statements of a point, and whether they use other arrays. `fast`: the dims along which points are
    neighbours. `lines`: dims of which an array that reads none is `fixed`. `terms`: the statements only read, and may
    be guarded where neighbours share the guard. `guarded`: so may what is only read of any statements, where groups of
    neighbours share the guard (`even`)."""
    k, found, others = nest.k, list[Beside](), False
    used = {x.formal for tree in ir.trees(statements) for x in nodes(tree) if isinstance(x, Place)}
    stores = (s.target for s in ir.walk(statements) if isinstance(s, Set))
    written = {x.formal for x in stores if isinstance(x, Place)}
    known = {d.name for d in nest.nest.dims} | {f.name for f in k.template.columns}
    for f, access in k.strided:
        if f.name not in used:
            continue
        element, reads = nest.elements[f.name], f.mode is l2.Mode.READ
        few = len(fast) == 1 and access.neighbours(fast[0]) and _may_be_few(access.along(fast[0])[0][0], guarded)
        names = access.dims | {a.const for a in access.axes if isinstance(a.const, str)}
        inside = element.inside if guarded and few and reads else None
        plain = names <= known and (reads if terms else element.inside == inside and not element.direct)
        if not plain or not (few or (reads and access.dims.isdisjoint(fast))):
            others = True
            continue
        fixed = reads and bool(lines) and access.dims.isdisjoint(lines)
        kind, stored = k.dialect.type_name(element.type), k.dialect.type_name(f.dtype)
        read, changed, pointer = f.mode is not l2.Mode.WRITE, f.name in written, k.pointers[f.name]
        found.append(Beside(f.name, pointer, element.place, kind, stored, few, read, changed, fixed, inside))
    return found, others


def _may_be_few(axis: l2.Axis, guarded: bool) -> bool:
    """Whether an access along which points are neighbours may be one of several elements."""
    return axis.div == 1 if guarded else not axis.guarded


def held(statements: Sequence[Stmt], found: Sequence[Beside]) -> list[Stmt]:
    """Statements of a point that take elements from structures; what these have for bf16 is rounded when it is
    written."""
    places, narrow = {x.formal: x.place for x in found}, {x.formal for x in found if x.narrow}

    def rounded_later(s: Stmt) -> Stmt:
        match s:
            case Set(Place(formal=formal), Call(Variable(function), (value,))) if formal in narrow:
                return replace(s, value=value) if function.startswith(f"nl_{ROUNDED}_") else s
        return s

    return ir.moved(ir.changed(statements, rounded_later), places, guards_of(found))


def guards_of(found: Sequence[Beside]) -> dict[str, Code]:
    """What reads of arrays test, where these are guarded."""
    return {x.formal: x.guard for x in found if x.inside is not None}


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
            steps += [axis.extent] if own and axis.extent is not None else []
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

    def ahead(self, x: Beside, words: Code) -> list[Stmt]:
        """Declares `words`: what is read of it, where it is inside."""
        if x.inside is None:
            return [Let("auto", words, self.read(x))]
        declared = Let(f"nl_words<{x.stored}, {self.many}>", words)
        return [Let("bool", x.guard, x.inside), declared, If(x.guard, [Set(words, self.read(x))])]

    def each(self, function: str) -> list[Stmt]:
        """A call for each of its points."""
        each: list[Stmt] = [Do(f"nl_each<{self.many}>({function})")]
        if self.wide == "true":
            return each
        return [If("!nl_wide", [Do(f"{function}(0)")], each, ir.Style.BESIDE)]

    def shifted(self, inner: Sequence[Stmt]) -> list[Stmt]:
        """Statements of point nl_n."""
        return ir.rewritten(inner, lambda x: self.own + code("nl_n") if x == self.own else None)

    def point(self, split: Sequence[Stmt], inner: Sequence[Stmt], before: Sequence[Stmt] = ()) -> list[Stmt]:
        """What a thread does for its points. `before`: once all is read."""
        few, others = [x for x in self.moving if x.few], [x for x in self.moving if not x.few]
        ahead = {x.formal: code(f"nl_{x.pointer}") for x in few if x.read}
        again = [Set(code(f"nl_same.{x.pointer}"), x.computed(self.read(x))) for x in self.fixed]
        values = [x.computed(ahead.get(x.formal)) for x in few] + [x.first for x in others]
        fields = [x.member(self.many) for x in (*few, *others)]
        return [
            *split,
            *(s for x in few if x.read for s in self.ahead(x, ahead[x.formal])),
            *([If(form("{} != nl_known", self.own), [Set(code("nl_known"), self.own), *again])] if again else []),
            *before,
            ir.Struct("struct", fields, name("nl_x"), braces(*values)),
            ir.Closure("nl_point", [_N], self.shifted(inner)),
            *self.each("nl_point"),
            *(Do(call("nl_write", form("&{}", x.first), f"nl_x.{x.pointer}", self.wide)) for x in few if x.written),
        ]


@dataclass(frozen=True)
class Lines:
    """A loop over points, of which a thread has `many` neighbours at a time; it holds what `held` arrays have for all
    of its points. `where`: only where this is true, or else points are to be taken one by one."""

    loop: tuple[Stmt, ...]
    many: int
    held: int
    where: Code | None = None


def many_of(nest: PointNest, found: Sequence[Beside]) -> int:
    """Neighbours that have 16 bytes of the narrowest array."""
    return 8 if nest.k.dialect.precision is DType.F32 and any(x.narrow for x in found) else 4


def in_lines(nest: PointNest, statements: Sequence[Stmt], end: Sequence[Stmt] | None = None) -> Lines | None:
    """The loop over points, four neighbours at a time or, where an array of a map is bf16, eight: 16 bytes of the
    narrowest one; of sums _OF_SUMS. None where elements of neighbours are no neighbours. `statements`: those of a
    point; `end`: those of them that follow sums, of which alone neighbours take elements at once. Whether all is
    aligned is asked once. All is read before any of it is used, so that a thread waits once; what depends on the last
    dim alone is read again only where a thread comes to another index of it. A map that begins somewhere along the last
    dim often begins at any place: its loop is for aligned ones alone (`where`)."""
    if not nest.par:
        return None
    *lines, last = [d.name for d in nest.par]
    found, others = besides(nest, statements if end is None else end, [last], guarded=True)
    if others or not any(x.few for x in found):
        return None
    access = nest.k.template.strided
    fixes = {
        x.formal for x in found if x.few and not x.written and x.inside is None and access[x.formal].dims == {last}
    }
    found = [replace(x, fixed=bool(lines) and x.formal in fixes) for x in found]
    fixed, moving = ([x for x in found if x.fixed == same] for same in (True, False))
    begins = [x for x in found if x.inside is not None and access[x.formal].along(last)[0][0].guarded]
    alone = end is None and bool(lines) and bool(begins)
    many, wide = many_of(nest, found) if end is None else _OF_SUMS, "true" if alone else "nl_wide"
    made = _Lines(many, nest.vars[last], fixed, moving, wide)
    return _looped(nest, made, made.point(nest.points.body, held(statements, found)), found)


def _looped(nest: PointNest, made: _Lines, inner: Sequence[Stmt], found: Sequence[Beside]) -> Lines:
    """The loop over points, of which neighbours of all arrays in `found` are read together where they are aligned."""
    many, lines = made.many, len(nest.par) > 1
    tests = [form("nl_t.chunk >= {} * blockDim.x", many)]
    tests += [form("{} % {} == 0", nest.k.extent(nest.par[-1].extent), many)] if lines else []
    wide = every([*tests, *even(nest.k, [x for x in found if x.few], nest.par[-1].name, many)]) or code("true")
    width = code(f"nl_wide ? {many} : 1")
    if not lines:
        loop = replace(nest.points, body=inner, by=width, test="nl_every", kind=Kind.ROUNDS)
        return Lines((constants("bool", nl_every=wide), loop), many, 0)
    known: list[Stmt] = []
    if made.fixed:
        known.append(ir.Struct("struct", [x.member(many) for x in made.fixed], name("nl_same")))
        known.append(Let("nl_i64", code("nl_known"), "-1", const=False))
    if made.wide == "true":
        return Lines((*known, replace(nest.points, body=inner, by=code(many))), many, len(made.fixed), wide)
    loop = replace(nest.points, body=inner, by=code("nl_width"))
    first = (constants("bool", nl_wide=wide), constants("int", nl_width=width))
    return Lines((*first, *known, loop), many, len(made.fixed))


def windows_in_lines(nest: PointNest, x: Point) -> Lines | None:
    """As in_lines, of sums over few terms, whose guards neighbours share: a thread walks the window once for all of its
    points."""
    if x.start or len(x.sums) > 1 or nest.nest.beside:
        return None
    (sums,), last = x.sums, nest.par[-1].name
    (total,), own = sums.totals, sums.at([form("{}.x[nl_n]", x.at) for x in sums.totals])
    read, apart = besides(nest, own.exact, [last], terms=True)
    found, others = besides(nest, own.after, [last], guarded=True)
    few = [a for a in read if a.few]
    if apart or others or not few or not any(a.few for a in found):
        return None
    made = _Lines(many_of(nest, [*found, *few]), nest.vars[last], (), found)
    kind = f"nl_few<{nest.k.dialect.type_name(total.type)}, {made.many}>"
    nothing = Set(own.totals[0].at, nest.identity(total.type))
    before = [
        Let(kind, total.at),
        Each(name("nl_n"), made.many, [nothing], ir.Style.BESIDE),
        *nest.in_window(_term(nest, made, few, own.exact)),
    ]
    inner = made.point(nest.points.body, held(own.after, found), before)
    return _looped(nest, made, inner, [*found, *few])


def rows_in_lines(nest: PointNest, r: Code, points: Sequence[Sequence[Stmt]]) -> tuple[Code | None, list[Stmt]] | None:
    """The loops over rows, of which `points` are what each does with element r, by threads that take several neighbours
    at a time, where all is aligned and every thread of a row has some; None where neighbours are no neighbours in
    memory."""
    if len(nest.red) != 1:
        return None
    last, found = nest.red[-1].name, list[list[Beside]]()
    for point in points:
        arrays, others = besides(nest, point, [last], guarded=True)
        found.append([x for x in arrays if x.few])
        if others or not found[-1]:
            return None
    several = [x for few in found for x in few]
    many, extent, split = many_of(nest, several), nest.k.extent(nest.red[-1].extent), nest.split(r, nest.red)
    loops = list[Stmt]()
    for point, few in zip(points, found, strict=True):
        inner = _Lines(many, nest.vars[last], (), few, "true").point(split, held(point, few))
        first, by = f"{many} * nl_first", f"{many} * nl_group"
        loops.append(For(r, first, "nl_terms", inner, by, kind=Kind.ONCE))
    arrays = list({x.formal: x for x in several}.values())
    terms = [form("{} % {} == 0", extent, many), form("{} >= {} * nl_group", extent, many)]
    return every([*terms, *even(nest.k, arrays, last, many)]), loops


def _term(nest: PointNest, made: _Lines, few: Sequence[Beside], term: Sequence[Stmt]) -> list[Stmt]:
    """One term of all points of a thread; `few`: the arrays that it reads of which they have neighbours."""
    elements, places = nest.term_elements(), dict[str, Code]()
    few = [replace(x, inside=elements[x.formal].inside) for x in few]
    ahead, computed = list[Stmt](), list[Stmt]()
    for x in few:
        own, words = (code(f"nl_{x.pointer}_{what}") for what in ("of", "words"))
        ahead += made.ahead(x, words)
        computed.append(Let("auto", own, x.computed(words)))
        places[x.formal] = form("{}.x[nl_n]", own)
    own_term = made.shifted(ir.moved(term, places, guards_of(few)))
    return [*ahead, *computed, ir.Closure("nl_term", [_N], own_term), *made.each("nl_term")]
