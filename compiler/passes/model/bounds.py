"""bounds: bounds on the values that a synapse delivers.

Assumes: a legal SynapseDef and the values of one member.
Guarantees: `delivered` gives, per end and input, a bound on |value| that holds for any behaviour of the neurons, or
None where there is none: interval analysis of the statements, from the initial values to a fixed point (Cousot & Cousot
1977; an interval that still grows after a few iterations is unbounded). `scale_at_start` gives the magnitude of
deliveries before any state has changed, with neurons' variables up to 100 canonical units and traces up to 1.
Does not: choose the scale of accumulators (fixed_point_scales).
"""

from __future__ import annotations

import math
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.functions import Interval
from compiler.expr.intervals import ANY, Env, hull, interval
from compiler.passes.model.synapse_symbols import read_of_neurons

ROUNDS: Final = 4
VARIABLES: Final[Interval] = (-100.0, 100.0)
TRACES: Final[Interval] = (-1.0, 1.0)


def _sound(x: Interval) -> Interval:
    return ANY if math.isnan(x[0]) or math.isnan(x[1]) else x


def _run(
    synapse: l0.SynapseDef, actions: tuple[l0.Action, ...], env: Env
) -> tuple[dict[str, Interval], list[tuple[l0.Send, Interval]]]:
    """The environment after `actions`, and what they send."""
    now = dict(env)
    for let in synapse.lets:
        now[let.target] = _sound(interval(let.value, now))
    sent: list[tuple[l0.Send, Interval]] = []
    for action in actions:
        if isinstance(action, l0.Transpose):
            now[action.target] = ANY
            continue
        value = _sound(interval(action.value, now))
        if isinstance(action, l0.Set):
            now[action.target] = value
        elif isinstance(action, l0.Send):
            sent.append((action, value))
    return now, sent


def _occasions(synapse: l0.SynapseDef) -> list[tuple[l0.Action, ...]]:
    at_events = [*(e.actions for e in synapse.events), *(h.actions for h in synapse.on)]
    return [synapse.update, synapse.on_pre, synapse.on_post, *at_events]


def delivered(synapse: l0.SynapseDef, into: str, params: Env, start: Env) -> dict[tuple[str, str], float | None]:
    """(end, input) -> bound. `params`, `start`: intervals of params and of states at the start."""
    states = {s.name: start.get(s.name, ANY) for s in synapse.state}
    for ode in synapse.dynamics:
        states[ode.state] = ANY
    before: dict[str, Interval] = {}
    rounds = 0
    while states != before:
        before, rounds = dict(states), rounds + 1
        for actions in _occasions(synapse):
            after, _ = _run(synapse, actions, {**params, **states})
            for name in states:
                grown = hull([states[name], after[name]])
                if grown != states[name]:
                    states[name] = grown if rounds <= ROUNDS else ANY
    found: dict[tuple[str, str], float | None] = {}
    for (end, name), values in _sent(synapse, into, {**params, **states}).items():
        most = max(max(abs(a), abs(b)) for a, b in values)
        found[end, name] = most if math.isfinite(most) else None
    return found


def scale_at_start(synapse: l0.SynapseDef, into: str, params: Env, start: Env) -> dict[tuple[str, str], float]:
    """(end, input) -> magnitude of deliveries at the start; 0.0 where that is unbounded."""
    variables = {f"{end}.{name}": VARIABLES for end, name in read_of_neurons(synapse)}
    variables |= {f"{end}.{x.name}": TRACES for end, block in synapse.ends.items() for x in block.state}
    found: dict[tuple[str, str], float] = {}
    for (end, name), values in _sent(synapse, into, {**variables, **params, **start}).items():
        most = max(max(abs(a), abs(b)) for a, b in values)
        found[end, name] = most if math.isfinite(most) else 0.0
    return found


def _sent(synapse: l0.SynapseDef, into: str, env: Env) -> dict[tuple[str, str], list[Interval]]:
    found: dict[tuple[str, str], list[Interval]] = {}
    for actions in _occasions(synapse):
        for send, value in _run(synapse, actions, env)[1]:
            found.setdefault((send.end, send.into or into), []).append(value)
    for block in synapse.ends.values():
        for send in block.deliver:
            found.setdefault((send.end, send.into or into), []).append(_sound(interval(send.value, env)))
    return found
