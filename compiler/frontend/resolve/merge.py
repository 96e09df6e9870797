"""Merging of blocks: settings over defaults.

Assumes: the language's kinds (compiler/frontend/language), which define choices.
Guarantees: mappings merge key by key, other values replace; a choice (a map whose one key names a kind) is replaced
when the alternatives differ; a map over a list of named parts replaces these parts (parts.py). Nodes from `below` keep
their spans.
Does not: validate either side.
"""

from __future__ import annotations

from compiler.core.diagnostics import Sink
from compiler.expr.keys.kinds import Block, Kind, Later, ListOf, MapOf, OneKey, OneOf
from compiler.frontend.resolve.parts import replaces_parts, with_parts
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Sequence


def merge(below: Mapping, above: Mapping, kind: Kind | None, sink: Sink) -> Mapping:
    """`below` with the settings of `above`; `kind`: that of both in the language. E0203 for a part of a statement list
    that `below` does not have."""
    if not below.entries:
        return above
    entries: list[Entry] = []
    for entry in below.entries:
        name = entry.name
        over = above.entry(name)
        if over is None:
            entries.append(entry)
        else:
            entries.append(Entry(over.key, _merge_value(entry.value, over.value, kind, name, sink)))
    entries.extend(e for e in above.entries if e.name not in below)
    return Mapping(tuple(entries), above.span)


def _merge_value(below: Node, above: Node, kind: Kind | None, name: str, sink: Sink) -> Node:
    if isinstance(below, Sequence) and isinstance(above, Mapping) and replaces_parts(below, above):
        return with_parts(below, above, sink)
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above
    child = child_kind(kind, name)
    choice = choice_among(child, below, above)
    if choice is not None and list(below.keys()) != list(above.keys()):
        return above
    return merge(below, above, choice or child, sink)


def child_kind(kind: Kind | None, name: str) -> Kind | None:
    """The kind of the value of `name` in a map of `kind`; None where the language defines none."""
    match kind:
        case Later():
            return child_kind(kind.resolve(), name)
        case Block():
            field = kind.by_name.get(name)
            return None if field is None else field.kind
        case MapOf():
            return kind.value
        case OneKey():
            alternative = kind.by_name.get(name)
            return kind.own if alternative is None else alternative.kind
        case OneOf():
            for option in kind.kinds:
                if not isinstance(option, ListOf) and child_kind(option, name) is not None:
                    return child_kind(option, name)
            return None
        case _:
            return None


def choice_among(kind: Kind | None, below: Mapping, above: Mapping) -> OneKey | None:
    """The choice that both maps belong to, if they are one-key maps of a choice."""
    match kind:
        case Later():
            return choice_among(kind.resolve(), below, above)
        case OneKey():
            return kind
        case OneOf():
            for option in kind.kinds:
                found = choice_among(option, below, above)
                if found is not None and _chooses(found, below) and _chooses(found, above):
                    return found
            return None
        case _:
            return None


def _chooses(kind: OneKey, node: Mapping) -> bool:
    return len(node) == 1 and node.entries[0].name in kind.by_name
