"""Compatibility of a projection, its synapse and its neurons.

Assumes: the definition and the populations have been built.
Guarantees: `deliver` provides exactly what the synapse leaves open; neurons whose spikes are used do spike; delays have
an effect, and are uniform per projection where times or conditions are those of a neuron; no input is read while it is
accumulated. Each violation is an error at its span.
Does not: check expressions or values.
"""

from __future__ import annotations

from collections.abc import Iterator

import compiler.frontend.build.synapses.checks as checks
import compiler.ir.level0.model as l0
from compiler.connect import RULES, ConnectRule, Form
from compiler.connect.storage import Asked, Need, refused
from compiler.core.diagnostics import Related, Sink, declared_at
from compiler.core.source import Span
from compiler.expr.ast import calls, refs
from compiler.expr.inline import reads_through
from compiler.frontend.build.shared.values import Context, mapping
from compiler.frontend.build.spiking.family import Family
from compiler.frontend.build.spiking.populations import SPIKE
from compiler.frontend.build.synapses.statements import ENDS
from compiler.frontend.build.synapses.synapses import BuiltSynapse
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml import tree
from compiler.ir.level2.synapse_values import COUNTED, KERNEL, SUMS, read_delayed, read_now


def check_delivery(block: tree.Mapping, synapse: BuiltSynapse, at: Span, family: Family) -> bool:
    """Whether `deliver` provides exactly what the synapse leaves open; reports it if not."""
    sink, deliver = family.c.sink, block.entry("deliver")
    inner = None if deliver is None else mapping(deliver.value)
    if deliver is None:
        if not synapse.delivers:
            return True
        message = f"`{family.name}` does not say which input the synapse `{synapse.name}` delivers into"
        related = (Related("delivered here", synapse.delivers[0]),)
        sink.error("E0103", message, at, "write `deliver: {into: ...}`", related)
        return False
    if inner is None:
        return False
    weight = inner.entry("weight")
    if weight is not None:
        message = f"the synapse `{synapse.name}` says what is delivered, so there is no `weight` here"
        name = next((n for n in ("w", "weight", "g", "gain") if n in synapse.states or n in synapse.params), None)
        help = None
        if name is not None:
            help = f"write `{'init' if name in synapse.states else 'params'}: {{{name}: ...}}`"
        sink.error("E0108", message, weight.key.span, help)
        return False
    if not synapse.delivers:
        what = (
            "names every input itself"
            if synapse.definition is not None and synapse.definition.sends
            else "delivers nothing"
        )
        message = f"`deliver` has no effect: the synapse `{synapse.name}` {what}"
        sink.error("E0108", message, deliver.key.span, "leave `deliver` out", declared_at(synapse.span, "the synapse"))
        return False
    return True


def check_spikes(
    block: tree.Mapping, s: l0.SynapseDef, sources: tuple[str, ...], targets: tuple[str, ...], family: Family
) -> None:
    """E0604 where the synapse uses spikes of neurons that never spike."""
    for end, names, key in (("pre", sources, "from"), ("post", targets, "to")):
        if checks.takes_spikes(s, end) and (node := block.get(key)) is not None:
            more = (Related(f"the synapse waits for `{end}` spikes", s.span),)
            family.populations.never_spikes(names, node.span, SPIKE, more)


def check_delays(block: tree.Mapping, s: l0.SynapseDef, members: list[l0.Member], family: Family) -> None:
    """Delays without effect on the synapse, and per-synapse delays of variables stored per neuron."""
    sink = family.c.sink
    delay, back = block.entry("delay"), block.entry("back_delay")
    used = {
        end: checks.takes_spikes(s, end) or checks.reads_delayed(s, end) or bool(checks.delayed_events(s, end))
        for end in ENDS
    }
    if delay is not None and not used["pre"] and any(m.delay or m.delays for m in members):
        message = f"`delay` is that of spikes, and the synapse `{s.name}` has no statements for those of the source"
        help = "what is read of the source with the delay is written `delayed(pre.v)`"
        if any(e.end == "pre" for e in s.events):
            help += "; an event whose statements run after the delay has `delayed: true`"
        sink.error("E0802", message, delay.key.span, help, declared_at(s.span, "the synapse"))
    for end, entry in (("pre", delay), ("post", back)):
        if entry is not None and any(m.delays_of(end) is not None for m in members):
            _check_apart(end, entry, block, s, sink)
    if back is not None and not used["post"] and any(m.back_delay or m.back_delays for m in members):
        message = f"`back_delay` has no effect: nothing in the synapse `{s.name}` waits for spikes of the target"
        sink.error(
            "E0108", message, back.key.span, "leave it out, or write `on_post`", declared_at(s.span, "the synapse")
        )


