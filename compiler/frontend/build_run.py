"""How a model is run: simulation, recording, plots, expectations, numerics.

Assumes: populations, network and training have been built.
Guarantees: what is recorded exists, what is plotted and expected is recorded; times are whole
steps.
Does not: take part in what the model is (nothing here changes the result).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.units import DIMENSIONLESS, FREQUENCY, TIME
from compiler.frontend import tree
from compiler.frontend.build_populations import Populations
from compiler.frontend.select import select
from compiler.frontend.tree import Node, Scalar, Sequence
from compiler.frontend.values import Context, Step, bounded, mapping, number, steps, text_of, whole
from compiler.frontend.wording import allowed
from compiler.ir.model import (
    Expectation,
    Numerics,
    Plot,
    RecordSpikes,
    RecordTraces,
    Simulate,
    Train,
)
from compiler.source import Span

_RANGE = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*\Z", re.ASCII)
_MOST_STEPS = (1 << 31) - 1
"""Events carry their step as a 32-bit integer."""
_MOST_MEMBERS = 1_000_000
"""Neurons of one trace; each has a place in the model and in every sample."""


def read_step(block: tree.Mapping | None, c: Context) -> Step | None:
    """The time step; None when there is none or it has a mistake."""
    node = block.get("dt") if block is not None else None
    if node is None:
        return None
    dt = bounded(node, c, "`dt`", TIME, 0.0, None, above=True)
    return None if dt is None else Step(dt, node.span)


def build_simulate(block: tree.Mapping, step: Step | None, c: Context) -> Simulate | None:
    """`simulate`; None after an error."""
    seed_node = block.get("seed")
    seed = 0 if seed_node is None else whole(seed_node, c, "`seed`", 0, (1 << 63) - 1)
    counts: list[int | None] = []
    for key in ("duration", "warmup"):
        node = block.get(key)
        if node is None:
            counts.append(0)
        elif step is None:
            number(node, c, f"`{key}`", TIME)
            counts.append(None)
        else:
            count = steps(node, c, f"`{key}`", step)
            if count is not None and count > _MOST_STEPS:
                c.sink.error("E0106", f"`{key}` has {count:,} steps; at most {_MOST_STEPS:,} are possible", node.span)
                count = None
            counts.append(count)
    duration, warmup = counts
    if step is None or seed is None or duration is None or warmup is None:
        return None
    return Simulate(step.dt, duration, warmup, seed, block.span)


def build_numerics(block: tree.Mapping | None) -> Numerics:
    """`numerics`, with its defaults."""
    given = Numerics()
    if block is None:
        return given
    return Numerics(text_of(block.get("precision")) or given.precision, text_of(block.get("order")) or given.order)


# ------------------------------------------------------------------------------------- recording


@dataclass
class Recorded:
    """What is recorded, with the places that say so."""

    spikes: list[RecordSpikes] = field(default_factory=list)
    traces: list[RecordTraces] = field(default_factory=list)
    spiking: set[str] = field(default_factory=set)
    variables: dict[tuple[str, str], Span] = field(default_factory=dict)
    tracing: dict[str, RecordTraces] = field(default_factory=dict)


def build_records(node: Node | None, populations: Populations, c: Context) -> Recorded:
    """Everything under `record`."""
    out = Recorded()
    for item in node.items if isinstance(node, Sequence) else ():
        if not isinstance(item, tree.Mapping) or len(item.entries) != 1:
            continue
        kind, block = item.entries[0].name, mapping(item.entries[0].value)
        at = item.entries[0].key.span
        if block is None or kind not in ("spikes", "trace"):
            continue
        source = block.get("from")
        names = select(source, populations, c)
        if names is None or source is None:
            continue
        if kind == "spikes":
            _spikes(names, source, at, populations, out, c)
        else:
            _traces(names, block, at, populations, out, c)
    return out


def _spikes(names: tuple[str, ...], node: Node, at: Span, populations: Populations, out: Recorded, c: Context) -> None:
    for name in names:
        neuron = populations.neuron_of.get(name)
        if neuron is not None and not neuron.spikes:
            message = f"`{name}` never spikes: its neuron `{neuron.name}` has no `spike`"
            related = (Related("the neuron is declared here", neuron.span),)
            c.sink.error("E0604", message, node.span, None, related)
            return
    out.spiking.update(names)
    out.spikes.append(RecordSpikes(names, at))


def _traces(
    names: tuple[str, ...],
    block: tree.Mapping,
    at: Span,
    populations: Populations,
    out: Recorded,
    c: Context,
) -> None:
    variables = block.get("variables")
    items = [i for i in variables.items if isinstance(i, Scalar)] if isinstance(variables, Sequence) else []
    every: int | None = 1
    node = block.get("every")
    if node is not None and populations.step is not None:
        every = steps(node, c, "`every`", populations.step, low=1)
    for name in names:
        neuron, built = populations.neuron_of.get(name), populations.built.get(name)
        good: list[str] = []
        for item in items:
            if neuron is None:
                continue
            if item.text not in neuron.states and item.text not in neuron.inputs:
                _no_variable(item, name, populations, c)
            elif item.text not in good:
                good.append(item.text)
        if built is None or len(good) != len(items) or every is None:
            continue
        members = _members(block.get("members"), name, built.size, at, populations, c)
        if members is None:
            continue
        record = RecordTraces(name, tuple(good), members, every, at)
        if _clashes(record, items, at, out, c):
            continue
        out.traces.append(record)
        out.tracing.setdefault(name, record)
        for item in items:
            out.variables[name, item.text] = item.span


def _no_variable(item: Scalar, name: str, populations: Populations, c: Context) -> None:
    neuron = populations.neuron_of[name]
    known = [*neuron.states, *neuron.inputs]
    help = did_you_mean(item.text, known)
    if item.text in neuron.params:
        help = f"`{item.text}` is a parameter, which does not change"
    elif help is None:
        help = allowed("it has", known) if known else "it has no state"
    related = (Related("the neuron is declared here", neuron.span),)
    message = f"neuron `{neuron.name}` of `{name}` has no state variable or input `{item.text}`"
    c.sink.error("E0201", message, item.span, help, related)


def _clashes(record: RecordTraces, items: list[Scalar], at: Span, out: Recorded, c: Context) -> bool:
    """Traces of one population share their members and times in the file that they are written to."""
    other = out.tracing.get(record.population)
    if other is None:
        return False
    related = (Related("the other one is here", other.span),)
    if other.members != record.members or other.every != record.every:
        message = f"`{record.population}` has another trace with other `members` or `every`"
        c.sink.error("E0802", message, at, "record all of its variables in one trace", related)
        return True
    for item in items:
        earlier = out.variables.get((record.population, item.text))
        if earlier is not None:
            message = f"`{item.text}` of `{record.population}` is recorded twice"
            c.sink.error("E0802", message, item.span, None, (Related("the first time here", earlier),))
            return True
    return False


def _members(
    node: Node | None, name: str, size: int, at: Span, populations: Populations, c: Context
) -> tuple[int, ...] | None:
    if node is None or text_of(node) == "all":
        return _range(0, size - 1, name, node.span if node is not None else at, c)
    if isinstance(node, Sequence):
        values = [whole(i, c, "each member") for i in node.items]
        for value, item in zip(values, node.items, strict=True):
            if value is not None and value >= size:
                _outside(value, name, size, item.span, populations, c)
                return None
        return None if None in values else tuple(dict.fromkeys(v for v in values if v is not None))
    found = _RANGE.match(text_of(node))
    if found is None:
        return None
    low, high = int(found[1]), int(found[2])
    if high < low:
        c.sink.error("E0106", f"the range from {low} to {high} runs backwards", node.span)
        return None
    if high >= size:
        _outside(high, name, size, node.span, populations, c)
        return None
    return _range(low, high, name, node.span, c)


def _range(low: int, high: int, name: str, at: Span, c: Context) -> tuple[int, ...] | None:
    if high - low < _MOST_MEMBERS:
        return tuple(range(low, high + 1))
    message = f"a trace of {high - low + 1:,} neurons of `{name}`; at most {_MOST_MEMBERS:,} are possible"
    c.sink.error("E0106", message, at, "name some of them: `members: 0..99`")
    return None


def _outside(index: int, name: str, size: int, at: Span, populations: Populations, c: Context) -> None:
    related = (Related("the population is declared here", populations.places[name]),)
    message = f"`{name}` has no neuron {index:,}: it has {size:,}, counted from 0"
    c.sink.error("E0106", message, at, f"the last one is {size - 1:,}", related)


# ---------------------------------------------------------------------------- plots, expectations


def build_plots(
    node: Node | None, populations: Populations, recorded: Recorded, train: bool, c: Context
) -> tuple[Plot, ...]:
    """Everything under `plots`. Args: raster: from; trace: from, variable; training: none."""
    out: list[Plot] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if not isinstance(item, tree.Mapping) or len(item.entries) != 1:
            continue
        kind, block, at = item.entries[0].name, mapping(item.entries[0].value), item.entries[0].key.span
        if block is None:
            continue
        if kind == "training":
            if not train:
                c.sink.error("E0103", "the plot `training` needs a `train` block", at)
            else:
                out.append(Plot(kind, (), at))
            continue
        source = block.get("from")
        if kind == "histogram" or source is None:
            continue
        names = select(source, populations, c)
        if names is None:
            continue
        if kind == "raster":
            if _need_spikes(names, source, recorded, c):
                out.append(Plot(kind, (("from", names),), at))
            continue
        variable = block.get("variable")
        if isinstance(variable, Scalar) and _need_trace(names, variable, recorded, c):
            out.append(Plot(kind, (("from", names), ("variable", variable.text)), at))
    return tuple(out)


def _need_spikes(names: tuple[str, ...], node: Node, recorded: Recorded, c: Context) -> bool:
    for name in names:
        if name not in recorded.spiking:
            message = f"the spikes of `{name}` are not recorded"
            help = f"add `- spikes: {{from: {name}}}` to `record`"
            c.sink.error("E0213", message, node.span, help)
            return False
    return True


def _need_trace(names: tuple[str, ...], variable: Scalar, recorded: Recorded, c: Context) -> bool:
    for name in names:
        if (name, variable.text) not in recorded.variables:
            message = f"`{variable.text}` of `{name}` is not recorded"
            help = f"add `- trace: {{from: {name}, variables: [{variable.text}]}}` to `record`"
            c.sink.error("E0213", message, variable.span, help)
            return False
    return True


def build_expectations(
    node: Node | None,
    populations: Populations,
    recorded: Recorded,
    train: Train | None,
    has_train: bool,
    c: Context,
) -> tuple[Expectation, ...]:
    """Everything under `expect`, one Expectation per population. Args: of or name, at_least,
    at_most (rates in 1/ms)."""
    out: list[Expectation] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if not isinstance(item, tree.Mapping) or len(item.entries) != 1:
            continue
        kind, block, at = item.entries[0].name, mapping(item.entries[0].value), item.entries[0].key.span
        if block is None:
            continue
        if kind == "metric":
            found = _metric(block, at, train, has_train, c)
            if found is not None:
                out.append(found)
            continue
        bounds = _bounds(kind, block, c)
        source = block.get("of")
        names = select(source, populations, c) if source is not None else None
        if names is None or source is None or not _need_spikes(names, source, recorded, c):
            continue
        if bounds is not None:
            out.extend(Expectation(kind, (("of", name), *bounds), at) for name in names)
    return tuple(out)


_Bounds = tuple[tuple[str, float | int], ...]


def _bounds(kind: str, block: tree.Mapping, c: Context) -> _Bounds | None:
    """at_least and at_most of an expectation; None after an error."""
    values: dict[str, float | int | None] = {}
    at: Span | None = None
    if kind == "rate":
        between = block.get("between")
        items = between.items if isinstance(between, Sequence) else ()
        if len(items) != 2:
            return None
        at = items[1].span
        for key, item in zip(("at_least", "at_most"), items, strict=True):
            values[key] = number(item, c, "`between`", FREQUENCY)
    else:
        for key in ("count", "at_least", "at_most"):
            node = block.get(key)
            if node is None:
                continue
            at = node.span
            value: float | int | None
            value = whole(node, c, f"`{key}`") if kind == "spikes" else number(node, c, f"`{key}`", DIMENSIONLESS)
            if key == "count":
                values["at_least"] = values["at_most"] = value
            else:
                values[key] = value
    if None in values.values():
        return None
    found = {k: v for k, v in values.items() if v is not None}
    if "at_least" in found and "at_most" in found and found["at_least"] > found["at_most"]:
        c.sink.error("E0106", "the upper bound is below the lower one: nothing can fulfil it", at)
        return None
    return tuple((k, found[k]) for k in ("at_least", "at_most") if k in found)


def _metric(block: tree.Mapping, at: Span, train: Train | None, has_train: bool, c: Context) -> Expectation | None:
    name, bounds = block.get("name"), _bounds("metric", block, c)
    if not isinstance(name, Scalar) or bounds is None:
        return None
    if not has_train:
        c.sink.error("E0103", "a metric needs a `train` block", at)
        return None
    if train is None:
        return None
    known = ["loss", *train.metrics]
    if train.data.validation > 0:
        known += [f"validation_{k}" for k in known]
    if name.text not in known:
        help = did_you_mean(name.text, known)
        if help is None:
            help = allowed("measured are", known)
        if name.text.removeprefix("validation_") in known:
            help = "keep samples for it: `data: {split: {validation: 0.2}}`"
        c.sink.error("E0213", f"there is no metric `{name.text}` in this training", name.span, help)
        return None
    return Expectation("metric", (("name", name.text), *bounds), at)
