"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be cleared during this one.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family import rule_rows
from backends.c_family.access import Kernel
from backends.c_family.records import record_of
from backends.c_family.rule_rows import skeleton
from backends.cuda.kernels.kernel import SKELETONS, SYNC, Function
from backends.kernel_ir.expr import call, code, form
from backends.kernel_ir.stmt import If, Kind, Leave, Set, when
from compiler.connect import drawing_of
from compiler.connect.drawing import Numbered

SORT: Final = "_sort"
"""Suffix of the function that puts drawn rows in ascending order."""
_FIRST: Final = "threadIdx.x == 0"


def from_skeleton(k: Kernel, file: str, suffix: str = "") -> Function:
    return Function(suffix, (skeleton(k, SKELETONS.statements(), file),))


def connect(k: Kernel, c: l2.Connect) -> list[Function]:
    """One stage of one rule; the draws are those of backends/reference."""
    made, rule = [Function("", (rule_rows.connect(k, c, SKELETONS.statements(), "cu"),))], drawing_of(c.rule)
    if c.stage == "fill" and isinstance(rule, Numbered) and rule.pools:
        made.append(from_skeleton(k, "connect_sort.cu.j2", SORT))
    if c.rule == "transpose" and c.stage in ("fill", "refill"):
        made.append(from_skeleton(k, "connect_transpose_sort.cu.j2", SORT))
    return made


def record(k: Kernel, r: l2.RecordTrace | l2.RecordEvents) -> list[Function]:
    """Samples of a trace by several blocks, of which the last to finish counts them: all others have read the counter
    by then. Events by one."""
    x, several = record_of(k, r), isinstance(r, l2.RecordTrace)
    last = form(f"{_FIRST} && {{}}", call("nl_is_last", "nl_me", "nl_t.memory")) if several else _FIRST
    full = If(x.full, [when(_FIRST, Set(code("*nl_run.status"), 1)), Leave("return")])
    loop = replace(x.loop, kind=Kind.THREADS if several else Kind.TOGETHER)
    return [Function("", (*x.first, full, loop, SYNC, when(last, x.counted)))]
