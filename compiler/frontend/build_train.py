"""Training: data, loss, metrics, optimizer.

Assumes: the network has been built (perhaps with mistakes).
Guarantees: arrays of the data file have the shapes and types of the network's inputs; the loss fits
what it compares; the optimizer's statements are typed and have values for all of their parameters.
Does not: read images; labels are read to see that each is a class that the network can predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compiler.diagnostics import Related, did_you_mean
from compiler.expr.units import DIMENSIONLESS
from compiler.frontend import tree
from compiler.frontend.build_network import Built, shown
from compiler.frontend.build_optimizer import build_optimizer
from compiler.frontend.data_files import Header, arrays_of, locate, pick, read_array
from compiler.frontend.definitions import Definitions
from compiler.frontend.tree import Node, Scalar, Sequence
from compiler.frontend.values import Context, bounded, mapping, number, whole
from compiler.frontend.wording import allowed
from compiler.ir.model import Data, Loss, TensorInput, Train
from compiler.source import Span

_MOST = (1 << 31) - 1
_CLASSIFYING = "softmax_cross_entropy"


@dataclass
class _File:
    """The data file: which array each input is read from, by header."""

    path: Path
    arrays: dict[str, tuple[str, Header, Span]]


def build_train(block: tree.Mapping, built: Built, c: Context, optimizers: Definitions) -> Train | None:
    """The training of `block`; None after an error."""
    before = len(c.sink.items)
    data, file = _data(mapping(block.get("data")), built, c)
    loss = _loss(mapping(block.get("loss")), built, c)
    metrics = _metrics(block.get("metrics"), loss, c)
    optimizer = build_optimizer(mapping(block.get("optimizer")), c, optimizers)
    batch = _whole(block, "batch", 32, 1, c)
    epochs = _whole(block, "epochs", None, 1, c)
    seed = _whole(block, "seed", 0, 0, c)
    every = 0
    checkpoint = mapping(block.get("checkpoint"))
    if checkpoint is not None:
        every = _whole(checkpoint, "every", 1, 1, c) or 0
    if loss is not None and file is not None:
        _check_labels(loss, built, file, c)
    if len([i for i in c.sink.items[before:] if i.severity == "error"]) > 0:
        return None
    if data is None or loss is None or optimizer is None or batch is None or epochs is None or seed is None:
        return None
    return Train(data, loss, metrics, optimizer, batch, epochs, seed, every, block.span)


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


# ------------------------------------------------------------------------------------------ loss


def _loss(block: tree.Mapping | None, built: Built, c: Context) -> Loss | None:
    if block is None or len(block.entries) != 1:
        return None
    kind, settings = block.entries[0].name, mapping(block.entries[0].value)
    if settings is None:
        return None
    key = "logits" if kind == _CLASSIFYING else "prediction"
    prediction = _reference(settings.get(key), built, c, layer=True)
    target = _reference(settings.get("target"), built, c, layer=False)
    at = block.entries[0].key.span
    if prediction is None or target is None:
        return None
    shape, wanted = built.shapes[prediction.text], built.shapes[target.text]
    declared = built.inputs[target.text]
    if shape is None or wanted is None:
        return Loss(kind, prediction.text, target.text, at)
    related = (Related("the input is declared here", declared.span),)
    if kind == _CLASSIFYING:
        if len(shape) != 1 or shape[0] < 2:
            message = f"`logits` must be one score per class, but `{prediction.text}` has the shape {shown(shape)}"
            c.sink.error("E0501", message, prediction.span)
            return None
        if declared.dtype != "int32" or wanted != ():
            message = f"the target of `{kind}` is the class's number, but `{target.text}` is not"
            help = "declare it with `{shape: [], dtype: int32}`"
            c.sink.error("E0501", message, target.span, help, related)
            return None
    else:
        if declared.dtype != "real":
            message = f"the target of `{kind}` holds real numbers, but `{target.text}` whole ones"
            c.sink.error("E0501", message, target.span, None, related)
            return None
        if shape != wanted:
            message = (
                f"`{prediction.text}` has the shape {shown(shape)}, but its target `{target.text}` {shown(wanted)}"
            )
            c.sink.error("E0501", message, prediction.span, None, related)
            return None
    return Loss(kind, prediction.text, target.text, at)


def _reference(node: Node | None, built: Built, c: Context, *, layer: bool) -> Scalar | None:
    if not isinstance(node, Scalar):
        return None
    known = [n for n in built.places if (n in built.inputs) != layer]
    if node.text in known:
        return node
    noun = "layer" if layer else "network input"
    if node.text in built.places:
        other = "an input of the network" if layer else "a layer"
        related = (Related("declared here", built.places[node.text]),)
        message = f"`{node.text}` is {other}; a {noun} is needed here"
        c.sink.error("E0201", message, node.span, None, related)
        return None
    help = did_you_mean(node.text, known) or (allowed(f"the {noun}s are", known) if known else None)
    c.sink.error("E0201", f"there is no {noun} `{node.text}`", node.span, help)
    return None


def _check_labels(loss: Loss, built: Built, file: _File, c: Context) -> None:
    """Every label must be a class that the network has a score for."""
    shape = built.shapes.get(loss.prediction)
    entry = file.arrays.get(loss.target)
    if loss.kind != _CLASSIFYING or shape is None or entry is None:
        return
    array, _, at = entry
    try:
        labels = np.asarray(read_array(file.path, array))
    except (OSError, ValueError) as error:
        c.sink.error("E0703", f"`{array}` cannot be read: {error}", at)
        return
    if not labels.size:
        c.sink.error("E0703", f"`{array}` holds no samples", at)
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= shape[0]:
        message = (
            f"the classes of `{array}` go from {low} to {high}, "
            f"but `{loss.prediction}` has {shape[0]} scores, for the classes 0 to {shape[0] - 1}"
        )
        related = (Related("the layer is declared here", built.places[loss.prediction]),)
        c.sink.error("E0703", message, at, None, related)


def _metrics(node: Node | None, loss: Loss | None, c: Context) -> tuple[str, ...]:
    out: list[str] = []
    for item in node.items if isinstance(node, Sequence) else ():
        if not isinstance(item, Scalar):
            continue
        if item.text in out:
            c.sink.error("E0108", f"the metric `{item.text}` stands twice", item.span)
            continue
        if loss is not None and (loss.kind == _CLASSIFYING) != (item.text == "accuracy"):
            message = f"`{item.text}` cannot be measured with the loss `{loss.kind}`"
            related = (Related("the loss is chosen here", loss.span),)
            c.sink.error("E0802", message, item.span, None, related)
            continue
        out.append(item.text)
    return tuple(out)
