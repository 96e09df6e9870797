"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be emptied during this one.
Guarantees: the same relations and draws as backends/reference; a record is written by one group of work items.
Does not: deliver events (propagate.py) or draw rows (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.record_trace import sample_of
from backends.c_family.skeletons import skeletons
from backends.kernel_ir.expr import call, code, form
from backends.kernel_ir.stmt import Do, For, If, Kind, Set, Stmt, Style


def render(file: str, **names: Any) -> str:
    return skeletons("backends.opencl").get_template(file).render(**names)


statements = partial(skeletons, "backends.opencl", statements=True)
"""Skeletons of statements."""


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Stmt]:
    """One sample of every member; the first work item counts it when all have read the counter."""
    x = sample_of(k, r)
    fits = x.sample < x.capacity
    counted = If(fits, [Set(x.used[0], x.sample + 1)], [Set(code("nl_state[1]"), 1)], Style.BESIDE)
    here = form("{} && {}", fits, x.j < x.m)
    return [
        *x.first,
        For(x.j, 0, None, x.each, test=here, kind=Kind.TOGETHER),
        Do(call("barrier", "CLK_GLOBAL_MEM_FENCE")),
        If("get_local_id(0) == 0", [counted]),
    ]
