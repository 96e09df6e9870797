"""state_history: ring buffers of past state, for synapses that read variables of neurons with their delay.

Assumes: lower_cells has made the populations' arrays and all launches that change them in a step; those of synapses
come later.
Guarantees: `<population>.<variable>.past` [slots][n], one slot more than the longest delay of a projection that reads
it. Slot k mod slots has the value after the neurons' own part of step k (resets and events of phases included,
deliveries of the step not); slots of steps up to 0 have the initial value. One kernel initialises all ring buffers, one
writes them.
Does not: read them (synapse_rows).
"""

from __future__ import annotations

from collections.abc import Mapping

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
from compiler.expr.ast import Ref
from compiler.ir.level2.delayed import read_delayed
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_arrays import FLAT, N, array_name
from compiler.passes.program.build_program import ProgramBuilder

SLOTS = l2.ScalarFormal("ring_slots", DType.I64)


def past_name(population: str, variable: str) -> str:
    return f"{population}.{variable}.past"


def _wanted(model: l0.Model) -> dict[tuple[str, str], int]:
    """(population, variable) -> slots."""
    found: dict[tuple[str, str], int] = {}
    known: dict[int, list[tuple[str, str]]] = {}
    for projection in model.projections:
        synapse = projection.synapse
        if synapse is None:
            continue
        if id(synapse) not in known:
            names = set[str]().union(*(read_delayed(e) for e in synapse.expressions))
            known[id(synapse)] = sorted((n.partition(".")[0], n.partition(".")[2]) for n in names)
        for end, variable in known[id(synapse)]:
            for member in projection.members:
                pre = end == "pre"
                key = (member.source if pre else member.target, variable)
                delay = member.delay if pre else member.back_delay
                found[key] = max(found.get(key, 1), delay + 1)
    return found


def keep_past(builder: ProgramBuilder, model: l0.Model, instances: Mapping[str, l1.Instance]) -> None:
    """The ring buffers, their initial contents, and the write of each step."""
    real = builder.precision
    now = l2.ArrayFormal("x", real, l2.Mode.READ, l2.ELEMENT)
    value = l2.Assign("past", Ref("x"))
    slot = l2.Assign("slot", Ref("step") % Ref("ring_slots"))

    def formals(index: str) -> tuple[l2.Formal, ...]:
        access = l2.Strided((l2.Axis(((index, 1),), stride="n"), l2.Axis((("i", 1),))))
        return now, l2.ArrayFormal("past", real, l2.Mode.WRITE, access), N, SLOTS

    parts = (
        ("init", "past at the start", formals("s"), l2.Nest((l2.Dim("s", "ring_slots"), *FLAT), (value,))),
        ("step", "past", formals("slot"), l2.Nest(FLAT, (slot, value))),
    )
    wanted = _wanted(model)
    for phase, what, signature, nest in parts:
        for (population, variable), slots in wanted.items():
            instance = instances[population]
            name = past_name(population, variable)
            builder.array(l2.Array(name, real, (slots, instance.size), Role.STATE, span=instance.span))
            key = ("past", phase)
            row = builder.row(
                key,
                f"{population}: {what} ({variable})",
                l2.Kind.MAP,
                signature,
                nest,
                {"x": array_name(population, variable), "past": name},
                {"n": instance.size, "ring_slots": slots},
                name,
                instance.span,
            )
            row.launch(phase)
