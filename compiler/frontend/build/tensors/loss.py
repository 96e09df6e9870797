"""Losses and metrics: predictions and their targets.

Assumes: the network has been built (possibly with errors).
Guarantees: prediction and target of each loss have compatible shapes; metrics are compatible with the loss; labels are
valid classes of the network.
Does not: read data other than labels.
"""

from __future__ import annotations

from dataclasses import replace

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Related, declared_at
from compiler.core.source import Span
from compiler.expr.keys.kinds import Flag, OneKey
from compiler.expr.units import DIMENSIONLESS
from compiler.files.array_files import Header
from compiler.files.data_source import sample_parts
from compiler.frontend.build.shared.readers import Reader, blocks, chosen, integer, part
from compiler.frontend.build.shared.scope import Wanted, check_expression
from compiler.frontend.build.shared.values import Context, listed
from compiler.frontend.build.tensors.network import Built, with_numbers
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.layers import KIND
from compiler.layers.shared.elements import whole_elements
from compiler.layers.shared.kind import Array, shown
from compiler.losses import LOSS, LOSS_KIND, METRIC, Answers, LossKind, metric_of


def build_loss(node: Node | None, built: Built, c: Context) -> l0.Loss | None:
    """The loss of a one-key map; None after an error."""
    terms = node.entry("sum") if isinstance(node, tree.Mapping) else None
    if terms is not None:
        return _sum(terms, built, c)
    found = chosen(LOSS, node, c)
    if found is None:
        return None
    kind, r, at = found
    if kind == "expression":
        return _expression(r, built, at)
    of = LOSS_KIND[kind]
    prediction = _reference(r.get(of.scored), built, c, layer=True)
    beside = of.aim != "target" or of.answers in (Answers.NUMBERS, Answers.YES_NO)
    target = _reference(r.get(of.aim), built, c, layer=None if beside else False)
    if prediction is None or target is None:
        return None
    if prediction.text in built.whole:
        message = f"`{prediction.text}` holds whole numbers of the data, not what the network computes"
        c.sink.error("E0501", message, prediction.span, None, declared_at(built.whole[prediction.text].span))
        return None
    loss = l0.Loss(kind, prediction.text, target.text, span=at)
    shape = built.shapes[prediction.text]
    if shape is None or built.shapes[target.text] is None:
        return loss
    if not _FITS.get(of.answers, _real_target)(of, prediction, target, built, c):
        return None
    _warn_applied(of, prediction, built, c)
    settled = _with_settings(loss, of, r, shape)
    if settled is not None and of.answers is Answers.LABELS:
        settled = _with_lengths(settled, of, r, shape, target, built)
    if settled is not None and of.answers is Answers.PLACES:
        settled = _with_places(settled, of, r, prediction, built)
    each = () if of.whole else shape[:-1] if of.along else shape
    return None if settled is None else _with_mask(settled, r, each, built)


def _warn_applied(kind: LossKind, prediction: Scalar, built: Built, c: Context) -> None:
    """W0008 for scores that the function, which is part of the loss, has been applied to already."""
    layer = next((x for x in built.layers if x.name == prediction.text), None)
    own = {Answers.CLASSES: "softmax", Answers.LABELS: "softmax", Answers.YES_NO: "sigmoid"}.get(kind.answers)
    if layer is not None and own is not None and own in (KIND[layer.kind].applies, layer.activation):
        message = f"`{layer.name}` ends in a {own}, which `{kind.name}` applies to the scores itself"
        alone = KIND[layer.kind].applies or KIND[layer.kind].moves
        at = f"let the loss read `{layer.inputs[0]}`" if alone else f"leave out the {own}"
        c.sink.warning("W0008", message, prediction.span, f"{at}: the scores before it")


