"""`repeat: {times: n, layers: [...]}` in lists of layers.

Assumes: parameters have values.
Guarantees: a layer `hidden` of the body becomes `hidden_1`, `hidden_2`, ... (`hidden_1_2` where
repeats are nested), and what refers to it inside of the body refers to the same copy; every node
of a copy says which copy it is. At most MAX_LAYERS layers come out of one list.
Does not: name layers that have no name, or look at what a layer is.
"""

from __future__ import annotations

from collections.abc import Mapping as Params
from typing import Final

from compiler.diagnostics import Sink
from compiler.frontend.resolve_values import ParamValue, whole_number
from compiler.frontend.tree import (
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    kind_of,
    with_items,
    with_origin,
)
from compiler.source import Origin, Span

MAX_LAYERS: Final = 100_000


class _TooMany(Exception):
    """More than MAX_LAYERS layers."""


def expand_repeats(layers: Sequence, params: Params[str, ParamValue], sink: Sink) -> Sequence:
    """`layers` with every `repeat` in it replaced by its copies."""
    if not any(_repeat(item) for item in layers.items):
        return layers
    try:
        return with_items(layers, _expand(layers, params, sink))
    except _TooMany:
        message = f"`repeat` makes more than {MAX_LAYERS:,} layers"
        sink.error("E0208", message, layers.span)
        return layers


def _repeat(item: Node) -> Entry | None:
    return item.entry("repeat") if isinstance(item, Mapping) and len(item) == 1 else None


def _expand(layers: Sequence, params: Params[str, ParamValue], sink: Sink) -> list[Node]:
    out: list[Node] = []
    for item in layers.items:
        entry = _repeat(item)
        if entry is None:
            out.append(item)
        else:
            out.extend(_copies(entry, params, sink))
        if len(out) > MAX_LAYERS:
            raise _TooMany
    return out


def _copies(entry: Entry, params: Params[str, ParamValue], sink: Sink) -> list[Node]:
    block = entry.value
    if not isinstance(block, Mapping):
        sink.error("E0102", f"`repeat` must be a mapping, not {kind_of(block)}", block.span)
        return []
    times_node, body = block.get("times"), block.get("layers")
    if times_node is None or not isinstance(body, Sequence):
        missing = "times" if times_node is None else "layers"
        help = "write `repeat: {times: 3, layers: [...]}`"
        sink.error("E0103", f"`repeat` lacks a list of `{missing}`", entry.key.span, help)
        return []
    times = whole_number(times_node, params, sink, "`times`", 0, MAX_LAYERS)
    if times is None:
        return []
    inner = _expand(body, params, sink)
    if times * len(inner) > MAX_LAYERS:
        raise _TooMany
    names = frozenset(name for layer in inner if (name := _name(layer)) is not None)
    out: list[Node] = []
    for k in range(1, times + 1):
        origin = Origin("repeat", f"repeat {k} of {times}", _place(entry))
        out.extend(with_origin(_renamed(layer, names, k), origin) for layer in inner)
    return out


def _place(entry: Entry) -> Span:
    return entry.key.span


def _settings(layer: Node) -> Mapping | None:
    """What stands under the one key of a layer."""
    if isinstance(layer, Mapping) and len(layer) == 1:
        value = layer.entries[0].value
        return value if isinstance(value, Mapping) else None
    return None


def _name(layer: Node) -> str | None:
    settings = _settings(layer)
    name = settings.get("name") if settings is not None else None
    return name.text if isinstance(name, Scalar) else None


def _renamed(layer: Node, names: frozenset[str], k: int) -> Node:
    settings = _settings(layer)
    if settings is None or not isinstance(layer, Mapping):
        return layer

    def renamed(node: Node) -> Node:
        match node:
            case Scalar(value, text, plain, span) if text in names and isinstance(value, str):
                return Scalar(f"{text}_{k}", f"{text}_{k}", plain, span)
            case Sequence(items, span):
                return Sequence(tuple(renamed(i) for i in items), span)
            case _:
                return node

    entries = tuple(Entry(e.key, renamed(e.value)) if e.name in ("name", "inputs") else e for e in settings.entries)
    kind = layer.entries[0]
    return Mapping((Entry(kind.key, Mapping(entries, settings.span)),), layer.span)
