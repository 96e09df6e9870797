"""Rates of recorded spikes: the one place that divides spikes by neurons and time.

Assumes: spikes that were recorded as the model's `record` asks; steps count from the end of the warm-up.
Guarantees: the neurons and the time that a rate is over are those that were recorded, in the summary, in the raster and
over time alike; rates over time add up to the mean.
Does not: read or write files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0

Floats = npt.NDArray[np.float64]
Window = tuple[int, int]
"""Steps first < k <= last."""


def rate_of(spikes: float, neurons: int, ms: float) -> float:
    """Spikes per neuron and second [Hz]."""
    return 1000 * spikes / (neurons * ms)


@dataclass(frozen=True)
class Activity:
    """What was recorded of one population's spikes: `members` (ascending; None: all `size` neurons) in the steps
    first < k <= last of `dt` ms."""

    size: int
    members: tuple[int, ...] | None
    first: int
    last: int
    dt: float

    @property
    def neurons(self) -> int:
        return self.size if self.members is None else len(self.members)

    @property
    def steps(self) -> int:
        return max(self.last - self.first, 0)

    def rate(self, spikes: int) -> float | None:
        """The mean rate [Hz]; None when nothing was recorded."""
        return rate_of(spikes, self.neurons, self.steps * self.dt) if self.steps and self.neurons else None

    def places(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of each neuron among those that are recorded."""
        return ids if self.members is None else np.searchsorted(np.array(self.members, np.int64), ids)

    def over_time(self, times: Floats, bins: int) -> tuple[Floats, Floats]:
        """(edges [ms], rates [Hz]) in at most so many bins of whole steps, the last of which may be shorter. A spike of
        step k, which carries the time k dt, belongs to the bin that holds the step."""
        width = max(1, -(-self.steps // bins))
        edges = np.append(np.arange(self.first, self.last, width), self.last) if self.steps else np.zeros(1, np.int64)
        steps = np.rint(times / self.dt).astype(np.int64)
        counts, _ = np.histogram(steps - 0.5, edges) if self.steps else (np.zeros(0, np.int64), None)
        lengths = np.diff(edges) * self.dt
        parts = zip(counts.tolist(), lengths.tolist(), strict=True)
        rates = np.array([rate_of(n, self.neurons, ms) for n, ms in parts], np.float64)
        return np.asarray(edges * self.dt, np.float64), rates


def activities(model: l0.Model, window: Window | None = None) -> dict[str, Activity]:
    """The recorded activity of each population with recorded spikes, for the steps `window` (None: all of the
    model's)."""
    assert model.simulate is not None
    first, last = (0, model.simulate.steps) if window is None else window
    sizes = {p.name: p.size for p in model.populations}
    by_population: dict[str, Activity] = {}
    for record in model.spikes:
        low, high = (first, last) if record.between is None else record.between
        members = tuple(sorted(set(record.members))) or None
        for name in record.populations:
            made = Activity(sizes[name], members, max(first, low), min(last, high), model.simulate.dt)
            by_population.setdefault(name, made)
    return by_population


def mean_rates(model: l0.Model, counts: Mapping[str, int], window: Window) -> dict[str, float]:
    """The mean rate [Hz] of each population with so many spikes recorded; without those that nothing was recorded
    of."""
    rates = {name: a.rate(counts[name]) for name, a in activities(model, window).items() if name in counts}
    return {name: rate for name, rate in rates.items() if rate is not None}
