"""lower_synapses: operations of synapses become rows of kernels.

Assumes: lower_cells has made the populations' arrays and event rings, with slots for delays and back delays; all passes
over synapse models have run.
Guarantees: a row, or a few, for each operation and projection; an operation is one text for all projections that run
its cell. Per-synapse delays are exact: one launch per possible delay.
Does not: make rows of deliveries that are known at the spike (deliver_known).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

import compiler.ir.level0.model as l0
import compiler.ir.level1.synapses as l1
import compiler.passes.projections.synapse_rows as rows
from compiler.ir.level1.spiking import SpikingGraph, StoredProjection
from compiler.ir.level2.synapse_values import event_name, member_name
from compiler.ir.space import own_array
from compiler.passes.cells.cell_arrays import Deliveries, due_steps, event_lists
from compiler.passes.program.build_program import EVERY_STEP, Place, ProgramBuilder
from compiler.passes.projections.deliver_known import clear_columns, deliver_known, delivery_of, together
from compiler.passes.projections.synapse_arrays import ages
from compiler.passes.projections.synapse_rewire import renew
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
    deliveries: Deliveries
    dt: float
    model_numbers: Mapping[str, float]
    projections: Mapping[str, l0.Projection]
    graph: SpikingGraph
    _texts: dict[int, SynapseKernel] = field(default_factory=dict)
    _places: dict[int, Place] = field(default_factory=dict)
    _cache: rows.Cache = field(default_factory=dict)

    def families(self, links: Callable[[StoredProjection], Iterable[tuple[int, Link]]]) -> None:
        """Arrays and rows of all projections. `links`: those of a family, by number. A delivery that is known at the
        spike need not wait; neighbours of one kind are lowered at once."""
        for known, family in groupby(self.graph.projections, lambda p: p.known is not None):
            if known:
                self._known((p, number, link) for p in family for number, link in links(p))
            else:
                for p in family:
                    self._family(p, links(p))

    def _known(self, members: Iterable[tuple[StoredProjection, int, Link]]) -> None:
        def kind(member: tuple[StoredProjection, int, Link]) -> object:
            p, number, link = member
            return together(link, p.arrival_of(number), self.deliveries) or (p.name, number)

        for _, group in groupby(members, kind):
            (p, number, first), *others = group
            assert p.known is not None
            delivery = delivery_of(p.family, p.known, self.model_numbers, self.dt)
            links = (first, *(link for _, _, link in others))
            deliver_known(links, delivery, p.arrival_of(number), self.deliveries)

    def _family(self, p: StoredProjection, links: Iterable[tuple[int, Link]]) -> None:
        """Arrays and rows of the projections of a family that run a cell, by number."""
        copies, done = Counter(member_name(p.family, m) for m in p.family.members), Counter[str]()
        for number, link in links:
            self._lower(link, self.graph.synapses[p.cell_of(number)], done[link.stored], copies[link.stored])
            done[link.stored] += 1

    def _lower(self, link: Link, cell: l1.SynapseCell, copy: int, copies: int) -> None:
        """Arrays and rows of one projection of a family: number `copy` of the `copies` that share its synapses
        (`Link.stored`)."""
        given = (link.projection, link.member, link.pre, link.post, link.builder, link.storage, link.shared)
        s = rows.Synapses(*given, self.deliveries, cell, copy, copies, self._cache)
        s.numbers.update((every, self.graph.phases[phase].every) for every, phase in cell.every.items())
        s.numbers.update(clear_columns(link.projection))
        found = s.found()
        bind_names(s, found, dict(self.model_numbers), self.dt)
        if cell.updated_at is not None:
            size = found.extent if cell.updated_at == "syn" else s.instance(cell.updated_at).size
            s.arrays["updated"] = steps_array(s, own_array(s.name, "updated"), cell.updated_at, size)
        for one in cell.operations:
            match one:
                case l1.AtNeurons():
                    self._at_neurons(s, one)
                case l1.Keep():
                    rows.keep_trace(s, one)
                case l1.Arrival():
                    rows.take_delivered(s, one)
                case l1.SynapseSum():
                    self._sum(s, one)
                case l1.NewSynapses():
                    renew(s, one, self._place(one))
                case l1.Transposed(copied=copied) if s.copy == 0 or not one.once:
                    transpose(s, self.projections[copied.projection], copied, self._place(one))
                case l1.AtSynapses() if s.copy == 0 or not one.once:
                    self._at_synapses(s, one, found)

    def _at_neurons(self, s: rows.Synapses, one: l1.AtNeurons) -> None:
        text = self._text(one, lambda: neurons_text(s.cell, one, s.deliveries.fixed_point))
        if one.sends or one.event is not None:
            happening = None if one.event is None else _source(s, one.event)
            rows.at_neurons(_noting(s, one, one.end), self._place(one), text, one.end, happening)
        else:
            happening, size = None, s.instance(one.end).size
            if one.condition is not None:
                happening = _source(s, one.condition)
                owner = event_name(s.projection, s.member, one.condition.name)
                event_lists(self.builder, owner, happening.slots, size, s.projection.span)
            rows.at_all(s, self._place(one), text, one.end, size, happening)

    def _sum(self, s: rows.Synapses, one: l1.SynapseSum) -> None:
        s.arrays.pop(one.name, None)
        past = _with_past(s, one)
        gather(past, one, self._text(one, lambda: sum_text(s.cell, one)), self._place(one))
        s.arrays[one.name] = past.arrays[one.name]

    def _at_synapses(self, s: rows.Synapses, one: l1.AtSynapses, found: LoweredRelation) -> None:
        text = self._text(one, lambda: synapses_text(s.cell, one, s.deliveries.fixed_point))
        if l1.GONE in text.written:
            s.arrays[l1.GONE] = steps_array(s, own_array(s.name, l1.GONE), "syn", found.extent)
        s = _with_past(s, one)
        if one.event is not None:
            _reach(s, one, text, one.event, self._place(one))
        elif s.shared and text.written & set(s.cell.states):
            rows.at_all(s, self._place(one), text, "syn", found.extent)
        else:
            rows.at_synapses(_noting(s, one, "post"), self._place(one), text, found, "pre", None)

    def _text(self, one: l1.Operation, make: Callable[[], SynapseKernel]) -> SynapseKernel:
        """The text of an operation, made once."""
        return self._texts.get(id(one)) or self._texts.setdefault(id(one), make())

    def _place(self, one: l1.AtNeurons | l1.OverSynapses) -> Place:
        """That of an operation, made once."""
        if id(one) not in self._places:
            due = EVERY_STEP if one.due is None else due_steps(self.graph.phases, one.due)
            self._places[id(one)] = Place(one.stage, due, 0 if isinstance(one, l1.AtNeurons) else one.part)
        return self._places[id(one)]


def _source(s: rows.Synapses, event: l1.Event) -> rows.EventSource:
    """The lists of an event, and how old the events are that arrive now."""
    late = s.member.delay_of(event.end) if event.delayed else 0
    if event.name == l0.SPIKE:
        instance = s.instance(event.end)
        return rows.events_of(instance.name, instance.slots, late)
    return rows.events_of(event_name(s.projection, s.member, event.name), late + rows.SLOTS, late)


def _with_past(s: rows.Synapses, one: l1.AtSynapses | l1.SynapseSum) -> rows.Synapses:
    """With the ring buffers of the traces that an operation reads as they were."""
    if not one.past:
        return s
    return replace(s, arrays={**s.arrays, **{name: s.rings[name, kept] for name, kept in one.past}})


def _noting(s: rows.Synapses, one: l1.AtNeurons | l1.AtSynapses, end: str) -> rows.Synapses:
    """With the array in which neurons note that an event has arrived."""
    if not one.search:
        return s
    arrived = steps_array(s, own_array(s.name, f"arrived.{one.search}"), end, s.instance(end).size)
    return replace(s, arrays={**s.arrays, "arrived": arrived})


def _reach(s: rows.Synapses, one: l1.AtSynapses, text: SynapseKernel, event: l1.Event, at: Place) -> None:
    """The statements run at the synapses that an event reaches now."""
    happening, found = _source(s, event), s.found(one.walk)
    if not one.each_age:
        rows.at_synapses(s, at, text, found, one.walk, happening)
        return
    for age in ages(s.projection, s.member, event.end):
        rows.at_synapses(s, at, text, found, one.walk, replace(happening, delay=age), age)
