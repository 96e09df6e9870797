"""The pipeline from a model (level 0) to a merged program (level 2).

Assumes: a legal model, and the capabilities of the target.
Guarantees: passes run in the order that compiler/passes/__init__.py lists; with `verify` every level is checked
against its legality spec after each pass that makes or changes it.
Does not: emit code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.ir.graph import TensorGraph
from compiler.ir.model import Model
from compiler.ir.program import Merged, Order, Phase, Program
from compiler.ir.space import DType
from compiler.ir.target import Capabilities
from compiler.ir.verify import verify_cell, verify_merged, verify_model, verify_program
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.decisions import Decision
from compiler.passes.freeze_learning import freeze_learning
from compiler.passes.integrate_odes import integrate_odes
from compiler.passes.lower_cells import Deliveries, lower_cells
from compiler.passes.lower_drives import lower_drives, lower_timed, with_driven
from compiler.passes.lower_inputs import lower_inputs
from compiler.passes.lower_model import SpikingGraph, lower_model
from compiler.passes.lower_projections import lower_projections
from compiler.passes.lower_records import record_rates, record_spikes, record_traces
from compiler.passes.merge import merge
from compiler.passes.quanta import input_quanta
from compiler.strategies.pins import Pins


@dataclass(frozen=True)
class Lowered:
    """Every level of one model for one target, and what the passes decided."""

    model: Model
    spiking: SpikingGraph | None
    tensors: tuple[TensorGraph, ...]
    program: Program
    merged: Merged
    decisions: tuple[Decision, ...]


def _spiking(
    model: Model, precision: DType, order: Order, capabilities: Capabilities
) -> tuple[SpikingGraph, Program, list[Decision]]:
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
    builder = ProgramBuilder(model.name, precision, order)
    deliveries = Deliveries(fixed_point, quanta, graph.rings)
    lower_timed(builder, model)
    lower_drives(builder, model)
    lower_cells(builder, graph, model.simulate.dt, units, deliveries)
    instances = {i.name: i for i in graph.instances}
    record_spikes(builder, model, instances)
    record_rates(builder, model, instances)
    lower_projections(builder, model, instances, deliveries, decisions)
    lower_inputs(builder, model, instances)
    inputs = tuple(frozenset(cell.shown(name) for name, _ in cell.inputs) for cell in graph.cells)
    record_traces(builder, model, instances, inputs, deliveries)
    return graph, builder.finish(), decisions


def _join(a: Program, b: Program) -> Program:
    """Two programs as one: phases of the same name run one after the other."""
    base = len(a.kernels)
    phases = {p.name: list(p.launches) for p in a.phases}
    for phase in b.phases:
        phases.setdefault(phase.name, []).extend(replace(item, kernel=item.kernel + base) for item in phase.launches)
    return replace(
        a,
        arrays=a.arrays + b.arrays,
        kernels=a.kernels + b.kernels,
        phases=tuple(Phase(name, tuple(items)) for name, items in phases.items()),
        constants={**a.constants, **b.constants},
    )


def lower(model: Model, capabilities: Capabilities, verify: bool = False, pins: Pins | None = None) -> Lowered:
    """All levels of `model` for a target. `pins`: strategies of contractions that are decided already."""
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    order = Order(model.numerics.order)
    if verify:
        verify_model(model)
    programs: list[Program] = []
    decisions: list[Decision] = []
    spiking: SpikingGraph | None = None
    tensors: tuple[TensorGraph, ...] = ()
    if model.populations:
        spiking, program, made = _spiking(model, precision, order, capabilities)
        if verify:
            for cell in spiking.cells:
                verify_cell(cell)
        programs.append(program)
        decisions += made
    if model.network is not None:
        from compiler.passes.tensors import lower_network_to_program

        tensors, program, made = lower_network_to_program(model, precision, order, capabilities, verify, pins)
        programs.append(program)
        decisions += made
    whole = programs[0] if len(programs) == 1 else _join(programs[0], programs[1])
    if verify:
        verify_program(whole)
    merged = merge(whole)
    if verify:
        verify_merged(merged, whole)
    return Lowered(model, spiking, tensors, whole, merged, tuple(decisions))
