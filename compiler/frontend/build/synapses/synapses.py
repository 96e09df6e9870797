"""Synapse definitions: from a resolved block of `synapses` to a SynapseDef.

Assumes: the block has been validated; `use` has been expanded.
Guarantees: every expression is typed in the scope defined by the language, and dimension-checked: on its own as far as
possible, and for each pair of neurons in a projection, where variables of the neurons (`pre.v`) and the dimensions of
inputs are known. An error is reported once. Random initial values over parameters are computed with the defaults.
Does not: choose integrators, or compute the values of parameters (use.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import compiler.frontend.build.shared.definition_builder as parts
import compiler.frontend.build.synapses.checks as checks
import compiler.frontend.build.synapses.ends as neuron_ends
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Severity, Sink
from compiler.core.source import Span
from compiler.expr.interp import ExprError, evaluate
from compiler.expr.units import TIME, Dimension
from compiler.frontend.build.instances.shared import shared_states
from compiler.frontend.build.shared.definitions import Definitions, place_of
from compiler.frontend.build.shared.initial_values import initial_value
from compiler.frontend.build.shared.others import build_others, explain_undeclared
from compiler.frontend.build.shared.phases import counters, find_handlers
from compiler.frontend.build.shared.random_help import words_of
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.scope import TOTAL, Scope, Wanted, total_name
from compiler.frontend.build.shared.values import Context, Names, entries_of, listed, mapping, text_of
from compiler.frontend.build.synapses.help import explain
from compiler.frontend.build.synapses.statements import ENDS, Ends, SynapseDraft, build_actions
from compiler.frontend.language.spiking.synapses import SYNAPSE, SYNAPSE_EVENT
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar

_NOTHING: Mapping[str, Dimension] = MappingProxyType({})


@dataclass
class BuiltSynapse:
    """A definition with the data for checking projections. `definition` is None after an error. `drawn`: random
    initial values by state; they may read parameters. `delivers`: spans of deliveries into the projection's input.
    `given`: dimensions inferred from a projection's values for names declared without a unit; `moving`: parameters that
    a projection gives as expressions of the time, which the definition reads in their place."""

    name: str
    node: tree.Mapping
    definition: l0.SynapseDef | None
    params: dict[str, Dimension | None]
    states: dict[str, Dimension | None]
    places: dict[str, Span]
    drawn: dict[str, Node]
    delivers: tuple[Span, ...]
    span: Span
    given: Mapping[str, Dimension] = field(default_factory=dict)
    moving: frozenset[str] = frozenset()


@dataclass
class Synapses:
    """The synapse definitions that projections refer to, each built once and checked once per use."""

    c: Context
    definitions: Definitions
    _built: dict[int, tuple[tree.Mapping, BuiltSynapse]] = field(default_factory=dict)
    _adapted: dict[tuple[object, ...], BuiltSynapse] = field(default_factory=dict)
    _checked: dict[tuple[object, ...], bool] = field(default_factory=dict)
    _between: dict[tuple[object, ...], BuiltSynapse] = field(default_factory=dict)
    _written_out: dict[tuple[int, l0.SynapseDef], BuiltSynapse] = field(default_factory=dict)
    moved: dict[object, BuiltSynapse] = field(default_factory=dict)
    """With expressions of the time in place of parameters (moving.py)."""
    _told: set[tuple[str, str, Span | None]] = field(default_factory=set)

    def build_own(self) -> None:
        """The file's own definitions, whether they are used or not."""
        for entry in self.definitions.own():
            block = mapping(entry.value)
            if block is not None:
                self._of(entry.name, block, entry.key.span)

    def find(self, reference: Scalar) -> BuiltSynapse | None:
        """The definition that `reference` refers to; None after an error."""
        block = self.definitions.find(reference)
        if block is None:
            return None
        name = self.definitions.name_of(reference)
        return self._of(name, block, place_of(name, block))

    def _of(self, name: str, block: tree.Mapping, at: Span) -> BuiltSynapse:
        known = self._built.get(id(block))
        if known is None:
            known = (block, build_synapse(name, block, at, self.c))
            self._built[id(block)] = known
        return known[1]

    def with_dimensions(self, synapse: BuiltSynapse, given: Mapping[str, Dimension], user: Related) -> BuiltSynapse:
        """The definition where parameters and states that are declared without a unit have these dimensions."""
        if not given:
            return synapse
        key = (id(synapse), tuple(sorted(given.items(), key=lambda item: item[0])))
        known = self._adapted.get(key)
        if known is None:
            own = Sink()
            c = replace(self.c, sink=own)
            known = build_synapse(synapse.name, synapse.node, synapse.span, c, given=given)
            self._adapted[key] = known
            self._tell(own, user)
        return known

    def fits(self, synapse: BuiltSynapse, ends: Ends, user: Related) -> bool:
        """Whether the definition is compatible with these neurons; errors mention `user`, the projection."""
        key = (id(synapse), id(ends.pre), id(ends.post), ends.into)
        if key not in self._checked:
            own = Sink()
            c = replace(self.c, sink=own)
            self._between[key] = build_synapse(synapse.name, synapse.node, synapse.span, c, ends, synapse.given)
            self._checked[key] = not self._tell(own, user)
        return self._checked[key]

    def written_out(
        self, synapse: BuiltSynapse, whole_synapse: BuiltSynapse, ends: Iterable[Ends], at: Span
    ) -> BuiltSynapse:
        """A definition that fits these neurons, with products of their histories written out. `whole_synapse`: before
        parameters were replaced by expressions of the time, as the result is."""
        if not neuron_ends.multiplies_histories(synapse.node):
            return synapse
        found = [self._between[id(synapse), id(e.pre), id(e.post), e.into].definition for e in ends]
        whole = {x: None for x in found if x is not None}
        if len(whole) > 1:
            message = f"`{synapse.name}` multiplies histories, which have different lengths in these populations"
            self.c.sink.error("E0802", message, at, "write an entry for each length")
        for definition in whole:
            key = (id(synapse), definition)
            return self._written_out.setdefault(key, replace(whole_synapse, definition=definition))
        return synapse

    def _tell(self, found: Sink, user: Related) -> bool:
        """Report the errors of a definition at a use, each once; whether there are any."""
        errors = [d for d in found.items if d.severity is Severity.ERROR]
        for d in errors:
            if (d.code, d.message, d.span) not in self._told:
                self._told.add((d.code, d.message, d.span))
                self.c.sink.items.append(replace(d, related=(*d.related, user)))
        return bool(errors)


