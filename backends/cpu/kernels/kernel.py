"""The C function of one template: loads of the columns, and the loop over the rows of a launch.

Assumes: a kernel that backends/c_family/access.py has opened.
Guarantees: a column is loaded only where its name is used.
Does not: print loops (nest.py, events.py) or files (backends/cpu/emit/emit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import compiler.ir.level2.program as l2
from backends.c_family.access import (
    Kernel,
    mentioned,
)
from backends.c_family.cprint import C_TYPES, Line, indent
from compiler.ir.space import DType


def columns(k: Kernel, names: Iterable[str]) -> list[Line]:
    """Loads of the columns `names` (formals) of the current row into constants, in the order of the formals."""
    wanted = set(names)
    lines = []
    for f in k.template.formals:
        if f.name not in wanted:
            continue
        source = f"self->{k.fields[f.name]}"
        if isinstance(f, l2.ScalarFormal):
            t = k.dialect.type_name(f.dtype)
            stored = "double" if f.dtype.is_real else "nl_u64" if f.dtype == DType.U64 else "nl_i64"
            cast = "" if t == stored else f"({t})"
            lines.append(Line(f"const {t} {k.scope[f.name].text} = {cast}{source};"))
        else:
            t = C_TYPES[f.dtype] if f.dtype != k.dialect.precision else k.dialect.real
            const = "const " if f.mode is l2.Mode.READ else ""
            # both ends of a projection may be one array: no `restrict` on pointers of At-accesses
            alone = "" if isinstance(f.access, l2.At) else "restrict "
            pointer = f"{const}{t} *{alone}const {k.pointers[f.name]}"
            lines.append(Line(f"{pointer} = nl_at(ctx, {source});"))
    return lines


def opened(k: Kernel, body: Sequence[Line]) -> list[Line]:
    """The kernel's function around its statements, with the rows [lo, hi) and `step` in scope."""
    return [
        Line(f"static void {k.function}(nl_ctx *ctx, const void *rows, nl_i64 lo, nl_i64 hi, nl_i64 step)"),
        Line("{"),
        Line("(void)ctx, (void)step;", 1),
        *indent(body),
        Line("}"),
    ]


def function(k: Kernel, body: Sequence[Line], early: Sequence[Line] = ()) -> list[Line]:
    """The kernel's function: `body` once per row of [lo, hi). `early` runs first, with its own columns, and may
    `continue` before the others are loaded."""
    first = mentioned(k, early)
    rest = mentioned(k, body) - first
    return opened(
        k,
        [
            Line(f"for (const {k.row_type} *self = (const {k.row_type} *)rows + lo,"),
            Line(f"*const last = (const {k.row_type} *)rows + hi; self < last; self++) {{", 3),
            *indent([*columns(k, first), *early, *columns(k, rest), *body]),
            Line("}"),
        ],
    )
