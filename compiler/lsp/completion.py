"""What may be written at a cursor: keys, names that are declared, words of choices.

Assumes: the tree of the text (compiler/lsp/outline.py) and the names that it declares (compiler/lsp/scope.py).
Guarantees: what is offered is allowed there: no key that is there already or excludes one, only names of the right
kind; inside of `{` and behind `[`, too.
Does not: rank: the client does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import compiler.expr.keys.kinds as spec
from compiler.expr.units import UNITS
from compiler.frontend.schema.json_schema import hover
from compiler.frontend.yaml.tree import Mapping
from compiler.lsp.outline import Cursor
from compiler.lsp.places import flat, kinds_at, node_at
from compiler.lsp.scope import Scope

_WORD = re.compile(r"[A-Za-z_][\w.]*\Z", re.ASCII)


@dataclass(frozen=True)
class Offer:
    """One completion. `what`: "key", "name" or "word"; `insert` replaces the characters from `start` to the cursor."""

    label: str
    insert: str
    start: int
    what: str
    detail: str = ""
    doc: str = ""


def complete(cursor: Cursor, text: str, at: int, scope: Scope) -> list[Offer]:
    """What may be written at `cursor`, the character offset `at` of `text`."""
    word = text[cursor.start : at]
    if "language" not in scope.root and any(e.key.span.start != cursor.start for e in scope.root.entries):
        return []  # another program's file
    kinds = kinds_at(cursor.path, scope.root)
    bare = cursor.start > 0 and text[cursor.start - 1] in "'\""
    found: list[Offer] = []
    if cursor.mode in ("key", "either"):
        found += _keys(cursor, kinds, scope, at, text)
    elif cursor.mode == "value":  # of a map, only one that makes a choice begins here
        found += _keys(cursor, tuple(k for k in kinds if isinstance(k, spec.OneKey)), scope, at, text)
    if cursor.mode == "item":
        outer = kinds_at(cursor.path[:-1], scope.root)
        items = tuple(flat(k.item for k in outer if isinstance(k, spec.ListOf)))
        for offer in _keys(cursor, items, scope, at, text):
            found.append(Offer(offer.label, f"- {offer.insert}", offer.start, offer.what, offer.detail, offer.doc))
    if cursor.mode in ("value", "either"):
        found += _values(cursor, kinds, scope, word, at)
    unique = {o.label: o for o in reversed(found)}
    offers = list(reversed(unique.values()))
    return [o for o in offers if o.what != "key"] if bare else offers


def _keys(cursor: Cursor, kinds: tuple[spec.Kind, ...], scope: Scope, at: int, text: str) -> Iterator[Offer]:
    node = node_at(cursor.path, scope.root)
    there = {e.name for e in node.entries if e.key.span.start != cursor.start} if isinstance(node, Mapping) else set()
    written = text[at : at + 1] == ":"

    def offer(name: str, kind: spec.Kind | None, detail: str, doc: str) -> Offer:
        inline = cursor.flow or kind is None or any(isinstance(k, spec.ScalarKind) for k in flat((kind,)))
        insert = name if written else f"{name}: " if inline else f"{name}:"
        if cursor.mode == "value" or (cursor.flow and cursor.mode == "either"):
            insert = f"{{{name}: "
        return Offer(name, insert, cursor.start, "key", detail, doc)

    for kind in kinds:
        for name, value, detail, doc in _names(kind, cursor, scope, there):
            if name not in there:
                yield offer(name, value, detail, doc)


def _names(
    kind: spec.Kind, cursor: Cursor, scope: Scope, there: set[str]
) -> Iterator[tuple[str, spec.Kind | None, str, str]]:
    """The keys of a kind of map in which `there` are: name, kind of the value, detail and documentation."""
    match kind:
        case spec.Block():
            excluded = {k for group in kind.one_of if there.intersection(group) for k in group}
            fields = (f for f in kind.fields if f.supported and f.name not in excluded)
            yield from ((f.name, f.kind, "required" if f.required else "", hover(f)) for f in fields)
        case spec.OneKey() if not there:
            yield from ((a.name, a.kind, kind.noun, _doc(a)) for a in kind.alternatives if a.supported)
            own = scope.names("optimizers") if kind.own is not None and kind.noun == "optimizer" else ()
            yield from ((name, kind.own, kind.noun, "") for name in own)
        case spec.MapOf():
            yield from ((name, kind.value, detail, "") for name, detail in scope.keys(cursor.path).items())


def _values(cursor: Cursor, kinds: tuple[spec.Kind, ...], scope: Scope, word: str, at: int) -> Iterator[Offer]:
    for kind in kinds:
        for value, detail, doc in _words(kind):
            yield Offer(value, value, cursor.start, "word", detail, doc)
        match kind:
            case spec.Reference(to, _, _, known):
                names = scope.references(to, cursor.path) | {k: to for k in known}
                for name, detail in names.items():
                    yield Offer(name, name, cursor.start, "name", detail)
            case spec.Pattern("a variable" | "an event" as what):
                for name, detail in scope.references(what.split()[1], cursor.path).items():
                    yield Offer(name, name, cursor.start, "name", detail)
            case spec.Expression() | spec.Statement() | spec.Value():
                yield from _in_expression(cursor, scope, word, at)
            case spec.ListOf() if cursor.mode == "either" and not cursor.flow:
                yield Offer("-", "- ", cursor.start, "word", "an item")


def _words(kind: spec.Kind) -> Iterator[tuple[str, str, str]]:
    """The words that a kind of value chooses from: word, detail and documentation."""
    match kind:
        case spec.Choice():
            yield from ((o.value, kind.noun, o.doc) for o in kind.options if o.supported)
        case spec.Flag():
            yield from (("true", "", ""), ("false", "", ""))
        case spec.Constant(value):
            yield str(value), "", ""
        case spec.OneKey(bare=True):
            free = (a for a in kind.alternatives if not (isinstance(a.kind, spec.Block) and a.kind.required))
            yield from ((a.name, kind.noun, _doc(a)) for a in free if a.supported)
        case spec.Text("a unit"):
            yield from ((name, "unit", "") for name in UNITS)


def _in_expression(cursor: Cursor, scope: Scope, word: str, at: int) -> Iterator[Offer]:
    """The names that the last word of an expression may be."""
    last = _WORD.search(word)
    if word and last is None and word[-1:].isdigit():
        return
    start = at if last is None else at - len(last[0])
    for name, detail in scope.in_expressions(cursor.path).items():
        yield Offer(name, name, start, "name", detail)


def _doc(a: spec.Alternative) -> str:
    return hover(spec.Field(a.name, a.kind, a.doc, example=a.example))
