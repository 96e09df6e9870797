"""lower_projections: families of projections become relations and rows of propagation kernels.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members. Within a step, the order is that of
SynapseDef, over all families (synapse_schedule.py).
Does not: choose a storage (relations), or lower statements (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
from compiler.connect import rule_of
from compiler.ir.level1.projections import StoredProjection
from compiler.passes.cells.cell_arrays import Deliveries
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision
from compiler.passes.projections.lower_synapses import SynapseLowering
from compiler.passes.projections.synapse_schedule import Stages
from compiler.passes.relations.stored_rows import Link


def lower_projections(
    builder: ProgramBuilder,
    model: l0.Model,
    projections: tuple[StoredProjection, ...],
    instances: Mapping[str, l1.Instance],
    deliveries: Deliveries,
    decisions: list[Decision],
) -> None:
    """Relations, values of synapses and propagation rows of every family."""
    assert model.simulate is not None
    stages = Stages()
    numbers = {p.name: float(p.value) for p in model.params if isinstance(p.value, (int, float))}
    phases, families = {p.name: p for p in model.phases}, {p.name: p for p in model.projections}
    synapses = SynapseLowering(builder, stages, deliveries, model.simulate.dt, numbers, decisions, phases, families)
    for p in projections:
        family, rule, held = p.family, rule_of(p.family), (p.storage, p.shared)
        links = (
            Link(family, member, instances[member.source], instances[member.target], builder, *held)
            for member in family.members
            if not rule.empty(member.args)
        )
        synapses.family(p, links)
    stages.launch()
