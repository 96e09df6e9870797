"""`pre:` and `post:` of a synapse, and the variables of both neurons in its scope.

Assumes: a draft whose parameters are declared.
Guarantees: variables of an end read only their own kind, parameters, `t`, `dt` and phase counters; dotted names are
unambiguous.
Does not: depend on projections (the draft has both neurons, or none: then any name of a neuron is
accepted).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at
from compiler.core.source import Span
from compiler.expr.ast import Ref, substitute
from compiler.expr.units import DIMENSIONLESS, TIME, Dimension
from compiler.frontend.build.shared.definition_builder import Draft, build_dynamics, build_states
from compiler.frontend.build.shared.delayed import DOT, Delayable
from compiler.frontend.build.shared.phases import counters, find_handlers
from compiler.frontend.build.shared.scope import Scope, Wanted
from compiler.frontend.build.shared.values import entries_of, listed, mapping
from compiler.frontend.build.spiking.neurons import BuiltNeuron, build_inputs
from compiler.frontend.build.synapses.statements import ENDS, SynapseDraft, build_own, input_of, what_time
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node

NO_RANDOM: Final = "random numbers can be drawn in `on_pre`, `on_post`, `update` and `events` only"
_OF_AN_END = re.compile(r"\b(pre|post)\.((?:(?:pool|population)\.)?[A-Za-z]\w*)", re.ASCII)


def build_end(d: SynapseDraft, end: str) -> l0.EndDef | None:
    """`pre:` or `post:`; called while only the parameters are declared, which are its scope."""
    block = mapping(d.node.get(end))
    if block is None:
        return None
    own = Draft(d.name, block, d.c, f"`{end}` block", NO_RANDOM, d.params)
    own.places, own.nouns, own.read, own.late, own.totals = dict(d.places), dict(d.nouns), d.read, d.late, d.totals
    state = build_states(own)
    for entry in entries_of(block.get("state")):
        if entry.name in d.times[end]:
            message = f"`{end}.{entry.name}` is {what_time(entry.name)} and cannot name a variable"
            d.c.sink.error("E0107", message, entry.key.span)
    inputs = build_inputs(own)
    scope = own.scope(own.params, own.states, own.inputs, {"t": TIME, "dt": TIME}, counters(d.c))
    dynamics = build_dynamics(own, scope)
    own.states.update(own.inputs)
    for i in inputs:
        d.origins[f"{end}.{i.name}.decay"] = own.origins.get(f"{i.name}.decay", i.span)
        state += (l0.StateDecl(i.name, i.unit, l0.Const(0.0), i.span),)
    update = build_own(own, listed(block.get("update")), scope)
    d.traces[end] = own.states
    d.inputs.update({f"{end}.{n}": dimension for n, dimension in own.inputs.items()})
    d.places.update({f"{end}.{n}": own.places[n] for n in own.states})
    d.nouns.update({f"{end}.{n}": f"a variable of `{end}`" for n in own.states})
    on_spike = build_own(own, listed(block.get("on_spike")), scope)
    on = find_handlers(block.get("on"), d.c, lambda items: build_own(own, items, scope), l0.Handler)
    return l0.EndDef(state, dynamics, update, on_spike, block.span, on, inputs)


def build_deliver(d: SynapseDraft, end: str, block: l0.EndDef | None, scope: Scope) -> l0.EndDef | None:
    """`block` with what it delivers in every step. `scope`: that of statements."""
    outer = mapping(d.node.get(end))
    node = None if outer is None else outer.get("deliver")
    if block is None or node is None:
        return block
    entries: list[tuple[str | None, Node, Node]] = [(None, node, node)]
    if isinstance(node, tree.Mapping):
        entries = [(e.name, e.value, e.key) for e in node.entries]
    else:
        d.deliveries.append(node.span)
    own = {name: dimension for name, dimension in d.traces[end].items() if name not in d.params}
    seen = {n for n in scope.kinds if n.partition(".")[0] not in ENDS or n.startswith(f"{end}.")} - d.states.keys()
    visible = replace(scope, kinds={n: k for n, k in scope.kinds.items() if n in seen}, delayed=None)
    visible = visible.extended(own)
    out: list[l0.Send] = []
    for into, value, at in entries:
        dimension = d.ends.into
        if into is not None:
            named = input_of(d, end, into, at.span)
            if named is None:
                continue
            dimension = named[0]
        what = "what is delivered" if into is None else f"what is delivered into `{end}.{into}`"
        found = d.check(value, visible, Wanted(what, dimension, False, "random numbers cannot stand here"))
        if found is not None:
            dotted = substitute(found.expr, {n: Ref(f"{end}.{n}") for n in own})
            out.append(l0.Send(dotted, end, into, value.span))
    return replace(block, deliver=tuple(out))


def connected(d: SynapseDraft, names: Iterable[str]) -> dict[str, Dimension | None]:
    """Which of l0.CONNECTED statements may read: a name that the user gives to something else keeps that meaning."""
    texts = "\n".join(x.text for x in tree.texts(d.node, "description"))
    return {
        name: DIMENSIONLESS
        for name in names
        if name not in d.c.names.scope.kinds and not re.search(rf"^\s*{name}\s*[-+*]?=(?!=)", texts, re.MULTILINE)
    }


def names_of(d: SynapseDraft, end: str) -> tuple[dict[str, Dimension | None], Mapping[str, Span]]:
    """Dimensions and spans of one end's variables in a synapse's scope, by dotted name."""
    neuron = d.ends.of(end)
    dimensions: dict[str, Dimension | None] = {}
    if neuron is None:
        dimensions = {f"{end}.{n}": None for e, n in mentions(d.node) if e == end}
    else:
        for group in (neuron.params, neuron.states, neuron.inputs, neuron.shared):
            dimensions.update({f"{end}.{n}": dimension for n, dimension in group.items()})
        _clashes(d, end, neuron)
    dimensions.update({f"{end}.{n}": TIME for n in d.times[end]})
    dimensions.update({f"{end}.{n}": dimension for n, dimension in d.traces[end].items()})
    return dimensions, {n: d.places[n] for n in dimensions if n in d.places}


def multiplies_histories(node: Node) -> bool:
    """Whether the texts below `node` may hold products of histories."""
    return any(f"{DOT}(" in x.text.replace(" ", "") for x in tree.texts(node, "description"))


def histories_of(d: SynapseDraft) -> dict[str, int]:
    """The histories of both neurons; any name of an unknown neuron may be one (0: of unknown length)."""
    found: dict[str, int] = {}
    for end in ENDS:
        neuron = d.ends.of(end)
        own = neuron.histories if neuron is not None else {n: 0 for e, n in mentions(d.node) if e == end}
        found |= {f"{end}.{name}": count for name, count in own.items()}
    return found


def delayable(d: SynapseDraft) -> Delayable:
    """Valid arguments of `delayed(...)`: states and inputs of the neurons; any name of an unknown neuron."""
    dimensions: dict[str, Dimension | None] = {}
    others: dict[str, str] = {}
    for end in ENDS:
        neuron = d.ends.of(end)
        if neuron is None:
            dimensions.update({f"{end}.{n}": None for e, n in mentions(d.node) if e == end})
        else:
            others.update({f"{end}.{n}": "a parameter is read without `delayed`" for n in neuron.params})
            copy = "copy it into a state of the neuron, `update: [x = {}]`, and read that"
            others.update({f"{end}.{n}": copy.format(n) for n in neuron.shared})
            dimensions.update({f"{end}.{n}": x for group in (neuron.states, neuron.inputs) for n, x in group.items()})
        late = "delay" if end == "pre" else "back_delay"
        help = f"it follows the spikes as they arrive, which is after the `{late}`: read it without `delayed`"
        others.update({f"{end}.{n}": help for n in (*d.traces[end], *d.times[end])})
    return Delayable(dimensions, others)


def _clashes(d: SynapseDraft, end: str, neuron: BuiltNeuron) -> None:
    """E0212 for a variable of `pre:` that the neuron also declares, and for a neuron's own
    `last_spike` and the like."""
    side = "source" if end == "pre" else "target"
    for name in d.traces[end]:
        if name in neuron.places:
            message = f"`{end}.{name}` is a variable of `{end}` and one of the {side} neuron `{neuron.name}` too"
            related = declared_at(neuron.places[name])
            d.c.sink.error("E0212", message, d.places[f"{end}.{name}"], "choose another name", related)
    read = {n for e, n in mentions(d.node) if e == end}
    for name in d.times[end]:
        if name in neuron.places and name in read:
            message = f"`{end}.{name}` is {what_time(name)}, and the {side} neuron has a variable of that name"
            related = declared_at(neuron.places[name])
            d.c.sink.error("E0212", message, d.node.span, "rename the variable of the neuron", related)


def mentions(node: Node) -> set[tuple[str, str]]:
    """Every (end, name) that the texts below `node` read as `pre.x` or `post.x`."""
    return {(m[1], m[2]) for x in tree.texts(node, "description") for m in _OF_AN_END.finditer(x.text)}
