"""The canonical form of a kernel, up to names; its digest; and one row of a template as a kernel.

Assumes: formals, dims and locals of one kernel have different names.
Guarantees: two kernels have equal canonical text exactly when renaming formals (by position), dims
and locals makes their formals, bodies, kinds and orders equal. Names with a fixed meaning stay:
`step`, constants, and the formals that bodies without text of their own use by name (Connect,
records, given events).
Does not: reorder statements or formals; take part in names, rows, spans or model paths.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from hashlib import sha256

import compiler.ir.level2.program as l2
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Quantity, Ref, Unary

Names = dict[str, str]


def canonical(kernel: l2.Kernel | l2.Template) -> str:
    """The kernel's text with formals f0, f1, ..., dims d0, d1, ... and locals t0, t1, ...; other
    names get a `$`."""
    names: Names = {}
    fixed = kernel.body.by_name
    for i, formal in enumerate(kernel.formals):
        names[formal.name] = f"${formal.name}" if formal.name in fixed else f"f{i}"
    body = _body(kernel.body, names)  # first: names dims and locals, which accesses may use
    formals = ";".join([_formal(f, names) for f in kernel.formals])
    return f"{kernel.kind.value} {kernel.order.value}({formals}){body}"


def digest(kernel: l2.Kernel | l2.Template) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return sha256(canonical(kernel).encode()).hexdigest()


def _name(name: str, names: Names) -> str:
    return names.get(name) or f"${name}"


def _value(x: int | str | None, names: Names) -> str:
    return _name(x, names) if isinstance(x, str) else str(x)


def _formal(formal: l2.Formal, names: Names) -> str:
    name, dtype = names[formal.name], formal.dtype.value
    if not isinstance(formal, l2.ArrayFormal):
        return f"{name}:{dtype}"
    access = formal.access
    if isinstance(access, l2.Strided):
        where = "[" + ",".join([_axis(a, names) for a in access.axes]) + "]"
    else:
        where = "@" + access.end if isinstance(access, l2.At) else "@"
        if isinstance(access, l2.At) and access.ring is not None:
            where += ("(-" if access.past else "(") + ",".join([_name(n, names) for n in access.ring]) + ")"
    return f"{name}:{dtype} {formal.mode.value}{where}"


def _axis(axis: l2.Axis, names: Names) -> str:
    terms = "+".join([f"{c}*{_name(n, names)}" for n, c in axis.terms])
    rest = (axis.const, axis.div, axis.extent, axis.stride)
    if rest == (0, 1, None, 1):
        return terms
    return ":".join([terms, *(_value(x, names) for x in rest)])


def _body(body: object, names: Names) -> str:
    match body:
        case l2.Nest():
            return _nest(body, names)
        case l2.Contract(nest, strategy, literals, scratch, sums, flat):
            options = ",".join([f"{k}={v}" for k, v in literals])
            inner = _nest(nest, names)
            space = None if scratch is None else _name(scratch, names)
            tiles = [(_name(s.target, names), s.of, _expr(s.value, names), _name(s.weight, names)) for s in sums]
            return f"contract {strategy}({options};{space}){inner}{tiles or ''}{' flat' if flat else ''}"
        case l2.Attention():
            return repr(body)
        case l2.Propagate(events, relation, statements, by, gather):
            given = f"{by} {_parts(events, names)} {_parts(relation, names)}{' gather' if gather else ''}"
            return f"propagate({given}){{{_statements(statements, names)}}}"
        case l2.Connect(rule, stage, probability):
            given = "" if probability is None else f" {_expr(probability, names)}"
            return f"connect {rule} {stage}{given}"
        case l2.RecordTrace(value):
            return f"record trace {_expr(value, names)}"
        case l2.RecordEvents():
            return "record events"
        case l2.EmitScheduled():
            return "emit scheduled"
    raise TypeError(f"{type(body).__name__} is not the body of a kernel")


def _parts(x: l2.Events | l2.Every | l2.Relation, names: Names) -> str:
    """The fields of `x`: names are those of formals, but for a rule's."""
    shown = []
    for f in fields(x):
        value = getattr(x, f.name)
        if f.name == "probability" and value is not None:
            shown.append(_expr(value, names))
            continue
        shown.append(_name(value, names) if isinstance(value, str) and f.name != "rule" else repr(value))
    return f"{type(x).__name__}({','.join(shown)})"


def _nest(nest: l2.Nest, names: Names) -> str:
    for i, d in enumerate(nest.dims):
        names[d.name] = f"d{i}"
    dims = ",".join([f"{d.kind.value} {_value(d.extent, names)}" for d in nest.dims])
    prologue = _statements(nest.prologue, names)
    if nest.combine is None:
        return f"for({dims}){{{prologue}}}{nest.fill!r}"
    stages = []
    for number, stage in enumerate(nest.stages):
        terms = ",".join([_expr(s.term, names) for s in stage.sums])
        names |= {s.acc: f"acc{number}.{k}" for k, s in enumerate(stage.sums)}
        stages.append(f"{stage.combine}({terms}){{{_statements(stage.epilogue, names)}}}")
    cut = "" if nest.blocks is None else f" by {names[nest.blocks.dim]} {_value(nest.blocks.length, names)}"
    return f"for({dims}){{{prologue}}}{''.join(stages)}{{{_statements(nest.each, names)}}}{nest.fill!r}{cut}"


def _statements(statements: Iterable[l2.Statement], names: Names) -> str:
    out: list[str] = []
    for s in statements:
        if type(s) is l2.Emit:
            ring = ",".join([_name(x, names) for x in (s.list, s.count, s.slots)])
            out.append(f"emit({ring}){_expr(s.when, names)}")
            continue
        assert isinstance(s, l2.Assign | l2.Add)
        value = _expr(s.value, names)
        target = names.get(s.target)
        if target is None:
            target = names[s.target] = f"t{len(names)}"
        out.append(f"{target}{'=' if type(s) is l2.Assign else '+='}{value}")
    return ";".join(out)


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
        template.kind,
        template.formals,
        template.body,
        rows.taken([index]),
        template.order,
        template.span,
    )
