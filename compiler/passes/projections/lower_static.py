"""lower_static: projections of static synapses, which deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Ref
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import Deliveries, array_name, delivered_name, ring_slots, room_of
from compiler.passes.model.free_names import PROPAGATION
from compiler.passes.projections.synapse_arrays import delays_of, weight_of
from compiler.passes.projections.synapse_rows import EVENT_FORMALS
from compiler.passes.projections.synapse_schedule import STATIC, Stages
from compiler.passes.relations.relations import relation_of
from compiler.passes.relations.stored_rows import Link


def lower_static(link: Link, deliveries: Deliveries, stages: Stages) -> None:
    """One row: the events of `pre` add the weight to an input of `post`."""
    projection, member, pre, post, builder = link.projection, link.member, link.pre, link.post, link.builder
    found = relation_of(link)
    weight, delays = weight_of(link, found), delays_of(link, found) if member.delays is not None else None
    into, dtype, value = projection.into, builder.precision, weight.value
    ring, late = (post.name, into) in deliveries.rings, delays is not None
    formal = free_name(into, PROPAGATION | weight.columns.keys() | {f.name for f in found.formals})
    to = delivered_name if ring or deliveries.fixed_point else array_name
    arrays = {"spikes": f"{pre.name}.spikes", "spike_count": f"{pre.name}.spike_count", **found.arrays}
    arrays |= {**weight.arrays, formal: to(post.name, into)}
    columns: dict[str, l2.ColumnValue] = {"room": room_of(builder, f"{pre.name}.spikes"), "slots": pre.slots}
    columns["delay"] = 0 if ring or late else member.delay
    at = l2.At("post")
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        at = l2.At("post", ("delays" if late else "late", "ring_slots", "n_post"))
        columns |= {"ring_slots": ring_slots(deliveries.rings, post.name), "n_post": post.size}
        columns |= {} if late else {"late": member.delay}
    if deliveries.fixed_point:
        columns["counts"] = 1.0 / deliveries.quanta[post.name, into]
        dtype, value = DType.I64, Call("int", (Call("round", (value * Ref("counts"),)),))
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
