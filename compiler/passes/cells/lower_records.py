"""lower_records: recording of spikes, rates and traces into buffers that the runner drains.

Assumes: lower_cells has made rings and arrays.
Guarantees: recording only reads the model's arrays; a trace of an input that is accumulated in fixed point includes the
deliveries of the step that ends. Buffers: `<population>'spikes'record` (i32 pairs of step and id; of events of synapses
`<projection>[a->b].<event>'spikes'record`), `<population>.<variable>'record` (samples x members) with their `'used`
counters.
Does not: drain the buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
import compiler.passes.cells.cell_arrays as cells
from compiler.core.source import Span
from compiler.expr.ast import Call, Expr, Ref
from compiler.ir.level1.stages import EVENT_RECORDS, RECORDS, TRACES
from compiler.ir.level2.synapse_values import recorded_events
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.program.build_program import Draft, Place, ProgramBuilder, Prototype

LIST_SLOTS = 3  # of the lists of an event: one is read and one filled while another is emptied
SPIKE_STEPS = 64  # a spike buffer holds at least this many steps in which every neuron spikes once
SPIKE_BYTES = 1 << 28  # from which on it holds no more of them
TRACE_BYTES = 1 << 20  # of one trace buffer, at least two samples


def record_spikes(
    builder: ProgramBuilder, model: l0.Model, instances: Mapping[str, l1.Instance], steps: int = SPIKE_STEPS
) -> None:
    """Rows that append the events of each recorded population to its buffer. `steps`: as
    many as the buffer should hold in which every neuron spikes."""
    done: set[str] = set()
    for record in model.spikes:
        new = [p for p in dict.fromkeys(record.populations) if p not in done]
        done.update(new)
        _record_events(builder, RECORDS, [(p, instances[p].size) for p in new], record.span, steps)


def record_events(builder: ProgramBuilder, model: l0.Model, instances: Mapping[str, l1.Instance]) -> None:
    """The same for events with conditions: of synapses, and of neurons."""
    for record in model.events:
        for name, population in recorded_events(model, record):
            if not record.of_synapses:
                _list_events(builder, name, instances[population])
            _record_events(builder, EVENT_RECORDS, [(name, instances[population].size)], record.span)


def _list_events(builder: ProgramBuilder, name: str, instance: l1.Instance) -> None:
    """The lists `<name>'spikes` of the neurons whose flag `name` is set."""
    bound = cells.event_lists(builder, name, LIST_SLOTS, instance.size, instance.span)
    k = builder.kernel(f"{name}: list", instance.span)
    k.read("flag", builder.precision, array_name(instance.name, name.removeprefix(f"{instance.name}.")))
    k.include(cells.ring_formals(), bound, {"slots": LIST_SLOTS})
    k.column("n", instance.size)
    nest = l2.Nest(cells.FLAT, (l2.Emit("spikes", "spike_count", "slots", Ref("flag").ne(0.0), instance.span),))
    k.add_row(nest, name).run(Place(EVENT_RECORDS))


def _record_events(
    builder: ProgramBuilder, stage: str, of: Sequence[tuple[str, int]], span: Span, steps: int = SPIKE_STEPS
) -> None:
    """The rows and the buffers of the lists `<name>'spikes`, of populations of a size or of events of their neurons."""
    if not of:
        return
    arrays: dict[str, list[str]] = {name: [] for name in ("list", "count", "buffer", "used")}
    columns: dict[str, list[l2.ColumnValue]] = {name: [] for name in ("slots", "capacity", "n")}
    for name, size in of:
        spikes = own_array(name, "spikes")
        slots, room = builder.arrays[spikes].shape
        held = max(SPIKE_STEPS, min(steps, SPIKE_BYTES // (2 * DType.I32.bytes * max(size, 1))))
        capacity = max(held * size, 4 * room, 4096)
        buffer = own_array(spikes, "record")
        used = own_array(buffer, "used")
        builder.array(l2.Array(buffer, DType.I32, (capacity, 2), Role.RECORD, span=span))
        builder.array(l2.Array(used, DType.I64, (1,), Role.RECORD, span=span))
        for values, array in zip(arrays.values(), (spikes, own_array(name, "spike_count"), buffer, used), strict=True):
            values.append(array)
        for numbers, number in zip(columns.values(), (slots, capacity, room), strict=True):
            numbers.append(number)
    kernel = builder.rows_of(_recording, f"{of[0][0]}: record spikes", span)
    kernel.add_rows(arrays, columns, [name for name, _ in of]).run(Place(stage))


def _recording() -> Prototype:
    """The kernel that appends events to a buffer."""
    arrays = (
        ("list", DType.I32, l2.Mode.READ),
        ("count", DType.I32, l2.Mode.READ),
        ("buffer", DType.I32, l2.Mode.UPDATE),
        ("used", DType.I64, l2.Mode.UPDATE),
    )
    columns = (l2.ScalarFormal(c, DType.I64) for c in ("slots", "capacity", "n"))
    return Prototype((*(l2.ArrayFormal(*a, l2.ByName()) for a in arrays), *columns), l2.RecordEvents())


RATE_STEPS = 1 << 14  # of one buffer of spike counts


def record_rates(builder: ProgramBuilder, model: l0.Model, instances: Mapping[str, l1.Instance]) -> None:
    """Rows that append the number of events of every step; the runner sums them up in bins. Buffers:
    `<population>'spike_count'record` and its `'used`."""
    real = builder.precision
    for record in model.rates:
        instance = instances[record.population]
        counts = own_array(record.population, "spike_count")
        name, members = own_array(counts, "record"), own_array(counts, "members")
        builder.array(l2.Array(members, DType.I32, (1,), Role.CONST, span=record.span), np.zeros(1, np.int32))
        builder.array(l2.Array(name, real, (RATE_STEPS, 1), Role.RECORD, span=record.span))
        builder.array(l2.Array(own_array(name, "used"), DType.I64, (1,), Role.RECORD, span=record.span))
        k = builder.kernel(f"{record.population}: record rate", record.span)
        slot = l2.Strided((l2.Axis((("slot", 1),)),))
        k.read("count", DType.I32, counts, slot)
        _buffers(k, real, members, name, 1, RATE_STEPS)
        k.column("ring_slots", instance.slots)
        k.add_row(l2.RecordTrace(Call("float", (Ref("count"),))), record.population).run(Place(RECORDS))


def _buffers(k: Draft, real: DType, members: str, buffer: str, m: int, capacity: int) -> None:
    """The array of the recorded elements, of which there are `m`, and where samples go."""
    k.read("members", DType.I32, members, l2.ByName())
    k.update("buffer", real, buffer, l2.ByName())
    k.update("used", DType.I64, own_array(buffer, "used"), l2.ByName())
    k.column("m", m)
    k.column("capacity", capacity)


def record_traces(
    builder: ProgramBuilder,
    model: l0.Model,
    instances: Mapping[str, l1.Instance],
    inputs: tuple[frozenset[str], ...],
    deliveries: cells.Deliveries,
) -> None:
    """Rows that sample variables at the end of every `every`-th step.
    `inputs`: per cell, the model's names of its inputs."""
    for number, record in enumerate(model.traces):
        instance = instances[record.population]
        name, shape = own_array(record.population, f"members.{number}"), (len(record.members),)
        members = l2.Array(name, DType.I32, shape, Role.CONST, span=record.span)
        builder.array(members, np.array(record.members, np.int32))
        for variable in record.variables:
            is_input = variable in inputs[instance.cell]
            through = deliveries.of(record.population, variable) if is_input else (False, 0)
            _record_trace(builder, record, variable, number, instance, deliveries, *through)


