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
from backends.c_family.cprint import Line, indent


def columns(k: Kernel, names: Iterable[str]) -> list[Line]:
    """As access.columns, with pointers into the arenas."""

    def pointer(f: l2.ArrayFormal, source: str) -> str:
        # both ends of a projection may be one array: no `restrict` on pointers of At-accesses
        alone = "" if isinstance(f.access, l2.At) else "restrict "
        return f"{array_type(k, f)} *{alone}const {k.pointers[f.name]} = nl_at(ctx, {source});"

    return access.columns(k, names, "double", pointer)


def opened(k: Kernel, body: Sequence[Line]) -> list[Line]:
    """The kernel's function around its statements, with the rows [lo, hi) and `step` in scope."""
    return [Line(f"NL_KERNEL({k.function}) {{"), *indent(body), Line("}")]


def function(k: Kernel, body: Sequence[Line], early: Sequence[Line] = ()) -> list[Line]:
    """The kernel's function: `body` once per row of [lo, hi). `early` runs first, with its own columns, and may
    `continue` before the others are loaded."""
    first = mentioned(k, early)
    rest = mentioned(k, body) - first
    return opened(
        k,
        [
            Line(f"NL_ROWS({k.row_type}) {{"),
            *indent([*columns(k, first), *early, *columns(k, rest), *body]),
            Line("}"),
        ],
    )
