"""Plots of a run, as image files: what the model asks for, and what a caller does.

Assumes: the files of records in the run's folder, as the runner writes them.
Guarantees: without matplotlib the result of `draw_plots` has a warning; no window opens; equal data give equal SVG.
Does not: run anything.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import compiler.ir.level0.model as l0
from compiler.runtime.common.rates import Window
from compiler.runtime.plots.activity import correlogram, isi, psth, raster, rate, spectrum
from compiler.runtime.plots.confusion import confusion
from compiler.runtime.plots.connectivity import connectivity
from compiler.runtime.plots.style import drawing, save_figure
from compiler.runtime.plots.synapses import evolution, histogram, matrix
from compiler.runtime.plots.traces import trace
from compiler.runtime.plots.training import training

MISSING: Final = "no plots were made: matplotlib is not installed (pip install 'netloom[plot]')"
IMAGES: Final = ("png", "svg", "pdf")
USUAL: Final = ("png", "svg")


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
    images: tuple[str, ...] = (),
    out: Path | None = None,
    style: str | None = None,
) -> Plotted:
    """Draw what the model asks for into `folder/plots`, or `out`. `window`: the steps of a simulation whose records are
    there (None: all of them); `only`: kinds of plots; `images`: of IMAGES, and `style`: in place of those that the
    model names. Raises RunError (E0912, E0930)."""
    plots = wanted_plots(model)
    if not plots:
        return Plotted(())
    if importlib.util.find_spec("matplotlib") is None:
        return Plotted((), MISSING)
    files: list[str] = []
    for number, plot in enumerate(plots):
        if only and plot.kind not in only:
            continue
        look = plot.look if style is None else replace(plot.look, style=style)
        with drawing(look.style):
            figure = figure_of(folder, model, replace(plot, look=look), window)
            if figure is None:
                continue
            same = [p for p in plots[:number] if p.kind == plot.kind]
            name = plot.kind if not same else f"{plot.kind}_{len(same) + 1}"
            for suffix in images or look.images or USUAL:
                file = f"plots/{name}.{suffix}"
                save_figure(figure, folder / file if out is None else out / f"{name}.{suffix}")
                files.append(file)
    return Plotted(tuple(files))


def figure_of(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A figure of matplotlib, within `drawing`; None where nothing was recorded."""
    figure = _KINDS[plot.kind](folder, model, plot, window)
    if figure is not None and plot.look.title is not None:
        figure.axes[0].set_title(plot.look.title)
    return figure


_KINDS: Final[Mapping[str, Callable[[Path, l0.Model, l0.Plot, Window | None], Any]]] = {
    "raster": raster,
    "trace": trace,
    "rate": rate,
    "isi": isi,
    "spectrum": spectrum,
    "correlogram": correlogram,
    "psth": psth,
    "connectivity": connectivity,
    "histogram": histogram,
    "matrix": matrix,
    "evolution": evolution,
    "training": training,
    "confusion": confusion,
}
KINDS: Final = tuple(_KINDS)


def drawn(folder: Path) -> tuple[str, ...]:
    """The plots that are in a run's folder."""
    return tuple(sorted(str(p.relative_to(folder)) for p in (folder / "plots").glob("[!.]*")))
