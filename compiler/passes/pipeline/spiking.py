"""The passes of the spiking half: from populations (level 0) over cells (level 1) to kernels (level 2).

Assumes: a legal model; passes here run only where it has `populations`.
Guarantees: phases of connecting and of initial values, and "step"; cells whose equations have been integrated.
Does not: merge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.ir.level1.synapses import SynapseCell
from compiler.passes.pipeline.manager import Context, Lowering, Pass
from compiler.passes.program.decisions import Decision


class SpikingPass(Pass):
    """A pass for models with populations."""

    def applies(self, context: Context, ir: Lowering) -> bool:
        return context.populations and bool(ir.model.populations)


def on_synapses(ir: Lowering, change: Callable[[SynapseCell], SynapseCell]) -> Lowering:
    """The levels with another form of each synapse model."""
    assert ir.spiking is not None
    return replace(ir, spiking=replace(ir.spiking, synapses=tuple(map(change, ir.spiking.synapses))))


class FreezeLearning(SpikingPass):
    """Frozen synapses lose their learning statements: compiler/passes/model/freeze_learning.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.freeze_learning import freeze_learning

        return replace(ir, model=freeze_learning(ir.model))


class LowerModel(SpikingPass):
    """Populations become instances of cells: compiler/passes/model/lower_model.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.cells.lower_drives import with_driven
        from compiler.passes.model.lower_model import lower_model

        return replace(ir, spiking=lower_model(with_driven(ir.model)))


class ScheduleSynapses(SpikingPass):
    """Statements of synapses become operations in stages of a step: compiler/passes/synapses/schedule_synapses.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.synapses.schedule_synapses import schedule_synapse

        assert ir.spiking is not None
        phases = ir.spiking.phases
        return on_synapses(ir, lambda cell: schedule_synapse(cell, phases))


class InsertDelays(SpikingPass):
    """Ring buffers, and the events that operations wait for: compiler/passes/model/insert_delays.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.insert_delays import insert_delays

        assert ir.spiking is not None
        return replace(ir, spiking=insert_delays(ir.model, ir.spiking))


class IntegrateOdes(SpikingPass):
    """Equations become statements of one step: compiler/passes/model/integrate_odes.py, of synapses
    compiler/passes/synapses/integrate_synapses.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.integrate_odes import integrate_odes
        from compiler.passes.synapses.integrate_synapses import integrate_synapse

        assert ir.spiking is not None
        done = [
            integrate_odes(cell, arrays) for cell, arrays in zip(ir.spiking.cells, ir.spiking.array_params, strict=True)
        ]
        synapses = [integrate_synapse(cell) for cell in ir.spiking.synapses]
        cells, of_synapses = tuple(cell for cell, _ in done), tuple(cell for cell, _ in synapses)
        ir = replace(ir, spiking=replace(ir.spiking, cells=cells, synapses=of_synapses))
        found = dict.fromkeys(d for _, chosen in synapses for d in chosen)
        return ir.decided(d for d in (*(d for _, d in done), *found) if d is not None)


class SplitCells(SpikingPass):
    """The step of a cell becomes operations of its neurons and pools: compiler/passes/model/split_cells.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.split_cells import split_cell

        assert ir.spiking is not None
        return replace(ir, spiking=replace(ir.spiking, cells=tuple(map(split_cell, ir.spiking.cells))))


class OrderPopulations(SpikingPass):
    """The operations of all populations, in their order within a step: compiler/passes/model/order_populations.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.order_populations import order_populations

        assert ir.spiking is not None
        spiking, made = order_populations(ir.spiking)
        return replace(ir, spiking=spiking).decided(made)


class TakeSums(SpikingPass):
    """Sums over synapses stand before the operations that read them: compiler/passes/synapses/take_sums.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.synapses.take_sums import take_sums

        return on_synapses(ir, take_sums)


class AdvanceStates(SpikingPass):
    """Event-driven states are brought to the step that reads them: compiler/passes/synapses/advance_states.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.synapses.advance_states import advance_states

        return on_synapses(ir, advance_states)


class KeepTraces(SpikingPass):
    """Traces that synapses see with delays of their own: compiler/passes/synapses/keep_traces.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.synapses.keep_traces import keep_traces

        return on_synapses(ir, keep_traces)


class TransposeSynapses(SpikingPass):
    """How operations reach the synapses of targets: compiler/passes/synapses/transpose_synapses.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.synapses.transpose_synapses import transpose_synapse

        return on_synapses(ir, transpose_synapse)


class LowerPopulations(SpikingPass):
    """Cells, drives, records and projections become kernels: compiler/passes/cells, compiler/passes/projections."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.projections.lower_populations import lower_populations

        assert ir.spiking is not None
        order, target = context.order, context.capabilities
        fixed_point = order is l2.Order.BITWISE or (order is l2.Order.REPRODUCIBLE and not target.atomic_order)
        how = "fixed-point accumulators" if fixed_point else "direct accumulation"
        made = [Decision("lower_cells", ir.model.name, how, f"order: {order.value} on {target.name}")]
        spiking, steps = ir.spiking, target.recorded_steps
        program = lower_populations(ir.model, spiking, context.precision, order, fixed_point, made, steps)
        return replace(ir, programs=(*ir.programs, program)).decided(made)
