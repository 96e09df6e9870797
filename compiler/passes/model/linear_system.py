"""Exact integration: a cell whose equations are one linear system with constant coefficients.

Assumes: ODEs with lets substituted; params in `arrays` differ from neuron to neuron.
Guarantees: `linear_system` finds x' = A x + b over states, decaying inputs and quantities that are constant during a
step (inputs without decay, states without an equation, per-neuron params that are added, variables of pools and of
other populations); `exact_plan` steps it by columns of the matrix exponential (Rotter & Diesmann 1999), with a second
set for the terms that continue while a state is clamped.
Does not: compute the exponentials (lower_cells does, per row).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.symbols import Way, derived
from compiler.expr.ast import Call, Cond, Expr, Num, Ref, calls, refs
from compiler.expr.diff import linear_in
from compiler.expr.functions import called_table
from compiler.expr.simplify import has_random, simplify

ZERO = Num(0.0)


@dataclass(frozen=True)
class Plan:
    """What integration contributes: assignments of next values (not yet gated by refractoriness)."""

    statements: tuple[l0.Set, ...]  # locals
    after: dict[str, Expr]  # state or input -> its value after the step
    derived: tuple[l1.Propagator | l1.DerivedScalar, ...]


def product(a: Expr, b: Expr) -> Expr:
    return a * b


def total(parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = result + part
    return result


def decays(cell: l1.Cell) -> tuple[tuple[str, Expr], ...]:
    return tuple((name, tau) for name, tau in cell.inputs if tau is not None)


def is_zero(e: Expr) -> bool:
    return isinstance(e, Num) and e.value == 0


def response(rate: Expr, fading: Expr, most: Expr, time: Expr) -> Expr:
    """What y adds to x in `time`, as a part of y at first, where y' = fading y and x' = rate x + y: the larger of
    exp(rate time) and exp(fading time), which is `most`, time exprel(-|rate - fading| time). It does not overflow."""
    apart = product(Call("abs", (rate - fading,)), time)
    return product(product(most, time), Call("exprel", (-apart,)))


@dataclass(frozen=True)
class Linear:
    """x' = A x + b over `names` (states, decaying inputs, then quantities that are constant during the step)."""

    names: tuple[str, ...]
    matrix: tuple[tuple[Expr, ...], ...]
    offset: tuple[Expr, ...]
    moving: int  # the first `moving` names change


def linear_system(cell: l1.Cell, odes: tuple[l0.Ode, ...], arrays: tuple[str, ...]) -> Linear | None:
    """The whole cell as one linear system, or None when it is not one with scalar coefficients."""
    decaying = decays(cell)
    moving = [o.state for o in odes] + [name for name, _ in decaying]
    still = [name for name, tau in cell.inputs if tau is None]
    still += [s for s in cell.state if s not in moving]
    still += list(arrays)
    still += [v for p in cell.pools for v in p.variables] + [r.name for r in cell.others]
    names = (*moving, *still)
    matrix: list[tuple[Expr, ...]] = []
    offset: list[Expr] = []
    barred = {"t", "step", *names, *(c.name for c in cell.counters)}
    for ode in odes:
        affine = linear_in(ode.rhs, names)
        if affine is None:
            return None
        coefficients, constant = affine
        terms = tuple(simplify(coefficients.get(n, ZERO)) for n in names)
        constant = simplify(constant)
        if any(refs(e) & barred or has_random(e) or reads_table(e) for e in (*terms, constant)):
            return None
        matrix.append(terms)
        offset.append(constant)
    for name, tau in decaying:
        if refs(tau) & barred:
            return None
        rate = -(1.0 / tau)
        matrix.append(tuple(rate if n == name else ZERO for n in names))
        offset.append(ZERO)
    for _ in still:
        matrix.append(tuple(ZERO for _ in names))
        offset.append(ZERO)
    return Linear(names, tuple(matrix), tuple(offset), len(moving))


def reads_table(e: Expr) -> bool:
    """Whether `e` reads a lookup table, which is no column."""
    return any(called_table(f) for f in calls(e))


def _reach(system: Linear) -> list[list[bool]]:
    """reach[i][j]: x_j can influence x_i within a step (transitive closure of A's structure)."""
    n = len(system.names)
    reach = [[i == j or not is_zero(system.matrix[i][j]) for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            if reach[i][k]:
                for j in range(n):
                    reach[i][j] = reach[i][j] or reach[k][j]
    return reach


def _propagation(system: Linear, frozen: frozenset[str], way: Way) -> Plan:
    """Exact step of a linear system in which the states `frozen` are constant."""
    n = len(system.names)
    zero_row = tuple(ZERO for _ in range(n))
    matrix = tuple(zero_row if name in frozen else row for name, row in zip(system.names, system.matrix, strict=True))
    offset = tuple(ZERO if name in frozen else b for name, b in zip(system.names, system.offset, strict=True))
    reach = _reach(Linear(system.names, matrix, offset, system.moving))
    columns: list[l1.Propagator | l1.DerivedScalar] = []
    after: dict[str, Expr] = {}
    for i, name in enumerate(system.names[: system.moving]):
        if name in frozen:
            continue
        parts: list[Expr] = []
        for j, other in enumerate(system.names):
            if reach[i][j]:
                column = derived(name, way, other)
                columns.append(l1.Propagator(column, matrix, offset, i, j))
                parts.append(product(Ref(column), Ref(other)))
        if any(reach[i][k] and not is_zero(offset[k]) for k in range(n)):
            column = derived(name, way, "1")
            columns.append(l1.Propagator(column, matrix, offset, i, n))
            parts.append(Ref(column))
        after[name] = total(parts)
    return Plan((), after, tuple(columns))


def exact_plan(cell: l1.Cell, system: Linear) -> Plan:
    plan = _propagation(system, frozenset(), Way.P)
    held = (
        frozenset(cell.hold) & frozenset(system.names[: system.moving]) if cell.refractory is not None else frozenset()
    )
    if not held:
        return plan
    reach = _reach(system)
    at = {name: i for i, name in enumerate(system.names)}
    touched = [
        name for name in system.names[: system.moving] if name not in held and any(reach[at[name]][at[h]] for h in held)
    ]
    if not touched:
        return plan
    # A clamped state is constant to the states that it drives: a second set of propagators.
    still = _propagation(system, held, Way.PH)
    after = dict(plan.after)
    wanted: set[str] = set()
    for name in touched:
        after[name] = Cond(Ref("held"), still.after[name], plan.after[name])
        wanted |= refs(still.after[name])
    return Plan((), after, plan.derived + tuple(d for d in still.derived if d.name in wanted))