def _with_mask(loss: l0.Loss, r: Reader, each: tuple[int, ...], built: Built) -> l0.Loss | None:
    """The loss with its mask. `each`: the shape of the losses of a sample."""
    c, node = r.c, r.get("mask")
    number = r.integer("ignore") if "ignore" in r else None
    if number is None and "ignore" in r and r.get("ignore") is not None:
        return None
    if node is None:
        return replace(loss, ignore=number)
    mask = _reference(node, built, c, layer=False)
    if mask is None:
        return None
    shape = built.shapes[mask.text]
    if shape is not None and shape != each[: len(shape)]:
        declared = built.inputs[mask.text]
        message = f"the mask `{mask.text}` has the shape {shown(shape)}, but the losses of a sample {shown(each)}"
        help = "it may leave out last axes: `[]` is one number for each sample" if each else None
        c.sink.error("E0501", message, mask.span, help, declared_at(declared.span, "the input"))
        return None
    return replace(loss, mask=mask.text, ignore=number)


def _not_integers(what: str, given: Scalar, shape: str, built: Built, c: Context, help: str | None = None) -> None:
    """E0501: a network input is not `what` it has to be: integers of this shape, unless `help` says otherwise."""
    related = declared_at(built.inputs[given.text].span, "the input")
    help = help or f"declare it with `{{shape: {shape}, dtype: int32}}`"
    c.sink.error("E0501", f"{what}, but `{given.text}` is not", given.span, help, related)


def _class_target(kind: LossKind, prediction: Scalar, target: Scalar, built: Built, c: Context) -> bool:
    shape, wanted = built.shapes[prediction.text], built.shapes[target.text]
    declared = built.inputs[target.text]
    assert shape is not None
    if not shape or shape[-1] < 2:
        message = f"`logits` must be one score per class, but `{prediction.text}` has the shape {shown(shape)}"
        help = "for one score, of yes or no, write `binary_cross_entropy`" if shape else None
        c.sink.error("E0501", message, prediction.span, help)
        return False
    if len(shape) > 1 and wanted == ():
        message = f"`logits` must be one score per class, but `{prediction.text}` has the shape {shown(shape)}"
        help = f"put `flatten` and `dense` before the loss, or declare `{target.text}` as one class at each place: "
        help += f"`{{shape: {shown(shape[:-1])}, dtype: int32}}`"
        c.sink.error("E0501", message, prediction.span, help, declared_at(declared.span, "the input"))
        return False
    if declared.dtype != "int32" or wanted != shape[:-1]:
        what = "the class's number" if len(shape) == 1 else "a class's number at each place"
        help = None
        if len(shape) > 1 and wanted == shape[1:]:
            axes = [*range(1, len(shape)), 0]
            help = f"classes are the last axis: put `- permute: {{axes: {axes}}}` before the loss"
        elif wanted == shape:
            help = "for the probabilities of all classes write `kl_divergence`, and `- log_softmax: {}` before it"
        _not_integers(f"the target of `{kind.name}` is {what}", target, shown(shape[:-1]), built, c, help)
        return False
    return True


def _labels_target(kind: LossKind, prediction: Scalar, target: Scalar, built: Built, c: Context) -> bool:
    shape, wanted = built.shapes[prediction.text], built.shapes[target.text]
    declared = built.inputs[target.text]
    assert shape is not None and wanted is not None
    if len(shape) != 2 or shape[1] < 2:
        message = f"`logits` must be one score per class in each step, but `{prediction.text}` has the shape "
        c.sink.error("E0501", message + shown(shape), prediction.span, "its shape is `[steps, classes]`")
        return False
    if declared.dtype != "int32" or len(wanted) != 1:
        what = f"the target of `{kind.name}` is a list of classes' numbers"
        _not_integers(what, target, f"[{wanted[0] if len(wanted) == 1 else 10}]", built, c)
        return False
    return True


def _places_target(kind: LossKind, prediction: Scalar, target: Scalar, built: Built, c: Context) -> bool:
    shape = built.shapes[prediction.text]
    assert shape is not None
    if kind.whole and len(shape) != 1:
        message = f"`{kind.name}` has one place for each sample, but `{prediction.text}` has the shape {shown(shape)}"
        c.sink.error("E0501", message, prediction.span, "its shape is `[coordinates]`: `flatten` or a pool makes it so")
        return False
    if kind.aim != "target" or not shape:
        return _real_target(kind, prediction, target, built, c)
    declared = built.inputs[target.text]
    if declared.dtype != "real" or built.shapes[target.text] != shape[:-1]:
        message = f"the target of `{kind.name}` is a real number for each place, but `{target.text}` is not"
        related = declared_at(declared.span, "the input")
        c.sink.error("E0501", message, target.span, f"declare it with `{{shape: {shown(shape[:-1])}}}`", related)
        return False
    return True


