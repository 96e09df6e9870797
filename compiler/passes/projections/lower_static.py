"""lower_static: projections whose synapses deliver a weight and have no state.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
weights that differ from synapse to synapse are arrays. Delays that differ go into a ring of deliveries.
Does not: run statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

from compiler.core.names import free_name
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.level0.model import Const, Distribution, Member, Projection
from compiler.ir.level1.graph import Instance
from compiler.ir.level2.program import (
    Add,
    ArrayFormal,
    At,
    ByName,
    ColumnValue,
    Events,
    Formal,
    Kind,
    Mode,
    Procedural,
    Propagate,
    ScalarFormal,
    StreamKey,
)
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
    projection: Projection,
    member: Member,
    name: str,
    pre: Instance,
    post: Instance,
    deliveries: Deliveries,
    stages: Stages,
) -> None:
    """One row: the events of `pre` add the weight to an input of `post`."""
    real, fixed_point = builder.precision, deliveries.fixed_point
    found = relation_of(builder, projection, member, name, pre, post)
    again = isinstance(found.relation, Procedural) and isinstance(member.weight, Distribution)
    weight = None if again else weights(builder, projection, member, (pre, post), found.extent)
    value: Expr = Ref("weight")
    given = {"weight": float(member.weight.value)} if isinstance(member.weight, Const) else {}
    if again:  # what would be stored is drawn by number at every event
        assert isinstance(member.weight, Distribution)
        args = dict(member.weight.args)
        value, used = drawn(member.weight.kind, args, "weight_key", "syn", "weight_", step=0)
        given = {f"weight_{n}": args[n] for n in used}
    target: ArrayFormal
    bound = {
        "spikes": f"{pre.name}.spikes",
        "spike_count": f"{pre.name}.spike_count",
        **found.arrays,
    }
    columns: dict[str, ColumnValue] = {
        "room": room_of(builder, f"{pre.name}.spikes"),
        "slots": pre.slots,
        "delay": member.delay if member.delays is None else 0,
        **found.columns,
    }
    formals: list[Formal] = [
        ArrayFormal("spikes", DType.I32, Mode.READ, ByName()),
        ArrayFormal("spike_count", DType.I32, Mode.READ, ByName()),
        *found.formals,
    ]
    into = projection.into
    formal = free_name(into, PROPAGATION | given.keys() | {f.name for f in found.formals})
    ring = (post.name, into) in deliveries.rings
    at = At("post")
    if ring:
        # A ring takes what has one delay for all its synapses too: the delay is then a column.
        at = At("post", ("delays" if member.delays is not None else "late", "ring_slots", "n_post"))
        columns |= {"ring_slots": ring_slots(deliveries.rings, post.name), "n_post": post.size}
        columns |= {"late": member.delay, "delay": 0}
        bound[formal] = delivered_name(post.name, into)
    if fixed_point:
        target = ArrayFormal(formal, DType.I64, Mode.ACCUMULATE, at)
        bound[formal] = delivered_name(post.name, into)
        columns["counts"] = 1.0 / deliveries.quanta[post.name, into]
        statement = Add(
            formal,
            Call("int", (Call("round", (value * Ref("counts"),)),)),
            projection.span,
        )
    else:
        target = ArrayFormal(formal, real, Mode.ACCUMULATE, at)
        bound.setdefault(formal, array_name(post.name, into))
        statement = Add(formal, value, projection.span)
    formals.append(target)
    if weight is None:
        formals += [ScalarFormal(n, real) for n in given]
        columns |= given
        if again:
            formals.append(ScalarFormal("weight_key", DType.U64))
            columns["weight_key"] = StreamKey(f"{name}.weight")
    else:
        formals.append(ArrayFormal("weight", real, Mode.READ, At("syn")))
        bound["weight"] = weight
    if member.delays is not None:
        bound["delays"] = delays_of(builder, projection, member, (pre, post), found.extent)
        dtype = builder.arrays[bound["delays"]].dtype
        formals.append(ArrayFormal("delays", dtype, Mode.READ, At("syn")))
    known = {f.name for f in formals}
    wanted = ["room", "slots", "delay"]
    if ring:
        wanted += ["ring_slots", "n_post"] + ([] if member.delays is not None else ["late"])
    formals += [ScalarFormal(c, DType.I64) for c in wanted if c not in known]
    if fixed_point:
        formals.append(ScalarFormal("counts", real))
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
        Kind.PROPAGATE,
        tuple(formals),
        Propagate(Events("spikes", "spike_count", "slots", "delay", "room"), found.relation, (statement,)),
        bound,
        columns,
        name,
        projection.span,
    )
    # All in the order of the model, as families of one kernel may stand apart in it.
    stages.add(STATIC, key, row, group=STATIC)
