"""lower_spike_times: populations that emit given spikes.

Assumes: an instance with `source` "spike_times": params times [ms] and indices.
Guarantees: every spike is emitted in step round(time / dt) after the warm-up; indices outside the population are
errors, and so are times that are not multiples of dt, unless they are to be rounded.
Does not: reread the files when a run starts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level1.cells as l1
import compiler.ir.level2.program as l2
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.ir.level1.stages import POPULATIONS
from compiler.ir.space import DType, Role, own_array
from compiler.passes.cells.cell_arrays import add_ring
from compiler.passes.program.build_program import Place, ProgramBuilder
from compiler.passes.program.init_values import numbers_of


def _spikes(instance: l1.Instance, dt: float, warmup: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Steps and indices in the order of the user. Raises ModelError E0703 or E0603 where they cannot be emitted."""
    params: dict[str, l0.Value] = dict(instance.params)

    def numbers(value: l0.Value) -> npt.NDArray[np.float64]:
        if isinstance(value, l0.FromFile | l0.Listed):
            return numbers_of(value)
        return np.array([getattr(value, "value", 0.0)], np.float64)

    times, indices = numbers(params["times"]), numbers(params["indices"])
    if len(times) != len(indices):
        message = f"`{instance.name}` has {len(times)} times and {len(indices)} indices"
        raise ModelError([Diagnostic("E0703", message, instance.span, "each spike needs one time and one index")])
    steps = np.rint(times / dt).astype(np.int64)
    ids = indices.astype(np.int64)
    off_grid = (np.abs(times / dt - steps) > 1e-6) & (not l0.rounds_spikes(params))
    steps += warmup
    bad = off_grid | (steps < 1) | (ids < 0) | (ids >= instance.size)
    if bad.any():
        first = int(np.argmax(bad))
        message = f"spike {first} of `{instance.name}` (time {times[first]:g} ms, index {ids[first]}) cannot be emitted"
        help = f"times are whole steps of {dt:g} ms from {(1 - warmup) * dt:g} ms on, indices 0 to {instance.size - 1}"
        raise ModelError([Diagnostic("E0603", message, instance.span, help)])
    return steps, ids


def lower_spike_times(builder: ProgramBuilder, instance: l1.Instance, dt: float) -> None:
    """spike_times: a given list of (time, index) becomes an emission of step round(time / dt) after the warm-up."""
    span = instance.span
    steps, ids = _spikes(instance, dt, builder.warmup)
    order = np.lexsort((ids, steps))
    m = max(len(order), 1)
    name = instance.name
    pairs = {"steps": steps[order], "ids": ids[order]}
    most = int(np.unique(steps, return_counts=True)[1].max(initial=0))  # a neuron may spike several times in a step
    room = max(instance.size, most)
    ring = add_ring(builder, instance, room)
    given = {}
    for key, values in pairs.items():
        stored = np.zeros(m, np.int32)
        stored[: len(order)] = values
        given[key] = builder.array(l2.Array(own_array(name, key), DType.I32, (m,), Role.CONST, span=span), stored)
    cursor = builder.array(l2.Array(own_array(name, "cursor"), DType.I64, (1,), Role.STATE, span=span))
    k = builder.kernel(f"{name}: given spikes", span)
    k.read("steps", DType.I32, given["steps"], l2.ByName())
    k.read("ids", DType.I32, given["ids"], l2.ByName())
    k.update("cursor", DType.I64, cursor, l2.ByName())
    k.write("list", DType.I32, ring["spikes"], l2.ByName())
    k.write("count", DType.I32, ring["spike_count"], l2.ByName())
    k.column("slots", instance.slots)
    k.column("n", room)
    k.column("m", len(order))
    k.add_row(l2.EmitScheduled(), name).run(Place(POPULATIONS))
