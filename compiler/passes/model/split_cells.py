"""split_cells: the step of a cell becomes operations of its neurons and its pools, in order.

Assumes: integrate_odes has run.
Guarantees: a cell without pools and events has one operation. With pools that its updates or its spike read, the
statements before the first one that reads them come first (with the integration, which reads the pools of the step
before), then the reductions and what pools do, then the others; with pools that nothing there reads, these stand at the
end (before inputs that hold one step's events are emptied, where a reduction reads one). Events of phases come before
all that or after it, each after the reductions that its statements read; where one at the start reads inputs, what has
been delivered is added to these first. Locals that are live across operations are recomputed where that gives the same
value, and `kept` in arrays otherwise. Random draws are numbered over all operations.
Does not: make arrays or rows, or order the operations of populations that read each other (order_populations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.diagnostics import Sink
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.simplify import has_random
from compiler.expr.types import Kind, check_types
from compiler.passes.model.integrate_odes import counter_locals
from compiler.passes.program.clock import WARMUP

RANDOM: Final[Mapping[str, str]] = MappingProxyType(
    {"random": "uniform", **{x: x for x in ("normal", "exponential", "poisson", "binomial")}}
)
"""Random calls, and the draws that they become."""


def number_draws(e: Expr, count: list[int], index: str = "i", outer_first: bool = True) -> Expr:
    """Random calls become draws of the row's stream at (step, index): key, index, number of the draw. `outer_first`:
    a call has its number before those in its arguments."""

    def draw(x: Expr) -> Expr:
        if not isinstance(x, Call) or x.func not in RANDOM:
            return x
        count[0] += 1
        number = Num(count[0] - 1)
        args = tuple(number_draws(a, count, index) for a in x.args) if outer_first else x.args
        return Call(RANDOM[x.func], (Ref("key"), Ref(index), number, *args), x.span)

    return rewrite(e, draw, top_down=outer_first, shared=False)


def numbered(sets: Sequence[l0.Set], count: list[int]) -> tuple[l0.Set, ...]:
    """Statements whose draws are numbered from `count` on."""
    return tuple(l0.Set(s.target, number_draws(s.value, count), s.span) for s in sets)


def _place(cell: l1.Cell) -> int | None:
    """Index of the statement before which pools are computed; None: at the end."""
    shared = {v for p in cell.pools for v in p.variables}
    for index in range(cell.integrated, len(cell.step)):
        if refs(cell.step[index].value) & shared:
            return index
    emptied = {name for name, tau in cell.inputs if tau is None}
    read = set().union(*(refs(r.value) for p in cell.pools for r in p.reductions))
    return cell.updated if read & emptied else None


def _kinds(cell: l1.Cell) -> dict[str, Kind]:
    """The kind of every local of the step (integers are stored as floats)."""
    known: dict[str, Kind] = dict.fromkeys(cell.int_state, Kind.INT) | {"step": Kind.INT, WARMUP: Kind.INT}
    known |= {c.every: Kind.INT for c in cell.counters}
    for s in cell.step:
        names = refs(s.value) - known.keys()
        kind = check_types(s.value, {**dict.fromkeys(names, Kind.REAL), **known}, Sink())
        known.setdefault(s.target, kind)
    return known


class _Again:
    """Which locals of `before` can be recomputed later, and how."""

    def __init__(self, cell: l1.Cell, before: Sequence[l0.Set]) -> None:
        self.sets = before
        stored = {*cell.state, *(name for name, _ in cell.inputs), *cell.int_state}
        self.locals = {s.target for s in before} - stored
        last: dict[str, int] = {}
        times: dict[str, int] = {}
        for i, s in enumerate(before):
            last[s.target] = i
            times[s.target] = times.get(s.target, 0) + 1
        shared = {v for p in cell.pools for v in p.variables}
        self.values: dict[str, l0.Set] = {}
        for i, s in enumerate(before):
            names = refs(s.value)
            local = names & self.locals
            steady = all(last.get(n, -1) < i for n in names - local) and not names & shared
            if (
                s.target in self.locals
                and times[s.target] == 1
                and steady
                and local <= self.values.keys()
                and not has_random(s.value)
            ):
                self.values[s.target] = s

    def closure(self, names: set[str]) -> set[str]:
        """Locals that must be recomputed for `names` to be known."""
        wanted = names & self.values.keys()
        for s in reversed(self.sets):
            if s.target in wanted and s.target in self.values:
                wanted |= refs(s.value) & self.values.keys()
        return wanted

    def statements(self, names: set[str]) -> tuple[l0.Set, ...]:
        wanted = self.closure(names)
        return tuple(s for s in self.sets if s.target in wanted)

    def put_in(self, e: Expr) -> Expr:
        bindings: dict[str, Expr] = {}
        for s in self.statements(refs(e)):
            bindings[s.target] = substitute(s.value, bindings)
        return substitute(e, bindings)


def _reads_before_set(statements: Sequence[l0.Set]) -> set[str]:
    """Names that are read before they are assigned."""
    known: set[str] = set()
    found: set[str] = set()
    for s in statements:
        found |= refs(s.value) - known
        known.add(s.target)
    return found


def split_cell(cell: l1.Cell) -> l1.Cell:
    """The cell with the operations of a step."""
    if cell.source != "equations":
        return replace(cell, operations=(l1.GivenSpikes(),))
    count = [0]
    at = _place(cell) if cell.pools else None
    before = cell.step if at is None else cell.step[:at]
    after = () if at is None else cell.step[at:]
    again = _Again(cell, before)
    outside = _reads_before_set(after) & again.locals
    reduced: set[str] = set()
    looked_for: set[str] = set()
    for pool in cell.pools:
        for r in pool.reductions:
            names = refs(r.value) & again.locals
            reduced |= names
            looked_for |= names if r.op == "argmax" else set()
    order = dict.fromkeys(s.target for s in before)
    kept = tuple(n for n in order if n in (outside | reduced) - again.values.keys() | looked_for)
    kinds = _kinds(cell)
    first = list(numbered(before, count))
    for name in kept:
        value: Expr = Ref(name)
        if kinds.get(name) is Kind.BOOL:
            value = Cond(value, Num(1.0), Num(0.0))
        first.append(l0.Set(derived(name, Way.KEPT), value))
    held = {name: _kept(name, kinds) for name in kept}
    loads = (l0.Set(name, held[name]) for name in kept if name in outside)
    late = (*loads, *again.statements(outside - set(kept)), *numbered(after, count))
    emits = cell.when is not None
    counters = {s.target: s.value for s in counter_locals(cell, {c.name for c in cell.counters})}

    def of_step(value: Expr) -> Expr:
        return _term(cell, again.put_in(substitute(substitute(value, held), counters)))

    # Draws are numbered in this order.
    starting, ending = (
        [x for e in cell.on if e.start == start for x in _at_event(cell, e, counters, count)] for start in (True, False)
    )
    pools = [_of_pool(cell, pool, counters, of_step) for pool in cell.pools]
    operations = (
        *(l1.EachNeuron(f"deliveries at {p}.{e}", due=(p, e, True), folds=True) for p, e in _folds(cell)),
        *(*starting, *(x for start, _, _ in pools for x in start)),
        l1.EachNeuron("neuron update", tuple(first), folds=True, emits=emits and at is None),
        *(x for _, every, _ in pools for x in every),
        *(() if at is None else (l1.EachNeuron("neuron update after pools", late, emits=emits),)),
        *(*ending, *(x for _, _, end in pools for x in end)),
    )
    empty = tuple(replace(p, reductions=(), update=(), on=()) for p in cell.pools)
    plain = replace(cell, step=(), integrated=0, updated=0, on=(), pools=empty)
    return replace(plain, operations=operations, kept=kept)


def _kept(name: str, kinds: Mapping[str, Kind]) -> Expr:
    held: Expr = Ref(derived(name, Way.KEPT))
    return held.ne(0.0) if kinds.get(name) is Kind.BOOL else held


def _at_event(
    cell: l1.Cell, event: l1.AtEvent, counters: Mapping[str, Expr], count: list[int], scope: str = ""
) -> Iterator[l1.Operation]:
    """What neurons, or the pools of a scope, do at an event, after the reductions that they read."""
    due = (event.phase, event.event, event.start)
    for of, r in event.reductions:
        yield l1.Reduce(of, replace(r, value=_term(cell, substitute(r.value, counters))), due)
    number = f" ({event.part + 1})" if event.part else ""
    what = f"{scope} at {event.phase}.{event.event}{number}".lstrip()
    statements = _with_counters(cell, numbered(event.actions, count))
    yield l1.EachPool(what, scope, statements, due) if scope else l1.EachNeuron(what, statements, due, event.start)


def _folds(cell: l1.Cell) -> tuple[tuple[str, str], ...]:
    """The events at the start of a step of which a reduction reads inputs, as (phase, event)."""
    inputs = {name for name, _ in cell.inputs}
    events = [e for e in (*cell.on, *(e for p in cell.pools for e in p.on)) if e.start]
    read = [(e.phase, e.event) for e in events if any(refs(r.value) & inputs for _, r in e.reductions)]
    return tuple(dict.fromkeys(read))


def _term(cell: l1.Cell, e: Expr) -> Expr:
    """What is reduced, as a real number."""
    names = {n: Kind.REAL for n in refs(e)} | {"step": Kind.INT, WARMUP: Kind.INT}
    names |= {c.every: Kind.INT for c in cell.counters}
    return Call("float", (e,)) if check_types(e, names, Sink()) is Kind.INT else e


_Operations = tuple[l1.Operation, ...]


def _of_pool(
    cell: l1.Cell, pool: l1.Pool, counters: Mapping[str, Expr], of_step: Callable[[Expr], Expr]
) -> tuple[_Operations, _Operations, _Operations]:
    """What a pool does at the start of the step, in it, and at its end."""
    count = [0]
    every: list[l1.Operation] = [l1.Reduce(pool.scope, replace(r, value=of_step(r.value))) for r in pool.reductions]
    if pool.update:
        update = _with_counters(cell, numbered(pool.update, count))
        every.append(l1.EachPool(f"{pool.scope} update", pool.scope, update))
    events = [(e.start, tuple(_at_event(cell, e, counters, count, pool.scope))) for e in pool.on]
    start, end = (tuple(x for first, of in events if first == early for x in of) for early in (True, False))
    return start, tuple(every), end


def _with_counters(cell: l1.Cell, statements: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
    return (*counter_locals(cell, set().union(*(refs(s.value) for s in statements))), *statements)
