"""Loop nests in CUDA: maps, reductions and plain contractions.

Assumes: a legal Nest: PAR (and LANE) iterations are independent.
Guarantees: one thread per point of the PAR dims, the last of them along neighbouring threads (this target stores
tensors row-major; a LANE dim is one more PAR dim); RED dims run inside the thread, in order. A warp or a block may
share one point of a reduction: thread t takes the terms t, t + group, ... and partial sums are joined by a fixed tree,
so the bits depend on the extents alone, never on the launch. Group 1 is a thread alone. Where a sum runs over the rows
of a matrix, neighbouring threads have neighbouring columns instead (sums_columns). A strided sum, which skips
terms, has an additional function of nested loops, for single threads; launch_geometry.py chooses between the two.
`bitwise` always takes nested loops.
Does not: tile or reorder dims (strategies do).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import (
    Line,
    PrintError,
    Scope,
    Symbol,
    indent,
    type_of,
)
from backends.c_family.point_nest import PointNest, is_windowed
from backends.cuda.kernels.kernel import BLOCK, ONCE, WAIT, Function, each_element
from backends.cuda.kernels.two_per_thread import in_fours, in_pairs
from compiler.expr.ast import Binary, Expr, Ref, refs, rewrite
from compiler.ir.space import DType

SHARED: Final = "_together"
"""Suffix of the function in which several threads share a point, where a thread alone has another one."""
WARP: Final = 32
_DRAWS: Final = re.compile(r"\bnl_(uniform|normal|exponential|poisson)_")
COLUMNS: Final = 32
"""Points that a block sums together where they are columns of a matrix."""
COLUMN_ROWS: Final = BLOCK // COLUMNS
"""Rows that it reads at once."""
_FUNCTION: Final = re.compile(r"\bnl_(\w+)_f(?:32|64)\(")
_LIGHT: Final = frozenset({"bf16", "max", "min", "abs", "sqrt", "sign", "clip"})
"""Functions of a few instructions."""
_MOST_LINES: Final = 16
_RESIDENT: Final = 4
"""Blocks of a sum over few terms that a processor holds: it waits for memory most of the time."""


def sums_apart(template: l2.Template) -> bool:
    """Whether single threads that sum a point have a separate function, of nested loops: for strided sums, which skip
    terms. Else they use the function of shared points, as a group of one."""
    accesses = (f.access for f in template.formals if isinstance(f, l2.ArrayFormal))
    return any(axis.div != 1 for x in accesses if isinstance(x, l2.Strided) for axis in x.axes)


def _is_light(lines: Sequence[Line]) -> bool:
    """Whether the lines wait for memory most of the time, and are few enough to be repeated."""
    words = {w for x in lines for w in _FUNCTION.findall(x.text)}
    return len(lines) <= _MOST_LINES and words <= _LIGHT


def is_short(nest: l2.Nest) -> bool:
    """Whether a sum is known to have too few terms for a warp (small windows)."""
    terms = 1
    for d in nest.dims:
        if d.kind is l2.DimKind.RED:
            if isinstance(d.extent, str):
                return False
            terms *= d.extent
    return terms < WARP


def _strides(access: l2.Strided, dim: str) -> list[int | str]:
    """How far a step along a dim goes in memory, along each axis that it moves: literals, or columns."""
    return [a.stride if c == 1 else 0 for a in access.axes for d, c in a.terms if d == dim]


def _read_in_terms(template: l2.Template, nest: l2.Nest) -> list[l2.Strided] | None:
    """The accesses of a sum's terms; None where one of them is windowed, or no element."""
    assert nest.term is not None
    wanted = refs(nest.term)
    found = [f.access for f in template.formals if isinstance(f, l2.ArrayFormal) and f.name in wanted]
    plain = [x for x in found if isinstance(x, l2.Strided) and not any(is_windowed(a) for a in x.axes)]
    return plain if len(plain) == len(found) else None


