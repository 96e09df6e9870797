"""Loop nests in C: maps, reductions and plain contractions.

Assumes: a legal Nest: PAR iterations are independent, at most one LANE dim (literal extent).
Guarantees: loops run PAR dims in order, RED dims inside them, the LANE dim innermost with one accumulator per lane, so
that it vectorises. With `order` other than bitwise, a sum whose last RED dim is contiguous runs in PARTS partial
accumulators joined by a fixed tree; bitwise keeps one accumulator in index order.
Does not: collapse, tile or reorder dims (lowering and strategies do).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import backends.c_family.cprint as cprint
import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.addresses import Addresses, inner_last
from backends.c_family.point_nest import (
    IDENTITY,
    Constants,
    InBlocks,
    NestBuilder,
    Point,
    Sums,
    Total,
    read_in_terms,
    rewritten,
)
from backends.cpu.kernels.batched_rng import CHUNK, DRAWS, VECTOR, drawn_in_chunks, has_draws
from backends.cpu.kernels.over_lanes import over_lanes
from backends.kernel_ir.expr import Operand, braces, call, cast, code, every, form, total
from backends.kernel_ir.stmt import For, Kind, Let, Set, Stmt
from backends.kernel_ir.tree import Code, Number, Place
from compiler.expr.ast import Binary, Call, Expr, Ref, refs, rewrite
from compiler.ir.space import DType

PARTS = 32  # partial accumulators of a contiguous sum: two 64-byte vectors of float
_KINDS = {l2.DimKind.PAR: Kind.POINTS, l2.DimKind.RED: Kind.SERIAL, l2.DimKind.LANE: Kind.LANE}
WIDE = 24  # arrays of a map from which on events are flagged in integers of the size of its values

Guard = tuple[Code, list[Code]]
"""A flag, and the indices that it tells to be inside."""


class NestPrinter(NestBuilder):
    """Prints one nest of one kernel. `order` is the sequence of loops: PAR, RED, LANE."""

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        super().__init__(k, nest)
        self.par = [d for d in nest.dims if d.kind is l2.DimKind.PAR]
        lanes = [d for d in nest.dims if d.kind is l2.DimKind.LANE]
        if len(lanes) > 1 or any(isinstance(d.extent, str) for d in lanes):
            raise cprint.PrintError("a nest has at most one LANE dim, of literal extent", k.template.span)
        if lanes and nest.combine and nest.prologue:
            raise cprint.PrintError("sums of each lane have no statements before them", k.template.span)
        self.lane = lanes[0] if lanes else None
        self.loops: list[l2.Dim] = [*self.par, *self.red, *lanes]
        self.level = {d.name: i for i, d in enumerate(self.loops)}
        self.guards: dict[str, list[tuple[Let, ...]]] = {}
        """Index and guard computations, by the variable of the dim in whose loop they stand (see lanes.py)."""
        self.alike: dict[tuple[int, Code | None, tuple[l2.Axis, ...]], Guard] = {}
        """Those that arrays share, by their level, the flag before, and axes but for strides."""
        self.constants: list[Stmt] = []
        self.nest = self._without_constants(nest)
        self.addresses = Addresses(self.name)
        self.elements = self._elements()

    # ------------------------------------------------------------------------------- constants of a row

    def _without_constants(self, nest: l2.Nest) -> l2.Nest:
        """The nest with integer locals, calls and powers that depend only on columns and `step` hoisted to once per
        row: compilers do not hoist them out of loops that they vectorise. Values do not change."""
        known, real = set(self.k.scope), self.k.dialect.precision
        targets = [s.target for s in nest.statements if not isinstance(s, l2.Emit)]

        def costly(e: Expr) -> str:
            found = (isinstance(e, Call) and e.func not in DRAWS) or (isinstance(e, Binary) and e.op == "**")
            return "constant" if found and not has_draws(e) else ""

        moved = Constants(self.k, self.scope, known, costly, self.constants)

        def index(s: l2.Statement) -> bool:
            """Whether a statement sets an integer local that is invariant over the elements of a row."""
            if not isinstance(s, l2.Assign) or s.target in self.k.pointers or targets.count(s.target) > 1:
                return False
            same = refs(s.value) <= known and not has_draws(s.value)
            return same and cprint.type_of(s.value, self.scope, real) in (DType.I32, DType.I64)

        kept: list[l2.Statement] = []
        for s in nest.prologue:
            if isinstance(s, l2.Assign) and index(s):
                moved.declare(s.target, self.k.namer(s.target), s.value, s.span)
                known.add(s.target)
            else:
                kept += rewritten([s], moved)
        return nest.rewritten(
            lambda e: rewrite(e, moved, top_down=True),
            lambda s: tuple(kept) if s is nest.prologue else rewritten(s, moved),
        )

    # ------------------------------------------------------------------------------------- accesses

    def name(self, n: str) -> Code:
        """A dim, a column or a local of the prologue inside an index."""
        return self.scope[n].code if n in self.scope else self.k.namer(n)

    def _axis_level(self, terms: Iterable[tuple[str, int]]) -> int | None:
        """The loop level at which an index is computable; None when it needs a local of the prologue."""
        level = -1
        for dim, _ in terms:
            if dim in self.level:
                level = max(level, self.level[dim])
            elif dim not in self.scope:
                return None
        return level

    def _elements(self) -> dict[str, cprint.Element]:
        return {f.name: self._element(f, access) for f, access in self.k.strided}

    def _element(self, f: l2.ArrayFormal, access: l2.Strided) -> cprint.Element:
        """The element of `f`; guard tests that need no local are hoisted to the outermost possible loops."""
        at, locals = self.addresses, dict[l2.Axis, Code]()
        before: Code | None = None
        levels = {a: level for a in access.axes if a.guarded and (level := self._axis_level(a.terms)) is not None}
        for level in sorted(set(levels.values())):
            here = {n: a for n, a in enumerate(access.axes) if levels.get(a) == level}
            key = level, before, tuple(replace(a, stride=1) for a in here.values())
            if key not in self.alike:
                self.alike[key] = self._guard(f.name, level, before, here)
            before, own = self.alike[key]
            locals |= zip(here.values(), own, strict=True)
        parts = [at.scaled(locals[a], a) if a in locals else at.part(a) for a in inner_last(access)]
        late = [test for a in access.axes if a not in locals for test in (at.divides(a), at.within(a))]
        place = Place(self.k.pointers[f.name], total(parts), f.name)
        return cprint.Element(place, f.dtype, f.mode, every([before, *late]), self.nest.fill)

    def _guard(self, formal: str, level: int, before: Code | None, axes: Mapping[int, l2.Axis]) -> Guard:
        """Computes at a level whether these axes of an array are inside, if those `before` are."""
        at, beside = self.addresses, self.k.namer.beside
        indices = [Let("nl_i64", beside(formal, f"at{n}"), at.index(a)) for n, a in axes.items()]
        tests = [t for a, x in zip(axes.values(), indices, strict=True) for t in (at.divides(a), at.within(a, x.name))]
        flag = Let("int", beside(formal, "in"), every([before, *tests]))
        inner = self.vars[self.loops[level].name].text if level >= 0 else ""
        self.guards.setdefault(inner, []).append((*indices, flag))
        return flag.name, [x.name for x in indices]

    # ---------------------------------------------------------------------------------------- loops

    def over(self, dim: l2.Dim, body: Sequence[Stmt], kind: Kind = Kind.SERIAL) -> For:
        return For(self.vars[dim.name], 0, self.k.extent(dim.extent), body, kind=kind)

    def loop(self, dim: l2.Dim, inner: Sequence[Stmt]) -> list[Stmt]:
        return [self.over(dim, inner, _KINDS[dim.kind])]

    def lines(self) -> list[Stmt]:
        n, lane = self.nest, self.lane
        if [d.kind for d in n.dims] == [l2.DimKind.PAR] and n.combine is None:
            chunks = self._in_chunks()
            if chunks is not None:
                return chunks
        point = self.built()
        inner = [x for part in self.serial(point) for x in part] if lane is None else self._in_lanes(point, lane)
        for dim in reversed(self.par):
            inner = self.loop(dim, inner)
        return inner

    # --------------------------------------------------------------------------------------- events

    def _in_chunks(self) -> list[Stmt] | None:
        """A flat map that emits events or draws random numbers, in chunks: the numbers of a chunk are drawn at once;
        vector code writes a byte per element, a scan appends the indices. Where there are many values, it writes flags
        of their size first: with bytes beside them gcc vectorises by 64 elements, whose values do not fit into
        registers. None where it does neither."""
        namer, emits, (dim,) = self.k.namer, self.emits(), self.loops
        v, extent = self.vars[dim.name], self.k.extent(dim.extent)
        base, end = namer.fresh("base"), namer.fresh("end")
        n, draws = drawn_in_chunks(self.k, self.nest, dim.name, v, base, end)
        if not emits and not draws.buffers:
            return None
        flags = [namer.fresh("fired") for _ in emits]
        wide = [namer.fresh("flags") for _ in emits] if len(self.elements) >= WIDE else []
        counts = [namer.fresh("events") for _ in emits]
        found = iter(range(len(emits)))

        def flag(s: l2.Emit, scope: cprint.Scope) -> list[Stmt]:
            test, at = self.k.dialect.test(s.when, scope), next(found)
            held, value = (wide[at], test) if wide else (flags[at], cast("nl_u8", test))
            return [Set(held[v - base], value, span=s.span)]

        inner = self.body(flag, draws.scope).finish(n.prologue)
        head, tail, last = list[Stmt](), list[Stmt](), list[Stmt]()
        for at, (s, fired, events) in enumerate(zip(emits, flags, counts, strict=True)):
            slot = namer.fresh("slot")
            head += [
                Let("nl_i64", slot, call("nl_slot", cprint.STEP, self.k.scope[s.slots].code)),
                Let("nl_u8", fired[CHUNK], aligned=VECTOR),
                Let("nl_i32", events, code(0), const=False),
            ]
            if wide:
                j = namer.fresh("j")
                head.append(Let("nl_i32", wide[at][CHUNK], aligned=VECTOR))
                store = Set(fired[j], form("(nl_u8){}", wide[at][j]))
                tail.append(For(j, 0, end - base, [store]))
            place = self.k.pointers[s.list] + slot * extent
            tail.append(Set(events, call("nl_append", place, events, fired, base, end)))
            last.append(Set(self.k.pointers[s.count][slot], events))
        until = Let("nl_i64", end, call("nl_min_i64", base + CHUNK, extent))
        each = For(v, base, end, inner, kind=Kind.POINTS)
        return [*head, *draws.buffers, For(base, 0, extent, [until, *draws.fills, each, *tail], CHUNK), *last]

    # ----------------------------------------------------------------------------------- reductions

    def apart(
        self, totals: Sequence[Total], extent: Operand, at: Code, fill: For, each: For, by: int = 1, zeros: bool = True
    ) -> tuple[list[Stmt], InBlocks]:
        """Arrays of accumulators, of which element `at` is that of a part: their declarations, and how the parts are
        added up. `fill`, `each`: loops over the parts, without a body; `zeros`: all of an array is filled at once."""

        def declared(x: Total) -> list[Stmt]:
            kind, held = self.k.dialect.type_name(x.type), x.at[code(extent)]
            if zeros and x.combine == "add":
                return [Let(kind, held, braces(0), const=False)]
            return [Let(kind, held), replace(fill, body=[Set(x.at[at], self.identity(x.type, x.combine))])]

        blocks = self.in_blocks(totals, declared, lambda x: x[at], lambda s: replace(each, body=[s]), by)
        return [*(line for x in totals for line in declared(x)), *blocks.start], blocks

    def terms(self, sums: Sums) -> tuple[Sums, list[Stmt]]:
        if self.contiguous() and all(cprint.is_real(x.type) for x in sums.totals):
            return self._in_parts(sums)
        return sums, self.in_order(sums, self.over_terms)

    def contiguous(self) -> bool:
        """Whether partial accumulators pay: the last RED dim walks memory contiguously and is not short."""
        if not self.red or self.k.template.order is l2.Order.BITWISE:
            return False
        last = self.red[-1]
        if isinstance(last.extent, int) and last.extent < 8:
            return False
        names = read_in_terms(self.nest)
        axes = (a for f, access in self.k.strided if f.name in names for a in access.axes)
        return any((last.name, 1) in a.terms and a.stride == 1 and a.div == 1 for a in axes)

    def _in_parts(self, sums: Sums) -> tuple[Sums, list[Stmt]]:
        """The sums over the last RED dim in partial accumulators, element k in part k mod PARTS: where they are, and
        their lines."""
        last, k = self.red[-1], self.k
        parts = PARTS
        if isinstance(last.extent, int):
            parts = next(p for p in (PARTS, 16, 8) if last.extent >= p)
        held = [replace(x, at=k.namer.fresh("part")) for x in sums.totals]
        v, extent, whole = self.vars[last.name], k.extent(last.extent), last.extent == parts
        at, first = v if whole else k.namer.fresh("u"), k.namer.fresh("first")
        fill, carried = For(at, 0, parts, (), type="int"), For(at, 0, parts, (), kind=Kind.KEPT)
        lines, blocks = self.apart(held, parts, at, fill, carried, parts)
        term = sums.at([x.at for x in blocks.totals]).term

        def run(count: Code) -> Stmt:
            kept = Kind.KEPT if isinstance(count, Number) else Kind.SERIAL
            return For(at, 0, count, term if whole else [Let("nl_i64", v, first + at), *term], kind=kept)

        cut = blocks.dim == last.name
        begin, end = (k.namer.fresh("begin"), k.namer.fresh("end")) if cut else (code(0), extent)
        inner: list[Stmt] = [run(code(parts))]
        if not whole:
            rounds = For(first, None, None, inner, parts, test=first + parts <= end)
            inner = [Let("nl_i64", first, begin, const=False), rounds]
        if not (isinstance(last.extent, int) and last.extent % parts == 0):
            inner.append(self.masked_rest(sums.totals, term, at, first, end, parts) or run(end - first))
        if cut:
            inner = [self.block(begin, end, extent, inner, blocks)]
        inner = self.over_terms(inner, blocks, self.red[:-1])
        half = k.namer.fresh("half")
        joined = [replace(fill, end=half, body=[self.combined(x.at[at], x.at[at + half], x.type)]) for x in held]
        return sums.at([x.at[0] for x in held]), [
            *lines,
            *inner,
            For(half, parts // 2, None, joined, 2, "int", test=half > 0, op="/="),
        ]

    def masked_rest(
        self, totals: Sequence[Total], term: Sequence[Stmt], at: Code, first: Code, end: Code, parts: int
    ) -> Stmt | None:
        """The last terms, fewer than there are parts: all parts take one, whose loads are masked, as stores of some
        lanes delay loads of all. What is beyond the end changes no bit. None where terms are not loads alone."""
        v, masked = self.vars[self.red[-1].name], dict[Code, Code]()
        for x in totals:
            element = self.elements.get(x.term.name if isinstance(x.term, Ref) else "")
            if element is None or element.inside is not None or element.type != x.type:
                return None
            masked[element.place] = replace(element, inside=v < end, fill=IDENTITY[x.combine]).value
        if len({x.term for x in totals}) < len(totals):
            return None
        count = call("nl_parts_of_rest", end - first, parts)
        return For(at, 0, count, [Let("nl_i64", v, first + at), *ir.rewritten(term, masked.get)])

    # ---------------------------------------------------------------------------------------- lanes

    def _in_lanes(self, x: Point, lane: l2.Dim) -> list[Stmt]:
        """A point for all lanes, each with accumulators of its own."""
        at, many = self.vars[lane.name], lane.extent
        varying = {let.name.text for lets in self.guards.get(at.text, ()) for let in lets}
        assert isinstance(many, int)

        def section(statements: Sequence[Stmt], fill: float | None = None) -> list[Stmt]:
            before, inner = over_lanes(self.k, statements, at, many, varying, fill)
            return [*before, *self.loop(lane, inner)]

        if not x.sums:
            return section(x.start)
        (sums,) = x.sums

        lines, blocks = self.apart(
            sums.totals, many, at, self.over(lane, (), Kind.KEPT), self.over(lane, (), Kind.LANE)
        )
        term = section(sums.at([x.at for x in blocks.totals]).term, self.nest.fill)
        return [*lines, *self.over_terms(term, blocks), *section(sums.at([x.at[at] for x in sums.totals]).after)]
