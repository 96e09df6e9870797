"""Legality of level 1: cells.

Assumes: nothing.
Guarantees: every breach is named.
  cells      distinct names; before integration no step, after it no dynamics; statements read what is declared
  operations they alone have statements; none reads a local of another but what is kept
  turns      each operation of a cell has one for each of its instances, in their order
Does not: check types of elements.
"""

from __future__ import annotations

from collections.abc import Iterator

import compiler.ir.level1.cells as l1
from compiler.core.symbols import Way
from compiler.core.symbols import derived as derived_from
from compiler.ir.level1.spiking import SpikingGraph
from compiler.verify.violations import reads, repeated, statements


def cell_violations(cell: l1.Cell) -> list[str]:
    """Every breach of the spec by a cell, before or after integrate_odes."""
    found: list[str] = []
    inputs = [name for name, _ in cell.inputs]
    derived = [d.name for d in cell.derived]
    names = [*cell.params, *cell.state, *inputs, *cell.int_state, *derived]
    found += (f"`{name}` is declared twice" for name in repeated(names))
    unknown = [o.state for o in cell.dynamics if o.state not in cell.state]
    unknown += [h for h in cell.hold if h not in (*cell.state, *inputs)]
    found += (f"`{name}` is not a state" for name in unknown)
    if cell.step and cell.dynamics:
        found.append("there is a step, but dynamics are left")
    shared = [v for p in cell.pools for v in p.variables] + [r.name for r in cell.others]
    columns = {c.every for c in cell.counters}
    fixed = {*cell.params, *derived, *shared, *columns, "t", "dt", "step", "warmup_steps"}
    known = {*names, *shared, *columns, "t", "dt", "step", "warmup_steps"}
    if cell.operations:
        found += _operations(cell, known, fixed)
        return [f"cell {cell.name}: {v}" for v in found]
    if cell.step:
        whole = {*known, "key", "i"}
        found += statements(cell.step, whole, fixed)
        if cell.when is not None and "spiked" not in whole:
            found.append("the step does not compute `spiked`")
        return [f"cell {cell.name}: {v}" for v in found]
    known |= {c.name for c in cell.counters}
    found += statements(cell.lets, known, fixed)
    for ode in cell.dynamics:
        found += reads(ode.rhs, known, f"d{ode.state}/dt")
    found += statements(cell.update, known, fixed)
    if cell.when is not None:
        found += reads(cell.when, known, "the spike condition")
        found += statements(cell.reset, known, fixed)
    found += statements(cell.after, known, fixed)
    return [f"cell {cell.name}: {v}" for v in found]


def _operations(cell: l1.Cell, known: set[str], fixed: set[str]) -> Iterator[str]:
    """Violations by the operations: each knows what is stored, and what was kept before it."""
    if cell.step or cell.on or any(p.reductions or p.update or p.on for p in cell.pools):
        yield "there are operations, but statements are left elsewhere"
    variables = {p.scope: {*p.variables} for p in cell.pools}
    stored, kept = {*known, "key", "i"}, {derived_from(name, Way.KEPT) for name in cell.kept}
    for x in cell.operations:
        match x:
            case l1.EachNeuron():
                local = {*stored}
                yield from statements(x.statements, local, fixed)
                stored |= local & kept
                if x.emits and "spiked" not in local:
                    yield f"`{x.what}` does not compute `spiked`"
            case l1.EachPool():
                yield from statements(x.statements, {*stored}, fixed - variables[x.scope])
            case l1.Reduce(scope, r):
                yield from reads(r.value, stored, f"`{r.name}`")
                if r.name not in variables[scope]:
                    yield f"`{r.name}` is no variable of `{scope}`"
    yield from (f"`{name}` is not kept by any operation" for name in sorted(kept - stored))


def turn_violations(graph: SpikingGraph) -> Iterator[str]:
    """Every breach of the spec by the order of a step."""
    done: dict[int, list[int]] = {number: [] for number in range(len(graph.instances))}
    for turn in graph.turns:
        for number in turn.instances:
            done[number].append(turn.operation)
            if graph.instances[number].cell != turn.cell:
                yield f"`{graph.instances[number].name}` has a turn of another cell"
    for number, instance in enumerate(graph.instances):
        if done[number] != list(range(len(graph.cells[instance.cell].operations))):
            yield f"operations of `{instance.name}` run in the order {done[number]}"