def _with_places(loss: l0.Loss, kind: LossKind, r: Reader, prediction: Scalar, built: Built) -> l0.Loss | None:
    """The loss with the places beside the anchor's."""
    others = {key: _reference(r.get(key), built, r.c, layer=None) for key in kind.beside}
    found = {key: other.text for key, other in others.items() if other is not None}
    known = [o for o in others.values() if o is not None and built.shapes[o.text] is not None]
    fits = [_real_target(kind, prediction, other, built, r.c) for other in known]
    return replace(loss, beside=tuple(found.items())) if all(fits) and len(found) == len(others) else None


_FITS = {Answers.CLASSES: _class_target, Answers.LABELS: _labels_target, Answers.PLACES: _places_target}


def _with_lengths(
    loss: l0.Loss, kind: LossKind, r: Reader, shape: tuple[int, ...], target: Scalar, built: Built
) -> l0.Loss | None:
    """The loss with the lengths of its sequences. `shape`: of the scores."""
    c, before, found = r.c, len(r.c.sink.items), {}
    for key in kind.beside:
        node = r.get(key)
        given = None if node is None else _reference(node, built, c, layer=False)
        if given is None:
            continue
        declared = built.inputs[given.text]
        if built.shapes[given.text] not in ((), None) or declared.dtype != "int32":
            _not_integers(f"`{key}` is one whole number for each sample", given, "[]", built, c)
        found[key] = given.text
    blank, of_classes = r.get("blank"), dict(loss.attrs)["blank"] < shape[-1]
    if blank is not None and not of_classes:
        has = f"`{loss.prediction}` has {shape[-1]} scores, for the classes 0 to {shape[-1] - 1}"
        c.sink.error("E0106", f"the blank is a class, but {has}", blank.span)
    (labels,) = built.shapes[target.text] or (0,)
    if labels > shape[0] and "target_lengths" not in found:
        message = f"there are no {labels} labels in {shape[0]} steps: each takes a step of its own"
        help = "if most samples have fewer, name the input with their numbers: `target_lengths`"
        c.sink.error("E0501", message, target.span, help)
    return None if len(c.sink.items) > before else replace(loss, beside=tuple(found.items()))


def _real_target(kind: LossKind, prediction: Scalar, target: Scalar, built: Built, c: Context) -> bool:
    """Also of another layer that is compared with the prediction."""
    shape, wanted = built.shapes[prediction.text], built.shapes[target.text]
    declared = built.inputs.get(target.text)
    assert shape is not None and wanted is not None
    related = () if declared is None else declared_at(declared.span, "the input")
    what = "its target " if kind.answers is not Answers.PLACES else ""
    if target.text in built.whole:
        message = f"the target of `{kind.name}` holds real numbers, but `{target.text}` whole ones"
        if not what:
            message = f"places have real coordinates, but `{target.text}` holds whole numbers"
        help = f"declare it with `{{shape: {shown(shape)}}}`: whole numbers of a file are read as real ones"
        c.sink.error("E0501", message, target.span, help, related)
        return False
    if shape != wanted:
        message = f"`{prediction.text}` has the shape {shown(shape)}, but {what}`{target.text}` {shown(wanted)}"
        c.sink.error("E0501", message, prediction.span, None, related)
        return False
    if kind.along and not shape:
        message = f"`{kind.name}` works along an axis, but `{prediction.text}` is a single number"
        c.sink.error("E0501", message, prediction.span)
        return False
    return True


