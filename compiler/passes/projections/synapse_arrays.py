"""synapse_arrays: values of synapses: arrays with one element each, their initial contents, and expressions.

Assumes: the relation of the projection exists (relation_of).
Guarantees: values drawn per synapse are counter-based, indexed in storage order (row by row, targets ascending); values
given for explicit pairs are permuted from the user's order to storage order. Values that follow from the places of both
ends fill an array once, by walking the relation from its sources in the init phase, or are an expression of the
statements that run at a synapse, where nothing is stored; positions are integer arithmetic on `pre` and `post`.
Does not: lower statements of synapses, or bound values (the frontend does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Expr, Num, Ref, refs, substitute
from compiler.ir.level2.synapse_values import COUNTED
from compiler.ir.space import DType, Role, array_name
from compiler.passes.model.known_deliveries import known_delivery
from compiler.passes.program.init_values import drawn, initialise, numbers_of
from compiler.passes.relations.relations import LoweredRelation
from compiler.passes.relations.stored_rows import Link

MOST_AGES: Final = 256
"""Different delays of the synapses of one projection, when their spikes wait at the source."""


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class Given:
    """What a synapse delivers, or a param of it: its `value`, and the formals of that with what they are bound to."""

    value: Final[Expr]
    formals: Final[tuple[l2.Formal, ...]]
    arrays: Final[Mapping[str, str]] = field(default_factory=dict)
    columns: Final[Mapping[str, l2.ColumnValue]] = field(default_factory=dict)


def given(link: Link, found: LoweredRelation, name: str, value: l0.Value, formal: str, unit: str) -> Given:
    """A param in a kernel, where it is called `formal`: one number is a column, others are an array, or what would be
    stored is drawn by number at every event."""
    real = link.builder.precision
    if isinstance(value, l0.Const):
        return Given(Ref(formal), (l2.ScalarFormal(formal, real),), columns={formal: float(value.value)})
    if isinstance(value, l0.Distribution) and isinstance(found.relation, l2.Procedural):
        key = derived(formal, Way.GIVEN, "key")
        draw, columns = drawn(value.kind, dict(value.args), key, "syn", formal, step=0)
        formals = (*(l2.ScalarFormal(n, real) for n in columns), l2.ScalarFormal(key, DType.U64))
        return Given(draw, formals, columns={**columns, key: l2.StreamKey(array_name(link.stored, name))})
    if isinstance(value, l0.Placed) and isinstance(found.relation, l2.Procedural | l2.Bitmask):
        at, numbers, counts = placed(value, formal)
        counted, held = counted_formals(link, found, counts)
        scalars = (l2.ScalarFormal(n, DType.I64 if isinstance(x, int) else real) for n, x in numbers.items())
        return Given(at, (*scalars, *counted), held, dict(numbers))
    array = per_synapse(link, array_name(link.stored, name), value, found, unit)
    return Given(Ref(formal), (l2.ArrayFormal(formal, real, l2.Mode.READ, l2.At("syn")),), {formal: array})


def _in_stored_order(link: Link, value: l0.Value, found: LoweredRelation) -> l0.Value:
    """A value per synapse in the order in which synapses are numbered: explicit pairs are given in the user's order,
    convolutions by element of the kernel, copied to every synapse where these do not share it, and all pairs as a
    matrix, whose diagonal counts for nothing without autapses."""
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    shape = link.rule.shape(pre.size, post.size)
    if shape is not None:
        if not replace(link, pre=pre, post=post).hole or not isinstance(value, l0.Listed | l0.FromFile):
            return value
        return l0.Listed(tuple(numbers_of(value).reshape(shape)[~np.eye(*shape, dtype=np.bool_)].tolist()), value.span)
    stored = found.relation
    numbered = isinstance(stored, l2.Csr) and not stored.shared
    if link.rule.rows is None or not numbered or not isinstance(value, l0.Listed | l0.FromFile):
        return value
    data, rows = numbers_of(value), link.rule.rows(link)
    return l0.Listed(tuple(data[rows.order].tolist()), value.span) if len(data) == rows.given else value


def per_synapse(
    link: Link,
    array: str,
    value: l0.Value,
    found: LoweredRelation,
    unit: str = "1",
    whole: DType | None = None,
    stream: str | None = None,
) -> str:
    """Makes sure that `array`, with one element per synapse, exists; returns its name. `stream`: as for others."""
    if link.member.like is not None and array in link.builder.arrays:
        return array
    if isinstance(value, l0.Placed):
        return _fill_placed(link, array, value, found, unit, whole)
    value = _in_stored_order(link, value, found)
    span = link.projection.span
    known = link.rule.shape(link.pre.size, link.post.size) is not None and isinstance(value, l0.Listed | l0.FromFile)
    pre, post = l0.as_drawn(link.member.parts, link.pre, link.post)
    size = round(link.rule.count(replace(link, pre=pre, post=post))) if known else found.extent
    return initialise(
        link.builder, array, value, None, Role.SYNAPSE, unit, size=size, span=span, whole=whole, stream=stream
    )


def delays_of(link: Link, found: LoweredRelation, end: str = "pre") -> str:
    """The array of per-synapse delays in integer steps: one byte each where they fit."""
    delays, most = link.member.delays_of(end), link.member.delay_of(end)
    assert delays is not None
    called = "delay" if end == "pre" else "back_delay"
    whole = DType.U8 if most < 256 else DType.I32
    name = per_synapse(link, link.array(called), delays, found, "1", whole, array_name(link.stored, called))
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


def ages(projection: l0.Projection, member: l0.Member, end: str = "pre") -> range:
    """The delays in steps that synapses of one projection can have. Raises ModelError E0802 when they are too many."""
    delays = member.delays_of(end)
    assert delays is not None
    found = range(shortest(delays), member.delay_of(end) + 1)
    if len(found) > MOST_AGES:
        synapse = projection.statements
        known = known_delivery(projection) is not None
        what = "it has `clear`" if known else f"its synapse `{synapse.name}` runs statements when spikes arrive"
        kind = "delays" if end == "pre" else "back delays"
        message = f"the {kind} of `{projection.name}` differ by up to {len(found) - 1} steps, and {what}"
        help = f"then they may differ by {MOST_AGES - 1} steps at most: narrow the distribution"
        raise ModelError([Diagnostic("E0802", message, delays.span, help)])
    return found


def placed(value: l0.Placed, of: str) -> tuple[Expr, dict[str, float | int], dict[str, str]]:
    """The value at a synapse, as an expression over `pre`, `post`, columns and numbers of synapses, with these two,
    whose symbols follow from `of`."""
    names: dict[str, Expr] = {}
    columns: dict[str, float | int] = {}
    for name, number in value.numbers:
        new = derived(of, Way.OF, name)
        names[name], columns[new] = Ref(new), number
    for index, end, k in (("i", "from", Ref("pre")), ("j", "to", Ref("post"))):
        w, h = names.get(f"w_{end}", Ref("")), names.get(f"h_{end}", Ref(""))
        places: dict[str, Expr] = {index: k, f"x_{index}": k % w, f"y_{index}": k // w % h, f"c_{index}": k // (w * h)}
        names |= {n: e for n, e in places.items() if n not in names}
    read = refs(value.value)
    counts: dict[str, str] = {derived(of, Way.OF, n): n for n in COUNTED if n in read and n not in names}
    names |= {n: Ref(new) for new, n in counts.items()}
    return substitute(value.value, {n: e for n, e in names.items() if n in read}), columns, counts


def count_of(link: Link, found: LoweredRelation, name: str) -> str:
    """The array of how many synapses each neuron of an end has, counted in the init phase; returns its name."""
    array = link.array(name)
    if link.has(name):
        return array
    end = COUNTED[name]
    link.filled(name, DType.I64, ((link.pre if end == "pre" else link.post).size,))
    formal = "many"
    k = link.builder.kernel(f"{array}: number of synapses", link.projection.span)
    k.include(found.formals, found.arrays, found.columns)
    k.accumulate(formal, DType.I64, array, l2.At(end))
    k.column("n_pre", link.pre.size)
    body = l2.Propagate(l2.Every("n_pre"), found.relation, (l2.Add(formal, Num(1), link.projection.span),))
    k.add_row(body, link.stored).launch("init")
    return array


def counted_formals(
    link: Link, found: LoweredRelation, counts: Mapping[str, str]
) -> tuple[tuple[l2.ArrayFormal, ...], dict[str, str]]:
    """The formals of numbers of synapses in a kernel over these synapses, and their arrays. `counts`: by formal."""
    formals = (l2.ArrayFormal(f, DType.I64, l2.Mode.READ, l2.At(COUNTED[n])) for f, n in counts.items())
    return tuple(formals), {f: count_of(link, found, n) for f, n in counts.items()}


def _fill_placed(
    link: Link, array: str, value: l0.Placed, found: LoweredRelation, unit: str, whole: DType | None
) -> str:
    """The array with one element per synapse, filled in the init phase; returns its name. `found`: by the sources. With
    `whole` the elements are integers of that type, rounded to nearest."""
    builder, real = link.builder, link.builder.precision
    builder.vector(array, whole or real, found.extent, Role.SYNAPSE, unit, value.span)
    target = "value"
    e, numbers, counts = placed(value, target)
    counted, held = counted_formals(link, found, counts)
    if whole is not None:
        e = Call("int", (Call("round", (e,)),))
    k = builder.kernel(f"{array}: initial value (by place)", value.span)
    k.include(found.formals, found.arrays, found.columns)
    k.write(target, whole or real, array, l2.At("syn"))
    k.include(counted, held, {})
    for column, number in numbers.items():
        k.column(column, number, DType.I64 if isinstance(number, int) else real)
    k.column("n_pre", link.pre.size)
    body = l2.Propagate(l2.Every("n_pre"), found.relation, (l2.Assign(target, e, value.span),))
    k.add_row(body, link.stored).launch("init")
    return array
