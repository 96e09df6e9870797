"""lower_synapses: operations of synapses become rows of kernels.

Assumes: lower_cells has made the populations' arrays and event rings, with slots for delays and back delays; all passes
over synapse models have run.
Guarantees: a row, or a few, for each operation and projection; an operation is one text for all projections that run
its cell. Per-synapse delays are exact: one launch per possible delay. Statements of all synapses run in parts of their
stage: those after sums, or after synapses have been rewired, follow when all synapses have finished earlier ones.
Does not: make rows of deliveries that are known at the spike (deliver_known).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
import compiler.passes.projections.synapse_rows as rows
from compiler.ir.level1.projections import StoredProjection
from compiler.ir.level1.synapses import (
    GONE,
    Arrival,
    AtNeurons,
    AtSynapses,
    Event,
    Keep,
    NewSynapses,
    Operation,
    OverSynapses,
    SynapseCell,
    SynapseSum,
    Transposed,
)
from compiler.ir.level2.synapse_values import event_name, member_name
from compiler.ir.level2.variable_arrays import own_array
from compiler.passes.cells.cell_arrays import Deliveries, event_lists
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.projections.deliver_known import clear_columns, deliver_known, delivery_of
from compiler.passes.projections.synapse_arrays import ages
from compiler.passes.projections.synapse_rewire import renew
from compiler.passes.projections.synapse_schedule import EVERY_STEP, Due, Stages
from compiler.passes.projections.synapse_sums import gather, sum_text
from compiler.passes.projections.synapse_text import SynapseKernel, neurons_text, synapses_text
from compiler.passes.projections.synapse_transpose import transpose
from compiler.passes.projections.synapse_values import bind_names, steps_array
from compiler.passes.relations.relations import LoweredRelation
from compiler.passes.relations.stored_rows import Link


@dataclass
class SynapseLowering:
    """What the members of all families share while they are lowered."""

    builder: ProgramBuilder
    stages: Stages
    deliveries: Deliveries
    dt: float
    model_numbers: Mapping[str, float]
    phases: Mapping[str, l0.PhaseDef]
    projections: Mapping[str, l0.Projection]
    cells: tuple[SynapseCell, ...]
    _texts: dict[int, SynapseKernel] = field(default_factory=dict)
    _cache: rows.Cache = field(default_factory=dict)

    def family(self, p: StoredProjection, links: Iterable[tuple[int, Link]]) -> None:
        """Arrays and rows of the projections of a family, by number. A delivery that is known at the spike need not
        wait."""
        if p.known is not None:
            delivery = delivery_of(p.family, p.known, self.model_numbers, self.dt)
            for number, link in links:
                deliver_known(link, delivery, p.arrival_of(number), self.deliveries, self.stages)
            return
        copies, done = Counter(member_name(p.family, m) for m in p.family.members), Counter[str]()
        for number, link in links:
            self._lower(link, self.cells[p.cell_of(number)], done[link.stored], copies[link.stored])
            done[link.stored] += 1

    def _lower(self, link: Link, cell: SynapseCell, copy: int, copies: int) -> None:
        """Arrays and rows of one projection of a family: number `copy` of the `copies` that share its synapses
        (`Link.stored`)."""
        given = (link.projection, link.member, link.pre, link.post, link.builder, link.storage, link.shared)
        s = rows.Synapses(*given, self.stages, self.deliveries, cell, copy, copies, self._cache)
        s.numbers.update((every, self.phases[phase].every) for every, phase in cell.every.items())
        s.numbers.update(clear_columns(link.projection))
        found = s.found()
        bind_names(s, found, dict(self.model_numbers), self.dt)
        if cell.updated_at is not None:
            size = found.extent if cell.updated_at == "syn" else s.instance(cell.updated_at).size
            s.arrays["updated"] = steps_array(s, own_array(s.name, "updated"), cell.updated_at, size)
        for one in cell.operations:
            match one:
                case AtNeurons():
                    self._at_neurons(s, one)
                case Keep():
                    rows.keep_trace(s, one)
                case Arrival():
                    rows.take_delivered(s, one.stage, one.end, one.variable, one.name)
                case _:
                    s.parts[one.stage] = self._over_synapses(s, one, found, s.parts.get(one.stage, 0))

    def _at_neurons(self, s: rows.Synapses, one: AtNeurons) -> None:
        text = self._text(one, lambda: neurons_text(s.cell, one, s.deliveries.fixed_point))
        if one.sends:
            rows.at_every_neuron(s, one.stage, text, one.end)
        elif one.event is not None:
            rows.at_neurons(_noting(s, one, one.end), one.stage, text, one.end, _source(s, one.event))
        else:
            condition = one.condition
            if condition is not None:
                slots, size = _source(s, condition).slots, s.instance(one.end).size
                owner = event_name(s.projection, s.member, condition.name)
                event_lists(self.builder, owner, slots, size, s.projection.span)
            happening = None if condition is None else _source(s, condition)
            rows.at_all_neurons(s, one.stage, text, one.end, happening, self._due(one.due))

    def _over_synapses(self, s: rows.Synapses, one: OverSynapses, found: LoweredRelation, part: int) -> int:
        """The rows of an operation, after `part` of its stage; returns the first part that sees what it does."""
        due = self._due(one.due)
        match one:
            case SynapseSum():
                s.arrays.pop(one.name, None)
                past = _with_past(s, one)
                part = gather(past, one, self._text(one, lambda: sum_text(s.cell, one)), part, due)
                s.arrays[one.name] = past.arrays[one.name]
                return part
            case NewSynapses():
                return renew(s, one, part, due)
            case Transposed(copied=copied):
                if s.copy == 0 or not one.once:
                    transpose(s, self.projections[copied.projection], one.stage, copied, part + 1, due)
                return part + 2
            case AtSynapses():
                if s.copy == 0 or not one.once:
                    self._at_synapses(s, one, found, part, due)
                return part + 2 if one.apart else part

    def _at_synapses(self, s: rows.Synapses, one: AtSynapses, found: LoweredRelation, part: int, due: Due) -> None:
        text = self._text(one, lambda: synapses_text(s.cell, one, s.deliveries.fixed_point))
        if GONE in text.written:
            s.arrays[GONE] = steps_array(s, own_array(s.name, GONE), "syn", found.extent)
        s = _with_past(s, one)
        if one.event is not None:
            _reach(s, one, text, one.event)
        elif s.shared and text.written & set(s.cell.states):
            rows.at_elements(s, one.stage, text, found.extent, due, part)
        else:
            after = part + 1 if one.search or one.apart else part
            rows.at_synapses(_noting(s, one, "post"), one.stage, text, found, "pre", None, due=due, part=after)

    def _text(self, one: Operation, make: Callable[[], SynapseKernel]) -> SynapseKernel:
        """The text of an operation, made once."""
        return self._texts.get(id(one)) or self._texts.setdefault(id(one), make())

    def _due(self, due: tuple[str, str] | None) -> Due:
        if due is None:
            return EVERY_STEP
        phase = self.phases[due[0]]
        at = dict(phase.events)[due[1]]
        return phase.every, (1 if at == 0 else at) % phase.every


def _source(s: rows.Synapses, event: Event) -> rows.EventSource:
    """The lists of an event, and how old the events are that arrive now."""
    late = s.member.delay_of(event.end) if event.delayed else 0
    if event.name == l0.SPIKE:
        instance = s.instance(event.end)
        return rows.events_of(instance.name, instance.slots, late)
    return rows.events_of(event_name(s.projection, s.member, event.name), late + rows.SLOTS, late)


def _with_past(s: rows.Synapses, one: AtSynapses | SynapseSum) -> rows.Synapses:
    """With the ring buffers of the traces that an operation reads as they were."""
    if not one.past:
        return s
    return replace(s, arrays={**s.arrays, **{name: s.rings[name, kept] for name, kept in one.past}})


def _noting(s: rows.Synapses, one: AtNeurons | AtSynapses, end: str) -> rows.Synapses:
    """With the array in which neurons note that an event has arrived."""
    if not one.search:
        return s
    arrived = steps_array(s, own_array(s.name, f"arrived.{one.search}"), end, s.instance(end).size)
    return replace(s, arrays={**s.arrays, "arrived": arrived})


def _reach(s: rows.Synapses, one: AtSynapses, text: SynapseKernel, event: Event) -> None:
    """The statements run at the synapses that an event reaches now."""
    happening, found = _source(s, event), s.found(one.walk)
    if not one.each_age:
        rows.at_synapses(s, one.stage, text, found, one.walk, happening)
        return
    for age in ages(s.projection, s.member, event.end):
        rows.at_synapses(s, one.stage, text, found, one.walk, replace(happening, delay=age), age)
