"""Recording: from resolved blocks of `record` to records.

Assumes: populations and projections have been built.
Guarantees: every recorded population, projection and variable exists; intervals are integer steps.
Does not: make buffers (passes/cells/lower_records.py) or files (runtime/record/record.py).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at, did_you_mean
from compiler.core.source import Span
from compiler.expr.units import parse_unit
from compiler.frontend.build.shared.phases import find_moment
from compiler.frontend.build.shared.readers import Reader, choices, in_steps
from compiler.frontend.build.shared.values import Context, entries_of, items_of, number, text_of
from compiler.frontend.build.spiking.measured import build_measured, owners_of
from compiler.frontend.build.spiking.neurons import BuiltNeuron
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.select import select, select_having
from compiler.frontend.language.recording import RECORD
from compiler.frontend.schema.wording import allowed, suggested
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.ir.level2.synapse_values import synapse_unit, synapse_variables

_RANGE = re.compile(r"\s*(\d{1,18})\s*\.\.\s*(\d{1,18})\s*\Z", re.ASCII)
_MOST_MEMBERS = 1_000_000
"""Largest number of neurons of one trace; each has an entry in the model and in every sample."""


@dataclass
class Recorded:
    """The records, with their spans."""

    spikes: list[l0.RecordSpikes] = field(default_factory=list)
    traces: list[l0.RecordTraces] = field(default_factory=list)
    spiking: set[str] = field(default_factory=set)
    variables: dict[tuple[str, str], Span] = field(default_factory=dict)
    tracing: dict[str, l0.RecordTraces] = field(default_factory=dict)
    rates: list[l0.RecordRate] = field(default_factory=list)
    rated: set[str] = field(default_factory=set)
    synapses: list[l0.RecordSynapses] = field(default_factory=list)
    histograms: list[l0.RecordHistogram] = field(default_factory=list)
    tables: list[l0.RecordTable] = field(default_factory=list)
    events: list[l0.RecordOwnEvents] = field(default_factory=list)
    weighed: dict[tuple[str, str], Span] = field(default_factory=dict)
    """(projection, variable) of synapses that are recorded one by one."""
    kept: set[tuple[str, str, str]] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Kinds with an invalid entry, or one that depends on an invalid block: a missing record may be that one."""
    trials: bool = False
    """Whether samples are trials, which are not recorded."""

    def lacks(self, kind: str, what: str, entry: str, at: Span, c: Context) -> None:
        """Report what is read, but not recorded, unless it may be an entry of this kind that was refused; `entry`: what
        `record` lacks."""
        if kind in self.refused:
            return
        if self.trials:
            help = "of trials, a `metric` can be expected, and `training` and `confusion` drawn"
            c.sink.error("E0802", f"{what}: trials of a training are not", at, help)
        else:
            c.sink.error("E0213", what, at, f"add `- {entry}` to `record`")


@dataclass(frozen=True)
class _Entry:
    """One entry of `record`, what it may name, and where its records go."""

    r: Reader
    at: Span
    populations: Populations
    projections: tuple[l0.Projection, ...]
    declared: tuple[str, ...]
    out: Recorded

    @property
    def c(self) -> Context:
        return self.r.c

    def twice(self, what: str, at: Span, help: str | None = None, related: tuple[Related, ...] = ()) -> None:
        self.c.sink.error("E0802", f"{what} recorded twice", at, help, related)


def build_records(
    node: Node | None,
    populations: Populations,
    projections: tuple[l0.Projection, ...],
    declared: tuple[str, ...],
    c: Context,
) -> Recorded:
    """Everything under `record`. `declared`: names of all projections of the file, including those with an error."""
    out = Recorded()
    for kind, r, at in choices(RECORD, node, c):
        e = _Entry(r, at, populations, projections, declared, out)
        if kind == "table":
            _table(e)
            continue
        if kind == "events":
            _events(e)
            continue
        source = r.get("from")
        if kind in ("synapses", "histogram"):
            _of_synapses(kind, e)
            variables = items_of(r.get("variables")) if kind == "synapses" else ()
            if any((r.word("from"), text_of(item)) not in out.weighed for item in variables):
                out.refused.add(kind)
            continue
        names = recorded_populations(kind, r, source, populations)
        if names is None or source is None:
            out.refused.add(kind)
            continue
        match kind:
            case "spikes":
                _spikes(names, e, source)
            case "rate":
                _rates(names, e, source)
            case "trace":
                _traces(names, e)
        if not _made(kind, names, r, populations, out):
            out.refused.add(kind)
    return out


