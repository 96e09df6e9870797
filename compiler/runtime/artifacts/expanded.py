"""The model with `use`, `for`, `repeat` and classes expanded and `--set` applied, as YAML that can be read again.

Assumes: a file that has been checked.
Guarantees: loading the text gives the same model; paths of data files still count from the folder of the original file,
which the first line names, and run.json for `netloom evaluate`. `sweep` is left out: its settings have been made.
Does not: inline the standard library, which is referred to by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Settings
from pathlib import Path

from compiler.core.diagnostics import Sink
from compiler.core.yaml_text import quoted
from compiler.expr.units import canonical_name
from compiler.frontend.load import data_folder
from compiler.frontend.resolve.choices import choose
from compiler.frontend.resolve.imports import with_functions
from compiler.frontend.resolve.resolve import resolve
from compiler.frontend.resolve.use import LibraryFinder
from compiler.frontend.resolve.values import ParamValue
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence, scalar, with_entry, without
from compiler.frontend.yaml.yaml12 import load_file

WIDTH = 100
_FLOW_SPECIAL = re.compile(r"[,\[\]{}]|: |:$| #|^[!&*|>%@`\"'#]|^[-?:](?:\s|$)")


def expanded_yaml(path: Path, settings: Settings[str, str], folder: Path | None = None) -> str:
    """The expanded text of a model file whose paths count from `folder` (default: its own). Raises ModelError."""
    sink = Sink()
    root = load_file(path, sink)
    sink.check()
    assert isinstance(root, Mapping)
    folder = folder or data_folder(path)
    root, settings = choose(root, settings, sink)
    resolved = resolve(without(root, "sweep"), settings, sink, folder, LibraryFinder())
    sink.check()
    tree = with_functions(_with_settings(resolved.root, resolved.params), resolved.uses.imported())
    lines = [f"# {path.name}, expanded; paths count from {folder}"]
    _mapping(tree, "", lines)
    return "\n".join(lines) + "\n"


def _with_settings(root: Mapping, params: Settings[str, ParamValue]) -> Mapping:
    """`root` whose `params` have the values that `--set` gave."""
    block = root.get("params")
    if not isinstance(block, Mapping) or not any(p.changed for p in params.values()):
        return root
    for p in params.values():
        entry = block.get(p.name)
        if p.changed and isinstance(entry, Mapping):
            block = with_entry(block, p.name, with_entry(entry, "value", _value(p)))
        elif p.changed:
            block = with_entry(block, p.name, _value(p))
    return with_entry(root, "params", block)


def _value(p: ParamValue) -> Node:
    number = isinstance(p.value, int | float) and not isinstance(p.value, bool)
    if number and not p.dimension.dimensionless:
        return scalar(f"{p.value!r} {canonical_name(p.dimension)}")
    return scalar(p.value)


def _mapping(node: Mapping, indent: str, lines: list[str]) -> None:
    for entry in node.entries:
        _entry(entry, indent, "", lines)


def _entry(entry: Entry, indent: str, lead: str, lines: list[str]) -> None:
    """`key: value` after `lead` ("" or "- ")."""
    head = f"{indent}{lead}{_word(entry.key, flow=False)}:"
    value = entry.value
    flat = _flow(value, WIDTH - len(head) - 1)
    if flat is not None:
        lines.append(f"{head} {flat}")
        return
    lines.append(head)
    inner = indent + "  " * (1 + bool(lead))
    if isinstance(value, Mapping):
        _mapping(value, inner, lines)
    else:
        assert isinstance(value, Sequence)
        for item in value.items:
            _item(item, inner, lines)


def _item(item: Node, indent: str, lines: list[str]) -> None:
    flat = _flow(item, WIDTH - len(indent) - 2)
    if flat is not None:
        lines.append(f"{indent}- {flat}")
    elif isinstance(item, Mapping):
        first, *rest = item.entries
        _entry(first, indent, "- ", lines)
        for entry in rest:
            _entry(entry, indent + "  ", "", lines)
    else:
        assert isinstance(item, Sequence)
        lines.append(f"{indent}-")
        for inner in item.items:
            _item(inner, indent + "  ", lines)


def _flow(node: Node, room: int) -> str | None:
    """The node on one line; None for a collection that does not fit or holds collections of collections."""
    if isinstance(node, Scalar):
        return _word(node, flow=False)
    if _depth(node, 3) > 2 and len(node) > 1:
        return None
    text = _inline(node)
    return text if len(text) <= room or len(node) == 0 else None


def _depth(node: Node, most: int) -> int:
    if isinstance(node, Scalar) or most == 0:
        return 0
    inner = (e.value for e in node.entries) if isinstance(node, Mapping) else iter(node.items)
    return 1 + max((_depth(n, most - 1) for n in inner), default=0)


def _inline(node: Node) -> str:
    if isinstance(node, Scalar):
        return _word(node, flow=True)
    if isinstance(node, Sequence):
        return "[" + ", ".join(_inline(i) for i in node.items) + "]"
    return "{" + ", ".join(f"{_word(e.key, flow=True)}: {_inline(e.value)}" for e in node.entries) + "}"


def _word(node: Scalar, flow: bool) -> str:
    """A scalar as it was written, in quotes where it had some or needs some here."""
    if node.plain and node.text.isprintable() and node.text and not (flow and _FLOW_SPECIAL.search(node.text)):
        return node.text
    if node.plain and not isinstance(node.value, str):
        return node.text or "null"
    return quoted(node.text)
