"""cell_columns: the scalar columns of a cell's rows: scalar params, dt, and columns derived from them.

Assumes: integrate_odes has run; dt in ms.
Guarantees: one number per row; propagators by matrix exponentials, one per system and its numbers.
Does not: handle arrays (per-neuron params).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.symbols import model_name
from compiler.expr.ast import refs
from compiler.expr.interp import evaluate
from compiler.passes.cells.exponentials import exponentials


def _param(params: tuple[tuple[str, l0.Value], ...], position: int, name: str) -> l0.Value:
    """The value of a parameter, which mostly stands at `position`."""
    at = params[position] if position < len(params) else ("", None)
    return at[1] if at[0] == name and at[1] is not None else dict(params)[name]


def column_values(
    cell: l1.Cell, group: Sequence[l1.Instance], dt: float, arrays: tuple[str, ...]
) -> dict[str, npt.NDArray[np.float64]]:
    """Every scalar param, dt and every derived column, one number per row."""
    env: dict[str, Any] = {"dt": np.full(len(group), dt)}
    for position, name in enumerate(cell.params):
        if name not in arrays:
            user = model_name(name)
            values = [_param(g.params, position, user) for g in group]
            env[name] = np.array([v.value for v in values if isinstance(v, l0.Const)], np.float64)
    # Systems are shared by many propagators: one matrix exponential per distinct system.
    systems: dict[int, npt.NDArray[np.float64]] = {}
    for column in cell.derived:
        if isinstance(column, l1.DerivedScalar):
            if refs(column.value) & set(arrays):
                message = f"a time constant of `{cell.name}` differs from neuron to neuron"
                help = "give one number per population, or write the decay in `dynamics`"
                raise ModelError([Diagnostic("E0802", message, cell.span, help)])
            env[column.name] = np.broadcast_to(np.asarray(evaluate(column.value, env), np.float64), (len(group),))
        else:
            env[column.name] = propagator(column, env, len(group), dt, systems)
    return env


def propagator(
    column: l1.Propagator,
    env: Mapping[str, Any],
    rows: int,
    dt: float,
    systems: dict[int, npt.NDArray[np.float64]],
) -> npt.NDArray[np.float64]:
    """One number per row: an entry of expm(dt A) with the constant part as one more column (Rotter & Diesmann 1999).
    `systems`: exponentials so far, by matrix."""
    key = id(column.matrix)
    if key not in systems:
        n = len(column.matrix)
        augmented = np.zeros((rows, n + 1, n + 1))
        for i in range(n):
            for j in range(n):
                augmented[:, i, j] = evaluate(column.matrix[i][j], dict(env))
            augmented[:, i, n] = evaluate(column.offset[i], dict(env))
        systems[key] = exponentials(augmented * dt)
    return systems[key][:, column.row, column.column]