def recorded_populations(kind: str, r: Reader, source: Node | None, populations: Populations) -> tuple[str, ...] | None:
    """The populations of which an entry of `record` or a plot shows something; None after an error. Those of `all` and
    of classes that have no spikes, or none of the variables, are left out."""
    if kind != "trace":
        return select_having(source, populations, r.c, populations.spiking)
    variables = {text_of(i) for key in ("variables", "variable") if key in r for i in items_of(r.get(key))}
    return select_having(source, populations, r.c, lambda name: not variables.isdisjoint(populations.variables(name)))


def _table(e: _Entry) -> None:
    r, at, out = e.r, e.at, e.out
    name, interval = r.word("name"), interval_of(r, e.populations, 0)
    if name in {t.name for t in out.tables}:
        r.c.sink.error("E0212", f"there are two tables `{name}`", at, "give one of them another `name`")
        return
    owners = owners_of(e.populations, e.projections, e.declared)
    items = entries_of(r.get("columns"))
    columns = [(x.name, build_measured(x.value, f"`{x.name}`", owners, r.c)) for x in items]
    taken = next((n for n, _ in columns if n in TIME_COLUMNS), None)
    if taken is not None:
        r.c.sink.error("E0107", f"the column `{taken}` is there already: it says when the row was", at)
        out.refused.add("table")
        return
    known = tuple((n, m) for n, m in columns if m is not None)
    if interval is None or interval[0] == 0 or len(known) != len(columns):
        out.refused.add("table")
        return
    out.tables.append(l0.RecordTable(name, known, *interval, r.word("format") == "parquet", at))


TIME_COLUMNS: Final = ("time", "trial")
"""The columns of every table (`trial`: of one at an event)."""


def _made(kind: str, names: tuple[str, ...], r: Reader, populations: Populations, out: Recorded) -> bool:
    """Whether everything requested by an entry is recorded."""
    if kind == "trace":
        traced = _traced(names, r, populations)
        return all((name, item.text) in out.variables for name in names for item in traced[name])
    return set(names) <= (out.spiking if kind == "spikes" else out.rated)


def _spikes(names: tuple[str, ...], e: _Entry, node: Node) -> None:
    r, at, populations, out = e.r, e.at, e.populations, e.out
    if populations.never_spikes(names, node.span):
        return
    for name in names:
        if name in out.spiking:
            e.twice(f"the spikes of `{name}` are", at, "write one entry for it")
            return
    out.spiking.update(names)
    between = _between(e)
    if r.word("members") == "all" and not isinstance(r.get("members"), Sequence):
        out.spikes.append(l0.RecordSpikes(names, (), between, at))
        return
    for name in names:
        built = populations.built.get(name)
        members = None if built is None else _members(e, name, built.size)
        if members is None:
            return
        out.spikes.append(l0.RecordSpikes((name,), members, between, at))


def _events(e: _Entry) -> None:
    """Events of synapses, or of neurons."""
    at, populations, out = e.at, e.populations, e.out
    source, between = e.r.get("from"), _between(e)
    if isinstance(source, Scalar) and source.text in e.declared:
        found = _projection(source, e)
        if found is not None:
            known = [] if found.synapse is None else [x.name for x in found.synapse.events]
            whose, what = f"the synapses of `{found.name}` have", "the projection is"
            names = _event_names(e, found.name, (whose, what), known, found.span)
            out.events += [l0.RecordOwnEvents(found.name, True, names, between, at)] if names else []
        return
    for population in select(source, populations, e.c) or ():
        neuron = populations.neuron_of.get(population)
        if neuron is not None and neuron.definition is not None:
            events, place = neuron.definition.events, populations.places[population]
            words = f"the neurons of `{population}` have", "the population is"
            names = _event_names(e, population, words, events, place)
            out.events += [l0.RecordOwnEvents(population, False, names, between, at)] if names else []


def _event_names(
    e: _Entry, owner: str, words: tuple[str, str], known: Collection[str], declared_at: Span
) -> tuple[str, ...]:
    """The events that an entry names, of those that are `known`. `words`: who has them, and what is declared."""
    names: list[str] = []
    for item in items_of(e.r.get("events")):
        name = text_of(item)
        if name not in known:
            help = suggested(name, "they have", known, "they have no `events`")
            related = (Related(f"{words[1]} declared here", declared_at),)
            e.c.sink.error("E0201", f"{words[0]} no event `{name}`", item.span, help, related)
        elif name in names or any(x.source == owner and name in x.events for x in e.out.events):
            e.twice(f"the event `{name}` of `{owner}` is", item.span)
        else:
            names.append(name)
    return tuple(names)


def _rates(names: tuple[str, ...], e: _Entry, node: Node) -> None:
    if e.populations.never_spikes(names, node.span):
        return
    interval = interval_of(e.r, e.populations, 0)
    if interval is None or interval[0] == 0:
        return
    for name in names:
        if name in e.out.rated:
            e.twice(f"the rate of `{name}` is", e.at, "write one entry for it")
            return
        e.out.rated.add(name)
        e.out.rates.append(l0.RecordRate(name, *interval, e.at))


