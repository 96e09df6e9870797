"""lower_static: projections of static synapses, which deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries, but of projections that are cleared
one row per possible delay.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping

import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Cond, Num, Ref
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import Deliveries, array_name, delivered_name, room_of
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
    ring, waiting = (post.name, projection.into) in deliveries.rings, waits(projection)
    late = delays is not None and not waiting
    columns: dict[str, l2.ColumnValue] = {"room": room_of(builder, f"{pre.name}.spikes"), "slots": pre.slots}
    columns["delay"] = delay if waiting or not (ring or late) else 0
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        columns |= {"ring_slots": deliveries.ring_slots[post.name], "n_post": post.size}
        columns |= {} if late else {"late": 0 if waiting else delay}
    if deliveries.fixed_point:
        columns["counts"] = 1.0 / deliveries.quanta[post.name, projection.into]
    columns |= clear_columns(projection)
    dtype = None if delays is None else builder.arrays[delays].dtype
    key = ("propagate", projection.into, found.relation, found.formals, weight.value, weight.formals, dtype, *columns)
    kernel = builder.kernels.get(key)
    if kernel is None:
        formals, body = _kernel(link, found, weight, dtype, columns)
        title = f"{link.stored}: propagation into {projection.into}"
        kernel = builder.kernel(key, title, l2.Kind.PROPAGATE, formals, body, projection.span)
    to = delivered_name if ring or deliveries.fixed_point else array_name
    arrays = {"spikes": f"{pre.name}.spikes", "spike_count": f"{pre.name}.spike_count", **found.arrays}
    into = kernel.formals[len(EVENT_FORMALS) + len(found.formals)].name
    arrays |= {**weight.arrays, into: to(post.name, projection.into)} | ({} if delays is None else {"delays": delays})
    row = builder.bind(kernel, arrays, {**found.columns, **weight.columns, **columns}, link.stored)
    # All in the order of the model, as families of one kernel may stand apart in it.
    stages.add(STATIC, row, group=STATIC)


def _kernel(
    link: Link, found: LoweredRelation, weight: Weight, delays: DType | None, columns: Mapping[str, l2.ColumnValue]
) -> tuple[tuple[l2.Formal, ...], l2.Propagate]:
    """`delays`: the type of delays that differ from synapse to synapse."""
    real, fixed_point, waiting, value = (
        link.builder.precision,
        "counts" in columns,
        waits(link.projection),
        weight.value,
    )
    into = link.projection.into
    into = free_name(into, PROPAGATION | weight.columns.keys() | {f.name for f in found.formals})
    late = "late" if "late" in columns else "delays"
    at = l2.At("post", (late, "ring_slots", "n_post") if "ring_slots" in columns else None)
    if fixed_point:
        value = Call("int", (Call("round", (value * Ref("counts"),)),))
    if waiting:
        arrives = REMAINS if delays is None else REMAINS & Ref("delays").eq(Ref("delay"))
        value = Cond(arrives, value, Num(0) if fixed_point else Num(0.0))
    summed = l2.ArrayFormal(into, DType.I64 if fixed_point else real, l2.Mode.ACCUMULATE, at)
    formals = [*EVENT_FORMALS, *found.formals, summed, *weight.formals]
    if delays is not None:
        formals.append(l2.ArrayFormal("delays", delays, l2.Mode.READ, l2.At("syn")))
    known = {f.name for f in formals}
    formals += [l2.ScalarFormal(c, real if c == "counts" else DType.I64) for c in columns if c not in known]
    events = l2.Events("spikes", "spike_count", "slots", "delay", "room")
    return tuple(formals), l2.Propagate(events, found.relation, (l2.Add(into, value, link.projection.span),))
