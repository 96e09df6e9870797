"""lower_populations: cells, drives, records and projections become the arrays, kernels and launches of one program.

Assumes: all passes over level 1 have run.
Guarantees: a step is in the order of ir/level1/stages.py. A family of projections is rows of a few kernels, whatever
its number of members.
Does not: merge, choose integrators, or lower statements of synapses (lower_synapses).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.connect import rule_of
from compiler.core.symbols import model_name
from compiler.ir.level1.spiking import SpikingGraph, StoredProjection
from compiler.ir.space import DType
from compiler.passes.cells.cell_arrays import Deliveries, keep_past
from compiler.passes.cells.lower_cells import lower_cells
from compiler.passes.cells.lower_drives import DriveLowering, lower_drives
from compiler.passes.cells.lower_inputs import lower_inputs
from compiler.passes.cells.lower_records import record_events, record_rates, record_spikes, record_traces
from compiler.passes.cells.lower_timed import lower_lookups, lower_orders, lower_timed
from compiler.passes.model.fixed_point_scales import input_quanta
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.projections.lower_synapses import SynapseLowering
from compiler.passes.relations.stored_rows import Link


def lower_populations(
    model: l0.Model,
    graph: SpikingGraph,
    precision: DType,
    order: l2.Order,
    fixed_point: bool,
    recorded_steps: int,
) -> l2.Program:
    """The spiking half as one program. `fixed_point`: whether deliveries are summed as integers, so that sums are
    independent of order; `recorded_steps`: as Capabilities has it."""
    assert model.simulate is not None
    builder = ProgramBuilder(model.name, precision, order, model.simulate.warmup)
    deliveries = Deliveries(fixed_point, input_quanta(model) if fixed_point else {}, graph.rings)
    lower_timed(builder, model)
    lower_lookups(builder, model)
    drives = DriveLowering(builder, graph, model)
    lower_orders(builder, model)
    lower_drives(drives)
    lower_cells(builder, graph, model.simulate.dt, units_of(model), deliveries)
    instances = {i.name: i for i in graph.instances}
    record_spikes(builder, model, instances, recorded_steps)
    record_rates(builder, model, instances)
    keep_past(builder, graph.past, instances)
    numbers = {p.name: float(p.value) for p in model.params if isinstance(p.value, (int, float))}
    families = {p.name: p for p in model.projections}
    synapses = SynapseLowering(builder, deliveries, model.simulate.dt, numbers, families, graph)
    synapses.families(lambda p: _links(p, builder, instances))
    record_events(builder, model, instances)
    lower_inputs(drives, instances)
    inputs = tuple(frozenset(model_name(name) for name, _ in cell.inputs) for cell in graph.cells)
    record_traces(builder, model, instances, inputs, deliveries)
    return builder.finish()


def _links(
    p: StoredProjection, builder: ProgramBuilder, instances: Mapping[str, l1.Instance]
) -> Iterator[tuple[int, Link]]:
    """The members of a family that have synapses, by number."""
    rule = rule_of(p.family)
    for number, m in enumerate(p.family.members):
        if not rule.empty(m.args):
            yield number, Link(p.family, m, instances[m.source], instances[m.target], builder, p.storage, p.shared)


def units_of(model: l0.Model) -> dict[tuple[str, str], str]:
    """The unit of every state, input and pool variable, by (population, name)."""
    known = {id(p.neuron): p.neuron.units for p in model.populations}
    return {(p.name, name): unit for p in model.populations for name, unit in known[id(p.neuron)].items()}
