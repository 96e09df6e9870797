"""Loop nests in CUDA: maps, reductions and plain contractions.

Assumes: a legal Nest: PAR (and LANE) iterations are independent.
Guarantees: one thread per point of the PAR dims, the last of them along neighbouring threads (this target stores
tensors row-major; a LANE dim is one more PAR dim); RED dims run inside the thread, in order. A warp or a block may
share one point of a reduction: thread t takes the terms t, t + group, ... and partial sums are joined by a fixed tree,
so the bits depend on the extents alone, never on the launch. Group 1 is a thread alone. Where a sum runs over the rows
of a matrix, neighbouring threads have neighbouring columns instead (sums_columns), or four each, which are read
together where they are aligned. A strided sum, which skips
terms, has an additional function of nested loops, for single threads; backends/cuda/kernels/launch_geometry.py
chooses between the two.
`bitwise` always takes nested loops.
Does not: tile or reorder dims (strategies do).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import RANDOM, STEP, PrintError, Scope
from backends.c_family.point_nest import Constants, PointNest, Total, read_in_terms, rewritten
from backends.cuda.kernels.kernel import BLOCK, WAIT, Function
from backends.cuda.kernels.nests.lines import (
    Beside,
    besides,
    even,
    held,
    in_lines,
    rows_in_lines,
    windows_in_lines,
)
from backends.cuda.kernels.nests.several_points import in_fours, in_pairs
from backends.kernel_ir.descriptor import Division
from backends.kernel_ir.expr import ONE, address, braces, call, code, every, form, name
from backends.kernel_ir.stmt import (
    Block,
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
    While,
    constants,
    lines_of,
    moved,
    names_of,
    when,
)
from backends.kernel_ir.tree import Call, Code, Given
from compiler.expr.ast import Binary, refs

SHARED: Final = "_together"
"""Suffix of the function in which several threads share a point, where a thread alone has another one."""
WARP: Final = 32
_DRAWS: Final = tuple(f"nl_{x}_" for x in RANDOM)
_LONG: Final = "nl_poisson_"
"""A function that takes most of the registers of a wave: a thread draws one at a time."""
COLUMNS: Final = 32
"""Points that a block sums together where they are columns of a matrix."""
NEIGHBOURS: Final = 4
"""Points of a thread of such a sum, where they are neighbours in memory."""
COLUMN_ROWS: Final = BLOCK // COLUMNS
"""Rows that it reads at once."""
_N: Final = name("nl_n")
_ONCE: Final = {"**": "power", "%": "of_step"}
"""Operators whose values are computed once, and what these are called."""
_LIGHT: Final = frozenset({"bf16", "max", "min", "abs", "sqrt", "sign", "clip"})
"""Functions of a few instructions."""
_UNROLLED: Final = 4
"""Terms of a window, at most, whose loop is unrolled; neighbouring points make four times as many."""
_MOST_LINES: Final = 16
_RESIDENT: Final = 4
"""Blocks of a sum over few terms that a processor holds: it waits for memory most of the time."""
_LINES_RESIDENT: Final = 3
"""Blocks of a map, whose threads have several neighbours each, and of no more than"""
_MOST_HELD: Final = 3
"""arrays what is the same for all of their points."""
_WIDE_RESIDENT: Final = 2
"""So, where threads have NEIGHBOURS points: they have as much under way."""


def sums_apart(template: l2.Template) -> bool:
    """Whether single threads that sum a point have a separate function, of nested loops: for strided sums, which skip
    terms. Else they use the function of shared points, as a group of one."""
    return any(axis.div != 1 for x in template.strided.values() for axis in x.axes)


def _is_light(inner: Sequence[Stmt]) -> bool:
    """Whether statements wait for memory most of the time, and are few enough to be repeated."""
    functions = {n[3:-4] for n in names_of(inner) if n.startswith("nl_") and n.endswith(("_f32", "_f64"))}
    return len(lines_of(inner)) <= _MOST_LINES and functions <= _LIGHT


def is_short(nest: l2.Nest) -> bool:
    """Whether a sum is known to have too few terms for a warp (small windows)."""
    return prod(d.extent if isinstance(d.extent, int) else WARP for d in nest.red) < WARP


def _strides(access: l2.Strided, dim: str) -> list[int | str]:
    """How far a step along a dim goes in memory, along each axis that it moves: literals, or columns."""
    return [a.stride if c == 1 else 0 for a, c in access.along(dim)]


def _read_in_terms(template: l2.Template, nest: l2.Nest) -> list[l2.Strided] | None:
    """The accesses of a sum's terms; None where one of them is windowed, or no element."""
    wanted = read_in_terms(nest)
    found = [f.access for f in template.arrays if f.name in wanted]
    plain = [x for x in found if isinstance(x, l2.Strided) and not x.guards]
    return plain if len(plain) == len(found) else None


