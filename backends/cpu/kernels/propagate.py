"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: synapses of one event run in the order of the relation, events in list order: one fixed order of additions.
Does not: choose the relation.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import Body, Line, Symbol, indent, statement_refs
from backends.c_family.synapse_elements import elements, read_once_per_event
from backends.c_family.synapse_walk import Ends, walk
from backends.cpu.kernels.batched_rng import drawn_in_rows, has_draws
from backends.cpu.kernels.csr_prefetch import Due, function_ahead
from backends.cpu.kernels.kernel import function
from backends.cpu.kernels.skeletons import render
from backends.cpu.kernels.toeplitz_simd import channels_last, parts_of
from compiler.connect import RULE
from compiler.core.names import free_name
from compiler.expr.ast import Num, Ref, refs
from compiler.ir.space import DType

ENDS: Final = frozenset({"pre", "post", "syn"})


def once_per_event(
    p: l2.Propagate, known: AbstractSet[str]
) -> tuple[tuple[l2.Statement, ...], tuple[l2.Statement, ...]]:
    """(hoisted computations before the loop over synapses, the statements with their names). An added value that is
    invariant over synapses, of names that are `known`, is computed once: compilers do not hoist it out of every kind of
    loop."""
    assigned = {s.target for s in p.statements if isinstance(s, l2.Assign | l2.Add)}
    once: list[l2.Statement] = []
    rest: list[l2.Statement] = []
    for s in p.statements:
        names = refs(s.value) if isinstance(s, l2.Add) else set()
        if (
            isinstance(s, l2.Add)
            and not isinstance(s.value, Ref | Num)
            and names <= known - assigned
            and not has_draws(s.value)
        ):
            name = free_name(f"each_{len(once)}", frozenset(known | assigned))
            once.append(l2.Assign(name, s.value, s.span))
            s = replace(s, value=Ref(name))
        rest.append(s)
    return tuple(once), tuple(rest)


@dataclass(frozen=True)
class _Events:
    """The events of a row: how `many`, the lines that open the loop over them, what comes `early` (it finds them, or
    goes on to the next row), and, of stored rows of synapses, what is known of one that is `due`."""

    many: str
    opening: tuple[Line, ...]
    early: tuple[Line, ...] = ()
    due: Due | None = None


def _events(k: Kernel, p: l2.Propagate, ends: Ends, number: str, event: str) -> _Events:
    """The events of a propagation, `number` of them, of which `event` is one."""
    ptr, scope, fresh = k.pointers, k.scope, k.namer.fresh
    if isinstance(p.events, l2.Every):
        many = scope[p.events.n].text
        return _Events(many, (Line(f"for (nl_i64 {ends.event} = 0; {ends.event} < {many}; {ends.event}++) {{"),))
    slot, head, e = fresh("slot"), fresh("list"), p.events
    late, ring, stride = (scope[n].text for n in (e.delay, e.slots, e.stride))
    early = (
        Line(f"if (step <= {late}) continue; /* nothing had been emitted so long ago */"),
        Line(f"const nl_i64 {slot} = nl_slot(step - {late}, {ring});"),
        Line(f"const nl_i32 {number} = {ptr[e.count]}[{slot}];"),
        Line(f"if ({number} == 0) continue;"),
    )
    opening = (
        Line(f"const nl_i32 *const {head} = {ptr[e.list]} + {slot} * {stride};"),
        Line(f"for (nl_i64 {event} = 0; {event} < {number}; {event}++) {{"),
        Line(f"const nl_i64 {ends.event} = {head}[{event}];", 1),
    )
    listed = f"{ptr[e.list]}[{slot} * {stride} + {event}]"
    stored = isinstance(p.relation, l2.Csr)
    due = Due(number, event, listed, *(fresh(x) for x in ("count", "first", "end"))) if stored else None
    return _Events(number, opening, early, due)


def propagate(k: Kernel, p: l2.Propagate) -> list[Line]:
    """The function of a propagation: loops over events and their synapses."""
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    number, event = namer.fresh("events"), namer.fresh("event")
    pre, post, syn = namer.fresh("pre"), namer.fresh("post"), namer.fresh("k")
    for end, text in (("pre", pre), ("post", post), ("syn", syn)):
        scope.setdefault(end, Symbol(text, DType.I64))
    ends = Ends(pre, post, syn) if p.by == "pre" else Ends(post, pre, syn)
    if isinstance(p.relation, l2.Procedural):
        ends = replace(ends, many=namer.fresh("many"), nth=namer.fresh("t"))
    over = _events(k, p, ends, number, event)
    accesses = [f.access for f in k.template.formals if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At)]
    now = {slots: namer.fresh("now") for slots in dict.fromkeys(a.ring[1] for a in accesses if a.ring is not None)}
    slots_now = [Line(f"const nl_i64 {name} = nl_slot(step, {scope[slots].text});") for slots, name in now.items()]
    places = elements(k, {"pre": pre, "post": post, "syn": syn}, now)
    of_event = {
        f.name for f in k.template.formals if isinstance(f, l2.ArrayFormal) and read_once_per_event(f, p.by, ptr.keys())
    }
    source = Body(k.printer, scope, places, namer)
    before = source.load(of_event & statement_refs(p.statements))
    once, statements = once_per_event(p, (scope.keys() - ENDS) | of_event)
    before += source.run(once)
    fills: list[Line] = []
    if isinstance(p.relation, l2.Procedural) and RULE[p.relation.rule].ordered:
        statements, draws_ = drawn_in_rows(k, statements, ends.syn, ends.many, ends.nth)
        fills = draws_.fills
        source.scope.update(draws_.scope)
    p = replace(p, statements=statements)
    body = Body(k.printer, dict(source.scope), places, namer)
    inner = body.finish(p.statements)
    words = set(re.findall(r"\w+", "\n".join(x.text for x in (*before, *inner))))
    w = walk(k, p.relation, ends, p.by, (over.due.first, over.due.end) if over.due else None, words, render, fills)
    point = [*w.before, *before, *w.head, *indent([*w.inside, *inner], w.depth), *w.tail]
    if over.due is not None and isinstance(p.relation, l2.Csr):
        return function_ahead(k, p.relation, ends, over.due, over.early, slots_now, point)
    loops = [*over.opening, *indent(point), Line("}")]
    parts = parts_of(k.template)
    if parts is not None:
        pays, lines = channels_last(k, p, parts, (over.many, over.opening), ends.event, before, source.scope, places)
        loops = [
            Line(f"if ({pays}) {{ /* many events: channels side by side */"),
            *indent(lines),
            Line("} else {"),
            *indent(loops),
            Line("}"),
        ]
    return function(k, [*slots_now, *loops], over.early)
