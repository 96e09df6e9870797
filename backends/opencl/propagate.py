"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: a work item visits the synapses of an event in the order of the relation; events run side by side. Sums into
shared elements are atomic, exact for integers; statements that would race are rejected.
Does not: choose the relation.
"""

from __future__ import annotations

import re
from dataclasses import replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Body, Line, Symbol, indent, statement_refs
from backends.c_family.synapse_elements import elements, read_once_per_event, refuse_races
from backends.c_family.synapse_walk import Ends, walk
from backends.opencl.events import render
from backends.opencl.kernel import function
from compiler.ir.space import DType


def propagate(k: Kernel, p: l2.Propagate) -> list[Line]:
    """The kernel of one propagation."""
    refuse_races(k, p)
    scope, fresh = dict(k.scope), k.namer.fresh
    number, event, pre, post, syn = (fresh(x) for x in ("events", "event", "pre", "post", "k"))
    at = {"pre": pre, "post": post, "syn": syn}
    for end, text in at.items():
        scope.setdefault(end, Symbol(text, DType.I64))
    ends = Ends(pre, post, syn) if p.by == "pre" else Ends(post, pre, syn)
    if isinstance(p.relation, l2.Procedural):
        ends = replace(ends, many=fresh("many"), nth=fresh("t"))
    early, which = _events(k, p.events, number, event)
    accesses = [f.access for f in k.template.formals if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At)]
    now = {slots: fresh("now") for slots in dict.fromkeys(a.ring[1] for a in accesses if a.ring is not None)}
    places = elements(k, at, now)
    once = {f.name for f in k.template.formals
            if isinstance(f, l2.ArrayFormal) and read_once_per_event(f, p.by, k.pointers.keys())}  # fmt: skip
    source = Body(k.printer, scope, places, k.namer)
    before = source.load(once & statement_refs(p.statements))
    body = Body(k.printer, dict(source.scope), places, k.namer)
    inner = body.finish(p.statements)
    words = set(re.findall(r"\w+", "\n".join(x.text for x in (*before, *inner))))
    w = walk(k, p.relation, ends, p.by, None, words, render)
    lines = [
        *(Line(f"const nl_i64 {name} = nl_slot(step, {scope[slots].text});") for slots, name in now.items()),
        Line(f"for (nl_i64 {event} = get_global_id(0); {event} < {number}; {event} += get_global_size(0)) {{"),
        Line(f"const nl_i64 {ends.event} = {which};", 1),
        *indent([*w.before, *before, *w.head, *indent([*w.inside, *inner], w.depth), *w.tail]),
        Line("}"),
    ]
    return function(k, lines, early)


def _events(k: Kernel, events: l2.Events | l2.Every, number: str, event: str) -> tuple[list[Line], str]:
    """(lines that find the `number` of events, or return; the neuron of `event`)."""
    if isinstance(events, l2.Every):
        return [Line(f"const nl_i64 {number} = {k.scope[events.n].text};")], event
    slot, late = k.namer.fresh("slot"), k.scope[events.delay].text
    early = [
        Line(f"if (step <= {late}) return; /* nothing had been emitted so long ago */"),
        Line(f"const nl_i64 {slot} = nl_slot(step - {late}, {k.scope[events.slots].text});"),
        Line(f"const nl_i64 {number} = {k.pointers[events.count]}[{slot}];"),
        Line(f"if (get_global_id(0) >= {number}) return;"),
    ]
    return early, f"{k.pointers[events.list]}[{slot} * {k.scope[events.stride].text} + {event}]"
