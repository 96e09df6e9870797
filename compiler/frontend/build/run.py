"""How a model is run: simulation, recording, plots, expectations, numerics.

Assumes: populations, network and training have been built.
Guarantees: what is recorded exists, what is plotted and expected is recorded; times are whole
steps.
Does not: take part in what the model is (nothing here changes the result).
"""

from __future__ import annotations

from dataclasses import replace

from compiler.core.diagnostics import did_you_mean
from compiler.expr.units import DIMENSIONLESS, FREQUENCY, TIME
from compiler.frontend.yaml import tree
from compiler.frontend.build.tensors.loss import CONFUSION
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.build.spiking.records import Recorded, need_spikes
from compiler.frontend.build.spiking.select import select
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.frontend.build.shared.values import (
    Context,
    Step,
    bounded,
    choices,
    items_of,
    mapping,
    number,
    steps,
    text_of,
    whole,
)
from compiler.frontend.schema.wording import allowed
from compiler.ir.level0.model import (
    MOST_STEPS,
    Checkpoints,
    Expectation,
    Numerics,
    Projection,
    Simulate,
    Train,
)
from compiler.core.source import Span

def read_step(block: tree.Mapping | None, c: Context) -> Step | None:
    """The time step; None when there is none or it has a mistake."""
    node = block.get("dt") if block is not None else None
    if node is None:
        return None
    dt = bounded(node, c, "`dt`", TIME, 0.0, None, above=True)
    if dt is None:
        return None
    step = Step(dt, node.span)
    return replace(step, warmup=_count("warmup", block, step, c) or 0)


def _count(key: str, block: tree.Mapping | None, step: Step | None, c: Context) -> int | None:
    """The number of steps of `duration` or `warmup`; None after an error, or without a time step."""
    node = block.get(key) if block is not None else None
    if node is None:
        return 0
    if step is None:
        number(node, c, f"`{key}`", TIME)
        return None
    count = steps(node, c, f"`{key}`", step)
    if count is not None and count > MOST_STEPS:
        c.sink.error("E0106", f"`{key}` has {count:,} steps; at most {MOST_STEPS:,} are possible", node.span)
        return None
    return count


MOST_INSTANCES = 1 << 16


def build_simulate(
    block: tree.Mapping, step: Step | None, projections: tuple[Projection, ...], named: tuple[str, ...], c: Context
) -> Simulate | None:
    """`simulate`; None after an error. `named`: the names of all projections, with those that have a mistake."""
    seed_node = block.get("seed")
    seed = 0 if seed_node is None else whole(seed_node, c, "`seed`", 0, (1 << 63) - 1)
    duration = _count("duration", block, step, c)
    warmup = _count("warmup", block, None, c) if step is None else step.warmup
    copies_node = block.get("instances")
    copies = 1 if copies_node is None else whole(copies_node, c, "`instances`", 1, MOST_INSTANCES)
    freeze = _frozen(block.get("freeze"), projections, named, c)
    checkpoints = _checkpoints(mapping(block.get("checkpoint")), step, c)
    if step is None or seed is None or duration is None or warmup is None or copies is None:
        return None
    if warmup + duration > MOST_STEPS:
        message = f"`warmup` and `duration` have {warmup + duration:,} steps; at most {MOST_STEPS:,} are possible"
        c.sink.error("E0106", message, block.span)
        return None
    return Simulate(step.dt, duration, warmup, seed, freeze, copies, checkpoints, block.span)


def _checkpoints(block: tree.Mapping | None, step: Step | None, c: Context) -> Checkpoints | None:
    """What `checkpoint` asks for; None without it, and after an error."""
    if block is None:
        return None
    every, wall = block.get("every"), block.get("every_wall")
    count: int | None = 0
    if every is not None and step is None:
        number(every, c, "`every`", TIME)
    elif every is not None and step is not None:
        count = steps(every, c, "`every`", step, low=1)
    milliseconds = 0.0 if wall is None else bounded(wall, c, "`every_wall`", TIME, 0.0, None, above=True)
    keep_node = block.get("keep")
    keep = Checkpoints.keep if keep_node is None else whole(keep_node, c, "`keep`", 1)
    if count is None or milliseconds is None or keep is None:
        return None
    return Checkpoints(count, milliseconds / 1000, keep)


