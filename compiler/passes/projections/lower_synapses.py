"""lower_synapses: projections of synapses with statements (plasticity).

Assumes: lower_cells has made the populations' arrays and event rings, with slots for delays and back delays; the
frontend has rejected impossible models (statements at spikes of neurons that never spike, traces that read per-synapse
values, times of spikes beside per-synapse delays).
Guarantees: the order of SynapseDef: traces and synapses advance by a step, then on_pre, `pre: on_spike`, on_post,
`post: on_spike`, events, their times. A trace is a map over the neurons of its end, its jump a kernel over the events
alone; event-driven states cost nothing between events. Per-synapse delays are exact: one launch per possible delay runs
on_pre where the synapse's delay is the event's age.
Does not: make rows of deliveries that are known at the spike (deliver_known).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.graph as l1
import compiler.ir.level2.program as l2
import compiler.passes.projections.synapse_rows as rows
from compiler.connect.storage import STORAGES
from compiler.expr.ast import Cond, Expr, Ref, refs
from compiler.ir.level1.projections import StoredProjection
from compiler.ir.level2.synapse_values import event_name, member_name
from compiler.passes.cells.cell_arrays import Deliveries
from compiler.passes.model.integrate_odes import integrate_odes
from compiler.passes.model.synapse_symbols import Flat, flatten
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.decisions import Decision
from compiler.passes.projections import synapse_schedule as stage
from compiler.passes.projections.clearing import REMAINS, clear_columns, waits
from compiler.passes.projections.deliver_known import deliver_known, delivery_of
from compiler.passes.projections.synapse_arrays import DELAYS, ages
from compiler.passes.projections.synapse_rewire import rewire
from compiler.passes.projections.synapse_schedule import EVERY_STEP, Due, Stages
from compiler.passes.projections.synapse_sums import Segment, gather, segments
from compiler.passes.projections.synapse_text import SynapseKernel, statements_of, text_of, touches
from compiler.passes.projections.synapse_transpose import transpose
from compiler.passes.projections.synapse_values import bind_names, condition_arrays, steps_array
from compiler.passes.relations.stored_rows import Link


@dataclass
class SynapseLowering:
    """What the members of all families share while they are lowered."""

    builder: ProgramBuilder
    stages: Stages
    deliveries: Deliveries
    dt: float
    model_numbers: Mapping[str, float]
    decisions: list[Decision]
    phases: Mapping[str, l0.PhaseDef] = field(default_factory=dict)
    projections: Mapping[str, l0.Projection] = field(default_factory=dict)
    _flat: dict[int, tuple[l0.SynapseDef, Flat]] = field(default_factory=dict)
    _families: dict[tuple[int, str, bool], int] = field(default_factory=dict)
    _cache: rows.Cache = field(default_factory=dict)

    def family(self, p: StoredProjection, links: Iterable[Link]) -> None:
        """Arrays and rows of the projections of a family. A delivery that is known at the spike need not wait."""
        if p.known is not None:
            delivery = delivery_of(p.family, p.known, self.model_numbers, self.dt)
            for link in links:
                deliver_known(link, delivery, self.deliveries, self.stages)
            return
        copies, done = Counter(member_name(p.family, m) for m in p.family.members), Counter[str]()
        for link in links:
            self._lower(link, done[link.stored], copies[link.stored])
            done[link.stored] += 1

    def _lower(self, link: Link, copy: int, copies: int) -> None:
        """Arrays and rows of one projection of a family: number `copy` of the `copies` that share its synapses
        (`Link.stored`)."""
        synapse = link.projection.statements
        if id(synapse) not in self._flat:
            self._flat[id(synapse)] = (synapse, flatten(synapse))
        flat = self._flat[id(synapse)][1]
        family = (id(synapse), link.projection.into, waits(link.projection))
        number = self._families.setdefault(family, len(self._families))
        given = (link.projection, link.member, link.pre, link.post, link.builder, link.storage, link.shared)
        s = rows.Synapses(*given, self.stages, self.deliveries, flat, number, copy, copies, self._cache)
        _check(s)
        s.numbers.update((every, self.phases[phase].every) for every, phase in flat.every.items())
        s.numbers.update(clear_columns(link.projection))
        found = s.found()
        bind_names(s, found, dict(self.model_numbers), self.dt)
        updated_at = _event_driven(s, found.extent)
        self._ends(s)
        self._every_step(s)
        self._on_pre(s, updated_at)
        _after_spike(s, "pre", updated_at)
        self._on_post(s, updated_at)
        _after_spike(s, "post", updated_at)
        for event in s.flat.definition.events:
            self._event(s, event, updated_at)
        for handler in s.flat.definition.on:
            self._at_event(s, handler, updated_at)
        for end in ("pre", "post"):
            block = s.flat.end(end)
            for own in block.on if block is not None else ():
                self._end_at_event(s, end, own)
            self._own_inputs(s, end)

    def _own_inputs(self, s: rows.Synapses, end: str) -> None:
        """What arrives in inputs that the projection holds at an end, and what it delivers from there in every step."""
        for variable, name in s.flat.own_inputs(end).items():
            rows.take_delivered(s, stage.OWN_INPUTS, end, variable, name)
        block = s.flat.end(end)
        if block is not None and block.deliver:
            what, sends = f"{end}: deliver", block.deliver

            def made() -> SynapseKernel:
                return text_of(s.flat, what, sends, s.projection.into, s.deliveries.fixed_point, vacant=True)

            rows.at_every_neuron(s, stage.OWN_DELIVER, self._once(s, (what,), made), end)

    # ------------------------------------------------------------------------------------ every step

    def _ends(self, s: rows.Synapses) -> None:
        d = s.flat.definition
        for end in ("pre", "post"):
            block = s.flat.end(end)
            if block is None or not (block.dynamics or block.update or block.inputs):
                continue

            def made(end: str = end, block: l0.EndDef = block) -> SynapseKernel:
                return self._integrated(s, f"{end} traces", f"{d.name}: {end}", block.dynamics, block.update, end)

            rows.at_all_neurons(s, stage.ENDS, self._once(s, (end, *_kinds(s)), made), end)

    def _every_step(self, s: rows.Synapses) -> None:
        d = s.flat.definition
        dynamics = () if d.event_driven else d.dynamics
        if not (dynamics or d.update):
            return

        def made(what: str, actions: tuple[l0.Action, ...], first: bool) -> SynapseKernel:
            before = dynamics if first else ()
            cell, sets = self._cell(s, d.name, d.state, before, (), "syn") if before else (None, [])
            derived = () if cell is None else cell.derived
            updated = None if not d.event_driven else "syn"
            return _text(s, what, actions, before=sets, derived=derived, updated_at=updated)

        self._at_all_synapses(s, stage.UPDATE, "every step", d.update, made, bool(dynamics))

    def _integrated(
        self, s: rows.Synapses, what: str, name: str, dynamics: tuple[l0.Ode, ...], update: tuple[l0.Set, ...], end: str
    ) -> SynapseKernel:
        block = s.flat.end(end)
        assert block is not None
        cell, sets = self._cell(s, name, block.state, dynamics, update, end, block.inputs)
        return SynapseKernel(what, statements_of(sets, "i"), (), cell.derived)

    def _cell(
        self,
        s: rows.Synapses,
        name: str,
        state: tuple[l0.StateDecl, ...],
        dynamics: tuple[l0.Ode, ...],
        update: tuple[l0.Set, ...],
        at: str,
        inputs: tuple[l0.InputDecl, ...] = (),
    ) -> tuple[l1.Cell, list[l0.Set]]:
        """The equations for one step: integrated as those of a neuron, with other arrays constant."""
        d = s.flat.definition
        own = tuple(x.name for x in state)
        cell = l1.Cell(
            name=name,
            params=(),
            state=tuple(n for n in own if n not in {i.name for i in inputs}),
            inputs=tuple((i.name, i.decay) for i in inputs),
            lets=d.lets if at == "syn" else (),
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
        arrays = tuple(n for n in s.arrays if n in read and n not in own)
        done, decision = integrate_odes(cell, arrays)
        if decision is not None and decision not in self.decisions:
            self.decisions.append(decision)
        return done, list(done.step)

    def _once(self, s: rows.Synapses, key: tuple[object, ...], made: Callable[[], SynapseKernel]) -> SynapseKernel:
        """The statements of one occasion, built once for all members of one kind."""
        held = (s.member.delays is not None, s.member.back_delays is not None, _looked_for(s, "post"))
        full = ("text", s.number, *held, *key)
        if full not in s.cache:
            s.cache[full] = made()
        found: SynapseKernel = s.cache[full]
        return found

    def _at_event(self, s: rows.Synapses, handler: l0.SynapseHandler, updated_at: str | None) -> None:
        what = f"at {handler.phase}.{handler.event}"
        phase = self.phases[handler.phase]
        at = dict(phase.events)[handler.event]
        where, offset = (stage.START, 1) if at == 0 else (stage.END, at)
        then = stage.START_TRANSPOSED if at == 0 else stage.END_TRANSPOSED
        actions = handler.actions
        first = next((k for k, a in enumerate(actions) if isinstance(a, l0.Transpose)), len(actions))

        def made(what: str, actions: tuple[l0.Action, ...], first: bool) -> SynapseKernel:
            return _text(s, what, actions, updated_at)

        due = (phase.every, offset % phase.every)
        self._at_all_synapses(s, where, what, actions[:first], made, False, (updated_at,), due)
        self._at_all_synapses(s, then, f"{what}, transposed", actions[first:], made, False, (updated_at,), due)

    def _end_at_event(self, s: rows.Synapses, end: str, handler: l0.Handler) -> None:
        """What traces do at an event of a phase, after all that synapses do then."""
        what, phase = f"{end} at {handler.phase}.{handler.event}", self.phases[handler.phase]
        at = dict(phase.events)[handler.event]
        where, offset = (stage.ENDS_START, 1) if at == 0 else (stage.ENDS_END, at)
        text = self._once(s, (what,), lambda: SynapseKernel(what, statements_of(handler.actions, "i")))
        rows.at_all_neurons(s, where, text, end, due=(phase.every, offset % phase.every))

    def _at_all_synapses(
        self,
        s: rows.Synapses,
        where: str,
        what: str,
        actions: tuple[l0.Action, ...],
        made: Callable[[str, tuple[l0.Action, ...], bool], SynapseKernel],
        also: bool,
        key: tuple[object, ...] = (),
        due: Due = EVERY_STEP,
    ) -> None:
        """Statements of every synapse. Those that rewire, or read sums over synapses, run after all synapses have
        finished earlier ones; those that assign to states shared by instances run once. `also`: the first part is
        needed even without statements."""
        known = ("segments", id(s.flat), what)
        if known not in s.cache:
            s.cache[known] = segments(s.flat, actions)
        found = s.found()
        part = s.parts.get(where, 0)
        parts: list[Segment] = s.cache[known]
        for number, segment in enumerate(parts):
            called = what if number == 0 else f"{what} ({number + 1})"
            for one in segment.sums:
                part = gather(s, where, called, one, part, due)
            if segment.rewire is not None:
                part = rewire(s, where, called, segment.rewire, part, due)
            if segment.transpose is not None:
                other = self.projections[segment.transpose.projection]
                part = transpose(s, other, where, segment.transpose, part, due)
            if (segment.actions or (also and number == 0)) and (s.copy == 0 or not segment.shared):
                held = segment.actions

                def text(
                    called: str = called, held: tuple[l0.Action, ...] = held, first: bool = number == 0
                ) -> SynapseKernel:
                    return made(called, held, first)

                own = self._once(s, (called, *key, *_kinds(s)), text)
                if s.shared and own.written & set(s.flat.states):
                    rows.at_elements(s, where, own, found.extent, due, part)
                else:
                    rows.at_synapses(s, where, own, found, "pre", None, due=due, part=part)
            for one in segment.sums:
                del s.arrays[one.name]
        s.parts[where] = part

    # --------------------------------------------------------------------------------------- at spikes

    def _on_pre(self, s: rows.Synapses, updated_at: str | None) -> None:
        self._at_spikes(s, "pre", stage.ON_PRE, s.flat.definition.on_pre, updated_at)

    def _on_post(self, s: rows.Synapses, updated_at: str | None) -> None:
        self._at_spikes(s, "post", stage.ON_POST, s.flat.definition.on_post, updated_at)

    def _at_spikes(
        self, s: rows.Synapses, end: str, where: str, actions: tuple[l0.Action, ...], updated_at: str | None
    ) -> None:
        if not actions:
            return
        what, spikes = f"on_{end}", rows.spikes_of(s.instance(end), _delay(s, end))
        text = self._once(s, (what, updated_at), lambda: _text(s, what, actions, updated_at, arriving(s, end)))
        _reach(s, where, text, end, spikes, l0.SPIKE)

    def _event(self, s: rows.Synapses, event: l0.SynapseEvent, updated_at: str | None) -> None:
        late = _delay(s, event.end) if event.delayed else 0
        array = event_name(s.projection, s.member, event.name)
        happening = rows.EventSource(f"{array}.spikes", f"{array}.spike_count", late + rows.SLOTS, late)
        condition_arrays(s, array, event.end, happening.slots)
        named = f"condition of {event.name}"
        when = l0.Set("happens", event.when, event.span)
        condition = self._once(s, ("when", event.name), lambda: SynapseKernel(named, statements_of([when], "i")))
        rows.at_all_neurons(s, stage.CONDITIONS, condition, event.end, happening)
        if event.actions:
            self._arrivals(s, event, happening, updated_at)
        sets = _times(s, event.end, event.name)
        if sets:
            what, sets = f"times of {event.name}", _if(arriving(s) if event.delayed else (), sets)
            times = self._once(s, ("times", event.name), lambda: SynapseKernel(what, statements_of(sets, "syn")))
            rows.at_neurons(s, stage.EVENT_TIMES, times, event.end, happening)

    def _arrivals(
        self, s: rows.Synapses, event: l0.SynapseEvent, happening: rows.EventSource, updated_at: str | None
    ) -> None:
        """What an event does at synapses."""
        key, what = ("event", event.name, updated_at), f"event {event.name}"
        tests = arriving(s, event.end, event.delayed)
        text = self._once(s, key, lambda: _text(s, what, event.actions, updated_at, tests))
        _reach(s, stage.EVENTS, text, event.end, happening, event.name, event.delayed)


def _looked_for(s: rows.Synapses, end: str) -> bool:
    """Whether synapses at events of an end are looked for among all, as the storage finds those of sources alone."""
    return end == "post" and not STORAGES[s.storage].by_target


def _reach(
    s: rows.Synapses,
    where: str,
    text: SynapseKernel,
    end: str,
    happening: rows.EventSource,
    event: str,
    delayed: bool = True,
) -> None:
    """The statements run at the synapses that events of an end reach now: for each age that events can have, where
    they are `delayed` and delays differ from synapse to synapse."""
    if _looked_for(s, end):
        array = f"{s.name}.arrived.{event}"
        s = replace(s, arrays={**s.arrays, "arrived": steps_array(s, array, end, s.post.size)})
        mark = SynapseKernel(f"{event} arrives", statements_of([l0.Set("arrived", Ref("step"))], "syn"))
        rows.at_neurons(s, where, mark, end, happening)
        rows.at_synapses(s, where, text, s.found(), "pre", None, part=1)
    elif delayed and s.member.delays_of(end) is not None:
        for age in ages(s.projection, s.member, end):
            rows.at_synapses(s, where, text, s.found(end), end, replace(happening, delay=age), age)
    else:
        rows.at_synapses(s, where, text, s.found(end), end, happening)


def arriving(s: rows.Synapses, end: str | None = None, delayed: bool = True) -> tuple[Expr, ...]:
    """What must hold for an event to reach a neuron, or a synapse of a neuron of `end`: that the delay of the synapse
    is the event's age, where it is `delayed`; or that the neuron has one now (`_looked_for`)."""
    tests: tuple[Expr, ...] = ()
    if end is not None and delayed and s.member.delays_of(end) is not None:
        tests = (Ref(DELAYS[end]).eq(Ref("age")),)
    elif end is not None and _looked_for(s, end):
        tests = (Ref("arrived").eq(Ref("step")),)
    return (*tests, *((REMAINS,) if delayed and waits(s.projection) else ()))


