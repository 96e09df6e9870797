"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be cleared during this one.
Guarantees: the same relations and draws as backends/reference.
Does not: deliver events (propagate.py) or choose rules.
"""

from __future__ import annotations

from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family import rule_rows
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line
from backends.c_family.record_trace import sample_of
from backends.c_family.rule_rows import skeleton
from backends.cuda.kernels.kernel import Function, each_element
from backends.cuda.kernels.skeletons import render
from compiler.connect import drawing_of
from compiler.connect.drawing import Numbered

SORT: Final = "_sort"
"""Suffix of the function that puts drawn rows in ascending order."""


def _function(k: Kernel, file: str, suffix: str = "") -> Function:
    return Function(suffix, tuple(skeleton(k, render, file)))


def connect(k: Kernel, c: l2.Connect) -> list[Function]:
    """One stage of one rule; the draws are those of backends/reference."""
    made, rule = [Function("", tuple(rule_rows.connect(k, c, render, "cu")))], drawing_of(c.rule)
    if c.stage == "fill" and isinstance(rule, Numbered) and rule.pools:
        made.append(_function(k, "connect_sort.cu.j2", SORT))
    if c.rule == "transpose" and c.stage in ("fill", "refill"):
        made.append(_function(k, "connect_transpose_sort.cu.j2", SORT))
    return made


def row_again(k: Kernel, p: l2.Procedural) -> list[Line]:
    """The row of source `i` as its rule draws it; of numbered connections: the target of number `c`."""
    return rule_rows.row_again(k, p, render, "cu")


def record_events(k: Kernel) -> list[Function]:
    return [_function(k, "record_events.cu.j2")]


def emit_scheduled(k: Kernel) -> list[Function]:
    return [_function(k, "emit_scheduled.cu.j2")]


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Function]:
    """One sample of every member. The last block to finish counts it: all others have read the counter by then."""
    x = sample_of(k, r)
    lines = (
        *x.first,
        Line(f"if ({x.sample} >= {x.capacity}) {{"),
        Line("if (threadIdx.x == 0) *nl_run.status = 1;", 1),
        Line("return;", 1),
        Line("}"),
        *each_element(x.j, x.m, x.each),
        Line("__syncthreads();"),
        Line(f"if (threadIdx.x == 0 && nl_is_last(nl_me, nl_t.memory)) {x.used}[0] = {x.sample} + 1;"),
    )
    return [Function("", lines)]
