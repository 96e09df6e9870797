"""Loop nests in OpenCL C: maps, reductions and contractions.

Assumes: a legal Nest.
Guarantees: a work item for each point; a sum has the declared order, in every order class. Lists of events are
unordered: work items append to them by an atomic increment of the count.
Does not: share a point among work items.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Scope
from backends.c_family.point_nest import PointNest
from backends.kernel_ir.expr import binary, call, form
from backends.kernel_ir.stmt import Let, Set, Stmt, when


class NestPrinter(PointNest):
    """Prints one nest of one kernel."""

    def mapped(self) -> list[Stmt]:
        return self.body(self._emit).finish((*self.nest.prologue, *self.nest.epilogue))

    def _emit(self, s: l2.Emit, scope: Scope) -> list[Stmt]:
        """The slot of the next step is emptied in this one."""
        k, slot = self.k, self.k.namer.fresh("slot")
        index, extent = self.vars[self.par[0].name], k.extent(self.par[0].extent)
        slots, count = k.scope[s.slots].code, k.pointers[s.count]
        place = slot * extent + call("atomic_inc", count + slot)
        store = Set(k.pointers[s.list][place], form("(nl_i32){}", index), span=s.span)
        return [
            Let("nl_i64", slot, call("nl_slot", STEP, slots)),
            when(binary(index, "==", 0), Set(count[call("nl_later", slot, 1, slots)], 0)),
            when(k.dialect.test(s.when, scope), store),
        ]


def nest_lines(k: Kernel, nest: l2.Nest) -> list[Stmt]:
    """The statements of one work item, for the row whose columns are loaded."""
    p = NestPrinter(k, nest)
    return [replace(p.points, body=[*p.points.body, *(x for part in p.serial(p.built()) for x in part)])]
