"""The gallery: a page per model of models/, with a figure of a run of it, its diagram and its text.

Assumes: docs/models.md lists every model with what it shows and a command.
Guarantees: every model has a page; a figure is that of a run with the settings in RUNS, which the page names.
Does not: run the single layers of convnet-benchmarks, which are there to be measured.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import pyplot as plt

import netloom
from compiler.frontend.load import load_model
from compiler.report.diagram import diagram
from scripts.site import figures
from scripts.site.library import ROOT, card

RUNS: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "cuba": ("raster", {}),
    "brunel": ("raster", {"set": {"g": 5, "eta": 2}, "duration": "300 ms"}),
    "microcircuit": ("spikes", {"set": {"scale_n": 0.05, "scale_k": 0.05}}),
    "multi_area_structure": ("spikes", {}),
    "ring_10k": ("spikes", {"set": {"n": 30}}),
    "stdp": ("histogram", {}),
    "pooled_inhibition": ("raster", {}),
    "izhikevich_patterns": ("trace", {}),
    "distal_reward": ("evolution", {"duration": "100 s"}),
    "polychronization": ("raster", {"duration": "1 s"}),
    "population_bursts": ("raster", {"duration": "6 s"}),
    "synfire": ("raster", {}),
    "spiking_conv": ("maps", {}),
    "reservoir": ("training", {}),
    "resnet20": ("training", {}),
    "vgg": ("training", {}),
    "lenet5": ("training", {}),
    "lenet_digits": ("training", {}),
    "mlp": ("training", {}),
    "autoencoder": ("training", {}),
    "lstm": ("training", {}),
    "transformer": ("training", {}),
    "custom_optimizer": ("training", {}),
}
"""The figure of each model, one of its plots or drawn here (`spikes`, `maps`), and with which options it is run."""

ROW: Final = re.compile(r"^\| `(\w+)\.yaml` \| (.+) \| `(netloom .+)` \|$", re.MULTILINE)
STYLE: Final = (
    "<style>.box{fill:#f4f6f9;stroke:#5b6675}"
    "text{font:12px sans-serif;fill:#222}.small{font-size:10px;fill:#555}</style>"
)


def names() -> list[str]:
    """The models, in the order of docs/models.md."""
    return [found[0] for found in ROW.findall((ROOT / "docs" / "models.md").read_text("utf-8"))]


def pages() -> dict[str, str]:
    """By path: the page of each model, and the gallery."""
    text = (ROOT / "docs" / "models.md").read_text("utf-8")
    made: dict[str, str] = {}
    parts = [
        "# Gallery\n\nThe models of `models/`, with a figure of a run of each. [Models](../models.md) says what "
        "each is for, and gives a command."
    ]
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        cards = []
        for name, shows, command in ROW.findall(section):
            made[f"gallery/{name}.md"] = _page(name, shows, command)
            cards.append(
                card(f"../generated/{name}/{_picture(name)}", name, f"{name}.md", shows.removesuffix(": see below"))
            )
        if cards:
            inner = "\n\n".join(cards)
            parts.append(f"## {section.splitlines()[0]}\n\n:::{{container}} gallery\n{inner}\n:::")
    listed = "\n".join(names())
    parts.append(f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n")
    made["gallery/index.md"] = "\n\n".join(parts)
    return made


def _picture(name: str) -> str:
    return f"{RUNS[name][0]}.svg" if name in RUNS else "diagram.svg"


def _page(name: str, shows: str, command: str) -> str:
    text = (ROOT / "models" / f"{name}.yaml").read_text("utf-8")
    found = re.search(r"^description:\s*(?:>\n((?:  .*\n)+)|(.+)\n)", text, re.MULTILINE)
    description = " ".join((found[1] or found[2]).split()) if found else shows
    parts = [f"# {name}", description, f"```sh\n{command}\n```"]
    if name in RUNS:
        parts += [f"![{name}](../generated/{name}/{_picture(name)})", f"*{_made_by(name)}*"]
    parts.append(f"![The model as a diagram](../generated/{name}/diagram.svg)")
    parts.append(f"`models/{name}.yaml`:\n\n```yaml\n{text}```")
    return "\n\n".join(parts) + "\n"


def _made_by(name: str) -> str:
    options = RUNS[name][1]
    given = "".join(f" --set {k}={v}" for k, v in options.get("set", {}).items())
    if "duration" in options:
        given += f' --duration "{options["duration"]}"'
    return f"A run by `netloom run models/{name}.yaml{given}`."


def draw(name: str, folder: Path) -> None:
    """The figure and the diagram of a model."""
    path = ROOT / "models" / f"{name}.yaml"
    shown = diagram(load_model(path))
    if not shown.startswith("<svg"):  # too large to be drawn: how large it is
        said = re.sub(r"<.*?>", "", shown)
        shown = f'<svg viewBox="0 0 640 60"><text x="8" y="34">{said}</text></svg>'
    shown = shown.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" width="640" ', 1)
    (folder / "diagram.svg").write_text(shown.replace(">", f">{STYLE}", 1), encoding="utf-8")
    if name not in RUNS:
        return
    kind, options = RUNS[name]
    with tempfile.TemporaryDirectory() as temporary:
        plain = kind in ("spikes", "maps")
        settings = dict(options)
        model = netloom.load(path, set=settings.pop("set", {}))
        result = model.run(out=f"{temporary}/run", plots=not plain, **settings)
        if kind == "spikes":
            _spikes(result, folder)
        elif kind == "maps":
            _maps(result, folder)
        else:
            shutil.copyfile(result.folder / "plots" / f"{kind}.svg", folder / f"{kind}.svg")


def _spikes(result: netloom.RunResult, folder: Path) -> None:
    """All spikes that were recorded, population above population."""
    figure, axes = plt.subplots(figsize=(6.4, 3.4))
    first, every = 0, max(1, sum(result.counts.values()) // 8000)
    for k, name in enumerate(result.counts):
        times, members = result.spikes(name)
        size = int(members.max()) + 1 if len(members) else 1
        axes.plot(times[::every], first + members[::every], ".", markersize=1.2, color=f"C{k % 4}", rasterized=True)
        first += size
    axes.set(xlabel="time (ms)", ylabel="neuron")
    if every > 1:
        axes.set_title(f"one spike in {every} is shown", fontsize=8, loc="right")
    figures.save(figure, folder, "spikes")


def _maps(result: netloom.RunResult, folder: Path) -> None:
    """How often each neuron of the convolution fires."""
    _, members = result.spikes("edges")
    counts = np.bincount(members, minlength=2 * 62 * 62).reshape(2, 62, 62)
    figure, both = plt.subplots(1, 2, figsize=(6, 3))
    for axes, count, title in zip(both, counts, ("across", "down"), strict=True):
        axes.imshow(count, cmap="gray_r")
        axes.set(title=f"spikes for edges {title}", xticks=[], yticks=[])
    figures.save(figure, folder, "maps")
