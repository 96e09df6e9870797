"""The builder of loop nests, and nests by points, as targets with many threads print them: what one thread does at its
point.

Assumes: a legal Nest: PAR (and LANE) iterations are independent.
Guarantees: a point of the PAR dims is a flat index, the last dim varying fastest (these targets store tensors
row-major; a LANE dim is one more PAR dim); RED dims run inside a point, in order. The text calls nl_take (the last
index of a flat one) and nl_rest (a remainder that is never negative) of the target's file.
Does not: give points to threads, or share one among several (the backends do).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import backends.c_family.cprint as cprint
import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.addresses import quotient
from backends.c_family.names import c_name
from backends.kernel_ir.expr import Operand, address, call, cast, code, cond, form
from backends.kernel_ir.stmt import Do, For, Kind, Let, Set, Stmt
from backends.kernel_ir.tree import Call, Code, Number
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Binary, Expr, Num, Ref, nodes, refs, rewrite, substitute
from compiler.expr.simplify import simplify
from compiler.ir.space import DType

IDENTITY: Final = {"add": 0.0, "max": float("-inf"), "min": float("inf")}


@dataclass(frozen=True)
class _Sparse:
    """The terms of a dim that are not 0: from `first` on, every `step`th; an index with this quotient is divisible in
    all of them. With as many terms as the step, there is one."""

    first: Code
    step: int
    quotient: l2.Axis


@dataclass(frozen=True)
class Total:
    """One reduction of a nest: its local in the epilogue, where it accumulates, its type, combination and term."""

    name: str
    at: Code
    type: DType
    combine: str
    term: Expr

    @property
    def symbol(self) -> dict[str, cprint.Symbol]:
        return {self.name: cprint.Symbol(self.at, self.type)}


@dataclass(frozen=True)
class Sums:
    """A stage of a point: its accumulators, one term, and what follows, with the `stores` of what this assigns (of a
    nest of one stage it stores itself). `exact`: a term as the loops of `in_window` walk them."""

    totals: Sequence[Total]
    term: Sequence[Stmt]
    exact: Sequence[Stmt]
    after: Sequence[Stmt]
    stores: Sequence[Stmt] = ()

    def at(self, places: Sequence[Code]) -> Sums:
        """With its accumulators at other places."""
        totals = [replace(x, at=place) for x, place in zip(self.totals, places, strict=True)]
        of = {a.at: b.at for a, b in zip(self.totals, totals, strict=True) if a != b}
        parts = (self.term, self.exact, self.after, self.stores)
        return Sums(totals, *(ir.rewritten(x, of.get) for x in parts)) if of else self


@dataclass(frozen=True)
class Point:
    """A point of a nest, before a pass gives it to threads. `start`: what comes before its sums, all of a map; `each`:
    what happens at each term when all sums are known."""

    start: Sequence[Stmt]
    sums: Sequence[Sums] = ()
    each: Sequence[Stmt] = ()


@dataclass(frozen=True)
class InBlocks:
    """How sums are added up in blocks (l2.Blocks; `dim` "": they are not): the accumulators of a block; what stands
    before all terms, and before and after those of a block. `by`: accumulators of a sum, each of which takes as many
    terms as a block has."""

    totals: Sequence[Total]
    dim: str = ""
    start: Sequence[Stmt] = ()
    begin: Sequence[Stmt] = ()
    end: Sequence[Stmt] = ()
    by: int = 1


@dataclass
class Constants:
    """Rewrites expressions: those of names that are known once in a row become locals. `word`: what the local of an
    expression is called ("": the expression stays), but for powers of names (`beta_to_step`); `lines`: declarations."""

    k: Kernel
    scope: dict[str, cprint.Symbol]
    known: AbstractSet[str]
    word: Callable[[Expr], str]
    lines: list[Stmt] = field(default_factory=list)
    names: dict[Expr, str] = field(default_factory=dict)

    def __call__(self, e: Expr) -> Expr:
        if e not in self.names:
            if not (refs(e) <= self.known and (word := self.word(e))):
                return e
            if isinstance(e, Binary) and e.op == "**" and isinstance(e.left, Ref) and isinstance(e.right, Ref):
                word = "to_".join(c_name(self.k.namer.shown(x.name)) for x in (e.left, e.right)).rstrip("_")
            self.names[e] = f"#{(local := self.k.namer.fresh(word))}"
            self.declare(self.names[e], local, e)
        return Ref(self.names[e])

    def declare(self, name: str, local: Code, value: Expr, span: Span = NOWHERE) -> None:
        dialect, kind = self.k.dialect, cprint.type_of(value, self.scope, self.k.dialect.precision)
        self.lines.append(Let(dialect.type_name(kind), local, dialect.expr(value, self.scope), span=span))
        self.scope[name] = cprint.Symbol(local, kind)


def rewritten(statements: Sequence[l2.Statement], fn: Callable[[Expr], Expr]) -> tuple[l2.Statement, ...]:
    """The statements with their expressions rewritten, the outermost first."""

    def one(s: l2.Statement) -> l2.Statement:
        if isinstance(s, l2.Emit):
            return replace(s, when=rewrite(s.when, fn, top_down=True))
        return replace(s, value=rewrite(s.value, fn, top_down=True))

    return tuple(one(s) for s in statements)


def read_in_terms(nest: l2.Nest | l2.Stage) -> set[str]:
    """All names that the terms of the first reductions of a nest, or of a stage, read."""
    return set().union(*(refs(s.term) for s in nest.sums))


class NestBuilder:
    """What all targets share: a point of a nest, and its sums. `scope`: names at a point; `elements`: of arrays. A
    target says how it walks the terms of a sum (`terms`, `over_terms`), and how points are carried out."""

    elements: dict[str, cprint.Element]

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        self.k, self.nest = k, nest
        self.red = nest.red
        self.vars = {d.name: k.namer.own(d.name, d.word) for d in nest.dims}
        self.scope = k.scope | {n: cprint.Symbol(v, DType.I64) for n, v in self.vars.items()}

    def body(
        self, emit: cprint.EmitPrinter = cprint.refuse_emit, known: cprint.Scope = MappingProxyType({})
    ) -> cprint.Body:
        """The body at a point. `known`: more names, and formals that need not be loaded."""
        return cprint.Body(self.k.dialect, {**self.scope, **known}, self.elements, self.k.namer, emit)

    def emits(self) -> list[l2.Emit]:
        """The events of a nest: of a map over one dim."""
        found = [s for s in self.nest.prologue if isinstance(s, l2.Emit)]
        if found and (self.nest.combine is not None or [d.kind for d in self.nest.dims] != [l2.DimKind.PAR]):
            cprint.refuse_emit(found[0], {})
        return found

    def mapped(self) -> list[Stmt]:
        """A point of a map."""
        return self.body().finish((*self.nest.prologue, *self.nest.epilogue))

    def built(self) -> Point:
        """A point, whose stages see the values of those before."""
        if self.nest.combine is None:
            return Point(self.mapped())
        body, made, elements, staged = self.body(), list[Sums](), self.term_elements(), self.nest.staged
        start = body.run(self.nest.prologue)
        for stage in self.nest.stages:
            totals = self.totals(body.scope, stage)
            term = self.summed(body.scope, totals)
            exact = term if made or elements is self.elements else self.summed(body.scope, totals, elements)
            for x in totals:
                body.scope |= x.symbol
            after = body.run(stage.epilogue) if staged else body.finish(stage.epilogue)
            made.append(Sums(totals, term, exact, after, body.stored() if staged else ()))
        each = cprint.Body(self.k.dialect, dict(body.scope), self.elements, self.k.namer).finish(self.nest.each)
        return Point(start, made, each)

    def serial(self, x: Point) -> tuple[list[Stmt], list[Stmt]]:
        """The first sums of a point by one thread, in order, and what follows them; a map as it is."""
        if not x.sums:
            return [*x.start], []
        (first, lines), others = self.terms(x.sums[0]), x.sums[1:]
        end = [*first.after, *first.stores]
        for sums in others:
            end += [*self.in_order(sums, self.over_terms), *sums.after, *sums.stores]
        return [*x.start, *lines], [*end, *(self.over_terms([*x.each]) if x.each else [])]

    def in_order(self, sums: Sums, over: Callable[[list[Stmt], InBlocks], list[Stmt]]) -> list[Stmt]:
        """The sums of a stage, whose terms are those of `over`."""
        blocks = self.in_blocks(sums.totals)
        term = sums.at([x.at for x in blocks.totals]).exact
        return [*map(self.start, sums.totals), *blocks.start, *over([*term], blocks)]

    def summed_to(self, value: Operand, body: cprint.Body) -> list[Stmt]:
        """What the sum is for the statements of `body` behind: `value`, in a local if it is a call or read again."""
        acc, found = self.k.namer.own(self.nest.acc), code(value)
        read = [s.when if isinstance(s, l2.Emit) else s.value for s in self.nest.epilogue]
        once = sum(x == Ref(self.nest.acc) for e in read for x in nodes(e)) == 1 and not isinstance(found, Call)
        held = found if once else acc
        body.scope[self.nest.acc] = cprint.Symbol(held, self.k.dialect.precision)
        return [] if held == found else [Let(self.k.dialect.real, acc, found)]

    def ended(self, value: Operand, body: cprint.Body) -> list[Stmt]:
        """What follows the sum `value` in a target's own loops."""
        return [*self.summed_to(value, body), *body.finish(self.nest.epilogue)]

    def terms(self, sums: Sums) -> tuple[Sums, list[Stmt]]:
        """Where the first sums of a point are, and their statements."""
        raise NotImplementedError

    def term_elements(self) -> Mapping[str, cprint.Element]:
        """How `exact` terms access arrays."""
        return self.elements

    def loop(self, dim: l2.Dim, inner: Sequence[Stmt]) -> list[Stmt]:
        """A loop over a dim of a point."""
        raise NotImplementedError

    def over_terms(
        self, inner: list[Stmt], blocks: InBlocks | None = None, dims: Sequence[l2.Dim] | None = None
    ) -> list[Stmt]:
        """A loop over all terms, in order; `dims`: those of them that are not walked yet (default: all)."""
        for d in reversed(self.red if dims is None else dims):
            inner = self.loop(d, inner)
            if blocks and d.name == blocks.dim:
                inner = self.by_blocks(inner, blocks)
        return inner

    def in_blocks(
        self,
        totals: Sequence[Total],
        declared: Callable[[Total], Sequence[Stmt]] | None = None,
        one: Callable[[Code], Code] = lambda x: x,
        each: Callable[[Stmt], Stmt] = lambda x: x,
        by: int = 1,
    ) -> InBlocks:
        """`declared`: the declaration of an accumulator (default: `start`); accumulators may be arrays, of which `one`
        is an element and `each` the loop over all."""
        start, blocks = declared or (lambda x: [self.start(x)]), self.nest.blocks
        if blocks is None or totals[0].combine != "add":
            return InBlocks([replace(x, at=one(x.at)) for x in totals])
        parts = [replace(x, at=self.k.namer.fresh("part")) for x in totals]
        before, end = list[Stmt](), list[Stmt]()
        for x, part in zip(totals, parts, strict=True):
            to, more = one(x.at), one(part.at)
            if not cprint.is_real(x.type):
                end.append(each(Set(to, more, "+=", self.k.template.span)))
                continue
            lost = replace(x, at=self.k.namer.fresh("lost"))
            before += start(lost)
            kept = one(lost.at)
            end.append(each(Do(call(f"nl_carried_{x.type}", to, more, kept, address(to), address(kept)))))
        begin = [line for x in parts for line in start(x)]
        return InBlocks([replace(x, at=one(x.at)) for x in parts], blocks.dim, before, begin, end, by)

    def by_blocks(self, loop: list[Stmt], blocks: InBlocks) -> list[Stmt]:
        """A loop over the dim of blocks, block by block."""
        *before, walk = loop
        assert isinstance(walk, For) and walk.end is not None
        first, end = self.k.namer.fresh("first"), self.k.namer.fresh("end")
        inner = replace(walk, first=first, end=end)
        return [*before, self.block(first, end, code(walk.end), [inner], blocks)]

    def block(self, first: Code, end: Code, extent: Code, inner: Sequence[Stmt], blocks: InBlocks) -> Stmt:
        """A loop over blocks, from `first` to `end` each."""
        assert self.nest.blocks is not None
        number = self.nest.blocks.length
        length = code(number * blocks.by) if isinstance(number, int) else self.k.extent(number)
        length = length * blocks.by if blocks.by > 1 and isinstance(number, str) else length
        least = cond(first + length < extent, first + length, extent)
        return For(first, 0, extent, [*blocks.begin, Let("nl_i64", end, least), *inner, *blocks.end], length)

    def totals(self, scope: cprint.Scope, stage: l2.Stage | None = None) -> list[Total]:
        """The reductions of a stage (default: the first), each in a variable of its own."""
        x = stage or self.nest.stages[0]
        return [
            Total(s.acc, self.k.namer.own(s.acc), self._type(s.term, x.combine, scope), x.combine, s.term)
            for s in x.sums
        ]

    def start(self, total: Total) -> Stmt:
        """The declaration of an accumulator."""
        return Let(
            self.k.dialect.type_name(total.type), total.at, self.identity(total.type, total.combine), const=False
        )

    def _type(self, term: Expr, combine: str, scope: cprint.Scope) -> DType:
        known = {**cprint.symbols({n: e.type for n, e in self.elements.items()}), **scope}
        real = self.k.dialect.precision
        types = cprint.infer_locals(self.nest.prologue, known, self.elements, real)
        t = cprint.type_of(term, {**known, **cprint.symbols(types)}, real)
        if t == "bool" or t == DType.U8:
            return DType.I32
        if not cprint.is_real(t) and combine != "add":
            raise cprint.PrintError("only sums may run over integers", self.k.template.span)
        return t

    def identity(self, t: DType, combine: str | None = None) -> Code:
        """The identity element of the combination."""
        return cprint.literal(IDENTITY[combine or self.nest.combine or "add"], t)

    def combined(self, acc: Code, term: Code, t: DType, span: Span = NOWHERE, combine: str | None = None) -> Stmt:
        how = combine or self.nest.combine
        if how == "add":
            return Set(acc, term, "+=", span)
        assert how is not None
        return Set(acc, self.k.dialect.call(how, t, acc, term), span=span)

    def summed(
        self, scope: cprint.Scope, totals: Sequence[Total], elements: Mapping[str, cprint.Element] | None = None
    ) -> list[Stmt]:
        """Loads and the combination of one term of each reduction. `elements`: as they read them."""
        body = cprint.Body(self.k.dialect, dict(scope), dict(elements or self.elements), self.k.namer)
        lines = body.load(set().union(*(refs(x.term) for x in totals)))
        for x in totals:
            value = self.k.dialect.expr(x.term, body.scope, x.type)
            lines.append(self.combined(x.at, value, x.type, self.k.template.span, x.combine))
        return lines


