"""Settings of a layer, typed by the keys of its kind, for its shape rule; where its weights begin.

Assumes: validated settings.
Guarantees: type, default and bounds are those of the language; an error is one diagnostic at its span. `init` becomes
the attributes `init` (the initialiser's name) and `init_value` (its number, where it has one) or `init_file` (of
`values`). The file of a network's `weights` exists; its path is absolute.
Does not: name layers or resolve references (network.py), depend on a kind, or read weights.
"""

from __future__ import annotations

import re
from typing import Final

import compiler.ir.level0.model as l0
from compiler.core.source import Span
from compiler.expr.keys.kinds import Choice, Field, Flag, Kind, ListOf, Name, OneKey, OneOf, Reference, Value
from compiler.frontend.build.shared.initial_values import from_file
from compiler.frontend.build.shared.readers import Reader, chosen
from compiler.frontend.build.shared.values import Context, items_of
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar, Sequence
from compiler.layers import KIND
from compiler.layers.shared.initial import INITIALISER
from compiler.layers.shared.kind import LayerKind, Misfit, Place, Result, Setting, Shape


def init_name(node: Node | None) -> str:
    """The requested initialiser; "" without."""
    if isinstance(node, Scalar):
        return node.text
    return node.entries[0].name if isinstance(node, tree.Mapping) and node.entries else ""


def init_of(node: Node | None, kind: str, c: Context) -> dict[str, l0.Attr]:
    """The attributes; {} without `init`, after an error, or where the weights are loaded."""
    if node is None or "init" in c.unread:
        return {}
    found = chosen(INITIALISER, node, c)
    if found is None:
        return {}
    name, settings, _ = found
    if name == "values":
        if KIND[kind].matrices:
            message = f"`{kind}` has several weights, which one array cannot give"
            c.sink.error("E0802", message, node.span, "give all weights of the network: `network: {weights: ...}`")
            return {}
        place = None if settings.node is None else from_file(settings.node, c, "`init`")
        return {} if place is None else {"init": name, "init_file": place}
    if not settings.kind.fields:
        return {"init": name}
    (key,) = settings.kind.by_name
    size = settings.real(key)
    return {} if size is None else {"init": name, "init_value": size}


_WORD: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)


def settings_of(r: Reader) -> dict[str, Setting]:
    """The values of all typed keys; absent ones have their default, if any."""
    found = {f.name: _setting(r, f) for f in r.kind.fields}
    return {name: value for name, value in found.items() if value is not None}


def _setting(r: Reader, f: Field) -> Setting | None:
    node = r.get(f.name)
    match f.kind:
        case Flag():
            return r.flag(f.name)
        case Choice() | Reference():
            return r.word(f.name) or None
        case OneKey():
            return init_name(node) or None
        case ListOf(Name()):
            return len(items_of(node))
        case ListOf(Value()):
            return r.integers(f.name)
        case Value(integer=integer):
            return r.integer(f.name) if integer else r.real(f.name)
        case OneOf(kinds) if any(isinstance(k, Value) for k in kinds):
            return _one_or_several(r, f, kinds)
    return None


def _one_or_several(r: Reader, f: Field, kinds: tuple[Kind, ...]) -> Setting | None:
    """A word, where the key has words, an integer, or integers of a list."""
    node = r.get(f.name)
    if node is None and isinstance(f.default, str):
        return f.default
    words = any(isinstance(k, Choice | Reference) for k in kinds)
    if words and isinstance(node, Scalar) and _WORD.fullmatch(node.text) and node.text not in r.c.names.scope.kinds:
        return node.text
    return r.integers(f.name) if isinstance(node, Sequence) else r.integer(f.name)


def shaped(kind: LayerKind, r: Reader, source: str, shapes: list[Shape], at: Span) -> Result | None:
    """Shape and attributes of a layer at `at`; None after an error."""
    before = len(r.c.sink.items)
    values = settings_of(r)
    if r.c.sink.failed(before):
        return None
    try:
        return kind.shape(Place(kind.name, source, values), *shapes)
    except Misfit as wrong:
        node = None if wrong.key is None else r.get(wrong.key)
        r.c.sink.error(wrong.code, wrong.message, at if node is None else node.span, wrong.help)
        return None