def _if(tests: tuple[Expr, ...], sets: list[l0.Set]) -> list[l0.Set]:
    """Statements that change something where all tests hold."""
    for test in tests:
        sets = [replace(x, value=Cond(test, x.value, Ref(x.target))) for x in sets]
    return sets


def _kinds(s: rows.Synapses) -> tuple[str, ...]:
    """The names that are arrays in this member, which determine how equations are integrated."""
    return tuple(s.arrays)


def _text(
    s: rows.Synapses,
    what: str,
    actions: tuple[l0.Action, ...],
    updated_at: str | None = None,
    tests: tuple[Expr, ...] = (),
    before: list[l0.Set] | tuple[()] = (),
    derived: tuple[l1.DerivedScalar | l1.Propagator, ...] = (),
) -> SynapseKernel:
    return text_of(
        s.flat,
        what,
        actions,
        s.projection.into,
        s.deliveries.fixed_point,
        updated_at=updated_at,
        tests=tests,
        before=before,
        derived=derived,
    )


def _event_driven(s: rows.Synapses, extent: int | l2.SizeOf) -> str | None:
    """Where the step of the last update of event-driven states is stored: per source neuron when only on_pre uses them,
    per target when only on_post does, else per synapse. None: not event-driven."""
    d = s.flat.definition
    if not (d.event_driven and d.dynamics):
        return None
    used = [name for name, actions in (("pre", d.on_pre), ("post", d.on_post)) if touches(s.flat, actions)]
    others = [d.update, *(e.actions for e in d.events), *(h.actions for h in d.on)]
    apart = any(s.member.delays_of(e) is not None for e in DELAYS) or any(touches(s.flat, x) for x in others)
    apart = apart or any(isinstance(a, l0.Rewire) for x in others for a in x)
    end = used[0] if len(used) == 1 and not apart else "syn"
    array = f"{s.name}.updated"
    size = extent if end == "syn" else s.instance(end).size
    s.arrays["updated"] = steps_array(s, array, end, size)
    return end


