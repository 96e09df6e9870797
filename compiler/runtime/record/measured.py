"""Numbers of a whole network, read from an instance.

Assumes: a lowered spiking model.
Guarantees: neurons and synapses are those of all populations (projections) that a measure names; vacant places of
synapses are left out; sums are in float64, in one order on every target.
Does not: decide when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.expr.ast import refs
from compiler.expr.interp import ExprError, evaluate
from compiler.ir.level2.synapse_values import own_name, variable_array
from compiler.ir.space import array_name, own_array
from compiler.runtime.common.arrays import read_logical

_REDUCE: Final[Mapping[str, Callable[[npt.NDArray[Any]], Any]]] = {
    "sum": np.sum,
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
}


class Reader:
    """Evaluates the measured numbers of a model."""

    def __init__(self, model: l0.Model, program: l2.Merged) -> None:
        self._arrays = {a.name: a for a in program.arrays}
        self._projections = {p.name: p for p in model.projections}

    def number(self, measured: l0.Measured, instance: Instance) -> float:
        """The number as it is now; nan where it has none."""
        env = {m.name: self._measure(m, instance) for m in measured.measures}
        try:
            return float(evaluate(measured.expr, env))
        except ExprError:
            return float("nan")

    def _measure(self, measure: l0.Measure, instance: Instance) -> float:
        owners = measure.populations or (None,)
        parts = [self._values(measure, owner, instance) for owner in owners]
        values = np.concatenate([np.atleast_1d(np.asarray(p, np.float64)) for p in parts])
        if not len(values):
            return 0.0 if measure.op == "sum" else float("nan")
        return float(_REDUCE[measure.op](values))

    def _values(self, measure: l0.Measure, population: str | None, instance: Instance) -> Any:
        names = sorted(refs(measure.value))
        if population is not None:
            env = {n: self._read(array_name(population, n), instance) for n in names}
            return np.broadcast_to(evaluate(measure.value, env), np.broadcast_shapes(*(v.shape for v in env.values())))
        projection = self._projections[measure.projection]
        found = [self._of_member(measure, projection, m, names, instance) for m in projection.members]
        return np.concatenate(found) if found else np.zeros(0)

    def _of_member(
        self, measure: l0.Measure, projection: l0.Projection, member: l0.Member, names: list[str], instance: Instance
    ) -> npt.NDArray[Any]:
        env: dict[str, npt.NDArray[Any]] = {}
        for name in names:
            array = variable_array(projection, member, name)
            if array in self._arrays:
                env[name] = self._read(array, instance).reshape(-1)
                continue
            value = member.weight if name == "weight" else dict(member.init).get(name)
            assert isinstance(value, l0.Const), f"{array} has no array"
            env[name] = np.array([float(value.value)])
        count = max(len(v) for v in env.values())
        values = np.broadcast_to(np.asarray(evaluate(measure.value, env), np.float64), (count,))
        exists = own_array(own_name(projection, member), "exists")
        if exists in self._arrays:
            values = values[self._read(exists, instance).reshape(-1)[:count] != 0]
        return values

    def _read(self, name: str, instance: Instance) -> npt.NDArray[Any]:
        array = self._arrays[name]
        values = read_logical(instance, array)
        return values.astype(np.float64) if values.dtype.kind == "f" else values
