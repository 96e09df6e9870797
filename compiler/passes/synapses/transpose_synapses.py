"""transpose_synapses: how operations reach the synapses of target neurons.

Assumes: schedule_synapses, insert_delays and take_sums have run.
Guarantees: an operation at events of targets walks rows by target, which are the transpose of the stored ones. Where
the storage finds synapses of sources alone, the neurons note the event (`arrived` is the step), and the operation
looks for their synapses among all. Rewiring makes the rows of the other end again where any operation walks them.
Does not: make rows (passes/relations), or copy states between projections (passes/projections/synapse_transpose.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import Ref
from compiler.ir.level1.synapses import AtNeurons, AtSynapses, NewSynapses, Operation, SynapseCell, SynapseSum

ARRIVED = Ref("arrived").eq(Ref("step"))


def transpose_synapse(cell: SynapseCell) -> SynapseCell:
    """The cell with the walks of its operations."""
    rebuild = cell.definition.rewired == "indegree" or any(map(_by_target, cell.operations))
    operations = tuple(x for one in cell.operations for x in _walks(cell, one, rebuild))
    return replace(cell, operations=operations) if operations != cell.operations else cell


def _by_target(x: Operation) -> bool:
    """Whether an operation may walk the synapses of a target."""
    match x:
        case AtSynapses():
            return x.event is not None and x.event.end == "post"
        case SynapseSum():
            return x.end == "post"
        case AtNeurons():
            return x.condition is not None and x.condition.end == "post"
        case _:
            return False


def _walks(cell: SynapseCell, x: Operation, rebuild: bool) -> Iterator[Operation]:
    if isinstance(x, AtSynapses) and x.event is not None and x.walk == "post" and cell.searched:
        noted = (l0.Set("arrived", Ref("step")),)
        yield AtNeurons(x.stage, f"{x.event.name} arrives", x.event.end, noted, x.event, search=x.event.name)
        yield replace(x, event=None, walk="pre", tests=(ARRIVED, *x.tests), search=x.event.name)
    elif isinstance(x, NewSynapses):
        yield replace(x, rebuild=rebuild)
    else:
        yield x
