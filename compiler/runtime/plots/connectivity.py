"""The plot of who is connected to whom.

Assumes: a checked model with populations.
Guarantees: numbers are exact for rules that draw no number of synapses, and the mean for others.
Does not: save figures (plots.py), or read a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.ir.level2.synapse_values import own_name
from compiler.passes.relations.expected_sizes import synapse_counts
from compiler.runtime.common.rates import Window
from compiler.runtime.plots.style import new_figure

MOST_NAMES: Final = 40
MOST_NUMBERS: Final = 14


def connectivity(folder: Path, model: l0.Model, plot: l0.Plot, window: Window | None) -> Any:
    """A row per source, a column per target: synapses that a neuron of the target has from the source."""
    names = [p.name for p in model.populations]
    place = {name: k for k, name in enumerate(names)}
    size = {p.name: p.size for p in model.populations}
    counts = synapse_counts(model)
    image = np.zeros((len(names), len(names)))
    for projection in model.projections:
        for m in projection.members:
            image[place[m.source], place[m.target]] += counts[own_name(projection, m)] / size[m.target]
    side = 2.4 + min(0.34 * len(names), 6)
    figure = new_figure(side + 1, side, plot.look)
    axes = figure.subplots()
    shown = axes.imshow(image, cmap="Blues", vmin=0, aspect="equal", interpolation="nearest")
    figure.colorbar(shown, label="synapses per target neuron", fraction=0.046)
    if len(names) <= MOST_NAMES:
        axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 3 else 0)
        axes.set_yticks(range(len(names)), names)
    if len(names) <= MOST_NUMBERS:
        for i, j in np.argwhere(image > 0):
            color = "white" if image[i, j] > 0.6 * image.max() else "black"
            axes.text(j, i, f"{image[i, j]:.3g}", ha="center", va="center", fontsize="small", color=color)
    axes.set(xlabel="target", ylabel="source", title=f"{model.name}: connections")
    return figure
