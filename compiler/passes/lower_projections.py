"""lower_projections: families of projections become relations in CSR form and one propagation kernel per form.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are
columns; weights that differ from synapse to synapse are drawn per synapse in canonical order (row by row,
targets ascending). Explicit pairs become constants.
Does not: choose a storage other than CSR.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from compiler.expr.ast import Binary, Call, Ref
from compiler.ir.graph import Instance
from compiler.ir.model import (
    Const,
    Distribution,
    FromFile,
    Listed,
    Member,
    Model,
    Projection,
    Value,
)
from compiler.ir.program import (
    Add,
    ArrayFormal,
    At,
    ColumnValue,
    Events,
    Formal,
    Kind,
    Mode,
    Propagate,
    ScalarFormal,
    SizeOf,
    Whole,
)
from compiler.ir.space import DType, Role
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.free_names import PROPAGATION, free_name
from compiler.passes.init_values import initialise, read_file
from compiler.passes.lower_cells import array_name, delivered_name
from compiler.passes.lower_connect import connect
from compiler.passes.relations import relation_of


def largest_weight(value: Value) -> float:
    """A bound on |weight| for the choice of fixed-point quanta (normal: ten standard deviations)."""
    match value:
        case Const(number):
            return abs(float(number))
        case Distribution(kind, args):
            given = dict(args)
            if kind == "uniform":
                return max(abs(given["low"]), abs(given["high"]))
            if kind == "exponential":
                return 40 * abs(given["mean"])
            if kind == "lognormal":
                return math.exp(given["mean"] + 10 * given["std"])
            return abs(given["mean"]) + 10 * given["std"]
        case Listed(values):
            return max((abs(v) for v in values), default=0.0)
        case FromFile():
            return float(np.abs(read_file(value)).max(initial=0.0))
        case _:
            raise AssertionError(value)


def input_quanta(model: Model) -> dict[tuple[str, str], float]:
    """(population, input) -> value of one count of its i64 accumulator: a power of two 2^-40 of the largest
    weight, so that 2^23 deliveries of it in one step cannot overflow and rounding is far below float32's."""
    largest: dict[tuple[str, str], float] = {}
    for projection in model.projections:
        for member in projection.members:
            key = (member.target, projection.into)
            largest[key] = max(largest.get(key, 0.0), largest_weight(member.weight))
    return {k: 2.0 ** (math.ceil(math.log2(v)) - 40) if v > 0 else 1.0 for k, v in largest.items()}


def _weight(builder: ProgramBuilder, projection: Projection, member: Member, name: str) -> str | None:
    """The per-synapse weight array's name, or None when the weight is one number."""
    if isinstance(member.weight, Const):
        return None
    weight = f"{name}.weight"
    extent: int | SizeOf
    value = member.weight
    if projection.rule == "pairs":
        pairs = np.array(projection.pair_lists[member.pairs or 0], np.int64).reshape(-1, 2)
        extent = max(len(pairs), 1)
        if isinstance(value, (Listed, FromFile)):  # given in the user's order, stored in canonical order
            data = read_file(value) if isinstance(value, FromFile) else np.array(value.values)
            if len(data) == len(pairs):
                value = Listed(tuple(data[np.lexsort((pairs[:, 1], pairs[:, 0]))].tolist()), value.span)
    else:
        extent = SizeOf(f"{name}.row")
    return initialise(builder, weight, value, None, Role.SYNAPSE, "1", size=extent, span=projection.span)


def ring_slots(rings: Mapping[tuple[str, str], int], population: str) -> int:
    """The slots of a population's rings: the same for all its inputs that have one."""
    return max(slots for (name, _), slots in rings.items() if name == population)


def member_name(projection: Projection, member: Member) -> str:
    """Model path of one projection of a family."""
    return f"{projection.name}[{member.source}->{member.target}]"


def _delays(builder: ProgramBuilder, projection: Projection, member: Member, name: str) -> str:
    """The array of per-synapse delays in whole steps: one byte each where they fit."""
    assert member.delays is not None
    dtype = DType.U8 if member.delay < 256 else DType.I32
    extent = len(projection.pair_lists[member.pairs or 0]) if projection.rule == "pairs" else SizeOf(f"{name}.row")
    return initialise(
        builder,
        f"{name}.delay",
        member.delays,
        None,
        Role.SYNAPSE,
        "1",
        size=extent,
        span=projection.span,
        whole=dtype,
    )


