"""Loop nests in C: maps, reductions and plain contractions.

Assumes: a legal Nest: PAR iterations are independent, at most one LANE dim (literal extent).
Guarantees: loops run PAR dims in order, RED dims inside them, the LANE dim innermost with one accumulator per lane, so
that it vectorises; guards are computed at the outermost loop that they depend on. With `order` other than bitwise, a
sum whose last RED dim is contiguous runs in PARTS partial accumulators joined by a fixed tree; bitwise keeps one
accumulator in index order.
Does not: collapse, tile or reorder dims (lowering and strategies do).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, axis_index, axis_inside, scaled
from backends.c_family.cprint import (
    Body,
    Element,
    Line,
    PrintError,
    Scalar,
    Scope,
    Symbol,
    indent,
    infer_locals,
    is_real,
    literal,
    statement_refs,
    type_of,
)
from backends.c_family.point_nest import IDENTITY
from backends.cpu.kernels.batched_rng import DRAWS, drawn_in_chunks, has_draws, rewritten
from compiler.expr.ast import Binary, Call, Expr, Ref, refs, rewrite
from compiler.ir.space import DType

PARTS = 32  # partial accumulators of a contiguous sum: two 64-byte vectors of float
WIDE = 24  # arrays of a map from which on events are flagged in integers of the size of its values


@dataclass(frozen=True)
class Guard:
    """A guard test that is computable inside the loop over dim `level` (-1: outside all loops). `names`: what its lines
    declare."""

    level: int
    names: frozenset[str]
    lines: tuple[Line, ...]


class NestPrinter:
    """Prints one nest of one kernel. `order` is the sequence of loops: PAR, RED, LANE."""

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        self.k, self.nest = k, nest
        self.par = [d for d in nest.dims if d.kind is l2.DimKind.PAR]
        self.red = [d for d in nest.dims if d.kind is l2.DimKind.RED]
        lanes = [d for d in nest.dims if d.kind is l2.DimKind.LANE]
        if len(lanes) > 1 or any(isinstance(d.extent, str) for d in lanes):
            raise PrintError("a nest has at most one LANE dim, of literal extent", k.template.span)
        self.lane = lanes[0] if lanes else None
        self.loops: list[l2.Dim] = [*self.par, *self.red, *lanes]
        self.vars = {d.name: k.namer.own(d.name) for d in self.loops}
        self.level = {d.name: i for i, d in enumerate(self.loops)}
        self.scope: dict[str, Symbol] = dict(k.scope)
        self.scope |= {n: Symbol(v, DType.I64) for n, v in self.vars.items()}
        self.per_lane: dict[str, Scalar] = {}
        self.pieces: list[Guard] = []
        self.constants: list[Line] = []
        self.nest = self._without_constants(nest)
        self.elements = self._elements()

    # ------------------------------------------------------------------------------- constants of a row

    def _without_constants(self, nest: l2.Nest) -> l2.Nest:
        """The nest with integer locals, calls and powers that depend only on columns and `step` hoisted to once per
        row: compilers do not hoist them out of loops that they vectorise. Values do not change."""
        known = set(self.k.scope)
        found: dict[Expr, str] = {}
        statements = (*nest.prologue, *nest.epilogue)
        targets = [s.target for s in statements if not isinstance(s, l2.Emit)]

        def index(s: l2.Statement) -> bool:
            """Whether a statement sets an integer local that is invariant over the elements of a row."""
            if not isinstance(s, l2.Assign) or s.target in self.k.pointers or targets.count(s.target) > 1:
                return False
            same = refs(s.value) <= known and not has_draws(s.value)
            return same and type_of(s.value, self.scope, self.k.dialect.precision) in (DType.I32, DType.I64)

        def moved(e: Expr) -> Expr:
            costly = (isinstance(e, Call) and e.func not in DRAWS) or (isinstance(e, Binary) and e.op == "**")
            if costly and refs(e) <= known and not has_draws(e):
                if e not in found:
                    t = type_of(e, self.k.scope, self.k.dialect.precision)
                    local = self.k.namer.fresh("constant")
                    text = self.k.printer.expr(e, self.k.scope)
                    self.constants.append(Line(f"const {self.k.dialect.type_name(t)} {local} = {text};"))
                    found[e] = f"#{local}"
                    self.scope[found[e]] = Symbol(local, t)
                return Ref(found[e])
            return e

        kept: list[l2.Statement] = []
        for s in nest.prologue:
            if isinstance(s, l2.Assign) and index(s):
                t = type_of(s.value, self.scope, self.k.dialect.precision)
                local = self.k.namer(s.target)
                text = self.k.printer.expr(s.value, self.scope)
                self.constants.append(Line(f"const {self.k.dialect.type_name(t)} {local} = {text};", span=s.span))
                self.scope[s.target] = Symbol(local, t)
                known.add(s.target)
            else:
                kept += rewritten([s], moved)
        return replace(
            nest,
            prologue=tuple(kept),
            term=None if nest.term is None else rewrite(nest.term, moved, top_down=True),
            epilogue=rewritten(nest.epilogue, moved),
        )

    # ------------------------------------------------------------------------------------- accesses

    def name(self, name: str) -> str:
        """The text of a dim, a column or a local of the prologue inside an index."""
        if name in self.scope:
            return self.scope[name].text
        text = self.k.namer(name)
        return f"{text}[{self.lane_var}]" if name in self.per_lane else text

    @property
    def lane_var(self) -> str:
        assert self.lane is not None
        return self.vars[self.lane.name]

    def _axis_level(self, terms: Iterable[tuple[str, int]]) -> int | None:
        """The loop level at which an index is computable; None when it needs a local of the prologue."""
        level = -1
        for dim, _ in terms:
            if dim in self.level:
                level = max(level, self.level[dim])
            elif dim not in self.scope:
                return None
        return level

    def _elements(self) -> dict[str, Element]:
        found: dict[str, Element] = {}
        for f in self.k.template.formals:
            if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.Strided):
                found[f.name] = self._element(f, f.access)
        return found

    def _element(self, f: l2.ArrayFormal, access: l2.Strided) -> Element:
        """The element of `f`; guard tests that need no local are hoisted to the outermost possible loops."""
        parts: list[str] = []
        late: list[str] = []
        known: list[tuple[int, str, str | None]] = []
        for number, axis in enumerate(access.axes):
            index = axis_index(axis, self.name)
            test = axis_inside(axis, self.name)
            level = self._axis_level(axis.terms)
            if test is None or level is None:
                late += [test] if test else []
                parts.append(scaled(index, axis, self.name))
                continue
            local = self.k.namer.beside(f.name, f"at{number}")
            known.append((level, f"const nl_i64 {local} = {index};", None))
            once = replace(axis, terms=(("#", 1),), const=0, div=1)
            bound = axis_inside(once, lambda n, at=local: at if n == "#" else self.name(n))  # type: ignore[misc]
            exact = axis_inside(replace(axis, extent=None), self.name)
            known.append((level, "", " & ".join(t for t in (exact, bound) if t)))
            parts.append(scaled(local, axis, self.name))
        before: str | None = None
        for level in sorted({x[0] for x in known}):
            lines = [Line(text) for at, text, _ in known if at == level and text]
            tests = [test for at, _, test in known if at == level and test]
            flag = self.k.namer.beside(f.name, "in")
            lines.append(Line(f"const int {flag} = {' & '.join([before, *tests] if before else tests)};"))
            names = frozenset(re.findall(r"(\w+) =", "\n".join(x.text for x in lines)))
            self.pieces.append(Guard(level, names, tuple(lines)))
            before = flag
        tests = [t for t in (before, *late) if t]
        text = " + ".join(p for p in parts if p != "0") or "0"
        place = f"{self.k.pointers[f.name]}[{text.replace('+ -', '- ')}]"
        return Element(place, f.dtype, f.mode, " & ".join(tests) or None, self.nest.fill)

    def hoisted(self, level: int, inner: Sequence[Line]) -> list[Line]:
        """Index and guard computations placed inside loop `level`, as far as `inner` uses them."""
        words = set(re.findall(r"\w+", "\n".join(x.text for x in inner)))
        kept = [g for g in self.pieces if g.level == level and g.names & words]
        return [x for g in kept for x in g.lines]

    # ---------------------------------------------------------------------------------------- loops

    def head(self, dim: l2.Dim) -> str:
        v = self.vars[dim.name]
        return f"for (nl_i64 {v} = 0; {v} < {self.k.extent(dim.extent)}; {v}++)"

    def loop(self, dim: l2.Dim, inner: Sequence[Line], pragma: bool = False) -> list[Line]:
        keep = "NL_UNROLL(1) " if isinstance(dim.extent, int) and dim is self.lane else ""
        head = f"{'NL_IVDEP ' if pragma else ''}{keep}{self.head(dim)}"
        inner = [*self.hoisted(self.level[dim.name], inner), *inner]
        if _one_statement(inner):
            return [Line(head), *indent(inner)]
        return [Line(f"{head} {{"), *indent(inner), Line("}")]

    def body(self, scope: dict[str, Symbol]) -> Body:
        return Body(self.k.printer, scope, self.elements, self.k.namer)

    def independent(self) -> bool:
        """Whether no statement adds to memory that other points of the nest add to."""
        statements = (*self.nest.prologue, *self.nest.epilogue)
        return not any(isinstance(s, l2.Add) and self.elements[s.target].direct for s in statements)

    def lines(self) -> list[Line]:
        n = self.nest
        emits = [s for s in n.prologue if isinstance(s, l2.Emit)]
        if emits:
            inner = self._emitting(emits)
            return [*self.hoisted(-1, inner), *inner]
        drawing = self._drawing()
        if drawing is not None:
            return [*self.hoisted(-1, drawing), *drawing]
        if self.lane is not None:
            inner = self._lane_point()
        elif n.combine is not None:
            inner = self._reducing_point()
        else:
            body = self.body(dict(self.scope))
            inner = body.finish((*n.prologue, *n.epilogue))
        for number, dim in enumerate(reversed(self.par)):
            vector = number == 0 and self.lane is None and n.combine is None and self.independent()
            inner = self.loop(dim, inner, vector)
        return [*self.hoisted(-1, inner), *inner]

    # --------------------------------------------------------------------------------------- events

    def _emitting(self, emits: Sequence[l2.Emit]) -> list[Line]:
        """A flat map in chunks: vector code writes a byte per element, a scan appends the indices. Where there are many
        values, it writes flags of their size first: with bytes beside them gcc vectorises by 64 elements, whose values
        do not fit into registers."""
        n = self.nest
        if len(self.loops) != 1 or self.loops[0].kind is not l2.DimKind.PAR or n.combine:
            raise PrintError("events can only be emitted by a map over one dim", emits[0].span)
        namer = self.k.namer
        v = self.vars[self.loops[0].name]
        extent = self.k.extent(self.loops[0].extent)
        base, end = namer.fresh("base"), namer.fresh("end")
        n, draws = drawn_in_chunks(self.k, n, self.loops[0].name, v, base, end)
        self.scope |= draws.scope
        emits = [s for s in n.prologue if isinstance(s, l2.Emit)]
        flags = {id(s): namer.fresh("fired") for s in emits}
        wide = {k: namer.fresh("flags") for k in flags} if len(self.elements) >= WIDE else {}
        counts = {id(s): namer.fresh("events") for s in emits}

        def flag(s: l2.Emit, scope: Scope) -> list[Line]:
            test = self.k.printer.test(s.when, scope)
            if wide:
                return [Line(f"{wide[id(s)]}[{v} - {base}] = {test};", span=s.span)]
            return [Line(f"{flags[id(s)]}[{v} - {base}] = (nl_u8)({test});", span=s.span)]

        body = Body(self.k.printer, dict(self.scope), self.elements, namer, flag)
        point = body.finish(n.prologue)
        inner = [*self.hoisted(0, point), *point]
        head: list[Line] = []
        tail: list[Line] = []
        last: list[Line] = []
        for s in emits:
            fired, events = flags[id(s)], counts[id(s)]
            slot = namer.fresh("slot")
            listed = self.k.pointers[s.list]
            head += [
                Line(f"const nl_i64 {slot} = nl_slot(step, {self.k.scope[s.slots].text});"),
                Line(f"nl_u8 {fired}[NL_CHUNK] __attribute__((aligned(64)));"),
                Line(f"nl_i32 {events} = 0;"),
            ]
            if wide:
                held, j = wide[id(s)], namer.fresh("j")
                head.append(Line(f"nl_i32 {held}[NL_CHUNK] __attribute__((aligned(64)));"))
                loop = f"for (nl_i64 {j} = 0; {j} < {end} - {base}; {j}++)"
                tail.append(Line(f"{loop} {fired}[{j}] = (nl_u8){held}[{j}];", 1))
            place = f"{listed} + {slot} * {_atom(extent)}"
            tail.append(Line(f"{events} = nl_append({place}, {events}, {fired}, {base}, {end});", 1))
            last.append(Line(f"{self.k.pointers[s.count]}[{slot}] = {events};"))
        self.k.printer.used.add("nl_append")
        return [*head, *draws.buffers, *self._chunks(base, end, draws.fills, inner, tail), *last]

    def _chunks(
        self, base: str, end: str, fills: Sequence[Line], inner: Sequence[Line], tail: Sequence[Line]
    ) -> list[Line]:
        """The only loop in chunks: the work per chunk, the loop over its elements, and the processing of its
        results."""
        v, extent = self.vars[self.loops[0].name], self.k.extent(self.loops[0].extent)
        return [
            Line(f"for (nl_i64 {base} = 0; {base} < {extent}; {base} += NL_CHUNK) {{"),
            Line(f"const nl_i64 {end} = nl_least({base} + NL_CHUNK, {extent});", 1),
            *indent(fills),
            Line(f"{'NL_IVDEP ' if self.independent() else ''}for (nl_i64 {v} = {base}; {v} < {end}; {v}++) {{", 1),
            *indent(inner, 2),
            Line("}", 1),
            *tail,
            Line("}"),
        ]

    def _drawing(self) -> list[Line] | None:
        """A flat map that draws random numbers for its elements, in chunks; None when it draws none."""
        if len(self.loops) != 1 or self.loops[0].kind is not l2.DimKind.PAR or self.nest.combine:
            return None
        namer = self.k.namer
        base, end = namer.fresh("base"), namer.fresh("end")
        dim = self.loops[0].name
        n, draws = drawn_in_chunks(self.k, self.nest, dim, self.vars[dim], base, end)
        if not draws.buffers:
            return None
        body = self.body({**self.scope, **draws.scope})
        point = body.finish(n.prologue)
        inner = [*self.hoisted(0, point), *point]
        return [*draws.buffers, *self._chunks(base, end, draws.fills, inner, ())]

    # ----------------------------------------------------------------------------------- reductions

    def acc_type(self, scope: Scope) -> DType:
        assert self.nest.term is not None
        virtual = {n: Symbol(n, e.type) for n, e in self.elements.items()}
        statements = self.nest.prologue
        real = self.k.dialect.precision
        types = infer_locals(statements, {**virtual, **scope}, self.elements, real)
        inner = {**virtual, **scope, **{n: Symbol(n, t) for n, t in types.items()}}
        t = type_of(self.nest.term, inner, real)
        if t == "bool" or t == DType.U8:
            return DType.I32
        if not is_real(t) and self.nest.combine != "add":
            raise PrintError("only sums may run over integers", self.k.template.span)
        return t

    def _filled(self, declared: str, each: str, t: DType) -> list[Line]:
        """An array of accumulators at their initial value."""
        if self.nest.combine == "add":
            return [Line(f"{declared} = {{0}};")]
        return [Line(f"{declared};"), Line(f"{each} = {self.identity(t)};")]

    def identity(self, t: DType) -> str:
        assert self.nest.combine is not None
        return literal(IDENTITY[self.nest.combine], t)

    def combined(self, acc: str, term: str, t: DType) -> str:
        if self.nest.combine == "add":
            return f"{acc} += {term};"
        assert self.nest.combine is not None
        return f"{acc} = {self.k.printer.call(self.nest.combine, t, acc, term)};"

    def term(self, scope: dict[str, Symbol], acc: str, t: DType) -> list[Line]:
        """Loads and the combination of one term."""
        assert self.nest.term is not None
        body = self.body(dict(scope))
        loads = body.load(refs(self.nest.term))
        text = self.k.printer.expr(self.nest.term, body.scope, t)
        return [*loads, Line(self.combined(acc, text, t), span=self.k.template.span)]

    def _reducing_point(self) -> list[Line]:
        body = self.body(dict(self.scope))
        start = body.run(self.nest.prologue)
        t = self.acc_type(self.scope)
        acc = self.k.namer.own(self.nest.acc)
        kind = self.k.dialect.type_name(t)
        if self.contiguous() and is_real(t):
            acc, middle = self._in_parts(body.scope, t)
        else:
            inner = self.term(body.scope, acc, t)
            for dim in reversed(self.red):
                inner = self.loop(dim, inner)
            middle = [Line(f"{kind} {acc} = {self.identity(t)};"), *inner]
        body.scope[self.nest.acc] = Symbol(acc, t)
        return [*start, *middle, *body.finish(self.nest.epilogue)]

    def contiguous(self) -> bool:
        """Whether partial accumulators pay: the last RED dim walks memory contiguously and is not short."""
        if not self.red or self.k.template.order is l2.Order.BITWISE:
            return False
        last = self.red[-1]
        if isinstance(last.extent, int) and last.extent < 8:
            return False
        assert self.nest.term is not None
        names = refs(self.nest.term)
        for f in self.k.template.formals:
            if f.name in names and isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.Strided):
                for a in f.access.axes:
                    if (last.name, 1) in a.terms and a.stride == 1 and a.div == 1:
                        return True
        return False

    def _in_parts(self, scope: dict[str, Symbol], t: DType) -> tuple[str, list[Line]]:
        """The sum over the last RED dim in partial accumulators, element k in part k mod PARTS: where it is, and its
        lines."""
        last, k = self.red[-1], self.k
        parts = PARTS
        if isinstance(last.extent, int):
            parts = next(p for p in (PARTS, 16, 8) if last.extent >= p)
        kind = k.dialect.type_name(t)
        part, at, first = k.namer.fresh("part"), k.namer.fresh("u"), k.namer.fresh("first")
        v, extent = self.vars[last.name], k.extent(last.extent)
        one = self.term(scope, f"{part}[{at}]", t)
        term = [*self.hoisted(self.level[last.name], one), *one]

        def run(count: str) -> list[Line]:
            return [
                Line(f"{'NL_UNROLL(1) ' if count.isdigit() else ''}for (nl_i64 {at} = 0; {at} < {count}; {at}++) {{"),
                Line(f"const nl_i64 {v} = {first} + {at};", 1),
                *indent(term),
                Line("}"),
            ]

        inner = [
            Line(f"nl_i64 {first} = 0;"),
            Line(f"for (; {first} + {parts} <= {extent}; {first} += {parts})"),
            *indent(run(str(parts))),
        ]
        if not (isinstance(last.extent, int) and last.extent % parts == 0):
            inner += run(f"{extent} - {first}")
        for dim in reversed(self.red[:-1]):
            inner = self.loop(dim, inner)
        half = k.namer.fresh("half")
        each = (f"{part}[{at}]", f"{part}[{at} + {half}]")
        return f"{part}[0]", [
            *self._filled(f"{kind} {part}[{parts}]", f"for (int {at} = 0; {at} < {parts}; {at}++) {part}[{at}]", t),
            *inner,
            Line(f"for (int {half} = {parts // 2}; {half} > 0; {half} /= 2)"),
            Line(f"for (int {at} = 0; {at} < {half}; {at}++) {self.combined(*each, t)}", 1),
        ]

    # ---------------------------------------------------------------------------------------- lanes

    def _varies(self, name: str) -> bool:
        """Whether the element of formal `name` may differ from lane to lane."""
        assert self.lane is not None
        f = self.k.formal(name)
        assert isinstance(f.access, l2.Strided)
        for a in f.access.axes:
            for dim, _ in a.terms:
                if dim == self.lane.name or dim not in self.scope:
                    return True
        return False

    def _lane_section(self, inner: Sequence[Line]) -> list[Line]:
        """One loop over the lanes."""
        assert self.lane is not None
        return self.loop(self.lane, inner, self.independent())

    def _lane_loads(self, names: set[str], scope: dict[str, Symbol]) -> list[Line]:
        """Loads that are uniform over the lanes, before the loop over the lanes."""
        shared = {
            n
            for n in names
            if n in self.elements and n not in scope and self.elements[n].mode is l2.Mode.READ and not self._varies(n)
        }
        return self.body(scope).load(shared)

    def _lane_arrays(self, statements: Sequence[l2.Statement], scope: dict[str, Symbol]) -> list[Line]:
        """Locals that are live across sections: one value per lane."""
        assert self.lane is not None
        virtual = {n: Symbol(n, e.type) for n, e in self.elements.items()}
        real = self.k.dialect.precision
        types = infer_locals(statements, {**virtual, **scope}, self.elements, real)
        lines = []
        for s in statements:
            if isinstance(s, l2.Emit) or s.target in scope:
                continue
            if s.target in self.elements:
                if self.elements[s.target].direct:
                    continue
                t: Scalar = self.elements[s.target].type
            else:
                t = types[s.target]
            name = self.k.namer(s.target)
            scope[s.target] = Symbol(f"{name}[{self.lane_var}]", t)
            self.per_lane[s.target] = t
            lines.append(Line(f"{self.k.dialect.type_name(t)} {name}[{self.lane.extent}];"))
        return lines

    def _lane_point(self) -> list[Line]:
        n = self.nest
        assert self.lane is not None
        if n.combine is None:
            statements = (*n.prologue, *n.epilogue)
            scope = dict(self.scope)
            before = self._lane_loads(statement_refs(statements), scope)
            body = self.body(scope)
            inner = body.finish(statements)
            return [*before, *self._lane_section(inner)]
        scope = dict(self.scope)
        lines: list[Line] = []
        stored = {s.target for s in n.prologue if not isinstance(s, l2.Emit)} & set(self.elements)
        if n.prologue:
            lines += self._lane_loads(statement_refs(n.prologue), scope)
            updated = [
                s.target
                for s in (*n.prologue, *n.epilogue)
                if not isinstance(s, l2.Emit)
                and s.target in self.elements
                and self.elements[s.target].mode is l2.Mode.UPDATE
            ]
            lines += self._lane_arrays(n.prologue, scope)
            if self.per_lane:  # indices may depend on locals, which are one per lane now
                self.pieces.clear()
                self.elements = self._elements()
            body = self.body(dict(scope))
            first = [Line(f"{scope[t].text} = {self.elements[t].place};") for t in dict.fromkeys(updated) if t in scope]
            lines += self._lane_section([*first, *body.run(n.prologue)])
        t = self.acc_type(scope)
        acc = self.k.namer.own(n.acc)
        here = f"{acc}[{self.lane_var}]"
        kind = self.k.dialect.type_name(t)
        lines += self._filled(f"{kind} {acc}[{self.lane.extent}]", f"NL_UNROLL(1) {self.head(self.lane)} {here}", t)
        assert n.term is not None
        inside = dict(scope)
        before = self._lane_loads(refs(n.term), inside)
        pointers, elements = self._lane_pointers(refs(n.term))
        saved, self.elements = self.elements, {**self.elements, **elements}
        inner = [*before, *pointers, *self._lane_section(self.term(inside, here, t))]
        self.elements = saved
        for dim in reversed(self.red):
            inner = self.loop(dim, inner)
        lines += inner
        scope[n.acc] = Symbol(here, t)
        lines += self._lane_loads(statement_refs(n.epilogue), scope)
        body = self.body(scope)
        body.mark(stored)
        lines += self._lane_section(body.finish(n.epilogue))
        return lines

    def _lane_pointers(self, names: set[str]) -> tuple[list[Line], Mapping[str, Element]]:
        """Guarded reads whose guard is uniform over the lanes: a pointer to the lanes or to the fill value."""
        assert self.lane is not None
        lines: list[Line] = []
        found: dict[str, Element] = {}
        for name in sorted(names & set(self.elements), key=list(self.elements).index):
            e, f = self.elements[name], self.k.formal(name)
            assert isinstance(f.access, l2.Strided)
            axes = [a for a in f.access.axes if any(d == self.lane.name for d, _ in a.terms)]
            plain = (
                len(axes) == 1
                and axes[0].terms == ((self.lane.name, 1),)
                and axes[0].stride == 1
                and axes[0].extent is None
                and axes[0].const == 0
            )
            if e.inside is None or f.mode is not l2.Mode.READ or not plain:
                continue
            start = e.place.replace(f" + {self.lane_var}]", "]")
            if start == e.place:
                continue
            base = start[start.index("[") + 1 : -1]
            at, fill = self.k.namer.beside(name, "lanes"), self.k.namer.fresh("fill")
            t = self.k.dialect.type_name(e.type)
            value = literal(e.fill, e.type)
            values = value if e.fill == 0 else f"[0 ... {int(self.lane.extent) - 1}] = {value}"
            lines += [
                Line(f"static const {t} {fill}[{self.lane.extent}] = {{{values}}};"),
                Line(f"const {t} *const {at} = {e.inside} ? {self.k.pointers[name]} + {base} : {fill};"),
            ]
            found[name] = Element(f"{at}[{self.lane_var}]", e.type, e.mode)
        return lines, found


def _one_statement(lines: Sequence[Line]) -> bool:
    """Whether the lines are one loop or one assignment to an element, which need no braces around them."""
    if not lines:
        return False
    first, *rest = lines
    if not rest:
        return re.match(r"[\w.]+\[.*\] \+?= ", first.text) is not None
    middle = rest[:-1] if first.text.endswith("{") else rest
    return re.match(r"(NL_\S+ )*for ", first.text) is not None and all(x.depth > 0 for x in middle)


def _atom(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