def _with_settings(loss: l0.Loss, kind: LossKind, r: Reader, shape: tuple[int, ...]) -> l0.Loss | None:
    attrs: list[tuple[str, float]] = []
    c, before = r.c, len(r.c.sink.items)
    for key in kind.settings:
        value = float(r.flag(key)) if isinstance(r.of(key), Flag) else r.real(key)
        if value or (value is not None and kind.zero):
            attrs.append((key, value))
    weights = r.get("class_weights") if "class_weights" in r else None
    classes = () if weights is None else r.reals("class_weights", "each number of `class_weights`") or ()
    count = 2 if kind.answers is Answers.YES_NO else shape[-1] if shape else 1
    given = len(weights.items) if isinstance(weights, Sequence) else count
    if given != count and weights is not None:
        message = f"`class_weights` has {given} numbers, but there are {count} classes"
        c.sink.error("E0108", message, weights.span)
    if len(c.sink.items) > before:
        return None
    mean = r.word("mean") if "mean" in r else ""
    return replace(loss, attrs=tuple(attrs), class_weights=classes, mean=mean)


def _expression(r: Reader, built: Built, at: Span) -> l0.Loss | None:
    """Any expression over layers and inputs."""
    c, node = r.c, r.get("value")
    if node is None:
        return None
    checked = check_expression(node, built.scope(c), Wanted("the loss", DIMENSIONLESS), c.sink)
    if checked is None:
        return None
    sources, before = built.read_by(checked.expr), len(c.sink.items)
    layers = [n for n in sources if n not in built.inputs]
    if not layers:
        c.sink.error("E0802", "the loss reads no layer: nothing would be trained", node.span)
        return None
    together = built.together(sources, "the loss", node.span, c)
    if len(c.sink.items) > before:
        return None
    values, function = with_numbers("loss", checked.expr, sources, node.span, c)
    attrs = tuple((n, float(v)) for n, v in values.items() if isinstance(v, int | float))
    loss = l0.Loss("expression", layers[-1], "", attrs, inputs=tuple(sources), function=function, span=at)
    return loss if together is None else _with_mask(loss, r, together, built)


def _sum(entry: tree.Entry, built: Built, c: Context) -> l0.Loss | None:
    terms: list[tuple[float, l0.Loss]] = []
    whole_sum = True
    for term in blocks(LOSS.by_name[entry.name].kind, entry.value, c):
        weight = term.real("weight")
        loss = build_loss(term.get("loss"), built, c)
        if loss is not None and loss.kind == "sum":
            c.sink.error("E0802", "a sum of losses cannot be a term of another", loss.span, "write its terms here")
            loss = None
        if weight is None or loss is None:
            whole_sum = False
        else:
            terms.append((weight, loss))
    if not whole_sum or not terms:
        return None
    first = terms[0][1]
    return l0.Loss("sum", first.prediction, first.target, terms=tuple(terms), span=entry.key.span)


def _reference(node: Node | None, built: Built, c: Context, *, layer: bool | None) -> Scalar | None:
    """`layer`: None for one or a network input."""
    if not isinstance(node, Scalar):
        return None
    known = [n for n in built.places if (n in built.inputs) != layer]
    if node.text in known:
        return node
    noun = "layer" if layer else "network input" if layer is False else "layer or network input"
    if node.text in built.places:
        other = "an input of the network" if layer else "a layer"
        message = f"`{node.text}` is {other}; a {noun} is needed here"
        c.sink.error("E0201", message, node.span, None, declared_at(built.places[node.text]))
        return None
    help = suggested(node.text, f"the {noun}s are", known)
    c.sink.error("E0201", f"there is no {noun} `{node.text}`", node.span, help)
    return None


# -------------------------------------------------------------------------------------------- labels