def lower_projections(
    builder: ProgramBuilder,
    model: Model,
    instances: Mapping[str, Instance],
    fixed_point: bool,
    rings: Mapping[tuple[str, str], int],
) -> None:
    """Relations, weights and propagation rows of every family."""
    real = builder.precision
    quanta = input_quanta(model) if fixed_point else {}
    pending: list[tuple[object, int]] = []
    for projection in model.projections:
        for member in projection.members:
            name = member_name(projection, member)
            pre, post = instances[member.source], instances[member.target]
            if projection.rule == "fixed_probability" and dict(member.args)["p"] == 0:
                continue
            connect(builder, projection, member, name, pre, post)
            found = relation_of(builder, projection, member, name, pre, post)
            weight = _weight(builder, projection, member, name)
            value = Ref("weight")
            target: ArrayFormal
            bound = {
                "spikes": f"{pre.name}.spikes",
                "spike_count": f"{pre.name}.spike_count",
                **found.arrays,
            }
            columns: dict[str, ColumnValue] = {
                "n_pre": pre.size,
                "slots": pre.slots,
                "delay": member.delay if member.delays is None else 0,
                **found.columns,
            }
            formals: list[Formal] = [
                ArrayFormal("spikes", DType.I32, Mode.READ, Whole()),
                ArrayFormal("spike_count", DType.I32, Mode.READ, Whole()),
                *found.formals,
            ]
            into = projection.into
            formal = free_name(into, PROPAGATION)
            ring = (post.name, into) in rings
            at = At("post")
            if ring:
                # A ring takes what has one delay for all its synapses too: the delay is then a column.
                at = At("post", ("delays" if member.delays is not None else "late", "ring_mask", "n_post"))
                columns |= {"ring_mask": ring_slots(rings, post.name) - 1, "n_post": post.size}
                columns |= {"late": member.delay, "delay": 0}
                bound[formal] = delivered_name(post.name, into)
            if fixed_point:
                target = ArrayFormal(formal, DType.I64, Mode.ACCUMULATE, at)
                bound[formal] = delivered_name(post.name, into)
                columns["counts"] = 1.0 / quanta[post.name, into]
                statement = Add(
                    formal,
                    Call("int", (Call("round", (Binary("*", value, Ref("counts")),)),)),
                    projection.span,
                )
            else:
                target = ArrayFormal(formal, real, Mode.ACCUMULATE, at)
                bound.setdefault(formal, array_name(post.name, into))
                statement = Add(formal, value, projection.span)
            formals.append(target)
            if weight is None:
                formals.append(ScalarFormal("weight", real))
                assert isinstance(member.weight, Const)
                columns["weight"] = float(member.weight.value)
            else:
                formals.append(ArrayFormal("weight", real, Mode.READ, At("syn")))
                bound["weight"] = weight
            if member.delays is not None:
                bound["delays"] = _delays(builder, projection, member, name)
                dtype = builder.arrays[bound["delays"]].dtype
                formals.append(ArrayFormal("delays", dtype, Mode.READ, At("syn")))
            formals += [ScalarFormal(c, DType.I64) for c in ("n_pre", "slots", "delay")]
            if ring:
                formals += [ScalarFormal(c, DType.I64) for c in ("ring_mask", "n_post")]
                formals += [] if member.delays is not None else [ScalarFormal("late", DType.I64)]
            if fixed_point:
                formals.append(ScalarFormal("counts", real))
            key = (
                "propagate",
                found.text,
                into,
                weight is None,
                ring,
                member.delays is not None,
                bound.get("delays") and dtype,
            )
            row = builder.row(
                key,
                f"{name}: propagation into {into}",
                Kind.PROPAGATE,
                tuple(formals),
                Propagate(Events("spikes", "spike_count", "slots", "delay", "n_pre"), found.relation, (statement,)),
                bound,
                columns,
                name,
                projection.span,
            )
            pending.append((key, row))
    for propagation, row in pending:
        builder.launch("step", propagation, row, row + 1)
