"""The kernel of one template: its row, the loads of its columns, and its work items.

Assumes: a kernel that backends/c_family/access.py has opened. All arrays lie in one buffer.
Guarantees: a row holds offsets in that buffer and numbers in the types that they are used in; a column is loaded only
where its name is used. All kernels have the same arguments (NL_ARGUMENTS in templates/module.cl.j2). Axis 1 of a launch
is the row, axis 0 the work item of a row: a point of a nest, an event, a source of a rule; `items` says how many there
are, in groups of GROUP.
Does not: print bodies (nest.py, propagate.py, events.py) or files (emit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, columns, mentioned
from backends.c_family.cprint import STEP
from backends.kernel_ir.expr import code, name
from backends.kernel_ir.stmt import Definition, For, Kind, Leave, Let, Stmt, when
from compiler.connect import drawing_of
from compiler.connect.drawing import Numbered

Words = npt.NDArray[np.uint64]
GROUP: Final = 64
"""Work items of a group, where a row has more than one."""
EVENTS: Final = 1024
"""Work items that share the events of a row, at most."""


def _by_source(c: l2.Connect) -> bool:
    """Whether each row is filled by itself; else one work item fills all, from other ends than their own."""
    found = drawing_of(c.rule)
    return c.stage != "scan" and c.rule != "transpose" and not (isinstance(found, Numbered) and found.owner != "i")


def function(k: Kernel, body: Sequence[Stmt], early: Sequence[Stmt] = ()) -> list[Stmt]:
    """The kernel around its statements. `early` runs first, with its own columns, and may return."""
    first = mentioned(k, early)
    rest = mentioned(k, body) - first
    inner = [
        Let(f"__global const {k.row_type} *const", name("self"), "nl_rows + nl_first + get_global_id(1)", const=False),
        Let("nl_i64", STEP, "nl_state[0]"),
        *(*columns(k, first), *early, *columns(k, rest), *of_item(body)),
    ]
    return [Definition(f"__kernel void {k.function}(NL_ARGUMENTS({k.row_type}))", (), inner)]


_TURNS: Final = {Kind.TURNS: "global", Kind.TOGETHER: "local"}


def of_item(statements: Iterable[Stmt]) -> list[Stmt]:
    """Statements whose loops by threads are what this work item does: one point, or some in turn."""
    found = list[Stmt]()
    for s in statements:
        if isinstance(s, For) and s.kind in _TURNS:
            which = _TURNS[s.kind]
            s = replace(s, first=f"get_{which}_id(0)", by=f"get_{which}_size(0)", kind=Kind.SERIAL)
        if isinstance(s, For) and s.kind is Kind.THREADS:
            found += [Let(s.type, s.var, "get_global_id(0)"), when(s.var >= code(s.end or 0), Leave("return")), *s.body]
        else:
            found.append(s)
    return found


def items(template: l2.Template, table: Words, lo: int, hi: int) -> int:
    """Work items of the row with the most of them, among rows [lo, hi) of the host's table."""
    names = [f.name for f in template.formals]

    def column(x: int | str) -> npt.NDArray[np.int64]:
        return np.full(hi - lo, x) if isinstance(x, int) else table[lo:hi, names.index(x)].view(np.int64)

    most = np.ones(hi - lo, np.int64)
    match template.body:
        case l2.Nest() | l2.Contract() as body:
            for d in (body if isinstance(body, l2.Nest) else body.nest).dims:
                most = most if d.kind is l2.DimKind.RED else most * column(d.extent)
        case l2.Propagate(l2.Every(n)):
            most = column(n)
        case l2.Propagate(l2.Events(stride=stride)):
            most = np.minimum(column(stride), EVENTS)
        case l2.Connect() as c if _by_source(c):
            most = column("n_pre")
        case l2.RecordEvents() | l2.RecordTrace():
            most = np.full(hi - lo, GROUP)
    return int(most.max(initial=0))
