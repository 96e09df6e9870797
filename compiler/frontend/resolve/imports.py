"""What a definition of another file brings along: the functions, definitions, classes, phases and tables that its text
names.

A name in a definition means what it means in the definition's own file, as far as that file declares it; other names
mean what they mean in the model (`trial` of a phase, for instance, where the model declares its own).

Assumes: files as use.py loads them.
Guarantees: `qualified` turns references to definitions of the same file into references from another folder;
`brought` gives every phase, and every lookup table, that a block reads.
Does not: look into expressions beyond the names of phases (functions are found by the file of each expression,
frontend/build/shared/scope.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from collections.abc import Mapping as Mapping_
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compiler.core.names import numbered_name
from compiler.core.source import Span
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence, with_entries, with_items, without

_PART: Final = r"""[^\s"'`\[\]{},#:]"""
REFERENCE: Final = re.compile(rf"(?:((?<!{_PART}){_PART}+\.ya?ml)|library/([A-Za-z][A-Za-z0-9_]*))#")
"""A reference to a definition of a file (1), or of a file of the library (2)."""

_REFERENCES: Final = (("neuron", "neurons"), ("synapse", "synapses"), ("source", "currents"))
_READ: Final = re.compile(r"(?<![\w.])([A-Za-z][A-Za-z0-9_]*)\.[A-Za-z]")
_CALL: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?=\s*\()")


@dataclass(frozen=True)
class File:
    """A loaded file: its tree, its folder and the folder's name in messages."""

    root: Mapping
    folder: Path
    shown: str  # "" or ending in "/"

    def declares(self, collection: str) -> Mapping | None:
        """The definitions of one kind in the file."""
        blocks = self.root.get(collection)
        return blocks if isinstance(blocks, Mapping) else None


def referred_files(text: str) -> set[tuple[str, bool]]:
    """The files that a text may refer to: (path, False), or (name, True) for one of the library."""
    return {(m[1] or m[2], m[1] is None) for m in REFERENCE.finditer(text)}


def qualified(block: Mapping, file: File, prefix: str) -> Mapping:
    """`block` of `file`, with names of the file's own definitions written as they are from where `prefix` ("lib.yaml",
    "library/axon") means the file; `block` itself where it names none."""
    entries: list[Entry] = []
    changed = False
    for entry in block.entries:
        value = entry.value
        collection = dict(_REFERENCES).get(entry.name)
        if isinstance(value, Scalar) and isinstance(value.value, str) and collection is not None:
            text = _from_outside(value.text, collection, file, prefix)
            value = value if text == value.text else Scalar(text, text, True, value.span)
        elif entry.name == "current" and isinstance(value, Mapping):
            value = qualified(value, file, prefix)
        elif entry.name == "classes" and isinstance(value, Sequence):
            items = [_class_from_outside(item, file, prefix) for item in value.items]
            same = all(a is b for a, b in zip(items, value.items, strict=True))
            value = value if same else with_items(value, items)
        changed |= value is not entry.value
        entries.append(entry if value is entry.value else Entry(entry.key, value))
    return with_entries(block, entries) if changed else block


def _class_from_outside(item: Node, file: File, prefix: str) -> Node:
    if not isinstance(item, Scalar) or not isinstance(item.value, str):
        return item
    text = _from_outside(item.text, "classes", file, prefix)
    return item if text == item.text else Scalar(text, text, True, item.span)


def _from_outside(text: str, collection: str, file: File, prefix: str) -> str:
    declared = file.declares(collection)
    if declared is not None and text in declared:
        return f"{prefix}#{text}"
    if "#" in text and not text.startswith(("library/", "/")):
        return prefix.rpartition("/")[0] + "/" + text if "/" in prefix else text
    return text


def brought(
    collection: str, blocks: Iterable[Node], files: Mapping_[str, File], known: Container[str]
) -> dict[str, Entry]:
    """The phases, or lookup tables, by name, that texts of `blocks` read and that the file of the text declares
    (`files`, by the name in messages), other than those `known`."""
    found: dict[str, Entry] = {}
    named = _READ if collection == "phases" else _CALL
    for text, span in (t for b in blocks for t in _texts(b)):
        file = files.get(span.file.path)
        declared = None if file is None else file.declares(collection)
        for name in () if declared is None else named.findall(text):
            entry = None if declared is None else declared.entry(name)
            if entry is not None and name not in known:
                found.setdefault(name, entry)
    return found


def _texts(block: Node) -> Iterator[tuple[str, Span]]:
    """The keys and texts of a block, each with its span."""
    match block:
        case Scalar(value=str()):
            yield block.text, block.span
        case Mapping(entries=entries):
            for entry in entries:
                yield entry.name, entry.key.span
                yield from _texts(entry.value)
        case Sequence(items=items):
            for item in items:
                yield from _texts(item)


def with_functions(tree: Mapping, files: Iterable[File]) -> Mapping:
    """`tree` with the functions of `files` that texts from there call, so that it says the same in a file of its own;
    where two of them, or one of the model, have the same name, the later one gets another."""
    declared = {f.root.span.file.path: _functions(f) for f in files}
    alone = Counter(name for functions in declared.values() for name in functions)
    block = tree.get("functions")
    own = block if isinstance(block, Mapping) else Mapping((), tree.span)
    known = {e.name.partition("(")[0].strip() for e in own.entries}
    taken = set(known)
    names: dict[tuple[str, str], str] = {}
    entries: list[Entry] = []

    def renamed(text: str, path: str) -> str:
        return _CALL.sub(lambda m: _name(m[1], path), text)

    def _name(name: str, path: str) -> str:
        home = path if name in declared.get(path, {}) else ""
        if not home and alone[name] == 1 and (path in declared or name not in known):
            home = next(p for p, functions in declared.items() if name in functions)
        function = declared.get(home, {}).get(name)
        if function is None or (home, name) in names:
            return names.get((home, name), name)
        new = names[home, name] = numbered_name(name, taken)
        taken.add(new)
        at = len(entries)
        head = new + function.name.strip().removeprefix(name)
        entries.insert(at, Entry(Scalar(head, head, True, function.key.span), copied(function.value)))
        return new

    def copied(node: Node) -> Node:
        match node:
            case Scalar(value=str()):
                text = renamed(node.text, node.span.file.path)
                return node if text == node.text else Scalar(text, text, node.plain, node.span)
            case Mapping(entries=members):
                return with_entries(node, [Entry(e.key, copied(e.value)) for e in members])
            case Sequence(items=items):
                return with_items(node, [copied(i) for i in items])
        return node

    found = copied(tree) if any(declared.values()) else tree
    assert isinstance(found, Mapping)
    if not entries:
        return tree
    kept = without(found, "functions")
    whole = Entry(Scalar("functions", "functions", True, own.span), with_entries(own, (*own.entries, *entries)))
    return with_entries(kept, (kept.entries[0], whole, *kept.entries[1:]))


def _functions(file: File) -> dict[str, Entry]:
    """The functions of a file, by name."""
    block = file.declares("functions")
    return {} if block is None else {e.name.partition("(")[0].strip(): e for e in block.entries}