def _check_apart(end: str, entry: tree.Entry, block: tree.Mapping, s: l0.SynapseDef, sink: Sink) -> None:
    """E0802 for what is one value per neuron of `end`, and cannot be where each synapse has its own delay, given by
    `entry`."""
    at, side = entry.value.span, "source" if end == "pre" else "target"
    traces = _traces(s, end)
    for name in checks.late_times(s, end):
        message = f"`{entry.name}` differs from synapse to synapse, but `{name}` is held once per {side} neuron"
        help = f"give one delay per projection, or hold it as a state: `on_{end}: [last = t]`"
        sink.error("E0802", message, at, help, declared_at(s.span, "the synapse"))
        return
    for event in (e for e in s.events if e.end == end and (read_delayed(e.when) or refs(e.when) & traces)):
        message = f"`{entry.name}` differs from synapse to synapse, but the condition of `{event.name}` is tested once "
        message += f"per {side} neuron"
        help = "give one delay per projection, or move the test into `do`"
        sink.error("E0802", message, at, help, declared_at(event.span, "it"))
        return
    clear = block.entry("clear")
    if clear is not None and traces:
        message = f"`clear` forgets spikes of each synapse, but `{min(traces)}` is held once per {side} neuron"
        help = "give one delay per projection, or leave `clear` out"
        sink.error("E0802", message, clear.key.span, help, (Related("the delays differ here", at),))


def _traces(s: l0.SynapseDef, end: str) -> set[str]:
    """The variables of `pre:` or `post:`, as statements call them."""
    block = s.pre if end == "pre" else s.post
    return set[str]() if block is None else {f"{end}.{x.name}" for x in block.state}


def check_starts(s: l0.SynapseDef, members: list[l0.Member], c: Context, user: Related) -> None:
    """E0802 where a trial starts with variables of `pre:` or `post:` that reach each synapse with its own delay."""
    late = {end for end in ENDS for m in members if m.delays_of(end) is not None}
    traces = set[str]().union(*(_traces(s, end) for end in late))
    first = {(p.name, event) for p in c.phases for event, at in p.events if at == 0}
    for handler in (h for h in s.on if (h.phase, h.event) in first):
        found = sorted(reads_through(l0.values_of(handler.actions), s.lets) & traces)
        if found:
            message = f"`{found[0]}` reaches each synapse with its own delay, and cannot be read when a trial starts"
            help = "read it at the end of the trial, or give one delay per projection"
            c.sink.error("E0802", message, handler.span, help, (user,))
            return


def _unprompted(s: l0.SynapseDef) -> Iterator[tuple[l0.Action, ...]]:
    """The statements that wait for no spike, and for no event that comes late."""
    yield s.update
    yield from (e.actions for e in s.events if not e.delayed)
    yield from (h.actions for h in s.on)


def check_clear(block: tree.Mapping, s: l0.SynapseDef, c: Context) -> None:
    """`clear` of a synapse that waits for no spikes, or reads what is on its way without them."""
    clear, related = block.entry("clear"), declared_at(s.span, "the synapse")
    if clear is None:
        return
    if not any(checks.takes_spikes(s, end) or checks.delayed_events(s, end) for end in ENDS):
        message = f"`clear` has no effect: nothing in the synapse `{s.name}` waits for spikes"
        c.sink.error("E0108", message, clear.key.span, "leave `clear` out", related)
        return
    always = (*(o.rhs for o in s.dynamics), *(e.when for e in s.events))
    always += tuple(v for actions in _unprompted(s) for v in l0.values_of(actions))
    seen = reads_through(always, s.lets)
    for value in (*always, *(let.value for let in s.lets if let.target in seen)):
        for name in sorted(read_delayed(value)):
            message = f"`clear` forgets spikes, but the synapse `{s.name}` reads `delayed({name})` without one"
            help = "leave `clear` out, or read it in `on_pre` or `on_post`"
            c.sink.error("E0802", message, clear.key.span, help, related)
            return


