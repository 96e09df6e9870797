"""cell_arrays: conventions for the arrays of a population: names, deliveries, the ring buffer of its events; and past
state: ring buffers, for synapses that read variables of neurons with their delay, and copies of the state before a
step, for populations that read others.

Assumes: instances of cells (level 1). For past state: insert_delays has run; lower_cells has made the populations'
arrays and all launches that change them in a step; those of synapses come later.
Guarantees: one place for names of arrays and for how deliveries reach inputs. `<population>.<variable>'past`
[slots][n], one slot more than the longest delay of a projection that reads it. Slot k mod slots has the value after the
neurons' own part of step k (resets and events of phases included, deliveries of the step not); slots of steps up to 0
have the initial value. One kernel initialises all ring buffers, one writes them. `past_row` does it for other arrays,
too.
Does not: initialise other arrays, or read past state (synapse_rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.core.symbols import model_name
from compiler.expr.ast import Ref
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level1.stages import BEFORE, PAST, POPULATIONS
from compiler.ir.space import DType, Role, array_name, own_array
from compiler.passes.program.build_program import EVERY_STEP, Due, Place, ProgramBuilder

N = l2.ScalarFormal("n", DType.I64)
KEY = l2.ScalarFormal("key", DType.U64)
SLOTS = l2.ScalarFormal("ring_slots", DType.I64)
FLAT = (l2.Dim("i", "n"),)


@dataclass(frozen=True)
class Deliveries:
    """How events reach inputs. Directly (added to the input itself), or through an array `<input>'delivered` that the
    neuron kernel folds in at the start of the next step: in fixed point (`quanta`: value of one count), and as a ring
    buffer where synapses have individual delays (`rings`: its slots)."""

    fixed_point: bool
    quanta: Mapping[tuple[str, str], float]
    rings: Mapping[tuple[str, str], int]

    @cached_property
    def ring_slots(self) -> Mapping[str, int]:
        """Slots of the ring buffers of a population: the same for all its inputs that have one."""
        slots: dict[str, int] = {}
        for (population, _), count in self.rings.items():
            slots[population] = max(slots.get(population, 0), count)
        return slots

    def of(self, population: str, name: str) -> tuple[bool, int]:
        """(through an array of its own, slots of its ring or 0)."""
        slots = self.rings.get((population, name), 0)
        return self.fixed_point or slots > 0, slots


def delivered_name(population: str, variable: str) -> str:
    return own_array(array_name(population, variable), "delivered")


def ring_formals() -> tuple[l2.Formal, ...]:
    """The ring buffer of a population's events: lists, counts and the number of slots."""
    return (
        l2.ArrayFormal("spikes", DType.I32, l2.Mode.WRITE, l2.ByName()),
        l2.ArrayFormal("spike_count", DType.I32, l2.Mode.WRITE, l2.ByName()),
        l2.ScalarFormal("slots", DType.I64),
    )


def delivered_access(slots: int) -> l2.Strided:
    """Element i of the deliveries of the step before: the one array, or its slot of the ring."""
    if slots == 0:
        return l2.ELEMENT
    return l2.Strided((l2.Axis((("slot", 1),), stride="n"), l2.Axis((("i", 1),))))


@dataclass(frozen=True)
class CellLowering:
    """A cell while its operations are lowered: its number and its params that are arrays. `folds`: inputs with a
    separate array of deliveries -> slots of their ring buffer or 0."""

    builder: ProgramBuilder
    number: int
    cell: l1.Cell
    arrays: tuple[str, ...]
    folds: Mapping[str, int]
    fixed_point: bool
    phases: Mapping[str, l0.PhaseDef]

    @property
    def real(self) -> DType:
        return self.builder.precision

    @cached_property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """States and inputs, each with the model's name."""
        return tuple((n, model_name(n)) for n in (*self.cell.state, *(name for name, _ in self.cell.inputs)))

    def place(self, operation: l1.Operation) -> Place:
        return Place(POPULATIONS, EVERY_STEP if operation.due is None else due_steps(self.phases, operation.due[:2]))


def assigned(statements: Iterable[l0.Set]) -> tuple[l2.Assign, ...]:
    """Statements of level 1 at level 2."""
    return tuple(l2.Assign(s.target, s.value, s.span) for s in statements)


