"""synapse_cells: which synapse models projections run (level 1).

Assumes: storages are decided; cells of neurons, and which of their params differ from neuron to neuron, are known.
Guarantees: members of families that share a synapse model, an input, a kind of storage, the ends with delays of their
own and what dynamics find in arrays share one SynapseCell, numbered by first appearance. Families whose deliveries are
known at the spike have none.
Does not: schedule statements (schedule_synapses).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
from compiler.connect import rule_of
from compiler.connect.storage import STORAGES
from compiler.core.symbols import model_name
from compiler.expr.ast import refs
from compiler.ir.level1.cells import Instance
from compiler.ir.level1.spiking import StoredProjection
from compiler.ir.level1.synapses import External, SynapseCell
from compiler.ir.level2.synapse_values import COUNTED
from compiler.passes.model.synapse_symbols import CONNECTED, TOTAL, bind_synapse

DRAWN_AGAIN = ("procedural", "bitmask")
"""Storages in which params that follow from places are worked out where they are read."""


@dataclass
class SynapseCells:
    """Mutable while projections are lowered. `instances`: by population."""

    instances: Mapping[str, Instance]
    cells: list[SynapseCell] = field(default_factory=list)
    _bound: dict[int, tuple[l0.SynapseDef, SynapseCell]] = field(default_factory=dict)
    _numbers: dict[tuple[int, str, bool], int] = field(default_factory=dict)
    _known: dict[object, int] = field(default_factory=dict)

    def of(self, p: StoredProjection) -> tuple[int, ...]:
        """The cell of each member, or the one of all."""
        if p.known is not None:
            return ()
        synapse, rule = p.family.statements, rule_of(p.family)
        _, bound = self._bound.setdefault(id(synapse), (synapse, bind_synapse(synapse)))
        read = _read_by_dynamics(bound)
        used = [m for m in p.family.members if not rule.empty(m.args)]
        found = [self._of(p, m, bound, read) for m in (used or p.family.members)]
        if len(set(found)) == 1:
            return (found[0],)
        numbers = iter(found)
        return tuple(next(numbers) if not rule.empty(m.args) else found[0] for m in p.family.members)

    def _of(self, p: StoredProjection, member: l0.Member, bound: SynapseCell, read: frozenset[str]) -> int:
        clears = p.family.clear is not None
        number = (id(p.family.statements), p.family.into, clears)
        delays = tuple(end for end in ("pre", "post") if member.delays_of(end) is not None)
        arrays = _arrays(bound, member, read, p.storage, self.instances) if read else ()
        searched = not STORAGES[p.storage].by_target
        key = (number, delays, arrays, searched)
        if key not in self._known:
            self._known[key] = len(self.cells)
            number_of = self._numbers.setdefault(number, len(self._numbers))
            kind = replace(bound, into=p.family.into, number=number_of, clears=clears, delays=delays)
            self.cells.append(replace(kind, searched=searched, arrays=arrays))
        return self._known[key]


def _read_by_dynamics(bound: SynapseCell) -> frozenset[str]:
    """The names that equations of a step read, named expressions included."""
    d = bound.definition
    odes = [*(() if d.event_driven else d.dynamics), *(o for b in d.ends.values() for o in b.dynamics)]
    if not odes:
        return frozenset()
    return frozenset().union(*(refs(o.rhs) for o in odes), *(refs(x.value) for x in d.lets))


def _arrays(
    bound: SynapseCell, member: l0.Member, read: frozenset[str], storage: str, instances: Mapping[str, Instance]
) -> tuple[str, ...]:
    """The names among `read` that are no single number in a member."""
    d, given = bound.definition, dict(member.params)
    found = [n for n, x in bound.externals.items() if x.end == CONNECTED and x.variable in COUNTED]
    for p in d.params:
        value = given.get(model_name(p.name), p.default)
        again = isinstance(value, l0.Placed) and storage in DRAWN_AGAIN
        found += [] if isinstance(value, l0.Const) or again else [p.name]
    found += bound.states
    ends = {"pre": instances[member.source], "post": instances[member.target]}
    found += [n for n, x in bound.externals.items() if _is_array(bound, n, x, ends)]
    return tuple(n for n in found if n in read)


def _is_array(bound: SynapseCell, name: str, x: External, ends: Mapping[str, Instance]) -> bool:
    """Whether what belongs to an end differs from neuron to neuron, or from step to step."""
    if x.end in (CONNECTED, TOTAL):
        return False
    block = bound.end(x.end) if x.end in ends else None
    trace = block is not None and any(s.name == name for s in block.state)
    if trace or x.end not in ends or "." in x.variable or x.delayed:
        return True
    return not isinstance(dict(ends[x.end].params).get(x.variable), l0.Const)
