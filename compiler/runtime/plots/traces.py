"""The plot of a variable over time.

Assumes: traces.h5 and spikes.h5 in the run's folder, as the runner writes them.
Guarantees: all neurons have one scale; their spikes are marked where they are recorded.
Does not: save figures (plots.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.runtime.artifacts.records import open_records
from compiler.runtime.common.rates import Window
from compiler.runtime.plots.activity import color_of, label_time, names_of, time_axis
from compiler.runtime.plots.style import labelled, new_figure

MOST_LINES: Final = 12  # neurons of a population that are shown
GAP: Final = 1.18
"""The distance between two neurons, over the range of the values."""


@dataclass(frozen=True)
class _Row:
    """One neuron: times [ms] and values, and the times of its spikes."""

    label: str
    color: str
    times: npt.NDArray[Any]
    values: npt.NDArray[Any]
    spikes: npt.NDArray[Any]


def trace(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A row per neuron, population after population; the values of one neuron alone have an axis, those of several a
    scale bar."""
    args, look = dict(plot.args), plot.look
    names, variable = names_of(plot), str(args["variable"])
    groups = {r.group: r.between for r in model.traces}
    axis = time_axis(model, window, [groups.get(n) for n in names])
    rows, unit = _rows(folder, names, variable, bool(args.get("spikes", 0)), look)
    if not rows:
        return None
    low, high = look.limits or _range(rows)
    figure = new_figure(8, 1.0 + max(0.6 * len(rows), 1.6), look)
    axes = figure.subplots()
    step = (high - low) * GAP
    for number, row in enumerate(rows):
        base = (len(rows) - 1 - number) * step
        axes.plot(row.times / axis[2], np.clip(row.values, low, high) + base, linewidth=0.8, color=row.color)
        if len(row.spikes):
            at = np.full(len(row.spikes), base + low + (high - low) * 1.05)
            axes.plot(row.spikes / axis[2], at, "|", color="#2e3436", markersize=4, markeredgewidth=0.7)
    label_time(axes, look, axis)
    axes.set_title(f"{model.name}: {labelled(variable, unit)}")
    if len(rows) == 1:
        axes.set_ylim(low, high + (high - low) * 0.1)
        axes.set_ylabel(f"{rows[0].label}: {labelled(variable, unit)}")
    else:
        middles = [(len(rows) - 1 - k) * step + (low + high) / 2 for k in range(len(rows))]
        axes.set_yticks(middles, [row.label for row in rows], fontsize="small")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(low - step * 0.05, len(rows) * step + low)
        _scale_bar(axes, low, high, unit)
    return figure


def _rows(folder: Path, names: tuple[str, ...], variable: str, marked: bool, look: l0.Look) -> tuple[list[_Row], str]:
    rows: list[_Row] = []
    unit = "1"
    with open_records(folder / "traces.h5") as file:
        for number, name in enumerate(names):
            group = file[name]
            unit = str(group[variable].attrs["unit"])
            times, values = group["time"][:], group[variable][:, :MOST_LINES]
            members = group["members"][: values.shape[1]].tolist()
            spikes = _spikes_of(folder, name, members) if marked else {}
            shown: Any = slice(None) if look.time is None else (times >= look.time[0]) & (times <= look.time[1])
            for k, member in enumerate(members):
                at = spikes.get(member, np.zeros(0))
                at = at if look.time is None else at[(at >= look.time[0]) & (at <= look.time[1])]
                rows.append(_Row(f"{name} {member}", color_of(number), times[shown], values[shown, k], at))
    return [r for r in rows if len(r.times)], unit


def _spikes_of(folder: Path, name: str, members: list[int]) -> dict[int, npt.NDArray[Any]]:
    """The recorded spike times of some neurons; {} where there are none."""
    if not (folder / "spikes.h5").is_file():
        return {}
    with open_records(folder / "spikes.h5") as file:
        if name not in file["spikes"]:
            return {}
        times, ids = file[f"spikes/{name}/timestamps"][:], file[f"spikes/{name}/node_ids"][:]
    wanted = np.isin(ids, members)
    times, ids = times[wanted], ids[wanted]
    return {m: times[ids == m] for m in members}


def _range(rows: list[_Row]) -> tuple[float, float]:
    finite = [v[np.isfinite(v)] for v in (r.values for r in rows)]
    finite = [v for v in finite if len(v)]
    low = min((float(v.min()) for v in finite), default=0.0)
    high = max((float(v.max()) for v in finite), default=1.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _scale_bar(axes: Any, low: float, high: float, unit: str) -> None:
    """A vertical bar of a round length beside the lowest row."""
    length = 10.0 ** np.floor(np.log10((high - low) / 1.5))
    length = next(length * k for k in (5, 2, 1) if length * k <= (high - low) * 0.9)
    across = axes.get_yaxis_transform()  # x is a fraction of the width, y a value
    axes.plot([1.01, 1.01], [low, low + length], color="#2e3436", linewidth=1.5, transform=across, clip_on=False)
    text = f"{length:g}" + (f" {unit}" if unit not in ("1", "") else "")
    axes.text(1.02, low + length / 2, text, transform=across, va="center", fontsize="small")
