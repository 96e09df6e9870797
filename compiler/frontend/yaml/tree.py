"""The located tree: the syntax tree of a YAML file with a span on every node, before interpretation.

Assumes: spans from compiler.core.source.
Guarantees: nodes are frozen; equality is structural and ignores spans; the depth of a tree is bounded by the loader
(compiler/frontend/yaml/yaml12.py), so functions here may recurse. Subtrees may be shared.
Does not: depend on the language's keys, read files or check types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from compiler.core.source import NOWHERE, Origin, Span
from compiler.frontend.yaml import core_schema
from compiler.frontend.yaml.core_schema import Value

Plain: TypeAlias = Value | list["Plain"] | dict[str, "Plain"]


# Nodes are frozen by `Final`, as spans are (compiler/core/source.py): a large file has a million of
# them.


@dataclass(slots=True, unsafe_hash=True)
class Scalar:
    """One scalar: `text`: its content after unquoting; `value`: its value in the YAML 1.2 core schema."""

    value: Final[Value]
    text: Final[str]
    plain: Final[bool]
    span: Final[Span] = field(compare=False, repr=False)


@dataclass(slots=True, unsafe_hash=True)
class Entry:
    """One `key: value` of a mapping. `key.value` is always a string."""

    key: Final[Scalar]
    value: Final[Node]

    @property
    def name(self) -> str:
        return self.key.text


@dataclass(slots=True, unsafe_hash=True)
class Mapping:
    """Entries in the order of the file; keys are unique."""

    entries: Final[tuple[Entry, ...]]
    span: Final[Span] = field(compare=False, repr=False)
    _index: dict[str, Entry] | None = field(default=None, init=False, compare=False, repr=False)

    def entry(self, name: str) -> Entry | None:
        index = self._index
        if index is None:
            # Built on first use: most mappings of a large file are only iterated.
            index = self._index = {e.key.text: e for e in self.entries}
        return index.get(name)

    def get(self, name: str) -> Node | None:
        """The value under `name`, or None."""
        entry = self.entry(name)
        return None if entry is None else entry.value

    def keys(self) -> Iterator[str]:
        return (e.key.text for e in self.entries)

    def __contains__(self, name: str) -> bool:
        return self.entry(name) is not None

    def __len__(self) -> int:
        return len(self.entries)


@dataclass(slots=True, unsafe_hash=True)
class Sequence:
    """Items in order."""

    items: Final[tuple[Node, ...]]
    span: Final[Span] = field(compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.items)


Node: TypeAlias = Scalar | Mapping | Sequence


def kind_of(node: Node) -> str:
    """The user-facing name of the kind of `node`: "a mapping", "a list", "a string", "a number", ..."""
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar(value=None):
            return "nothing"
        case Scalar(value=bool()):
            return "true or false"
        case Scalar(value=str()):
            return "a string"
        case _:
            return "a number"


def with_entries(old: Mapping, entries: Iterable[Entry]) -> Mapping:
    """`old` with other entries, at the same span."""
    return Mapping(tuple(entries), old.span)


def with_values(old: Mapping, new: Callable[[Entry], Node]) -> Mapping:
    """`old` with the value of each entry that `new` gives; `old` itself where none is another."""
    values = [new(e) for e in old.entries]
    if all(v is e.value for v, e in zip(values, old.entries, strict=True)):
        return old
    return Mapping(tuple(Entry(e.key, v) for v, e in zip(values, old.entries, strict=True)), old.span)


def with_items(old: Sequence, items: Iterable[Node]) -> Sequence:
    """`old` with other items, at the same span."""
    return Sequence(tuple(items), old.span)


def without(old: Mapping, *names: str) -> Mapping:
    """`old` less the entries called `names`; `old` itself when it has none of them."""
    kept = tuple(e for e in old.entries if e.key.text not in names)
    return old if len(kept) == len(old.entries) else Mapping(kept, old.span)


def with_entry(old: Mapping, name: str, value: Node) -> Mapping:
    """`old` with the value under `name` replaced, or added at the end."""
    if old.entry(name) is None:
        key = Scalar(name, name, True, value.span)
        return Mapping((*old.entries, Entry(key, value)), old.span)
    changed = (Entry(e.key, value) if e.key.text == name else e for e in old.entries)
    return Mapping(tuple(changed), old.span)


def with_origin(node: Node, origin: Origin) -> Node:
    """A copy of `node` in which every span records `origin`.

    `origin` is the newest and therefore outermost step: it is appended to the existing steps of a span.
    """
    # Nodes of one subtree nearly always share their chain, so each distinct chain is rebuilt once.
    chains: dict[int, tuple[Origin | None, Origin]] = {}

    def located(span: Span) -> Span:
        known = chains.get(id(span.via))
        if known is None:
            known = (span.via, append_origin(span.via, origin))
            chains[id(span.via)] = known
        return Span(span.file, span.start, span.end, known[1])

    def walk(n: Node) -> Node:
        match n:
            case Scalar(value, text, plain, span):
                return Scalar(value, text, plain, located(span))
            case Mapping(entries, span):
                return Mapping(
                    tuple(
                        Entry(
                            Scalar(e.key.value, e.key.text, e.key.plain, located(e.key.span)),
                            walk(e.value),
                        )
                        for e in entries
                    ),
                    located(span),
                )
            case Sequence(items, span):
                return Sequence(tuple(walk(i) for i in items), located(span))

    return walk(node)


def append_origin(chain: Origin | None, outer: Origin) -> Origin:
    """`chain` (innermost first) with `outer` as its new last, outermost step."""
    if chain is None:
        return outer
    return replace(chain, parent=append_origin(chain.parent, outer))


def texts(node: Node | None, but: str = "") -> Iterator[Scalar]:
    """The texts at and below `node`, in order; `but`: not those under a key of this name."""
    match node:
        case Scalar(value=str()):
            yield node
        case Mapping(entries=entries):
            for e in entries:
                if e.key.text != but:
                    yield from texts(e.value, but)
        case Sequence(items=items):
            for item in items:
                yield from texts(item, but)


def within(scalar: Scalar, start: int, end: int) -> Span:
    """The span of characters [start, end) of `scalar.text`, where the source shows them one to one.

    A quoted scalar with escapes, or one folded over several lines, gives the span of the whole
    scalar.
    """
    span = scalar.span
    written = span.file.text[span.start : span.end]
    for shift in (0, 1):
        if written[shift : shift + len(scalar.text)] == scalar.text:
            at = span.start + shift
            return Span(span.file, at + start, at + max(end, start), span.via)
    return span


def to_plain(node: Node) -> Plain:
    """`node` as dicts, lists and scalars of plain Python."""
    match node:
        case Scalar(value=value):
            return value
        case Mapping(entries=entries):
            return {e.key.text: to_plain(e.value) for e in entries}
        case Sequence(items=items):
            return [to_plain(i) for i in items]


def scalar(value: Value, span: Span = NOWHERE) -> Scalar:
    """A scalar without source text, in YAML syntax."""
    match value:
        case None:
            text = "null"
        case bool():
            text = "true" if value else "false"
        case str():
            text = value
        case float() if math.isnan(value):
            value, text = core_schema.NAN, ".nan"
        case float() if math.isinf(value):
            text = ".inf" if value > 0 else "-.inf"
        case _:
            text = repr(value)
    plain = not isinstance(value, str) or core_schema.resolve(text) == value
    return Scalar(value, text, plain, span)


def from_plain(value: object, span: Span = NOWHERE) -> Node:
    """A tree for dicts, lists and scalars of plain Python; every node gets `span`.

    Raises TypeError for anything else and for keys that are no strings.
    """
    match value:
        case None | bool() | int() | float() | str():
            return scalar(value, span)
        case dict():
            entries = []
            for key, item in value.items():
                if not isinstance(key, str):
                    raise TypeError(f"a mapping key must be a string, not {key!r}")
                entries.append(Entry(Scalar(key, key, True, span), from_plain(item, span)))
            return Mapping(tuple(entries), span)
        case list() | tuple():
            return Sequence(tuple(from_plain(i, span) for i in value), span)
        case _:
            raise TypeError(f"no YAML form for {type(value).__name__}")
