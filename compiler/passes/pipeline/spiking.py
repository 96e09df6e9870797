"""The passes of the spiking half: from populations (level 0) over cells (level 1) to kernels (level 2).

Assumes: a legal model; passes here run only where it has `populations`.
Guarantees: phases of connecting and of initial values, and "step"; cells whose equations have been integrated.
Does not: merge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import compiler.ir.level2.program as l2
from compiler.ir.level1.spiking import SpikingGraph
from compiler.ir.level1.synapses import SynapseCell
from compiler.passes.model.freeze_learning import freeze_learning
from compiler.passes.model.insert_delays import insert_delays
from compiler.passes.model.integrate_odes import integrate_odes
from compiler.passes.model.order_populations import order_populations
from compiler.passes.model.source_cells import lower_with_drives, split_source
from compiler.passes.model.split_cells import split_cell
from compiler.passes.pipeline.manager import Context, Lowering, Pass
from compiler.passes.program.decisions import Decision
from compiler.passes.projections.lower_populations import lower_populations
from compiler.passes.synapses.advance_states import advance_states
from compiler.passes.synapses.integrate_synapses import integrate_synapse
from compiler.passes.synapses.keep_traces import keep_traces
from compiler.passes.synapses.order_synapses import order_synapse
from compiler.passes.synapses.schedule_synapses import schedule_synapse
from compiler.passes.synapses.take_sums import take_sums
from compiler.passes.synapses.transpose_synapses import transpose_synapse


def _pass(name: str, run: Callable[[Context, Lowering], Lowering]) -> Pass:
    return Pass(name, run, lambda context, ir: context.populations and bool(ir.model.populations))


def _on_graph(name: str, change: Callable[[SpikingGraph, Lowering], SpikingGraph]) -> Pass:
    def run(context: Context, ir: Lowering) -> Lowering:
        assert ir.spiking is not None
        return replace(ir, spiking=change(ir.spiking, ir))

    return _pass(name, run)


def _on_synapses(name: str, change: Callable[[SynapseCell, SpikingGraph], SynapseCell]) -> Pass:
    """Each synapse model takes another form."""
    return _on_graph(name, lambda s, ir: replace(s, synapses=tuple(change(cell, s) for cell in s.synapses)))


def _integrate_odes(context: Context, ir: Lowering) -> Lowering:
    """Equations become statements of one step, of neurons and of synapses."""
    assert ir.spiking is not None
    done = [integrate_odes(*given) for given in zip(ir.spiking.cells, ir.spiking.array_params, strict=True)]
    synapses = [integrate_synapse(cell) for cell in ir.spiking.synapses]
    driving = [integrate_odes(source.cell, source.various) for source in ir.spiking.sources]
    spiking = replace(
        ir.spiking,
        cells=tuple(cell for cell, _ in done),
        sources=tuple(replace(x, cell=cell) for x, (cell, _) in zip(ir.spiking.sources, driving, strict=True)),
        synapses=tuple(cell for cell, _ in synapses),
    )
    found = dict.fromkeys((*(d for _, chosen in synapses for d in chosen), *(d for _, d in driving)))
    return replace(ir, spiking=spiking).decided(d for d in (*(d for _, d in done), *found) if d is not None)


def _split_cells(graph: SpikingGraph, ir: Lowering) -> SpikingGraph:
    cells, sources = tuple(map(split_cell, graph.cells)), tuple(map(split_source, graph.sources))
    return replace(graph, cells=cells, sources=sources)


def _order_populations(context: Context, ir: Lowering) -> Lowering:
    assert ir.spiking is not None
    spiking, made = order_populations(ir.spiking)
    return replace(ir, spiking=spiking).decided(made)


def _lower_populations(context: Context, ir: Lowering) -> Lowering:
    """Cells, drives, records and projections become kernels."""
    assert ir.spiking is not None
    order, target = context.order, context.capabilities
    fixed_point = order is l2.Order.BITWISE or (order is l2.Order.REPRODUCIBLE and not target.atomic_order)
    how = "fixed-point accumulators" if fixed_point else "direct accumulation"
    made = [Decision("lower_cells", ir.model.name, how, f"order: {order.value} on {target.name}")]
    spiking, steps = ir.spiking, target.recorded_steps
    program = lower_populations(ir.model, spiking, context.precision, order, fixed_point, steps)
    return replace(ir, programs=(*ir.programs, program)).decided(made)


SPIKING: Final[tuple[Pass, ...]] = (
    _pass("freeze_learning", lambda context, ir: replace(ir, model=freeze_learning(ir.model))),
    _pass("lower_model", lambda context, ir: replace(ir, spiking=lower_with_drives(ir.model))),
    _on_synapses("schedule_synapses", lambda cell, graph: schedule_synapse(cell, graph.phases)),
    _on_graph("insert_delays", lambda graph, ir: insert_delays(ir.model, graph)),
    _pass("integrate_odes", _integrate_odes),
    _on_graph("split_cells", _split_cells),
    _pass("order_populations", _order_populations),
    _on_synapses("take_sums", lambda cell, graph: take_sums(cell)),
    _on_synapses("advance_states", lambda cell, graph: advance_states(cell)),
    _on_synapses("keep_traces", lambda cell, graph: keep_traces(cell)),
    _on_synapses("transpose_synapses", lambda cell, graph: transpose_synapse(cell)),
    _on_synapses("order_synapses", lambda cell, graph: order_synapse(cell)),
    _pass("lower_populations", _lower_populations),
)
"""In order: level 0, level 1 (cells of neurons and of synapses), level 2 (kernels)."""
