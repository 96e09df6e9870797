"""Checks a located tree against the language: keys, types, choices, bounds and names.

Assumes: a tree as the YAML loader gives it, before or after `use`, `for`, `repeat` and classes are
expanded.
Guarantees: one diagnostic per place that is wrong, all of them in one go, each at its key or value;
what the language describes but no later stage can lower yet is refused here (E0801). Nesting is
bounded by the loader, so recursion is safe.
Does not: look a name up, read a file, parse an expression or check a unit. Beyond the JSON Schema
it refuses only 3.0 where a whole number is due, `.nan` and `.inf` (JSON cannot tell or write them),
and what E0801 stands for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Mapping as Words
from dataclasses import dataclass, replace
from functools import lru_cache

from compiler.diagnostics import Sink, did_you_mean
from compiler.frontend.language import ROOT
from compiler.frontend.language.kinds import (
    Alternative,
    Block,
    Choice,
    Constant,
    Expression,
    Flag,
    Kind,
    Later,
    ListOf,
    MapOf,
    Name,
    OneKey,
    OneOf,
    Pattern,
    Reference,
    Statement,
    Text,
    Value,
    article,
    describe,
    plural,
)
from compiler.frontend.tree import Entry, Mapping, Node, Scalar, Sequence
from compiler.source import Span

_MANY_KEYS = 12


@dataclass(frozen=True)
class _Place:
    """Where a check stands: what the place is called in messages, and what to underline for what is
    missing."""

    name: str
    noun: str | None
    at: Span
    sink: Sink
    quiet: bool  # inside of something that is refused already: no second E0801

    def __str__(self) -> str:
        if self.noun == "item":
            return f"each item of `{self.name}`"
        if self.noun is not None:
            return f"{self.noun} `{self.name}`"
        return f"`{self.name}`" if self.name else "the file"


@dataclass(frozen=True)
class _Problem:
    code: str
    message: str
    help: str | None = None


def validate(root: Node, sink: Sink) -> None:
    """Add a diagnostic to `sink` for everything in the file `root` that the language does not
    allow."""
    validate_kind(ROOT, root, sink)


def validate_kind(kind: Kind, node: Node, sink: Sink, name: str = "") -> None:
    """Check `node` against any part of the language; `name` is what messages call it."""
    _check(kind, node, _Place(name, None, _start(node), sink, False))


def _check(kind: Kind, node: Node, place: _Place) -> None:
    match kind:
        case Block():
            _check_block(kind, node, place)
        case OneKey():
            _check_one_key(kind, node, place)
        case MapOf():
            _check_map(kind, node, place)
        case ListOf():
            _check_list(kind, node, place)
        case OneOf():
            _check_one_of(kind, node, place)
        case Later():
            _check(kind.resolve(), node, place)
        case _:
            problem = _scalar_problem(kind, node, place)
            if problem is not None:
                place.sink.error(problem.code, problem.message, node.span, problem.help)


# ---------------------------------------------------------------------------------------------- maps


def _check_block(kind: Block, node: Node, place: _Place) -> None:
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    fields = kind.by_name
    sink = place.sink
    for entry in node.entries:
        key = entry.key.text
        field = fields.get(key)
        if field is None:
            if not key.startswith("x-"):
                _unknown_key(kind, entry, place)
            continue
        quiet = place.quiet
        if not field.supported and not quiet:
            whose = f" of {place}" if place.name else ""
            sink.error("E0801", f"`{key}`{whose} is not supported yet", entry.key.span)
            quiet = True
        _check(field.kind, entry.value, _Place(key, None, entry.key.span, sink, quiet))
    _check_presence(kind, node, place)


def _check_presence(kind: Block, node: Mapping, place: _Place) -> None:
    """Keys that must stand, keys that exclude each other, keys that need others."""
    if not (kind.required or kind.one_of or kind.at_least_one or kind.needs):
        return
    for group in kind.one_of:
        present = [k for k in group if k in node]
        if len(present) > 1:
            second = node.entry(present[1])
            place.sink.error(
                "E0108",
                f"{_quoted(present, 'and')} cannot stand together in {place}",
                place.at if second is None else second.key.span,
                f"keep one of {_quoted(group, 'and')}",
            )
    if any(k in node for k in kind.open_with):
        return
    missing = [f"`{k}`" for k in kind.required if k not in node]
    missing += [_quoted(g, "or") for g in kind.one_of if not any(k in node for k in g)]
    some = kind.at_least_one
    if some and not any(k in node for k in some):
        missing.append(f"one of {_quoted(some, 'and')}")
    for key, others in kind.needs:
        if key in node:
            missing += [f"`{o}` (for `{key}`)" for o in others if o not in node]
    if missing:
        place.sink.error(
            "E0103",
            f"{place} lacks {_joined(missing, 'and')}",
            place.at,
            _example_of_missing(kind, node),
        )


def _example_of_missing(kind: Block, node: Mapping) -> str | None:
    """What the first missing key might look like."""
    wanted = [*kind.required, *(g[0] for g in kind.one_of), *kind.at_least_one[:1]]
    for key in wanted:
        field = kind.by_name[key]
        if key not in node and field.example:
            return f"for example `{field.example}`"
    return None


def _unknown_key(kind: Block, entry: Entry, place: _Place) -> None:
    key = entry.key.text
    known = kind.by_name
    help = _elsewhere(kind.elsewhere, key) or did_you_mean(key, known)
    if help is None and "-" in key:
        help = did_you_mean(key.replace("-", "_"), known)
    if help is None:
        help = _allowed("the keys here are", known) if known else "no keys are allowed here"
    place.sink.error("E0101", f"unknown key `{key}` in {place}", entry.key.span, help)


def _check_map(kind: MapOf, node: Node, place: _Place) -> None:
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    if len(node.entries) < kind.low:
        message = (
            f"{place} must hold at least {kind.low} {_count(kind.noun, kind.low)}; it is empty"
        )
        place.sink.error("E0106", message, node.span, _for_example(kind.example))
    pattern, value, noun, sink, quiet = (
        _compiled(kind.key),
        kind.value,
        kind.noun,
        place.sink,
        place.quiet,
    )
    for entry in node.entries:
        key = entry.key.text
        if pattern.search(key) is None:
            message = f"`{key}` is not a good name for {article(noun)} {noun}"
            sink.error("E0107", message, entry.key.span, _name_help(kind.key, kind.key_example))
            continue
        _check(value, entry.value, _Place(key, noun, entry.key.span, sink, quiet))


def _check_one_key(kind: OneKey, node: Node, place: _Place) -> None:
    if kind.bare and isinstance(node, Scalar) and isinstance(node.value, str):
        found = _alternative(kind, node, place)
        if found is not None and isinstance(found.kind, Block) and found.kind.required:
            help = f"write `{found.example}`" if found.example else None
            place.sink.error("E0102", f"{kind.noun} `{found.name}` needs values", node.span, help)
        return
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    if len(node.entries) != 1:
        _not_one_key(kind, node, place)
        return
    entry = node.entries[0]
    key = entry.key.text
    found = kind.by_name.get(key)
    inner = _Place(key, kind.noun, entry.key.span, place.sink, place.quiet)
    if found is not None:
        _check(found.kind, entry.value, _refused(found, kind, inner))
    elif kind.own is not None and _NAME.search(key):
        _check(kind.own, entry.value, inner)
    else:
        _alternative(kind, entry.key, place)


def _refused(found: Alternative, kind: OneKey, place: _Place) -> _Place:
    """E0801 where `found` is not supported yet; the place to go on with."""
    if found.supported or place.quiet:
        return place
    message = f"`{found.name}` {kind.noun} is not supported yet"
    place.sink.error("E0801", message, place.at)
    return replace(place, quiet=True)


def _alternative(kind: OneKey, word: Scalar, place: _Place) -> Alternative | None:
    """The alternative that `word` names, or None with an error."""
    known = kind.by_name
    found = known.get(word.text)
    if found is not None:
        _refused(found, kind, replace(place, at=word.span))
        return found
    help = _elsewhere(kind.elsewhere, word.text) or did_you_mean(word.text, known)
    if help is None:
        help = _allowed(f"the {plural(kind.noun)} are", known)
    place.sink.error("E0105", f"unknown {kind.noun} `{word.text}`", word.span, help)
    return None


def _not_one_key(kind: OneKey, node: Mapping, place: _Place) -> None:
    keys = [e.key.text for e in node.entries]
    example = kind.alternatives[0].example
    if not keys:
        message = f"{place} must name {article(kind.noun)} {kind.noun}; it is empty"
        place.sink.error("E0104", message, node.span, _for_example(example))
        return
    first = node.entries[0]
    found = kind.by_name.get(keys[0])
    help = _for_example(example)
    if isinstance(first.value, Scalar) and first.value.value is None and found is not None:
        inner = found.kind.by_name if isinstance(found.kind, Block) else {}
        if all(k in inner for k in keys[1:]):
            help = f"indent {_quoted(keys[1:], 'and')} further than `{keys[0]}`"
    elif all(k in kind.by_name for k in keys) and place.noun == "item":
        help = f"begin each {kind.noun} with a `-` of its own"
    elif found is not None and isinstance(found.kind, Block):
        inner = found.kind.by_name
        if all(k in inner for k in keys[1:]):
            help = f"put {_quoted(keys[1:], 'and')} into the map of `{keys[0]}`"
    message = f"{article(kind.noun)} {kind.noun} is a map with one key; this one has {len(keys)}: "
    message += _quoted(keys[:_MANY_KEYS], "and")
    place.sink.error("E0104", message, node.entries[1].key.span, help)


# -------------------------------------------------------------------------------- lists and choices


def _check_list(kind: ListOf, node: Node, place: _Place) -> None:
    if not isinstance(node, Sequence):
        _wrong_type(kind, node, place)
        return
    count = len(node.items)
    if count < kind.low or (kind.high is not None and count > kind.high):
        if kind.low == kind.high:
            bound = f"exactly {kind.low}"
        else:
            bound = f"at least {kind.low}" if count < kind.low else f"at most {kind.high}"
        entries = "entry" if bound.endswith(" 1") else "entries"
        message = f"{place} must have {bound} {entries}; it has {count or 'none'}"
        place.sink.error("E0106", message, node.span, _for_example(kind.example))
        return
    item, name, sink, quiet = kind.item, place.name, place.sink, place.quiet
    for child in node.items:
        _check(item, child, _Place(name, "item", _start(child), sink, quiet))


def _check_one_of(kind: OneOf, node: Node, place: _Place) -> None:
    chosen = _choose(kind, node)
    if chosen is not None:
        _check(chosen, node, place)
        return
    if isinstance(node, Scalar) and node.value is not None:
        problems = [_scalar_problem(k, node, place) for k in kind.kinds if _is_scalar(k)]
        if None in problems:
            return
        # A bound or a word is nearer to what was meant than a type.
        for problem in problems:
            if problem is not None and problem.code != "E0102":
                place.sink.error(problem.code, problem.message, node.span, problem.help)
                return
    _wrong_type(kind, node, place)


def _choose(kind: OneOf, node: Node) -> Kind | None:
    """The list or map kind that is meant by a list or a map."""
    match node:
        case Sequence():
            return next((k for k in kind.kinds if isinstance(k, ListOf)), None)
        case Mapping():
            maps = [k for k in kind.kinds if isinstance(k, Block | OneKey | MapOf)]
            return max(maps, key=lambda k: _fit(k, node), default=None)
        case Scalar():
            return None


def _fit(kind: Block | OneKey | MapOf, node: Mapping) -> tuple[int, int]:
    """How well the keys of `node` fit: known keys count, then one-key maps come before blocks."""
    if isinstance(kind, MapOf):
        return (0, 2)
    return (sum(e.key.text in kind.by_name for e in node.entries), int(isinstance(kind, OneKey)))


# ------------------------------------------------------------------------------------------ scalars


def _scalar_problem(kind: Kind, node: Node, place: _Place) -> _Problem | None:
    """What is wrong with `node` as a scalar of `kind`."""
    if not isinstance(node, Scalar):
        return _type_problem(kind, node, place)
    value = node.value
    match kind:
        case Value() if isinstance(value, int | float) and not isinstance(value, bool):
            return _number_problem(kind, node, value, place)
        case Value() | Statement() | Text() if isinstance(value, str) and value.strip():
            return None
        case Expression() if value is not None and not (
            isinstance(value, str) and not value.strip()
        ):
            return None
        case Flag() if isinstance(value, bool):
            return None
        case Choice() if isinstance(value, str):
            return _word_problem(kind, value, place)
        case Name(example) if isinstance(value, str):
            return None if _NAME.search(value) else _name_problem(value, "name", example)
        case Reference(to, example, pattern) if isinstance(value, str):
            if _compiled(pattern).search(value):
                return None
            return _name_problem(value, f"name for {article(to)} {to}", example)
        case Pattern(_, pattern) if isinstance(value, str) and _compiled(pattern).search(value):
            return None
        case Constant(wanted) if isinstance(value, int) and not isinstance(value, bool):
            if value == wanted:
                return None
            return _Problem("E0105", f"{place} must be `{wanted}`, not `{value}`")
    return _type_problem(kind, node, place)


def _number_problem(
    kind: Value, node: Scalar, value: int | float, place: _Place
) -> _Problem | None:
    if not math.isfinite(value):
        return _Problem("E0106", f"{place} must be finite; it is `{node.text}`")
    if kind.integer and not isinstance(value, int):
        return _type_problem(kind, node, place)
    low, high = kind.low, kind.high
    if low is not None and (value < low or (kind.above and value == low)):
        bound = f"above {low:g}" if kind.above else f"at least {low:g}"
        if high is not None and not kind.above:
            bound = f"from {low:g} to {high:g}"
    elif high is not None and value > high:
        bound = f"at most {high:g}" if low is None else f"from {low:g} to {high:g}"
    else:
        return None
    return _Problem("E0106", f"{place} must be {bound}; it is {node.text}")


def _word_problem(kind: Choice, value: str, place: _Place) -> _Problem | None:
    option = kind.by_value.get(value)
    if option is not None:
        if option.supported or place.quiet:
            return None
        return _Problem("E0801", f"`{value}` as {kind.noun} is not supported yet")
    help = did_you_mean(value, kind.by_value)
    if help is None:
        help = _allowed("one of", kind.by_value)
    return _Problem("E0105", f"unknown {kind.noun} `{value}`", help)


def _name_problem(value: str, what: str, example: str) -> _Problem:
    help = "names are letters, digits and `_`, and begin with a letter"
    if "/" in example or "." in example:
        help = f"for example `{example}`"
    return _Problem("E0107", f"`{value}` is not a good {what}", help)


def _wrong_type(kind: Kind, node: Node, place: _Place) -> None:
    problem = _type_problem(kind, node, place)
    # A value that is not there has an empty span; its key is what a reader looks at.
    empty = isinstance(node, Scalar) and node.value is None and node.span.start == node.span.end
    place.sink.error(problem.code, problem.message, place.at if empty else node.span, problem.help)


def _type_problem(kind: Kind, node: Node, place: _Place) -> _Problem:
    expected = describe(kind)
    if isinstance(node, Scalar) and node.value is None:
        return _Problem(
            "E0102", f"{place} has no value; expected {expected}", _empty_help(kind, place)
        )
    return _Problem(
        "E0102", f"{place} must be {expected}, not {_found(node)}", _type_help(kind, node)
    )


def _empty_help(kind: Kind, place: _Place) -> str | None:
    if isinstance(kind, Block) and not kind.required and not kind.one_of and place.name:
        return f"write `{place.name}: {{}}`"
    return None


def _type_help(kind: Kind, node: Node) -> str | None:
    """How to write what was probably meant."""
    kinds = kind.kinds if isinstance(kind, OneOf) else (kind,)
    for one in kinds:
        match one, node:
            case OneKey(), Scalar(text=text) if text in one.by_name:
                return f"write `{one.by_name[text].example or '{' + text + ': {}}'}`"
            case ListOf(item), Scalar(text=text) if text and (
                isinstance(item, OneKey) or _scalar_fits(item, node)
            ):
                return f"write a list: `[{text}]`"
            case ListOf(OneKey()), Mapping():
                return "write a list: a `-` before each key"
            case ((Text() | Name() | Reference()), Scalar(text=text)) if text:
                return f'put it in quotes: `"{text}"`'
            case ((Block() | MapOf()), Sequence(items=items)) if items:
                return "write a map: no `-` before the keys"
    return None


def _scalar_fits(kind: Kind, node: Scalar) -> bool:
    place = _Place("", None, node.span, Sink(), True)
    return _is_scalar(kind) and _scalar_problem(kind, node, place) is None


# -------------------------------------------------------------------------------------------- words


def _found(node: Node) -> str:
    match node:
        case Mapping():
            return "a map" if node.entries else "an empty map"
        case Sequence():
            return "a list"
        case Scalar(value=bool(), text=text):
            return f"`{text}`"
        case Scalar(value=str(), text=text):
            if not text.strip():
                return "an empty text"
            return f"the text `{text if len(text) <= 40 else text[:37] + '...'}`"
        case _:
            return f"the number {node.text}"


def _elsewhere(words: Words[str, str], key: str) -> str | None:
    target = words.get(key)
    return None if target is None else f"write {target}"


def _allowed(lead: str, known: Iterable[str]) -> str:
    names = list(known)
    shown = _quoted(names[:_MANY_KEYS], "and" if len(names) <= _MANY_KEYS else ",")
    return f"{lead} {shown}" + (", ..." if len(names) > _MANY_KEYS else "")


def _quoted(words: Iterable[str], last: str) -> str:
    return _joined([f"`{w}`" for w in words], last)


def _joined(parts: list[str], last: str) -> str:
    if len(parts) < 2:
        return "".join(parts)
    if last == ",":
        return ", ".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def _count(noun: str, count: int) -> str:
    return noun if count == 1 else plural(noun)


def _for_example(example: str | None) -> str | None:
    return None if example is None else f"for example `{example}`"


def _name_help(pattern: str, example: str) -> str:
    if re.search(pattern, "a"):
        return "names are letters, digits and `_`, and begin with a letter"
    return f"for example `{example}`"


def _is_scalar(kind: Kind) -> bool:
    return not isinstance(kind, ListOf | MapOf | Block | OneKey | OneOf | Later)


def _start(node: Node) -> Span:
    """What to underline for a node as a whole: its first key, rather than all of its lines."""
    if isinstance(node, Mapping) and node.entries:
        return node.entries[0].key.span
    return node.span


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # ECMA's `$` is the very end; Python's also matches before a last line break.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


_NAME = _compiled(r"^[A-Za-z][A-Za-z0-9_]*$")
