"""From populations to level-2 kernels: the spiking half of the pipeline.

Assumes: a legal model with `populations` and `simulate`.
Guarantees: phases of connecting and of initial values, and "step"; cells whose equations have been integrated.
Does not: merge.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.level0.model import Model
from compiler.ir.level2.program import Order, Program
from compiler.ir.level2.target import Capabilities
from compiler.ir.space import DType
from compiler.passes.cells.lower_cells import Deliveries, lower_cells
from compiler.passes.cells.lower_drives import lower_drives, lower_timed, with_driven
from compiler.passes.cells.lower_inputs import lower_inputs
from compiler.passes.cells.lower_records import record_rates, record_spikes, record_traces
from compiler.passes.cells.state_history import keep_past
from compiler.passes.model.fixed_point_scales import input_quanta
from compiler.passes.model.freeze_learning import freeze_learning
from compiler.passes.model.integrate_odes import integrate_odes
from compiler.passes.model.lower_model import SpikingGraph, lower_model
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision
from compiler.passes.projections.lower_projections import lower_projections


def lower_populations_to_program(
    model: Model, precision: DType, order: Order, capabilities: Capabilities
) -> tuple[SpikingGraph, Program, list[Decision]]:
    """Cells with their instances, and all that happens to them as one program."""
    decisions: list[Decision] = []
    model = freeze_learning(model)
    graph = lower_model(with_driven(model))
    cells = []
    for cell, arrays in zip(graph.cells, graph.array_params, strict=True):
        done, decision = integrate_odes(cell, arrays)
        cells.append(done)
        if decision is not None:
            decisions.append(decision)
    graph = replace(graph, cells=tuple(cells))
    assert model.simulate is not None
    fixed_point = order is Order.BITWISE or (order is Order.REPRODUCIBLE and not capabilities.atomic_order)
    decisions.append(
        Decision(
            "lower_cells",
            model.name,
            "fixed-point accumulators" if fixed_point else "direct accumulation",
            f"order: {order.value} on {capabilities.name}",
        )
    )
    units = {(p.name, s.name): s.unit for p in model.populations for s in p.neuron.state}
    units |= {(p.name, i.name): i.unit for p in model.populations for i in p.neuron.inputs}
    for p in model.populations:
        for pool in p.neuron.pools:
            units |= {(p.name, f"{pool.scope}.{r.name}"): r.unit for r in pool.reductions}
            units |= {(p.name, f"{pool.scope}.{s.name}"): s.unit for s in pool.state}
    quanta = input_quanta(model) if fixed_point else {}
    builder = ProgramBuilder(model.name, precision, order, model.simulate.warmup)
    deliveries = Deliveries(fixed_point, quanta, graph.rings)
    lower_timed(builder, model)
    lower_drives(builder, model, decisions)
    lower_cells(builder, graph, model.simulate.dt, units, deliveries)
    instances = {i.name: i for i in graph.instances}
    record_spikes(builder, model, instances)
    record_rates(builder, model, instances)
    keep_past(builder, model, instances)
    lower_projections(builder, model, instances, deliveries, decisions)
    lower_inputs(builder, model, instances)
    inputs = tuple(frozenset(cell.shown(name) for name, _ in cell.inputs) for cell in graph.cells)
    record_traces(builder, model, instances, inputs, deliveries)
    return graph, builder.finish(), decisions
