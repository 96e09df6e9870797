"""Delays: integer steps, or distributions of them, per member of a family.

Assumes: the time step is known.
Guarantees: delays are at least 0 and at most MAX_DELAY steps, and integer steps unless rounding is requested. Does
not: sample them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.expr.ast import Call, Ref
from compiler.expr.units import TIME
from compiler.frontend.build.places.names import COUNTS, Space
from compiler.frontend.build.places.values import placed_value, reads_places
from compiler.frontend.build.shared.data_files import numbers_of
from compiler.frontend.build.shared.initial_values import OneByOne, initial_value
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import Context, Names, Step, mapping, number_of, steps_of, text_of
from compiler.frontend.build.spiking.family import WORD, Family
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node

MAX_DELAY = 1 << 20
"""Steps; the largest number of slots of the ring buffer of pending deliveries."""
_DT, _LONGEST = "delay.dt", "delay.longest"
"""Numbers of delays by place beside those that their text names, which have no dots."""

Given = int | l0.Distribution | l0.Listed | l0.Placed | None
"""A delay in steps, or delays that differ from synapse to synapse; None after an error."""
Delay = Callable[[dict[str, Any]], Given]
"""In steps; a Placed value in ms, as its bounds depend on the connections (`placed_steps`)."""


def longest(delays: l0.Distribution | l0.Listed | l0.Placed) -> int:
    """The largest of per-synapse delays, in steps."""
    if isinstance(delays, l0.Placed):
        return int(delays.high)
    if isinstance(delays, l0.Listed):
        return int(max(delays.values, default=0.0))
    return math.ceil(dict(delays.args)["high" if delays.kind == "uniform" else "max"])


def _drawn_delay(node: tree.Mapping, family: Family, step: Step, what: str) -> Delay:
    """Per-synapse delays: their distribution for each member, in steps."""
    c, kind = family.c, node.entries[0]
    block = mapping(kind.value)
    if block is None:
        return lambda env: None
    if text_of(block.get("round")) != "nearest":
        message = "delays that are drawn are not whole steps"
        c.sink.error("E0601", message, kind.key.span, "add `round: nearest` to the distribution")
        return lambda env: None

    def drawn(names: Names) -> l0.Distribution | None:
        value = initial_value(node, c, what, TIME, names)[0]
        return _in_steps(value, step, block, what, c) if isinstance(value, l0.Distribution) else None

    return family.once(node, drawn)


def _in_steps(value: l0.Distribution, step: Step, block: tree.Mapping, what: str, c: Context) -> l0.Distribution | None:
    """A distribution of delays (ms) in units of the step; a normal one is truncated at 0 (or its `min`) and ten
    standard deviations (or its `max`). Of a lognormal one, mean and standard deviation are those of the logarithm."""
    given = dict(value.args)
    low, high = ("low", "high") if value.kind == "uniform" else ("min", "max")

    def wrong(name: str, message: str, help: str | None = None) -> None:
        item = block.get(name)
        c.sink.error("E0106", message, value.span if item is None else item.span, help)

    for name in (low, high, *(("mean",) if value.kind != "lognormal" else ())):
        if given.get(name, 0.0) < 0:
            wrong(name, f"`{name}` of {what} must not be negative; it is {given[name]:g} ms")
            return None
    args = {name: number / step.dt for name, number in value.args if name != "keep_sign"}
    if value.kind == "lognormal":
        args |= {"mean": given["mean"] - math.log(step.dt), "std": given["std"]}
    if value.kind == "normal":
        args.setdefault("min", 0.0)
        args.setdefault("max", max(args["min"], args["mean"] + 10.0 * args["std"]))
    if args[high] > MAX_DELAY:
        longest = (
            f"`{high}` of {what} is" if high in given else f"ten standard deviations of {what} above its `mean` are"
        )
        help = None if high in given else "give the longest delay as `max`"
        message = f"{longest} {number_of(args[high])} steps of {step.dt:g} ms; at most {MAX_DELAY:,} are possible"
        wrong(high, message, help)
        return None
    return l0.Distribution(value.kind, tuple(args.items()), span=value.span)


def _listed_delays(node: Node, family: Family, step: Step, given: OneByOne, what: str) -> Delay:
    """A delay for each pair, in their order: the same for each member."""
    c, count, block = family.c, given.count, mapping(node)
    nearest = block is not None and text_of(block.get("round")) == "nearest"
    beside = None if block is None else "file" if block.get("value") is None else "value"
    rounding = f"`round: nearest` beside `{beside}`" if beside else "`{value: [...], round: nearest}`"
    node = (None if block is None else block.get("value")) or node
    if not given.allowed:
        message = "delays from a list or a file need connections that are given one by one"
        c.sink.error("E0802", message, node.span, "write `connect: {pairs: ...}`, or `all_to_all`")
        return lambda env: None
    value = initial_value(node, c, what, TIME, family.names, count, "connection")[0]
    if isinstance(value, l0.Listed):
        times = np.array(value.values)
    elif isinstance(value, l0.FromFile):
        found_times = numbers_of(value, node.span, c)
        if found_times is None:
            return lambda env: None
        times = found_times.ravel()
        if count is not None and len(times) != count:
            message = f"{what} needs {count:,} numbers, one for each connection; the array has {len(times):,}"
            c.sink.error("E0703", message, node.span)
            return lambda env: None
    else:
        return lambda env: None
    steps, own = np.zeros(len(times)), Sink()
    for time in np.unique(times).tolist():  # one error is reported, not one per connection
        found = steps_of(time, node.span, own, f"each {what}", step, high=MAX_DELAY, nearest=nearest)
        if found is None:
            for d in own.items:
                also = "" if beside == "file" else f"{d.help}; "
                c.sink.items.append(replace(d, help=f"{also}{rounding} rounds all") if d.code == "E0601" else d)
            return lambda env: None
        steps[times == time] = found
    whole = l0.Listed(tuple(steps.tolist()), node.span)
    return lambda env: whole


def _placed_delay(node: Node, space: Space, family: Family, what: str) -> Delay:
    """Delays that follow from the places of both ends, in ms."""
    block = mapping(node)
    inner = node if block is None else block.get("value")
    if block is None or inner is None or text_of(block.get("round")) != "nearest":
        message = "delays that differ from synapse to synapse are not whole steps"
        help = f"write `{what[1:-1]}: {{value: {text_of(inner)}, round: nearest}}`"
        family.c.sink.error("E0601", message, node.span, help)
        return _no_delay
    counted = [n for n in COUNTS if n not in family.names.scope.kinds and n in WORD.findall(text_of(inner))]
    if counted:
        message = f"{what} cannot read `{counted[0]}`: delays are known before there are synapses"
        family.c.sink.error("E0802", message, inner.span, "give the delay by the places of both ends")
        return _no_delay
    return placed_value(inner, what, TIME, family.names, space, family)


def placed_steps(value: l0.Placed, family: Family, what: str) -> l0.Placed | None:
    """Delays in ms with exact bounds as delays in steps, before rounding to the nearest; None after an error."""
    sink, step = family.c.sink, family.populations.step
    if step is None:
        return None
    if value.low < 0:
        at_most = "" if math.isfinite(value.low) else ", as far as its expression tells"
        help = "write `max(0 ms, ...)`" if not at_most else None
        sink.error("E0106", f"{what} must not be negative; it can be {value.low:g} ms{at_most}", value.span, help)
        return None
    if not value.high / step.dt <= MAX_DELAY:
        longest = f"{number_of(value.high / step.dt)} steps of {step.dt:g} ms"
        message = f"{what} is up to {longest}; at most {MAX_DELAY:,} are possible"
        sink.error("E0106", message, value.span, "give the longest delay: `min(..., 20 ms)`")
        return None
    most = math.floor(value.high / step.dt + 0.5)
    # what rounds up in float32 stays within the ring buffer
    steps = Call("min", (value.value / Ref(_DT), Ref(_LONGEST)))
    numbers = tuple(sorted({**dict(value.numbers), _DT: step.dt, _LONGEST: float(most)}.items()))
    return l0.Placed(steps, numbers, value.low / step.dt, float(most), value.span)


def one_by_one(node: Node | None) -> bool:
    """Whether delays are listed per connection: a list or an array."""
    block = mapping(node)
    listed = node if block is None else block.get("value")
    return isinstance(listed, tree.Sequence) or (block is not None and block.get("file") is not None)


def _no_delay(env: dict[str, Any]) -> None:
    """Without a time step there are no delays in steps; its error was reported."""


def delay_steps(r: Reader, space: Space, family: Family, given: OneByOne, key: str) -> Delay:
    """The delay under a key of each member: integer steps, or per-connection delays: a distribution of steps, or the
    steps of each of pairs that are `given` one by one."""
    node, what = r.get(key), f"`{key}`"
    step, block = family.populations.step, mapping(node)
    if node is not None and one_by_one(node):
        return _no_delay if step is None else _listed_delays(node, family, step, given, what)
    if node is not None and reads_places(node if block is None else block.get("value"), family.names.scope):
        return _placed_delay(node, space, family, what)
    if block is None or block.get("value") is not None:
        return whole_delay(r, key, family)
    if len(block.entries) == 1 and step is not None:
        return _drawn_delay(block, family, step, what)
    return lambda env: None


def whole_delay(r: Reader, key: str, family: Family) -> Callable[[dict[str, Any]], int | None]:
    """The time under a key for each member, in integer steps: exact, or rounded where that is requested."""
    c, step, node, what = family.c, family.populations.step, r.get(key), f"`{key}`"
    if node is None:
        absent = r.steps(key, step)
        return lambda env: absent
    nearest = False
    block = mapping(node)
    if block is not None:
        inner = block.get("value")
        if inner is None:
            return lambda env: None
        nearest = text_of(block.get("round")) == "nearest"
        node = inner
    time = family.per_member(node, what, TIME)
    at, known = node.span, dict[float, "int | None"]()

    def steps(env: dict[str, Any]) -> int | None:
        value = time(env)
        if value is None or step is None:
            return None
        if value not in known:
            if None in known.values():
                return None  # one error is reported once, not per member
            known[value] = steps_of(value, at, c.sink, what, step, high=MAX_DELAY, nearest=nearest, roundable=True)
        return known[value]

    return steps
