"""state_history: past state: ring buffers, for synapses that read variables of neurons with their delay, and copies of
the state before a step, for populations that read others.

Assumes: insert_delays has run; lower_cells has made the populations' arrays and all launches that change them in a
step; those of synapses come later.
Guarantees: `<population>.<variable>'past` [slots][n], one slot more than the longest delay of a projection that reads
it. Slot k mod slots has the value after the neurons' own part of step k (resets and events of phases included,
deliveries of the step not); slots of steps up to 0 have the initial value. One kernel initialises all ring buffers, one
writes them. `past_row` does it for other arrays, too.
Does not: read them (synapse_rows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.source import Span
from compiler.expr.ast import Ref
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level1.stages import BEFORE, PAST
from compiler.ir.level2.variable_arrays import array_name, own_array
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_arrays import FLAT
from compiler.passes.program.build_program import Place, ProgramBuilder

SLOTS = l2.ScalarFormal("ring_slots", DType.I64)


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
    k = builder.kernel(f"{owner}: {title} {what}", l2.Kind.MAP, span, stage)
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
        k = builder.kernel(f"{x.population}: {x.variable} of the step before", l2.Kind.MAP, instance.span)
        k.read("x", real, array)
        k.write("before", real, name)
        k.column("n", count)
        k.add_row(nest, name).run(Place(BEFORE))
