"""Mutations of a valid model file: one mistake per node and kind of mistake, as texts.

Assumes: the file loads without an error.
Guarantees: the same mistakes for the same text; a mistake records its span in the altered text and the affected names,
so that follow-up errors can be identified.
Does not: load anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from compiler.core.diagnostics import Diagnostic, Severity
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence

LIBRARY = Path(__file__).parents[2] / "models" / "library"
_WORD = re.compile(r"[A-Za-z_]\w*")
_QUANTITY = re.compile(r"(-?[\d.]+(?:e-?\d+)?) ([A-Za-z]\w*)")
_WORDS_OF_THE_LANGUAGE = frozenset(["and", "or", "not", "if", "else", "all", "true", "false", "auto", "t", "dt"])
_NAMES = frozenset(["E0201", "E0302", "E0303", "E0310"])
_OF_CLASSES = frozenset(["E0103", "E0201", "E0213"])
"""What is said where a population is no longer of a class that others name."""
_SIZES = frozenset(["E0106", "E0201", "E0703"])
_UNITS = frozenset(["E0401", "E0402", "E0404"])


@dataclass(frozen=True)
class Mistake:
    """`text` is the file with one mistake, `kind` of it, at [start, end) of `text`. `names`: those removed or altered
    by the mistake; each of their uses may be an error."""

    kind: str
    place: str
    text: str
    start: int
    end: int
    names: frozenset[str]


def mistakes(text: str, root: Mapping) -> Iterator[Mistake]:
    """Every mistake of every node of `root`, which is the tree of `text`."""
    for path, entry, node in _nodes(root, ()):
        yield from _of_node(text, path, entry, node)


def _nodes(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Entry | None, Node]]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            if not entry.name.startswith("x-"):
                yield (*path, entry.name), entry, entry.value
                yield from _nodes(entry.value, (*path, entry.name))
    elif isinstance(node, Sequence):
        for k, item in enumerate(node.items):
            yield (*path, str(k)), None, item
            yield from _nodes(item, (*path, str(k)))


def _of_node(text: str, path: tuple[str, ...], entry: Entry | None, node: Node) -> Iterator[Mistake]:
    def made(kind: str, start: int, end: int, new: str, names: set[str] | frozenset[str] = frozenset()) -> Mistake:
        altered = text[:start] + new + text[end:]
        of_a_class = {path[1]} if len(path) > 2 and path[2].startswith("classes") else set()
        known = frozenset({path[-1], *names, *of_a_class}) - _WORDS_OF_THE_LANGUAGE
        return Mistake(kind, ".".join(path), altered, start, start + len(new), known)

    at, in_library = node.span, len(path) == 2 and (LIBRARY / path[0] / f"{path[1]}.yaml").exists()
    if path[-1] in ("description", "language") or "description" in path:
        return
    if isinstance(node, Scalar) and at.start < at.end:
        yield from (made(*m) for m in _of_scalar(text, node))
    if at.start < at.end:
        yield made("wrong type", at.start, at.end, "[[7]]" if isinstance(node, Scalar) else "7.5", _declared(node))
    if entry is not None:
        key = entry.key.span
        new = text[key.start : key.end].rstrip("\"'") + "zq" + ('"' if text[key.end - 1] == '"' else "")
        if not in_library:
            yield made("unknown key", key.start, key.end, new, {path[-1] + "zq", *_declared(node)})
        if path[-1] != "use" and not in_library:  # without it, the definition is another one
            start, end = _whole(text, entry)
            yield made("missing", start, end, "", _declared(node))


def _declared(node: Node) -> set[str]:
    """All words below a node that is taken away."""
    match node:
        case Mapping():
            return {w for e in node.entries for w in _WORD.findall(e.name)}.union(
                *(_declared(e.value) for e in node.entries)
            )
        case Sequence():
            return set[str]().union(*(_declared(i) for i in node.items))
        case Scalar():
            return set(_WORD.findall(node.text))


def _of_scalar(text: str, node: Scalar) -> Iterator[tuple[str, int, int, str, set[str]]]:
    at = node.span
    inside = text[at.start : at.end]
    quantity = _QUANTITY.search(inside)
    target = re.match(r"\W*(\w+) *[-+*/]?= ", inside)
    touched = {target[1]} if target else set[str]()
    if quantity is not None:
        unit = "mm" if quantity[2] != "mm" else "ms"
        yield "wrong unit", at.start + quantity.start(2), at.start + quantity.end(2), unit, touched
    elif node.plain and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        yield "wrong unit", at.start, at.end, f"{inside} mm", touched
    for word in list(_WORD.finditer(inside))[:4]:
        before = inside[: word.start()].rstrip()[-1:]
        if word[0] in _WORDS_OF_THE_LANGUAGE or before.isdigit():
            continue
        new = word[0] + "zq"
        yield "misspelt", at.start + word.start(), at.start + word.end(), new, {word[0], new, *touched}


def _whole(text: str, entry: Entry) -> tuple[int, int]:
    """The text of an entry with the comma or the lines that belong to it."""
    start, end = entry.key.span.start, max(entry.key.span.end, entry.value.span.end)
    if entry.value.span.start == entry.value.span.end:
        end = text.index(":", entry.key.span.end - 1) + 1
    after = re.compile(r"\s*,\s*").match(text, end)
    if after is not None:
        return start, after.end()
    before = re.compile(r",\s*\Z").search(text, 0, start)
    if before is not None:
        return before.start(), end
    return start, end


def follow_ups(found: tuple[Diagnostic, ...], mistake: Mistake) -> list[Diagnostic]:
    """Follow-up errors: neither at the mistake nor about a name that it removes."""
    errors = [d for d in found if d.severity is Severity.ERROR]
    first = next((d for d in errors if _at(d, mistake)), errors[0])
    return [d for d in errors if d is not first and not _own(d, first, mistake)]


def _at(d: Diagnostic, mistake: Mistake) -> bool:
    return d.span is not None and d.span.start <= mistake.end and mistake.start <= d.span.end


def _own(d: Diagnostic, first: Diagnostic, mistake: Mistake) -> bool:
    if d.span is None:
        return False
    if mistake.start <= d.span.start <= mistake.end and d.span.end <= mistake.end + 1:
        return True
    if (d.code, d.message) == (first.code, first.message):
        return True  # one mistake at several places
    if d.code in _SIZES and first.code in _SIZES and mistake.place.startswith("populations."):
        return True  # lists with a value for each population
    if d.code in _UNITS and first.code in _UNITS:
        return True  # the dimension of a name is wrong wherever it is used, and where what follows from it is
    missing = first.code in ("E0103", "E0108") and d.code in _NAMES
    missing = missing or (".classes" in mistake.place and {d.code, first.code} <= _OF_CLASSES)
    if d.code != first.code and not missing and not {d.code, first.code} <= _NAMES:
        return False
    return bool(set(_WORD.findall(f"{d.message} {d.help or ''}")) & mistake.names)
