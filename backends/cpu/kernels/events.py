"""Recording and scheduled events: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: records and lists as those of backends/reference.
Does not: deliver events (propagate.py) or connect (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, indent
from backends.c_family.record_trace import sample_of
from backends.c_family.rule_rows import skeleton
from backends.cpu.kernels.skeletons import render


def record_events(k: Kernel, r: l2.RecordEvents) -> list[Line]:
    return skeleton(k, render, "record_events.c.j2")


def emit_scheduled(k: Kernel, e: l2.EmitScheduled) -> list[Line]:
    return skeleton(k, render, "emit_scheduled.c.j2")


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Line]:
    """One sample of every member."""
    x = sample_of(k, r)
    return [
        *x.first,
        Line(f"if ({x.sample} >= {x.capacity}) {{"),
        Line("nl_overflow(ctx);", 1),
        Line("continue;", 1),
        Line("}"),
        Line(f"for (nl_i64 {x.j} = 0; {x.j} < {x.m}; {x.j}++) {{"),
        *indent(x.each),
        Line("}"),
        Line(f"{x.used}[0] = {x.sample} + 1;"),
        Line(f"if ({x.sample} + 2 >= {x.capacity}) ctx->full = 1;"),
    ]
