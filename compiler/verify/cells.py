"""Legality of level 1: cells.

Assumes: nothing.
Guarantees: every breach is named.
  cells      distinct names; before integration no step, after it no dynamics; statements read what
             is declared; those after pools, and reductions, read no local of the step but what is kept
Does not: check types of elements.
"""

from __future__ import annotations

import compiler.ir.level1.cells as l1
from compiler.core.symbols import Way
from compiler.core.symbols import derived as derived_from
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
    if not cell.step:
        known |= {c.name for c in cell.counters}
    if cell.step:
        whole = {*known, "key", "i"}
        later = whole | {derived_from(name, Way.KEPT) for name in cell.kept}
        found += statements(cell.step, whole, fixed)
        found += (f"`{name}` is kept, but no local of the step" for name in cell.kept if name not in whole)
        found += statements(cell.after_pools or (), later, fixed)
        if cell.when is not None and "spiked" not in whole | later:
            found.append("the step does not compute `spiked`")
        for pool in cell.pools if cell.after_pools is not None else ():
            for r in pool.reductions:
                found += reads(r.value, later, f"`{r.name}`")
        return [f"cell {cell.name}: {v}" for v in found]
    found += statements(cell.lets, known, fixed)
    for ode in cell.dynamics:
        found += reads(ode.rhs, known, f"d{ode.state}/dt")
    found += statements(cell.update, known, fixed)
    if cell.when is not None:
        found += reads(cell.when, known, "the spike condition")
        found += statements(cell.reset, known, fixed)
    found += statements(cell.after, known, fixed)
    return [f"cell {cell.name}: {v}" for v in found]
