"""rename_clashes: names of a cell that level 2 needs for itself get an underscore.

Assumes: a cell as lower_model makes it.
Guarantees: afterwards no param, state, input, let or local of the cell is called like a dim, a column or a ring of
the neuron kernel; the second result says what the renamed ones are called in the model.
Does not: change anything a user sees: arrays and outputs keep the model's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.expr.ast import Expr, Ref, substitute
from compiler.ir.graph import Cell
from compiler.ir.model import Ode, Set

RESERVED = frozenset(
    (
        *("i", "n", "step", "slot", "slots", "ring_slots", "spikes", "spike_count", "key"),
        *("held", "spiked", "refractory_left", "refractory_steps"),
    )
)


def _names(cell: Cell) -> list[str]:
    statements = (*cell.lets, *cell.update, *cell.reset)
    names = [*cell.params, *cell.state, *(name for name, _ in cell.inputs), *(s.target for s in statements)]
    return list(dict.fromkeys(names))


def rename_clashes(cell: Cell) -> tuple[Cell, Mapping[str, str]]:
    """The cell without clashes, and new name -> model name of what was renamed."""
    names = _names(cell)
    renamed: dict[str, str] = {}
    for name in names:
        new = name
        while new in RESERVED or (new != name and new in names):
            new += "_"
        if new != name:
            renamed[name] = new
    if not renamed:
        return cell, {}
    bindings: dict[str, Expr] = {old: Ref(new) for old, new in renamed.items()}

    def name_of(name: str) -> str:
        return renamed.get(name, name)

    def sets(items: tuple[Set, ...]) -> tuple[Set, ...]:
        return tuple(Set(name_of(s.target), substitute(s.value, bindings), s.span) for s in items)

    done = replace(
        cell,
        params=tuple(map(name_of, cell.params)),
        state=tuple(map(name_of, cell.state)),
        inputs=tuple((name_of(n), None if e is None else substitute(e, bindings)) for n, e in cell.inputs),
        lets=sets(cell.lets),
        dynamics=tuple(Ode(name_of(o.state), substitute(o.rhs, bindings), o.span) for o in cell.dynamics),
        update=sets(cell.update),
        when=None if cell.when is None else substitute(cell.when, bindings),
        reset=sets(cell.reset),
        refractory=None if cell.refractory is None else substitute(cell.refractory, bindings),
        hold=tuple(map(name_of, cell.hold)),
    )
    return done, {new: old for old, new in renamed.items()}