def interval_of(r: Reader, populations: Populations, otherwise: int) -> tuple[int, int | None] | None:
    """Steps between two samples, and with `at` the step within a trial of them; None after an error."""
    c, every, at = r.c, r.get("every"), r.get("at")
    if every is not None and at is not None:
        help = "`at` samples once per trial, `every` at round times: leave one of them out"
        c.sink.error("E0108", "`every` and `at` cannot stand together", at.span, help)
        return None
    if isinstance(at, Scalar):
        return find_moment(at, c)
    if every is None or populations.step is None:
        return otherwise, None
    width = r.steps("every", populations.step)
    return None if width is None else (width, None)


def _between(e: _Entry) -> tuple[int, int] | None:
    """Steps of the recorded interval."""
    node, step = e.r.get("between"), e.populations.step
    if not isinstance(node, Sequence) or len(node.items) != 2 or step is None:
        return None
    first, last = (in_steps(e.r.of("between"), i, e.c, "`between`", step) for i in node.items)
    if first is None or last is None:
        return None
    if last <= first:
        e.c.sink.error("E0106", "`between` must end after it begins", node.span)
        return None
    return first, last


def _traces(names: tuple[str, ...], e: _Entry) -> None:
    at, out = e.at, e.out
    interval, traced = interval_of(e.r, e.populations, 1), _traced(names, e.r, e.populations)
    for name in names:
        items = traced[name]
        built, good = e.populations.built.get(name), _variables(items, name, e.populations, e.c)
        if built is None or len(good) != len(items) or interval is None:
            continue
        members = _members(e, name, built.size)
        if members is None:
            continue
        between, (every, event) = _between(e), interval
        own = tuple(v for v in good if "." not in v)
        record = l0.RecordTraces(name, own, members, every, between, event, at)
        if _clashes(record, items, e):
            continue
        if own:
            out.traces.append(record)
            out.tracing.setdefault(name, record)
        for scope, count in (("population", 1), ("pool", built.pools)):
            shared = tuple(v for v in good if v.startswith(f"{scope}."))
            if shared:
                out.traces.append(l0.RecordTraces(name, shared, tuple(range(count)), every, between, event, at))
        for item in items:
            out.variables[name, item.text] = item.span


def _traced(names: tuple[str, ...], r: Reader, populations: Populations) -> dict[str, list[Scalar]]:
    """The variables to record of each population: of one that `all` or a class means, those that it has, and what none
    of them has."""
    items = [i for i in items_of(r.get("variables")) if isinstance(i, Scalar)]
    named = {text_of(i) for i in items_of(r.get("from"))}
    some = {v for name in names for v in populations.variables(name)}
    return {
        name: [i for i in items if name in named or i.text in populations.variables(name) or i.text not in some]
        for name in names
    }


def _variables(items: list[Scalar], name: str, populations: Populations, c: Context) -> tuple[str, ...]:
    """The variables that a population has among `items`; the others are reported."""
    neuron = populations.neuron_of.get(name)
    if neuron is None:
        return ()
    known = populations.variables(name)
    for item in items:
        if item.text not in known:
            _no_variable(item, name, neuron, known, c)
    return tuple(dict.fromkeys(i.text for i in items if i.text in known))


def _of_synapses(kind: str, e: _Entry) -> None:
    """`synapses` and `histogram`."""
    at, out = e.at, e.out
    found = _projection(e.r.get("from"), e)
    if found is None:
        return
    interval = interval_of(e.r, e.populations, 0)
    names = _of_projection(kind, e, found)
    if interval is None or not names:
        return
    if kind == "histogram":
        _histogram(found, names[0], interval, e)
        return
    other = next((r for r in out.synapses if r.projection == found.name), None)
    if other is not None:  # they would share their times in the file
        related = (Related("the other one is here", other.span),)
        message = f"the synapses of `{found.name}` have another record"
        e.c.sink.error("E0802", message, at, "record all of their variables in one entry", related)
        return
    out.synapses.append(l0.RecordSynapses(found.name, tuple(names), *interval, at))
    out.weighed.update({(found.name, name): at for name in names})


def _projection(source: Node | None, e: _Entry) -> l0.Projection | None:
    """The projection that an entry names; None after an error."""
    if not isinstance(source, Scalar):
        return None
    found, declared = next((p for p in e.projections if p.name == source.text), None), e.declared
    if found is None and source.text not in declared:  # else it has a mistake, which has been reported
        help = suggested(source.text, "the projections are", declared)
        e.c.sink.error("E0201", f"there is no projection `{source.text}`", source.span, help)
    return found