def build_synapse(
    name: str,
    node: tree.Mapping,
    at: Span,
    c: Context,
    ends: Ends | None = None,
    given: Mapping[str, Dimension] = _NOTHING,
) -> BuiltSynapse:
    """The synapse definition `node`, declared at `at`, between the neurons `ends`, with the dimensions `given` by a
    projection; with `definition` None when it has errors (reported)."""
    before = len(c.sink.items)
    d = SynapseDraft(name, node, c, "synapse", neuron_ends.NO_RANDOM, given=given, ends=ends or Ends())
    d.late, d.totals = neuron_ends.connected(d, l0.CONNECTED[:2]), d.params
    drawn: dict[str, Node] = {e.name: e.value for e in entries_of(node.get("state")) if not isinstance(e.value, Scalar)}
    made, flag = _definition(d, at), node.get("event_driven")
    if not c.sink.failed(before):  # what has been refused may be what they look for
        checks.check_shared(made, d)
        checks.check_formed(made, d)
        if made.event_driven and flag is not None:
            checks.check_event_driven(made, flag.span, node, d)
        if c.names.scope.timed:
            checks.check_timed(made, d)
    explain(c.sink, before, d)
    explain_undeclared(d, before)
    definition: l0.SynapseDef | None = None
    if not c.sink.failed(before):
        local = {a.target for a in made.actions if isinstance(a, l0.Set)}  # of another file, called as a parameter is
        definition = parts.with_model_params(d, made, d.places.keys() | local)
        c.unread_params.read(_of_neurons(d))
        if ends is None and not given:
            parts.note_unread(d, made.params, "synapse")
    return BuiltSynapse(name, node, definition, d.params, d.states, d.places, drawn, tuple(d.deliveries), at, given)


# ----------------------------------------------------------------------------------------- parts


