"""Training: data, loss, metrics, optimizer; what is watched in its course, accumulation and averages.

Assumes: the network has been built (possibly with errors).
Guarantees: arrays of the data file have the shapes and types of the network's inputs; the loss is compatible with
prediction and target; the optimizer's statements are typed and have values for all of their parameters. Metrics that
are watched are among those of an epoch; an epoch updates the weights at least once.
Does not: read images; labels are read to check that each is a valid class of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.frontend.build.shared.definitions import Definitions
from compiler.frontend.build.shared.readers import Reader, real
from compiler.frontend.build.shared.values import Context, entries_of, items_of, mapping
from compiler.frontend.build.tensors.data import build_data, kept_of
from compiler.frontend.build.tensors.loss import build_loss, build_metrics, check_labels
from compiler.frontend.build.tensors.network import Built
from compiler.frontend.build.tensors.optimizer import build_optimizer, check_others
from compiler.frontend.language.training.training import TRAIN
from compiler.frontend.schema.wording import allowed, quoted, suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.losses import metric_of


def build_train(block: tree.Mapping, built: Built, c: Context, optimizers: Definitions) -> l0.Train | None:
    """The training of `block`; None after an error."""
    before = len(c.sink.items)
    r = Reader(TRAIN, block, c)
    data, arrays = build_data(r.block("data"), built, block.span)
    loss = build_loss(block.get("loss"), built, c)
    metrics = build_metrics(block.get("metrics"), loss, built, c)
    choices = (mapping(block.get("optimizer")), *(mapping(g.get("optimizer")) for g in r.blocks("groups")))
    optimizer, *others = (build_optimizer(choice, c, optimizers) for choice in choices)
    check_others(c, optimizers, [e.name for choice in choices if choice is not None for e in choice.entries])
    batch, epochs, seed = r.integer("batch"), r.integer("epochs"), r.integer("seed")
    checkpoint = r.block("checkpoint")
    every = 0 if checkpoint.node is None else checkpoint.integer("every")
    if loss is not None and data is not None:
        check_labels(loss, built, data, arrays, c)
    if c.sink.failed(before) or data is None or loss is None or optimizer is None:
        return None
    assert batch is not None and epochs is not None and seed is not None and every is not None
    clip = _clip(r.block("clip"))
    penalties = _penalties(r, built)
    samples = min((h.shape[0] for _, h, _ in arrays.values()), default=0)
    kept = kept_of(data, samples)
    numbers = tuple(m for m in metrics if metric_of(m).value is not None)
    batches = -(-(samples - kept) // batch)
    watching = build_watching(r, numbers, kept > 0, optimizer, batches)
    groups = _groups(r, built, optimizer, others, epochs * batches // watching.accumulate)
    if c.sink.failed(before):
        return None
    return l0.Train(
        data,
        loss,
        metrics,
        optimizer,
        batch,
        epochs,
        seed,
        every,
        clip,
        groups,
        penalties,
        watching.accumulate,
        watching.average,
        watching.stop,
        watching.plateau,
        watching.best,
        watching.use_best,
        block.span,
    )


def _clip(r: Reader) -> tuple[str, float] | None:
    key = next((k for k in r.kind.by_name if r.get(k) is not None), "")
    limit = r.real(key) if key else None
    return None if limit is None else (key, limit)


_CLASSES = ("weights", "biases", "norms", "all")


def _weights(node: Node | None, built: Built, c: Context) -> list[str]:
    """Layers and classes of weights, with an error for unknown ones."""
    layers = [n for n in built.places if n not in built.inputs]
    names: list[str] = []
    for name in items_of(node):
        if not isinstance(name, Scalar):
            continue
        names.append(name.text)
        if name.text in layers or name.text in _CLASSES:
            continue
        help = did_you_mean(name.text, (*layers, *_CLASSES)) or allowed("classes are", _CLASSES)
        c.sink.error("E0201", f"there is no layer or class of weights `{name.text}`", name.span, help)
    return names


def _penalties(r: Reader, built: Built) -> tuple[l0.Penalty, ...]:
    out: list[l0.Penalty] = []
    for p in r.blocks("penalty"):
        sizes, squares = p.real("l1"), p.real("l2")
        names = _weights(p.get("of"), built, r.c) or [p.word("of")]
        out.append(l0.Penalty(sizes or 0.0, squares or 0.0, tuple(names), p.span))
    return tuple(out)


def _groups(
    r: Reader, built: Built, optimizer: l0.OptimizerDef, others: Sequence[l0.OptimizerDef | None], steps: int
) -> tuple[l0.WeightGroup, ...]:
    """Groups of trained arrays, and an error where all of them are frozen. `others`: their optimizers; `steps`: of the
    training, 0 where unknown."""
    c = r.c
    out: list[l0.WeightGroup] = []
    for k, (group, own) in enumerate(zip(r.blocks("groups"), others, strict=True)):
        names = _weights(group.get("of"), built, c)
        before = (optimizer, *(o for o in others[:k] if o is not None))
        values = _different(group, before if own is None else (own,), c)
        turns = _turns(group, steps, r.get("average") is not None)
        out.append(l0.WeightGroup(tuple(names), values, group.flag("frozen"), own, *turns, group.span))
    for made in out:
        if made.frozen and "all" in made.of:
            c.sink.error("E0103", "there is nothing to train: all weights are frozen", made.span)
    return tuple(out)


def _turns(group: Reader, steps: int, averaged: bool) -> tuple[int, int]:
    """`every` and `first` of a group, (0, 0) without. `steps`: as above; `averaged`: weights have moving averages."""
    sink, node, begin = group.c.sink, group.get("every"), group.get("first")
    if node is None:
        return 0, 0
    every = group.integer("every") or 0
    first = every if begin is None else group.integer("first") or 0
    at = node.span if begin is None else begin.span
    if group.flag("frozen"):
        sink.error("E0108", "weights that are frozen change in no step: write `frozen` or `every`", node.span)
    elif every > 1 and averaged:
        message = "`average` beside weights that change in some steps only is not supported yet"
        sink.error("E0802", message, node.span, "leave out `average` or `every`")
    elif first > every > 0:
        sink.error("E0106", f"`first` is {first}, but it is one of the first {every} steps", at, f"at most {every}")
    elif 0 < steps < first:
        message = f"these weights would never change: the training has {steps} steps, the first of theirs is {first}"
        sink.error("E0106", message, at, f"at most {steps}")
    return every, first


def _different(group: Reader, optimizers: Sequence[l0.OptimizerDef], c: Context) -> tuple[tuple[str, float], ...]:
    """What a group sets: parameters of one of the optimizers that its weights may have."""
    values: list[tuple[str, float]] = []
    params = {name: 0 for o in optimizers for name, _ in o.params}
    scheduled = {s.target for o in optimizers for s in o.update} - params.keys()
    names = dict.fromkeys(o.name for o in optimizers)
    for entry in entries_of(group.get("set")):
        if entry.name not in params:
            message = f"optimizer {quoted(names, 'or')} has no parameter `{entry.name}`"
            help = suggested(entry.name, f"{'they have' if len(names) > 1 else 'it has'} the parameters", params)
            if entry.name in scheduled:
                message = f"`{entry.name}` follows a schedule, which is the same for all weights"
                help = (
                    "give `optimizer` a number, put the schedule into the optimizer's `update`, or give the group an "
                    "`optimizer` of its own"
                )
            c.sink.error("E0201", message, entry.key.span, help)
            continue
        value = real(group.kind.by_name["set"].kind, entry.value, c, f"`{entry.name}`")
        if value is not None:
            values.append((entry.name, value))
    return tuple(values)


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
        of = name.removeprefix("validation_")
        return l0.Watched(name, of != "loss" and not metric_of(of).smaller, node.span)
    help = suggested(name, "an epoch has", known)
    if name.startswith("val_") and name[4:] in plain:
        help = f"write `validation_{name[4:]}`"
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
