"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/program.py names them.
Guarantees: the synapses of an event are spread over the warps that the events of the step leave free; each thread
reads WIDE synapses before it works on them, so that their latencies overlap; sums into shared elements are atomic,
exact for integers. What synapses that run side by side may not do is refused.
Does not: choose the relation.
"""

from __future__ import annotations

from typing import Final

from backends.access import Kernel, offset
from backends.cprint import Body, Element, Line, PrintError, Scalar, Symbol, indent, is_real
from backends.cuda.kernel import Function
from compiler.expr.ast import refs
from compiler.ir.program import Add, ArrayFormal, Assign, At, Csr, Events, Every, Mode, Order, Propagate, Strided
from compiler.ir.space import DType

WIDE: Final = 4
"""Synapses that a thread reads before it works on them."""


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


def _read_ahead(k: Kernel, p: Propagate) -> list[ArrayFormal]:
    """What is read of every synapse and never written: weights, delays."""
    used: set[str] = set()
    for s in p.statements:
        if isinstance(s, Add | Assign):
            used |= refs(s.value)
    formals = [f for f in k.template.formals if isinstance(f, ArrayFormal) and isinstance(f.access, At)]
    used |= {f.access.ring[0] for f in formals if isinstance(f.access, At) and f.access.ring is not None}
    return [f for f in formals if f.access == At("syn") and f.mode is Mode.READ and f.name in used]


def propagate(k: Kernel, p: Propagate) -> list[Function]:
    """The function of one propagation."""
    _refuse_races(k, p)
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    if not isinstance(p.relation, Csr):
        raise PrintError(f"there is no {type(p.relation).__name__} relation for this target", k.template.span)
    slot, number, event = namer.fresh("slot"), namer.fresh("events"), namer.fresh("event")
    early: tuple[Line, ...] = ()
    opening: list[Line] = []
    match p.events:
        case Events(events, count, slots, delay, stride):
            late, head = scope[delay].text, namer.fresh("list")
            early = (
                Line(f"if (step <= {late}) return; /* nothing had been emitted so long ago */"),
                Line(f"const nl_i64 {slot} = nl_slot(step - {late}, {scope[slots].text});"),
                Line(f"const nl_i32 {number} = {ptr[count]}[{slot}];"),
                Line(f"if ({number} == 0) return;"),
            )
            opening.append(Line(f"const nl_i32 *const {head} = {ptr[events]} + {slot} * {scope[stride].text};"))
            which = f"{head}[{event}]"
        case Every(n):
            opening.append(Line(f"const nl_i64 {number} = {scope[n].text};"))
            which = event
    pre, post, syn, u = (namer.fresh(x) for x in ("pre", "post", "k", "u"))
    ahead = _read_ahead(k, p)
    held: dict[str, tuple[str, Scalar]] = {}
    for a in ahead:
        held[a.name] = (namer(a.name), DType.I32 if a.dtype == DType.U8 else a.dtype)
        scope[a.name] = Symbol(f"{held[a.name][0]}[{u}]", held[a.name][1])
    own, other = (pre, post) if p.by == "pre" else (post, pre)
    index = p.relation.index
    t = syn if index is None else namer.fresh("t")
    numbers = syn if index is None else f"{syn}[{u}]"
    at = {p.by: own, "post" if p.by == "pre" else "pre": f"{other}[{u}]", "syn": numbers}
    types = {"pre": DType.I64, "post": DType.I64, "syn": DType.I64}
    for end, text in at.items():
        scope.setdefault(end, Symbol(text, types[end]))
    elements: dict[str, Element] = {}
    for f in k.template.formals:
        if not isinstance(f, ArrayFormal) or f.name in held:
            continue
        if isinstance(f.access, At):
            place = at[f.access.end]
            if f.access.ring is not None:
                late, mask, size = f.access.ring
                place = f"((step + {scope[late].text}) & {scope[mask].text}) * {scope[size].text} + {place}"
            elements[f.name] = Element(f"{ptr[f.name]}[{place}]", f.dtype, f.mode)
        elif isinstance(f.access, Strided):
            place = f"{ptr[f.name]}[{offset(f.access, lambda n: scope[n].text)}]"
            elements[f.name] = Element(place, f.dtype, f.mode)
    of_source = {n for n, e in elements.items() if e.place.endswith(f"[{own}]") and e.mode is Mode.READ}
    used: set[str] = set()
    for s in p.statements:
        if isinstance(s, Add | Assign):
            used |= refs(s.value)
    source = Body(k.printer, scope, elements, namer)
    before = source.load(of_source & used)
    body = Body(k.printer, dict(source.scope), elements, namer)
    inner = [*body.run(p.statements), *body.stores()]
    row, col = ptr[p.relation.row], ptr[p.relation.col]
    after, share, first = namer.fresh("end"), namer.fresh("share"), namer.fresh("first")
    here = f"const nl_i64 {t} = {first} + {u} * {share}.threads;"
    each = [
        Line("#pragma unroll"),
        Line(f"for (int {u} = 0; {u} < {WIDE}; {u}++) {{"),
        Line(here, 1),
        Line(f"if ({t} < {after}) {{", 1),
    ]
    end_each = [Line("}", 1), Line("}")]
    reads = [Line(f"{other}[{u}] = {col}[{t}];", 2)]
    if index is not None:
        reads.append(Line(f"{syn}[{u}] = {ptr[index]}[{t}];", 2))
    reads += [Line(f"{name}[{u}] = {ptr[n]}[{numbers}];", 2) for n, (name, _) in held.items()]
    batch = [
        Line(f"nl_i32 {other}[{WIDE}];"),
        *([] if index is None else [Line(f"nl_i32 {syn}[{WIDE}];")]),
        *(Line(f"{k.dialect.type_name(x)} {name}[{WIDE}];") for name, x in held.values()),
        *each,
        *reads,
        *end_each,
        *each,
        *indent(inner, 2),
        *end_each,
    ]
    loops = [
        *opening,
        Line(f"const nl_share {share} = nl_my_share(nl_me, {number});"),
        Line("#pragma unroll 1"),
        Line(f"for (nl_i64 {event} = {share}.first; {event} < {number}; {event} += {share}.groups) {{"),
        Line(f"const nl_i64 {own} = {which};", 1),
        Line(f"const nl_i64 {after} = {row}[{own} + 1];", 1),
        *indent(before),
        Line("#pragma unroll 1", 1),
        Line(f"for (nl_i64 {first} = {row}[{own}] + {share}.thread; {first} < {after};", 1),
        Line(f"{first} += {WIDE} * {share}.threads) {{", 3),
        *indent(batch, 2),
        Line("}", 1),
        Line("}"),
    ]
    return [Function("", tuple(loops), early)]
