"""synapse_rows: statements of synapses become rows of kernels.

Assumes: arrays of neurons, relations and synapses exist (lower_cells, relations, synapse_values).
Guarantees: a name of the statements is bound to an array at an end or at the synapse, or to a column, depending on its
value in this member; members whose names are bound alike share their text. Deliveries use the same arrays as those of
static synapses.
Does not: schedule statements (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.symbols import Way, derived, printed
from compiler.expr.ast import Call, Expr, Num, Ref
from compiler.expr.interp import evaluate
from compiler.ir.level1.stages import ENDS_PAST
from compiler.ir.level1.synapses import DELAYS, Arrival, Keep, SynapseCell, SynapseSum
from compiler.ir.level2.synapse_values import own_name
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.cells.cell_arrays import FLAT, Deliveries, Past, delivered_name, past_row, room_of
from compiler.passes.cells.cell_columns import propagator
from compiler.passes.program.build_program import Draft, Place, Prototype, Signature
from compiler.passes.projections.synapse_arrays import counted_formals, placed
from compiler.passes.projections.synapse_text import Sending, SynapseKernel
from compiler.passes.relations.relations import LoweredRelation, relation_of
from compiler.passes.relations.stored_rows import Link

Cache = dict[object, Any]
PAST = l2.Strided((l2.Axis((("past_slot", 1),), stride="n"), l2.Axis((("i", 1),))))
SLOTS = 2  # of the lists of a condition without delay: that of this step, and one that is cleared meanwhile


@dataclass(frozen=True)
class BoundArray:
    """The array of a name: an element per neuron of an end ("pre", "post"), per synapse ("syn"), or one ("one").
    `slots`: it is a ring buffer of that many (cell_arrays), and the element is that of the step in which an event
    that arrives now was emitted; `kind`: of ring buffers with as many slots, which share their columns."""

    array: str
    dtype: DType
    end: str
    slots: int = 0
    kind: str = "past"


@dataclass(frozen=True)
class Synapses(Link):
    """One projection of a family while its statements are lowered. Where instances of the network share synapses, this
    is number `copy` of `copies` (the first does the work that is done once); `numbers`, `arrays`: the values of its
    names; `cache`: of the whole pass; `rings`: the ring buffers of traces, by name and stage (`keep_trace`); `again`:
    parameters that follow from places and are not stored, but worked out where they are read."""

    deliveries: Deliveries
    cell: SynapseCell
    copy: int
    copies: int
    cache: Cache
    numbers: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, BoundArray] = field(default_factory=dict)
    rings: dict[tuple[str, str], BoundArray] = field(default_factory=dict)
    again: dict[str, l0.Placed] = field(default_factory=dict)

    @cached_property
    def name(self) -> str:
        """Its model path, whether it shares its synapses or not."""
        return own_name(self.projection, self.member)

    def instance(self, end: str) -> l1.Instance:
        return self.pre if end == "pre" else self.post

    def found(self, by: str = "pre") -> LoweredRelation:
        """The relation, walked from the end `by`."""
        return relation_of(self, by)


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True)
class EventSource:
    """A list of events: of a population, or of a condition. `delay` in steps; `slots` of its ring."""

    spikes: Final[str]
    count: Final[str]
    slots: Final[int]
    delay: Final[int]


def events_of(owner: str, slots: int, delay: int) -> EventSource:
    """Those of a population or a condition, `delay` steps old."""
    return EventSource(own_array(owner, "spikes"), own_array(owner, "spike_count"), slots, delay)


EVENT_FORMALS: tuple[l2.Formal, ...] = (
    l2.ArrayFormal("spikes", DType.I32, l2.Mode.READ, l2.ByName()),
    l2.ArrayFormal("spike_count", DType.I32, l2.Mode.READ, l2.ByName()),
)


def derived_columns(s: Synapses, text: SynapseKernel) -> dict[str, float]:
    """The columns that follow from params, computed once for equal params."""
    used = text.params
    assert not used & s.arrays.keys(), f"{s.name}: columns follow from {sorted(used & s.arrays.keys())}"
    key = ("derived", id(text), tuple(s.numbers[n] for n in sorted(used)))
    if key not in s.cache:
        env: dict[str, Any] = dict(s.numbers)
        systems: dict[int, Any] = {}
        for column in text.derived:
            if isinstance(column, l1.DerivedScalar):
                env[column.name] = float(evaluate(column.value, env))
            else:
                env[column.name] = float(propagator(column, env, 1, env["dt"], systems)[0])
        s.cache[key] = {c.name: env[c.name] for c in text.derived}
    found: dict[str, float] = s.cache[key]
    return found


def _signature(
    s: Synapses,
    text: SynapseKernel,
    formals: tuple[l2.Formal, ...],
    bound: Mapping[str, str],
    access: Mapping[str, l2.Access],
    columns: Mapping[str, l2.ColumnValue] = MappingProxyType({}),
) -> Signature:
    """The formals of the names in the statements, after `formals` that are bound to arrays and have columns already.
    `access`: how an element of each end is reached."""
    out = Signature(list(formals), dict(bound), dict(columns))
    read, written, real = text.read, text.written, s.builder.precision
    for sending in text.sends:
        _add_sending(s, sending, out)
    arrays = s.arrays
    past = {held.end for name, held in arrays.items() if held.slots and name in read}
    for name, held in arrays.items():
        if name in read or name in written or name in {DELAYS[end] for end in past}:
            mode = l2.Mode.UPDATE if name in written else l2.Mode.READ
            assert held.end in access, f"{s.name}: {text.what} reads `{name}` of `{held.end}`"
            at = _past(s, held, access[held.end], out) if held.slots else access[held.end]
            out.array(l2.ArrayFormal(name, held.dtype, mode, at), held.array)
    for name, value in (*s.numbers.items(), *derived_columns(s, text).items()):
        if name in read:
            out.column(name, value, DType.I64 if isinstance(value, int) else real)
    if "key" in read:
        out.column("key", l2.StreamKey(f"{s.name}/{text.what}"), DType.U64)
    return out


def keep_trace(s: Synapses, one: Keep) -> None:
    """The ring buffer of a trace, and the row that fills it."""
    held, span = s.arrays[one.name], s.cell.definition.span
    ring = own_array(held.array, "before" if one.stage == ENDS_PAST else "after")
    past = Past(held.array, ring, s.instance(held.end).size, s.member.delay_of(held.end) + 1)
    for phase in ("init", "step"):
        past_row(s.builder, past, phase, one.stage, s.name, f"({s.cell.externals[one.name].variable})", span)
    s.rings[one.name, one.stage] = BoundArray(ring, held.dtype, held.end, past.slots, "trace")


def _past(s: Synapses, held: BoundArray, access: l2.Access, out: Signature) -> l2.Access:
    """The access to an element of a ring buffer of past state, and its columns. One element per neuron of a map is that
    of the local `past_slot` (at_all)."""
    late, size = s.member.delay_of(held.end), f"n_{held.end}"
    if not isinstance(access, l2.At):
        out.column("past_slots", held.slots)
        out.column("past_shift", held.slots - late)
        return PAST
    delay, slots = f"past_delay_{held.end}", f"{held.kind}_slots_{held.end}"
    if s.member.delays_of(held.end) is not None:
        delay = DELAYS[held.end]
    else:
        out.column(delay, late)
    out.column(slots, held.slots)
    out.column(size, s.instance(held.end).size)
    return l2.At(held.end, (delay, slots, size), True)


def _add_sending(s: Synapses, sending: Sending, out: Signature) -> None:
    """The formal of an input that is added to, and its columns."""
    instance, real = s.instance(sending.end), s.builder.precision
    rings, fixed_point = s.deliveries.rings, s.deliveries.fixed_point
    own = sending.variable in s.cell.own_inputs(sending.end)
    where = (f"{s.name}.{sending.end}" if own else instance.name, sending.variable)
    at = l2.At(sending.end)
    if where in rings:
        slots, size = ("ring_slots", "n_post") if sending.end == "post" else ("ring_slots_pre", "n_pre")
        at = l2.At(sending.end, ("late", slots, size))
        out.column("late", 0)
        out.column(slots, s.deliveries.ring_slots[instance.name])
        out.column(size, instance.size)
    if fixed_point:
        out.column(derived(sending.formal, Way.COUNTS), 1.0 / s.deliveries.quanta[where], real)
    through = fixed_point or own or where in rings
    array = delivered_name(*where) if through else array_name(*where)
    out.accumulate(sending.formal, DType.I64 if fixed_point else real, array, at)


# Frozen by `Final`, as spans are (compiler/core/source.py): a model may have 100,000.
@dataclass(slots=True, unsafe_hash=True)
class _Occasion:
    """What the text of a kernel of a synapse model depends on: the statements are those of `what` and `variant`."""

    number: Final[int]
    what: Final[str]
    variant: Final[int]
    formals: Final[tuple[l2.Formal, ...]]
    form: Final[l2.Relation | l2.Body]
    body: Final[l2.Body] = field(compare=False)

    def prototype(self) -> Prototype:
        return Prototype(self.formals, self.body)


def _row(
    s: Synapses,
    at: Place,
    text: SynapseKernel,
    signature: Signature,
    body: l2.Body,
    join: bool = True,
) -> None:
    formals = tuple(signature.formals)
    form = body.relation if isinstance(body, l2.Propagate) else body
    text_of = _Occasion(s.cell.number, text.what, text.variant, formals, form, body)
    title, span = f"{s.name}: {text.what} ({s.cell.definition.name})", s.cell.definition.span
    kernel = s.builder.rows_of(_Occasion.prototype, title, span, 0, text_of)
    kernel.add_row(signature.arrays, signature.columns, s.name).run(at, join)


def at_synapses(
    s: Synapses,
    at: Place,
    text: SynapseKernel,
    found: LoweredRelation,
    by: str,
    happening: EventSource | None,
    age: int | None = None,
    gather: bool = False,
    join: bool = True,
) -> None:
    """The statements run at the synapses of the neurons of end `by` with an event (None: of all neurons); `age`: for
    synapses with this delay only; `gather`: as in Propagate; `join`: in one launch with other rows of the kernel."""
    size = "n_pre" if by == "pre" else "n_post"
    text, numbers, counted = _worked_out(s, text, found)
    formals = (*(EVENT_FORMALS if happening is not None else ()), *found.formals)
    access: dict[str, l2.Access] = {"one": l2.SCALAR, **{end: l2.At(end) for end in ("pre", "post", "syn")}}
    bound = dict(found.arrays)
    if happening is not None:
        bound |= {"spikes": happening.spikes, "spike_count": happening.count}
    signature = _signature(s, text, formals, bound, access, found.columns)
    for name, number in numbers.items():
        signature.column(name, number, DType.I64 if isinstance(number, int) else s.builder.precision)
    for formal, array in counted.items():
        signature.array(formal, array)
    if happening is None:
        signature.column(size, s.instance(by).size)
        events: l2.Events | l2.Every = l2.Every(size)
    else:
        events = _events(s, happening, signature)
    if age is not None:
        signature.column("age", age)
    body = l2.Propagate(events, found.relation, text.statements, by, gather)
    _row(s, at, text, signature, body, join and age is None)


def _worked_out(
    s: Synapses, text: SynapseKernel, found: LoweredRelation
) -> tuple[SynapseKernel, dict[str, float | int], dict[l2.ArrayFormal, str]]:
    """The statements after the parameters that they read and that are worked out here, with the columns and the numbers
    of synapses of these."""
    read = sorted(s.again.keys() & text.read)
    if not read:
        return text, {}, {}
    first: list[l2.Statement] = []
    numbers: dict[str, float | int] = {}
    arrays: dict[l2.ArrayFormal, str] = {}
    for name in read:
        e, own, counts = placed(s.again[name], name)
        first.append(l2.Assign(name, e))
        numbers |= own
        formals, held = counted_formals(s, found, counts)
        arrays |= {f: held[f.name] for f in formals}
    kinds: list[object] = s.cache.setdefault(("worked out", s.cell.number, text.what), [])
    if (kind := tuple(first)) not in kinds:
        kinds.append(kind)
    return replace(text, statements=(*first, *text.statements), variant=kinds.index(kind) + 1), numbers, arrays


def _events(s: Synapses, happening: EventSource, signature: Signature) -> l2.Events:
    signature.column("room", room_of(s.builder, happening.spikes))
    signature.column("slots", happening.slots)
    signature.column("delay", happening.delay)
    return l2.Events("spikes", "spike_count", "slots", "delay", "room")


def at_neurons(s: Synapses, at: Place, text: SynapseKernel, end: str, happening: EventSource | None) -> None:
    """The statements run once for each neuron of `end` with an event (None: for every neuron; they deliver): a relation
    of each with itself."""
    access: dict[str, l2.Access] = {end: l2.At("syn"), "one": l2.SCALAR}
    events: l2.Events | l2.Every = l2.Every("n_pre")
    if happening is None:
        signature = _signature(s, text, (), {}, access)
        signature.column("n_pre", s.instance(end).size)
    else:
        bound = {"spikes": happening.spikes, "spike_count": happening.count}
        signature = _signature(s, text, EVENT_FORMALS, bound, access)
        events = _events(s, happening, signature)
    _row(s, at, text, signature, l2.Propagate(events, l2.OneToOne(), text.statements))


def at_all(
    s: Synapses,
    at: Place,
    text: SynapseKernel,
    end: str,
    size: int | l2.SizeOf,
    happening: EventSource | None = None,
) -> None:
    """The statements run for every neuron of `end`, or ("syn") once for each element of a kernel, whose states all
    synapses with it share. `size`: how many; with `happening`, neurons for which the local `happens` holds become its
    list of this step."""
    signature = _signature(s, text, (), {}, {end: l2.ELEMENT, "one": l2.SCALAR})
    statements = text.statements
    if "past_slots" in signature.columns:
        slot = (Ref("step") + Ref("past_shift")) % Ref("past_slots")
        statements = (l2.Assign("past_slot", slot), *statements)
    if happening is not None:
        signature.write("spikes", DType.I32, happening.spikes, l2.ByName())
        signature.write("spike_count", DType.I32, happening.count, l2.ByName())
        signature.column("slots", happening.slots)
        statements = (*statements, l2.Emit("spikes", "spike_count", "slots", Ref("happens"), s.projection.span))
    signature.column("n", size)
    _row(s, at, text, signature, l2.Nest(FLAT, statements))


def take_delivered(s: Synapses, one: Arrival) -> None:
    """What has been delivered into an input of the projection's own joins it."""
    end, variable = one.end, one.variable
    real, fixed, size = s.builder.precision, s.deliveries.fixed_point, s.instance(end).size
    at, span = f"{s.name}.{end}", s.cell.definition.span
    array = l2.Array(delivered_name(at, variable), DType.I64 if fixed else real, (size,), Role.STATE, span=span)
    s.builder.array(array)
    k = s.builder.kernel(f"{s.name}: what arrives in {end}.{variable}", span)
    k.update("held", real, s.arrays[one.name].array)
    k.update("delivered", array.dtype, array.name)
    k.column("n", size)
    k.column("quantum", s.deliveries.quanta[at, variable] if fixed else 1.0, real)
    value: Expr = Call("float", (Ref("delivered"),)) * Ref("quantum") if fixed else Ref("delivered")
    nest = l2.Nest(
        (l2.Dim("i", "n"),),
        (l2.Assign("held", Ref("held") + value, span), l2.Assign("delivered", Num(0) if fixed else Num(0.0), span)),
    )
    k.add_row(nest, s.name).run(Place(one.stage))


def work_array(s: Synapses, name: str, size: int | l2.SizeOf) -> None:
    """Makes an array of real numbers that lives within a step."""
    s.builder.vector(name, s.builder.precision, size, Role.WORK, span=s.cell.definition.span)


def sum_kernel(s: Synapses, one: SynapseSum, what: str) -> Draft:
    """A row of a sum that is to be declared."""
    d, group = s.cell.definition, (s.cell.number, one.what, one.name)
    return s.builder.kernel(f"{s.name}: {what} {printed(one.name)} ({d.name})", d.span, group)


def start_row(s: Synapses, one: SynapseSum, array: str, size: int | l2.SizeOf, start: float, at: Place) -> None:
    """The row that gives the elements of a sum their initial value."""
    k = sum_kernel(s, one, "start of")
    k.write("out", s.builder.precision, array)
    k.column("n", size)
    k.column("start", start, s.builder.precision)
    nest = l2.Nest(FLAT, (l2.Assign("out", Ref("start")),))
    k.add_row(nest, array).run(at)
