"""The passes of the spiking half: from populations (level 0) over cells (level 1) to kernels (level 2).

Assumes: a legal model; passes here run only where it has `populations`.
Guarantees: phases of connecting and of initial values, and "step"; cells whose equations have been integrated.
Does not: merge.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level2.program as l2
from compiler.passes.pipeline.manager import Context, Lowering, Pass
from compiler.passes.program.decisions import Decision


class SpikingPass(Pass):
    """A pass for models with populations."""

    def applies(self, context: Context, ir: Lowering) -> bool:
        return context.populations and bool(ir.model.populations)


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


class IntegrateOdes(SpikingPass):
    """Equations become update statements of one step: compiler/passes/model/integrate_odes.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.integrate_odes import integrate_odes

        assert ir.spiking is not None
        done = [
            integrate_odes(cell, arrays) for cell, arrays in zip(ir.spiking.cells, ir.spiking.array_params, strict=True)
        ]
        ir = replace(ir, spiking=replace(ir.spiking, cells=tuple(cell for cell, _ in done)))
        return ir.decided(d for _, d in done if d is not None)


class SplitCells(SpikingPass):
    """The step of a cell is divided where its pools are computed: compiler/passes/model/split_cells.py."""

    def run(self, context: Context, ir: Lowering) -> Lowering:
        from compiler.passes.model.split_cells import split_cell

        assert ir.spiking is not None
        return replace(ir, spiking=replace(ir.spiking, cells=tuple(map(split_cell, ir.spiking.cells))))


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
