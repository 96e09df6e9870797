"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: the synapses of an event are spread over the warps that the events of the step leave free
(synapse_loops.py); sums into shared elements are atomic, exact for integers. Statements that would race between
concurrent synapses are rejected.
Does not: choose the relation.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family import cprint
from backends.c_family.access import Kernel, offset
from backends.c_family.cprint import Element, Line, Scalar, Symbol, statement_refs
from backends.c_family.synapse_elements import refuse_races
from backends.cuda.kernels.kernel import Function
from backends.cuda.kernels.synapse_loops import Body, Names, loops, reads_ahead, texts_at
from compiler.ir.space import DType


def _read_ahead(k: Kernel, p: l2.Propagate) -> list[l2.ArrayFormal]:
    """Per-synapse arrays that are read and never written: weights, delays."""
    used = statement_refs(p.statements)
    formals = [f for f in k.template.formals if isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At)]
    used |= {f.access.ring[0] for f in formals if isinstance(f.access, l2.At) and f.access.ring is not None}
    return [f for f in formals if f.access == l2.At("syn") and f.mode is l2.Mode.READ and f.name in used]


@dataclass(frozen=True)
class _Opened:
    """The events of a step. `which`: the text of the neuron of event `event` of `number`; `early`: returns when there
    are none; `ahead`: code before the threads diverge; `opening`: code before the loops."""

    number: str
    event: str
    which: str
    early: tuple[Line, ...] = ()
    ahead: tuple[Line, ...] = ()
    opening: tuple[Line, ...] = ()


def _open_events(k: Kernel, p: l2.Propagate) -> _Opened:
    ptr, scope, fresh = k.pointers, k.scope, k.namer.fresh
    slot, number, event = fresh("slot"), fresh("events"), fresh("event")
    match p.events:
        case l2.Events(events, count, slots, delay, stride):
            late, head = scope[delay].text, fresh("list")
            ahead = (
                Line(f"const nl_i64 {slot} = nl_slot(step - {late}, {scope[slots].text});"),
                Line(f"const nl_i32 *const {head} = {ptr[events]} + {slot} * {scope[stride].text};"),
            )
            early = (
                Line(f"if (step <= {late}) return; /* nothing had been emitted so long ago */"),
                Line(f"const nl_i32 {number} = {ptr[count]}[{slot}];"),
                Line(f"if ({number} == 0) return;"),
            )
            return _Opened(number, event, f"{head}[{event}]", early, ahead)
        case l2.Every(n):
            return _Opened(number, event, event, opening=(Line(f"const nl_i64 {number} = {scope[n].text};"),))


@dataclass(frozen=True)
class _Elements:
    """Accesses of formals. `past`: elements of the event's own neuron in a past step that all of its synapses read;
    `now`: lines that compute this step's slots of ring buffers."""

    elements: dict[str, Element]
    past: set[str]
    now: list[Line]


def _elements(
    k: Kernel, scope: Mapping[str, Symbol], at: Mapping[str, str], own: str, held: Container[str]
) -> _Elements:
    ptr, formals = k.pointers, [f for f in k.template.formals if isinstance(f, l2.ArrayFormal)]
    ends = {  # accesses per neuron or synapse: the delay of a synapse that is not prefetched
        f.name: f"{ptr[f.name]}[{at[f.access.end]}]"
        for f in formals
        if isinstance(f.access, l2.At) and f.access.ring is None
    }
    out = _Elements({}, set(), [])
    now: dict[str, str] = {}
    for f in formals:
        if f.name in held or not isinstance(f.access, l2.At | l2.Strided):
            continue
        if isinstance(f.access, l2.Strided):
            place = offset(f.access, lambda n: scope[n].text)
        else:
            place = at[f.access.end]
            if f.access.ring is not None:
                late, slots, size = f.access.ring
                steps = scope[late].text if late in scope else ends[late]
                if slots not in now:
                    now[slots] = k.namer.fresh("now")
                    out.now.append(Line(f"const nl_u32 {now[slots]} = nl_slot(step, {scope[slots].text});"))
                slot = f"{'nl_earlier' if f.access.past else 'nl_later'}({now[slots]}, {steps}, {scope[slots].text})"
                place = f"nl_in_slot({slot}, {scope[size].text}, {place})"
                if f.access.past and late in k.scope and at[f.access.end] == own:
                    out.past.add(f.name)
        out.elements[f.name] = Element(f"{ptr[f.name]}[{place}]", f.dtype, f.mode)
    return out


def propagate(k: Kernel, p: l2.Propagate) -> list[Function]:
    """The function of one propagation."""
    refuse_races(k, p)
    scope, namer = dict(k.scope), k.namer
    opened = _open_events(k, p)
    pre, post, syn, u = (namer.fresh(x) for x in ("pre", "post", "k", "u"))
    own, other = (pre, post) if p.by == "pre" else (post, pre)
    counted = isinstance(p.relation, l2.Csr) and p.relation.index is None
    t = syn if counted else namer.fresh("t")
    names = Names(own, other, syn, t, u, opened.event, opened.number, opened.which)
    held: dict[str, tuple[str, Scalar]] = {}
    for a in _read_ahead(k, p) if reads_ahead(p.relation) and not p.gather else ():
        held[a.name] = (namer(a.name), DType.I32 if a.dtype == DType.U8 else a.dtype)
        scope[a.name] = Symbol(f"{held[a.name][0]}[{u}]", held[a.name][1])
    beyond, numbers = texts_at(p.relation, names)
    at = {p.by: own, "post" if p.by == "pre" else "pre": beyond, "syn": numbers}
    for end, text in at.items():
        scope.setdefault(end, Symbol(text, DType.I64))
    places = _elements(k, scope, at, own, held)
    of_source = {n for n, e in places.elements.items() if e.place.endswith(f"[{own}]") and e.mode is l2.Mode.READ}
    once = (f for f in k.template.formals if isinstance(f, l2.ArrayFormal) and f.access == l2.SCALAR)
    of_source |= {f.name for f in once if f.mode is l2.Mode.READ}
    used = statement_refs(p.statements)
    source = cprint.Body(k.printer, scope, places.elements, namer)
    before = source.load((of_source | places.past) & used)
    body = cprint.Body(k.printer, dict(source.scope), places.elements, namer)
    inner = body.finish(p.statements)
    numbered = "syn" in used or any(
        isinstance(f, l2.ArrayFormal) and isinstance(f.access, l2.At) and f.access.end == "syn"
        for f in k.template.formals
    )
    lines = loops(k, p.relation, p.by, names, Body(held, before, inner, numbered), p.gather)
    return [Function("", (*opened.opening, *lines), opened.early, ahead=(*opened.ahead, *places.now))]
