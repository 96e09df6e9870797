"""lower_static: projections of static synapses, which deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import ring_slots, room_of
from compiler.passes.cells.lower_cells import Deliveries, array_name, delivered_name
from compiler.passes.model.free_names import PROPAGATION
from compiler.passes.program.init_values import drawn
from compiler.passes.projections.placed_values import placed, scalars
from compiler.passes.projections.synapse_arrays import delays_of, per_synapse
from compiler.passes.projections.synapse_rows import EVENT_FORMALS
from compiler.passes.projections.synapse_schedule import STATIC, Stages
from compiler.passes.relations.relations import LoweredRelation, relation_of
from compiler.passes.relations.stored_rows import Link


@dataclass(frozen=True)
class _Weight:
    """What a synapse delivers: its `value`, and the formals of that with what they are bound to."""

    value: Expr
    formals: tuple[l2.Formal, ...]
    arrays: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, l2.ColumnValue] = field(default_factory=dict)


def _weight(link: Link, found: LoweredRelation) -> _Weight:
    """One number is a column, others are an array, or what would be stored is drawn by number at every event."""
    real, weight = link.builder.precision, link.member.weight
    if isinstance(weight, l0.Const):
        return _Weight(Ref("weight"), (l2.ScalarFormal("weight", real),), columns={"weight": float(weight.value)})
    if isinstance(weight, l0.Distribution) and isinstance(found.relation, l2.Procedural):
        args = dict(weight.args)
        value, used = drawn(weight.kind, args, "weight_key", "syn", "weight_", step=0)
        formals = (*(l2.ScalarFormal(f"weight_{n}", real) for n in used), l2.ScalarFormal("weight_key", DType.U64))
        columns = {f"weight_{n}": args[n] for n in used}
        return _Weight(value, formals, columns={**columns, "weight_key": l2.StreamKey(f"{link.stored}.weight")})
    if isinstance(weight, l0.Placed) and isinstance(found.relation, l2.Procedural | l2.Bitmask):
        at, numbers = placed(weight, frozenset(f.name for f in found.formals))
        return _Weight(at, scalars(numbers, real), columns=dict(numbers))
    array = per_synapse(link, "weight", weight, found)
    formal = l2.ArrayFormal("weight", real, l2.Mode.READ, l2.At("syn"))
    return _Weight(Ref("weight"), (formal,), {"weight": array})


def lower_static(link: Link, deliveries: Deliveries, stages: Stages) -> None:
    """One row: the events of `pre` add the weight to an input of `post`."""
    projection, member, pre, post, builder = link.projection, link.member, link.pre, link.post, link.builder
    found = relation_of(link)
    weight = _weight(link, found)
    into, dtype, value = projection.into, builder.precision, weight.value
    ring, late = (post.name, into) in deliveries.rings, member.delays is not None
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
    if late:
        arrays["delays"] = delays_of(link, found)
        steps = builder.arrays[arrays["delays"]].dtype
        formals.append(l2.ArrayFormal("delays", steps, l2.Mode.READ, l2.At("syn")))
    known = {f.name for f in formals}
    formals += [
        l2.ScalarFormal(c, builder.precision if c == "counts" else DType.I64) for c in columns if c not in known
    ]
    events = l2.Events("spikes", "spike_count", "slots", "delay", "room")
    body = l2.Propagate(events, found.relation, (l2.Add(formal, value, projection.span),))
    key, title = ("propagate", into, tuple(formals), body), f"{link.stored}: propagation into {into}"
    columns = {**found.columns, **weight.columns, **columns}
    row = builder.row(
        key, title, l2.Kind.PROPAGATE, tuple(formals), body, arrays, columns, link.stored, projection.span
    )
    # All in the order of the model, as families of one kernel may stand apart in it.
    stages.add(STATIC, row, group=STATIC)