def _definition(d: SynapseDraft, at: Span) -> l0.SynapseDef:
    """All parts of the definition; those that have mistakes (reported) are left out."""
    node, c = d.node, d.c
    params = parts.build_params(d)
    others = build_others(d)
    for entry in entries_of(node.get("events")):
        of = mapping(entry.value)
        if of is not None and (end := text_of(of.get("of"))) in ENDS and entry.name != l0.SPIKE:
            d.times[end] += l0.times_of(entry.name)
    blocks = {end: neuron_ends.build_end(d, end) for end in ENDS}
    state = parts.build_states(d, lambda value, what: drawn_value(d, params, value, what))
    counts = neuron_ends.connected(d, l0.CONNECTED[2:])
    scope = d.scope(counts, d.params, d.states, {"t": TIME, "dt": TIME}, counters(c), d.others)
    for end in ENDS:
        scope = scope.extended(*neuron_ends.names_of(d, end))
    scope = replace(scope, delayed=neuron_ends.delayable(d), histories=neuron_ends.histories_of(d))
    lets, scope = parts.build_lets(d, scope)
    blocks = {end: neuron_ends.build_deliver(d, end, block, scope) for end, block in blocks.items()}
    d.shared = shared_states(d)
    dynamics = parts.build_dynamics(d, scope)
    update = build_actions(d, listed(node.get("update")), scope, sums=True)
    on_pre = build_actions(d, listed(node.get("on_pre")), scope)
    on_post = build_actions(d, listed(node.get("on_post")), scope)
    events = _events(d, scope, lets)
    r = Reader(SYNAPSE, node, c)
    return l0.SynapseDef(
        d.name,
        params,
        state,
        lets,
        blocks["pre"],
        blocks["post"],
        dynamics,
        update,
        on_pre,
        on_post,
        events,
        l0.Method(r.word("method")),
        r.flag("event_driven"),
        (),
        find_handlers(node.get("on"), c, lambda items: build_actions(d, items, scope, True, True), l0.SynapseHandler),
        d.shared,
        d.keep[0] if d.keep is not None else "outdegree" if d.vacancies else None,
        d.vacancies,
        others,
        at,
    )


def _events(d: SynapseDraft, scope: Scope, lets: tuple[l0.Set, ...]) -> tuple[l0.SynapseEvent, ...]:
    out: list[l0.SynapseEvent] = []
    for entry in entries_of(d.node.get("events")):
        block = mapping(entry.value)
        if block is None:
            continue
        end, node = text_of(block.get("of")), block.get("when")
        actions = build_actions(d, listed(block.get("do")), scope)
        if node is None or end not in ENDS:
            continue
        when = d.check(node, scope, Wanted("`when`", None, True, None))
        if entry.name == l0.SPIKE:
            message = f"`{entry.name}` is the spike of a neuron and cannot name another event"
            d.c.sink.error("E0107", message, entry.key.span, "choose another name")
        if when is None:
            continue
        condition = checks.with_lets(when.expr, lets, "`when`", d.c.sink)
        if condition is not None and checks.check_event(condition, end, node.span, d):
            delayed = Reader(SYNAPSE_EVENT, block, d.c).flag("delayed")
            out.append(l0.SynapseEvent(entry.name, end, condition, actions, delayed, entry.key.span))
    return tuple(out)


def _of_neurons(d: SynapseDraft) -> list[Span]:
    """The declarations of the neuron variables that the synapse reads."""
    found = ((d.ends.of(end), name) for end, _, name in (n.partition(".") for n in d.read) if end in ENDS)
    return [neuron.places[name] for neuron, name in found if neuron is not None and name in neuron.places]


def drawn_value(
    d: SynapseDraft, params: tuple[l0.ParamDecl, ...], node: Node, what: str
) -> tuple[l0.Value | None, Dimension | None]:
    """A distribution of initial values over the parameters, with their defaults; each projection evaluates it with its
    own. A parameter without a default counts as 1 while the dimensions are checked."""
    words = words_of(node)
    d.read |= words & d.params.keys()
    numbers, complete = default_numbers(params, d.c.names.numbers)
    later = {*d.states, *d.late, *(total_name(name) for name in d.params)}
    names = Names(d.scope(d.params, d.states), {**dict.fromkeys(later, 1.0), **numbers})
    if complete and not words & {*d.states, *d.late, TOTAL}:
        return initial_value(node, d.c, what, None, names)
    own = Sink()
    _, dimension = initial_value(node, replace(d.c, sink=own), what, None, names)
    d.c.sink.items += [i for i in own.items if i.code not in ("E0106", "E0308")]  # those concern the values
    return l0.Const(0.0, node.span), dimension


def default_numbers(params: tuple[l0.ParamDecl, ...], numbers: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The defaults of parameters as numbers, evaluated with those of the model, and whether each has one (else 1)."""
    out, complete = dict(numbers), True
    for p in params:
        value: Any = None
        if isinstance(p.default, l0.Const):
            value = p.default.value
        elif isinstance(p.default, l0.Formula):
            try:
                value = evaluate(p.default.expr, out)
            except ExprError:
                value = None
        complete = complete and value is not None
        out[p.name] = 1.0 if value is None else value
    return out, complete