def _record_trace(
    builder: ProgramBuilder,
    record: l0.RecordTraces,
    variable: str,
    number: int,
    instance: l1.Instance,
    deliveries: cells.Deliveries,
    through: bool,
    slots: int,
) -> None:
    """`through`: the variable is an input with a separate array of deliveries, in a ring buffer of `slots` (0:
    none)."""
    real, m = builder.precision, len(record.members)
    capacity = 1 + record.capacity if record.capacity else max(2, TRACE_BYTES // (m * real.bytes))
    source = array_name(record.population, variable)
    name = own_array(source, f"record.{number}")
    unit = builder.arrays[source].unit
    builder.array(l2.Array(name, real, (capacity, m), Role.RECORD, unit=unit, span=record.span))
    builder.array(l2.Array(own_array(name, "used"), DType.I64, (1,), Role.RECORD, span=record.span))
    value: Expr = Ref("source")
    k = builder.kernel(f"{source}: record trace", record.span)
    k.read("source", real, source)
    if through:
        # What was delivered in this step is part of the input at the end of the step.
        part: Expr = Ref("delivered")
        held = real
        if deliveries.fixed_point:
            held = DType.I64
            part = Call("float", (part,)) * Ref("quantum")
        value = value + part
        k.read("delivered", held, cells.delivered_name(record.population, variable), cells.delivered_access(slots))
    _buffers(k, real, own_array(record.population, f"members.{number}"), name, m, capacity)
    if through and deliveries.fixed_point:
        k.column("quantum", deliveries.quanta.get((record.population, variable), 1.0), real)
    if slots:
        k.column("ring_slots", deliveries.ring_slots[record.population])
        k.column("n", instance.size)
    k.add_row(l2.RecordTrace(value), source).run(Place(TRACES, (record.every, record.at or 0)))
