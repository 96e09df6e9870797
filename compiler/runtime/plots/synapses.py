"""Plots of recorded synapses: histogram, matrix, and values over time.

Assumes: synapses.h5 as compiler/runtime/record/record_synapses.py writes it.
Guarantees: members of a family are drawn together, one colour each (the matrix: one block each, in order); vacant slots
are ignored.
Does not: save figures (plots.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.runtime.artifacts.records import open_records
from compiler.runtime.common.rates import Window
from compiler.runtime.plots.style import COLORS, labelled, new_figure

MOST_LINES: Final = 40  # synapses of a member that are drawn one by one
MOST_CELLS: Final = 1000  # rows and columns of a matrix; larger ones are averaged over blocks


def _asked(plot: l0.Plot) -> tuple[str, str]:
    args = dict(plot.args)
    return str(args["from"]), str(args["variable"])


def values_at(group: Any, variable: str, sample: int | None = None) -> Any:
    """(samples, synapses), or one sample, of a variable; NaN in vacant slots."""
    rows: Any = slice(None) if sample is None else sample
    values = np.asarray(group[variable][rows], np.float64)
    for ends in ("sources", "targets"):
        if ends in group and group[ends].shape == group[variable].shape:
            values = np.where(group[ends][rows] >= 0, values, np.nan)
    return values


def _held(values: Any) -> Any:
    return values[~np.isnan(values)]


def histogram(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Bars of the last sample, outline of the first."""
    projection, variable = _asked(plot)
    bins = int(float(str(dict(plot.args)["bins"])))
    figure = new_figure(5, 3.4, plot.look)
    axes = figure.subplots()
    unit = "1"
    with open_records(folder / "synapses.h5") as file:
        members = list(file[projection].items())
        values = [_held(values_at(g, variable, -1)) for _, g in members if g[variable].shape[0]]
        if not values:
            return None
        first = np.concatenate([_held(values_at(g, variable, 0)) for _, g in members if g[variable].shape[0]])
        every = np.concatenate([*values, first])
        low, high = (float(every.min()), float(every.max())) if every.size else (0.0, 1.0)
        edges = np.linspace(low, high if high > low else low + 1.0, bins + 1)
        labels = [name for name, _ in members]
        axes.hist(
            values, edges, stacked=True, color=[COLORS[i % len(COLORS)] for i in range(len(values))], label=labels
        )
        unit = members[0][1][variable].attrs["unit"]
        samples = members[0][1]["time"]
        if samples.shape[0] > 1:
            counts, _ = np.histogram(first, edges)
            axes.stairs(counts, edges, color="#2e3436", linewidth=1, label=f"at {samples[0]:g} ms")
            axes.legend(fontsize="small")
    axes.set(title=f"{model.name}: {projection}", xlabel=labelled(variable, unit), ylabel="synapses")
    return figure


def matrix(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A row per target, a column per source; the sum over synapses with the same pair (or cell)."""
    projection, variable = _asked(plot)
    family = next(p for p in model.projections if p.name == projection)
    sizes = {p.name: p.size for p in model.populations}
    sources = list(dict.fromkeys(m.source for m in family.members))
    targets = list(dict.fromkeys(m.target for m in family.members))
    left = dict(zip(sources, np.cumsum([0, *(sizes[s] for s in sources)]).tolist(), strict=False))
    top = dict(zip(targets, np.cumsum([0, *(sizes[t] for t in targets)]).tolist(), strict=False))
    width, height = sum(sizes[s] for s in sources), sum(sizes[t] for t in targets)
    columns, rows = min(width, MOST_CELLS), min(height, MOST_CELLS)
    image = np.zeros((rows, columns))
    unit = "1"
    with open_records(folder / "synapses.h5") as file:
        for member in family.members:
            group = file[projection][f"{member.source}->{member.target}"]
            unit = group[variable].attrs["unit"]
            if not {"source", "sources"} & group.keys() or not group[variable].shape[0]:
                continue
            source, reached = (group[f"{e}s"][-1] if f"{e}s" in group else group[e][:] for e in ("source", "target"))
            held = (source >= 0) & (reached >= 0)  # -1: a vacant slot
            source, reached = source[held], reached[held]
            x = (source + left[member.source]) * columns // width
            y = (reached + top[member.target]) * rows // height
            np.add.at(image, (y, x), group[variable][-1][held])
    figure = new_figure(5.4, 4.6, plot.look)
    axes = figure.subplots()
    limit = float(np.abs(image).max()) or 1.0
    both = bool((image < 0).any())
    shown = axes.imshow(
        image,
        cmap="RdBu_r" if both else "Greys",
        vmin=-limit if both else 0.0,
        vmax=limit,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, width - 0.5, height - 0.5, -0.5),
    )
    figure.colorbar(shown, ax=axes, label=labelled(variable, unit))
    axes.set(
        title=f"{model.name}: {projection}",
        xlabel="source: " + ", ".join(sources) if len(sources) < 5 else "source",
        ylabel="target: " + ", ".join(targets) if len(targets) < 5 else "target",
    )
    return figure


def evolution(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Some synapses as thin lines, the mean of all as a thick one, the middle 80 % as a band."""
    projection, variable = _asked(plot)
    figure = new_figure(7, 3.4, plot.look)
    axes = figure.subplots()
    unit, scale = "1", 1.0
    with open_records(folder / "synapses.h5") as file:
        for number, (name, group) in enumerate(file[projection].items()):
            if not group[variable].shape[0] or not group[variable].shape[1]:
                continue
            color = COLORS[number % len(COLORS)]
            unit = group[variable].attrs["unit"]
            times = group["time"][:]
            scale = 1000.0 if times[-1] > 5000 else 1.0
            values = values_at(group, variable)
            if not np.all(np.any(~np.isnan(values), axis=1)):
                continue  # a time without a single synapse
            step = max(1, values.shape[1] // MOST_LINES)
            axes.plot(times / scale, values[:, ::step], color=color, linewidth=0.4, alpha=0.5)
            low, high = np.nanquantile(values, (0.1, 0.9), axis=1)
            axes.fill_between(times / scale, low, high, color=color, alpha=0.15, linewidth=0)
            axes.plot(times / scale, np.nanmean(values, axis=1), color=color, linewidth=2, label=f"{name}: mean")
    axes.set(
        title=f"{model.name}: {projection}",
        xlabel=f"time ({'s' if scale > 1 else 'ms'})",
        ylabel=labelled(variable, unit),
    )
    if plot.look.limits is not None:
        axes.set_ylim(*plot.look.limits)
    if plot.look.time is not None:
        axes.set_xlim(plot.look.time[0] / scale, plot.look.time[1] / scale)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
    return figure
