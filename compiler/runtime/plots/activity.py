"""Plots of spikes and rates: raster, rates, intervals, spectrum, correlogram, and rates since a stimulus.

Assumes: spikes.h5 and rates.h5 in the run's folder, as the runner writes them.
Guarantees: neurons and times are those that were recorded (compiler/runtime/common/rates.py).
Does not: save figures (plots.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.runtime.artifacts.records import open_records
from compiler.runtime.common.rates import Activity, Window, activities, rate_of
from compiler.runtime.plots.style import COLORS, new_figure

Floats = npt.NDArray[np.float64]
MOST_DOTS: Final = 200_000  # spikes that a raster shows; of more, an even selection of neurons
MOST_BINS: Final = 200  # of a rate over time
MOST_PAIRS: Final = 10  # of a correlogram


def names_of(plot: l0.Plot) -> tuple[str, ...]:
    """The populations that a plot shows."""
    value = dict(plot.args)["from"]
    return value if isinstance(value, tuple) else (str(value),)


def time_axis(model: l0.Model, window: Window | None, between: Sequence[Window | None]) -> tuple[float, float, float]:
    """The time axis [ms] and its divisor: (begin, end, 1 or 1000). `between`: the steps that each thing was recorded
    in (None: all)."""
    assert model.simulate is not None
    first, last = (0, model.simulate.steps) if window is None else window
    parts = [(first, last) if b is None else (max(first, b[0]), min(last, b[1])) for b in between]
    low, high = min((p[0] for p in parts), default=first), max((p[1] for p in parts), default=last)
    begin, end = low * model.simulate.dt, max(high, low + 1) * model.simulate.dt
    return begin, end, 1000.0 if end > 5000 else 1.0


def label_time(axes: Any, look: l0.Look, axis: tuple[float, float, float]) -> None:
    """The label and the ends of a time axis."""
    begin, end, scale = axis
    begin, end = look.time or (begin, end)
    axes.set_xlim(begin / scale, end / scale)
    axes.set_xlabel(f"time ({'s' if scale > 1 else 'ms'})")


def color_of(number: int) -> str:
    return COLORS[number % len(COLORS)]


def _within(look: l0.Look, times: Floats) -> Any:
    """Which times are shown."""
    if look.time is None:
        return slice(None)
    return (times >= look.time[0]) & (times <= look.time[1])


def raster(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Dots (time, neuron), a band per population with a row per recorded neuron; below it the populations' rates over
    time, as the summary counts them."""
    names, look = names_of(plot), plot.look
    recorded = activities(model, window)
    axis = time_axis(model, None, [(recorded[n].first, recorded[n].last) for n in names])
    scale = axis[2]
    figure = new_figure(8, 5.5, look)
    dots, rates = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    total = sum(recorded[n].neurons for n in names)
    ticks: list[float] = []
    base = 0
    with open_records(folder / "spikes.h5") as file:
        events = sum(file[f"spikes/{n}/timestamps"].shape[0] for n in names)
        every = max(1, -(-events // MOST_DOTS))
        for number, name in enumerate(names):
            color, activity = color_of(number), recorded[name]
            times = file[f"spikes/{name}/timestamps"][:]
            places = activity.places(file[f"spikes/{name}/node_ids"][:].astype(np.int64))
            seen = _within(look, times)
            shown = places[seen] % every == 0
            dots.scatter(
                times[seen][shown] / scale,
                places[seen][shown] + base,
                s=float(np.clip(25.0 * 300 / max(total, 1), 0.4, 12)),
                marker="o" if total < 500 else ".",
                linewidths=0,
                color=color,
                rasterized=True,
            )
            edges, rate = activity.over_time(times, MOST_BINS)
            mean = activity.rate(len(times))
            label = name if mean is None else f"{name}: {mean:.3g} Hz"
            if len(rate):
                rates.stairs(rate, edges / scale, baseline=None, color=color, label=label)
            ticks.append(base + (activity.neurons - 1) / 2)
            base += activity.neurons
            if number + 1 < len(names):
                dots.axhline(base - 0.5, color="#babdb6", linewidth=0.6)
    dots.set_ylim(-0.5, max(base - 0.5, 0.5))
    dots.set_yticks(ticks, [_band(n, recorded[n]) for n in names])
    dots.set(ylabel="neuron", title=model.name if every == 1 else f"{model.name} (one neuron in {every} is shown)")
    rates.set(ylabel="rate (Hz)", ylim=(0, None))
    label_time(rates, look, axis)
    if rates.get_legend_handles_labels()[0]:
        rates.legend(loc="upper right", ncols=min(4, len(names)), fontsize="small")
    return figure


def _band(name: str, activity: Activity) -> str:
    """The label of a band of the raster, with the number of neurons shown where these are not all."""
    return name if activity.members is None else f"{name}\n({activity.neurons:,} of {activity.size:,})"


def rate(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Recorded rates over time, a line per population."""
    axis = time_axis(model, window, ())
    figure = new_figure(8, 3, plot.look)
    axes = figure.subplots()
    with open_records(folder / "rates.h5") as file:
        for number, name in enumerate(names_of(plot)):
            times, values = file[name]["time"][:] / axis[2], file[name]["rate"][:]
            axes.plot(times, values, linewidth=1, color=color_of(number), label=name, drawstyle="steps-pre")
    axes.set(title=f"{model.name}: rates", ylim=(0, None), ylabel="rate (Hz)")
    label_time(axes, plot.look, axis)
    axes.legend(loc="upper right", fontsize="small")
    return figure


# ------------------------------------------------------------------------------------ statistics of spikes


def _spikes(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Floats, npt.NDArray[np.int64]]]:
    """(population, times in ms, neurons) of recorded spikes."""
    with open_records(folder / "spikes.h5") as file:
        for name in names:
            group = file[f"spikes/{name}"]
            yield name, group["timestamps"][:], group["node_ids"][:].astype(np.int64)


def intervals(times: Floats, ids: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """(interspike intervals [ms], the neuron of each)."""
    order = np.lexsort((times, ids))
    gaps, same = np.diff(times[order]), ids[order][1:] == ids[order][:-1]
    return gaps[same], ids[order][1:][same]


def variation(gaps: Floats, ids: npt.NDArray[np.int64]) -> Floats:
    """The coefficient of variation of the intervals of each neuron with at least two of them: their standard deviation
    over their mean."""
    _, place, count = np.unique(ids, return_inverse=True, return_counts=True)
    mean = np.bincount(place, gaps) / count
    deviation = np.sqrt(np.bincount(place, (gaps - mean[place]) ** 2) / np.maximum(count - 1, 1))
    return np.asarray((deviation / mean)[count >= 2], np.float64)


def isi(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Left: the intervals of all neurons, on a logarithmic axis; right: the CV of each neuron."""
    figure = new_figure(8, 3, plot.look)
    left, right = figure.subplots(1, 2)
    found = [(n, *intervals(t, i)) for n, t, i in _spikes(folder, names_of(plot))]
    found = [(n, gaps, ids) for n, gaps, ids in found if len(gaps)]
    if not found:
        return None
    low, high = min(g.min() for _, g, _ in found), max(g.max() for _, g, _ in found)
    edges = np.geomspace(low, high * 1.0001 if high > low else low * 2, 41)
    for number, (name, gaps, ids) in enumerate(found):
        counts, _ = np.histogram(gaps, edges)
        left.stairs(counts / len(gaps), edges, color=color_of(number), label=f"{name}: mean {gaps.mean():.3g} ms")
        each = variation(gaps, ids)
        if len(each):
            shares, bins = np.histogram(each, 25, (0, max(2.0, float(each.max()))))
            label = f"{name}: mean {each.mean():.2f}"
            right.stairs(shares / len(each), bins, color=color_of(number), label=label)
    left.set(xscale="log", xlabel="interval (ms)", ylabel="share of the intervals")
    right.set(xlabel="CV of the intervals", ylabel="share of the neurons")
    figure.suptitle(f"{model.name}: intervals between spikes", fontsize="medium")
    for axes in (left, right):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    return figure


def binned(activity: Activity, times: Floats, width: int) -> Floats:
    """The rate [Hz] of a population in bins of `width` steps that are full."""
    count = activity.steps // width
    steps = np.rint(times / activity.dt).astype(np.int64) - 1 - activity.first
    counts = np.bincount(np.clip(steps // width, 0, count), minlength=count + 1)[:count]
    return np.asarray(rate_of(1, activity.neurons, width * activity.dt) * counts, np.float64)


def spectrum(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """The power spectral density of the rate of each population (Welch 1967), segments of a second at most."""
    from scipy.signal import welch

    recorded, width = activities(model, window), int(float(str(dict(plot.args)["bin"])))
    figure = new_figure(6, 3.4, plot.look)
    axes = figure.subplots()
    for number, (name, times, _) in enumerate(_spikes(folder, names_of(plot))):
        signal = binned(recorded[name], times, width)
        per_second = 1000.0 / (width * recorded[name].dt)
        if len(signal) < 8:
            return None
        frequency, power = welch(signal, per_second, nperseg=min(len(signal), max(8, int(per_second))))
        axes.semilogy(frequency[1:], power[1:], linewidth=1, color=color_of(number), label=name)
    axes.set(
        title=f"{model.name}: spectrum of the rates", xlabel="frequency (Hz)", ylabel="power (Hz²/Hz)", xlim=(0, None)
    )
    axes.legend(fontsize="small")
    return figure


def correlation(x: Floats, y: Floats, most: int) -> Floats:
    """The correlation coefficient of x(t) and y(t + k) for k from -`most` to `most` bins; NaN where one is constant."""
    from scipy.signal import correlate

    a, b = x - x.mean(), y - y.mean()
    scale = np.sqrt((a @ a) * (b @ b))
    if scale == 0:
        return np.full(2 * most + 1, np.nan)
    whole = correlate(b, a, method="fft")
    middle = len(x) - 1
    return np.asarray(whole[middle - most : middle + most + 1] / scale, np.float64)


def correlogram(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A line per pair of populations; of a population with itself without the lag 0, where it is 1."""
    args, recorded = dict(plot.args), activities(model, window)
    width, lag = (int(float(str(args[k]))) for k in ("bin", "lag"))
    signals = {n: binned(recorded[n], t, width) for n, t, _ in _spikes(folder, names_of(plot))}
    most = min(lag // width, min(len(s) for s in signals.values()) - 1)
    if most < 1:
        return None
    assert model.simulate is not None
    lags = np.arange(-most, most + 1) * width * model.simulate.dt
    figure = new_figure(6, 3.4, plot.look)
    axes = figure.subplots()
    for number, (a, b) in enumerate(list(combinations_with_replacement(signals, 2))[:MOST_PAIRS]):
        count = min(len(signals[a]), len(signals[b]))
        values = correlation(signals[a][:count], signals[b][:count], most)
        if a == b:
            values[most] = np.nan
        axes.plot(lags, values, linewidth=1, color=color_of(number), label=a if a == b else f"{a}, {b}")
    axes.axhline(0, color="#babdb6", linewidth=0.6)
    axes.set(title=f"{model.name}: correlation of the rates", xlabel="lag (ms)", ylabel="correlation coefficient")
    axes.legend(fontsize="small")
    return figure


def psth(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """The mean rate over the time since the last multiple of `every`, over all that were recorded as a whole."""
    args, recorded = dict(plot.args), activities(model, window)
    width, every = (int(float(str(args[k]))) for k in ("bin", "every"))
    figure = new_figure(6, 3.4, plot.look)
    axes = figure.subplots()
    trials = 0
    for number, (name, times, _) in enumerate(_spikes(folder, names_of(plot))):
        activity = recorded[name]
        first, last = -(-activity.first // every), activity.last // every
        trials = last - first
        if trials < 1:
            return None
        steps = np.rint(times / activity.dt).astype(np.int64) - 1
        within = steps[(steps >= first * every) & (steps < last * every)] % every
        edges = np.append(np.arange(0, every, width), every)
        counts, _ = np.histogram(within, edges)
        rates = counts * 1000.0 / (activity.neurons * trials * np.diff(edges) * activity.dt)
        axes.stairs(rates, edges * activity.dt, color=color_of(number), label=name)
    axes.set(
        title=f"{model.name}: rates since a stimulus, mean of {trials:,}",
        ylim=(0, None),
        xlabel="time since the stimulus (ms)",
        ylabel="rate (Hz)",
    )
    axes.legend(fontsize="small")
    return figure
