"""The goal of a search: a result that the trials have.

Assumes: a validated `sweep`, and the model with the settings that all trials share.
Guarantees: the goal is a metric of an epoch, or a rate, number of spikes or column of a table that
is recorded (E0201); `prune` goes with a
metric of an epoch (E0802).
Does not: search (compiler/sweep/search.py).
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml.tree import Mapping, Scalar
from compiler.losses import metric_of


def check_goal(root: Mapping, model: l0.Model, sink: Sink, validation: bool = False) -> None:
    """`validation`: samples are kept whatever the model says."""
    sweep = root.get("sweep")
    search = sweep.get("search") if isinstance(sweep, Mapping) else None
    goal = search.get("goal") if isinstance(search, Mapping) else None
    if not isinstance(search, Mapping) or not isinstance(goal, Mapping) or not goal.entries:
        return
    named = goal.entries[0].value
    if not isinstance(named, Scalar):
        return
    epochs = _of_epochs(model, validation)
    spikes = dict.fromkeys(name for record in model.spikes for name in record.populations)
    columns = (f"{t.name}.{column}" for t in model.tables for column, _ in t.columns)
    known = (*epochs, *columns, *(f"rate.{n}" for n in spikes), *(f"spikes.{n}" for n in spikes))
    if named.text not in known:
        help = suggested(named.text, "there are", known)
        if named.text.removeprefix("validation_") in epochs:
            help = "write `split: {validation: 0.2}` into `data`"
        if named.text.partition(".")[2] in (p.name for p in model.populations):
            help = f"write `- spikes: {{from: {named.text.partition('.')[2]}}}` under `record`"
        sink.error("E0201", f"a trial has no result `{named.text}`", named.span, help)
    prune = search.entry("prune")
    if prune is not None and isinstance(prune.value, Scalar) and prune.value.value is True and model.train is None:
        message = "`prune` ends a training between two epochs; a simulation has its results at its end"
        sink.error("E0802", message, prune.key.span, "leave it out")


def _of_epochs(model: l0.Model, validation: bool) -> tuple[str, ...]:
    if model.train is None:
        return ()
    plain = ("loss", *(m for m in model.train.metrics if metric_of(m).value is not None))
    kept = validation or model.train.data.kept.count(10**9) > 0
    return (*plain, *(f"validation_{m}" for m in plain)) if kept else plain
