"""Plots: from resolved blocks of `plots` to plot specifications.

Assumes: the records have been built.
Guarantees: the data of every plot is recorded.
Does not: draw (runtime/plots/plots.py).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.frontend.build.shared.readers import Reader, choices
from compiler.frontend.build.shared.values import Context
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.records import Recorded, need_spikes, need_trace
from compiler.frontend.build.spiking.select import select
from compiler.frontend.language.recording import PLOTS
from compiler.frontend.yaml.tree import Node, Scalar


def build_plots(
    node: Node | None, populations: Populations, recorded: Recorded, train: bool, c: Context
) -> tuple[l0.Plot, ...]:
    """Everything under `plots`. Args: raster: from; trace: from, variable; training: none."""
    drawn = [_plot(kind, r, at, populations, recorded, train) for kind, r, at in choices(PLOTS, node, c)]
    return tuple(p for p in drawn if p is not None)


def _plot(kind: str, r: Reader, at: Span, populations: Populations, recorded: Recorded, train: bool) -> l0.Plot | None:
    c = r.c
    if kind == "training":
        if not train:
            c.sink.error("E0103", "the plot `training` needs a `train` block", at)
        return l0.Plot(kind, (), at) if train else None
    if kind in ("histogram", "matrix", "evolution"):
        return _of_synapses(kind, r, at, recorded)
    source = r.get("from")
    names = None if source is None else select(source, populations, c)
    if source is None or names is None:
        return None
    shown = ("from", names)
    if kind == "rate":
        return l0.Plot(kind, (shown,), at) if _need_rates(names, source, recorded, c) else None
    if kind == "raster":
        return l0.Plot(kind, (shown,), at) if need_spikes(names, source, recorded, c) else None
    variable = r.get("variable")
    if isinstance(variable, Scalar) and need_trace(names, variable, recorded, c):
        return l0.Plot(kind, (shown, ("variable", variable.text)), at)
    return None


def _need_rates(names: tuple[str, ...], node: Node, recorded: Recorded, c: Context) -> bool:
    missing = next((n for n in names if n not in recorded.rated), None)
    if missing is not None and "rate" not in recorded.refused:  # else the mistake was reported there
        help = f"add `- rate: {{from: {missing}, every: 10 ms}}` to `record`"
        c.sink.error("E0213", f"the rate of `{missing}` is not recorded", node.span, help)
    return missing is None


def _of_synapses(kind: str, r: Reader, at: Span, recorded: Recorded) -> l0.Plot | None:
    """A plot of recorded synapses."""
    source, variable = r.get("from"), r.get("variable")
    if not isinstance(source, Scalar) or not isinstance(variable, Scalar):
        return None
    if (source.text, variable.text) not in recorded.weighed:
        if "synapses" in recorded.refused:
            return None  # the error was reported there
        message = f"`{variable.text}` of the synapses of `{source.text}` is not recorded"
        help = f"add `- synapses: {{from: {source.text}, variables: [{variable.text}]}}` to `record`"
        r.c.sink.error("E0213", message, variable.span, help)
        return None
    args: list[tuple[str, str | int]] = [("from", source.text), ("variable", variable.text)]
    if kind == "histogram":
        bins = r.integer("bins")
        if bins is None:
            return None
        args.append(("bins", bins))
    return l0.Plot(kind, tuple(args), at)
