"""Recording, scheduled events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are unordered. A ring buffer has at least
two slots more than the largest delay, so that the slot of the next step can be emptied during this one.
Guarantees: the same relations and draws as backends/reference; a record is written by one group of work items.
Does not: deliver events (propagate.py) or draw rows (backends/c_family/rule_rows.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.records import record_of
from backends.c_family.skeletons import Skeletons
from backends.kernel_ir.expr import call, code
from backends.kernel_ir.stmt import Do, If, Kind, Leave, Set, Stmt, when

SKELETONS: Final = Skeletons("backends.opencl")
_FIRST: Final = "get_local_id(0) == 0"


def record(k: Kernel, r: l2.RecordTrace | l2.RecordEvents) -> list[Stmt]:
    """The first work item counts the entries when all have read the counter."""
    x = record_of(k, r)
    full = If(x.full, [when(_FIRST, Set(code("nl_state[1]"), 1)), Leave("return")])
    loop = replace(x.loop, kind=Kind.TOGETHER)
    return [*x.first, full, loop, Do(call("barrier", "CLK_GLOBAL_MEM_FENCE")), when(_FIRST, x.counted)]
