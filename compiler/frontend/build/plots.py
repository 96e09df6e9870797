"""Plots: from resolved blocks of `plots` to plot specifications.

Assumes: the records have been built.
Guarantees: the data of every plot is recorded.
Does not: draw (runtime/plots).
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.expr.units import TIME, Dimension, parse_unit
from compiler.frontend.build.shared.readers import Reader, choices
from compiler.frontend.build.shared.values import Context, listed, number
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.records import Recorded, need_spikes, recorded_populations
from compiler.frontend.language.plots import PLOTS
from compiler.frontend.yaml.tree import Node, Scalar, Sequence

Args = tuple[tuple[str, str | int | float | tuple[str, ...]], ...]


def build_plots(
    node: Node | None, populations: Populations, recorded: Recorded, train: bool, c: Context
) -> tuple[l0.Plot, ...]:
    """Everything under `plots`. Args by kind: raster, rate, isi: from; trace: from, variable, spikes; spectrum: from,
    bin; correlogram: from, bin, lag; psth: from, bin, every; histogram, matrix, evolution: from, variable, bins;
    connectivity, training: none."""
    out: list[l0.Plot] = []
    for kind, r, at in choices(PLOTS, node, c):
        found = _args(kind, r, at, populations, recorded, train)
        look = _look(r, _dimension(kind, r, found, populations))
        if found is not None and look is not None:
            out.append(l0.Plot(kind, found, look, at))
    return tuple(out)


def _args(kind: str, r: Reader, at: Span, populations: Populations, recorded: Recorded, train: bool) -> Args | None:
    c = r.c
    if kind == "training":
        if not train:
            c.sink.error("E0103", "the plot `training` needs a `train` block", at)
        return () if train else None
    if kind == "connectivity":
        if not populations.built:
            c.sink.error("E0103", "the plot `connectivity` needs `populations`", at)
        return () if populations.built else None
    if kind in ("histogram", "matrix", "evolution"):
        return _of_synapses(kind, r, recorded)
    source = r.get("from")
    names = None if source is None else recorded_populations(kind, r, source, populations)
    if source is None or names is None:
        return None
    shown = ("from", names)
    if kind == "rate":
        return (shown,) if _need_rates(names, source, recorded, populations) else None
    if kind == "trace":
        variable = r.get("variable")
        if isinstance(variable, Scalar) and _need_trace(names, variable, recorded, c):
            return (shown, ("variable", variable.text), ("spikes", int(r.flag("spikes"))))
        return None
    if not need_spikes(names, source, recorded, populations):
        return None
    times = [(key, r.steps(key, populations.step)) for key in ("bin", "lag", "every") if key in r]
    known = tuple((key, steps) for key, steps in times if steps is not None)
    return (shown, *known) if len(known) == len(times) else None


def _need_rates(names: tuple[str, ...], node: Node, recorded: Recorded, populations: Populations) -> bool:
    missing = next((n for n in names if n not in recorded.rated), None)
    if missing is not None and not populations.silence_told(missing, node.span):
        what = f"the rate of `{missing}` is not recorded"
        recorded.lacks("rate", what, f"rate: {{from: {missing}, every: 10 ms}}", node.span, populations.c)
    return missing is None


def _need_trace(names: tuple[str, ...], variable: Scalar, recorded: Recorded, c: Context) -> bool:
    missing = next((n for n in names if (n, variable.text) not in recorded.variables), None)
    if missing is not None:
        what = f"`{variable.text}` of `{missing}` is not recorded"
        recorded.lacks("trace", what, f"trace: {{from: {missing}, variables: [{variable.text}]}}", variable.span, c)
    return missing is None


def _of_synapses(kind: str, r: Reader, recorded: Recorded) -> Args | None:
    """The args of a plot of recorded synapses."""
    source, variable = r.get("from"), r.get("variable")
    if not isinstance(source, Scalar) or not isinstance(variable, Scalar):
        return None
    if (source.text, variable.text) not in recorded.weighed:
        message = f"`{variable.text}` of the synapses of `{source.text}` is not recorded"
        entry = f"synapses: {{from: {source.text}, variables: [{variable.text}]}}"
        recorded.lacks("synapses", message, entry, variable.span, r.c)
        return None
    shown = (("from", source.text), ("variable", variable.text))
    if kind != "histogram":
        return shown
    bins = r.integer("bins")
    return None if bins is None else (*shown, ("bins", bins))


def _look(r: Reader, dimension: Dimension | None) -> l0.Look | None:
    """How it is drawn; None after an error. `dimension`: of the vertical axis (None: any)."""
    before = len(r.c.sink.items)
    look = l0.Look(r.word("title") or None, None, None, None, r.word("style") or "default", _words(r, "images"))
    look = replace(look, size=_two(r, "size", None))
    if "time" in r:
        look = replace(look, time=_two(r, "time", TIME))
    if "limits" in r:
        look = replace(look, limits=_two(r, "limits", dimension))
    for key, ends in (("time", look.time), ("limits", look.limits)):
        node = r.get(key) if ends is not None else None
        if node is not None and ends is not None and not ends[0] < ends[1]:
            r.c.sink.error("E0106", f"`{key}` must end above where it begins", node.span)
    return look if len(r.c.sink.items) == before else None


def _two(r: Reader, key: str, dimension: Dimension | None) -> tuple[float, float] | None:
    node = r.get(key)
    if not isinstance(node, Sequence):
        return None
    if key == "size":
        found = list(r.reals(key) or ())
    else:
        given = [number(i, r.c, f"`{key}`", dimension) for i in node.items]
        found = [float(v) for v in given if v is not None]
    return (found[0], found[1]) if len(found) == 2 else None


def _words(r: Reader, key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(i.text for i in listed(r.get(key)) if isinstance(i, Scalar)))


def _dimension(kind: str, r: Reader, args: Args | None, populations: Populations) -> Dimension | None:
    """The dimension of the vertical axis of a trace; None where it is not known."""
    if kind != "trace" or args is None:
        return None
    given = dict(args)
    names = given["from"]
    neuron = populations.built[names[0]].neuron if isinstance(names, tuple) and names[0] in populations.built else None
    if neuron is None:
        return None
    found = parse_unit(neuron.units.get(str(given["variable"]), ""))
    return None if found is None else found[0]
