"""lower_spike_times: populations that emit given spikes.

Assumes: an instance with `source` "spike_times": params times [ms] and indices.
Guarantees: every spike is emitted in step round(time / dt) after the warm-up; times that are no whole steps, and
indices of no neuron, are refused.
Does not: read the files again when the run starts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import ModelError
from compiler.ir.level0.model import FromFile, Value
from compiler.ir.level1.graph import Instance
from compiler.ir.level2.program import Array, ArrayFormal, ByName, EmitScheduled, Formal, Kind, Mode, ScalarFormal
from compiler.ir.space import DType, Role
from compiler.passes.cells.cell_arrays import N, add_ring
from compiler.passes.program.build_program import ProgramBuilder
from compiler.passes.program.init_values import read_file


def _spikes(instance: Instance, dt: float, warmup: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Steps and indices as they are given. Raises ModelError E0703 or E0603 where they cannot be emitted."""
    params: dict[str, Value] = dict(instance.params)

    def numbers(value: Value) -> npt.NDArray[np.float64]:
        if isinstance(value, FromFile):
            return read_file(value)
        return np.array(getattr(value, "values", None) or [getattr(value, "value", 0.0)], np.float64)

    times, indices = numbers(params["times"]), numbers(params["indices"])
    if len(times) != len(indices):
        message = f"`{instance.name}` has {len(times)} times and {len(indices)} indices"
        raise ModelError([Diagnostic("E0703", message, instance.span, "each spike needs one time and one index")])
    steps = np.rint(times / dt).astype(np.int64)
    ids = indices.astype(np.int64)
    off_grid = np.abs(times / dt - steps) > 1e-6
    steps += warmup
    bad = off_grid | (steps < 1) | (ids < 0) | (ids >= instance.size)
    if bad.any():
        first = int(np.argmax(bad))
        message = f"spike {first} of `{instance.name}` (time {times[first]:g} ms, index {ids[first]}) cannot be emitted"
        help = f"times are whole steps of {dt:g} ms from {(1 - warmup) * dt:g} ms on, indices 0 to {instance.size - 1}"
        raise ModelError([Diagnostic("E0603", message, instance.span, help)])
    return steps, ids


def lower_spike_times(builder: ProgramBuilder, instance: Instance, dt: float) -> None:
    """spike_times: a given list of (time, index) becomes an emission of step round(time / dt) after the warm-up."""
    span = instance.span
    steps, ids = _spikes(instance, dt, builder.warmup)
    order = np.lexsort((ids, steps))
    m = max(len(order), 1)
    name = instance.name
    pairs = {"steps": steps[order], "ids": ids[order]}
    most = int(np.unique(steps, return_counts=True)[1].max(initial=0))  # a neuron may have several in a step
    room = max(instance.size, most)
    ring = add_ring(builder, instance, room)
    bound = {"list": ring["spikes"], "count": ring["spike_count"]}
    for key, values in pairs.items():
        stored = np.zeros(m, np.int32)
        stored[: len(order)] = values
        bound[key] = builder.array(Array(f"{name}.{key}", DType.I32, (m,), Role.CONST, span=span), stored)
    bound["cursor"] = builder.array(Array(f"{name}.cursor", DType.I64, (1,), Role.STATE, span=span))
    formals: tuple[Formal, ...] = (
        ArrayFormal("steps", DType.I32, Mode.READ, ByName()),
        ArrayFormal("ids", DType.I32, Mode.READ, ByName()),
        ArrayFormal("cursor", DType.I64, Mode.UPDATE, ByName()),
        ArrayFormal("list", DType.I32, Mode.WRITE, ByName()),
        ArrayFormal("count", DType.I32, Mode.WRITE, ByName()),
        ScalarFormal("slots", DType.I64),
        N,
        ScalarFormal("m", DType.I64),
    )
    row = builder.row(
        "spike_times",
        f"{name}: given spikes",
        Kind.EMIT,
        formals,
        EmitScheduled(),
        bound,
        {"slots": instance.slots, "n": room, "m": len(order)},
        name,
        span,
    )
    builder.launch("step", "spike_times", row, row + 1)
