"""lower_projections: families of projections become relations and rows of propagation kernels.

Assumes: lower_cells has made the populations' arrays and event rings.
Guarantees: a family is rows of a few kernels, whatever its number of members. Within a step, the order is that of
SynapseDef, over all families (ir/level1/stages.py).
Does not: choose a storage (relations), or lower statements (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.connect import rule_of
from compiler.ir.level1.spiking import SpikingGraph
from compiler.passes.cells.cell_arrays import Deliveries
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.projections.lower_synapses import SynapseLowering
from compiler.passes.projections.synapse_schedule import Stages
from compiler.passes.relations.stored_rows import Link


def lower_projections(
    builder: ProgramBuilder,
    model: l0.Model,
    graph: SpikingGraph,
    instances: Mapping[str, l1.Instance],
    deliveries: Deliveries,
) -> None:
    """Relations, values of synapses and propagation rows of every family."""
    assert model.simulate is not None
    stages = Stages()
    numbers = {p.name: float(p.value) for p in model.params if isinstance(p.value, (int, float))}
    families = {p.name: p for p in model.projections}
    given = (model.simulate.dt, numbers, graph.phases, families, graph.synapses)
    synapses = SynapseLowering(builder, stages, deliveries, *given)
    for p in graph.projections:
        rule = rule_of(p.family)
        links = (
            (number, Link(p.family, m, instances[m.source], instances[m.target], builder, p.storage, p.shared))
            for number, m in enumerate(p.family.members)
            if not rule.empty(m.args)
        )
        synapses.family(p, links)
    stages.launch()
