"""Legality of level 0: synapse models and the projections that use them.

Assumes: populations are legal.
Guarantees: every breach is named.
  definitions  distinct names; equations are about declared states; expressions read only what SynapseDef allows, with
               a dot only what both ends have; statements assign to states and locals; conditions of events read one
               end; event-driven equations are linear in their own state with constant coefficients
  uses         every param and state has one value at each member; deliveries go into inputs; delays are whole and
               >= 0, and one per member where times are held per source neuron
Does not: repeat what the frontend tells users; a breach found here is a fault of the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import compiler.ir.level0.model as l0
from compiler.expr.ast import refs, substitute
from compiler.expr.diff import driven_by
from compiler.expr.functions import CONSTANTS
from compiler.expr.inline import named
from compiler.ir.level2.synapse_values import read_delayed
from compiler.verify.control import other_violations
from compiler.verify.violations import distinct, reads


def synapse_violations(
    s: l0.SynapseDef, model_params: set[str], counters: set[str], source: l0.NeuronDef, target: l0.NeuronDef
) -> Iterator[str]:
    """Every breach by a definition between two neuron models. `counters`: of phases."""
    params, states = [p.name for p in s.params], [x.name for x in s.state]
    yield from distinct("name", [*params, *states, *(x.target for x in s.lets)])
    yield from distinct("event", [e.name for e in s.events])
    yield from (f"`{name}` is shared, but is not a state" for name in s.shared or () if name not in states)
    yield from _rewirings(s)
    yield from (f"`{name}` is not a param of the model" for name in s.model_params if name not in model_params)
    fixed = {*params, *s.model_params, *counters, "t", "dt"}
    named_anew = {a.target for a in s.actions if isinstance(a, l0.Set)}
    connected = {*l0.CONNECTED, *(f"sum_into.{name}" for name in params)} - named_anew
    ends = {"pre": (s.pre, source), "post": (s.post, target)}
    dotted: set[str] = set()
    for end, (block, neuron) in ends.items():
        theirs = {*_variables(neuron), *s.times(end)}
        own = [x.name for x in block.state] if block is not None else []
        if block is not None:
            yield from (f"{end}: {v}" for v in _end(block, fixed, connected))
        yield from (f"`{end}.{name}` is two things" for name in own if name in theirs)
        dotted |= {f"{end}.{n}" for n in (*theirs, *own)}
    yield from _formulas(s.state, {*fixed, *states, *connected})
    fixed |= {name for other in s.others for name in other.dotted} | connected
    known = {*fixed, *states, *dotted}
    kept = {f"{end}.{x.name}" for end, (_, neuron) in ends.items() for xs in (neuron.state, neuron.inputs) for x in xs}
    for name in sorted(set[str]().union(*(read_delayed(e) for e in s.values)) - kept):
        yield f"`{name}` is read with the delay, but is no variable of a neuron"
    for let in s.lets:
        yield from reads(let.value, known, f"`{let.target} = ...`")
        known.add(let.target)
    yield from distinct("the derivative of", [o.state for o in s.dynamics])
    yield from _odes(s.dynamics, states, known)
    assignable = {*states}
    for where, actions in (
        ("update", s.update),
        ("on_pre", s.on_pre),
        ("on_post", s.on_post),
        *((f"event {e.name}", e.actions) for e in s.events),
        *((f"on {h.phase}.{h.event}", h.actions) for h in s.on),
    ):
        inputs = {end: {*(i.name for i in n.inputs), *s.own_inputs(end)} for end, (_, n) in ends.items()}
        yield from (f"{where}: {v}" for v in _actions(actions, known, assignable, inputs))
    for end, (block, neuron) in ends.items():
        for send in block.deliver if block is not None else ():
            yield from reads(send.value, fixed | {n for n in dotted if n.startswith(f"{end}.")}, f"{end}: deliver")
            if send.into is not None and send.into not in {i.name for i in neuron.inputs}:
                yield f"{end}: delivers into `{send.into}`, which is not an input"
    for event in s.events:
        yield from _event(event, ends, fixed, s.times(event.end))
    if s.event_driven:
        yield from _event_driven(s)


def _rewirings(s: l0.SynapseDef) -> Iterator[str]:
    rewirings = [a for a in s.actions if isinstance(a, l0.Rewire)]
    if any(a.how != "remove" and a.keep != s.rewired for a in rewirings) or (rewirings and s.rewired is None):
        yield f"what is rewired keeps {sorted({a.keep for a in rewirings})}, not {s.rewired}"
    if any(a.how != "rewire" for a in rewirings) and not s.vacancies:
        yield "synapses are removed or formed without vacancies"


def _event(
    event: l0.SynapseEvent,
    ends: Mapping[str, tuple[l0.EndDef | None, l0.NeuronDef]],
    fixed: set[str],
    times: tuple[str, ...],
) -> Iterator[str]:
    if event.end not in ends:
        yield f"event {event.name} is of `{event.end}`"
        return
    block, neuron = ends[event.end]
    traces = () if block is None else block.state
    own = {f"{event.end}.{n}" for n in (*_variables(neuron), *times, *(x.name for x in traces))}
    yield from reads(event.when, fixed | own, f"the condition of {event.name}")


def _variables(neuron: l0.NeuronDef) -> set[str]:
    return {*(p.name for p in neuron.params), *neuron.units}


def _end(block: l0.EndDef, fixed: set[str], connected: set[str]) -> Iterator[str]:
    states = [x.name for x in block.state]
    yield from distinct("variable", states)
    known = {*fixed, *states, *connected}
    for name in sorted(fixed & set(states)):
        yield f"`{name}` is a param too"
    yield from _formulas(block.state, known)
    yield from _odes(block.dynamics, states, known)
    for i in block.inputs:
        yield from [] if i.name in states else [f"the input `{i.name}` has no state"]
        yield from reads(i.decay, fixed, f"the decay of `{i.name}`") if i.decay is not None else ()
    for statement in block.statements:
        if statement.target not in states:
            yield f"`{statement.target}` cannot be assigned to"
        yield from reads(statement.value, known, f"`{statement.target} = ...`")


def _formulas(states: Iterable[l0.StateDecl], known: set[str]) -> Iterator[str]:
    for x in states:
        if isinstance(x.init, l0.Formula):
            yield from reads(x.init.expr, known, f"the initial value of `{x.name}`")


def _odes(odes: Iterable[l0.Ode], states: Sequence[str], known: set[str]) -> Iterator[str]:
    for ode in odes:
        if ode.state not in states:
            yield f"`{ode.state}` has a derivative, but is not a state"
        yield from reads(ode.rhs, known, f"d{ode.state}/dt")


def _actions(
    actions: tuple[l0.Action, ...], known: set[str], states: set[str], inputs: Mapping[str, set[str]]
) -> Iterator[str]:
    local = set(known)
    for action in actions:
        if isinstance(action, l0.Set):
            yield from reads(action.value, local, f"`{action.target} = ...`")
            if "." in action.target or (action.target in known and action.target not in states):
                yield f"`{action.target}` cannot be assigned to"
            local.add(action.target)
            continue
        if isinstance(action, l0.Rewire):
            yield from reads(action.value, local, "rewire(...)")
            continue
        if isinstance(action, l0.Transpose):
            if action.target not in states:
                yield f"`{action.target}` cannot be assigned to"
            continue
        yield from reads(action.value, local, "deliver(...)")
        if action.end not in ("pre", "post"):
            yield f"delivers at `{action.end}`"
        elif action.into is not None:
            if action.into not in inputs[action.end]:
                yield f"delivers into `{action.end}.{action.into}`, which is not an input"
        elif action.end == "pre":
            yield "delivers into no input of the source"


def _event_driven(s: l0.SynapseDef) -> Iterator[str]:
    constant = {*(p.name for p in s.params), *s.model_params, *CONSTANTS} - {x.name for x in s.state}
    lets = named(s.lets)
    solved = driven_by({ode.state: substitute(ode.rhs, lets) for ode in s.dynamics})
    for ode in s.dynamics:
        found = solved.get(ode.state)
        if found is None or not refs(found[1]) | set().union(*(refs(c) for c in found[0].values())) <= constant:
            yield f"d{ode.state}/dt cannot be solved for the time between events"


def use_violations(
    p: l0.Projection, populations: dict[str, l0.Population], model_params: set[str], counters: set[str]
) -> Iterator[str]:
    """Every breach by a projection's use of its synapse; a projection without one gives it no values."""
    s = p.synapse
    if s is None:
        given = (
            i
            for i, member in enumerate(p.members)
            if member.params or member.init or member.back_delay or member.back_delays
        )
        yield from (f"member {i} gives values to a synapse that is not there" for i in given)
        return
    if (p.into != "") != any(x.into is None for x in s.sends):
        yield f"the input is `{p.into}`, which does not fit what the synapse {s.name} delivers"
    read = set[str]().union(*(refs(v) for v in s.values))
    held = {end for end in ("pre", "post") for n in _late_times(s, end) if f"{end}.{n}" in read}
    tested = {name.partition(".")[0] for e in s.events for name in read_delayed(e.when)}
    params, states = [x.name for x in s.params], [x.name for x in s.state]
    seen: set[tuple[int, int]] = set()
    for i, member in enumerate(p.members):
        where = f"member {i} ({member.source} -> {member.target})"
        if [n for n, _ in member.params] != params:
            yield f"{where} has values for the params {[n for n, _ in member.params]}, not {params}"
        if [n for n, _ in member.init] != states:
            yield f"{where} has initial values for {[n for n, _ in member.init]}, not {states}"
        yield from _member_values(member, s, where)
        yield from (f"{where} {v}" for v in other_violations(s.others, member.others, populations))
        if not 0 <= member.occupied <= 1:
            yield f"{where} has {member.occupied} of its places occupied"
        if member.back_delay < 0:
            yield f"{where} has a back delay of {member.back_delay} steps"
        apart = {end for end in ("pre", "post") if member.delays_of(end) is not None}
        if held & apart:
            yield f"{where} has a delay per synapse, but times per neuron"
        if tested & apart:
            yield f"{where} has a delay per synapse, but a condition that reads with the delay"
        source, target = populations.get(member.source), populations.get(member.target)
        if source is None or target is None or (id(source.neuron), id(target.neuron)) in seen:
            continue
        seen.add((id(source.neuron), id(target.neuron)))
        found = synapse_violations(s, model_params, counters, source.neuron, target.neuron)
        yield from (f"synapse {s.name} ({member.source} -> {member.target}): {v}" for v in found)