def _of_projection(kind: str, e: _Entry, projection: l0.Projection) -> list[str]:
    """The variables of synapses that an entry names; none after an error."""
    names: list[str] = []
    for item in items_of(e.r.get("variable" if kind == "histogram" else "variables")):
        unsure = e.populations.step is None and text_of(item) == "delay"  # its steps are not known
        if not isinstance(item, Scalar) or unsure or not _synapse_variable(item, projection, e.c):
            return []
        key = (kind, projection.name, item.text)
        if key in e.out.kept:
            e.twice(f"`{item.text}` of `{projection.name}` is", item.span)
            return []
        e.out.kept.add(key)
        names.append(item.text)
    return names


def _histogram(projection: l0.Projection, name: str, interval: tuple[int, int | None], e: _Entry) -> None:
    edges = e.r.get("range")
    if not isinstance(edges, Sequence) or len(edges.items) != 2:
        return
    unit = parse_unit(synapse_unit(projection, name, tuple(e.populations.built.values())))
    low, high = (number(x, e.c, "`range`", unit[0] if unit else None) for x in edges.items)
    bins = e.r.integer("bins")
    if low is None or high is None or bins is None:
        return
    if high <= low:
        e.c.sink.error("E0106", "`range` must end above where it begins", edges.span)
        return
    e.out.histograms.append(l0.RecordHistogram(projection.name, name, float(low), float(high), bins, *interval, e.at))


def _synapse_variable(item: Scalar, projection: l0.Projection, c: Context) -> bool:
    known = synapse_variables(projection)
    if item.text not in known:
        help = suggested(item.text, "they have", known, "they have no state")
        message = f"the synapses of `{projection.name}` have no variable `{item.text}`"
        c.sink.error("E0201", message, item.span, help, declared_at(projection.span, "the projection"))
        return False
    if projection.storage in ("bitmask", "procedural"):
        message = f"the synapses of `{projection.name}` are not stored: its storage is `{projection.storage}`"
        c.sink.error("E0802", message, item.span, "use `storage: sparse`")
        return False
    return True


def _no_variable(item: Scalar, name: str, neuron: BuiltNeuron, known: list[str], c: Context) -> None:
    help = did_you_mean(item.text, known)
    if item.text in neuron.params:
        help = f"`{item.text}` is a parameter, which does not change"
    elif help is None:
        help = allowed("it has", known) if known else "it has no state"
    message = f"neuron `{neuron.name}` of `{name}` has no state variable or input `{item.text}`"
    c.sink.error("E0201", message, item.span, help, declared_at(neuron.span, "the neuron"))


def _clashes(record: l0.RecordTraces, items: list[Scalar], e: _Entry) -> bool:
    """Traces of one population share their members and times in the output file."""
    other = e.out.tracing.get(record.population)
    if other is None:
        return False
    related = (Related("the other one is here", other.span),)
    kept, more = ((x.members, x.every, x.at, x.between) for x in (other, record))
    if kept != more:
        message = f"`{record.population}` has another trace with other `members`, `every`, `at` or `between`"
        e.c.sink.error("E0802", message, e.at, "record all of its variables in one trace", related)
        return True
    for item in items:
        earlier = e.out.variables.get((record.population, item.text))
        if earlier is not None:
            first = (Related("the first time here", earlier),)
            e.twice(f"`{item.text}` of `{record.population}` is", item.span, None, first)
            return True
    return False


def _members(e: _Entry, name: str, size: int) -> tuple[int, ...] | None:
    r, c, populations, node = e.r, e.c, e.populations, e.r.get("members")
    if isinstance(node, Sequence):
        values = r.integers("members", "each member")
        for value, item in zip(values or (), node.items, strict=False):
            if value >= size:
                _outside(value, name, size, item.span, populations, c)
                return None
        return None if values is None else tuple(dict.fromkeys(values))
    if r.word("members") == "all":
        return _range(0, size - 1, name, node.span if node is not None else e.at, c)
    found = _RANGE.match(r.word("members"))
    if found is None or node is None:
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
    related = declared_at(populations.places[name], "the population")
    message = f"`{name}` has no neuron {index:,}: it has {size:,}, counted from 0"
    c.sink.error("E0106", message, at, f"the last one is {size - 1:,}", related)


def need_spikes(names: tuple[str, ...], node: Node, recorded: Recorded, populations: Populations) -> bool:
    missing = next((n for n in names if n not in recorded.spiking), None)
    if missing is not None and not populations.silence_told(missing, node.span):
        what = f"the spikes of `{missing}` are not recorded"
        recorded.lacks("spikes", what, f"spikes: {{from: {missing}}}", node.span, populations.c)
    return missing is None
