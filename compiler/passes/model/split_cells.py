"""split_cells: the step of a cell is divided at the point where its pools are computed.

Assumes: integrate_odes has run.
Guarantees: a cell without pools has one part, `step`. With pools that its updates or its spike read, the statements
before the first one that reads them stay there (with the integration, which reads the pools of the step before), the
others are `after_pools`, and the reductions stand between; with pools that nothing there reads, reductions stand at the
end (before inputs that hold one step's events are emptied, where a reduction reads one). Locals that are live across
parts are recomputed where that gives the same value, and `kept` in arrays otherwise; reductions and statements of
events are whole. Random draws are numbered over all parts. `folds`: events whose reductions read inputs.
Does not: make arrays or rows, or order the parts of populations that read each other (passes/cells/step_order.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.errors import Sink
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, refs, rewrite, substitute
from compiler.expr.simplify import has_random
from compiler.expr.types import Kind, check_types
from compiler.passes.model.integrate_odes import counter_locals
from compiler.passes.program.clock import WARMUP

RANDOM = {
    "random": "uniform",
    "normal": "normal",
    "exponential": "exponential",
    "poisson": "poisson",
}


def number_draws(e: Expr, count: list[int]) -> Expr:
    """Random calls become draws of the row's stream at (step, element): key, index, number of the draw."""

    def draw(x: Expr) -> Expr:
        if not isinstance(x, Call) or x.func not in RANDOM:
            return x
        count[0] += 1
        number = Num(count[0] - 1)
        args = tuple(number_draws(a, count) for a in x.args)
        return Call(RANDOM[x.func], (Ref("key"), Ref("i"), number, *args), x.span)

    return rewrite(e, draw, top_down=True, shared=False)


def _numbered(sets: Sequence[l0.Set], count: list[int]) -> tuple[l0.Set, ...]:
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
    """The cell with the parts of its step."""
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
    kept = tuple(n for n in _order(before) if n in (outside | reduced) - again.values.keys() | looked_for)
    kinds = _kinds(cell)
    stored = _numbered(before, count)
    for name in kept:
        value: Expr = Ref(name)
        if kinds.get(name) is Kind.BOOL:
            value = Cond(value, Num(1.0), Num(0.0))
        stored = (*stored, l0.Set(derived(name, Way.KEPT), value))
    loads: list[l0.Set] = []
    for name in kept:
        if name in outside:
            loads.append(l0.Set(name, _kept(name, kinds)))
    remade = again.statements(outside - set(kept))
    bindings: dict[str, Expr] = {name: _kept(name, kinds) for name in kept}
    late = (*loads, *remade, *_numbered(after, count)) if at is not None else None
    return replace(
        cell,
        step=stored,
        after_pools=late,
        kept=kept,
        on=_events(cell, sorted(cell.on, key=lambda e: not e.start), count),
        pools=tuple(_pool(cell, p, again, bindings) for p in cell.pools),
        folds=_folds(cell),
    )


def _order(statements: Sequence[l0.Set]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(s.target for s in statements))


def _kept(name: str, kinds: Mapping[str, Kind]) -> Expr:
    held: Expr = Ref(derived(name, Way.KEPT))
    return held.ne(0.0) if kinds.get(name) is Kind.BOOL else held


def _events(cell: l1.Cell, events: Sequence[l1.AtEvent], count: list[int]) -> tuple[l1.AtEvent, ...]:
    """Events with all that their statements and reductions read."""
    counters = _counter_values(cell)

    def reduced(r: l0.Reduction) -> l0.Reduction:
        return replace(r, value=_term(cell, substitute(r.value, counters)))

    return tuple(
        replace(
            e,
            actions=_with_counters(cell, _numbered(e.actions, count)),
            reductions=tuple((scope, reduced(r)) for scope, r in e.reductions),
        )
        for e in events
    )


def _folds(cell: l1.Cell) -> tuple[tuple[str, str], ...]:
    """The events at the start of a step of which a reduction reads inputs, as (phase, event)."""
    inputs = {name for name, _ in cell.inputs}
    events = [e for e in (*cell.on, *(e for p in cell.pools for e in p.on)) if e.start]
    read = [(e.phase, e.event) for e in events if any(refs(r.value) & inputs for _, r in e.reductions)]
    return tuple(dict.fromkeys(read))


def _counter_values(cell: l1.Cell) -> dict[str, Expr]:
    return {s.target: s.value for s in counter_locals(cell, {c.name for c in cell.counters})}


def _term(cell: l1.Cell, e: Expr) -> Expr:
    """What is reduced, as a real number."""
    names = {n: Kind.REAL for n in refs(e)} | {"step": Kind.INT, WARMUP: Kind.INT}
    names |= {c.every: Kind.INT for c in cell.counters}
    return Call("float", (e,)) if check_types(e, names, Sink()) is Kind.INT else e


def _pool(cell: l1.Cell, pool: l1.Pool, again: _Again, kept: dict[str, Expr]) -> l1.Pool:
    counters = _counter_values(cell)

    def reduced(r: l0.Reduction) -> l0.Reduction:
        return replace(r, value=_term(cell, again.put_in(substitute(substitute(r.value, kept), counters))))

    count = [0]
    return replace(
        pool,
        reductions=tuple(map(reduced, pool.reductions)),
        update=_with_counters(cell, _numbered(pool.update, count)) if pool.update else (),
        on=_events(cell, pool.on, count),
    )


def _with_counters(cell: l1.Cell, statements: tuple[l0.Set, ...]) -> tuple[l0.Set, ...]:
    return (*counter_locals(cell, set().union(*(refs(s.value) for s in statements))), *statements)
