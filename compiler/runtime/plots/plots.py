"""Plots of a run, as PNG and SVG: raster with rates, traces, rates, synapses, training curves.

Assumes: spikes.h5, traces.h5, rates.h5, synapses.h5 and metrics.jsonl in the run's folder, as the runner writes
them.
Guarantees: without matplotlib the result of `draw_plots` has a warning; no window opens; equal data give equal SVG.
Does not: run anything.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.disk import new_file
from compiler.runtime.common.metrics import read_metrics
from compiler.runtime.common.rates import Activity, Window, activities
from compiler.runtime.common.watch import best_epoch
from compiler.runtime.plots.confusion import confusion
from compiler.runtime.plots.style import COLORS, new_figure
from compiler.runtime.plots.synapses import evolution, histogram, matrix

MISSING: Final = "no plots were made: matplotlib is not installed (pip install 'netloom[plot]')"
IMAGES: Final = ("png", "svg", "pdf")
MOST_DOTS: Final = 200_000  # spikes that a raster shows; of more, an even selection of neurons
MOST_LINES: Final = 12  # neurons of a population that a trace shows
DRAWING: Final = threading.Lock()
"""Held while one thread draws: matplotlib has one style for the process."""


@dataclass(frozen=True)
class Plotted:
    """`files`: the plots, relative to the run's folder; `warning`: why some are missing."""

    files: tuple[str, ...]
    warning: str | None = None


def wanted_plots(model: l0.Model) -> tuple[l0.Plot, ...]:
    """The model's plots; training always has its curves, and a confusion matrix that it measures."""
    plots = model.plots
    if model.train is not None and not any(p.kind == "training" for p in plots):
        plots = (*plots, l0.Plot("training", ()))
    if model.train is not None and "confusion" in model.train.metrics:
        plots = (*plots, l0.Plot("confusion", ()))
    return plots


def draw_plots(
    folder: Path,
    model: l0.Model,
    window: Window | None = None,
    only: tuple[str, ...] = (),
    images: tuple[str, ...] = ("png", "svg"),
    out: Path | None = None,
) -> Plotted:
    """Draw what the model asks for into `folder/plots`, or `out`. `window`: the steps of a simulation whose records are
    there (None: all of them); `only`: kinds of plots; `images`: of IMAGES."""
    plots = wanted_plots(model)
    if not plots:
        return Plotted(())
    if importlib.util.find_spec("matplotlib") is None:
        return Plotted((), MISSING)
    import matplotlib
    from cycler import cycler

    files: list[str] = []
    style: Any = {
        "svg.hashsalt": "netloom",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "font.size": 9,
        "legend.frameon": False,
        "axes.prop_cycle": cycler(color=COLORS),
    }
    with DRAWING, matplotlib.rc_context(style):
        for number, plot in enumerate(plots):
            figure = _figure(folder, model, plot, window) if not only or plot.kind in only else None
            if figure is None:
                continue
            same = [p for p in plots[:number] if p.kind == plot.kind]
            name = plot.kind if not same else f"{plot.kind}_{len(same) + 1}"
            for suffix in images:
                file = f"plots/{name}.{suffix}"
                dated = {"svg": "Date", "pdf": "CreationDate"}
                metadata = {dated[suffix]: None} if suffix in dated else None
                with new_file(folder / file if out is None else out / f"{name}.{suffix}", "a plot") as stream:
                    figure.savefig(stream, format=suffix, dpi=150, metadata=metadata)
                files.append(file)
    return Plotted(tuple(files))


