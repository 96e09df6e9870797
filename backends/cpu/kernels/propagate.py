"""Propagation: events of one step, their rows of synapses, statements at every synapse.

Assumes: formals as compiler/ir/level2/program.py names them. Lists of events are ascending.
Guarantees: synapses of one event run in the order of the relation, events in list order: one fixed order of additions.
Does not: choose the relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel
from backends.c_family.cprint import STEP, Body, Symbol, statement_refs
from backends.c_family.synapse_elements import elements, find_events, read_once_per_event, rings
from backends.c_family.synapse_walk import Ends, Visit, walk
from backends.cpu.kernels.batched_rng import drawn_in_rows, has_draws
from backends.cpu.kernels.csr_prefetch import Due, function_ahead
from backends.cpu.kernels.kernel import SKELETONS, function
from backends.cpu.kernels.toeplitz_simd import channels_last, parts_of
from backends.kernel_ir.expr import binary, call
from backends.kernel_ir.stmt import For, If, Let, Stmt
from backends.kernel_ir.tree import Code
from compiler.connect import RULE
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
            name = f"each_{len(once)}"
            once.append(l2.Assign(name, s.value, s.span))
            s = replace(s, value=Ref(name))
        rest.append(s)
    return tuple(once), tuple(rest)


@dataclass(frozen=True)
class _Events:
    """The events of a row: how `many`, what is found before the loop over them (`opening`) and at its beginning
    (`found`), what comes `early` (it finds them, or goes on to the next row), and, of stored rows of synapses, what is
    known of one that is `due`."""

    many: Code
    index: Code
    opening: tuple[Stmt, ...] = ()
    found: tuple[Stmt, ...] = ()
    early: tuple[Stmt, ...] = ()
    due: Due | None = None

    def each(self, body: Sequence[Stmt]) -> Stmt:
        """The loop over all events."""
        return For(self.index, 0, self.many, [*self.found, *body])


def _events(k: Kernel, p: l2.Propagate, ends: Ends, number: Code, event: Code) -> _Events:
    """The events of a propagation, `number` of them, of which `event` is one."""
    ptr, scope, fresh = k.pointers, k.scope, k.namer.fresh
    if isinstance(p.events, l2.Every):
        return _Events(scope[p.events.n].code, ends.event)
    e = p.events
    slot, early = find_events(k, e, number, "nl_i32", "continue", binary(number, "==", 0))
    head, stride = fresh("list"), scope[e.stride].code
    opening = (Let("nl_i32 *const", head, ptr[e.list] + slot * stride),)
    found = (Let("nl_i64", ends.event, head[event]),)
    listed = ptr[e.list][slot * stride + event]
    stored = isinstance(p.relation, l2.Csr)
    due = Due(number, event, listed, *(fresh(x) for x in ("count", "first", "end"))) if stored else None
    return _Events(number, event, opening, found, early, due)


def propagate(k: Kernel, p: l2.Propagate) -> list[Stmt]:
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
    now = {slots: namer.fresh("now") for slots in rings(k)}
    slots_now: list[Stmt] = [Let("nl_i64", n, call("nl_slot", STEP, scope[slots].code)) for slots, n in now.items()]
    places = elements(k, {"pre": pre, "post": post, "syn": syn}, now, k.scope)
    of_event = {f.name for f in k.template.arrays if read_once_per_event(f, p.by, ptr.keys())}
    source = Body(k.dialect, scope, places, namer)
    before = source.load(of_event & statement_refs(p.statements))
    once, statements = once_per_event(p, (scope.keys() - ENDS) | of_event)
    before += source.run(once)
    fills: list[Stmt] = []
    if isinstance(p.relation, l2.Procedural) and RULE[p.relation.rule].ordered:
        assert ends.many is not None and ends.nth is not None
        statements, draws_ = drawn_in_rows(k, statements, ends.syn, ends.many, ends.nth)
        fills = draws_.fills
        source.scope.update(draws_.scope)
    p = replace(p, statements=statements)
    body = Body(k.dialect, dict(source.scope), places, namer)
    inner = body.finish(p.statements)
    bounds = (over.due.first, over.due.end) if over.due else None
    point = walk(k, p.relation, ends, p.by, bounds, Visit(before, inner, fills), SKELETONS.statements())
    if over.due is not None and isinstance(p.relation, l2.Csr):
        return function_ahead(k, p.relation, ends, over.due, over.early, slots_now, point)
    loops = [*over.opening, over.each(point)]
    parts = parts_of(k.template)
    if parts is not None:
        events = (over.many, over.opening, over.each)
        pays, wide = channels_last(k, p, parts, events, ends.event, before, source.scope, places)
        loops = [If(pays, wide, loops, note="many events: channels side by side")]
    return function(k, [*slots_now, *loops], over.early)
