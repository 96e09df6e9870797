"""keep_traces: variables of `pre:` and `post:` that synapses with delays of their own see as they were.

Assumes: insert_delays, take_sums and advance_states have run.
Guarantees: a variable reaches each synapse with the delay of its end, together with the spikes that arrive there: it is
read from a ring buffer, of values before the spikes of a step or after them, whichever the stage of the operation sees.
What fills the ring buffer stands before the first operation that reads it.
Does not: keep variables of neurons, `delayed(pre.v)` (insert_delays).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.expr.ast import refs
from compiler.ir.level1.stages import ENDS_PAST, POST_PAST, PRE_PAST, START, START_TRANSPOSED, seen_before
from compiler.ir.level1.synapses import AtSynapses, Keep, Operation, SynapseCell, SynapseSum
from compiler.passes.synapses.schedule_synapses import used_lets


def keep_traces(cell: SynapseCell) -> SynapseCell:
    """The cell with its ring buffers of traces."""
    if not cell.delays:
        return cell
    operations: list[Operation] = []
    for x in cell.operations:
        if isinstance(x, AtSynapses | SynapseSum):
            read = tuple(dict.fromkeys(_late(cell, x)))
            operations += (one for one in read if one not in operations)
            x = replace(x, past=tuple((one.name, one.stage) for one in read))
        operations.append(x)
    return replace(cell, operations=tuple(operations))


def _late(cell: SynapseCell, x: AtSynapses | SynapseSum) -> Iterator[Keep]:
    """What an operation reads late, in order."""
    read = _reads(cell, x)
    for end, after in (("pre", PRE_PAST), ("post", POST_PAST)):
        block = cell.end(end)
        if end not in cell.delays or block is None:
            continue
        for name in sorted({s.name for s in block.state} & read):
            assert x.stage not in (START, START_TRANSPOSED), f"`{name}` has no value yet"
            yield Keep(ENDS_PAST if seen_before(x.stage, end) else after, end, name)


def _reads(cell: SynapseCell, x: AtSynapses | SynapseSum) -> set[str]:
    actions = (l0.Set(x.name, x.value),) if isinstance(x, SynapseSum) else x.actions
    values = l0.values_of((*actions, *used_lets(cell, actions)))
    if isinstance(x, AtSynapses):
        values += (*l0.values_of((*x.integrated, *x.advance)), *x.tests)
    return set().union(*map(refs, values))
