"""How a model is run: simulation, recording, plots, expectations, numerics.

Assumes: populations, network and training have been built.
Guarantees: recorded variables exist, plotted and expected ones are recorded; times are integer steps.
Does not: affect the model (nothing here changes the result).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.core.source import Span
from compiler.frontend.build.shared.readers import Reader, choices
from compiler.frontend.build.shared.values import Context, Step, items_of, text_of
from compiler.frontend.build.spiking.measured import build_measured, owners_of
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.records import Recorded, interval_of, need_spikes
from compiler.frontend.build.spiking.select import select_having
from compiler.frontend.language.run import EXPECT, NUMERICS, SIMULATE
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.losses import metric_of

ENDLESS: Final = re.compile(r"\binf(inity)?\b", re.IGNORECASE)
"""In the text of a time: that it has no end, whether it has a unit or not."""
SHORTEST: Final = 1e-12
"""Time step in ms: with it, no time of a model overflows when it is counted in steps."""


def read_step(block: tree.Mapping | None, c: Context) -> Step | None:
    """The time step; None when it is absent or has an error."""
    r = Reader(SIMULATE, block, c)
    node, dt = r.get("dt"), r.real("dt")
    if node is None or dt is None:
        return None
    if dt < SHORTEST:
        c.sink.error("E0106", f"`dt` must be at least {SHORTEST:g} ms; it is {dt:g} ms", node.span)
        return None
    step = Step(dt, node.span)
    return replace(step, warmup=_count("warmup", r, step) or 0)


def read_trial(block: tree.Mapping | None, step: Step | None, c: Context) -> int | None:
    """The steps of `duration`, which are those of a trial where each sample of a training is one. Errors are reported
    by build_simulate."""
    if block is None or step is None:
        return None
    return _count("duration", Reader(SIMULATE, block, replace(c, sink=Sink())), step)


def _count(key: str, r: Reader, step: Step | None) -> int | None:
    """The number of steps of `duration` or `warmup`; None after an error, or without a time step."""
    node = r.get(key)
    if key == "duration" and isinstance(node, Scalar) and ENDLESS.search(node.text):
        help = "give the longest time that a run may take, such as `100000 s`; `stop` ends it before"
        r.c.sink.error("E0106", f"`{key}` must be finite", node.span, help)
        return None
    count = r.steps(key, step, high=l0.MOST_STEPS)
    return count or 0 if r.get(key) is None else count


def build_simulate(
    block: tree.Mapping,
    populations: Populations,
    projections: tuple[l0.Projection, ...],
    named: tuple[str, ...],
    c: Context,
) -> l0.Simulate | None:
    """`simulate`; None after an error. `named`: the names of all projections, including those with an error."""
    r, step = Reader(SIMULATE, block, c), populations.step
    seed, duration = r.integer("seed"), _count("duration", r, step)
    warmup = _count("warmup", r, None) if step is None else step.warmup
    copies = r.integer("instances")
    freeze = _frozen(block.get("freeze"), projections, named, c)
    checkpoints = _checkpoints(r.block("checkpoint"), step)
    stop = _stop(r.block("stop"), populations, projections, named)
    if step is None or seed is None or duration is None or warmup is None or copies is None:
        return None
    if warmup + duration > l0.MOST_STEPS:
        message = f"`warmup` and `duration` have {warmup + duration:,} steps; at most {l0.MOST_STEPS:,} are possible"
        c.sink.error("E0106", message, block.span)
        return None
    return l0.Simulate(step.dt, duration, warmup, seed, freeze, copies, checkpoints, stop, block.span)


def _stop(
    r: Reader, populations: Populations, projections: tuple[l0.Projection, ...], named: tuple[str, ...]
) -> l0.StopWhen | None:
    """The criterion of `stop`; None without it, and after an error."""
    node, times = r.get("when"), r.integer("times")
    if r.node is None or node is None or times is None:
        return None
    interval = interval_of(r, populations, 0)
    when = build_measured(node, "`when`", owners_of(populations, projections, named), r.c, condition=True)
    return None if interval is None or when is None else l0.StopWhen(when, *interval, times, r.span)


def _checkpoints(r: Reader, step: Step | None) -> l0.Checkpoints | None:
    """The settings of `checkpoint`; None without it, and after an error."""
    count, wall, keep = r.steps("every", step), r.real("every_wall"), r.integer("keep")
    if r.node is None or keep is None:
        return None
    return l0.Checkpoints(count or 0, (wall or 0.0) / 1000, keep)


def _frozen(
    node: Node | None, projections: tuple[l0.Projection, ...], named: tuple[str, ...], c: Context
) -> tuple[str, ...]:
    """The projections selected by `freeze`."""
    if node is None:
        return ()
    if isinstance(node, Scalar):
        return tuple(p.name for p in projections if p.synapse is not None)
    out: list[str] = []
    for item in items_of(node):
        name = text_of(item)
        found = next((p for p in projections if p.name == name), None)
        if found is not None and found.synapse is None:
            message = f"the synapses of `{name}` have no state, so that nothing of them can be frozen"
            c.sink.error("E0802", message, item.span)
        elif found is None and name not in named:
            help = suggested(name, "they are", named)
            c.sink.error("E0201", f"there is no projection `{name}`", item.span, help)
        elif name not in out:
            out.append(name)
    return tuple(out)


def build_numerics(block: tree.Mapping | None, layers: bool, c: Context) -> l0.Numerics:
    """`numerics`, with its defaults. `layers`: whether the model has any."""
    r = Reader(NUMERICS, block, c)
    made = l0.Numerics(r.word("precision"), r.word("order"), r.word("products"))
    node = r.get("precision")
    if node is not None and made.precision == "mixed":
        if not layers:
            help = "write `precision: float32`"
            c.sink.error("E0802", "`precision: mixed` is for models with a `network`", node.span, help)
        elif made.order == "bitwise":
            help = "write `order: reproducible`, or `precision: float32`"
            c.sink.error("E0802", "`precision: mixed` has no bitwise order of sums", node.span, help)
    return made


# ---------------------------------------------------------------------------------- expectations


def build_expectations(
    node: Node | None,
    populations: Populations,
    recorded: Recorded,
    train: l0.Train | None,
    has_train: bool,
    c: Context,
) -> tuple[l0.Expectation, ...]:
    """Everything under `expect`, one Expectation per population. Args: of or name, at_least,
    at_most (rates in 1/ms)."""
    out: list[l0.Expectation] = []
    for kind, r, at in choices(EXPECT, node, c):
        if kind == "metric":
            found = _metric(r, at, train, has_train, recorded)
            if found is not None:
                out.append(found)
            continue
        bounds = _bounds(kind, r)
        source = r.get("of")
        names = select_having(source, populations, c, populations.spiking)
        if names is None or source is None or not need_spikes(names, source, recorded, populations):
            continue
        if bounds is not None:
            out.extend(l0.Expectation(kind, (("of", name), *bounds), at) for name in names)
    return tuple(out)


_Bounds = tuple[tuple[str, float | int], ...]


def _bounds(kind: str, r: Reader) -> _Bounds | None:
    """at_least and at_most of an expectation; None after an error."""
    values: dict[str, float | int | None] = {}
    at: Span | None = None
    if kind == "rate":
        between, found_rates = r.get("between"), r.reals("between")
        if found_rates is None or not isinstance(between, Sequence):
            return None
        at = between.items[1].span
        values["at_least"], values["at_most"] = found_rates
    else:
        for key in ("count", "at_least", "at_most"):
            node = r.get(key) if key in r else None
            if node is None:
                continue
            at = node.span
            value = r.integer(key) if kind == "spikes" else r.real(key)
            if key == "count":
                values["at_least"] = values["at_most"] = value
            else:
                values[key] = value
    if None in values.values():
        return None
    found = {k: v for k, v in values.items() if v is not None}
    if "at_least" in found and "at_most" in found and found["at_least"] > found["at_most"]:
        r.c.sink.error("E0106", "the upper bound is below the lower one: nothing can fulfil it", at)
        return None
    return tuple((k, found[k]) for k in ("at_least", "at_most") if k in found)


def _metric(r: Reader, at: Span, train: l0.Train | None, has_train: bool, recorded: Recorded) -> l0.Expectation | None:
    c, name, bounds = r.c, r.get("name"), _bounds("metric", r)
    if not isinstance(name, Scalar) or bounds is None:
        return None
    columns = [f"{t.name}.{column}" for t in recorded.tables for column, _ in t.columns]
    if name.text in columns:
        return l0.Expectation("metric", (("name", name.text), *bounds), at)
    if not has_train:
        if columns or "table" in recorded.refused:
            if "table" not in recorded.refused:
                near = suggested(name.text, "there are", columns)
                c.sink.error("E0213", f"no table has the column `{name.text}`", name.span, near)
            return None
        c.sink.error("E0103", "a metric needs a `train` block, or a recorded table", at)
        return None
    if train is None:
        return None
    known = ["loss", *(m for m in train.metrics if metric_of(m).value is not None)]
    if train.data.kept.folds or train.data.kept.fraction > 0:
        known += [f"validation_{k}" for k in known]
    if name.text not in known:
        help = suggested(name.text, "measured are", known)
        if name.text.removeprefix("validation_") in known:
            help = "keep samples for it: `data: {split: {validation: 0.2}}`"
        c.sink.error("E0213", f"there is no metric `{name.text}` in this training", name.span, help)
        return None
    return l0.Expectation("metric", (("name", name.text), *bounds), at)
