"""Monitoring of a training: early stopping, learning rate reduction on a plateau, best weights; gradient accumulation
and weight averaging.

Assumes: validated blocks; metrics and optimizer have been built.
Guarantees: monitored metrics are among those of an epoch; an epoch updates the weights at least once. Does not:
monitor (compiler/runtime/common/watch.py does).
"""

from __future__ import annotations

from dataclasses import dataclass

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.frontend.build.shared.readers import Reader
from compiler.frontend.build.shared.values import Context
from compiler.frontend.schema.wording import allowed
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar

_SMALLER = ("loss", "mean_absolute_error", "mean_squared_error")
"""Metrics to minimize."""


@dataclass(frozen=True)
class Watching:
    accumulate: int
    average: float
    stop: l0.Stop | None
    plateau: l0.Plateau | None
    best: l0.Watched | None
    use_best: bool


def build_watching(
    r: Reader, metrics: tuple[str, ...], validation: bool, optimizer: l0.OptimizerDef, batches: int
) -> Watching:
    """The settings of these keys in `train`. `batches`: of an epoch, 0 where unknown after an error."""
    c = r.c
    node = r.block("checkpoint").get("best")
    best = _watched(node, metrics, validation, c)
    stop = _stop(r.block("stop"), metrics, validation)
    weights = r.get("weights")
    use_best = r.word("weights") != "last"
    if use_best and best is None and stop is not None:
        best = stop.watched
    if weights is not None and use_best and node is None and r.get("stop") is None:
        help = "write `checkpoint: {best: validation_loss}` or `stop: {...}` beside it"
        c.sink.error("E0103", "nothing says which weights are the best", weights.span, help)
    return Watching(
        _accumulate(r, batches),
        r.real("average") or 0.0,
        stop,
        _plateau(r.block("plateau"), metrics, validation, optimizer),
        best,
        use_best and best is not None,
    )


def _accumulate(r: Reader, batches: int) -> int:
    node, found = r.get("accumulate"), r.integer("accumulate")
    if node is not None and found is not None and batches and found > batches:
        message = f"`accumulate` is {found}, but an epoch has {batches} batch{'es' if batches > 1 else ''}"
        r.c.sink.error("E0106", message, node.span, "the weights must change in every epoch")
    return found or 1


def _watched(node: tree.Node | None, metrics: tuple[str, ...], validation: bool, c: Context) -> l0.Watched | None:
    """The metric given by a node, with an error where an epoch does not compute it."""
    if not isinstance(node, Scalar):
        return None
    plain = ("loss", *metrics)
    known = (*plain, *(f"validation_{m}" for m in plain)) if validation else plain
    name = node.text
    if name in known:
        return l0.Watched(name, name.removeprefix("validation_") not in _SMALLER, node.span)
    help = did_you_mean(name, known) or allowed("an epoch has", known)
    if name.removeprefix("validation_") in plain:
        help = "write `split: {validation: 0.2}` into `data`"
        c.sink.error("E0201", f"`{name}` is not measured: no samples are kept for validation", node.span, help)
    else:
        c.sink.error("E0201", f"there is no metric `{name}` in an epoch", node.span, help)
    return None


def _stop(r: Reader, metrics: tuple[str, ...], validation: bool) -> l0.Stop | None:
    if r.node is None:
        return None
    watched = _watched(r.get("metric"), metrics, validation, r.c)
    patience, margin = r.integer("patience"), r.real("margin")
    if watched is None or patience is None or margin is None:
        return None
    return l0.Stop(watched, patience, margin, r.span)


def _plateau(r: Reader, metrics: tuple[str, ...], validation: bool, optimizer: l0.OptimizerDef) -> l0.Plateau | None:
    if r.node is None:
        return None
    watched = _watched(r.get("metric"), metrics, validation, r.c)
    patience, margin = r.integer("patience"), r.real("margin")
    factor, lowest = r.real("factor"), r.real("lowest")
    if "learning_rate" not in {n for n, _ in optimizer.params} | {s.target for s in optimizer.update}:
        message = f"`plateau` lowers the `learning_rate`, which the optimizer `{optimizer.name}` does not have"
        r.c.sink.error("E0201", message, r.span, allowed("it has the parameters", [n for n, _ in optimizer.params]))
        return None
    if watched is None or patience is None or factor is None or lowest is None or margin is None:
        return None
    return l0.Plateau(watched, patience, factor, lowest, margin, r.span)