def _frozen(
    node: Node | None, projections: tuple[Projection, ...], named: tuple[str, ...], c: Context
) -> tuple[str, ...]:
    """The projections that `freeze` means."""
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
            help = did_you_mean(name, named) or (allowed("they are", named) if named else None)
            c.sink.error("E0201", f"there is no projection `{name}`", item.span, help)
        elif name not in out:
            out.append(name)
    return tuple(out)


def build_numerics(block: tree.Mapping | None) -> Numerics:
    """`numerics`, with its defaults."""
    given = Numerics()
    if block is None:
        return given
    return Numerics(
        text_of(block.get("precision")) or given.precision,
        text_of(block.get("order")) or given.order,
        text_of(block.get("products")) or given.products,
    )


# ---------------------------------------------------------------------------------- expectations


def build_expectations(
    node: Node | None,
    populations: Populations,
    recorded: Recorded,
    train: Train | None,
    has_train: bool,
    c: Context,
) -> tuple[Expectation, ...]:
    """Everything under `expect`, one Expectation per population. Args: of or name, at_least,
    at_most (rates in 1/ms)."""
    out: list[Expectation] = []
    for kind, block, at in choices(node):
        if kind == "metric":
            found = _metric(block, at, train, has_train, c)
            if found is not None:
                out.append(found)
            continue
        bounds = _bounds(kind, block, c)
        source = block.get("of")
        names = select(source, populations, c) if source is not None else None
        if names is None or source is None or not need_spikes(names, source, recorded, c):
            continue
        if bounds is not None:
            out.extend(Expectation(kind, (("of", name), *bounds), at) for name in names)
    return tuple(out)


_Bounds = tuple[tuple[str, float | int], ...]


def _bounds(kind: str, block: tree.Mapping, c: Context) -> _Bounds | None:
    """at_least and at_most of an expectation; None after an error."""
    values: dict[str, float | int | None] = {}
    at: Span | None = None
    if kind == "rate":
        between = block.get("between")
        items = between.items if isinstance(between, Sequence) else ()
        if len(items) != 2:
            return None
        at = items[1].span
        for key, item in zip(("at_least", "at_most"), items, strict=True):
            values[key] = number(item, c, "`between`", FREQUENCY)
    else:
        for key in ("count", "at_least", "at_most"):
            node = block.get(key)
            if node is None:
                continue
            at = node.span
            value: float | int | None
            value = whole(node, c, f"`{key}`") if kind == "spikes" else number(node, c, f"`{key}`", DIMENSIONLESS)
            if key == "count":
                values["at_least"] = values["at_most"] = value
            else:
                values[key] = value
    if None in values.values():
        return None
    found = {k: v for k, v in values.items() if v is not None}
    if "at_least" in found and "at_most" in found and found["at_least"] > found["at_most"]:
        c.sink.error("E0106", "the upper bound is below the lower one: nothing can fulfil it", at)
        return None
    return tuple((k, found[k]) for k in ("at_least", "at_most") if k in found)


def _metric(block: tree.Mapping, at: Span, train: Train | None, has_train: bool, c: Context) -> Expectation | None:
    name, bounds = block.get("name"), _bounds("metric", block, c)
    if not isinstance(name, Scalar) or bounds is None:
        return None
    if not has_train:
        c.sink.error("E0103", "a metric needs a `train` block", at)
        return None
    if train is None:
        return None
    known = ["loss", *(m for m in train.metrics if m != CONFUSION)]
    if train.data.kept.folds or train.data.kept.fraction > 0:
        known += [f"validation_{k}" for k in known]
    if name.text not in known:
        help = did_you_mean(name.text, known)
        if help is None:
            help = allowed("measured are", known)
        if name.text.removeprefix("validation_") in known:
            help = "keep samples for it: `data: {split: {validation: 0.2}}`"
        c.sink.error("E0213", f"there is no metric `{name.text}` in this training", name.span, help)
        return None
    return Expectation("metric", (("name", name.text), *bounds), at)
