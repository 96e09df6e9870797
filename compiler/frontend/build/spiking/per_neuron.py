"""Values by index and place: expressions over `self.i` and the others, worked out for each neuron.

Assumes: the size and the shape of the population are known.
Guarantees: a list with one value per neuron, or one number where all are equal by definition (`self.n`). Times that
differ from neuron to neuron are whole numbers of steps, or are rounded where that is asked for, and never negative.
Does not: know equations, which read hidden parameters (frontend/build/shared/self_names.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related
from compiler.core.source import Span
from compiler.expr.ast import Expr, refs
from compiler.expr.intervals import interval
from compiler.expr.units import Dimension
from compiler.frontend.build.shared.data_files import numbers_of
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.self_names import HIDDEN, INSTANCE, PARAMS, SELF, place_values
from compiler.frontend.build.shared.values import Context, Names, Step, number_of, steps_of, valued
from compiler.frontend.yaml.tree import Node, Scalar


def reads_place(node: Node) -> bool:
    """Whether a value reads the place of its neuron."""
    return isinstance(node, Scalar) and isinstance(node.value, str) and any(n in node.value for n in SELF)


def placed_value(
    node: Node,
    what: str,
    dimension: Dimension | None,
    names: Names,
    listed: Mapping[str, l0.Value],
    size: int | None,
    shape: tuple[int, ...],
    c: Context,
) -> l0.Value | None:
    """The value of each neuron; None after an error, and where the size, by a mistake of its own, is not known.
    `listed`: values of parameters and states, of which those given as lists may be read, too."""
    scope = names.scope.extended(SELF)
    checked = check_expression(node, scope, Wanted(what, dimension), c.sink)
    if checked is None or size is None:
        return None
    arrays = {n: np.array(v.values) for n, v in listed.items() if isinstance(v, l0.Listed)}
    return worked_out(checked.expr, {**names.numbers, **arrays}, what, node.span, size, shape, c)


def worked_out(
    e: Expr, env: Mapping[str, Any], what: str, at: Span, size: int, shape: tuple[int, ...], c: Context
) -> l0.Value | None:
    """A checked expression for each neuron; None after an error."""
    read = refs(e)
    if PARAMS[INSTANCE] in read:
        help = "equations read it: `update: [v = v + self.instance * 1 mV]`"
        c.sink.error("E0802", f"{what} is the same in all copies: it cannot read `{INSTANCE}`", at, help)
        return None
    unknown = next((n for n in sorted(read - HIDDEN) if n not in env and n not in ("pi", "e", "inf")), None)
    if unknown is not None:
        message = f"{what} reads the place of the neuron and `{unknown}`, which is drawn, or read from a file"
        c.sink.error("E0802", message, at, "write it without one of them")
        return None
    found = valued(e, {**env, **place_values(size, shape)}, what, at, c.sink)
    if found is None:
        return None
    if np.ndim(found) == 0:
        return l0.Const(float(found), at)
    values = np.asarray(found, np.float64)
    if not np.isfinite(values).all():
        bad = int(np.flatnonzero(~np.isfinite(values))[0])
        c.sink.error("E0308", f"{what} is {values[bad]} for neuron {bad}", at)
        return None
    return l0.Listed(tuple(values.tolist()), at)


@dataclass(frozen=True)
class Rounded:
    """How times become steps, and where they are given."""

    step: Step
    nearest: bool
    at: Span
    related: tuple[Related, ...]


def check_each(e: Expr, params: Mapping[str, l0.Value], to: Rounded, what: str, c: Context) -> None:
    """E0601 and E0106 where a time that follows from values per neuron is not a whole number of steps for each."""
    read = refs(e)
    env: dict[str, Any] = dict(c.names.numbers)
    for name in sorted(read & params.keys()):
        value = params[name]
        if isinstance(value, l0.Const):
            env[name] = value.value
        elif isinstance(value, l0.Listed):
            env[name] = np.array(value.values)
        elif isinstance(value, l0.FromFile):
            found = numbers_of(value, value.span, c)
            if found is None:
                return
            env[name] = found.ravel() * value.scale
    drawn = {n: v for n in read if isinstance(v := params.get(n), l0.Distribution)}
    if drawn:
        _check_drawn(e, drawn, env, to, what, c)
        return
    times = valued(e, env, what, to.at, c.sink, to.related)
    for time in () if times is None else np.unique(times).tolist():  # one error is reported, not one per neuron
        each, high = f"each value of {what}", l0.MOST_STEPS
        if steps_of(time, to.at, c.sink, each, to.step, high=high, nearest=to.nearest, related=to.related) is None:
            return


def _check_drawn(
    e: Expr, drawn: Mapping[str, l0.Distribution], env: Mapping[str, Any], to: Rounded, what: str, c: Context
) -> None:
    if not to.nearest:
        help = "write `refractory: {time: ..., round: nearest}` in the neuron"
        c.sink.error("E0601", f"{what} is drawn for each neuron, which gives no whole steps", to.at, help, to.related)
        return
    known = {n: (float(np.min(v)), float(np.max(v))) for n, v in env.items() if refs(e) & {n}}
    low, high = interval(e, {**known, **{n: _reach(v) for n, v in drawn.items()}})
    if not low >= 0:
        message = f"{what} must not be negative" + (f"; it can be {low:g} ms" if math.isfinite(low) else "")
        unbounded = None if math.isfinite(low) else "give the shortest one: `min: 1 ms`"
        c.sink.error("E0106", message, to.at, unbounded, to.related)
    elif math.isfinite(high) and not high / to.step.dt <= l0.MOST_STEPS:
        longest = f"{number_of(high / to.step.dt)} steps of {to.step.dt:g} ms"
        message = f"{what} is up to {longest}; at most {l0.MOST_STEPS:,} are possible"
        c.sink.error("E0106", message, to.at, None, to.related)


def _reach(value: l0.Distribution) -> tuple[float, float]:
    """An interval that holds all draws."""
    args = dict(value.args)
    if value.kind in ("uniform", "permutation"):
        return args["low"], args["high"]
    signed = value.kind == "normal" and not args.get("keep_sign")
    least = 0.0 if value.kind == "lognormal" or (args["mean"] >= 0 and not signed) else -math.inf
    return args.get("min", least), args.get("max", math.inf)