def due_steps(phases: Mapping[str, l0.PhaseDef], due: tuple[str, str]) -> Due:
    """The steps that end at an event (phase, event), or for one at the start the first of each trial."""
    phase = phases[due[0]]
    return phase.every, (dict(phase.events)[due[1]] or 1) % phase.every


CellRow = tuple[l1.Instance, Mapping[str, str], Mapping[str, l2.ColumnValue]]
"""A population, with its arrays by formal and its scalars by column."""


SLOT = l0.Set("slot", (Ref("step") - 1) % Ref("ring_slots"))
"""The slot of the ring that filled up until the end of the last step."""


def room_of(builder: ProgramBuilder, spikes: str) -> int:
    """Capacity of a slot in events: the stride between the lists of two slots."""
    return builder.arrays[spikes].shape[-1]


def add_ring(builder: ProgramBuilder, instance: l1.Instance, room: int | None = None) -> dict[str, str]:
    """The arrays of a population's event ring, by formal name. `room`: the largest number of events per step; by
    default one per neuron."""
    return event_lists(builder, instance.name, instance.slots, instance.size if room is None else room, instance.span)


def event_lists(builder: ProgramBuilder, owner: str, slots: int, room: int, span: Span) -> dict[str, str]:
    """Makes the lists of events of the last steps, and their lengths, of a population or a condition."""
    spikes = l2.Array(own_array(owner, "spikes"), DType.I32, (slots, room), Role.EVENT, span=span)
    count = l2.Array(own_array(owner, "spike_count"), DType.I32, (slots,), Role.EVENT, span=span)
    return {"spikes": builder.array(spikes), "spike_count": builder.array(count)}


def keep_past(builder: ProgramBuilder, histories: Sequence[l1.History], instances: Mapping[str, l1.Instance]) -> None:
    """The ring buffers, their initial contents, and the write of each step."""
    for phase in ("init", "step"):
        for x in histories:
            instance = instances[x.population]
            array = array_name(x.population, x.variable)
            past = Past(array, own_array(array, "past"), instance.size, x.slots)
            past_row(builder, past, phase, PAST, x.population, f"({x.variable})", instance.span)


@dataclass(frozen=True)
class Past:
    """The ring buffer `ring` [slots][n] of past values of `array` [n]."""

    array: str
    ring: str
    n: int
    slots: int


def past_row(builder: ProgramBuilder, past: Past, phase: str, stage: str, owner: str, what: str, span: Span) -> None:
    """The row that fills all slots of a ring buffer ("init"), or in a `stage` that of this step ("step"), and makes the
    array."""
    real = builder.precision
    value, slot = l2.Assign("past", Ref("x")), l2.Assign("slot", Ref("step") % Ref("ring_slots"))
    index, title = ("s", "past at the start") if phase == "init" else ("slot", "past")
    access = l2.Strided((l2.Axis(((index, 1),), stride="n"), l2.Axis((("i", 1),))))
    k = builder.kernel(f"{owner}: {title} {what}", span, stage)
    k.read("x", real, past.array)
    k.write("past", real, past.ring, access)
    k.column("n", past.n)
    k.column("ring_slots", past.slots)
    nest = l2.Nest((l2.Dim("s", "ring_slots"), *FLAT), (value,)) if phase == "init" else l2.Nest(FLAT, (slot, value))
    builder.array(l2.Array(past.ring, real, (past.slots, past.n), Role.STATE, span=span))
    row = k.add_row(nest, past.ring)
    row.launch(phase) if phase == "init" else row.run(Place(stage))


def copy_before(builder: ProgramBuilder, graph: SpikingGraph) -> None:
    """The values before the step of what populations read of others, copied before anything changes them."""
    real, instances = builder.precision, {x.name: x for x in graph.instances}
    nest = l2.Nest(FLAT, (l2.Assign("before", Ref("x")),))
    for x in graph.before:
        instance, array = instances[x.population], array_name(x.population, x.variable)
        name, count = own_array(array, "before"), builder.arrays[array].shape[0]
        builder.array(l2.Array(name, real, (count,), Role.WORK, span=instance.span))
        k = builder.kernel(f"{x.population}: {x.variable} of the step before", instance.span)
        k.read("x", real, array)
        k.write("before", real, name)
        k.column("n", count)
        k.add_row(nest, name).run(Place(BEFORE))
