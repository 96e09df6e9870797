"""Recording and scheduled events: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: records and lists as those of backends/reference.
Does not: deliver events (propagate.py) or connect (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.record_trace import sample_of
from backends.kernel_ir.expr import call, code
from backends.kernel_ir.stmt import Do, For, If, Leave, Set, Stmt, when


def record_trace(k: Kernel, r: l2.RecordTrace) -> list[Stmt]:
    """One sample of every member."""
    x = sample_of(k, r)
    return [
        *x.first,
        If(x.sample >= x.capacity, [Do(call("nl_overflow", "ctx")), Leave("continue")]),
        For(x.j, 0, x.m, x.each),
        Set(x.used[0], x.sample + 1),
        when(x.sample + 2 >= x.capacity, Set(code("ctx->full"), 1)),
    ]
