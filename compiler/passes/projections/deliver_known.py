"""deliver_known: synapses that deliver what is known when their source spikes.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries, but of projections that are cleared
one row per possible delay.
Does not: run other statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.core.symbols import Way, derived, symbol
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.ir.level1.stages import KNOWN
from compiler.ir.space import DType, array_name
from compiler.passes.cells.cell_arrays import Deliveries, delivered_name, room_of
from compiler.passes.model.insert_delays import REMAINS
from compiler.passes.model.known_deliveries import input_of, send_of
from compiler.passes.program.build_program import Place, Prototype
from compiler.passes.projections.synapse_arrays import Given, ages, delays_of, given
from compiler.passes.projections.synapse_rows import EVENT_FORMALS, events_of
from compiler.passes.relations.relations import LoweredRelation, relation_of
from compiler.passes.relations.stored_rows import Link


@dataclass(frozen=True)
class Delivery:
    """`value` is added to the input `into`. It is over the names of `params` (name here, "" where it is not read,
    declaration) and of `numbers` of the model; `plain`: it is its only param."""

    into: str
    value: Expr
    params: tuple[tuple[str, l0.ParamDecl], ...]
    numbers: Mapping[str, float]
    span: Span
    plain: bool


def delivery_of(projection: l0.Projection, value: Expr, model_numbers: Mapping[str, float], dt: float) -> Delivery:
    """A known delivery (StoredProjection)."""
    s, into = projection.statements, input_of(projection)
    if projection.synapse is None:
        return Delivery(into, value, (("weight", s.params[0]),), {}, projection.span, True)
    read = refs(value)
    own: dict[str, float] = {symbol(n): model_numbers[n] for n in s.model_params if symbol(n) in read}
    own |= {"dt": dt} if "dt" in read else {}
    used = tuple((symbol(p.name) if symbol(p.name) in read else "", p) for p in s.params)
    plain = len(used) == 1 and value == Ref(symbol(s.params[0].name))
    return Delivery(into, value, used, own, send_of(projection).span, plain)


def clear_columns(projection: l0.Projection) -> dict[str, int]:
    """What REMAINS reads beside the delay."""
    return {} if projection.clear is None else dict(zip(("cleared_every", "cleared_at"), projection.clear, strict=True))


_PLACE: Final = Place(KNOWN)


def deliver_known(link: Link, delivery: Delivery, arrival: str, deliveries: Deliveries) -> None:
    """The events of `pre` add to an input of `post`: one row, or one for each delay (StoredProjection.arrivals)."""
    found = relation_of(link)
    weight = _value_of(link, found, delivery)
    delays = None if link.member.delays is None else delays_of(link, found)
    for delay in ages(link.projection, link.member) if arrival == "ages" else (link.member.delay,):
        _row(link, delivery, found, weight, delays, arrival == "input", deliveries, delay)


def _value_of(link: Link, found: LoweredRelation, delivery: Delivery) -> Given:
    """What is delivered, with the formals of all params."""
    values = link.projection.params_of(link.member)
    if delivery.plain:
        ((name, p),) = delivery.params
        return given(link, found, p.name, values[0][1], name, p.unit)
    real = link.builder.precision
    each = {
        name: given(link, found, p.name, value, name, p.unit)
        for (name, p), (_, value) in zip(delivery.params, values, strict=True)
        if name
    }
    formals = (*(f for g in each.values() for f in g.formals), *(l2.ScalarFormal(n, real) for n in delivery.numbers))
    return Given(
        substitute(delivery.value, {n: g.value for n, g in each.items()}),
        formals,
        {f: array for g in each.values() for f, array in g.arrays.items()},
        {**{f: column for g in each.values() for f, column in g.columns.items()}, **delivery.numbers},
    )


def _row(
    link: Link,
    delivery: Delivery,
    found: LoweredRelation,
    weight: Given,
    delays: str | None,
    early: bool,
    deliveries: Deliveries,
    delay: int,
) -> None:
    """`delays`: the array of delays that differ from synapse to synapse; `delay`: that of all, or of those that the row
    serves; `early`: it delivers at the spike, into a ring buffer."""
    projection, pre, post, builder, goes = link.projection, link.pre, link.post, link.builder, delivery.into
    ring = (post.name, goes) in deliveries.rings
    events = events_of(pre.name, pre.slots, 0 if early else delay)
    columns: dict[str, l2.ColumnValue] = {"room": room_of(builder, events.spikes), "slots": events.slots}
    columns["delay"] = events.delay
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        columns |= {"ring_slots": deliveries.ring_slots[post.name], "n_post": post.size}
        columns |= {} if early and delays is not None else {"late": delay if early else 0}
    if deliveries.fixed_point:
        columns["counts"] = 1.0 / deliveries.quanta[post.name, goes]
    columns |= clear_columns(projection)
    dtype = None if delays is None else builder.arrays[delays].dtype
    text = _Text(
        goes,
        builder.precision,
        found.relation,
        found.formals,
        weight.value,
        weight.formals,
        dtype,
        tuple(columns),
        delivery.span,
    )
    title = f"{link.stored}: propagation into {goes}"
    kernel = builder.rows_of(_prototype, title, delivery.span, 0, text)
    to = delivered_name if ring or deliveries.fixed_point else array_name
    arrays = {"spikes": events.spikes, "spike_count": events.count, **found.arrays}
    into = next(f.name for f in kernel.prototype.formals if _is_added_to(f))
    arrays |= {**weight.arrays, into: to(post.name, goes)} | ({} if delays is None else {"delays": delays})
    # In the order of the model (stages.IN_SEQUENCE), as families of one kernel may stand apart in it.
    kernel.add_row(arrays, {**found.columns, **weight.columns, **columns}, link.stored).run(_PLACE)


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class _Text:
    """What the text of a kernel depends on. `delays`: the type of delays that differ from synapse to synapse;
    `columns`: those beside the relation's and the weight's."""

    into: Final[str]
    real: Final[DType]
    relation: Final[l2.Relation]
    relation_formals: Final[tuple[l2.Formal, ...]]
    weight: Final[Expr]
    weight_formals: Final[tuple[l2.Formal, ...]]
    delays: Final[DType | None]
    columns: Final[tuple[str, ...]]
    span: Final[Span] = field(compare=False)


def _is_added_to(formal: l2.Formal) -> bool:
    return isinstance(formal, l2.ArrayFormal) and formal.mode is l2.Mode.ACCUMULATE


def _prototype(d: _Text) -> Prototype:
    fixed_point, value = "counts" in d.columns, d.weight
    into = symbol(d.into)
    if any(f.name == into for f in d.weight_formals):  # a param has that name, too
        into = derived(into, Way.SENT)
    late = "late" if "late" in d.columns else "delays"
    at = l2.At("post", (late, "ring_slots", "n_post") if "ring_slots" in d.columns else None)
    if fixed_point:
        value = Call("int", (Call("round", (value * Ref("counts"),)),))
    if "cleared_at" in d.columns:
        arrives = REMAINS if d.delays is None else REMAINS & Ref("delays").eq(Ref("delay"))
        value = Cond(arrives, value, Num(0) if fixed_point else Num(0.0))
    summed = l2.ArrayFormal(into, DType.I64 if fixed_point else d.real, l2.Mode.ACCUMULATE, at)
    formals = [*EVENT_FORMALS, *d.relation_formals, summed, *d.weight_formals]
    if d.delays is not None:
        formals.append(l2.ArrayFormal("delays", d.delays, l2.Mode.READ, l2.At("syn")))
    known = {f.name for f in formals}
    formals += [l2.ScalarFormal(c, d.real if c == "counts" else DType.I64) for c in d.columns if c not in known]
    events = l2.Events("spikes", "spike_count", "slots", "delay", "room")
    body = l2.Propagate(events, d.relation, (l2.Add(into, value, d.span),))
    return Prototype(tuple(formals), body)
