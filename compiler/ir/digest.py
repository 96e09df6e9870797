"""The canonical form of a kernel, up to names; its digest; and one row of a template as a kernel.

Assumes: formals, dims and locals of one kernel have different names.
Guarantees: two kernels have equal canonical text exactly when renaming formals (by position), dims
and locals makes their formals, bodies and orders equal. Names with a fixed meaning stay:
`step`, constants, and the formals that bodies without text of their own use by name (Connect,
records, given events).
Does not: reorder statements or formals; take part in names, rows, spans or model paths.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import Any, Final, get_args

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary
from compiler.ir.level2.names import parts_of

Names = dict[str, str]
_PLAIN: Final = frozenset({int, float, bool, type(None)})
_EXPRESSIONS: Final = frozenset(get_args(Expr))


def canonical(kernel: l2.Kernel | l2.Template) -> str:
    """The kernel's text with formals f0, f1, ..., dims d0, d1, ... and locals t0, t1, ...; other
    names get a `$`."""
    fixed, nest = kernel.body.by_name, kernel.body
    names = {f.name: f"${f.name}" if f.name in fixed else f"f{i}" for i, f in enumerate(kernel.formals)}
    if isinstance(nest, l2.Contract):
        nest = nest.nest
    if isinstance(nest, l2.Nest):
        names |= {d.name: f"d{i}" for i, d in enumerate(nest.dims)}
        names |= {s.acc: f"acc{n}.{k}" for n, stage in enumerate(nest.stages) for k, s in enumerate(stage.sums)}
    if isinstance(nest, l2.Nest | l2.Propagate):
        for s in nest.statements:
            if not isinstance(s, l2.Emit):
                names.setdefault(s.target, f"t{len(names)}")
    return f"{kernel.order.value} {_text(kernel.formals, names)}{_text(kernel.body, names)}"


def digest(kernel: l2.Kernel | l2.Template) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return sha256(canonical(kernel).encode()).hexdigest()


def _text(x: Any, names: Names) -> str:
    kind: Any = type(x)
    if kind is tuple:
        return f"({','.join([_text(part, names) for part in x])})"
    if kind in _PLAIN:
        return repr(x)
    if kind in _EXPRESSIONS:
        return _expr(x, names)
    if parts := parts_of(kind):
        shown = [repr(getattr(x, name)) if words else _text(getattr(x, name), names) for name, words in parts]
        return f"{kind.__name__}({','.join(shown)})"
    if isinstance(x, Enum):
        return str(x.value)
    return names.get(x) or f"${x}" if isinstance(x, str) else repr(x)


def _expr(e: Expr, names: Names) -> str:
    """Prefix form, every operator in parentheses: quick to make, and one text per tree."""
    kind = type(e)
    if kind is Ref:
        return names.get(e.name) or f"${e.name}"  # type: ignore[union-attr]
    if kind is Binary:
        return f"({e.op} {_expr(e.left, names)} {_expr(e.right, names)})"  # type: ignore[union-attr]
    match e:
        case Num(value) | Bool(value):
            return repr(value)
        case Unary(op, x):
            return f"({op} {_expr(x, names)})"
        case Cond(test, a, b):
            return f"(? {_expr(test, names)} {_expr(a, names)} {_expr(b, names)})"
        case Call(func, args):
            return f"({func}! {' '.join([_expr(a, names) for a in args])})"
        case Quantity(value, unit):
            return f"{value!r}[{unit}]"
    raise TypeError(f"{kind.__name__} is not an expression")


def bind(template: l2.Template, rows: l2.Rows, index: int) -> l2.Kernel:
    """Row `index` of a template's table as a separate kernel, with the template's names."""
    if not 0 <= index < rows.count:
        raise IndexError(f"template {template.index} has no row {index}")
    return l2.Kernel(
        template.name,
        template.formals,
        template.body,
        rows.taken([index]),
        template.order,
        template.span,
    )
