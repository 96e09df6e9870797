"""`params:`, `--set` and bounds: the value of every parameter of the model.

Assumes: the tree of a model file; settings of the command line as text, by name.
Guarantees: each parameter has one value of its type, within its bounds, with the dimension of the value in the file.
An expression may use preceding parameters.
Does not: substitute values in the tree, where parameters remain names.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping as Settings

from compiler.core.diagnostics import Sink, did_you_mean
from compiler.core.source import SourceFile, Span
from compiler.expr.check import check_assignable
from compiler.expr.units import DIMENSIONLESS, canonical_name
from compiler.frontend.language.root import PARAMETER
from compiler.frontend.resolve.values import Evaluated, ParamValue, value_of
from compiler.frontend.schema.wording import taken_word
from compiler.frontend.yaml import core_schema
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, kind_of


def resolve_params(block: Node | None, settings: Settings[str, str | Scalar], sink: Sink) -> dict[str, ParamValue]:
    """The values of the parameters that `block` (the value of `params:`) declares.

    `settings`: as text those of `--set`, as scalars those of `sweep`. An invalid parameter has an error in `sink`, and
    the value 0 where none can be computed.
    """
    params: dict[str, ParamValue] = {}
    if isinstance(block, Mapping):
        for entry in block.entries:
            params[entry.name] = resolve_param(entry.key, entry.value, settings, params, sink)
    elif block is not None:
        sink.error("E0102", f"`params` must be a mapping, not {kind_of(block)}", block.span)
    for name in settings:
        if name not in params:
            near = did_you_mean(name, params)
            known = ", ".join(f"`{p}`" for p in params)
            help = near or (f"the model has: {known}" if params else "the model has no parameters")
            if "." in name:
                last = name.rpartition(".")[2]
                example = f"params: {{{last}: {{value: ...}}}}"
                help = f"only `params` can be set: declare `{example}`, write `{last}` where it is used, and set that"
            sink.error("E0204", f"`--set {name}`: there is no parameter `{name}`", None, help)
    return params


def resolve_param(
    key: Scalar,
    block: Node,
    settings: Settings[str, str | Scalar],
    before: dict[str, ParamValue],
    sink: Sink,
) -> ParamValue:
    """The value of one parameter, as `resolve_params`; those before it are known."""
    name = key.text
    fields = block if isinstance(block, Mapping) else None
    written: Node | None = block if fields is None else fields.get("value")
    kind = _kind(fields, written)
    nothing = ParamValue(name, kind, 1 if kind == "int" else 0, span=key.span)  # a count of 0 would be a mistake, too
    if keyword.iskeyword(name):
        sink.error("E0107", *taken_word(name, "a parameter", key.span))
    if written is None:
        sink.error("E0103", f"parameter `{name}` lacks a `value`", key.span)
        return nothing
    found = value_of(written, before, sink, f"parameter `{name}`")
    if found is None:
        return nothing
    dimension = found.dimension or DIMENSIONLESS
    place: Node = written
    changed = name in settings
    if changed:
        chosen = settings[name]
        place = setting(name, chosen) if isinstance(chosen, str) else chosen
        what = f"`--set {name}`" if isinstance(chosen, str) else f"`{name}` of `sweep`"
        given = value_of(place, before, sink, what)
        known = {p.name: p.dimension for p in before.values()}
        if given is None or not check_assignable(dimension, given.expr, known, sink, f"parameter `{name}`"):
            return nothing
        found = given
    value = _typed(name, kind, found, place, sink)
    if value is None:
        return nothing
    bounds: dict[str, float | int | None] = {}
    for side in ("min", "max"):
        limit = None if fields is None else fields.get(side)
        bounds[side] = None
        if limit is None or kind == "bool":
            continue
        bound = value_of(limit, before, sink, f"`{side}` of parameter `{name}`")
        if bound is None:
            continue
        known = {p.name: p.dimension for p in before.values()}
        if not check_assignable(dimension, bound.expr, known, sink, f"`{side}` of parameter `{name}`"):
            continue
        bounds[side] = bound.value
        if (value < bound.value) if side == "min" else (value > bound.value):
            word = "less" if side == "min" else "more"
            unit = "" if dimension.dimensionless else " " + canonical_name(dimension)
            message = f"parameter `{name}` is {value:g}{unit}, {word} than its `{side}`"
            help = f"`{side}` is {bound.value:g}{unit}"
            sink.error("E0205", message, place.span, help)
    doc = fields.get("description") if fields is not None else None
    text = doc.text if isinstance(doc, Scalar) else ""
    return ParamValue(name, kind, value, dimension, bounds["min"], bounds["max"], text, changed, key.span)


def setting(name: str, text: str) -> Scalar:
    """The value of `--set name=text`, as a scalar whose span shows it."""
    file = SourceFile("--set", f"{name}={text}")
    begin = len(name) + 1 + len(text) - len(text.lstrip())
    text = text.strip()
    value = core_schema.resolve(text)
    if isinstance(value, core_schema.Unreadable):
        value = text  # the expression parser reports the error
    return Scalar(value, text, True, Span(file, begin, begin + len(text)))


def _kind(fields: Mapping | None, written: Node | None) -> str:
    declared = fields.get("type") if fields is not None else None
    if isinstance(declared, Scalar):
        return declared.text
    is_bool = isinstance(written, Scalar) and isinstance(written.value, bool)
    return "bool" if is_bool else str(PARAMETER.by_name["type"].default)


def _typed(name: str, kind: str, found: Evaluated, place: Node, sink: Sink) -> float | int | bool | None:
    value = found.value
    if kind == "bool":
        if isinstance(value, bool):
            return value
        help = "write `true` or `false`"
        sink.error("E0206", f"parameter `{name}` must be true or false", place.span, help)
        return None
    if isinstance(value, bool):
        noun = "a whole number" if kind == "int" else "a number"
        message = f"parameter `{name}` must be {noun}, not true or false"
        sink.error("E0206", message, place.span)
        return None
    if kind == "float":
        return float(value)
    if found.dimension not in (None, DIMENSIONLESS):
        message = f"parameter `{name}` is an `int`, which has no unit"
        sink.error("E0206", message, place.span, "use `type: float`")
        return None
    if isinstance(value, float) and not value.is_integer():
        message = f"parameter `{name}` must be a whole number; it is {value:g}"
        sink.error("E0206", message, place.span, "use `type: float` for fractions")
        return None
    return int(value)
