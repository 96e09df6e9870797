"""Recording and scheduled events: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: records and lists as those of backends/reference.
Does not: deliver events (propagate.py) or connect (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.records import record_of
from backends.kernel_ir.expr import call, code
from backends.kernel_ir.stmt import Do, If, Leave, Set, Stmt, when


def record(k: Kernel, r: l2.RecordTrace | l2.RecordEvents) -> list[Stmt]:
    """Where the next steps may find no room, the step loop returns."""
    x = record_of(k, r)
    full = If(x.full, [Do(call("nl_overflow", "ctx")), Leave("continue")])
    return [*x.first, full, x.loop, x.counted, when(x.soon, Set(code("ctx->full"), 1))]
