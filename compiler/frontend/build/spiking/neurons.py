"""Neuron definitions: from a resolved block of `neurons` to a NeuronDef.

Assumes: the block has been validated; `use` has been expanded.
Guarantees: every expression is typed and dimension-checked in the scope defined by the language: params see preceding
params; lets, dynamics, updates, the spike condition and resets see params, state, inputs, `t` and `dt`; updates and
later statements see locals assigned before.
Does not: choose integrators, or check the values of populations (build_populations does).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import compiler.frontend.build.shared.definition_builder as parts
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at
from compiler.core.source import Span
from compiler.expr.ast import Cond, Expr, Num, Ref, calls, refs, substitute
from compiler.expr.functions import RANDOM
from compiler.expr.inline import reads_through
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension
from compiler.frontend.build.instances.history import build_histories, with_histories
from compiler.frontend.build.instances.neurons import assigned_at_event, check_shared_states
from compiler.frontend.build.instances.shared import shared_states
from compiler.frontend.build.shared.others import build_others, explain_undeclared
from compiler.frontend.build.shared.phases import build_actions, build_handlers, counters
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import Scope, Wanted, read_statement
from compiler.frontend.build.shared.values import Context, entries_of, listed, mapping, text_of
from compiler.frontend.build.spiking.drives import noise_method, with_hidden, with_noise
from compiler.frontend.build.spiking.pools import Pools, explain_absent
from compiler.frontend.language.spiking.neurons import NEURON
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar


@dataclass
class BuiltNeuron:
    """A definition with the data for checking its users. `definition` is None after an error."""

    name: str
    definition: l0.NeuronDef | None
    params: dict[str, Dimension | None]
    states: dict[str, Dimension | None]
    inputs: dict[str, Dimension | None]
    places: dict[str, Span]
    span: Span
    spikes: bool
    source: str
    refractory: Span | None = None
    nearest: bool = False
    origins: dict[str, Span] = field(default_factory=dict)  # spans of the defaults of params
    shared: dict[str, Dimension | None] = field(default_factory=dict)  # variables of its pools
    histories: dict[str, int] = field(default_factory=dict)  # how many values each has

    @cached_property
    def times(self) -> tuple[tuple[str, Expr, Span | None], ...]:
        """The decays and the refractory period, whose values are checked for each population: what they are, and where
        they are written."""
        assert self.definition is not None
        found = [
            (f"`decay` of the input `{i.name}`", i.decay, self.origins.get(f"{i.name}.decay"))
            for i in self.definition.inputs
            if i.decay is not None
        ]
        spike = self.definition.spike
        if spike is not None and spike.refractory is not None:
            found.append(("the refractory period", spike.refractory, self.refractory))
        return tuple(found)


_EQUATIONS: Final = "state inputs let dynamics update spike method pool population others events history on shared"


def build_neuron(name: str, node: tree.Mapping, at: Span, c: Context) -> BuiltNeuron:
    """The neuron definition `node`, declared at `at`; with `definition` None when it has errors (reported)."""
    before = len(c.sink.items)
    d = parts.Draft(name, node, c)
    source = text_of(node.get("source")) or "equations"
    params = parts.build_params(d)
    state = parts.build_states(d)
    inputs = build_inputs(d)
    others = build_others(d)
    flags = _flags(d)
    histories = build_histories(d, d.scope(d.params, d.states, d.inputs, {"t": TIME, "dt": TIME}, counters(c)))
    times: dict[str, Dimension | None] = {"t": TIME, "dt": TIME, **counters(c), **d.others, **d.flags, **d.past}
    scope = d.scope(d.params, d.states, d.inputs, times)
    pools = Pools(d)
    if pools.read_by(e.value for e in entries_of(node.get("let"))):
        scope = pools.built(scope)
    lets, scope = parts.build_lets(d, scope)
    noisy, noise = with_noise((e.value for e in entries_of(node.get("dynamics"))), scope)
    dynamics = () if pools.present else parts.build_dynamics(d, noisy)
    update, inner = parts.build_update(d, scope, lambda node, now: pools.built(now) if pools.read_by((node,)) else now)
    if pools.present:  # the dynamics read the pools of the step before, whose dimensions are known only now
        inner = pools.built(inner)
        scope = pools.extended(scope)
        dynamics = parts.build_dynamics(d, pools.extended(noisy))
    spike = _spike(d, inner, lets, update)
    spike, state, update = _with_condition(d, inner, spike, state, update)
    held, after = _events(d, inner, pools.extended(scope))
    _check_reset(d, spike, dynamics, (*lets, *update), (*update, *after))
    on = build_handlers(d, node.get("on"), scope, {**d.states, **d.inputs}, {}, assigned_at_event)
    on = with_histories(on, histories)
    shared = shared_states(d) or ()
    made = pools.with_handlers(scope, on, at)
    _check_emptied(d, inputs, lets, (*on, *(h for pool in made for h in pool.on)))
    method = noise_method(d, dynamics, lets, noise, l0.Method(Reader(NEURON, node, c).word("method")))
    explain_absent(d, before)
    explain_undeclared(d, before)
    if source != "equations":
        parts.without_equations(d, source, _EQUATIONS.split(), {"times": "{unit: ms}", "indices": '{unit: "1"}'})
    definition: l0.NeuronDef | None = None
    if not c.sink.failed(before):
        states, updates = (*state, *flags, *(s for h in histories for s in h.states)), (*update, *held)
        whole = l0.NeuronDef(name, params, states, inputs, lets, dynamics, updates, spike, method, source, pools=made)
        whole = replace(whole, on=on, others=others, shared=shared, span=at, events=tuple(d.flags), after=after)
        definition = finished(d, whole)
        check_shared_states(definition, d)
        definition = with_hidden(d, definition, noise)
        if source == "equations":
            parts.note_unread(d, params, "neuron")
    return _built(d, definition, source, at, pools)


def _check_emptied(
    d: parts.Draft, inputs: tuple[l0.InputDecl, ...], lets: tuple[l0.Set, ...], on: tuple[l0.Handler, ...]
) -> None:
    """E0802 where an event after a step reads an input without decay: it is empty then."""
    held = {i.name for i in inputs if i.decay is None and f"{i.name}.decay" not in d.origins}  # one may have an error
    at = {(p.name, event): steps for p in d.c.phases for event, steps in p.events}
    for handler in on:
        given: set[str] = set()
        for action in handler.actions if at[handler.phase, handler.event] > 0 else ():
            read = sorted(reads_through((action.value,), lets) & held - given)
            if read:
                message = f"`{read[0]}` is empty at `{handler.phase}.{handler.event}`: it has no `decay` and has acted"
                help = f"keep it in a state: `update: [last = {read[0]}]`"
                d.c.sink.error("E0802", message, action.span, help, declared_at(d.places[read[0]]))
            given.add(action.target)


def _built(d: parts.Draft, definition: l0.NeuronDef | None, source: str, at: Span, pools: Pools) -> BuiltNeuron:
    spike = mapping(d.node.get("spike"))
    refractory = spike.get("refractory") if spike is not None else None
    return BuiltNeuron(
        d.name,
        definition,
        d.params,
        {**d.states, **d.flags, **d.past},
        d.inputs,
        d.places,
        at,
        spike is not None or source != "equations",
        source,
        None if refractory is None else refractory.span,
        definition is not None and definition.spike is not None and definition.spike.round_refractory,
        d.origins,
        dict(pools.dimensions),
        dict(d.histories),
    )


# ---------------------------------------------------------------------------------- declarations


def build_inputs(d: parts.Draft) -> tuple[l0.InputDecl, ...]:
    out: list[l0.InputDecl] = []
    scope = d.scope(d.params)
    for entry in entries_of(d.node.get("inputs")):
        name, block = entry.name, mapping(entry.value)
        if not d.declare(entry.key, "an input") or block is None:
            continue
        unit = block.get("unit")
        dimension = DIMENSIONLESS if unit is None else parts.unit_dimension(unit, d.c)
        d.inputs[name] = dimension
        decay = block.get("decay")
        tau: Expr | None = None
        if decay is not None:
            found = d.check(decay, scope, Wanted(f"`decay` of `{name}`", TIME))
            tau = None if found is None else found.expr
            d.origins[f"{name}.decay"] = decay.span
        out.append(l0.InputDecl(name, parts.unit_name(dimension), tau, entry.key.span))
    return tuple(out)


# ---------------------------------------------------------------------------------------- spikes


def _spike(d: parts.Draft, scope: Scope, lets: tuple[l0.Set, ...], update: tuple[l0.Set, ...]) -> l0.Spike | None:
    block = mapping(d.node.get("spike"))
    if block is None:
        return None
    when_node = block.get("when")
    when = None if when_node is None else d.check(when_node, scope, Wanted("`when`", None, True, None))
    reset: list[l0.Set] = []
    for node in listed(block.get("reset")):
        statement = read_statement(node, scope, d.c.sink)
        if statement is None:
            continue
        target = statement.target
        if target not in d.states:
            parts.not_a_state(d, target, statement.target_span, "cannot be reset")
            continue
        found = parts.assigned(d, statement, scope, Wanted(f"`{target}`", d.states[target], False, None), node)
        if found is not None:
            reset.append(l0.Set(target, found.expr, statement.span))
    refractory, hold, nearest = _refractory(d, block)
    if when is None or when_node is None:
        return None
    if refractory is not None and hold is None:
        hold = _states_in(when.expr, d, (*lets, *update))
    return l0.Spike(when.expr, tuple(reset), refractory, hold or (), nearest, when_node.span)


def _check_reset(
    d: parts.Draft,
    spike: l0.Spike | None,
    dynamics: tuple[l0.Ode, ...],
    definitions: tuple[l0.Set, ...],
    statements: tuple[l0.Set, ...],
) -> None:
    """W0010 where only equations can end the condition of a spike, which nothing else says to be meant."""
    block = mapping(d.node.get("spike"))
    if spike is None or block is None or "reset" in block or "refractory" in block or RANDOM & calls(spike.when):
        return
    moved = {ode.state for ode in dynamics} - {s.target for s in statements}
    read = [state for state in _states_in(spike.when, d, definitions) if state in moved]
    if read:
        message = f"neuron `{d.name}` has no `reset`: it spikes in every step in which the condition holds"
        help = f"write `reset: [{read[0]} = ...]`, `refractory: {{while: ...}}`, or `reset: []` where that is meant"
        d.c.sink.warning("W0010", message, spike.span, help)


def _flags(d: parts.Draft) -> tuple[l0.StateDecl, ...]:
    """The events of the neuron as variables, which its equations read and do not assign to."""
    out: list[l0.StateDecl] = []
    for entry in entries_of(d.node.get("events")):
        if d.declare(entry.key, "an event"):
            d.flags[entry.name] = DIMENSIONLESS
            out.append(l0.StateDecl(entry.name, "1", l0.Const(0.0), entry.key.span))
    return tuple(out)


def _events(d: parts.Draft, scope: Scope, after: Scope) -> tuple[tuple[l0.Set, ...], tuple[l0.Set, ...]]:
    """The statements that test the conditions of `events`, in `scope`, and those that run where they hold, which know
    what `after` knows."""
    held: list[l0.Set] = []
    done: list[l0.Set] = []
    targets = {**d.states, **d.inputs}
    for entry in entries_of(d.node.get("events")):
        name, block = entry.name, mapping(entry.value)
        when = block.get("when") if block is not None else None
        if block is None or when is None or name not in d.flags:
            continue
        found = d.check(when, scope, Wanted("`when`", None, True, None))
        if found is not None:
            held.append(l0.Set(name, Cond(found.expr, Num(1.0), Num(0.0)), when.span))
        actions = build_actions(d, listed(block.get("do")), after, targets, {})
        own = {s.target: f"{name}_{s.target}" for s in actions if s.target not in targets}
        bindings: dict[str, Expr] = {old: Ref(new) for old, new in own.items()}
        for s in actions:
            value = substitute(s.value, bindings)
            if s.target in targets:
                value = Cond(Ref(name).ne(0.0), value, Ref(s.target))
            done.append(l0.Set(own.get(s.target, s.target), value, s.span))
    return tuple(held), tuple(done)


AFTER_SPIKE: Final = l0.hidden("after_spike")
"""Whether the refractory period that a condition ends goes on."""


def _with_condition(
    d: parts.Draft, scope: Scope, spike: l0.Spike | None, state: tuple[l0.StateDecl, ...], update: tuple[l0.Set, ...]
) -> tuple[l0.Spike | None, tuple[l0.StateDecl, ...], tuple[l0.Set, ...]]:
    """`refractory: {while: ...}` as a state that a spike sets, and that keeps it from another one."""
    block = mapping(d.node.get("spike"))
    period = mapping(block.get("refractory")) if block is not None else None
    node = period.get("while") if period is not None else None
    if node is None:
        return spike, state, update
    found = d.check(node, scope, Wanted("`while`", None, True))
    if found is None or spike is None:
        return spike, state, update
    on, goes_on = Ref(AFTER_SPIKE), l0.Set(AFTER_SPIKE, Num(1.0), spike.span)
    lasting = l0.Set(AFTER_SPIKE, Cond(on.ne(0.0) & found.expr, Num(1.0), Num(0.0)), node.span)
    held = replace(spike, when=on.eq(0.0) & spike.when, reset=(*spike.reset, goes_on))
    return held, (*state, l0.StateDecl(AFTER_SPIKE, "1", l0.Const(0.0), node.span)), (*update, lasting)


def _refractory(d: parts.Draft, block: tree.Mapping) -> tuple[Expr | None, tuple[str, ...] | None, bool]:
    node = block.get("refractory")
    if node is None:
        return None, None, False
    hold: tuple[str, ...] | None = None
    nearest = False
    inner = mapping(node)
    if inner is not None:
        if inner.get("hold") is not None:
            names = [i for i in listed(inner.get("hold")) if isinstance(i, Scalar)]
            for item in names:
                if item.text not in d.states:
                    parts.not_a_state(d, item.text, item.span, "cannot be held")
            hold = tuple(dict.fromkeys(i.text for i in names if i.text in d.states))
        nearest = text_of(inner.get("round")) == "nearest"
        time = inner.get("time")
        if time is None:
            return None, hold, nearest
        node = time
    found = d.check(node, d.scope(d.params), Wanted("`refractory`", TIME))
    if found is None:
        return None, hold, nearest
    zero = isinstance(found.expr, Num) and found.expr.value == 0
    return None if zero else found.expr, hold, nearest


def _states_in(when: Expr, d: parts.Draft, definitions: tuple[l0.Set, ...]) -> tuple[str, ...]:
    """The states that a condition reads, also through lets and locals."""
    seen = refs(when)
    for statement in reversed(definitions):
        if statement.target in seen and statement.target not in d.states:
            seen |= refs(statement.value)
    return tuple(s for s in d.states if s in seen)


# ---------------------------------------------------------------------------------------- finish


def finished(d: parts.Draft, n: l0.NeuronDef) -> l0.NeuronDef:
    """`n` with the model parameters that it reads."""
    handlers = (*n.on, *(h for pool in n.pools for h in pool.on))
    own = d.places.keys() | d.locals.keys() | {a.target for h in handlers for a in h.actions}
    own |= {s.target for pool in n.pools for s in pool.update} | {s.target for s in n.after}
    return parts.with_model_params(d, n, own)