def _after_spike(s: rows.Synapses, end: str, updated_at: str | None) -> None:
    """Effects of a spike on its own neuron: `on_spike`, the times of spikes, the update step of event-driven states."""
    block = s.flat.end(end)
    sets = list(block.on_spike) if block is not None else []
    sets += _times(s, end, l0.SPIKE)
    if updated_at == end:
        sets.append(l0.Set("updated", Ref("step")))
    if not sets:
        return
    key = ("text", s.number, "after", end, updated_at)
    if key not in s.cache:
        s.cache[key] = SynapseKernel(f"{end} spike", statements_of(_if(arriving(s), sets), "syn"))
    where = stage.PRE_SPIKE if end == "pre" else stage.POST_SPIKE
    apart = s.member.delays_of(end) is not None  # the block follows its neuron, and synapses see its past
    rows.at_neurons(s, where, s.cache[key], end, rows.spikes_of(s.instance(end), 0 if apart else _delay(s, end)))


def _times(s: rows.Synapses, end: str, event: str) -> list[l0.Set]:
    """What keeps the steps of an event of an end, as far as they are read."""
    held = {x.variable: name for name, x in s.flat.externals.items() if x.end == end}
    times, (last, previous) = s.flat.times(end, event), l0.times_of(event)
    before = [l0.Set(held[previous], Ref(held[last]))] if previous in times else []
    return [*before, *([l0.Set(held[last], Ref("step"))] if times else [])]


def _delay(s: rows.Synapses, end: str) -> int:
    return s.member.delay_of(end)


def _check(s: rows.Synapses) -> None:
    """Asserts what the frontend guarantees."""
    d = s.flat.definition

    def at_spikes(end: str) -> bool:
        block = s.flat.end(end)
        return bool(s.flat.times(end)) or (block is not None and bool(block.on_spike))

    for end, actions in (("pre", d.on_pre), ("post", d.on_post)):
        assert s.instance(end).slots > 0 or not (actions or at_spikes(end)), f"{s.name}: `{end}` never spikes"
    for end in DELAYS:
        assert s.member.delays_of(end) is None or not s.flat.times(end), f"{s.name}: delays and times of spikes"
