"""Loop nests in CUDA: what happens at their points, built before a pass gives these to threads (ways.py).

Assumes: a legal Nest: PAR (and LANE) iterations are independent.
Guarantees: a point of the PAR dims is a flat index, the last dim along neighbouring threads (this target stores tensors
row-major; a LANE dim is one more PAR dim). What depends on the step and the row alone is computed once, ahead: inverses
of extents that indices are divided by, powers and remainders, slots of events.
Does not: choose how threads share points and terms, or tile and reorder dims (strategies do).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import Final

import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, PrintError, Scope
from backends.c_family.point_nest import Constants, PointNest, Total, rewritten
from backends.cuda.kernels.kernel import Function
from backends.kernel_ir.expr import braces, call, code, form, name
from backends.kernel_ir.stmt import Let, Stmt
from backends.kernel_ir.tree import Call, Code, Given
from compiler.expr.ast import Binary, refs

WARP: Final = 32
NEIGHBOURS: Final = 4
"""Points of a thread, at most, where they are neighbours in memory, and elements of a window that are read together."""
_ONCE: Final = {"**": "power", "%": "of_step"}
"""Operators whose values are computed once, and what these are called."""
_UNROLLED: Final = 4
"""Terms of a window, at most, whose loop is unrolled; neighbouring points make four times as many."""


def is_short(nest: l2.Nest) -> bool:
    """Whether a sum is known to have too few terms for a warp (small windows)."""
    return prod(d.extent if isinstance(d.extent, int) else WARP for d in nest.red) < WARP


class NestPrinter(PointNest):
    """Builds one nest of one kernel. `ahead`: what is computed before preceding kernels have ended; `before`: what
    comes before all points."""

    def __init__(self, k: Kernel, nest: l2.Nest) -> None:
        super().__init__(k, nest)
        self.inverses: dict[str, Let] = {}
        self.ahead, self.before, self.slots = list[Stmt](), list[Stmt](), dict[str, Code]()

    @property
    def arrays(self) -> frozenset[str]:
        """The names of the arrays' pointers."""
        return frozenset(x.text for x in self.k.pointers.values())

    @cached_property
    def counter(self) -> Code:
        """What counts the terms of a sum: the dim that they run over, if there is one."""
        return self.vars[self.red[0].name] if len(self.red) == 1 else self.k.namer.fresh("r")

    def with_inverses(self, made: Sequence[Function]) -> list[Function]:
        """Functions that begin with the inverses of extents that they divide by."""
        wanted = [ir.names_of(f.body) for f in made]
        inverses = [[x for x in self.inverses.values() if x.name.text in names] for names in wanted]
        return [replace(f, ahead=(*f.ahead, *more)) for f, more in zip(made, inverses, strict=True)]

    def taken(self, rest: Code, d: l2.Dim, short: bool) -> Code:
        """By the inverse of the extent, which is computed ahead, before preceding kernels have ended."""
        if short or isinstance(d.extent, int):
            return super().taken(rest, d, short)
        extent = self.k.extent(d.extent)
        if d.extent not in self.inverses:
            inverse = self.k.namer.fresh(f"{d.word}_inverse")
            self.inverses[d.extent] = Let("nl_u32", inverse, call("nl_inverse", extent))
        return call("nl_take", rest, extent, self.inverses[d.extent].name)

    def loop(self, dim: l2.Dim, inner: Sequence[Stmt]) -> list[Stmt]:
        """Small windows, and those whose elements are read and written again, are unrolled, so that loads overlap."""
        terms = prod(x.extent for x in self.red if isinstance(x.extent, int))
        if not is_short(self.nest) or not (self.nest.staged or terms <= _UNROLLED):
            return super().loop(dim, inner)
        assert isinstance(dim.extent, int)
        return [ir.Each(self.vars[dim.name], dim.extent, inner)]

    def mapped(self) -> list[Stmt]:
        """A point of a map, whose powers and remainders of the step and scalars (Adam's corrections of its means, the
        batch of a step) are computed ahead, once, as are the slots of its events."""
        for s in self.emits():
            self.slots[s.list] = slot = self.k.namer.fresh("slot")
            number, count = self.k.scope[s.slots].code, self.k.pointers[s.count]
            self.ahead.append(Let("nl_i64", slot, call("nl_slot", STEP, number)))
            later = call("nl_later", slot, 1, number)
            self.before.append(ir.when("nl_me.part == 0 && threadIdx.x == 0", ir.Set(count[later], 0)))
        known = {f.name for f in self.k.template.columns} | {"step"}
        once = Constants(
            self.k, self.scope, known, lambda e: _ONCE.get(e.op, "") if isinstance(e, Binary) and refs(e) else ""
        )
        statements = rewritten((*self.nest.prologue, *self.nest.epilogue), once)
        self.ahead += once.lines
        return self.body(self._emit).finish(statements)

    def _emit(self, s: l2.Emit, scope: Scope) -> list[Stmt]:
        (dim,), slot = self.par, self.slots[s.list]
        place, counter = self.k.pointers[s.list] + slot * self.k.extent(dim.extent), self.k.pointers[s.count] + slot
        index = form("(nl_i32){}", self.vars[dim.name])
        return [ir.Do(call("nl_append", place, counter, self.k.dialect.test(s.when, scope), index), s.span)]

    def joining(
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
        return [Let("auto", code(result), Call(joined, given))]
