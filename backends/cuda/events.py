"""Propagation, recording, given events and connecting: kernels whose trip counts are data.

Assumes: formals as compiler/ir/program.py names them; a propagation carries the column `n_pre` (the stride of its
event ring). Lists of events are in no order. A ring has at least two slots more than the largest delay, so that the
slot of the next step can be emptied while this one runs.
Guarantees: the same relations and draws as backends/reference; sums into shared elements are atomic, exact for
integers; the synapses of an event are spread over many warps.
Does not: choose storage (CSR is the only one) or rules.
"""

from __future__ import annotations

from typing import Final

from backends.access import Kernel, offset
from backends.cprint import Body, Element, Line, PrintError, Symbol, indent, is_real
from backends.cuda.kernel import Function, each_element
from backends.cuda.skeletons import render
from compiler.expr.ast import refs
from compiler.ir.program import (
    Add,
    ArrayFormal,
    Assign,
    At,
    Connect,
    Mode,
    Order,
    Propagate,
    RecordTrace,
    ScalarFormal,
    Strided,
)
from compiler.ir.space import DType

SYNONYMS: Final = {"list": "spikes", "count": "spike_count"}
SORT: Final = "_sort"
"""Suffix of the function that puts drawn rows in ascending order."""


def _names(k: Kernel) -> dict[str, str]:
    """Identifiers by formal name, for the skeletons; `list`/`count` also under their usual synonyms."""
    names = {
        f.name: k.scope[f.name].text if isinstance(f, ScalarFormal) else k.pointers[f.name] for f in k.template.formals
    }
    for name, other in SYNONYMS.items():
        if name not in names and other in names:
            names[name] = names[other]
    return names


def _lines(text: str) -> tuple[Line, ...]:
    return tuple(
        Line(t.lstrip(), (len(t) - len(t.lstrip())) // 4) if t.strip() else Line("") for t in text.splitlines()
    )


def _skeleton(k: Kernel, file: str, **more: str) -> tuple[Line, ...]:
    return _lines(render(file, f=_names(k), real=k.dialect.real, name=k.template.name, **more))


def _refuse_races(k: Kernel, p: Propagate) -> None:
    """Synapses run side by side: they may only add to what they share."""
    real_order = k.template.order is not Order.FAST
    for s in p.statements:
        if not isinstance(s, Assign | Add) or s.target not in k.pointers:
            continue
        f = k.formal(s.target)
        own = isinstance(f.access, At) and f.access.end == "syn"
        if not own and f.mode is not Mode.ACCUMULATE:
            raise PrintError(f"`{s.target}` is shared by synapses that run at the same time", s.span)
        if f.mode is Mode.ACCUMULATE and is_real(f.dtype) and real_order:
            raise PrintError(f"sums into `{s.target}` from many threads have no fixed order here", s.span)


def propagate(k: Kernel, p: Propagate) -> list[Function]:
    """Warps take (event, share of its row): as many of them as the events leave free work on one row together."""
    _refuse_races(k, p)
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    if "n_pre" not in scope:
        raise PrintError("a propagation needs the column `n_pre`: the stride of its events", k.template.span)
    delay, slots = scope[p.delay].text, scope[p.slots].text
    slot, number, event = namer.fresh("slot"), namer.fresh("events"), namer.fresh("event")
    early = (
        Line(f"if (step <= {delay}) return; /* nothing had been emitted so long ago */"),
        Line(f"const nl_i64 {slot} = nl_slot(step - {delay}, {slots});"),
        Line(f"const nl_i32 {number} = {ptr[p.count]}[{slot}];"),
        Line(f"if ({number} == 0) return;"),
    )
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
    of_source = {n for n, e in elements.items() if e.place.endswith(f"[{pre}]") and e.mode is Mode.READ}
    used: set[str] = set()
    for s in p.statements:
        if isinstance(s, Add | Assign):
            used |= refs(s.value)
    source = Body(k.printer, scope, elements, namer)
    before = source.load(of_source & used)
    body = Body(k.printer, dict(source.scope), elements, namer)
    inner = [*body.run(p.statements), *body.stores()]
    row, col, head = ptr[p.row], ptr[p.col], namer.fresh("list")
    after, share = namer.fresh("end"), namer.fresh("share")
    loops = [
        Line(f"const nl_i32 *const {head} = {ptr[p.list]} + {slot} * {scope['n_pre'].text};"),
        Line(f"const nl_share {share} = nl_my_share(nl_me, {number});"),
        Line(f"for (nl_i64 {event} = {share}.first; {event} < {number}; {event} += {share}.groups) {{"),
        Line(f"const nl_i64 {pre} = {head}[{event}];", 1),
        Line(f"const nl_i64 {after} = {row}[{pre} + 1];", 1),
        *indent(before),
        Line("#pragma unroll 4", 1),
        Line(f"for (nl_i64 {syn} = {row}[{pre}] + {share}.thread; {syn} < {after}; {syn} += {share}.threads) {{", 1),
        Line(f"const nl_i64 {post} = {col}[{syn}];", 2),
        *indent(inner, 2),
        Line("}", 1),
        Line("}"),
    ]
    return [Function("", tuple(loops), early)]


def connect(k: Kernel, c: Connect) -> list[Function]:
    """One stage of one rule; the draws are those of backends/reference."""
    if c.rule in ("fixed_probability", "fixed_total"):
        k.printer.used.add("nl__draw")
    file = "connect_scan.cu.j2" if c.stage == "scan" else f"connect_{c.rule}.cu.j2"
    made = [Function("", _skeleton(k, file, stage=c.stage))]
    if c.rule == "fixed_total" and c.stage == "fill":
        made.append(Function(SORT, _skeleton(k, "connect_sort.cu.j2")))
    return made


def record_events(k: Kernel) -> list[Function]:
    return [Function("", _skeleton(k, "record_events.cu.j2"))]


def emit_scheduled(k: Kernel) -> list[Function]:
    return [Function("", _skeleton(k, "emit_scheduled.cu.j2"))]


def record_trace(k: Kernel, r: RecordTrace) -> list[Function]:
    """One sample of every member; the value may read several arrays at the member's index `i`. The block that comes
    last counts the sample: all others have read the counter by then."""
    names = _names(k)
    scope, i = dict(k.scope), k.namer("i")
    scope["i"] = Symbol(i, DType.I64)
    first: list[Line] = []
    if "ring_slots" in scope:
        slot = k.namer.fresh("slot")
        first.append(Line(f"const nl_i64 {slot} = nl_slot(step, {scope['ring_slots'].text});"))
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
    inner = [
        Line(f"const nl_i64 {i} = {names['members']}[{j}];"),
        *loads,
        Line(f"{names['buffer']}[{sample} * {m} + {j}] = {value};", span=k.template.span),
    ]
    return [
        Function(
            "",
            (
                *first,
                Line(f"const nl_i64 {sample} = {used}[0];"),
                Line(f"if ({sample} >= {capacity}) {{"),
                Line("if (threadIdx.x == 0) *nl_run.status = 1;", 1),
                Line("return;", 1),
                Line("}"),
                *each_element(j, m, inner),
                Line("__syncthreads();"),
                Line(f"if (threadIdx.x == 0 && nl_is_last(nl_me, nl_t.memory)) {used}[0] = {sample} + 1;"),
            ),
        )
    ]