def sums_columns(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of neighbouring points are neighbours in memory, and those of one point are not: the sum over
    the rows of a matrix."""
    par = [d for d in nest.dims if d.kind is not l2.DimKind.RED]
    red = [d.name for d in nest.dims if d.kind is l2.DimKind.RED]
    if nest.combine is None or template.order is l2.Order.BITWISE or not par or not red:
        return False
    accesses = _read_in_terms(template, nest)
    if not accesses:
        return False
    across = [_strides(x, par[-1].name) for x in accesses]
    along = [s for x in accesses for d in red for s in _strides(x, d)]
    return all(s in ([], [1]) for s in across) and [1] in across and bool(along) and 1 not in along


def sums_rows(template: l2.Template, nest: l2.Nest) -> bool:
    """Whether the terms of one point are neighbours in memory."""
    red = [d.name for d in nest.dims if d.kind is l2.DimKind.RED]
    accesses = _read_in_terms(template, nest) if nest.combine is not None and red else None
    return bool(accesses) and all(_strides(x, red[-1]) in ([], [1]) for x in accesses or ())


class NestPrinter(PointNest):
    """Prints one nest of one kernel. `waves`: see nest_functions."""

    def __init__(self, k: Kernel, nest: l2.Nest, waves: bool = False) -> None:
        super().__init__(k, nest)
        self.waves = waves

    def functions(self) -> list[Function]:
        self._check_order()
        emits = [s for s in self.nest.prologue if isinstance(s, l2.Emit)]
        if self.nest.combine is None:
            return [self._map(emits)]
        if emits:
            raise PrintError("events can only be emitted by a map", emits[0].span)
        if self.k.template.order is l2.Order.BITWISE or is_short(self.nest):
            return [self._sequential()]
        if sums_apart(self.k.template):
            return [self._sequential(), self._shared(SHARED, 0)]
        if not self.waves and sums_columns(self.k.template, self.nest):
            return [self._columns()]
        return [self._shared("", _RESIDENT if len(self.red) == 1 else 0)]

    # ----------------------------------------------------------------------------------------- maps

    def _map(self, emits: Sequence[l2.Emit]) -> Function:
        n, namer = self.nest, self.k.namer
        if emits and len(self.par) != 1:
            raise PrintError("events can only be emitted by a map over one dim", emits[0].span)
        ahead, before = list[Line](), list[Line]()
        slots = {id(s): namer.fresh("slot") for s in emits}
        for s in emits:
            number, count = self.k.scope[s.slots].text, self.k.pointers[s.count]
            ahead.append(Line(f"const nl_i64 {slots[id(s)]} = nl_slot(step, {number});"))
            before.append(
                Line(f"if (nl_me.part == 0 && threadIdx.x == 0) {count}[nl_later({slots[id(s)]}, 1, {number})] = 0;")
            )

        def emit(s: l2.Emit, scope: Scope) -> list[Line]:
            test = self.k.printer.test(s.when, scope)
            extent = self.k.extent(self.par[0].extent)
            index = self.vars[self.par[0].name]
            place = f"{self.k.pointers[s.list]} + {slots[id(s)]} * {extent}"
            counter = f"{self.k.pointers[s.count]} + {slots[id(s)]}"
            return [Line(f"nl_append({place}, {counter}, {test}, (nl_i32){index});", span=s.span)]

        statements, powers = self._powers((*n.prologue, *n.epilogue))
        ahead += powers
        body = self.body(emit)
        e = self.vars[self.par[0].name] if len(self.par) == 1 else namer.fresh("e")
        split = self.split(e, self.par) if len(self.par) != 1 else []
        inner = [*split, *body.finish(statements)]
        drawn = self._drawn(inner)
        drawn = 0 if before else drawn
        if drawn:
            inner.insert(drawn, WAIT)
        loop = each_element(e, self.extent(self.par), inner)
        if self.waves and len(self.par) == 1:
            loop = [loop[0], *in_pairs(inner, e, WAIT, frozenset(self.k.pointers.values()))]
        elif not self.waves and not emits and drawn == 0 and _is_light(inner):
            loop = [loop[0], *in_fours(inner, e, frozenset(self.k.pointers.values()))]
        if drawn == 0:
            return Function("", tuple([*before, *loop]), ahead=tuple(ahead))
        return Function("", tuple([*loop, WAIT]), ahead=tuple(ahead), waits=True)

    def _powers(self, statements: Sequence[l2.Statement]) -> tuple[tuple[l2.Statement, ...], list[Line]]:
        """The statements with a local in place of each power of the step and scalars, which is computed once (Adam's
        corrections of its means); and the lines of these."""
        known = {f.name for f in self.k.template.formals if isinstance(f, l2.ScalarFormal)} | {"step"}
        names: dict[Expr, str] = {}
        real = self.k.dialect.precision

        def hoisted(e: Expr) -> Expr:
            if not (isinstance(e, Binary) and e.op == "**" and refs(e) and refs(e) <= known):
                return e
            return Ref(names.setdefault(e, f"power {len(names)}"))

        found = tuple(
            s if isinstance(s, l2.Emit) else replace(s, value=rewrite(s.value, hoisted, top_down=True))
            for s in statements
        )
        lines = []
        for e, name in names.items():
            t = type_of(e, self.scope, real)
            text = self.k.printer.expr(e, self.scope, t)
            self.scope[name] = Symbol(self.k.namer.fresh("power"), t)
            lines.append(Line(f"const {self.k.dialect.type_name(t)} {self.scope[name].text} = {text};"))
        return found, lines

    def _drawn(self, inner: Sequence[Line]) -> int:
        """Number of leading lines that draw random numbers and access no array: they need not wait for preceding
        kernels."""
        pointers = re.compile("|".join(rf"\b{re.escape(p)}\b" for p in self.k.pointers.values()))
        free = next((at for at, x in enumerate(inner) if pointers.search(x.text)), 0)
        return free if any(_DRAWS.search(x.text) for x in inner[:free]) else 0

    # ----------------------------------------------------------------------------------- reductions

    def _sequential(self) -> Function:
        e, inner = self.sequential()
        return Function("", tuple(each_element(e, self.extent(self.par), inner)), resident=_RESIDENT)

    def _walk(self, r: str, term: list[Line]) -> list[Line]:
        """Terms nl_first, nl_first + group, ..., four at a time, so that their loads overlap; several dims are counted
        on, each by its part of the stride, with carries instead of divisions."""
        start, count = [Line(f"nl_i64 {r} = nl_first;")], [Line(f"{r} += nl_group;")]
        if len(self.red) == 1:
            term = [*self.split(r, self.red), *term]
        else:
            at, by = self.k.namer.fresh("at"), self.k.namer.fresh("by")
            start.append(Line(f"nl_u64 {at} = nl_first, {by} = nl_group;"))
            for number, d in reversed(list(enumerate(self.red))):
                v, extent = self.vars[d.name], self.k.extent(d.extent)
                step = self.k.namer.fresh(f"{d.name}_step")
                first, more = (at, by) if number == 0 else (f"nl_take({at}, {extent})", f"nl_take({by}, {extent})")
                start += [Line(f"nl_i64 {v} = {first};"), Line(f"const nl_i64 {step} = {more};")]
                count.append(Line(f"{v} += {step};"))
                if number > 0:
                    before = self.vars[self.red[number - 1].name]
                    count += [
                        Line(f"if ({v} >= {extent}) {{"),
                        Line(f"{v} -= {extent};", 1),
                        Line(f"{before}++;", 1),
                        Line("}"),
                    ]
        return [
            *start,
            Line("const auto nl_more = [&](int) {"),
            *indent([*term, *count]),
            Line("};"),
            ONCE,
            Line(f"while ({r} + 3ll * nl_group < nl_terms) nl_each<4>(nl_more);"),
            ONCE,
            Line(f"while ({r} < nl_terms) nl_more(0);"),
        ]

    def _columns(self) -> Function:
        """Neighbouring threads have neighbouring points, and every COLUMN_ROWS-th term of each: what they read of a
        term is contiguous. nl_t.group blocks share COLUMNS points."""
        body = self.body()
        start, t, acc = self._start(body)
        kind = self.k.dialect.type_name(t)
        r, e = self.k.namer.fresh("r"), self.k.namer.fresh("e")
        walk = self._walk(r, self._term(body.scope, acc, t))
        body.scope[self.nest.acc] = Symbol(acc, t)
        end = body.finish(self.nest.epilogue)
        return Function(
            "",
            (
                Line("const nl_u32 nl_splits = nl_t.group, nl_share = nl_me.part % nl_splits;"),
                Line(f"const nl_i64 nl_points = {self.extent(self.par)};"),
                Line(f"const nl_i64 nl_point = nl_me.part / nl_splits * {COLUMNS}ll + threadIdx.x % {COLUMNS};"),
                Line(f"const nl_i64 {e} = nl_least(nl_point, nl_points - 1);"),
                *self.split(e, self.par),
                *start,
                Line(f"const nl_i64 nl_terms = {self.extent(self.red)};"),
                Line(f"const nl_u32 nl_first = nl_share * {COLUMN_ROWS} + threadIdx.x / {COLUMNS};"),
                Line(f"const nl_u32 nl_group = nl_splits * {COLUMN_ROWS};"),
                *walk,
                Line(f"const auto nl_all = nl_joined_columns<{kind}, {self._joins(t)}>("),
                Line(f"{acc}, {self._nothing(t)}, nl_me, nl_t.memory, nl_splits);", 1),
                Line("if (!nl_all.here || nl_point >= nl_points) return;"),
                Line(f"{acc} = nl_all.value;"),
                *end,
            ),
            resident=_RESIDENT,
        )

    def _joins(self, t: DType) -> str:
        """The function that combines two partial results, by name."""
        if self.nest.combine == "add":
            return f"nl_sum_of<{self.k.dialect.type_name(t)}>"
        return self._joined("a", "b", t).split("(")[0]

    def _shared(self, suffix: str, resident: int) -> Function:
        """nl_t.group threads share a point: 1, 32 (a warp), a block, or several blocks (one point each)."""
        body = self.body()
        start, t, acc = self._start(body)
        kind = self.k.dialect.type_name(t)
        r, e = self.k.namer.fresh("r"), self.k.namer.fresh("e")
        loop = [
            Line(f"const nl_i64 nl_terms = {self.extent(self.red)};"),
            Line("const nl_u32 nl_first = (nl_share << nl_bits) + nl_lane;"),
            *self._walk(r, self._term(body.scope, acc, t)),
            Line("if (nl_are_many(nl_group)) {"),
            Line(f"const auto nl_all = nl_joined<{kind}, {self._joins(t)}>(", 1),
            Line(f"{acc}, {self._nothing(t)}, nl_me, nl_t.memory, nl_bits, nl_splits);", 2),
            Line("if (!nl_all.here) return;", 1),
            Line(f"{acc} = nl_all.value;", 1),
            Line("}"),
        ]
        body.scope[self.nest.acc] = Symbol(acc, t)
        end = body.finish(self.nest.epilogue)
        inner = [
            *self.split(e, self.par),
            *start,
            *loop,
            Line("if (nl_lane == 0) {"),
            *indent(end),
            Line("}"),
        ]
        return Function(
            suffix,
            (
                Line("const nl_u32 nl_group = nl_t.group, nl_bits = nl_bits_of(nl_group);"),
                Line("const nl_u32 nl_splits = nl_group >> nl_bits;"),
                Line("const nl_u32 nl_part = nl_me.part / nl_splits, nl_share = nl_me.part % nl_splits;"),
                Line("const nl_u32 nl_lane = threadIdx.x & ((1u << nl_bits) - 1);"),
                Line(f"const nl_i64 nl_end = nl_least({self.extent(self.par)}, (nl_part + 1ll) * nl_t.chunk);"),
                ONCE,
                Line(f"for (nl_i64 {e} = nl_part * nl_t.chunk + (threadIdx.x >> nl_bits); {e} < nl_end;"),
                Line(f"{e} += blockDim.x >> nl_bits) {{", 2),
                *indent(inner),
                Line("}"),
            ),
            resident=resident,
        )


def nest_functions(k: Kernel, nest: l2.Nest, waves: bool) -> list[Function]:
    """The functions of one nest; `waves`: blocks may have more points than threads (waves.py)."""
    return NestPrinter(k, nest, waves).functions()