def _late_times(s: l0.SynapseDef, end: str) -> tuple[str, ...]:
    """The times of what reaches synapses with the delay of an end."""
    late = (l0.SPIKE, *(e.name for e in s.events if e.end == end and e.delayed))
    return tuple(time for event in late for time in l0.times_of(event))


def _per_neuron(s: l0.SynapseDef) -> set[str]:
    """What is read once per neuron: by `pre:`, `post:` and conditions of events."""
    values = [e.when for e in s.events]
    for block in s.ends.values():
        values += block.values
        values += [x.init.expr for x in block.state if isinstance(x.init, l0.Formula)]
    return set().union(*(refs(v) for v in values))


def _member_values(member: l0.Member, s: l0.SynapseDef, where: str) -> Iterator[str]:
    params, states, per_neuron = [x.name for x in s.params], [x.name for x in s.state], _per_neuron(s)
    for name, value in member.params:
        if name in per_neuron and not isinstance(value, l0.Const):
            yield f"{where}: `{name}` is read once per neuron, but differs between synapses"
    for name, value in (*member.params, *member.init):
        if isinstance(value, l0.Formula):
            before = params if (name, value) in member.params else [*params, *states]
            yield from reads(value.expr, before[: before.index(name)], f"{where}: the value of `{name}`")
