"""synapse_arrays: arrays with one element per synapse, and their initial contents.

Assumes: the relation of the projection exists (relation_of).
Guarantees: values drawn per synapse are counter-based, indexed in storage order (row by row, targets ascending); values
given for explicit pairs are permuted from the user's order to storage order.
Does not: lower statements of synapses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.expr.ast import Expr, Ref, refs, substitute
from compiler.expr.interp import evaluate
from compiler.ir.space import DType, Role
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.init_values import initialise, read_file
from compiler.passes.projections.placed_values import fill_placed
from compiler.passes.relations.relations import LoweredRelation
from compiler.passes.relations.stored_rows import Link


def in_stored_order(link: Link, value: l0.Value, found: LoweredRelation) -> l0.Value:
    """A value per synapse in the order in which synapses are numbered: explicit pairs are given in the user's order,
    convolutions by element of the kernel, copied to every synapse where these do not share it, and all pairs as a
    matrix, whose diagonal counts for nothing without autapses."""
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    shape = link.rule.shape(pre.size, post.size)
    if shape is not None:
        if not replace(link, pre=pre, post=post).hole or not isinstance(value, l0.Listed | l0.FromFile):
            return value
        each = read_file(value) if isinstance(value, l0.FromFile) else np.array(value.values)
        return l0.Listed(tuple(each.reshape(shape)[~np.eye(*shape, dtype=np.bool_)].tolist()), value.span)
    stored = found.relation
    numbered = isinstance(stored, l2.Csr) and not stored.shared
    if link.rule.rows is None or not numbered or not isinstance(value, l0.Listed | l0.FromFile):
        return value
    data, rows = read_file(value) if isinstance(value, l0.FromFile) else np.array(value.values), link.rule.rows(link)
    return l0.Listed(tuple(data[rows.order].tolist()), value.span) if len(data) == rows.given else value


def per_synapse(
    link: Link,
    variable: str,
    value: l0.Value,
    found: LoweredRelation,
    unit: str = "1",
    whole: DType | None = None,
) -> str:
    """The array `<stored>.<variable>` with one element per synapse; returns its name."""
    value = in_stored_order(link, value, found)
    array = f"{link.stored}.{variable}"
    if link.member.like is not None and link.has(variable):
        return array
    if isinstance(value, l0.Placed):
        return fill_placed(link, array, value, found, unit, whole)
    span = link.projection.span
    known = link.rule.shape(link.pre.size, link.post.size) is not None and isinstance(value, l0.Listed | l0.FromFile)
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    size = round(link.rule.count(replace(link, pre=pre, post=post))) if known else found.extent
    return initialise(link.builder, array, value, None, Role.SYNAPSE, unit, size=size, span=span, whole=whole)


def delays_of(link: Link, found: LoweredRelation) -> str:
    """The array of per-synapse delays in integer steps: one byte each where they fit."""
    delays = link.member.delays
    assert delays is not None
    name = per_synapse(link, "delay", delays, found, whole=DType.U8 if link.member.delay < 256 else DType.I32)
    link.builder.arrays[name] = replace(link.builder.arrays[name], least=shortest(delays))
    return name


def shortest(delays: l0.Distribution | l0.Listed | l0.Placed) -> int:
    """Lower bound on the delays in integer steps, rounded to nearest as they are, halves to the even one, in either
    precision."""
    if isinstance(delays, l0.Placed):
        return max(0, int(delays.low))  # one less than the nearest where that is above: it may be a difference
    if isinstance(delays, l0.Listed):
        low = min(delays.values, default=0.0)
    else:
        low = dict(delays.args).get("low" if delays.kind == "uniform" else "min", 0.0)
    return max(0, min(round(low), round(float(np.float32(low)))))


def from_formula(
    builder: ProgramBuilder,
    name: str,
    formula: l0.Formula,
    numbers: Mapping[str, float],
    arrays: Mapping[str, str],
    extent: int | l2.SizeOf,
    role: Role,
    unit: str,
) -> str:
    """The array `name` computed element by element from `numbers` and from `arrays` of the same extent."""
    e = formula.expr
    used = sorted(refs(e) & arrays.keys())
    if not used:
        constant = l0.Const(float(evaluate(e, dict(numbers))), formula.span)
        return initialise(builder, name, constant, None, role, unit, size=extent, span=formula.span)
    real = builder.precision
    shape, size_from = ((-1,), extent.array) if isinstance(extent, l2.SizeOf) else ((extent,), None)
    builder.array(l2.Array(name, real, shape, role, None, size_from, unit, formula.span))
    # Operands are named by number: formulas of one form share their text.
    names: dict[str, Expr] = {user: Ref(f"p{k}") for k, user in enumerate(used)}
    scalars = sorted(refs(e) & numbers.keys() - arrays.keys())
    names |= {user: Ref(f"c{k}") for k, user in enumerate(scalars)}
    body = substitute(e, names)
    formals: tuple[l2.Formal, ...] = (
        l2.ArrayFormal("x", real, l2.Mode.WRITE, l2.ELEMENT),
        *(l2.ArrayFormal(f"p{k}", real, l2.Mode.READ, l2.ELEMENT) for k in range(len(used))),
        l2.ScalarFormal("n", DType.I64),
        *(l2.ScalarFormal(f"c{k}", real) for k in range(len(scalars))),
    )
    columns: dict[str, l2.ColumnValue] = {"n": extent, **{f"c{k}": numbers[user] for k, user in enumerate(scalars)}}
    key = ("formula", body, len(used), len(scalars))
    row = builder.row(
        key,
        f"{name}: initial value (formula)",
        l2.Kind.MAP,
        formals,
        l2.Nest((l2.Dim("i", "n"),), (l2.Assign("x", body, formula.span),)),
        {"x": name, **{f"p{k}": arrays[user] for k, user in enumerate(used)}},
        columns,
        name,
        formula.span,
    )
    row.launch("init")
    return name
