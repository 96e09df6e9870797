"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/program.py names them. Lists of events are ascending.
Guarantees: synapses of one event run in the order of the relation, events in list order: one fixed order of additions.
Does not: choose the relation.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from backends.access import Kernel, offset
from backends.cprint import Body, Element, Line, Symbol, indent
from backends.cpu.channels import channels_last, draws, parts_of
from backends.cpu.walks import Ends, walk
from compiler.expr.ast import Num, Ref, refs
from compiler.ir.program import Add, ArrayFormal, Assign, At, Events, Every, Mode, Propagate, Statement, Strided
from compiler.ir.space import DType
from compiler.passes.free_names import free_name

ENDS: Final = frozenset({"pre", "post", "syn"})


def elements(k: Kernel, at: dict[str, str]) -> dict[str, Element]:
    """The formals of a propagation by name, at the ends that `at` names."""
    ptr, scope = k.pointers, k.scope
    found: dict[str, Element] = {}
    for f in k.template.formals:
        if isinstance(f, ArrayFormal) and isinstance(f.access, At):
            place = at[f.access.end]
            if f.access.ring is not None:
                late, mask, size = f.access.ring
                steps = f"{ptr[late]}[{at['syn']}]" if late in ptr else scope[late].text
                place = f"((step + {steps}) & {scope[mask].text}) * {scope[size].text} + {place}"
            found[f.name] = Element(f"{ptr[f.name]}[{place}]", f.dtype, f.mode)
        elif isinstance(f, ArrayFormal) and isinstance(f.access, Strided):
            place = f"{ptr[f.name]}[{offset(f.access, lambda n: scope[n].text)}]"
            found[f.name] = Element(place, f.dtype, f.mode)
    return found


def read_names(p: Propagate) -> set[str]:
    """Every name that the statements read."""
    used: set[str] = set()
    for s in p.statements:
        if isinstance(s, Add | Assign):
            used |= refs(s.value)
    return used


def once_per_event(p: Propagate, known: AbstractSet[str]) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """(what is computed before the loop over synapses, the statements with its names). A sum's value that the synapse
    does not enter, of names that are `known`, is computed once: compilers do not move it out of every kind of loop."""
    assigned = {s.target for s in p.statements if isinstance(s, Assign | Add)}
    once: list[Statement] = []
    rest: list[Statement] = []
    for s in p.statements:
        names = refs(s.value) if isinstance(s, Add) else set()
        if (
            isinstance(s, Add)
            and not isinstance(s.value, Ref | Num)
            and names <= known - assigned
            and not draws(s.value)
        ):
            name = free_name(f"each_{len(once)}", frozenset(known | assigned))
            once.append(Assign(name, s.value, s.span))
            s = replace(s, value=Ref(name))
        rest.append(s)
    return tuple(once), tuple(rest)


def propagate(k: Kernel, p: Propagate) -> tuple[list[Line], list[Line]]:
    """(what runs before the other columns are loaded, the loops over events and synapses)."""
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    number, event = namer.fresh("events"), namer.fresh("event")
    early: list[Line] = []
    pre, post, syn = namer.fresh("pre"), namer.fresh("post"), namer.fresh("k")
    for end, text in (("pre", pre), ("post", post), ("syn", syn)):
        scope.setdefault(end, Symbol(text, DType.I64))
    ends = Ends(pre, post, syn) if p.by == "pre" else Ends(post, pre, syn)
    following: str | None = None
    match p.events:
        case Events(events, count, slots, delay, stride):
            slot, head = namer.fresh("slot"), namer.fresh("list")
            late, ring = scope[delay].text, scope[slots].text
            early = [
                Line(f"if (step <= {late}) continue; /* nothing had been emitted so long ago */"),
                Line(f"const nl_i64 {slot} = (step - {late}) % {ring};"),
                Line(f"const nl_i32 {number} = {ptr[count]}[{slot}];"),
                Line(f"if ({number} == 0) continue;"),
            ]
            opening = [
                Line(f"const nl_i32 *const {head} = {ptr[events]} + {slot} * {scope[stride].text};"),
                Line(f"for (nl_i64 {event} = 0; {event} < {number}; {event}++) {{"),
                Line(f"const nl_i64 {ends.event} = {head}[{event}];", 1),
            ]
            many = number
            following = f"if ({event} + 1 < {number}) nl_prefetch({{address}}[{head}[{event} + 1]]);"
        case Every(n):
            many = scope[n].text
            opening = [Line(f"for (nl_i64 {ends.event} = 0; {ends.event} < {many}; {ends.event}++) {{")]
    places = elements(k, {"pre": pre, "post": post, "syn": syn})
    of_event = {n for n, e in places.items() if f"[{ends.event}]" in e.place and e.mode is Mode.READ}
    source = Body(k.printer, scope, places, namer)
    before = source.load(of_event & read_names(p))
    once, statements = once_per_event(p, (scope.keys() - ENDS) | of_event)
    before += source.run(once)
    p = replace(p, statements=statements)
    body = Body(k.printer, dict(source.scope), places, namer)
    inner = [*body.run(p.statements), *body.stores()]
    words = set(re.findall(r"\w+", "\n".join(x.text for x in (*before, *inner))))
    w = walk(k, p.relation, ends, p.by, following, words)
    loops = [
        *opening,
        *indent(w.before),
        *indent(before),
        *indent(w.head),
        *indent([*w.inside, *inner], 1 + w.depth),
        *indent(w.tail),
        Line("}"),
    ]
    parts = parts_of(k.template)
    if parts is not None:
        pays, lines = channels_last(k, p, parts, (many, opening), ends.event, before, source.scope, places)
        loops = [
            Line(f"if ({pays}) {{ /* many events: channels side by side */"),
            *indent(lines),
            Line("} else {"),
            *indent(loops),
            Line("}"),
        ]
    return early, loops