def check_reads(s: l0.SynapseDef, into: str, members: list[l0.Member], user: Related, c: Context) -> None:
    """E0802 where a synapse reads an input that it delivers into: the result would depend on the evaluation order of
    synapses."""
    ends = {"pre": {m.source for m in members}, "post": {m.target for m in members}}
    delivered = {(a.end, a.into or into) for a in s.sends}
    places = [(o.rhs, o.span) for o in s.dynamics] + [(e, a.span) for a in s.actions for e in l0.values_of([a])]
    own = {f"{end}.{name}" for end in ENDS for name in s.own_inputs(end)}
    of_ends = [(x.value, x.span) for block in s.ends.values() for x in block.deliver]
    for value, at in (*places, *((let.value, let.span) for let in s.lets), *of_ends):
        for name in sorted(read_now(value) - (own if (value, at) in of_ends else set())):
            end, _, variable = name.partition(".")
            for other, target in delivered:
                if end in ends and variable == target and ends[end] & ends[other]:
                    message = f"`{name}` is read while the synapse adds to it: which synapses it has counted is open"
                    help = "read a state of the neuron that follows the input, or deliver into another input"
                    if name in own:
                        help = f"read a variable of `{end}` that follows it: `{end}: {{update: [x = {variable}]}}`"
                    c.sink.error("E0802", message, at, help, (user,))
                    return


def check_kernel_sums(s: l0.SynapseDef, rule: ConnectRule, at: Span, c: Context) -> None:
    """E0802 for sums over the elements of a kernel where the rule, at `at`, has none."""
    used = next((f for e in s.values for f in sorted(calls(e)) if f in SUMS and SUMS[f][1] == KERNEL), None)
    if used is not None and rule.form is not Form.WINDOWS:
        message = f"`{used}` is over the synapses with one element of a kernel, which `{rule.keys.name}` does not have"
        c.sink.error("E0802", message, at, "`conv2d` has one; `sum_post` and `sum_pre` are over those of a neuron")


def check_counts(s: l0.SynapseDef, members: list[l0.Member], at: Span, c: Context) -> None:
    """E0802 where synapses that are rewired read how many there are."""
    rewired = next((a for a in s.actions if isinstance(a, l0.Rewire)), None)
    if rewired is None:
        return
    own = {
        *(p.name for p in s.params),
        *(x.name for x in s.state),
        *(a.target for a in s.actions if isinstance(a, l0.Set)),
    }
    values = [v.value for m in members[:1] for _, v in (*m.params, *m.init) if isinstance(v, l0.Placed)]
    read = set[str]().union(*(refs(e) - own for e in s.values), *(refs(e) for e in values)) & COUNTED.keys()
    if read:
        message = f"`{min(read)}` is the number of synapses when the run begins, but `{s.name}` rewires them"
        help = "`sum_post(1)` and `sum_pre(1)` count those that there are now"
        c.sink.error("E0802", message, at, help, (Related("they are rewired here", rewired.span),))


def check_rewired(s: l0.SynapseDef, rule: ConnectRule, storage: str, at: Span, c: Context) -> None:
    """E0802 for rewiring where the rule, at `at`, leaves no choice, or where connections are not stored."""
    rewired = [a for a in s.actions if isinstance(a, l0.Rewire)]
    if not rewired:
        return
    related = (Related("they are rewired here", rewired[0].span),)
    if rule.form is Form.DRAWN:
        found = refused(storage, Asked(rule, synapse=s), (Need.REWIRED,))
        if found is not None:
            c.sink.error(found.code, found.message, at, found.help, related)
        return
    drawn = (x.keys.name for x in RULES if x.form is Form.DRAWN)
    why = "they are given one by one" if rule.form is Form.GIVEN else "they follow from the rule"
    message = f"synapses of `{rule.keys.name}` cannot be rewired: {why}"
    c.sink.error("E0802", message, at, allowed("rules that draw them are", drawn), related)
