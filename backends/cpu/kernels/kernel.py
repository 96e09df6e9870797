"""The C function of one template: loads of the columns, and the loop over the rows of a launch.

Assumes: a kernel that backends/c_family/access.py has opened.
Guarantees: a column is loaded only where its name is used.
Does not: print loops (nest.py, events.py) or files (backends/cpu/emit/emit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import compiler.ir.level2.program as l2
from backends.c_family import access
from backends.c_family.access import Kernel, array_type, mentioned
from backends.kernel_ir.expr import raw
from backends.kernel_ir.stmt import Block, Stmt
from backends.kernel_ir.tree import Code


def columns(k: Kernel, names: Iterable[str]) -> list[Stmt]:
    """As access.columns, with pointers into the arenas."""

    def pointer(f: l2.ArrayFormal, source: Code) -> Code:
        # both ends of a projection may be one array: no `restrict` on pointers of At-accesses
        alone = "" if isinstance(f.access, l2.At) else "restrict "
        return raw(f"{array_type(k, f)} *{alone}const {{}} = nl_at(ctx, {{}});", k.pointers[f.name], source)

    return access.columns(k, names, "double", pointer)


def opened(k: Kernel, body: Sequence[Stmt]) -> list[Stmt]:
    """The kernel's function around its statements, with the rows [lo, hi) and `step` in scope."""
    return [Block(f"NL_KERNEL({k.function})", body)]


def function(k: Kernel, body: Sequence[Stmt], early: Sequence[Stmt] = ()) -> list[Stmt]:
    """The kernel's function: `body` once per row of [lo, hi). `early` runs first, with its own columns, and may
    `continue` before the others are loaded."""
    first = mentioned(k, early)
    rest = mentioned(k, body) - first
    return opened(k, [Block(f"NL_ROWS({k.row_type})", [*columns(k, first), *early, *columns(k, rest), *body])])
