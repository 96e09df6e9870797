"""What a training watches: early stopping, a learning rate that follows a metric, the best weights; accumulation and
averages.

Assumes: validated blocks; metrics and optimizer have been built.
Guarantees: what is watched is among the numbers of an epoch; an epoch changes the weights at least once.
Does not: watch (compiler/runtime/common/watch.py does).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.core.diagnostics import did_you_mean
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar
from compiler.frontend.build.shared.values import Context, bounded, mapping, whole
from compiler.frontend.schema.wording import allowed
from compiler.ir.level0.model import OptimizerDef, Plateau, Stop, Watched

_MOST = (1 << 31) - 1
_SMALLER = ("loss", "mean_absolute_error", "mean_squared_error")
"""Metrics of which less is better."""


@dataclass(frozen=True)
class Watching:
    accumulate: int
    average: float
    stop: Stop | None
    plateau: Plateau | None
    best: Watched | None
    use_best: bool


def build_watching(
    block: tree.Mapping, metrics: tuple[str, ...], validation: bool, optimizer: OptimizerDef, batches: int, c: Context
) -> Watching:
    """What `block` (`train`) says of these keys. `batches`: of an epoch, 0 where unknown after an error."""
    checkpoint = mapping(block.get("checkpoint"))
    node = checkpoint.get("best") if checkpoint is not None else None
    best = None if node is None else _watched(node, metrics, validation, c)
    stop = _stop(mapping(block.get("stop")), metrics, validation, c)
    weights = block.get("weights")
    use_best = not (isinstance(weights, Scalar) and weights.text == "last")
    if use_best and best is None and stop is not None:
        best = stop.watched
    if weights is not None and use_best and node is None and block.get("stop") is None:
        help = "write `checkpoint: {best: validation_loss}` or `stop: {...}` beside it"
        c.sink.error("E0103", "nothing says which weights are the best", weights.span, help)
    return Watching(
        _accumulate(block, batches, c),
        _average(block, c),
        stop,
        _plateau(mapping(block.get("plateau")), metrics, validation, optimizer, c),
        best,
        use_best and best is not None,
    )


def _accumulate(block: tree.Mapping, batches: int, c: Context) -> int:
    node = block.get("accumulate")
    found = 1 if node is None else whole(node, c, "`accumulate`", 1, _MOST)
    if node is not None and found is not None and batches and found > batches:
        message = f"`accumulate` is {found}, but an epoch has {batches} batch{'es' if batches > 1 else ''}"
        c.sink.error("E0106", message, node.span, "the weights must change in every epoch")
    return found or 1


def _average(block: tree.Mapping, c: Context) -> float:
    node = block.get("average")
    if node is None:
        return 0.0
    return bounded(node, c, "`average`", DIMENSIONLESS, 0.0, 1.0, above=True, below=True) or 0.0


def _watched(node: tree.Node | None, metrics: tuple[str, ...], validation: bool, c: Context) -> Watched | None:
    """The metric that a node names, with an error where an epoch has no such number."""
    if not isinstance(node, Scalar):
        return None
    plain = ("loss", *metrics)
    known = (*plain, *(f"validation_{m}" for m in plain)) if validation else plain
    name = node.text
    if name in known:
        return Watched(name, name.removeprefix("validation_") not in _SMALLER, node.span)
    help = did_you_mean(name, known) or allowed("an epoch has", known)
    if name.removeprefix("validation_") in plain:
        help = "write `split: {validation: 0.2}` into `data`"
        c.sink.error("E0201", f"`{name}` is not measured: no samples are kept for validation", node.span, help)
    else:
        c.sink.error("E0201", f"there is no metric `{name}` in an epoch", node.span, help)
    return None


def _number(block: tree.Mapping, key: str, default: float, c: Context, high: float | None = None, above: bool = False,
            below: bool = False) -> float | None:  # fmt: skip
    node = block.get(key)
    if node is None:
        return default
    return bounded(node, c, f"`{key}`", DIMENSIONLESS, 0.0, high, above=above, below=below)


def _stop(block: tree.Mapping | None, metrics: tuple[str, ...], validation: bool, c: Context) -> Stop | None:
    if block is None:
        return None
    watched = _watched(block.get("metric"), metrics, validation, c)
    node = block.get("patience")
    patience = None if node is None else whole(node, c, "`patience`", 1, _MOST)
    margin = _number(block, "margin", 0.0, c)
    if watched is None or patience is None or margin is None:
        return None
    return Stop(watched, patience, margin, block.span)


def _plateau(
    block: tree.Mapping | None, metrics: tuple[str, ...], validation: bool, optimizer: OptimizerDef, c: Context
) -> Plateau | None:
    if block is None:
        return None
    watched = _watched(block.get("metric"), metrics, validation, c)
    node = block.get("patience")
    patience = 10 if node is None else whole(node, c, "`patience`", 1, _MOST)
    factor = _number(block, "factor", 0.1, c, 1.0, above=True, below=True)
    lowest = _number(block, "lowest", 0.0, c, 1.0)
    margin = _number(block, "margin", 0.0, c)
    if "learning_rate" not in {n for n, _ in optimizer.params} | {s.target for s in optimizer.update}:
        message = f"`plateau` lowers the `learning_rate`, which the optimizer `{optimizer.name}` does not have"
        c.sink.error("E0201", message, block.span, allowed("it has the parameters", [n for n, _ in optimizer.params]))
        return None
    if watched is None or patience is None or factor is None or lowest is None or margin is None:
        return None
    return Plateau(watched, patience, factor, lowest, margin, block.span)
