"""Parameters that are words: `params: {act: {value: relu, type: choice, choices: [relu, tanh]}}`.

Where a scalar or a key outside of `params` and `sweep` is the parameter's name, it becomes the chosen word:
`activation: act`, `neuron: cell`, `optimizer: {method: {learning_rate: 1e-3}}`.

Assumes: a located tree as the loader gives it.
Guarantees: after `choose` no parameter of this type is left, neither in the tree nor in the settings.
Does not: check where the words stand (the validator sees what is chosen).
"""

from __future__ import annotations

from collections.abc import Mapping as Settings

import compiler.frontend.yaml.tree as tree
from compiler.core.diagnostics import Sink
from compiler.frontend.schema.wording import suggested

_UNCHANGED = frozenset({"params", "sweep", "name", "description", "language"})


def choose(root: tree.Mapping, settings: Settings[str, str], sink: Sink) -> tuple[tree.Mapping, dict[str, str]]:
    """`root` and the settings without parameters that are words. Errors: E0103, E0205, E0102."""
    block = root.get("params")
    entries = block.entries if isinstance(block, tree.Mapping) else ()
    words = {
        e.name: e.value for e in entries if isinstance(e.value, tree.Mapping) and _text(e.value.get("type")) == "choice"
    }
    if not words or not isinstance(block, tree.Mapping):
        return root, dict(settings)
    chosen: dict[str, str] = {}
    for entry in entries:
        if entry.name in words:
            word = _chosen(entry, words[entry.name], settings, sink)
            if word is not None:
                chosen[entry.name] = word
    changed = [e if e.name in _UNCHANGED else tree.Entry(e.key, _replaced(e.value, chosen)) for e in root.entries]
    rest = tree.without(block, *words)
    root = tree.with_entries(root, changed)
    root = tree.with_entry(root, "params", rest) if rest.entries else tree.without(root, "params")
    return root, {n: v for n, v in settings.items() if n not in words}


def _chosen(entry: tree.Entry, fields: tree.Mapping, settings: Settings[str, str], sink: Sink) -> str | None:
    """The word of a parameter; None after an error."""
    listed = fields.get("choices")
    if not isinstance(listed, tree.Sequence) or not listed.items:
        help = "for example `choices: [relu, tanh]`"
        sink.error("E0103", f"parameter `{entry.name}` lacks its `choices`", entry.key.span, help)
        return None
    words = [_text(item) for item in listed.items]
    for bound in ("min", "max"):
        if (wrong := fields.entry(bound)) is not None:
            sink.error("E0108", f"`{bound}` is for numbers; `{entry.name}` is a choice", wrong.key.span)
    value = fields.get("value")
    word = settings.get(entry.name, _text(value))
    if word not in words:
        given = entry.name in settings
        where = f"`--set {entry.name}`" if given else f"the value of `{entry.name}`"
        span = None if given else (entry.key if value is None else value).span
        sink.error("E0205", f"{where} is `{word}`", span, suggested(word, "choices are", words))
        return None
    return word


def _text(node: tree.Node | None) -> str:
    return node.text if isinstance(node, tree.Scalar) else ""


def _replaced(node: tree.Node, chosen: Settings[str, str]) -> tree.Node:
    match node:
        case tree.Scalar(text=text) if text in chosen and isinstance(node.value, str):
            return _word(node, chosen)
        case tree.Mapping(entries=entries):
            new = [tree.Entry(_word(e.key, chosen), _replaced(e.value, chosen)) for e in entries]
            same = all(a.key is b.key and a.value is b.value for a, b in zip(new, entries, strict=True))
            return node if same else tree.with_entries(node, new)
        case tree.Sequence(items=items):
            parts = [_replaced(i, chosen) for i in items]
            return node if all(a is b for a, b in zip(parts, items, strict=True)) else tree.with_items(node, parts)
    return node


def _word(scalar: tree.Scalar, chosen: Settings[str, str]) -> tree.Scalar:
    word = chosen.get(scalar.text)
    return scalar if word is None else tree.Scalar(word, word, True, scalar.span)
