"""E0951 for time constants and capacitances that are drawn, or read from a file, on both sides of 0.

Assumes: an instance whose initial values are there.
Guarantees: parameters of neurons and synapses that the frontend could not know, and by which equations divide, are read
once, before the first step.
Does not: look at values that are all negative, which the frontend warns of where it knows (W0009).
"""

from __future__ import annotations

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.core.diagnostics import RunError
from compiler.ir.level0.scales import scales
from compiler.runtime.common.arrays import read_logical
from compiler.runtime.not_finite import owners_of

_KNOWN = (l0.Const, l0.Driven)


def check_signs(model: l0.Model, program: l2.Merged, instance: Instance) -> None:
    """Raises RunError at the place of the values."""
    arrays = {a.name: a for a in program.arrays}
    for name, definition, params, places in owners_of(model):
        drawn = {n: v for n, v in params.items() if not isinstance(v, _KNOWN) and places.get(n) in arrays}
        for parameter in scales(definition, {}) if drawn else ():
            if parameter not in drawn:
                continue
            values = np.asarray(read_logical(instance, arrays[places[parameter]]), np.float64)
            bad = int(np.count_nonzero(values <= 0))
            if 0 < bad < values.size:
                message = f"{bad:,} of the {values.size:,} values of `{parameter}` of `{name}` are not positive"
                help = "bound them (`min: 1 ms`), or draw them from another distribution, such as `lognormal`"
                low = f": the lowest is {float(values.min()):g}, and equations divide by it"
                raise RunError("E0951", message + low, help, span=drawn[parameter].span)