def _figure(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A figure of matplotlib; None where nothing was recorded."""
    match plot.kind:
        case "raster":
            return raster(folder, model, plot, window)
        case "trace":
            return _trace(folder, model, plot, window)
        case "rate":
            return _rate(folder, model, plot, window)
        case "histogram":
            return histogram(folder, model, plot)
        case "matrix":
            return matrix(folder, model, plot)
        case "evolution":
            return evolution(folder, model, plot)
        case "training":
            return training_figure(folder, model.train.best if model.train is not None else None)
        case "confusion":
            return confusion(folder, model)
    raise AssertionError(f"plot kind {plot.kind} passed the frontend")


def drawn(folder: Path) -> tuple[str, ...]:
    """The plots that are in a run's folder."""
    return tuple(sorted(str(p.relative_to(folder)) for p in (folder / "plots").glob("[!.]*")))


def _names(plot: l0.Plot) -> tuple[str, ...]:
    value = dict(plot.args)["from"]
    return value if isinstance(value, tuple) else (str(value),)


def _span(model: l0.Model, window: Window | None, between: Sequence[Window | None]) -> tuple[float, float, float]:
    """The time axis [ms] and its divisor: (begin, end, 1 or 1000). `between`: the steps that each thing was recorded
    in (None: all)."""
    assert model.simulate is not None
    first, last = (0, model.simulate.steps) if window is None else window
    parts = [(first, last) if b is None else (max(first, b[0]), min(last, b[1])) for b in between]
    low, high = min((p[0] for p in parts), default=first), max((p[1] for p in parts), default=last)
    begin, end = low * model.simulate.dt, max(high, low + 1) * model.simulate.dt
    return begin, end, 1000.0 if end > 5000 else 1.0


MOST_BINS: Final = 200  # of a rate over time


def raster(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Dots (time, neuron), a band per population with a row per recorded neuron; below it the populations' rates over
    time, as the summary counts them."""
    names = _names(plot)
    recorded = activities(model, window)
    begin, end, scale = _span(model, None, [(recorded[n].first, recorded[n].last) for n in names])
    figure = new_figure(8, 5.5)
    dots, rates = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    total = sum(recorded[n].neurons for n in names)
    ticks: list[float] = []
    base = 0
    with h5py.File(folder / "spikes.h5") as file:
        events = sum(file[f"spikes/{n}/timestamps"].shape[0] for n in names)
        every = max(1, -(-events // MOST_DOTS))
        for number, name in enumerate(names):
            color, activity = COLORS[number % len(COLORS)], recorded[name]
            times = file[f"spikes/{name}/timestamps"][:]
            places = activity.places(file[f"spikes/{name}/node_ids"][:].astype(np.int64))
            shown = places % every == 0
            dots.scatter(
                times[shown] / scale,
                places[shown] + base,
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
    dots.set_xlim(begin / scale, end / scale)
    dots.set_yticks(ticks, [_band(n, recorded[n]) for n in names])
    dots.set_ylabel("neuron")
    dots.set_title(model.name if every == 1 else f"{model.name} (one neuron in {every} is shown)")
    rates.set_ylabel("rate (Hz)")
    rates.set_ylim(bottom=0)
    rates.set_xlabel(f"time ({'s' if scale > 1 else 'ms'})")
    if rates.get_legend_handles_labels()[0]:
        rates.legend(loc="upper right", ncols=min(4, len(names)), fontsize="small")
    return figure


def _band(name: str, activity: Activity) -> str:
    """The label of a band of the raster, with the number of neurons shown where these are not all."""
    return name if activity.members is None else f"{name}\n({activity.neurons:,} of {activity.size:,})"


def _rate(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Recorded rates over time, a line per population."""
    begin, end, scale = _span(model, window, ())
    figure = new_figure(8, 3)
    axes = figure.subplots()
    with h5py.File(folder / "rates.h5") as file:
        for number, name in enumerate(_names(plot)):
            times, rate = file[name]["time"][:] / scale, file[name]["rate"][:]
            axes.plot(times, rate, linewidth=1, color=COLORS[number % len(COLORS)], label=name, drawstyle="steps-pre")
    axes.set_title(f"{model.name}: rates")
    axes.set_xlim(begin / scale, end / scale)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"time ({'s' if scale > 1 else 'ms'})")
    axes.set_ylabel("rate (Hz)")
    axes.legend(loc="upper right", fontsize="small")
    return figure


def _trace(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A row per recorded neuron, all on one scale, population after population."""
    names, variable = _names(plot), str(dict(plot.args)["variable"])
    groups = {r.group: r.between for r in model.traces}
    begin, end, scale = _span(model, window, [groups.get(n) for n in names])
    with h5py.File(folder / "traces.h5") as file:
        traced = {name: file[name] for name in names}
        counts = {name: min(len(group["members"]), MOST_LINES) for name, group in traced.items()}
        figure = new_figure(8, 1.0 + max(0.6 * sum(counts.values()), 1.6))
        axes = iter(figure.subplots(sum(counts.values()), 1, sharex=True, sharey=True, squeeze=False)[:, 0])
        for number, (name, group) in enumerate(traced.items()):
            unit = group[variable].attrs["unit"]
            for k in range(counts[name]):
                at = next(axes)
                at.plot(
                    group["time"][:] / scale,
                    group[variable][:, k],
                    linewidth=0.8,
                    color=COLORS[number % len(COLORS)],
                )
                at.set_ylabel(f"{name} {group['members'][k]}", rotation=0, ha="right", va="center", fontsize="small")
                at.tick_params(labelsize="x-small")
                at.spines["bottom"].set_visible(False)
                at.tick_params(axis="x", length=0)
        first = figure.axes[0]
        first.set_title(f"{model.name}: {variable}" + (f" ({unit})" if unit not in ("1", "") else ""))
        last = figure.axes[-1]
        last.spines["bottom"].set_visible(True)
        last.tick_params(axis="x", length=3, labelsize="small")
        last.set_xlim(begin / scale, end / scale)
        last.set_xlabel(f"time ({'s' if scale > 1 else 'ms'})")
    return figure


def training_figure(folder: Path, watched: l0.Watched | None = None) -> Any:
    """Loss and metrics over epochs, training and validation in one axes each, with the best epoch where one is looked
    for. None before the first epoch."""
    rows = read_metrics(folder)
    if not rows:
        return None
    names = [k for k in rows[0] if k not in ("epoch", "seconds") and not k.startswith("validation_")]
    epochs = [r["epoch"] for r in rows]
    figure = new_figure(4.2 * len(names), 3.2)
    for at, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for key, label, color in (
            (name, "training", COLORS[0]),
            (f"validation_{name}", "validation", COLORS[1]),
        ):
            if key in rows[0]:
                _curve(at, epochs, [r.get(key, np.nan) for r in rows], label, color)
        if watched is not None and (best := best_epoch(rows, watched)):
            at.axvline(best, label=f"best epoch {best}", color=COLORS[2], linestyle=":", linewidth=1.1)
        at.set_title(name)
        at.set_xlabel("epoch")
        at.xaxis.get_major_locator().set_params(integer=True)
        if name == "loss":
            at.set_ylim(bottom=0)
        at.legend(fontsize="small")
    return figure


def _curve(at: Any, epochs: Sequence[float], values: Sequence[float], label: str, color: str) -> None:
    marker = "o" if len(epochs) < 40 else None
    at.plot(epochs, values, label=label, color=color, marker=marker, markersize=2.5, linewidth=1.1)
