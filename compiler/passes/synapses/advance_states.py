"""advance_states: event-driven states are brought to the step of an operation that reads or changes them.

Assumes: schedule_synapses and take_sums have run; dynamics are linear, each state by itself, or driven by states y with
dy/dt = k y.
Guarantees: with ds/dt = a s + b, s += (a s + b) T exprel(a T), T the time since the last update (s exp(a T) where b is
0), and what y adds (linear_system.response), which is exact; states cost nothing between events. The step of the update
is noted there where it is per synapse.
Does not: decide where it is stored, or note it per neuron (schedule_synapses).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import Call, Expr, Num, Ref, substitute
from compiler.expr.diff import driven_by
from compiler.expr.inline import named
from compiler.ir.level1.synapses import AtSynapses, SynapseCell
from compiler.passes.model.linear_system import is_zero, response
from compiler.passes.synapses.schedule_synapses import touches


def advance_states(cell: SynapseCell) -> SynapseCell:
    """The cell, with its operations after the statements of event-driven states."""
    if cell.updated_at is None:
        return cell
    noted = (l0.Set("updated", Ref("step")),) if cell.updated_at == "syn" else ()
    advance = (*_up_to_date(cell.definition), *noted)
    operations = (
        replace(x, advance=advance) if isinstance(x, AtSynapses) and touches(cell, x.actions) else x
        for x in cell.operations
    )
    return replace(cell, operations=tuple(operations))


def _up_to_date(d: l0.SynapseDef) -> list[l0.Set]:
    """Event-driven states at the end of this step, from their values in step `updated`."""
    lets = named(d.lets)
    elapsed = Ref("elapsed")
    out = [l0.Set("elapsed", (Ref("step") - Ref("updated")) * Ref("dt"))]
    solved = driven_by({o.state: substitute(o.rhs, lets) for o in d.dynamics})
    driving = {n for name, (factors, _) in solved.items() for n in factors if n != name}
    for ode in sorted(d.dynamics, key=lambda o: o.state in driving):  # what they drive reads them as they were
        factors, constant = solved[ode.state]
        rate = factors.get(ode.state, Num(0.0))
        state = Ref(ode.state)
        time = rate * elapsed
        if is_zero(constant):
            value: Expr = state if is_zero(rate) else state * Call("exp", (time,))
        elif is_zero(rate):
            value = state + constant * elapsed
        else:
            slope = rate * state + constant
            value = state + slope * (elapsed * Call("exprel", (time,)))
        for name, factor in factors.items():
            if name != ode.state:
                k = solved[name][0][name]
                most = Call("exp", (Call("max", (rate, k)) * elapsed,))
                value = value + factor * Ref(name) * response(rate, k, most, elapsed)
        out.append(l0.Set(ode.state, value, ode.span))
    return out