def sums_columns(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of neighbouring points are neighbours in memory, and those of one point are not: the sum over
    the rows of a matrix. What points share is not asked."""
    par, red = nest.par, [d.name for d in nest.red]
    if nest.combine is None or nest.staged or template.order is l2.Order.BITWISE or not par or not red:
        return False
    accesses = _read_in_terms(template, nest)
    if not accesses:
        return False
    across = [_strides(x, par[-1].name) for x in accesses]
    along = [s for x, own in zip(accesses, across, strict=True) if own for d in red for s in _strides(x, d)]
    return all(s in ([], [1]) for s in across) and [1] in across and bool(along) and 1 not in along


def sums_rows(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of one point are neighbours in memory."""
    red = [d.name for d in nest.red]
    accesses = _read_in_terms(template, nest) if nest.combine is not None and red else None
    return bool(accesses) and all(_strides(x, red[-1]) in ([], [1]) for x in accesses or ())


def _together(structure: str, arrays: Sequence[Beside], even: bool = False) -> list[Stmt]:
    """What a term has of arrays, for all points of a thread. `even`: these are aligned neighbours."""
    if not arrays:
        return []
    aligned = name("nl_get_aligned")
    found = [form("{}<{}>(&{})", aligned, x.type, x.first) if even and x.few else x.value() for x in arrays]
    return [Struct("const struct", [x.member() for x in arrays], name(structure), braces(*found))]


def _while(test: Code, step: str) -> Stmt:
    return While(test, [Do(step)], Kind.ONCE, Style.BESIDE)


def _joined(totals: Sequence[Total]) -> list[Stmt]:
    """Accumulators take what all threads have."""
    return [Set(x.at, f"nl_all.of[{k}]") for k, x in enumerate(totals)]


class NestPrinter(PointNest):
    """Prints one nest of one kernel. `waves`: see nest_functions."""

    def __init__(self, k: Kernel, nest: l2.Nest, waves: bool = False) -> None:
        super().__init__(k, nest)
        self.waves = waves
        self.inverses: dict[str, Let] = {}

    def functions(self) -> list[Function]:
        return self.with_inverses(self._functions())

    def with_inverses(self, made: Sequence[Function]) -> list[Function]:
        """Functions that begin with the inverses of extents that they divide by."""
        wanted = [names_of(f.body) for f in made]
        inverses = [[x for x in self.inverses.values() if x.name.text in names] for names in wanted]
        return [replace(f, ahead=(*f.ahead, *more)) for f, more in zip(made, inverses, strict=True)]

    def _functions(self) -> list[Function]:
        self._check_order()
        emits = self.emits()
        if self.nest.combine is None:
            return [self._map(emits)]
        if self.k.template.order is l2.Order.BITWISE or is_short(self.nest):
            return [self._sequential()]
        if self.nest.staged:
            return [self._staged()]
        if sums_apart(self.k.template):
            return [self._sequential(), self._shared(SHARED, 0)]
        if not self.waves and sums_columns(self.k.template, self.nest):
            return [self._wide_columns() or self._columns()]
        return [self._shared("", _RESIDENT if len(self.red) == 1 else 0)]

    def taken(self, rest: Code, d: l2.Dim, short: bool) -> Code:
        """By the inverse of the extent, which is computed ahead, before preceding kernels have ended."""
        if short or isinstance(d.extent, int):
            return super().taken(rest, d, short)
        extent = self.k.extent(d.extent)
        if d.extent not in self.inverses:
            inverse = self.k.namer.fresh(f"{d.name}_inverse")
            self.inverses[d.extent] = Let("nl_u32", inverse, call("nl_inverse", extent))
        return call("nl_take", rest, extent, self.inverses[d.extent].name)

    # ----------------------------------------------------------------------------------------- maps

    def _map(self, emits: Sequence[l2.Emit]) -> Function:
        n, namer = self.nest, self.k.namer
        ahead, before = list[Stmt](), list[Stmt]()
        slots = {s.list: namer.fresh("slot") for s in emits}
        for s in emits:
            number, count = self.k.scope[s.slots].code, self.k.pointers[s.count]
            ahead.append(Let("nl_i64", slots[s.list], call("nl_slot", STEP, number)))
            later = call("nl_later", slots[s.list], 1, number)
            before.append(when("nl_me.part == 0 && threadIdx.x == 0", Set(count[later], 0)))

        def emit(s: l2.Emit, scope: Scope) -> list[Stmt]:
            place = self.k.pointers[s.list] + slots[s.list] * self.k.extent(self.par[0].extent)
            counter = self.k.pointers[s.count] + slots[s.list]
            index = form("(nl_i32){}", self.vars[self.par[0].name])
            return [Do(call("nl_append", place, counter, self.k.dialect.test(s.when, scope), index), s.span)]

        statements, powers = self._powers((*n.prologue, *n.epilogue))
        ahead += powers
        body = self.body(emit)
        points = self.points()
        point = body.finish(statements)
        inner = [*points.body, *point]
        drawn = 0 if before else self._drawn(inner)
        if drawn:
            inner.insert(drawn, WAIT)
        points, split = replace(points, body=inner), points
        loop: list[Stmt] = [points]
        if self.waves and len(self.par) == 1 and not any(n.startswith(_LONG) for n in names_of(inner)):
            loop = in_pairs(points, WAIT, self._pointers())
        elif not self.waves and not emits and drawn == 0 and _is_light(inner):
            if (lines := in_lines(self, split, point)) is not None:
                return lines.function(_LINES_RESIDENT if lines.held <= _MOST_HELD else _WIDE_RESIDENT, before, ahead)
            loop = in_fours(points, self._pointers())
        division = Division.POINTS if self.waves else Division.FEW
        if drawn == 0:
            return Function("", tuple([*before, *loop]), ahead=tuple(ahead), division=division)
        return Function("", tuple([*loop, WAIT]), ahead=tuple(ahead), waits=True, division=division)

    def _powers(self, statements: Sequence[l2.Statement]) -> tuple[list[l2.Statement], list[Stmt]]:
        """The statements with a local in place of each power and remainder of the step and scalars, which is computed
        once (Adam's corrections of its means, the batch of a step); and the lines of these."""
        known = {f.name for f in self.k.template.columns} | {"step"}
        once = Constants(
            self.k, self.scope, known, lambda e: _ONCE.get(e.op, "") if isinstance(e, Binary) and refs(e) else ""
        )
        return list(rewritten(statements, once)), once.lines

    def _pointers(self) -> frozenset[str]:
        return frozenset(x.text for x in self.k.pointers.values())

    def _drawn(self, inner: Sequence[Stmt]) -> int:
        """Number of leading statements that draw random numbers and access no array: they need not wait for preceding
        kernels."""
        free = next((at for at, x in enumerate(inner) if names_of([x]) & self._pointers()), 0)
        return free if any(n.startswith(_DRAWS) for n in names_of(inner[:free])) else 0

    # ----------------------------------------------------------------------------------- reductions

    def _sequential(self) -> Function:
        alone = self.waves or self.nest.staged
        if not alone and is_short(self.nest) and (together := self._short_sums()):
            return together
        points, point = self.points(), self.point()
        point = self._windows(point) if self.nest.staged and is_short(self.nest) else point
        loop = replace(points, body=[*points.body, *point])
        return Function("", (loop,), resident=_RESIDENT, division=Division.POINTS)

    def loop(self, dim: l2.Dim, inner: Sequence[Stmt]) -> list[Stmt]:
        """Small windows, and those whose elements are read and written again, are unrolled, so that loads overlap."""
        terms = prod(x.extent for x in self.red if isinstance(x.extent, int))
        if not is_short(self.nest) or not (self.nest.staged or terms <= _UNROLLED):
            return super().loop(dim, inner)
        assert isinstance(dim.extent, int)
        return [Each(self.vars[dim.name], dim.extent, inner)]

    def _windows(self, point: list[Stmt]) -> list[Stmt]:
        """The point, which takes the elements of its window from registers: their lines are read, and written, at
        once, before and after it."""
        *others, last = self.red
        loads, stores, places = list[Stmt](), list[Stmt](), dict[str, Code]()
        if len(others) > 1 or not isinstance(last.extent, int) or last.extent > NEIGHBOURS:
            return point
        line, lines = (self.vars[others[0].name], others[0].extent) if others else (code(0), 1)
        assert isinstance(lines, int)
        width, column = code(last.extent), self.vars[last.name]

        def each(statement: Stmt) -> Stmt:
            """In each line, at its first element."""
            body = [Let("nl_i64", column, code(0)), statement]
            return Each(line, lines, body) if others else Block("", body)

        for f, access in self.k.strided:
            element = self.elements[f.name]
            if not access.neighbours(last.name) or element.inside is not None or f.mode is l2.Mode.ACCUMULATE:
                continue
            few, kind = code(f"nl_{self.k.pointers[f.name]}"), self.k.dialect.type_name(element.type)
            own, at = few[line], address(element.place)
            loads.append(Let(f"nl_few<{kind}>", few[lines], braces(), const=False))
            if f.mode is not l2.Mode.WRITE:
                loads.append(each(Set(own, Call(Given(name("nl_get_line"), (width, name(kind))), (at,)))))
            if f.mode is not l2.Mode.READ:
                stores.append(each(Do(Call(Given(name("nl_put_line"), (width,)), (at, own)))))
            places[f.name] = form("{}.x[{}]", own, column)
        return [*loads, *moved(point, places), *stores]

    def _short_sums(self) -> Function | None:
        """Sums over few terms (windows) of several neighbouring points at a time, or, where windows of neighbours are
        no neighbours, with epilogues that read and write for several at once; None where these are none, either."""
        if len(self.par) == 1:
            return None
        points, resident = self.points(), _LINES_RESIDENT
        if (lines := windows_in_lines(self, points)) is None:
            sums, end = self.parts()
            lines, resident = in_lines(self, points, [*sums, *end], end), _RESIDENT
        return None if lines is None else lines.function(resident)

    def _walk(self, r: Code, term: list[Stmt], apart: list[Stmt] | None = None) -> list[Stmt]:
        """Terms nl_first, nl_first + group, ..., four at a time, so that their loads overlap; several dims are counted
        on, each by its part of the stride, with carries instead of divisions. `apart`: a term where not `nl_even`."""
        start: list[Stmt] = [Let("nl_i64", r, code("nl_first"), const=False)]
        count: list[Stmt] = [Set(r, "nl_group", "+=")]
        own: list[Stmt] = []
        if len(self.red) == 1:
            own = self.split(r, self.red)
        else:
            at, by = self.k.namer.fresh("at"), self.k.namer.fresh("by")
            more = [Let("nl_u64", by, "nl_group", const=False)]
            start.append(Let("nl_u64", at, "nl_first", const=False, beside=more))
            for number, d in reversed(list(enumerate(self.red))):
                v, extent = self.vars[d.name], self.k.extent(d.extent)
                step = self.k.namer.fresh(f"{d.name}_step")
                first, width = (x if number == 0 else call("nl_take", x, extent) for x in (at, by))
                start += [Let("nl_i64", v, first, const=False), Let("nl_i64", step, width)]
                count.append(Set(v, step, "+="))
                if number > 0:
                    before = self.vars[self.red[number - 1].name]
                    count.append(If(v >= extent, [Set(v, extent, "-="), Set(before, ONE, "+=")]))
        loops: list[Stmt] = [
            _while(form("{} + 7ll * nl_group < nl_terms", r), "nl_each<8>(nl_more)"),
            _while(form("{} + 3ll * nl_group < nl_terms", r), "nl_each<4>(nl_more)"),
            _while(form("{} < nl_terms", r), "nl_more(0)"),
        ]
        one = Closure("nl_more", [Let("int", name(""))], [*own, *term, *count])
        if apart is None:
            return [*start, one, *loops]
        other = Closure("nl_apart", [], [*own, *apart, *count])
        return [*start, one, other, If("nl_even", loops, [_while(form("{} < nl_terms", r), "nl_apart()")])]

    def _columns(self) -> Function:
        """Neighbouring threads have neighbouring points, and every COLUMN_ROWS-th term of each: what they read of a
        term is contiguous. nl_t.group blocks share COLUMNS points."""
        e, start, totals, walk, end = self._parts()
        return self._by_columns(e, [], start, walk, totals, [*_joined(totals), *end])

    def _parts(self) -> tuple[Code, list[Stmt], list[Total], list[Stmt], list[Stmt]]:
        """Of a point whose terms threads share: its flat index, what comes before the sums, these, a thread's walk over
        terms, what follows the sums."""
        body = self.body()
        start = body.run(self.nest.prologue)
        totals = self.totals(self.scope)
        start += map(self.start, totals)
        r, e = self.k.namer.fresh("r"), self.k.namer.fresh("e")
        walk = self._walk(r, self.summed(body.scope, totals))
        for x in totals:
            body.scope |= x.symbol
        return e, start, totals, walk, body.finish(self.nest.epilogue)

    def _by_columns(
        self,
        e: Code,
        even: Sequence[Code],
        start: Sequence[Stmt],
        walk: Sequence[Stmt],
        parts: Sequence[Total],
        end: Sequence[Stmt],
        many: Code | None = None,
    ) -> Function:
        """The function of _columns or, of `many` points of a thread, neighbours in memory where `even`, of
        _wide_columns: what comes before the `walk` over terms, the `parts` that are joined, the `end` of points."""
        first, place = f"nl_me.part / nl_splits * {COLUMNS}ll", f"threadIdx.x % {COLUMNS}"
        point = f"({first} + {place}) * nl_many" if many else f"{first} + {place}"
        return Function(
            "",
            (
                constants("nl_u32", nl_splits="nl_t.group", nl_share="nl_me.part % nl_splits"),
                *([constants("int", nl_many=many)] if many else []),
                constants("nl_i64", nl_points=self.extent(self.par)),
                constants("nl_i64", nl_point=point),
                Let("nl_i64", e, call("nl_least", "nl_point", "nl_points - nl_many" if many else "nl_points - 1")),
                *([constants("bool", nl_even=every(even) or ONE)] if many else []),
                *self.split(e, self.par),
                *start,
                constants("nl_i64", nl_terms=self.extent(self.red)),
                constants("nl_u32", nl_first=f"nl_share * {COLUMN_ROWS} + threadIdx.x / {COLUMNS}"),
                constants("nl_u32", nl_group=f"nl_splits * {COLUMN_ROWS}"),
                *walk,
                *self._joining("nl_joined_columns", parts, ["nl_splits"]),
                when("!nl_all.here || nl_point >= nl_points", Leave("return")),
                *end,
            ),
            resident=_WIDE_RESIDENT if many else _RESIDENT,
            division=Division.WIDE_COLUMNS if many else Division.COLUMNS,
        )

    def _wide_columns(self) -> Function | None:
        """As _columns, of NEIGHBOURS points to a thread, whose elements it reads together; one where the last dim has
        no multiple of them. None where neighbours are no neighbours in memory."""
        last, totals = self.par[-1], self.totals(self.scope)
        term = self.summed(self.scope, [replace(x, at=form("{}[nl_n]", x.at)) for x in totals])
        found, others = besides(self, term, [last.name])
        if self.nest.prologue or others or not any(x.few for x in found):
            return None
        accesses, red = self.k.template.strided, {d.name for d in self.red}
        found = [replace(x, fixed=red.isdisjoint(accesses[x.formal].dims)) for x in found]
        r, e = self.k.namer.fresh("r"), self.k.namer.fresh("e")
        fixed, moving = ([x for x in found if x.fixed == same] for same in (True, False))
        terms_of = Each(_N, NEIGHBOURS, held(term, found))
        parts = [replace(x, at=form("{}[{}]", x.at, n)) for x in totals for n in range(NEIGHBOURS)]
        kinds = [self.k.dialect.type_name(x.type) for x in totals]
        nothing = [braces(*[self.identity(x.type)] * NEIGHBOURS) for x in totals]
        begin = [Let(t, x.at[name("")], n, const=False) for t, x, n in zip(kinds, totals, nothing, strict=True)]
        aligned = even(self.k, [x for x in moving if x.few], last.name, NEIGHBOURS)
        many = form("{} % {} == 0 ? {} : 1", self.k.extent(last.extent), NEIGHBOURS, NEIGHBOURS)
        aligned = [form("nl_many == {}", NEIGHBOURS), *aligned]
        start, terms_apart = [*_together("nl_same", fixed), *begin], [*_together("nl_x", moving), terms_of]
        walk = self._walk(r, [*_together("nl_x", moving, True), terms_of], terms_apart)
        return self._by_columns(e, aligned, start, walk, parts, self._ends(totals, kinds), many)

    def _ends(self, totals: Sequence[Total], kinds: Sequence[str]) -> list[Stmt]:
        """The epilogues of the points of a thread, whose sums are in nl_all."""
        body, own = self.body(), self.vars[self.par[-1].name]
        ends = [replace(x, at=self.k.namer.fresh("whole")) for x in totals]
        for x in ends:
            body.scope |= x.symbol
        places = [code(f"nl_all.of[{f'{k * NEIGHBOURS} + ' if k else ''}nl_n]") for k in range(len(ends))]
        lines: list[Stmt] = [
            when("nl_n >= nl_many", Leave("return")),
            Let("nl_i64", own, code("nl_first_own + nl_n")),
            *(Let(t, x.at, place) for t, x, place in zip(kinds, ends, places, strict=True)),
            *body.finish(self.nest.epilogue),
        ]
        return [constants("nl_i64", nl_first_own=own), Each(_N, NEIGHBOURS, lines)]

    def _joining(
        self, function: str, totals: Sequence[Total], groups: Sequence[str], result: str = "nl_all"
    ) -> list[Stmt]:
        """The call that combines the partial results of threads."""
        t, *others = [x.type for x in totals]
        if others and set(others) != {t}:
            raise PrintError("sums that are joined are of one type", self.k.template.span)
        kind, combine = self.k.dialect.type_name(t), totals[0].combine
        joins = Given(name("nl_sum_of"), (name(kind),)) if combine == "add" else name(f"nl_{combine}_{t}")
        joined = Given(name(function), (name(kind), code(len(totals)), joins))
        values = braces(braces(*(x.at for x in totals)))
        given = (values, self.identity(t, combine), *map(code, ("nl_me", "nl_t.memory", *groups)))
        return [Let("auto", code(result), Call(joined, given), long=True)]

    def _shared(self, suffix: str, resident: int) -> Function:
        """nl_t.group threads share a point: 1, 32 (a warp), a block, or several blocks (one point each)."""
        e, start, totals, walk, end = self._parts()
        joined = [
            *self._joining("nl_joined", totals, ["nl_bits", "nl_splits"]),
            when("!nl_all.here", Leave("return")),
            *_joined(totals),
        ]
        inner = [
            *self.split(e, self.par),
            *start,
            constants("nl_i64", nl_terms=self.extent(self.red)),
            constants("nl_u32", nl_first="(nl_share << nl_bits) + nl_lane"),
            *walk,
            If("nl_are_many(nl_group)", joined),
            If("nl_lane == 0", end),
        ]
        return Function(
            suffix,
            (
                constants("nl_u32", nl_group="nl_t.group", nl_bits="nl_bits_of(nl_group)"),
                constants("nl_u32", nl_splits="nl_group >> nl_bits"),
                constants("nl_u32", nl_part="nl_me.part / nl_splits", nl_share="nl_me.part % nl_splits"),
                constants("nl_u32", nl_lane="threadIdx.x & ((1u << nl_bits) - 1)"),
                For(e, 0, self.extent(self.par), inner, kind=Kind.SHARED),
            ),
            resident=resident,
            division=Division.NEIGHBOURS if sums_rows(self.k.template, self.nest) else Division.TERMS,
        )

    # -------------------------------------------------------------------------------- what follows sums

    def _staged(self) -> Function:
        """nl_t.group threads share a point: 1, a warp or a block. All of them have its sums, and go on with its
        elements, several neighbours at a time where they can."""
        body, r, e = self.body(), self.k.namer.fresh("r"), self.k.namer.fresh("e")
        lines, stages = body.run(self.nest.prologue), []
        for stage in self.nest.stages:
            totals = self.totals(body.scope, stage)
            term = self.summed(body.scope, totals)
            for x in totals:
                body.scope |= x.symbol
            stages.append((totals, term, [*body.run(stage.epilogue), If("nl_first == 0", body.stored())]))
        each = self.at_each(body)
        wide, rows = rows_in_lines(self, r, [*(term for _, term, _ in stages), *([each] if each else [])]) or (None, [])
        for number, (totals, term, after) in enumerate(stages):
            joined = self._joining("nl_joined", totals, ["nl_bits", "1"], "nl_found")
            joined += [Let("auto", code("nl_all"), call("nl_first_of_warp", "nl_found")), *_joined(totals)]
            walk = self._walk(r, term)
            walk = [If("nl_wide", [rows[number]], walk)] if rows else walk
            lines += [*map(self.start, totals), Block("", [*walk, If("nl_are_many(nl_group)", joined)]), *after]
        if each:
            points = For(r, "nl_first", "nl_terms", [*self.split(r, self.red), *each], "nl_group")
            fours = in_fours(points, self._pointers())
            lines.append(If("nl_wide", [rows[-1]], fours) if rows else Block("", fours))
        inner = [*self.split(e, self.par), constants("nl_i64", nl_terms=self.extent(self.red)), *lines]
        return Function(
            "",
            (
                constants("nl_u32", nl_group="nl_t.group", nl_bits="nl_bits_of(nl_group)"),
                constants("nl_u32", nl_first="threadIdx.x & ((1u << nl_bits) - 1)"),
                *([] if wide is None else [constants("bool", nl_wide=wide)]),
                For(e, 0, self.extent(self.par), inner, kind=Kind.GROUPS),
            ),
            resident=_RESIDENT if all(len(s.sums) == 1 for s in self.nest.stages) else 0,
            division=Division.ROWS,
        )


def nest_functions(k: Kernel, nest: l2.Nest, waves: bool) -> list[Function]:
    """The functions of one nest; `waves`: blocks may have more points than threads (backends/cuda/waves/waves.py)."""
    return NestPrinter(k, nest, waves).functions()
