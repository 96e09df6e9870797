"""Training: data, loss, metrics, optimizer.

Assumes: the network has been built (perhaps with mistakes).
Guarantees: arrays of the data file have the shapes and types of the network's inputs; the loss fits
what it compares; the optimizer's statements are typed and have values for all of their parameters.
Does not: read images; labels are read to see that each is a class that the network can predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend import tree
from compiler.frontend.build_loss import build_loss, build_metrics, check_labels
from compiler.frontend.build_network import Built, shown
from compiler.frontend.build_optimizer import build_optimizer
from compiler.frontend.data_files import Header, arrays_of, locate, pick
from compiler.frontend.definitions import Definitions
from compiler.frontend.tree import Node, Scalar, Sequence
from compiler.frontend.values import Context, bounded, items_of, mapping, number, whole
from compiler.frontend.wording import allowed
from compiler.ir.model import Data, OptimizerDef, Penalty, TensorInput, Train, WeightGroup
from compiler.source import Span

_MOST = (1 << 31) - 1


@dataclass
class _File:
    """The data file: which array each input is read from, by header."""

    path: Path
    arrays: dict[str, tuple[str, Header, Span]]


def build_train(block: tree.Mapping, built: Built, c: Context, optimizers: Definitions) -> Train | None:
    """The training of `block`; None after an error."""
    before = len(c.sink.items)
    data, file = _data(mapping(block.get("data")), built, c)
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
    if loss is not None and file is not None:
        check_labels(loss, built, file.path, file.arrays, c)
    if len([i for i in c.sink.items[before:] if i.severity == "error"]) > 0:
        return None
    if data is None or loss is None or optimizer is None or batch is None or epochs is None or seed is None:
        return None
    clip = _clip(mapping(block.get("clip")), c)
    groups = _groups(block.get("groups"), built, optimizer, c)
    penalties = _penalties(block.get("penalty"), built, c)
    if any(i.severity == "error" for i in c.sink.items[before:]):
        return None
    return Train(data, loss, metrics, optimizer, batch, epochs, seed, every, clip, groups, penalties, block.span)


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


# ------------------------------------------------------------------------------------------ data


def _data(block: tree.Mapping | None, built: Built, c: Context) -> tuple[Data | None, _File | None]:
    if block is None:
        return None, None
    file, inputs = block.get("file"), mapping(block.get("inputs"))
    scales = _scales(mapping(block.get("scale")), built, c)
    validation = _split(mapping(block.get("split")), c)
    shuffle = block.get("shuffle")
    if inputs is None or not isinstance(file, Scalar):
        return None, None
    known = _declared(inputs, built, c)
    path = locate(file, c)
    found = None if path is None else arrays_of(path, file, c)
    if path is None or found is None:
        return None, None
    arrays: dict[str, tuple[str, Header, Span]] = {}
    for name, node in known.items():
        header = pick(found, node.text, node.span, file, c)
        if header is not None and _fits(built.inputs[name], built.shapes[name], node, header, c):
            arrays[name] = (node.text, header, node.span)
    _same_length(arrays, c)
    samples = min((h.shape[0] for _, h, _ in arrays.values()), default=0)
    _enough(samples, validation, block, file, c)
    listed = tuple((n, a[0], scales.get(n, 1.0)) for n, a in arrays.items())
    in_order = {n: i for i, n in enumerate(built.inputs)}
    ordered = tuple(sorted(listed, key=lambda item: in_order[item[0]]))
    shuffled = not (isinstance(shuffle, Scalar) and shuffle.value is False)
    return Data(str(path), ordered, validation, shuffled, block.span), _File(path, arrays)


def _declared(inputs: tree.Mapping, built: Built, c: Context) -> dict[str, Scalar]:
    """The array that each input of the network is read from, with an error for those without."""
    out: dict[str, Scalar] = {}
    for entry in inputs.entries:
        if entry.name not in built.inputs:
            help = did_you_mean(entry.name, built.inputs) or allowed("the inputs are", built.inputs)
            message = f"the network has no input `{entry.name}`"
            c.sink.error("E0201", message, entry.key.span, help)
        elif isinstance(entry.value, Scalar):
            out[entry.name] = entry.value
    for name, declared in built.inputs.items():
        if name not in inputs:
            related = (Related("the input is declared here", declared.span),)
            message = f"`data` does not say which array the input `{name}` is read from"
            c.sink.error("E0103", message, inputs.span, f"write `inputs: {{{name}: ...}}`", related)
    return out


def _scales(block: tree.Mapping | None, built: Built, c: Context) -> dict[str, float]:
    out: dict[str, float] = {}
    for entry in block.entries if block is not None else ():
        declared = built.inputs.get(entry.name)
        if declared is None:
            help = did_you_mean(entry.name, built.inputs) or allowed("the inputs are", built.inputs)
            c.sink.error("E0201", f"the network has no input `{entry.name}`", entry.key.span, help)
            continue
        value = number(entry.value, c, f"the scale of `{entry.name}`", DIMENSIONLESS)
        if declared.dtype != "real":
            message = f"`{entry.name}` holds whole numbers, which are not scaled"
            c.sink.error("E0802", message, entry.key.span)
        elif value is not None:
            out[entry.name] = float(value)
    return out


def _split(block: tree.Mapping | None, c: Context) -> float:
    if block is None:
        return 0.0
    node = block.get("validation")
    if node is None:
        return 0.0
    return bounded(node, c, "`validation`", DIMENSIONLESS, 0.0, 1.0, below=True) or 0.0


def _fits(declared: TensorInput, shape: tuple[int, ...] | None, node: Scalar, header: Header, c: Context) -> bool:
    """Whether an array of the file holds samples of an input."""
    related = (Related("the input is declared here", declared.span),)
    name = declared.name
    if header.kind not in "fiub":
        c.sink.error("E0703", f"`{node.text}` holds {header.dtype}, not numbers", node.span, None, related)
        return False
    if declared.dtype == "int32" and header.kind == "f":
        message = f"`{name}` needs whole numbers, but `{node.text}` holds {header.dtype}"
        c.sink.error("E0703", message, node.span, None, related)
        return False
    if not header.shape:
        c.sink.error("E0703", f"`{node.text}` is a single number; its first axis must count samples", node.span)
        return False
    if shape is not None and header.shape[1:] != shape:
        message = (
            f"`{name}` has samples of shape {shown(shape)}, but those of `{node.text}` have {shown(header.shape[1:])}"
        )
        c.sink.error("E0703", message, node.span, None, related)
        return False
    return True


def _same_length(arrays: dict[str, tuple[str, Header, Span]], c: Context) -> None:
    lengths = [(n, h.shape[0], at) for n, (_, h, at) in arrays.items()]
    for name, length, at in lengths[1:]:
        first, other, _ = lengths[0]
        if length != other:
            message = f"`{first}` has {other:,} samples, but `{name}` has {length:,}"
            c.sink.error("E0703", message, at)
            return


def _enough(samples: int, validation: float, block: tree.Mapping, file: Scalar, c: Context) -> None:
    if samples == 0:
        return
    kept = round(samples * validation)
    if validation > 0 and (kept == 0 or kept == samples):
        what = "no sample is left for training" if kept else "it is less than one sample"
        node = mapping(block.get("split"))
        at = node.span if node is not None else file.span
        c.sink.error("E0106", f"`validation` of {samples:,} samples: {what}", at)
