"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be emptied during this one.
Guarantees: the same relations and draws as backends/reference; a record is written by one group of work items.
Does not: deliver events (propagate.py) or draw rows (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

from typing import Any

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Line, indent
from backends.c_family.record_trace import sample_of
from backends.c_family.rule_rows import skeleton
from backends.c_family.skeletons import skeletons


def render(file: str, **names: Any) -> str:
    return skeletons("backends.opencl").get_template(file).render(**names)


def record_events(k: Kernel) -> list[Line]:
    return skeleton(k, render, "record_events.cl.j2")


def emit_scheduled(k: Kernel) -> list[Line]:
    return skeleton(k, render, "emit_scheduled.cl.j2")


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Line]:
    """One sample of every member; the first work item counts it when all have read the counter."""
    x = sample_of(k, r)
    return [
        *x.first,
        Line(f"for (nl_i64 {x.j} = get_local_id(0); {x.sample} < {x.capacity} && {x.j} < {x.m}; "
             f"{x.j} += get_local_size(0)) {{"),
        *indent(x.each),
        Line("}"),
        Line("barrier(CLK_GLOBAL_MEM_FENCE);"),
        Line("if (get_local_id(0) == 0) {"),
        Line(f"if ({x.sample} < {x.capacity}) {x.used}[0] = {x.sample} + 1;", 1),
        Line("else nl_state[1] = 1;", 1),
        Line("}"),
    ]  # fmt: skip
