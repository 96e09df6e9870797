"""The plot of a confusion matrix.

Assumes: confusion.jsonl as compiler/runtime/training/run_training.py writes it: a line for each epoch, with the
matrices of `training` and, where samples are kept, `validation`.
Guarantees: the last epoch's, of the validation samples if there are any; colours are fractions of a row.
Does not: save figures (compiler/runtime/plots/plots.py).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.files.image_folders import LABELS, listing
from compiler.runtime.common.rates import Window
from compiler.runtime.plots.style import new_figure

CONFUSION: Final = "confusion.jsonl"
MOST_NUMBERS: Final = 20  # up to so many classes the numbers are shown


def confusion(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """Rows: the class; columns: the predicted class. None before the first epoch."""
    path = folder / CONFUSION
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    if not lines:
        return None
    last = json.loads(lines[-1])
    part = "validation" if last.get("validation") is not None else "training"
    counts = np.array(last[part], float)
    classes = len(counts)
    size = 2.4 + min(0.32 * classes, 5)
    figure = new_figure(size + 0.8, size, plot.look)
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    shown = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(shown, label="share of the class", fraction=0.046)
    if classes <= MOST_NUMBERS:
        for k, j in np.argwhere(counts > 0):
            axes.text(j, k, f"{counts[k, j]:g}", ha="center", va="center", fontsize="x-small",
                      color="white" if shares[k, j] > 0.5 else "black")  # fmt: skip
        names = class_names(model, classes)
        axes.set_xticks(range(classes), names, rotation=0 if len("".join(names)) <= 2 * classes else 90)
        axes.set_yticks(range(classes), names)
    axes.set(xlabel="taken for", ylabel="class", title=f"{model.name}: epoch {last['epoch']}, {part}")
    return figure


def class_names(model: l0.Model, classes: int) -> list[str]:
    """The names of sub-folders, where the samples are a folder of images; else numbers."""
    train = model.train
    if train is not None and train.data.path and Path(train.data.path).is_dir():
        arrays = {name: array for name, array, _ in train.data.arrays}
        if arrays.get(train.loss.target) == LABELS:
            names = list(listing(Path(train.data.path)).classes)
            return (names + [str(k) for k in range(len(names), classes)])[:classes]
    return [str(k) for k in range(classes)]
