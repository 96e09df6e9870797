"""lower_static: projections whose synapses deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
weights that differ from synapse to synapse are arrays. Delays that differ go into a ring of deliveries.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.core.names import free_name
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import ring_slots, room_of
from compiler.passes.cells.lower_cells import Deliveries, array_name, delivered_name
from compiler.passes.model.free_names import PROPAGATION
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.init_values import drawn
from compiler.passes.projections.synapse_arrays import delays_of, weights
from compiler.passes.projections.synapse_schedule import STATIC, Stages
from compiler.passes.relations.relations import relation_of


def lower_static(
    builder: ProgramBuilder,
    projection: l0.Projection,
    member: l0.Member,
    name: str,
    pre: l1.Instance,
    post: l1.Instance,
    deliveries: Deliveries,
    stages: Stages,
) -> None:
    """One row: the events of `pre` add the weight to an input of `post`."""
    real, fixed_point = builder.precision, deliveries.fixed_point
    found = relation_of(builder, projection, member, name, pre, post)
    again = isinstance(found.relation, l2.Procedural) and isinstance(member.weight, l0.Distribution)
    weight = None if again else weights(builder, projection, member, (pre, post), found.extent)
    value: Expr = Ref("weight")
    given = {"weight": float(member.weight.value)} if isinstance(member.weight, l0.Const) else {}
    if again:  # what would be stored is drawn by number at every event
        assert isinstance(member.weight, l0.Distribution)
        args = dict(member.weight.args)
        value, used = drawn(member.weight.kind, args, "weight_key", "syn", "weight_", step=0)
        given = {f"weight_{n}": args[n] for n in used}
    target: l2.ArrayFormal
    bound = {
        "spikes": f"{pre.name}.spikes",
        "spike_count": f"{pre.name}.spike_count",
        **found.arrays,
    }
    columns: dict[str, l2.ColumnValue] = {
        "room": room_of(builder, f"{pre.name}.spikes"),
        "slots": pre.slots,
        "delay": member.delay if member.delays is None else 0,
        **found.columns,
    }
    formals: list[l2.Formal] = [
        l2.ArrayFormal("spikes", DType.I32, l2.Mode.READ, l2.ByName()),
        l2.ArrayFormal("spike_count", DType.I32, l2.Mode.READ, l2.ByName()),
        *found.formals,
    ]
    into = projection.into
    formal = free_name(into, PROPAGATION | given.keys() | {f.name for f in found.formals})
    ring = (post.name, into) in deliveries.rings
    at = l2.At("post")
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        at = l2.At("post", ("delays" if member.delays is not None else "late", "ring_slots", "n_post"))
        columns |= {"ring_slots": ring_slots(deliveries.rings, post.name), "n_post": post.size}
        columns |= {"late": member.delay, "delay": 0}
        bound[formal] = delivered_name(post.name, into)
    if fixed_point:
        target = l2.ArrayFormal(formal, DType.I64, l2.Mode.ACCUMULATE, at)
        bound[formal] = delivered_name(post.name, into)
        columns["counts"] = 1.0 / deliveries.quanta[post.name, into]
        statement = l2.Add(
            formal,
            Call("int", (Call("round", (value * Ref("counts"),)),)),
            projection.span,
        )
    else:
        target = l2.ArrayFormal(formal, real, l2.Mode.ACCUMULATE, at)
        bound.setdefault(formal, array_name(post.name, into))
        statement = l2.Add(formal, value, projection.span)
    formals.append(target)
    if weight is None:
        formals += [l2.ScalarFormal(n, real) for n in given]
        columns |= given
        if again:
            formals.append(l2.ScalarFormal("weight_key", DType.U64))
            columns["weight_key"] = l2.StreamKey(f"{name}.weight")
    else:
        formals.append(l2.ArrayFormal("weight", real, l2.Mode.READ, l2.At("syn")))
        bound["weight"] = weight
    if member.delays is not None:
        bound["delays"] = delays_of(builder, projection, member, (pre, post), found.extent)
        dtype = builder.arrays[bound["delays"]].dtype
        formals.append(l2.ArrayFormal("delays", dtype, l2.Mode.READ, l2.At("syn")))
    known = {f.name for f in formals}
    wanted = ["room", "slots", "delay"]
    if ring:
        wanted += ["ring_slots", "n_post"] + ([] if member.delays is not None else ["late"])
    formals += [l2.ScalarFormal(c, DType.I64) for c in wanted if c not in known]
    if fixed_point:
        formals.append(l2.ScalarFormal("counts", real))
    key = (
        "propagate",
        found.text,
        into,
        value if weight is None else None,
        ring,
        member.delays is not None,
        bound.get("delays") and dtype,
    )
    row = builder.row(
        key,
        f"{name}: propagation into {into}",
        l2.Kind.PROPAGATE,
        tuple(formals),
        l2.Propagate(l2.Events("spikes", "spike_count", "slots", "delay", "room"), found.relation, (statement,)),
        bound,
        columns,
        name,
        projection.span,
    )
    # All in the order of the model, as families of one kernel may stand apart in it.
    stages.add(STATIC, key, row, group=STATIC)
