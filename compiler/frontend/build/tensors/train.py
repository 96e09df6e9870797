"""Training: data, loss, metrics, optimizer.

Assumes: the network has been built (possibly with errors).
Guarantees: arrays of the data file have the shapes and types of the network's inputs; the loss is compatible with
prediction and target; the optimizer's statements are typed and have values for all of their parameters.
Does not: read images; labels are read to check that each is a valid class of the network.
"""

from __future__ import annotations

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.frontend.build.shared.definitions import Definitions
from compiler.frontend.build.shared.readers import Reader, real
from compiler.frontend.build.shared.values import Context, entries_of, items_of, mapping
from compiler.frontend.build.tensors.data import build_data, kept_of
from compiler.frontend.build.tensors.loss import build_loss, build_metrics, check_labels
from compiler.frontend.build.tensors.network import Built
from compiler.frontend.build.tensors.optimizer import build_optimizer
from compiler.frontend.build.watch import build_watching
from compiler.frontend.language.training.training import TRAIN
from compiler.frontend.schema.wording import allowed
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
    optimizer = build_optimizer(mapping(block.get("optimizer")), c, optimizers)
    batch, epochs, seed = r.integer("batch"), r.integer("epochs"), r.integer("seed")
    checkpoint = r.block("checkpoint")
    every = 0 if checkpoint.node is None else checkpoint.integer("every")
    if loss is not None and data is not None:
        check_labels(loss, built, data, arrays, c)
    if len([i for i in c.sink.items[before:] if i.severity == "error"]) > 0:
        return None
    if data is None or loss is None or optimizer is None:
        return None
    assert batch is not None and epochs is not None and seed is not None and every is not None
    clip = _clip(r.block("clip"))
    groups = _groups(r, built, optimizer)
    penalties = _penalties(r, built)
    samples = min((h.shape[0] for _, h, _ in arrays.values()), default=0)
    kept = kept_of(data, samples)
    numbers = tuple(m for m in metrics if metric_of(m).value is not None)
    watching = build_watching(r, numbers, kept > 0, optimizer, -(-(samples - kept) // batch))
    if any(i.severity == "error" for i in c.sink.items[before:]):
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


def _groups(r: Reader, built: Built, optimizer: l0.OptimizerDef) -> tuple[l0.WeightGroup, ...]:
    """Groups of trained arrays, and an error where all of them are frozen."""
    c = r.c
    out: list[l0.WeightGroup] = []
    params = dict(optimizer.params)
    scheduled = {s.target for s in optimizer.update} - params.keys()
    for group in r.blocks("groups"):
        names = _weights(group.get("of"), built, c)
        values: list[tuple[str, float]] = []
        for entry in entries_of(group.get("set")):
            if entry.name not in params:
                message = f"optimizer `{optimizer.name}` has no parameter `{entry.name}`"
                help = did_you_mean(entry.name, params) or allowed("it has the parameters", params)
                if entry.name in scheduled:
                    message = f"`{entry.name}` follows a schedule, which is the same for all weights"
                    help = "give `optimizer` a number, or put the schedule into the optimizer's `update`"
                c.sink.error("E0201", message, entry.key.span, help)
                continue
            value = real(group.kind.by_name["set"].kind, entry.value, c, f"`{entry.name}`")
            if value is not None:
                values.append((entry.name, value))
        out.append(l0.WeightGroup(tuple(names), tuple(values), group.flag("frozen"), group.span))
    for made in out:
        if made.frozen and "all" in made.of:
            c.sink.error("E0103", "there is nothing to train: all weights are frozen", made.span)
    return tuple(out)
