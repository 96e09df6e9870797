"""Looks for numbers that are not finite in state and weights, and names the first offender.

Assumes: arrays are named by model path (`exc.v`).
Guarantees: looking takes about 2 % of a run at most, however large the model; the last step is always looked at.
Does not: look at work arrays or records.
"""

from __future__ import annotations

import time

import numpy as np

from backends.protocol import Instance
from compiler.ir.program import Merged
from compiler.ir.space import Role
from compiler.runner.arrays import persistent_arrays, to_logical
from compiler.runner.errors import RunError

SHARE = 50  # time between two looks, in units of the time that one look takes


class Health:
    """Looks at drain points; `look` raises RunError (E0908) when something is not finite."""

    def __init__(self, program: Merged) -> None:
        self._arrays = tuple(a for a in persistent_arrays(program) if a.dtype.is_real and a.role is not Role.EVENT)
        self._pause = 0.0
        self._last = time.perf_counter()

    def look(self, instance: Instance, where: str, force: bool = False) -> None:
        """Looks at every real state and weight unless the last look was a short time ago. `where`: "by step 200"."""
        begin = time.perf_counter()
        if not force and begin - self._last < self._pause:
            return
        for array in self._arrays:
            values = instance.read(array.name)
            # A sum is finite where every element is, short of overflow: one pass without a temporary.
            with np.errstate(all="ignore"):
                suspicious = not np.isfinite(np.sum(values, dtype=np.float64))
            if suspicious and not np.isfinite(values).all():
                logical = to_logical(array, values)
                bad = np.argwhere(~np.isfinite(logical))
                index = tuple(int(i) for i in bad[0])
                shown = ", ".join(map(str, index))
                raise RunError(
                    "E0908",
                    f"`{array.name}[{shown}]` is {float(logical[index])} {where} "
                    f"({len(bad)} of {logical.size} elements are not finite)",
                    "a smaller time step or learning rate, or another integration method, may help",
                )
        self._last = time.perf_counter()
        self._pause = SHARE * (self._last - begin)
