"""synapse_sums: sums over the synapses of a neuron, `sum_post(w)`, become arrays of that neuron's population, and sums
over instances of the network, `sum_instances(dw)`, arrays of the synapses that they share.

Assumes: take_sums has run; terms of sums are not random.
Guarantees: a sum sees the values of all synapses after the statements before it. It is a row that writes the initial
value and one that gathers, synapse by synapse in the order of the relation on every backend, so that it has the same
bits on all of them under `bitwise`, and on each run under `reproducible`. Over instances there is a row per instance
that adds to each synapse's sum, in sequence. Over a kernel: kernel_sums.py.
Does not: take sums out of statements (take_sums), or run these (lower_synapses).
"""

from __future__ import annotations

import math
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from compiler.core.symbols import printed
from compiler.expr.ast import Call, Cond, Expr, Ref
from compiler.ir.level1.synapses import EXISTS, SynapseCell, SynapseSum
from compiler.ir.level2.synapse_values import INSTANCES, KERNEL
from compiler.ir.space import own_array
from compiler.passes.program.build_program import Place
from compiler.passes.projections.kernel_sums import over_kernel
from compiler.passes.projections.synapse_rows import BoundArray, Synapses, at_synapses, start_row, work_array
from compiler.passes.projections.synapse_text import SynapseKernel, statements_of
from compiler.passes.synapses.schedule_synapses import used_lets

STARTS: Final = {"sum": 0.0, "max": -math.inf, "min": math.inf}


def gather(s: Synapses, one: SynapseSum, text: SynapseKernel, at: Place) -> None:
    """Makes the array of a sum and the rows that compute it (`text`)."""
    if one.end == KERNEL:
        over_kernel(s, one, text, STARTS.get(one.op, 0.0), at)
    elif one.end == INSTANCES:
        found = s.found()
        s.arrays[one.name] = _started(s, one, found.extent, "syn", at)
        at_synapses(s, at.then(1 + s.copy), text, found, "pre", None, join=False)
    else:
        s.arrays[one.name] = _started(s, one, s.instance(one.end).size, one.end, at)
        at_synapses(s, at.then(), text, s.found(one.end), one.end, None, gather=True)


def _started(s: Synapses, one: SynapseSum, size: int | l2.SizeOf, end: str, at: Place) -> BoundArray:
    """The array of a sum, and the row that initialises it: once for all instances that share it."""
    array = own_array(s.stored if end == "syn" else s.name, f"{one.what}.{printed(one.name)}")
    held = BoundArray(array, s.builder.precision, end)
    if end == "syn" and s.copy > 0:
        return held
    work_array(s, array, size)
    start_row(s, one, array, size, STARTS[one.op], at)
    return held


def sum_text(cell: SynapseCell, one: SynapseSum) -> SynapseKernel:
    """What computes a sum, or the value of each synapse, at a synapse."""
    held = Ref(one.name)
    step = l0.Set(one.name, one.value)
    lets = used_lets(cell, (step,))
    if one.end == KERNEL:
        value: Expr = Call("float", (one.value,))
    elif one.op == "sum":
        value = held + one.value
    else:
        value = Call(one.op, (held, Call("float", (one.value,))))
    if cell.definition.vacancies:
        value = Cond(EXISTS, value, held)
    return SynapseKernel(f"{one.what}: {printed(one.name)}", statements_of([*lets, l0.Set(one.name, value)], "syn"))
