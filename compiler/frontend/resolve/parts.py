"""Named parts of statement lists.

    update:
      - gather: [g = g + ge]
      - special: []
      - membrane: ["v = v + dt * (g - v) / tau"]

A definition that uses this one replaces a part by its name, `update: {special: [g = 2 * g]}`, and keeps the others and
their order. Unnamed statements may stand between parts.

Assumes: kinds of statement lists are those of compiler/expr/keys/values.py (`statements`).
Guarantees: after `flattened` a list holds statements only, in the order of its parts.
Does not: look into statements.
"""

from __future__ import annotations

from compiler.core.diagnostics import Sink
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Sequence, with_entries, with_items

_LISTS = frozenset({"update", "on_pre", "on_post", "on_spike", "reset"})
_HANDLERS = frozenset({"on", "events"})


def replaces_parts(below: Node, above: Node) -> bool:
    """Whether `above` replaces parts of the list `below` by their names."""
    return isinstance(below, Sequence) and isinstance(above, Mapping) and any(_part(i) is not None for i in below.items)


def with_parts(below: Sequence, above: Mapping, sink: Sink) -> Sequence:
    """`below` with the parts of `above` in place of those of the same name; E0203 for a name without a part."""
    names = [part.name for i in below.items if (part := _part(i)) is not None]
    for entry in above.entries:
        if entry.name not in names:
            help = suggested(entry.name, "its parts are", names)
            sink.error("E0203", f"the list that is taken over has no part `{entry.name}`", entry.key.span, help)
    items: list[Node] = []
    for item in below.items:
        part = _part(item)
        new = None if part is None else above.entry(part.name)
        items.append(item if new is None else Mapping((new,), above.span))
    return with_items(below, items)


def flattened(block: Mapping, sink: Sink) -> Mapping:
    """A definition with the parts of all its statement lists joined; `block` itself where there are none."""
    entries: list[Entry] = []
    changed = False
    for entry in block.entries:
        value = entry.value
        if entry.name in _LISTS:
            value = _joined(entry, sink)
        elif entry.name in _HANDLERS and isinstance(value, Mapping):
            value = _handlers(value, sink)
        elif isinstance(value, Mapping):
            value = flattened(value, sink)
        changed |= value is not entry.value
        entries.append(entry if value is entry.value else Entry(entry.key, value))
    return with_entries(block, entries) if changed else block


def _handlers(block: Mapping, sink: Sink) -> Mapping:
    """Statement lists by event, or blocks with such lists; without lists all of whose parts are empty."""
    new = [Entry(e.key, _handler(e, sink)) for e in block.entries]
    if all(a.value is b.value for a, b in zip(new, block.entries, strict=True)):
        return block
    emptied = [_is_empty(a.value) and a.value is not b.value for a, b in zip(new, block.entries, strict=True)]
    return with_entries(block, [e for e, gone in zip(new, emptied, strict=True) if not gone])


def _is_empty(value: Node) -> bool:
    return isinstance(value, Sequence) and not value.items


def _handler(entry: Entry, sink: Sink) -> Node:
    value = entry.value
    return flattened(value, sink) if isinstance(value, Mapping) and not _only_lists(value) else _joined(entry, sink)


def _only_lists(block: Mapping) -> bool:
    return bool(block.entries) and all(isinstance(e.value, Sequence) and e.name not in _LISTS for e in block.entries)


def _joined(entry: Entry, sink: Sink) -> Node:
    """The list of an entry without parts."""
    value = entry.value
    if isinstance(value, Mapping):
        help = "write the statements as a list; a map replaces parts of a list that `use` takes over, by their names"
        sink.error("E0203", f"`{entry.name}` has no parts that could be replaced", entry.key.span, help)
        return Sequence((), value.span)
    if not isinstance(value, Sequence) or not any(_part(i) is not None for i in value.items):
        return value
    items: list[Node] = []
    seen: set[str] = set()
    for item in value.items:
        part = _part(item)
        if part is None:
            items.append(item)
            continue
        if part.name in seen:
            sink.error("E0212", f"two parts of `{entry.name}` are called `{part.name}`", part.key.span)
        seen.add(part.name)
        assert isinstance(part.value, Sequence)
        items.extend(part.value.items)
    return with_items(value, items)


def _part(item: Node) -> Entry | None:
    """The part that an item of a list is; None for a statement."""
    single = isinstance(item, Mapping) and len(item.entries) == 1 and isinstance(item.entries[0].value, Sequence)
    return item.entries[0] if isinstance(item, Mapping) and single else None
