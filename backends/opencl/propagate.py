"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: a work item visits the synapses of an event in the order of the relation; events run side by side. Sums into
shared elements are atomic, exact for integers; statements that would race are rejected.
Does not: choose the relation.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Body, Symbol, statement_refs
from backends.c_family.synapse_elements import elements, find_events, read_once_per_event, refuse_races, rings
from backends.c_family.synapse_walk import Ends, Visit, walk
from backends.kernel_ir.expr import call
from backends.kernel_ir.stmt import For, Kind, Let, Stmt
from backends.kernel_ir.tree import Code
from backends.opencl.events import SKELETONS
from backends.opencl.kernel import function
from compiler.ir.space import DType


def propagate(k: Kernel, p: l2.Propagate) -> list[Stmt]:
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
    now = {slots: fresh("now") for slots in rings(k)}
    places = elements(k, at, now, k.scope)
    once = {f.name for f in k.template.arrays if read_once_per_event(f, p.by, k.pointers.keys())}
    source = Body(k.dialect, scope, places, k.namer)
    before = source.load(once & statement_refs(p.statements))
    body = Body(k.dialect, dict(source.scope), places, k.namer)
    inner = body.finish(p.statements)
    point = walk(k, p.relation, ends, p.by, None, Visit(before, inner), SKELETONS.statements())
    visited = [Let("nl_i64", ends.event, which), *point]
    lines = [
        *(Let("nl_i64", name, call("nl_slot", STEP, scope[slots].code)) for slots, name in now.items()),
        For(event, 0, number, visited, kind=Kind.TURNS),
    ]
    return function(k, lines, early)


def _events(k: Kernel, events: l2.Events | l2.Every, number: Code, event: Code) -> tuple[list[Stmt], Code]:
    """(statements that find the `number` of events, or return; the neuron of `event`)."""
    if isinstance(events, l2.Every):
        return [Let("nl_i64", number, k.scope[events.n].code)], event
    slot, early = find_events(k, events, number, "nl_i64", "return", f"get_global_id(0) >= {number}")
    return list(early), k.pointers[events.list][slot * k.scope[events.stride].code + event]
