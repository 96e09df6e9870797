"""Checks that state and weights are finite, and names the first array that is not, with its place in the model file.

Assumes: arrays are named by model path (`exc.v`).
Guarantees: state, which every step computes anyway, is checked every 1,000 steps of a simulation; synapses and
weights, of which a step may touch few, as often as costs at most about 2 % of a run, whatever the size of the model;
everything is checked at the end.
Does not: check work arrays or records.
"""

from __future__ import annotations

import time

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import AnyArray, Instance
from compiler.core.diagnostics import RunError
from compiler.ir.space import Role
from compiler.runtime.common.arrays import persistent_arrays, to_logical
from compiler.runtime.not_finite import why_not_finite

SHARE = 50  # time between two checks of weights, in units of the time of one check
STEPS = 1000  # steps between two checks of the state
_LARGE = 1 << 20


class Health:
    """Checks at drain points; `look` and `look_at_step` raise RunError (E0908) when something is not finite."""

    def __init__(self, program: l2.Merged, model: l0.Model) -> None:
        self._program, self._model = program, model
        arrays = persistent_arrays(program)
        real = tuple(a for a in arrays if a.dtype.is_real and a.role is not Role.EVENT)
        self._state = tuple(a for a in real if a.role is Role.STATE)
        self._learned = tuple(a for a in real if a.role is not Role.STATE)
        self._pause = 0.0
        self._last = self._last_state = time.perf_counter()

    def look(self, instance: Instance, where: str) -> None:
        """Check every floating-point state and weight. `where`: "by step 200"."""
        self._look(instance, (*self._state, *self._learned), where)

    def look_at_learned(self, instance: Instance, where: str) -> None:
        """Check every weight and synapse."""
        self._look(instance, self._learned, where)

    def look_at_step(self, instance: Instance, where: str, due: bool) -> None:
        """Check every floating-point state when it is `due`, or the last check was a second ago; weights and
        synapses unless they were checked recently."""
        begin = time.perf_counter()
        if due or begin - self._last_state > 1.0:
            self._look(instance, self._state, where)
            self._last_state = begin
        if self._learned and begin - self._last >= self._pause:
            self._look(instance, self._learned, where)
            self._last = time.perf_counter()
            self._pause = SHARE * (self._last - begin)

    def _look(self, instance: Instance, arrays: tuple[l2.Array, ...], where: str) -> None:
        if all(_finite(values) for _, values in instance.read_each(a.name for a in arrays)):
            return
        for array in arrays:
            values = instance.read(array.name)
            if not _finite(values):
                logical = to_logical(array, values)
                bad = np.argwhere(~np.isfinite(logical))
                index = tuple(int(i) for i in bad[0])
                shown = ", ".join(map(str, index))
                raise RunError(
                    "E0908",
                    f"`{array.name}[{shown}]` is {float(logical[index])} {where} "
                    f"({len(bad)} of {logical.size} elements are not finite)",
                    self._help(instance, array),
                    span=array.span,
                )

    def _help(self, instance: Instance, array: l2.Array) -> str:
        if array.role is Role.WEIGHT:
            return "a smaller learning rate may help"
        reason = why_not_finite(self._model, self._program, instance, array.name)
        return reason or "a smaller time step or another integration method may help"


def _finite(values: AnyArray) -> bool:
    if values.size > _LARGE:
        # Barring overflow, a sum is finite if every element is: one pass without a temporary.
        with np.errstate(all="ignore"):
            if np.isfinite(np.sum(values, dtype=np.float64)):
                return True
    return bool(np.isfinite(values).all())
