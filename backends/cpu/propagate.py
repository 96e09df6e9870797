"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/program.py names them. Lists of events are ascending.
Guarantees: synapses of one event run in the order of the relation, events in list order: one fixed order of additions.
Does not: choose the relation.
"""

from __future__ import annotations

from dataclasses import dataclass

from backends.access import Kernel, offset
from backends.cprint import Body, Element, Line, PrintError, Symbol, indent
from compiler.expr.ast import refs
from compiler.ir.program import Add, ArrayFormal, Assign, At, Csr, Events, Every, Mode, Propagate, Relation, Strided
from compiler.ir.space import DType


@dataclass(frozen=True)
class Ends:
    """C texts of the integers that a synapse is found by; `event` is that of the end which the events belong to."""

    event: str
    other: str
    syn: str


@dataclass(frozen=True)
class Walk:
    """The synapses of one event as C: `before` the loop (depth of the event loop), the loop's `head`, what `inside`
    sets the other end and the synapse, and how many braces to close."""

    before: tuple[Line, ...]
    head: tuple[Line, ...]
    inside: tuple[Line, ...]
    braces: int = 1


def walk(k: Kernel, relation: Relation, ends: Ends, following: str | None) -> Walk:
    """The loop over the synapses of event `ends.event`. `following`: the neuron of the next event, when there is one
    (a C expression that is false without one), to fetch ahead."""
    ptr, namer = k.pointers, k.namer
    match relation:
        case Csr(row, col, index):
            t = ends.syn if index is None else namer.fresh("t")
            end = namer.fresh("end")
            inside = [Line(f"const nl_i64 {ends.other} = {ptr[col]}[{t}];")]
            if index is not None:
                inside.append(Line(f"const nl_i64 {ends.syn} = {ptr[index]}[{t}];"))
            before = [Line(f"const nl_i64 {end} = {ptr[row]}[{ends.event} + 1];")]
            if following is not None:
                before.append(Line(following.format(address=f"{ptr[col]} + {ptr[row]}")))
            head = Line(f"for (nl_i64 {t} = {ptr[row]}[{ends.event}]; {t} < {end}; {t}++) {{")
            return Walk(tuple(before), (head,), tuple(inside))
    raise PrintError(f"there is no {type(relation).__name__} relation for this target", k.template.span)


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
            following = f"if ({event} + 1 < {number}) nl_prefetch({{address}}[{head}[{event} + 1]]);"
        case Every(n):
            opening = [Line(f"for (nl_i64 {ends.event} = 0; {ends.event} < {scope[n].text}; {ends.event}++) {{")]
    places = elements(k, {"pre": pre, "post": post, "syn": syn})
    of_event = {n for n, e in places.items() if f"[{ends.event}]" in e.place and e.mode is Mode.READ}
    source = Body(k.printer, scope, places, namer)
    before = source.load(of_event & read_names(p))
    body = Body(k.printer, dict(source.scope), places, namer)
    inner = [*body.run(p.statements), *body.stores()]
    w = walk(k, p.relation, ends, following)
    loops = [
        *opening,
        *indent(w.before),
        *indent(before),
        *indent(w.head),
        *indent([*w.inside, *inner], 1 + w.braces),
        *(Line("}", depth) for depth in range(w.braces, 0, -1)),
        Line("}"),
    ]
    return early, loops
