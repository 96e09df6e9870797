"""The picture of the README: `python -m scripts.readme_picture` writes docs/images/results.png, from two runs.

Assumes: matplotlib, a C compiler.
Guarantees: it shows runs of models/microcircuit.yaml and models/lenet_digits.yaml, with the settings below.
Does not: choose or smooth anything.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot as plt

import netloom

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "results.png"
SCALE = 0.1


def main() -> None:
    """Run both models, and draw them beside each other."""
    column = netloom.load(ROOT / "models" / "microcircuit.yaml", set={"scale_n": SCALE, "scale_k": SCALE}).run()
    trained = netloom.load(ROOT / "models" / "lenet_digits.yaml").fit()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), width_ratios=[3, 1.6])
    first = 0
    for k, name in enumerate(column.counts):
        times, members = column.spikes(name)
        size = int(members.max()) + 1
        shown = times < 300
        left.plot(
            times[shown], first + members[shown], ".", markersize=0.9, color="#204a87" if k % 2 == 0 else "#cc0000"
        )
        left.text(303, first + size / 2, name, fontsize=7, va="center")
        first += size
    left.set(xlabel="time (ms)", ylabel="neuron", xlim=(0, 300), ylim=(first, 0))
    left.set_title(f"microcircuit.yaml, {SCALE:g} of its size", fontsize=8, family="monospace", loc="left")
    history = trained.history()
    epochs = np.arange(1, len(history) + 1)
    for key, color in (("accuracy", "#204a87"), ("validation_accuracy", "#cc0000")):
        right.plot(epochs, [row[key] for row in history], color=color, label=key.replace("_", " "))
    right.legend(frameon=False, fontsize=8)
    right.set(xlabel="epoch")
    right.set_title("lenet_digits.yaml", fontsize=8, family="monospace", loc="left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
