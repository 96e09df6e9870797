"""integrate_synapses: equations of synapses, and of their traces, become statements of one step.

Assumes: schedule_synapses has run; what `SynapseCell.arrays` names differs from synapse to synapse.
Guarantees: `dynamics` of operations is None afterwards. They are integrated as those of a neuron (integrate_odes), with
arrays that are not their own constant.
Does not: integrate event-driven states (advance_states).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.expr.ast import refs
from compiler.ir.level1.synapses import AtNeurons, AtSynapses, Operation, SynapseCell
from compiler.passes.model.integrate_odes import integrate_odes
from compiler.passes.program.decisions import Decision


def integrate_synapse(cell: SynapseCell) -> tuple[SynapseCell, list[Decision]]:
    """The cell with equations integrated, and the methods that were chosen."""
    decisions: list[Decision] = []

    def done(x: Operation) -> Operation:
        match x:
            case AtNeurons(dynamics=(*odes,)):
                block = cell.end(x.end)
                assert block is not None
                name = f"{cell.definition.name}: {x.end}"
                step = _step(cell, name, block.state, tuple(odes), x.statements, block.inputs, (), decisions)
                return replace(x, statements=step.step, derived=step.derived, dynamics=None)
            case AtSynapses(dynamics=(*odes,)):
                d = cell.definition
                step = _step(cell, d.name, d.state, tuple(odes), (), (), d.lets, decisions)
                return replace(x, integrated=step.step, derived=step.derived, dynamics=None)
        return x

    operations = tuple(map(done, cell.operations))
    return (replace(cell, operations=operations) if operations != cell.operations else cell), decisions


def _step(
    cell: SynapseCell,
    name: str,
    state: tuple[l0.StateDecl, ...],
    dynamics: tuple[l0.Ode, ...],
    update: tuple[l0.Set, ...],
    inputs: tuple[l0.InputDecl, ...],
    lets: tuple[l0.Set, ...],
    decisions: list[Decision],
) -> l1.Cell:
    d = cell.definition
    own = tuple(x.name for x in state)
    whole = l1.Cell(
        name=name,
        params=(),
        state=tuple(n for n in own if n not in {i.name for i in inputs}),
        inputs=tuple((i.name, i.decay) for i in inputs),
        lets=lets,
        dynamics=dynamics,
        update=update,
        when=None,
        reset=(),
        refractory=None,
        hold=(),
        method=d.method,
        span=d.span,
    )
    read = set().union(*(refs(o.rhs) for o in dynamics), *(refs(x.value) for x in d.lets))
    done, decision = integrate_odes(whole, tuple(n for n in cell.arrays if n in read and n not in own))
    if decision is not None:
        decisions.append(decision)
    return done
