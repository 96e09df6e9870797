"""`repeat: {times: n, layers: [...]}` in lists of layers, and in blocks of layers.

Assumes: parameters have values.
Guarantees: a layer `hidden` of the body becomes `hidden_1`, `hidden_2`, ... (`hidden_1_2` where repeats are nested),
and references inside the body refer to the same copy; every node of a copy records its copy. A copy of a repeat with
settings of a block is a `block`. One list expands to at most MAX_LAYERS layers.
Does not: name unnamed layers, or inspect the kind of a layer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Params
from dataclasses import dataclass, field
from typing import Final

import compiler.frontend.yaml.tree as tree
import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Sink
from compiler.core.source import Origin, Span
from compiler.frontend.language.network import BLOCK_SETTINGS
from compiler.frontend.resolve.values import ParamValue, whole_number

MAX_LAYERS: Final = 100_000
_SETTINGS: Final = frozenset(f.name for f in BLOCK_SETTINGS)


class _TooMany(Exception):
    """More than MAX_LAYERS layers."""


def expand_repeats(layers: tree.Sequence, params: Params[str, ParamValue], sink: Sink) -> tree.Sequence:
    """`layers` with every `repeat` in it replaced by its copies."""
    if not _has_repeat(layers):
        return layers
    try:
        return tree.with_items(layers, _expand(layers, params, sink).layers)
    except _TooMany:
        message = f"`repeat` makes more than {MAX_LAYERS:,} layers"
        sink.error("E0208", message, layers.span)
        return layers


def layers_of(layers: tree.Sequence, params: Params[str, ParamValue], sink: Sink) -> list[tree.Node]:
    """The layers of a list, without repeats."""
    return [*expand_repeats(layers, params, sink).items]


@dataclass(frozen=True)
class _Body:
    """Layers without repeats, and for each name in them: the original name, and its indices."""

    layers: list[tree.Node] = field(default_factory=list)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)


def _repeat(item: tree.Node) -> tree.Entry | None:
    return item.entry("repeat") if isinstance(item, tree.Mapping) and len(item) == 1 else None


def _block(item: tree.Node) -> tuple[tree.Entry, tree.Mapping, tree.Sequence] | None:
    """The `block` of an item, its value and its layers."""
    entry = item.entry("block") if isinstance(item, tree.Mapping) and len(item) == 1 else None
    layers = entry.value.get("layers") if entry is not None and isinstance(entry.value, tree.Mapping) else None
    if entry is None or not isinstance(entry.value, tree.Mapping) or not isinstance(layers, tree.Sequence):
        return None
    return entry, entry.value, layers


def _has_repeat(layers: tree.Sequence) -> bool:
    blocks = (_block(item) for item in layers.items)
    return any(_repeat(item) for item in layers.items) or any(_has_repeat(b[2]) for b in blocks if b is not None)


def _count(layers: list[tree.Node]) -> int:
    """The number of layers, including those in blocks."""
    blocks = (_block(item) for item in layers)
    return sum(1 if b is None else _count([*b[2].items]) for b in blocks)


def _least(layers: tree.Sequence, params: Params[str, ParamValue]) -> int:
    """The number of layers after expansion, without invalid repeats."""
    total = 0
    for item in layers.items:
        entry, block = _repeat(item), _block(item)
        if block is not None:
            total += _least(block[2], params)
        elif entry is None:
            total += 1
        elif isinstance(entry.value, tree.Mapping):
            times_node, inner = entry.value.get("times"), entry.value.get("layers")
            if times_node is not None and isinstance(inner, tree.Sequence):
                times = whole_number(times_node, params, Sink(), "`times`", 1, MAX_LAYERS)
                total += (times or 0) * _least(inner, params)
    return total


def _expand(layers: tree.Sequence, params: Params[str, ParamValue], sink: Sink) -> _Body:
    out, count = _Body(), 0
    for item in layers.items:
        before = len(out.layers)
        entry, block = _repeat(item), _block(item)
        if entry is not None:
            copies = _copies(entry, params, sink)
            out.layers.extend(copies.layers)
            out.names.update(copies.names)
        elif block is not None:
            body = _expand(block[2], params, sink)
            out.layers.append(_with_layers(item, body.layers))
            out.names.update(body.names)
        else:
            out.layers.append(item)
            out.names.update((name.text, (name.text, "")) for name in _names(item))
        count += _count(out.layers[before:])
        if count > MAX_LAYERS:
            raise _TooMany
    return out


def _copies(entry: tree.Entry, params: Params[str, ParamValue], sink: Sink) -> _Body:
    block, out = entry.value, _Body()
    if not isinstance(block, tree.Mapping):
        sink.error("E0102", f"`repeat` must be a mapping, not {tree.kind_of(block)}", block.span)
        return out
    times_node, layers = block.get("times"), block.get("layers")
    if times_node is None or not isinstance(layers, tree.Sequence):
        missing = "`times`" if times_node is None else "a list of `layers`"
        help = "write `repeat: {times: 3, layers: [...]}`"
        sink.error("E0103", f"`repeat` lacks {missing}", entry.key.span, help)
        return out
    times = whole_number(times_node, params, sink, "`times`", 1, MAX_LAYERS)
    if times is None:
        return out
    if times * _least(layers, params) > MAX_LAYERS:  # before copying
        raise _TooMany
    body = _expand(layers, params, sink)
    if times * _count(body.layers) > MAX_LAYERS:
        raise _TooMany
    settings = [e for e in block.entries if e.name in _SETTINGS]
    for k in range(1, times + 1):
        # The outermost number comes first, as indices of nested arrays do.
        ends = {old: (base, f"_{k}{end}") for old, (base, end) in body.names.items()}
        new = {old: base + end for old, (base, end) in ends.items()}
        origin = Origin("repeat", f"repeat {k} of {times}", entry.key.span)
        copies = [tree.with_origin(renamed(n, new), origin) for n in body.layers]
        if settings:
            inner = tree.Mapping(
                (tree.Entry(_word("layers", layers.span), tree.with_items(layers, copies)), *settings), block.span
            )
            copies = [tree.Mapping((tree.Entry(_word("block", entry.key.span), inner),), entry.key.span)]
        out.layers.extend(copies)
        out.names.update((new[old], parts) for old, parts in ends.items())
    return out


def _word(text: str, span: Span) -> tree.Scalar:
    return tree.Scalar(text, text, True, span)


def _with_layers(item: tree.Node, layers: list[tree.Node]) -> tree.Node:
    """A `block` with other layers."""
    found = _block(item)
    assert found is not None and isinstance(item, tree.Mapping)
    entry, block, old = found
    return tree.with_entry(item, entry.name, tree.with_entry(block, "layers", tree.with_items(old, layers)))


def value_of_layer(layer: tree.Node) -> tree.Mapping | None:
    """The value of the one key of a layer."""
    if isinstance(layer, tree.Mapping) and len(layer) == 1:
        value = layer.entries[0].value
        return value if isinstance(value, tree.Mapping) else None
    return None


def _names(layer: tree.Node) -> list[tree.Scalar]:
    """The names defined by a layer: its own, the parts of a split, the formulas of a map."""
    settings = value_of_layer(layer)
    if settings is None or not isinstance(layer, tree.Mapping):
        return []
    if layer.entries[0].name == "map":
        return [e.key for e in settings.entries]
    parts = settings.get("into") if layer.entries[0].name == "split" else None
    found = (settings.get("name"), *(parts.items if isinstance(parts, tree.Sequence) else ()))
    return [n for n in found if isinstance(n, tree.Scalar)]


def names_of(layer: tree.Node) -> list[tree.Scalar]:
    """The names defined by a layer, or by the layers of a block."""
    block = _block(layer)
    return _names(layer) if block is None else [name for inner in block[2].items for name in names_of(inner)]


def named(layer: tree.Node, name: str) -> tree.Node:
    """A layer, or the last one of a block, with a name if it has none."""
    block, settings = _block(layer), value_of_layer(layer)
    if block is not None and block[2].items:
        return _with_layers(layer, [*block[2].items[:-1], named(block[2].items[-1], name)])
    if settings is None or not isinstance(layer, tree.Mapping) or names_of(layer):
        return layer
    kind = layer.entries[0]
    return tree.with_entry(layer, kind.name, tree.with_entry(settings, "name", _word(name, kind.key.span)))


_WORD: Final = re.compile(r"[A-Za-z_]\w*")


def _in_formula(node: tree.Node, names: dict[str, str]) -> tree.Node:
    """A formula over layers of this copy."""
    if not isinstance(node, tree.Scalar) or not isinstance(node.value, str):
        return node
    text = _WORD.sub(lambda m: names.get(m[0], m[0]), node.text)
    return node if text == node.text else tree.Scalar(text, text, node.plain, node.span)


def renamed(layer: tree.Node, names: dict[str, str]) -> tree.Node:
    """A layer, or those of a block, with renamed layers."""
    block = _block(layer)
    if block is not None:
        return _with_layers(layer, [renamed(n, names) for n in block[2].items])
    settings = value_of_layer(layer)
    if settings is None or not isinstance(layer, tree.Mapping):
        return layer

    def other(node: tree.Node) -> tree.Node:
        match node:
            case tree.Scalar(value, text, plain, span) if text in names and isinstance(value, str):
                return tree.Scalar(names[text], names[text], plain, span)
            case tree.Sequence(items, span):
                return tree.Sequence(tuple(other(i) for i in items), span)
            case _:
                return node

    kind = layer.entries[0]
    if kind.name == "map":
        formulas = [(other(e.key), _in_formula(e.value, names)) for e in settings.entries]
        entries = tuple(tree.Entry(k, v) for k, v in formulas if isinstance(k, tree.Scalar))
        return tree.Mapping((tree.Entry(kind.key, tree.Mapping(entries, settings.span)),), layer.span)
    own = ("name", "inputs", "weights", *(("into",) if kind.name == "split" else l0.BESIDE))
    entries = tuple(tree.Entry(e.key, other(e.value)) if e.name in own else e for e in settings.entries)
    return tree.Mapping((tree.Entry(kind.key, tree.Mapping(entries, settings.span)),), layer.span)
