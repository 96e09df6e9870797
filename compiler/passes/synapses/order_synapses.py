"""order_synapses: the operations of a synapse model in parts of their stages.

Assumes: take_sums and transpose_synapses have run: operations stand in their order within a stage.
Guarantees: all synapses are done with the parts before when one begins, over all projections. Sums, new synapses,
transposes and what is `apart` have a part to themselves; a search follows what neurons note of the event. The others
are where those before them are.
Does not: order stages (ir/level1/stages.py), or the rows of one operation (build_program.Place).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.level1.synapses import AtSynapses, Operation, OverSynapses, SynapseCell


def order_synapse(cell: SynapseCell) -> SynapseCell:
    """The cell with the parts of its operations."""
    operations = tuple(_numbered(cell.operations))
    return replace(cell, operations=operations) if operations != cell.operations else cell


def _numbered(operations: tuple[Operation, ...]) -> Iterator[Operation]:
    parts = Counter[str]()
    for x in operations:
        if not isinstance(x, OverSynapses):
            yield x
            continue
        alone = not isinstance(x, AtSynapses) or x.apart
        if alone or (isinstance(x, AtSynapses) and x.search and not parts[x.stage]):
            parts[x.stage] += 1
        yield replace(x, part=parts[x.stage]) if parts[x.stage] else x
        parts[x.stage] += alone
