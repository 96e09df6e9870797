"""Propagation, recording, given events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/program.py names them; a propagation carries the column `n_pre` (the stride of its
event ring). Lists of events are ascending.
Guarantees: synapses of one event run in storage order, events in list order: one fixed order of additions.
Does not: choose storage (CSR is the only one) or rules.
"""

from __future__ import annotations

from typing import Final

from backends.cprint import Body, Element, Line, PrintError, Symbol, indent
from backends.cpu.kernel import Kernel, offset
from backends.cpu.skeletons import render
from compiler.expr.ast import refs
from compiler.ir.program import (
    Add,
    ArrayFormal,
    Assign,
    At,
    Connect,
    EmitScheduled,
    Mode,
    Propagate,
    RecordEvents,
    RecordTrace,
    ScalarFormal,
    Strided,
)
from compiler.ir.space import DType

SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}


def _names(k: Kernel) -> dict[str, str]:
    """C identifiers by formal name, for the skeletons; `list`/`count` also under their usual synonyms."""
    names = {
        f.name: k.scope[f.name].text if isinstance(f, ScalarFormal) else k.pointers[f.name] for f in k.template.formals
    }
    for name, other in SYNONYMS.items():
        if name not in names and other in names:
            names[name] = names[other]
    return names


def _lines(text: str) -> list[Line]:
    return [Line(t.lstrip(), (len(t) - len(t.lstrip())) // 4) if t.strip() else Line("") for t in text.splitlines()]


def _skeleton(k: Kernel, file: str, **more: str) -> list[Line]:
    return _lines(render(file, f=_names(k), real=k.dialect.real, name=k.template.name, **more))


def propagate(k: Kernel, p: Propagate) -> tuple[list[Line], list[Line]]:
    """(what runs before the other columns are loaded, the loops over events and synapses)."""
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    if "n_pre" not in scope:
        raise PrintError("a propagation needs the column `n_pre`: the stride of its events", k.template.span)
    delay, slots = scope[p.delay].text, scope[p.slots].text
    slot, number, events = namer.fresh("slot"), namer.fresh("events"), namer.fresh("event")
    early = [
        Line(f"if (step <= {delay}) continue; /* nothing had been emitted so long ago */"),
        Line(f"const nl_i64 {slot} = (step - {delay}) % {slots};"),
        Line(f"const nl_i32 {number} = {ptr[p.count]}[{slot}];"),
        Line(f"if ({number} == 0) continue;"),
    ]
    pre, post, syn = namer.fresh("pre"), namer.fresh("post"), namer.fresh("k")
    for end, text in (("pre", pre), ("post", post), ("syn", syn)):
        scope.setdefault(end, Symbol(text, DType.I64))
    at = {"pre": pre, "post": post, "syn": syn}
    elements: dict[str, Element] = {}
    for f in k.template.formals:
        if isinstance(f, ArrayFormal) and isinstance(f.access, At):
            place = at[f.access.end]
            if f.access.ring is not None:
                late, mask, size = f.access.ring
                steps = f"{ptr[late]}[{syn}]" if late in ptr else scope[late].text
                place = f"((step + {steps}) & {scope[mask].text}) * {scope[size].text} + {place}"
            elements[f.name] = Element(f"{ptr[f.name]}[{place}]", f.dtype, f.mode)
        elif isinstance(f, ArrayFormal) and isinstance(f.access, Strided):
            place = f"{ptr[f.name]}[{offset(f.access, lambda n: scope[n].text)}]"
            elements[f.name] = Element(place, f.dtype, f.mode)
    of_source = {n for n, e in elements.items() if f"[{pre}]" in e.place and e.mode is Mode.READ}
    used: set[str] = set()
    for s in p.statements:
        if isinstance(s, Add | Assign):
            used |= refs(s.value)
    source = Body(k.printer, scope, elements, namer)
    before = source.load(of_source & used)
    body = Body(k.printer, dict(source.scope), elements, namer)
    inner = [*body.run(p.statements), *body.stores()]
    row, col, head = ptr[p.row], ptr[p.col], namer.fresh("list")
    after = namer.fresh("end")
    loops = [
        Line(f"const nl_i32 *const {head} = {ptr[p.list]} + {slot} * {scope['n_pre'].text};"),
        Line(f"for (nl_i64 {events} = 0; {events} < {number}; {events}++) {{"),
        Line(f"const nl_i64 {pre} = {head}[{events}];", 1),
        Line(f"const nl_i64 {after} = {row}[{pre} + 1];", 1),
        Line(f"if ({events} + 1 < {number}) nl_prefetch({col} + {row}[{head}[{events} + 1]]);", 1),
        *indent(before),
        Line(f"for (nl_i64 {syn} = {row}[{pre}]; {syn} < {after}; {syn}++) {{", 1),
        Line(f"const nl_i64 {post} = {col}[{syn}];", 2),
        *indent(inner, 2),
        Line("}", 1),
        Line("}"),
    ]
    return early, loops


def connect(k: Kernel, c: Connect) -> list[Line]:
    """One stage of one rule; the draws are those of backends/reference."""
    if c.rule in ("fixed_probability", "fixed_total"):
        k.printer.used.add("nl__draw")
    file = "connect_scan.c.j2" if c.stage == "scan" else f"connect_{c.rule}.c.j2"
    return _skeleton(k, file, stage=c.stage)


def record_events(k: Kernel, r: RecordEvents) -> list[Line]:
    return _skeleton(k, "record_events.c.j2")


def emit_scheduled(k: Kernel, e: EmitScheduled) -> list[Line]:
    return _skeleton(k, "emit_scheduled.c.j2")


def record_trace(k: Kernel, r: RecordTrace) -> list[Line]:
    """One sample of every member; the value may read several arrays at the member's index `i`."""
    names = _names(k)
    scope, i = dict(k.scope), k.namer("i")
    scope["i"] = Symbol(i, DType.I64)
    early: list[Line] = []
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        early.append(Line(f"const nl_i64 {slot} = step % {scope['ring_slots'].text};"))
        scope["slot"] = Symbol(slot, DType.I64)
    elements = {
        f.name: Element(f"{k.pointers[f.name]}[{offset(f.access, lambda n: scope[n].text)}]", f.dtype, f.mode)
        for f in k.template.formals
        if isinstance(f, ArrayFormal) and isinstance(f.access, Strided)
    }
    body = Body(k.printer, scope, elements, k.namer)
    loads = body.load(refs(r.value))
    value = k.printer.expr(r.value, body.scope, k.formal("buffer").dtype)
    j, sample = k.namer.fresh("j"), k.namer.fresh("sample")
    m, used, capacity = names["m"], names["used"], names["capacity"]
    return [
        *early,
        Line(f"const nl_i64 {sample} = {used}[0];"),
        Line(f"if ({sample} >= {capacity}) {{"),
        Line("nl_overflow(ctx);", 1),
        Line("continue;", 1),
        Line("}"),
        Line(f"for (nl_i64 {j} = 0; {j} < {m}; {j}++) {{"),
        Line(f"const nl_i64 {i} = {names['members']}[{j}];", 1),
        *indent(loads),
        Line(f"{names['buffer']}[{sample} * {m} + {j}] = {value};", 1, k.template.span),
        Line("}"),
        Line(f"{used}[0] = {sample} + 1;"),
        Line(f"if ({sample} + 1 >= {capacity}) ctx->full = 1;"),
    ]
