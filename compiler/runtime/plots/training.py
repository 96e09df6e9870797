"""The curves of a training.

Assumes: metrics.jsonl in the run's folder, as the runner writes it.
Guarantees: a figure without a point is None.
Does not: save figures (plots.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.runtime.common.metrics import read_metrics
from compiler.runtime.common.rates import Window
from compiler.runtime.common.watch import best_epoch
from compiler.runtime.plots.style import COLORS, new_figure


def training(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Loss and metrics over epochs, training and validation in one axes each, with the best epoch where one is looked
    for. None before the first epoch."""
    rows, watched = read_metrics(folder), model.train.best if model.train is not None else None
    if not rows:
        return None
    names = [k for k in rows[0] if k not in ("epoch", "seconds") and not k.startswith("validation_")]
    epochs = [r["epoch"] for r in rows]
    figure = new_figure(4.2 * len(names), 3.2, plot.look)
    for at, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for key, label, color in (
            (name, "training", COLORS[0]),
            (f"validation_{name}", "validation", COLORS[1]),
        ):
            if key in rows[0]:
                _curve(at, epochs, [r.get(key, np.nan) for r in rows], label, color)
        if watched is not None and (best := best_epoch(rows, watched)):
            at.axvline(best, label=f"best epoch {best}", color=COLORS[2], linestyle=":", linewidth=1.1)
        at.set(title=name, xlabel="epoch", ylabel=name)
        at.xaxis.get_major_locator().set_params(integer=True)
        if name == "loss":
            at.set_ylim(bottom=0)
        at.legend(fontsize="small")
    return figure


def _curve(at: Any, epochs: Sequence[float], values: Sequence[float], label: str, color: str) -> None:
    marker = "o" if len(epochs) < 40 else None
    at.plot(epochs, values, label=label, color=color, marker=marker, markersize=2.5, linewidth=1.1)
