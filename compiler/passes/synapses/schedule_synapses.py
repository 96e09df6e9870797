"""schedule_synapses: the statements of synapse models become operations, each in its stage of a step.

Assumes: synapse models with symbols; the frontend has rejected impossible ones (statements at spikes of neurons that
never spike, traces that read per-synapse values, times of spikes beside per-synapse delays).
Guarantees: the order of SynapseDef: traces and synapses advance by a step, then on_pre, `pre: on_spike`, on_post,
`post: on_spike`, events, their times; statements at events of phases before or after all of that. A trace is an
operation at the neurons of its end, its jump one at those with an event alone. The times of spikes that are read are
kept, and where the step of the last update of event-driven states is: per source neuron when only on_pre uses them, per
target when only on_post does, else per synapse.
Does not: integrate equations (integrate_synapses), take sums out of statements (take_sums), wait for delays
(insert_delays).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.stages as stage
from compiler.expr.ast import Ref, refs
from compiler.expr.inline import reads_through
from compiler.ir.level1.synapses import Arrival, AtNeurons, AtSynapses, Event, Operation, SynapseCell


def schedule_synapse(cell: SynapseCell, phases: Mapping[str, l0.PhaseDef]) -> SynapseCell:
    cell = replace(cell, updated_at=_updated_at(cell))
    d, operations = cell.definition, list[Operation]()
    for end, block in d.ends.items():
        if block.dynamics or block.update or block.inputs:
            operations.append(AtNeurons(stage.ENDS, f"{end} traces", end, block.update, dynamics=block.dynamics))
    dynamics = () if d.event_driven else d.dynamics
    if dynamics or d.update:
        operations.append(AtSynapses(stage.UPDATE, "every step", d.update, dynamics=dynamics or None))
    for end, actions, at, then in (
        ("pre", d.on_pre, stage.ON_PRE, stage.PRE_SPIKE),
        ("post", d.on_post, stage.ON_POST, stage.POST_SPIKE),
    ):
        if actions:
            operations.append(AtSynapses(at, f"on_{end}", actions, Event(l0.SPIKE, end, True), end))
        operations += _after_spike(cell, end, then)
    for event in d.events:
        operations += _event(cell, event)
    for handler in d.on:
        operations += _at_event(handler, phases)
    for end, block in d.ends.items():
        operations += _end_later(cell, end, block, phases)
    return replace(cell, definition=_declared(d), operations=tuple(operations))


def _after_spike(cell: SynapseCell, end: str, then: str) -> Iterator[Operation]:
    """Effects of a spike on its own neuron: `on_spike`, the times of spikes, the update step of event-driven states."""
    block = cell.end(end)
    sets = [*(block.on_spike if block is not None else ()), *_times(cell, end, l0.SPIKE)]
    if cell.updated_at == end:
        sets.append(l0.Set("updated", Ref("step")))
    if sets:
        yield AtNeurons(then, f"{end} spike", end, tuple(sets), Event(l0.SPIKE, end, True))


def _event(cell: SynapseCell, event: l0.SynapseEvent) -> Iterator[Operation]:
    """A condition of its own: its test, what it does at synapses, and its times."""
    own = Event(event.name, event.end, event.delayed)
    happens = (l0.Set("happens", event.when, event.span),)
    yield AtNeurons(stage.CONDITIONS, f"condition of {event.name}", event.end, happens, condition=own)
    if event.actions:
        yield AtSynapses(stage.EVENTS, f"event {event.name}", event.actions, own, event.end)
    times = _times(cell, event.end, event.name)
    if times:
        yield AtNeurons(stage.EVENT_TIMES, f"times of {event.name}", event.end, tuple(times), own)


def _times(cell: SynapseCell, end: str, event: str) -> list[l0.Set]:
    """What keeps the steps of an event of an end, as far as they are read."""
    held = {x.variable: name for name, x in cell.externals.items() if x.end == end}
    times, (last, previous) = cell.times(end, event), l0.times_of(event)
    before = [l0.Set(held[previous], Ref(held[last]))] if previous in times else []
    return [*before, *([l0.Set(held[last], Ref("step"))] if times else [])]


def _at_event(handler: l0.SynapseHandler, phases: Mapping[str, l0.PhaseDef]) -> Iterator[Operation]:
    """Statements of every synapse at an event of a phase; from the first `transpose` on they run after those of all
    projections."""
    what, actions, due = f"at {handler.phase}.{handler.event}", handler.actions, (handler.phase, handler.event)
    start = dict(phases[handler.phase].events)[handler.event] == 0
    stages = (stage.START, stage.START_TRANSPOSED) if start else (stage.END, stage.END_TRANSPOSED)
    first = next((k for k, a in enumerate(actions) if isinstance(a, l0.Transpose)), len(actions))
    if first:
        yield AtSynapses(stages[0], what, actions[:first], due=due)
    if actions[first:]:
        yield AtSynapses(stages[1], f"{what}, transposed", actions[first:], due=due)


def _end_later(cell: SynapseCell, end: str, block: l0.EndDef, phases: Mapping[str, l0.PhaseDef]) -> Iterator[Operation]:
    """What traces do at events of phases, after all that synapses do then; what arrives in inputs that the projection
    holds, and what it delivers from there in every step."""
    for handler in block.on:
        start = dict(phases[handler.phase].events)[handler.event] == 0
        what, where = f"{end} at {handler.phase}.{handler.event}", stage.ENDS_START if start else stage.ENDS_END
        yield AtNeurons(where, what, end, handler.actions, due=(handler.phase, handler.event))
    for variable, name in cell.own_inputs(end).items():
        yield Arrival(stage.OWN_INPUTS, end, variable, name)
    if block.deliver:
        yield AtNeurons(stage.OWN_DELIVER, f"{end}: deliver", end, sends=block.deliver)


def driven(cell: SynapseCell) -> frozenset[str]:
    """The event-driven states."""
    d = cell.definition
    return frozenset(o.state for o in d.dynamics) if d.event_driven else frozenset()


def used_lets(cell: SynapseCell, actions: tuple[l0.Action, ...]) -> list[l0.Set]:
    """The named expressions that actions read, directly or indirectly, in order."""
    read = reads_through(l0.values_of(actions), cell.definition.lets)
    return [let for let in cell.definition.lets if let.target in read]


def touches(cell: SynapseCell, actions: tuple[l0.Action, ...]) -> bool:
    """Whether actions read or write a state that is event-driven."""
    names = {a.target for a in actions if isinstance(a, l0.Set)}
    names |= set().union(*(refs(e) for e in l0.values_of((*actions, *used_lets(cell, actions)))))
    return bool(names & driven(cell))


def _updated_at(cell: SynapseCell) -> str | None:
    d = cell.definition
    if not driven(cell):
        return None
    used = [name for name, actions in (("pre", d.on_pre), ("post", d.on_post)) if touches(cell, actions)]
    others = [d.update, *(e.actions for e in d.events), *(h.actions for h in d.on)]
    apart = bool(cell.delays) or any(touches(cell, x) for x in others)
    apart = apart or any(isinstance(a, l0.Rewire) for x in others for a in x)
    return used[0] if len(used) == 1 and not apart else "syn"


def _declared(d: l0.SynapseDef) -> l0.SynapseDef:
    """A definition without the statements that are in operations now."""

    def block(b: l0.EndDef | None) -> l0.EndDef | None:
        return None if b is None else replace(b, dynamics=(), update=(), on_spike=(), on=(), deliver=())

    return replace(
        d,
        pre=block(d.pre),
        post=block(d.post),
        dynamics=d.dynamics if d.event_driven else (),
        update=(),
        on_pre=(),
        on_post=(),
        events=tuple(replace(e, actions=()) for e in d.events),
        on=(),
    )
