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
from collections.abc import Iterable, Mapping
from typing import Final

import compiler.ir.level0.model as l0
from compiler.expr.ast import Binary, Bool, Call, Cond, Expr, Num, Ref, Unary
from compiler.expr.functions import CONSTANTS
from compiler.ir.level2.delayed import DELAYED
from compiler.passes.model.synapse_names import read_of_neurons

Interval = tuple[float, float]
Env = Mapping[str, Interval]

ANY: Final[Interval] = (-math.inf, math.inf)
ROUNDS: Final = 4
VARIABLES: Final[Interval] = (-100.0, 100.0)
TRACES: Final[Interval] = (-1.0, 1.0)
_INSIDE: Final[Mapping[str, Interval]] = {
    "sigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "sin": (-1.0, 1.0),
    "cos": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "sign": (-1.0, 1.0),
    "heaviside": (0.0, 1.0),
    "random": (0.0, 1.0),
    "normal": (-10.0, 10.0),
    "exponential": (0.0, 40.0),
}


def hull(items: Iterable[Interval]) -> Interval:
    low, high = zip(*items, strict=True)
    return min(low), max(high)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _product(a: Interval, b: Interval) -> Interval:
    ends = [_times(x, y) for x in a for y in b]
    return min(ends), max(ends)


def interval(e: Expr, env: Env) -> Interval:
    """An interval that holds the value of `e`."""
    match e:
        case Num(value):
            return float(value), float(value)
        case Bool(value):
            return float(value), float(value)
        case Ref(name):
            return env.get(name, (CONSTANTS[name],) * 2 if name in CONSTANTS else ANY)
        case Unary("-", x):
            low, high = interval(x, env)
            return -high, -low
        case Call(func, (x,)) if func == DELAYED:
            return interval(x, env)
        case Cond(_, a, b) | Call("where", (_, a, b)):
            return hull([interval(a, env), interval(b, env)])
        case Binary(op, a, b):
            return _binary(op, interval(a, env), interval(b, env), b)
        case Call(func, args):
            return _call(func, [interval(a, env) for a in args])
    return (0.0, 1.0) if isinstance(e, Unary) else ANY  # `not`


def _binary(op: str, a: Interval, b: Interval, right: Expr) -> Interval:
    if op == "+":
        return a[0] + b[0], a[1] + b[1]
    if op == "-":
        return a[0] - b[1], a[1] - b[0]
    if op == "*":
        return _product(a, b)
    if op == "/" and (b[0] > 0 or b[1] < 0):
        return _product(a, (1 / b[1], 1 / b[0]))
    if op == "**" and isinstance(right, Num) and right.value == 2:
        most = max(abs(a[0]), abs(a[1]))
        return 0.0, _times(most, most)
    if op in ("<", "<=", ">", ">=", "==", "!=", "and", "or"):
        return 0.0, 1.0
    return ANY


def _call(func: str, args: list[Interval]) -> Interval:
    if func in _INSIDE:
        return _INSIDE[func]
    match func, args:
        case "clip", [_, low, high]:
            return low[0], high[1]
        case "min", _:
            return min(a[0] for a in args), min(a[1] for a in args)
        case "max", _:
            return max(a[0] for a in args), max(a[1] for a in args)
        case "relu", [x]:
            return max(x[0], 0.0), max(x[1], 0.0)
        case "abs", [x]:
            return 0.0, max(abs(x[0]), abs(x[1]))
        case "exp", [x] if x[1] < 700:
            return (math.exp(x[0]) if x[0] > -700 else 0.0), math.exp(x[1])
        case "int" | "float" | "round" | "floor" | "ceil", [x]:
            return x[0] - 1.0, x[1] + 1.0
    return ANY


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
    for end, block in (("pre", synapse.pre), ("post", synapse.post)):
        variables |= {f"{end}.{x.name}": TRACES for x in (block.state if block is not None else ())}
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
    return found
