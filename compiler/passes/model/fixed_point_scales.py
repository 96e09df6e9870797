"""fixed_point_scales: the value of one count (quantum) of a fixed-point accumulator.

Assumes: a legal model.
Guarantees: one power of two per (population, input), from its deliveries. Static weights: 2^-40 of the largest one, so
that 2^23 deliveries of it in one step cannot overflow and rounding is far below float32's. Synapses with statements:
the same of a bound on their deliveries where there is one (bounds.py: states limited by `clip`, params, draws). Else
2^-36 of their `scale`: the initial magnitude of their deliveries, or below one canonical unit its square root (and 1
where nothing is known), so that initially small values are exact and may still grow: to 2^27 of the scale, summed over
one step. Beyond that an accumulator overflows.
Does not: detect overflow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.expr.functions import Interval
from compiler.expr.intervals import ANY, interval
from compiler.ir.level2.synapse_values import own_name
from compiler.passes.model.bounds import delivered, scale_at_start
from compiler.passes.program.init_values import numbers_of

GROWTH: Final = 2.0**4
"""Counts that are given away where nothing bounds what a synapse delivers, for it to grow."""


def largest_weight(value: l0.Value) -> float:
    """A bound on |weight| for the choice of fixed-point quanta."""
    return max(abs(end) for end in _interval(value, {}))


def _interval(value: l0.Value, params: Mapping[str, Interval]) -> Interval:
    """The interval of a weight or an initial value (normal: ten standard deviations)."""
    match value:
        case l0.Const(number):
            return float(number), float(number)
        case l0.Distribution("uniform", args):
            return dict(args)["low"], dict(args)["high"]
        case l0.Distribution(kind, args):
            most = _largest_draw(kind, dict(args))
        case l0.Formula(e):
            return interval(e, params)
        case l0.Listed(values):
            return min(values, default=0.0), max(values, default=0.0)
        case l0.Placed(low=low, high=high):
            return low, high
        case l0.FromFile():
            most = float(np.abs(numbers_of(value)).max(initial=0.0))
        case _:
            raise AssertionError(value)
    return -most, most


def _largest_draw(kind: str, given: Mapping[str, float]) -> float:
    if kind == "exponential":
        return 40 * abs(given["mean"])
    if kind == "lognormal":
        return math.exp(given["mean"] + 10 * given["std"])
    return abs(given["mean"]) + 10 * given["std"]


def _sent(projection: l0.Projection, member: l0.Member) -> dict[tuple[str, str], float]:
    """(end, input) -> the value of 2^40 counts, for the deliveries of a synapse's statements."""
    synapse = projection.statements
    params: dict[str, Interval] = {}
    start: dict[str, Interval] = {}
    given, init = dict(projection.params_of(member)), dict(member.init)
    for p in synapse.params:
        value = given.get(p.name, p.default)
        params[p.name] = ANY if value is None else _interval(value, params)
    for state in synapse.state:
        start[state.name] = _interval(init.get(state.name, state.init), {**params, **start})
    bounds = delivered(synapse, projection.into, params, start)
    scales = scale_at_start(synapse, projection.into, params, start)
    return {k: _scale(scales[k]) * GROWTH if bound is None else bound for k, bound in bounds.items()}


def _scale(start: float) -> float:
    """Between the initial magnitude of deliveries and one canonical unit."""
    return start if start >= 1 else math.sqrt(start) if start > 0 else 1.0


def input_quanta(model: l0.Model) -> dict[tuple[str, str], float]:
    """(population, input) -> value of one count of its i64 accumulator; of an input that a projection holds at an end,
    (`p[a->b].post`, input)."""
    largest: dict[tuple[str, str], float] = {}
    known: dict[object, dict[tuple[str, str], float]] = {}

    def deliver(population: str, name: str, most: float) -> None:
        largest[population, name] = max(largest.get((population, name), 0.0), most)

    for projection in model.projections:
        synapse = projection.statements
        for member in projection.members:
            if synapse is l0.DELIVER_WEIGHT:  # as below, but many
                deliver(member.target, projection.into, largest_weight(member.weight))
                continue
            key = (id(synapse), projection.into, member.params, member.init)
            if key not in known:
                known[key] = _sent(projection, member)
            for (end, name), most in known[key].items():
                own = name in synapse.own_inputs(end)
                at = member.source if end == "pre" else member.target
                deliver(f"{own_name(projection, member)}.{end}" if own else at, name, most)
    return {k: 2.0 ** (math.ceil(math.log2(v)) - 40) if v > 0 else 1.0 for k, v in largest.items()}