def check_labels(
    loss: l0.Loss, built: Built, data: l0.Data, arrays: dict[str, tuple[str, Header, Span]], c: Context
) -> None:
    """Every label must be a class with a score of the network, every word a row of its embedding."""
    for one in loss.each:
        shape = built.shapes.get(one.prediction)
        if LOSS_KIND[one.kind].answers in (Answers.CLASSES, Answers.LABELS) and shape is not None:
            has = f"`{one.prediction}` has {shape[-1]} scores, for the classes 0 to {shape[-1] - 1}"
            lets = one.ignore is None and LOSS_KIND[one.kind].answers is Answers.CLASSES
            place = built.places[one.prediction]
            _within(one.target, shape[-1], "classes", has, place, data, arrays, c, one.ignore, lets)
    if built.network is None:  # a layer has an error, and its elements are not known
        return
    read = whole_elements(built.inputs.values(), built.layers)
    for layer in built.layers:
        limit = KIND[layer.kind].limit(layer)
        if limit is not None:
            for name, elements in read.read(layer.inputs[0]).items():
                some = elements if elements.size < read.sizes[name] else None
                _within(name, limit[0], "numbers", limit[1], layer.span, data, arrays, c, some=some)


def _within(
    name: str,
    count: int,
    noun: str,
    has: str,
    place: Span,
    data: l0.Data,
    arrays: dict[str, tuple[str, Header, Span]],
    c: Context,
    ignore: int | None = None,
    lets: bool = False,
    some: Array | None = None,
) -> None:
    """E0703 for numbers that are not from 0 to `count` - 1, nor `ignore`. `lets`: a number may be left out; `some`: of
    which elements of a sample."""
    entry = arrays.get(name)
    if entry is None or data.missing or "data" in c.unread:
        return
    array, _, at = entry
    try:
        parts = (p if some is None else p.reshape(len(p), -1)[:, some] for p in sample_parts(data, array))
        parts = (p if ignore is None else p[p != ignore] for p in parts)
        ends = [(int(p.min()), int(p.max())) for p in parts if p.size]
    except (OSError, ValueError) as error:
        c.sink.error("E0703", f"`{array}` cannot be read: {error}", at)
        return
    if not ends:
        c.sink.error("E0703", f"`{array}` holds no samples", at)
        return
    low, high = min(a for a, _ in ends), max(b for _, b in ends)
    if low < 0 or high >= count:
        what = f"`{array}`" if some is None else f"`{array}` that it reads"
        message = f"the {noun} of {what} go from {low} to {high}, but {has}"
        help = f"`ignore: {low}` in the loss leaves out what has no class" if lets and low < 0 else None
        c.sink.error("E0703", message, at, help, declared_at(place, "the layer"))


# ------------------------------------------------------------------------------------------- metrics


def build_metrics(node: Node | None, loss: l0.Loss | None, built: Built, c: Context) -> tuple[str, ...]:
    """Names of metrics; `top_5` for `{top: 5}`."""
    out: list[str] = []
    for item in listed(node):
        name = _metric(item, loss, built, c)
        if name is None:
            continue
        if name in out:
            c.sink.error("E0108", f"the metric `{name}` stands twice", item.span)
            continue
        out.append(name)
    return tuple(out)


def _metric(item: Node, loss: l0.Loss | None, built: Built, c: Context) -> str | None:
    name = item.text if isinstance(item, Scalar) else ""
    classes: int | None = None
    shape: tuple[int, ...] | None = None
    first = loss.terms[0][1] if loss is not None and loss.terms else loss
    if first is not None:
        shape = built.shapes.get(first.prediction)
        classes = shape[-1] if shape else None
    if isinstance(item, tree.Mapping) and item.entries:
        k = integer(part(METRIC, OneKey).by_name["top"].kind, item.entries[0].value, c, "`top`")
        if k is None:
            return None
        name = f"top_{k}"
        of_classes = first is not None and LOSS_KIND[first.kind].answers is Answers.CLASSES
        if of_classes and classes is not None and k >= classes:
            message = f"among the {k} largest of {classes} scores is every class"
            c.sink.error("E0106", message, item.entries[0].value.span)
            return None
    if first is None or not name:
        return name or None
    if LOSS_KIND[first.kind].answers not in metric_of(name).of:
        message = f"`{name}` cannot be measured with the loss `{first.kind}`"
        c.sink.error("E0802", message, item.span, None, (Related("the loss is chosen here", first.span),))
        return None
    return name
