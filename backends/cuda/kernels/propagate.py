"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them.
Guarantees: the synapses of an event are spread over the warps that the events of the step leave free
(synapse_loops.py), which call a function of the event for that; sums into shared elements are atomic, exact for
integers. Statements that would race between concurrent synapses are rejected.
Does not: choose the relation.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level2.program as l2
from backends.c_family import cprint
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Scalar, Symbol, statement_refs
from backends.c_family.synapse_elements import elements, find_events, read_once_per_event, refuse_races, rings
from backends.cuda.kernels.kernel import Function
from backends.cuda.kernels.synapse_loops import EVENT, Body, Names, ends_of, loops, reads_ahead, shares_events
from backends.kernel_ir.expr import binary, call
from backends.kernel_ir.stmt import Let, Stmt
from backends.kernel_ir.tree import Code
from compiler.ir.space import DType


def _read_ahead(k: Kernel, p: l2.Propagate) -> list[l2.ArrayFormal]:
    """Per-synapse arrays that are read and never written: weights, delays."""
    used = statement_refs(p.statements)
    used |= {f.access.ring[0] for f in k.template.arrays if isinstance(f.access, l2.At) and f.access.ring is not None}
    return [f for f in k.template.arrays if f.access == l2.At("syn") and f.mode is l2.Mode.READ and f.name in used]


def propagate(k: Kernel, p: l2.Propagate) -> list[Function]:
    refuse_races(k, p)
    ptr, scope, namer = k.pointers, dict(k.scope), k.namer
    number, event = namer.fresh("events"), namer.fresh("event")
    ahead, early, opening = list[Stmt](), list[Stmt](), list[Stmt]()  # the first before the threads diverge
    if isinstance(p.events, l2.Every):
        which, opening = event, [Let("nl_i64", number, scope[p.events.n].code)]
    else:
        slot, (none, found, *early) = find_events(k, p.events, number, "nl_i32", "return", binary(number, "==", 0))
        listed = namer.fresh("list")
        ahead = [found, Let("nl_i32 *const", listed, ptr[p.events.list] + slot * scope[p.events.stride].code)]
        which, early = listed[event], [none, *early]
    pre, post, syn, u = (namer.fresh(x) for x in ("pre", "post", "k", "u"))
    own, other = (pre, post) if p.by == "pre" else (post, pre)
    counted = isinstance(p.relation, l2.Csr) and p.relation.index is None
    t = syn if counted else namer.fresh("t")
    names = Names(own, other, syn, t, u, event, number, which)
    held: dict[str, tuple[Code, Scalar]] = {}
    for a in _read_ahead(k, p) if reads_ahead(p.relation) and not p.gather else ():
        held[a.name] = (namer(a.name), DType.I32 if a.dtype == DType.U8 else a.dtype)
        scope[a.name] = Symbol(held[a.name][0][u], held[a.name][1])
    beyond, numbers = ends_of(p.relation, names)
    at = {p.by: own, "post" if p.by == "pre" else "pre": beyond, "syn": numbers}
    for end, x in at.items():
        scope.setdefault(end, Symbol(x, DType.I64))
    now = {slots: namer.fresh("now") for slots in rings(k)}
    places = elements(k, at, now, scope, lambda *x: call("nl_in_slot", *x))
    its = [end for end, x in at.items() if x == own]
    once = {f.name for f in k.template.arrays if any(read_once_per_event(f, end, ptr.keys()) for end in its)}
    used = statement_refs(p.statements)
    source = cprint.Body(k.dialect, scope, places, namer)
    before = source.load(once & used)
    body = cprint.Body(k.dialect, dict(source.scope), places, namer)
    inner = body.finish(p.statements)
    numbered = "syn" in used or any(isinstance(f.access, l2.At) and f.access.end == "syn" for f in k.template.arrays)
    rings_now = [Let("nl_u32", n, call("nl_slot", STEP, scope[slots].code)) for slots, n in now.items()]
    if shares_events(p.relation, p.gather):
        before = [*rings_now, *before]
    else:
        ahead += rings_now
    made = loops(k, p.relation, p.by, names, Body(held, before, inner, numbered), p.gather)
    function = Function("", (*opening, *made.lines), tuple(early), ahead=tuple(ahead))
    if made.thread is None or made.threads is None:
        return [function]
    given = Let("nl_i64", own), Let("nl_u32", made.thread), Let("nl_u32", made.threads)
    return [replace(function, event=Function(EVENT, made.event, given=given, inlined=True))]
