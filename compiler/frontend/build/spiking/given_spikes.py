"""Prescribed spike times: validity, and several spikes of a neuron in one step.

Assumes: parameters of the population have values; projections are built.
Guarantees: times are integer steps, in the unit declared by their file, or are asked to be rounded to them; indices are
in range (E0603, E0703, E0706). Spikes in one step are summed (deliveries, recordings). They have no order for a synapse
that changes at a spike, draws random numbers at it or reads the previous spike time: an error (E0605).
Does not: check spikes of neurons with equations, which spike at most once per step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, Sink
from compiler.core.source import Span
from compiler.expr.ast import refs, substitute
from compiler.expr.inline import named
from compiler.expr.simplify import has_random
from compiler.expr.units import TIME, parse_unit
from compiler.files.array_files import HDF5, hdf5_text, read_array
from compiler.frontend.build.shared.values import Step, multiple, whole_steps

ROUND: Final = l0.ROUND_SPIKES


@dataclass(frozen=True)
class Repeated:
    """A neuron with `times` prescribed spikes in one step, which ends at `at` [ms], and their span."""

    neuron: int
    times: int
    at: float
    span: Span


def in_ms(params: Mapping[str, l0.Value], sink: Sink) -> dict[str, l0.Value]:
    """The parameters, with times from an HDF5 file in the unit of the attribute `units` of their dataset (SONATA;
    default: ms). E0706 where it is no unit of time."""
    times = params.get("times")
    if not isinstance(times, l0.FromFile) or times.array is None or Path(times.path).suffix not in HDF5:
        return dict(params)
    try:
        units = hdf5_text(Path(times.path), times.array, "units")
    except (OSError, ValueError) as error:
        sink.error("E0703", f"the array cannot be read: {error}", times.span)
        return dict(params)
    found = (TIME, Fraction(1)) if units is None else parse_unit(units)
    if found is None or found[0] != TIME:
        message = f"the times are in `{units}`, which is not a unit of time"
        help = "SONATA files have `ms` or `s` as the attribute `units` of the data set `timestamps`"
        sink.error("E0706", message, times.span, help)
        return dict(params)
    return {**params, "times": replace(times, scale=times.scale * float(found[1]))}


def _column(key: str, value: l0.Value, sink: Sink) -> npt.NDArray[np.float64] | None:
    """Times [ms] or indices; None after an error."""
    match value:
        case l0.FromFile(path, array, scale):
            try:
                return np.asarray(read_array(Path(path), array), np.float64).ravel() * scale
            except (OSError, ValueError, TypeError) as error:
                sink.error("E0703", f"the array cannot be read: {error}", value.span)
                return None
        case l0.Listed(values):
            return np.array(values, np.float64)
        case l0.Const(number):
            return np.array([number], np.float64)
    sink.error("E0102", f"`{key}` must be a list or an array in a file", value.span)
    return None


def check_spike_times(
    name: str, params: Mapping[str, l0.Value], size: int, step: Step | None, sink: Sink
) -> Repeated | None:
    """E0603/E0703: times are integer steps from the first of the run on, or are rounded to them; indices are in range.
    Returns the first neuron with several spikes in one step."""
    if not {"times", "indices"} <= params.keys():
        return None
    times, indices = (_column(key, params[key], sink) for key in ("times", "indices"))
    if times is None or indices is None:
        return None
    at_times, at_indices = params["times"].span, params["indices"].span
    if len(times) != len(indices):
        message = f"`{name}` has {len(times):,} spike times, but {len(indices):,} indices"
        sink.error("E0703", message, at_indices, "each spike has one time and one index")
        return None
    for k, index in enumerate(indices.tolist()):
        if not (0 <= index < size and index == int(index)):
            message = f"spike {k} of `{name}` is of neuron {index:g}; there are {size:,}, counted from 0"
            sink.error("E0603", message, at_indices)
            return None
    if step is None:
        return None
    rounding, counts = l0.rounds_spikes(params), list[int]()
    for k, time in enumerate(times.tolist()):
        exact = round(time / step.dt) if rounding and np.isfinite(time) else None
        count = exact if exact is not None else whole_steps(time, step.dt) if np.isfinite(time) else None
        if count is None or count < 1 - step.warmup:
            _not_in_a_step(f"spike {k} of `{name}`", time, count, at_times, step, sink)
            return None
        counts.append(count)
    pairs, where, many = np.unique(np.array([counts, indices], np.int64), axis=1, return_index=True, return_counts=True)
    if many.max(initial=0) <= 1:
        return None
    k = int(np.argmax(many > 1))
    return Repeated(int(pairs[1, k]), int(many[k]), float(times[where[k]]), at_times)


def _not_in_a_step(what: str, time: float, count: int | None, at: Span, step: Step, sink: Sink) -> None:
    """E0603: a time that is off the grid, or before the end of the first step."""
    first = multiple(1 - step.warmup, step.dt)
    if count is None:
        message = f"{what} is at {time:g} ms, which is not the end of a step"
        help = f"times are whole multiples of `dt`, {step.dt:g} ms, from {first} ms on; `round: nearest` rounds them"
    else:
        message = f"{what} is at {time:g} ms, before the end of the first step"
        help = f"the first step ends at {first} ms; `simulate: {{warmup: ...}}` has steps before it"
    sink.error("E0603", message, at, help, (Related("the step is given here", step.span),))


def check_repeated(repeated: Mapping[str, Repeated], projections: tuple[l0.Projection, ...], sink: Sink) -> None:
    """E0605 for projections that do not support several spikes of a neuron in one step; the first one of each."""
    if not repeated:
        return

    @cache
    def adds_up(number: int, end: str) -> bool:
        return spikes_add_up(projections[number].statements, end)

    for number, p in enumerate(projections):
        for member in p.members:
            ends = (("pre", member.source), ("post", member.target))
            bad = [name for end, name in ends if name in repeated and not adds_up(number, end)]
            if not bad:
                continue
            found = repeated[bad[0]]
            message = (
                f"neuron {found.neuron} of `{bad[0]}` has {found.times} spikes in the step that ends at {found.at:g} "
                f"ms, and the synapses of `{p.name}` cannot take more than one"
            )
            help = "move a spike into another step, or use a smaller `dt`; synapses that only deliver take any number"
            sink.error("E0605", message, p.span, help, (Related("the spikes are given here", found.span),))
            break


def spikes_add_up(synapse: l0.SynapseDef, end: str) -> bool:
    """Whether the effects of the spikes of one neuron of an end commute, and do not depend on their progress through
    the synapses."""
    actions = synapse.on_pre if end == "pre" else synapse.on_post
    block = synapse.pre if end == "pre" else synapse.post
    known = named(synapse.lets)
    values = [substitute(value, known) for value in l0.values_of(actions)]
    states = {s.name for s in synapse.state}
    others = [*l0.values_of(synapse.update), *(let.value for let in synapse.lets)]
    read = set().union(*(refs(e) for e in (*values, *others)))
    return not (
        (block is not None and block.on_spike)
        or (actions and synapse.event_driven)
        or any(f"{end}.{time}" in read for time in ("last_spike", "previous_spike"))
        or any(has_random(value) for value in (*values, *known.values()))
        or any(not isinstance(a, l0.Send | l0.Set) or (isinstance(a, l0.Set) and a.target in states) for a in actions)
    )
