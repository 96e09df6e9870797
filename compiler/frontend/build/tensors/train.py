"""Training: data, loss, metrics, optimizer.

Assumes: the network has been built (perhaps with mistakes).
Guarantees: arrays of the data file have the shapes and types of the network's inputs; the loss fits
what it compares; the optimizer's statements are typed and have values for all of their parameters.
Does not: read images; labels are read to see that each is a class that the network can predict.
"""

from __future__ import annotations

from compiler.core.diagnostics import did_you_mean
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend.yaml import tree
from compiler.frontend.build.tensors.data import build_data, kept_of
from compiler.frontend.build.tensors.loss import CONFUSION, build_loss, build_metrics, check_labels
from compiler.frontend.build.tensors.network import Built
from compiler.frontend.build.tensors.optimizer import build_optimizer
from compiler.frontend.build.watch import build_watching
from compiler.frontend.build.shared.definitions import Definitions
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.frontend.build.shared.values import Context, bounded, items_of, mapping, number, whole
from compiler.frontend.schema.wording import allowed
from compiler.ir.level0.model import OptimizerDef, Penalty, Train, WeightGroup

_MOST = (1 << 31) - 1


def build_train(block: tree.Mapping, built: Built, c: Context, optimizers: Definitions) -> Train | None:
    """The training of `block`; None after an error."""
    before = len(c.sink.items)
    data, arrays = build_data(mapping(block.get("data")), built, c)
    loss = build_loss(mapping(block.get("loss")), built, c)
    metrics = build_metrics(block.get("metrics"), loss, built, c)
    optimizer = build_optimizer(mapping(block.get("optimizer")), c, optimizers)
    batch = _whole(block, "batch", 32, 1, c)
    epochs = _whole(block, "epochs", None, 1, c)
    seed = _whole(block, "seed", 0, 0, c)
    every = 0
    checkpoint = mapping(block.get("checkpoint"))
    if checkpoint is not None:
        every = _whole(checkpoint, "every", 1, 1, c) or 0
    if loss is not None and data is not None:
        check_labels(loss, built, data, arrays, c)
    if len([i for i in c.sink.items[before:] if i.severity == "error"]) > 0:
        return None
    if data is None or loss is None or optimizer is None or batch is None or epochs is None or seed is None:
        return None
    clip = _clip(mapping(block.get("clip")), c)
    groups = _groups(block.get("groups"), built, optimizer, c)
    penalties = _penalties(block.get("penalty"), built, c)
    samples = min((h.shape[0] for _, h, _ in arrays.values()), default=0)
    kept = kept_of(data, samples)
    numbers = tuple(m for m in metrics if m != CONFUSION)
    watching = build_watching(block, numbers, kept > 0, optimizer, -(-(samples - kept) // batch), c)
    if any(i.severity == "error" for i in c.sink.items[before:]):
        return None
    return Train(
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


def _clip(block: tree.Mapping | None, c: Context) -> tuple[str, float] | None:
    if block is None or not block.entries:
        return None
    entry = block.entries[0]
    limit = bounded(entry.value, c, f"`{entry.name}`", DIMENSIONLESS, 0.0, None, above=True)
    return None if limit is None else (entry.name, limit)


_CLASSES = ("weights", "biases", "norms", "all")


def _weights(node: Node | None, built: Built, c: Context) -> list[str]:
    """Layers and classes of weights, with an error for those that do not exist."""
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


def _penalties(node: Node | None, built: Built, c: Context) -> tuple[Penalty, ...]:
    out: list[Penalty] = []
    for item in items_of(node):
        block = mapping(item)
        if block is None:
            continue
        values = []
        for key in ("l1", "l2"):
            value = block.get(key)
            found = 0.0 if value is None else bounded(value, c, f"`{key}`", DIMENSIONLESS, 0.0)
            values.append(found or 0.0)
        names = _weights(block.get("of"), built, c) or ["weights"]
        out.append(Penalty(values[0], values[1], tuple(names), block.span))
    return tuple(out)


def _groups(node: Node | None, built: Built, optimizer: OptimizerDef, c: Context) -> tuple[WeightGroup, ...]:
    """Groups of trained arrays, and an error where all of them are frozen."""
    out: list[WeightGroup] = []
    params = dict(optimizer.params)
    scheduled = {s.target for s in optimizer.update} - params.keys()
    for item in node.items if isinstance(node, Sequence) else ():
        block = mapping(item)
        if block is None:
            continue
        names = _weights(block.get("of"), built, c)
        values: list[tuple[str, float]] = []
        settings = mapping(block.get("set"))
        for entry in settings.entries if settings is not None else ():
            if entry.name not in params:
                message = f"optimizer `{optimizer.name}` has no parameter `{entry.name}`"
                help = did_you_mean(entry.name, params) or allowed("it has the parameters", params)
                if entry.name in scheduled:
                    message = f"`{entry.name}` follows a schedule, which is the same for all weights"
                    help = "give `optimizer` a number, or put the schedule into the optimizer's `update`"
                c.sink.error("E0201", message, entry.key.span, help)
                continue
            value = number(entry.value, c, f"`{entry.name}`", DIMENSIONLESS)
            if value is not None:
                values.append((entry.name, float(value)))
        frozen = block.get("frozen")
        is_frozen = isinstance(frozen, Scalar) and frozen.value is True
        out.append(WeightGroup(tuple(names), tuple(values), is_frozen, block.span))
    for group in out:
        if group.frozen and "all" in group.of:
            c.sink.error("E0103", "there is nothing to train: all weights are frozen", group.span)
    return tuple(out)


def _whole(block: tree.Mapping, key: str, default: int | None, low: int, c: Context) -> int | None:
    node = block.get(key)
    return default if node is None else whole(node, c, f"`{key}`", low, _MOST)