class PointNest(NestBuilder):
    """Prints what happens at a point of one nest of one kernel."""

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        super().__init__(k, nest)
        self.par = nest.par
        self.addresses = k.addresses(self.scope)
        self.elements = k.elements(self.addresses, nest.fill)

    def _check_order(self) -> None:
        """Concurrent additions of reals have no order."""
        for s in self.nest.statements:
            if not isinstance(s, l2.Add) or not self.elements[s.target].direct:
                continue
            if cprint.is_real(self.elements[s.target].type) and self.k.template.order is not l2.Order.FAST:
                raise cprint.PrintError(f"sums into `{s.target}` from many threads have no fixed order here", s.span)

    @cached_property
    def points(self) -> For:
        """The loop over all points, with the dims of one."""
        flat = len(self.par) == 1
        e = self.vars[self.par[0].name] if flat else self.k.namer.fresh("e")
        return For(e, 0, self.extent(self.par), [] if flat else self.split(e, self.par), kind=Kind.THREADS)

    def extent(self, dims: Sequence[l2.Dim]) -> Code:
        """The product of extents, as a 64-bit expression."""
        first, *others = [self.k.extent(d.extent) for d in dims] or [code(f"1{self.k.dialect.wide.lower()}")]
        product = cast("nl_i64", first) if isinstance(first, Number) and first.type is DType.I32 else first
        for x in others:
            product *= x
        return product

    def split(self, index: Code, dims: Sequence[l2.Dim], short: bool = False) -> list[Stmt]:
        """The dims of a flat index, `short`: of 32 bits; the last one varies fastest."""
        if not dims:
            return []
        first, *others = [self.vars[d.name] for d in dims]
        if not others:
            return [] if first == index else [Let("nl_i64", first, index)]
        rest = self.k.namer.fresh("rest")
        taken = [Let("nl_i64", v, self.taken(rest, d, short)) for v, d in zip(others, dims[1:], strict=True)]
        return [Let("nl_u32" if short else "nl_u64", rest, index, False), *reversed(taken), Let("nl_i64", first, rest)]

    def taken(self, rest: Code, d: l2.Dim, short: bool) -> Code:
        """The index of a dim, which is taken from a flat one: see `split`."""
        return call("nl_take", rest, form("(nl_u32){}" if short else "{}", self.k.extent(d.extent)))

    def built(self) -> Point:
        self._check_order()
        self.emits()
        return super().built()

    def terms(self, sums: Sums) -> tuple[Sums, list[Stmt]]:
        return sums, self.in_order(sums, self.in_window)

    def term_elements(self) -> Mapping[str, cprint.Element]:
        """As the loops of `in_window` walk them."""
        exact = {x.quotient for x in self._sparse().values()}
        return self.k.elements(replace(self.addresses, exact=exact), self.nest.fill) if exact else self.elements

    def in_window(self, loop: list[Stmt], blocks: InBlocks | None = None) -> list[Stmt]:
        """A loop over the terms that are not 0, in order."""
        sparse = self._sparse()
        for d in reversed(self.red):
            var, found = self.vars[d.name], sparse.get(d.name)
            if found is None:
                loop = self.loop(d, loop)
            elif found.step == d.extent:
                loop = [Let("nl_i64", var, found.first), *loop]
            else:
                loop = [For(var, found.first, self.k.extent(d.extent), loop, found.step)]
            if blocks and d.name == blocks.dim:
                loop = self.by_blocks(loop, blocks)
        return loop

    def loop(self, dim: l2.Dim, inner: Sequence[Stmt]) -> list[Stmt]:
        return [For(self.vars[dim.name], code(0), self.k.extent(dim.extent), inner, 1)]

    def _sparse(self) -> dict[str, _Sparse]:
        """Dims that are summed over in steps of a divisor: the others read 0 because the index is not divisible, and
        add nothing (the gradient of a pooling). Skipping them changes no bit."""
        found: dict[str, _Sparse] = {}
        if self.nest.combine != "add" or self.nest.fill != 0 or self.nest.term is None or self.nest.beside:
            return found
        red = {d.name for d in self.red}
        for f, access in self.k.strided:
            if f.name not in refs(self.nest.term):
                continue
            if simplify(substitute(self.nest.term, {f.name: Num(0.0)})) != Num(0.0):
                continue
            for axis in access.axes:
                summed = [(d, c) for d, c in axis.terms if d in red]
                if axis.div == 1 or len(summed) != 1 or abs(summed[0][1]) != 1:
                    continue
                (dim, sign), rest = summed[0], tuple(t for t in axis.terms if t[0] not in red)
                index = self.addresses.numerator(replace(axis, terms=rest))
                first = call("nl_rest", -index if sign > 0 else index, axis.div)
                found.setdefault(dim, _Sparse(first, axis.div, quotient(axis)))
        return found
