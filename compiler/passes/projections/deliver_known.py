"""deliver_known: synapses that deliver what is known when their source spikes.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members; delays, weights and sizes are columns;
per-synapse weights are arrays. Per-synapse delays use a ring buffer of deliveries, but of projections that are cleared
one row per possible delay.
Does not: run other statements of a synapse model (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.core.symbols import Way, derived, symbol
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, substitute
from compiler.ir.level1.stages import KNOWN
from compiler.ir.space import DType, array_name, own_array
from compiler.passes.cells.cell_arrays import Deliveries, delivered_name, room_of
from compiler.passes.model.insert_delays import REMAINS
from compiler.passes.model.known_deliveries import input_of, send_of
from compiler.passes.program.build_program import KernelRows, Place, Prototype
from compiler.passes.projections.synapse_arrays import Given, ages, delays_of, given
from compiler.passes.projections.synapse_rows import EVENT_FORMALS
from compiler.passes.relations.relations import LoweredRelation, relations_of
from compiler.passes.relations.stored_rows import ColumnsOfEach, Link, alike


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


def together(link: Link, arrival: str, deliveries: Deliveries) -> tuple[object, ...] | None:
    """Equal for links that `deliver_known` may lower at once, as their rows are those of the same kernels; None for one
    that is lowered alone."""
    p, m = link.projection, link.member
    if p.synapse is not None or m.delays is not None or not isinstance(m.weight, l0.Const):
        return None
    drawn = alike(link)
    return None if drawn is None else (*drawn, p.into, p.clear, arrival, (link.post.name, p.into) in deliveries.rings)


def deliver_known(links: Sequence[Link], delivery: Delivery, arrival: str, deliveries: Deliveries) -> None:
    """The events of `pre` add to an input of `post`: one row, or one for each delay (StoredProjection.arrivals). Of one
    link, or of several that are lowered `together`."""
    first, (found, arrays, columns) = links[0], relations_of(links)
    weight, each = _value_of(first, found, delivery), dict[str, Sequence[l2.ColumnValue]]()
    if len(links) == 1:
        each |= {column: (value,) for column, value in weight.columns.items()}
    else:
        (column,) = weight.columns
        each[column] = [float(x.member.weight.value) for x in links if isinstance(x.member.weight, l0.Const)]
    delays = None if first.member.delays is None else delays_of(first, found)
    rows = _Rows(links, delivery, found, arrays, columns, weight, each, delays, arrival == "input", deliveries)
    if arrival == "ages":
        for delay in ages(first.projection, first.member):
            rows.add((delay,))
    else:
        rows.add([x.member.delay for x in links])


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


@dataclass(frozen=True)
class _Rows:
    """Rows of one kernel, one of each link. `arrays`, `columns` (of the relation), `weights`: of each; `delays`: the
    array of delays that differ from synapse to synapse; `early`: it delivers at the spike, into a ring buffer."""

    links: Sequence[Link]
    delivery: Delivery
    found: LoweredRelation
    arrays: Mapping[str, Sequence[str]]
    columns: ColumnsOfEach
    weight: Given
    weights: ColumnsOfEach
    delays: str | None
    early: bool
    deliveries: Deliveries

    def add(self, late: Sequence[int]) -> None:
        """Adds the rows. `late`: the delay of all synapses, or of those that the row serves, of each link."""
        links, delivery, weight = self.links, self.delivery, self.weight
        first, deliveries, goes = links[0], self.deliveries, delivery.into
        builder, posts = first.builder, [x.post for x in links]
        ring = (first.post.name, goes) in deliveries.rings
        none = (0,) * len(links)
        spikes = [own_array(x.pre.name, "spikes") for x in links]
        columns: dict[str, Sequence[l2.ColumnValue]] = {
            "room": [room_of(builder, array) for array in spikes],
            "slots": [x.pre.slots for x in links],
            "delay": none if self.early else late,
        }
        if ring:
            # A ring takes what has one delay for all its synapses too: the delay is then a column.
            columns["ring_slots"] = [deliveries.ring_slots[post.name] for post in posts]
            columns["n_post"] = [post.size for post in posts]
            columns |= {} if self.early and self.delays is not None else {"late": late if self.early else none}
        if deliveries.fixed_point:
            columns["counts"] = [1.0 / deliveries.quanta[post.name, goes] for post in posts]
        columns |= {name: (value,) * len(links) for name, value in clear_columns(first.projection).items()}
        kernel = self._kernel(tuple(columns))
        to = delivered_name if ring or deliveries.fixed_point else array_name
        into = next(f.name for f in kernel.prototype.formals if _is_added_to(f))
        arrays: dict[str, Sequence[str]] = {
            "spikes": spikes,
            "spike_count": [own_array(x.pre.name, "spike_count") for x in links],
            **self.arrays,
            **{f: (array,) for f, array in weight.arrays.items()},
            into: [to(post.name, goes) for post in posts],
        }
        if self.delays is not None:
            arrays["delays"] = (self.delays,)
        # In the order of the model (stages.IN_SEQUENCE), as families of one kernel may stand apart in it.
        kernel.add_rows(arrays, {**self.columns, **self.weights, **columns}, [x.stored for x in links]).run(_PLACE)

    def _kernel(self, columns: tuple[str, ...]) -> KernelRows:
        builder, delivery, weight = self.links[0].builder, self.delivery, self.weight
        text = _Text(
            delivery.into,
            builder.precision,
            self.found.relation,
            self.found.formals,
            weight.value,
            weight.formals,
            None if self.delays is None else builder.arrays[self.delays].dtype,
            columns,
            delivery.span,
        )
        title = f"{self.links[0].stored}: propagation into {delivery.into}"
        return builder.rows_of(_prototype, title, delivery.span, 0, text)


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
