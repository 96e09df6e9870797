"""lower_static: projections of static synapses, which deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries, but of projections that are cleared
one row per possible delay.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Cond, Num, Ref
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import Deliveries, array_name, delivered_name, ring_slots, room_of
from compiler.passes.model.free_names import PROPAGATION
from compiler.passes.projections.clearing import REMAINS, clear_columns, waits
from compiler.passes.projections.synapse_arrays import Weight, ages, delays_of, weight_of
from compiler.passes.projections.synapse_rows import EVENT_FORMALS
from compiler.passes.projections.synapse_schedule import STATIC, Stages
from compiler.passes.relations.relations import LoweredRelation, relation_of
from compiler.passes.relations.stored_rows import Link


def lower_static(link: Link, deliveries: Deliveries, stages: Stages) -> None:
    """The events of `pre` add the weight to an input of `post`: one row, or, where delays that differ from synapse to
    synapse are waited for at the source, one for each of them."""
    found = relation_of(link)
    weight = weight_of(link, found)
    delays = None if link.member.delays is None else delays_of(link, found)
    aged = waits(link.projection) and delays is not None
    for delay in ages(link.projection, link.member) if aged else (link.member.delay,):
        _row(link, found, weight, delays, deliveries, stages, delay)


def _row(
    link: Link,
    found: LoweredRelation,
    weight: Weight,
    delays: str | None,
    deliveries: Deliveries,
    stages: Stages,
    delay: int,
) -> None:
    """`delays`: the array of delays that differ from synapse to synapse; `delay`: that of all, or of those that the row
    serves."""
    projection, pre, post, builder = link.projection, link.pre, link.post, link.builder
    into, dtype, value = projection.into, builder.precision, weight.value
    ring, waiting = (post.name, into) in deliveries.rings, waits(projection)
    late = delays is not None and not waiting
    formal = free_name(into, PROPAGATION | weight.columns.keys() | {f.name for f in found.formals})
    to = delivered_name if ring or deliveries.fixed_point else array_name
    arrays = {"spikes": f"{pre.name}.spikes", "spike_count": f"{pre.name}.spike_count", **found.arrays}
    arrays |= {**weight.arrays, formal: to(post.name, into)}
    columns: dict[str, l2.ColumnValue] = {"room": room_of(builder, f"{pre.name}.spikes"), "slots": pre.slots}
    columns["delay"] = delay if waiting or not (ring or late) else 0
    at = l2.At("post")
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        at = l2.At("post", ("delays" if late else "late", "ring_slots", "n_post"))
        columns |= {"ring_slots": ring_slots(deliveries.rings, post.name), "n_post": post.size}
        columns |= {} if late else {"late": 0 if waiting else delay}
    if deliveries.fixed_point:
        columns["counts"] = 1.0 / deliveries.quanta[post.name, into]
        dtype, value = DType.I64, Call("int", (Call("round", (value * Ref("counts"),)),))
    if waiting:
        columns |= clear_columns(projection)
        arrives = REMAINS & Ref("delays").eq(Ref("delay")) if delays else REMAINS
        value = Cond(arrives, value, Num(0) if deliveries.fixed_point else Num(0.0))
    formals = [*EVENT_FORMALS, *found.formals, l2.ArrayFormal(formal, dtype, l2.Mode.ACCUMULATE, at), *weight.formals]
    if delays is not None:
        arrays["delays"] = delays
        formals.append(l2.ArrayFormal("delays", builder.arrays[delays].dtype, l2.Mode.READ, l2.At("syn")))
    known = {f.name for f in formals}
    formals += [
        l2.ScalarFormal(c, builder.precision if c == "counts" else DType.I64) for c in columns if c not in known
    ]
    events = l2.Events("spikes", "spike_count", "slots", "delay", "room")
    body = l2.Propagate(events, found.relation, (l2.Add(formal, value, projection.span),))
    key, title = ("propagate", into, tuple(formals), body), f"propagation into {into}"
    columns = {**found.columns, **weight.columns, **columns}
    row = link.own_row(key, title, l2.Kind.PROPAGATE, tuple(formals), body, arrays, columns)
    # All in the order of the model, as families of one kernel may stand apart in it.
    stages.add(STATIC, row, group=STATIC)
