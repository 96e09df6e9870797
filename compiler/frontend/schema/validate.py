"""Checks a located tree against the language: keys, types, choices, bounds and names.

Assumes: a tree as the YAML loader gives it, before or after `use`, `for`, `repeat` and classes are
expanded.
Guarantees: one diagnostic per invalid node, all of them in one pass, each at its key or value; constructs of the
language that no later stage can lower yet are rejected here (E0801). Nesting is bounded by the loader, so recursion is
safe.
Does not: resolve a name, read a file, parse an expression or check a unit. Beyond the JSON Schema it rejects
only 3.0 for an integer, `.nan` and `.inf` (JSON cannot distinguish or represent them), and the constructs of E0801.
"""

from __future__ import annotations

import re
from dataclasses import replace

import compiler.expr.keys.kinds as spec
import compiler.frontend.schema.scalars as scalars
from compiler.core.diagnostics import Sink, did_you_mean
from compiler.core.source import Span
from compiler.frontend.language import ROOT
from compiler.frontend.schema.wording import MANY, allowed, count, elsewhere, for_example, joined, quoted
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Scalar, Sequence, without

_NO_BLANK = re.compile(r"(\w+):(\S.*)")
_BLANK = re.compile(r":[^\S ]")
"""A blank after the colon that is no space, as text copied from a page has, and so no blank for YAML."""
_FIRST_WORD = re.compile(r"`?([A-Za-z][A-Za-z0-9_]*)[`:]?")


def validate(root: Node, sink: Sink, *, expanded: bool = False, partial: bool = False) -> None:
    """Add a diagnostic to `sink` for everything in the file `root` that is invalid in the language.

    With `expanded`, `use` and classes have been expanded, so that missing keys are errors. With `partial`, the file is
    for others to take definitions from: its projections are templates, which may lack keys.
    """
    place = scalars.Place("", None, start(root), sink, False, expanded)
    templates = root.entry("projections") if partial and isinstance(root, Mapping) else None
    _check(ROOT, root if templates is None or not isinstance(root, Mapping) else without(root, "projections"), place)
    if templates is not None:
        inner = scalars.Place("projections", None, templates.key.span, sink, False, expanded, True)
        _check(ROOT.by_name["projections"].kind, templates.value, inner)


def validate_kind(kind: spec.Kind, node: Node, sink: Sink, name: str = "") -> None:
    """Check `node` against any part of the language; `name`: its name in messages."""
    _check(kind, node, scalars.Place(name, None, start(node), sink, False, False))


def _check(kind: spec.Kind, node: Node, place: scalars.Place) -> None:
    match kind:
        case spec.Block():
            _check_block(kind, node, place)
        case spec.OneKey():
            _check_one_key(kind, node, place)
        case spec.MapOf():
            _check_map(kind, node, place)
        case spec.ListOf():
            _check_list(kind, node, place)
        case spec.OneOf():
            _check_one_of(kind, node, place)
        case spec.Later():
            _check(kind.resolve(), node, place)
        case _:
            _report(scalars.scalar_problem(kind, node, place), node, place)


# --------------------------------------------------------------------------------------------- maps


def _check_block(kind: spec.Block, node: Node, place: scalars.Place) -> None:
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    fields = kind.by_name
    sink = place.sink
    unknown: list[Entry] = []
    for entry in node.entries:
        key = entry.key.text
        field = fields.get(key)
        if field is None:
            if not key.startswith("x-"):
                unknown.append(entry)
            continue
        quiet = place.quiet
        if not field.supported and not quiet:
            whose = f" of {place}" if place.name else ""
            sink.error("E0801", f"`{key}`{whose} is not supported yet", entry.key.span)
            quiet = True
        if not scalars.fits(field.kind, entry.value):
            _check(field.kind, entry.value, scalars.Place(key, None, entry.key.span, sink, quiet, place.expanded))
    helped = [(e, _help_of_key(kind, e.key.text)) for e in unknown]
    missing = _check_presence(kind, node, place, {_meant(h) for _, h in helped if h is not None}) if kind.ruled else []
    unexplained = False
    for entry, help in helped:
        if help is None:  # one of them may be the missing key
            lacking = f"; {joined(missing, 'and')} is missing" if missing and not unexplained else ""
            unexplained = True
            help = (allowed("the keys here are", fields) if fields else "no keys are allowed here") + lacking
        sink.error("E0101", f"unknown key `{entry.key.text}` in {place}", entry.key.span, help)
    if missing and not unexplained:
        there = {e.key.text for e in node.entries}
        sink.error("E0103", f"{place} lacks {joined(missing, 'and')}", place.at, _example_of_missing(kind, there))


def _check_presence(kind: spec.Block, node: Mapping, place: scalars.Place, meant: set[str]) -> list[str]:
    """The missing keys. Reports mutually exclusive keys; misspelt ones are `meant`."""
    there = {e.key.text for e in node.entries}
    for group in kind.one_of:
        present = [k for k in group if k in there]
        if len(present) > 1:
            place.sink.error(
                "E0108",
                f"{quoted(present, 'and')} cannot stand together in {place}",
                next(e.key.span for e in node.entries if e.key.text == present[1]),
                f"keep one of {quoted(group, 'and')}",
            )
    there |= meant
    if place.partial or (not place.expanded and any(k in there for k in kind.open_with)):
        return []
    needed = _needed(kind, node, there, place)
    covered = {o for _, o in needed}
    missing = [f"`{k}`" for k in kind.required if k not in there]
    missing += [
        quoted((k for k in g if kind.by_name[k].supported), "or")
        for g in kind.one_of
        if not (there | covered).intersection(g)
    ]
    some = kind.at_least_one
    if some and not there.intersection(some):
        missing.append(f"one of {quoted(some, 'and')}")
    return [*missing, *(f"`{o}` (for `{k}`)" for k, o in needed)]


def _needed(kind: spec.Block, node: Mapping, there: set[str], place: scalars.Place) -> list[tuple[str, str]]:
    """Keys and what they need, and lack. Reports keys that need what would exclude another one."""
    needed = []
    for key, other in ((k, o) for k, others in kind.needs for o in others if k in there and o not in there):
        rivals = [k for group in kind.one_of if other in group for k in group if k in there]
        entry = node.entry(key)
        if rivals and entry is not None:
            message = f"`{key}` cannot stand beside `{rivals[0]}` in {place}"
            place.sink.error("E0108", message, entry.key.span, f"`{key}` goes with `{other}`: leave one of them out")
        else:
            needed.append((key, other))
    return needed


def _example_of_missing(kind: spec.Block, there: set[str]) -> str | None:
    """An example of the first missing key."""
    groups = [g for g in (*kind.one_of, kind.at_least_one) if g and not there.intersection(g)]
    needed = [o for k, others in kind.needs if k in there for o in others]
    for key in (*kind.required, *needed, *(g[0] for g in groups)):
        field = kind.by_name[key]
        if key not in there and field.example:
            return f"for example `{field.example}`"
    return None


def _help_of_key(kind: spec.Block, key: str) -> str | None:
    """The replacement of an unknown key; None without a close candidate."""
    blank = _BLANK.search(key)
    if blank is not None:
        return f"write `{key[: blank.end() - 1]}` with a space after it, not the character U+{ord(blank[0][1]):04X}"
    joined_up = _NO_BLANK.fullmatch(key)
    if joined_up is not None and joined_up[1] in kind.by_name:
        return f"write `{joined_up[1]}: {joined_up[2]}`, with a space after the colon"
    return elsewhere(kind.elsewhere, key) or did_you_mean(key.replace("-", "_"), kind.by_name)


def _meant(help: str) -> str:
    """The key suggested by the help with an unknown one."""
    word = _FIRST_WORD.search(help.removeprefix("write ").removeprefix("did you mean "))
    return "" if word is None else word[1]


def _check_map(kind: spec.MapOf, node: Node, place: scalars.Place) -> None:
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    if len(node.entries) < kind.low:
        message = f"{place} must hold at least {kind.low} {count(kind.noun, kind.low)}; it is empty"
        place.sink.error("E0106", message, node.span, for_example(kind.example))
    pattern, value, noun = scalars.compiled(kind.key), kind.value, kind.noun
    for entry in node.entries:
        key = entry.key.text
        if pattern.search(key) is None:
            message = f"`{key}` is not a good name for {spec.article(noun)} {noun}"
            help = scalars.name_help(kind.key, kind.key_example, key)
            if noun == "part" and (key.startswith("if ") or "?" in key):
                help = "a choice is an expression: `v = a if condition else b`"
            place.sink.error("E0107", message, entry.key.span, help)
            continue
        if not scalars.fits(value, entry.value):
            _check(value, entry.value, place.inside(key, noun, entry.key.span))


def _check_one_key(kind: spec.OneKey, node: Node, place: scalars.Place) -> None:
    if kind.bare and isinstance(node, Scalar) and isinstance(node.value, str):
        alternative = _alternative(kind, node, place)
        if alternative is not None and isinstance(alternative.kind, spec.Block) and alternative.kind.required:
            help = f"write `{alternative.example}`" if alternative.example else None
            place.sink.error("E0102", f"{kind.noun} `{alternative.name}` needs values", node.span, help)
        return
    if not isinstance(node, Mapping):
        _wrong_type(kind, node, place)
        return
    if len(node.entries) != 1:
        _not_one_key(kind, node, place)
        return
    entry = node.entries[0]
    key = entry.key.text
    alternative = kind.by_name.get(key)
    help = scalars.nest_rule(kind, node)
    if help is not None:
        message = f"unknown {kind.noun} `rule` of this form"
        place.sink.error("E0105", message, start(entry.value), help)
        return
    inner = place.inside(key, kind.noun, entry.key.span)
    if alternative is not None:
        _check(alternative.kind, entry.value, _refused(alternative, kind, inner))
    elif kind.own is not None and scalars.NAME.search(key):
        _check(kind.own, entry.value, inner)
    else:
        _alternative(kind, entry.key, place)


def _refused(alternative: spec.Alternative, kind: spec.OneKey, place: scalars.Place) -> scalars.Place:
    """E0801 where `found` is not supported yet; the context to continue with."""
    if alternative.supported or place.quiet:
        return place
    message = f"`{alternative.name}` {kind.noun} is not supported yet"
    place.sink.error("E0801", message, place.at)
    return replace(place, quiet=True)


def _alternative(kind: spec.OneKey, word: Scalar, place: scalars.Place) -> spec.Alternative | None:
    """The alternative named by `word`, or None with an error."""
    known = kind.by_name
    alternative = known.get(word.text)
    if alternative is not None:
        _refused(alternative, kind, replace(place, at=word.span))
        return alternative
    help = elsewhere(kind.elsewhere, word.text) or did_you_mean(word.text, known)
    if help is None:
        help = allowed(f"the {spec.plural(kind.noun)} are", known)
    place.sink.error("E0105", f"unknown {kind.noun} `{word.text}`", word.span, help)
    return None


def _not_one_key(kind: spec.OneKey, node: Mapping, place: scalars.Place) -> None:
    keys = [e.key.text for e in node.entries]
    example = kind.alternatives[0].example
    if not keys:
        message = f"{place} must name {spec.article(kind.noun)} {kind.noun}; it is empty"
        place.sink.error("E0104", message, node.span, for_example(example))
        return
    message = f"{spec.article(kind.noun)} {kind.noun} is a map with one key; this one has {len(keys)}: "
    message += quoted(keys[:MANY], "and")
    help = _one_key_help(kind, node, keys, place) or for_example(example)
    place.sink.error("E0104", message, node.entries[1].key.span, help)


def _one_key_help(kind: spec.OneKey, node: Mapping, keys: list[str], place: scalars.Place) -> str | None:
    """The probable intent of adjacent keys."""
    help = scalars.nest_rule(kind, node)
    if help is not None:
        return help
    if all(k in kind.by_name for k in keys):
        if place.noun == "item":
            return f"begin each {kind.noun} with a `-` of its own"
        return f"keep one of {quoted(keys, 'and')}"
    alternative = kind.by_name.get(keys[0])
    if alternative is None or not isinstance(alternative.kind, spec.Block):
        return None
    if not all(k in alternative.kind.by_name for k in keys[1:]):
        return None
    first = node.entries[0].value
    if isinstance(first, Scalar) and first.value is None:
        return f"indent {quoted(keys[1:], 'and')} further than `{keys[0]}`"
    return f"put {quoted(keys[1:], 'and')} into the map of `{keys[0]}`"


# -------------------------------------------------------------------------------- lists and choices


def _check_list(kind: spec.ListOf, node: Node, place: scalars.Place) -> None:
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
        place.sink.error("E0106", message, node.span, for_example(kind.example))
        return
    if place.name == "shape" and count and _is_batch(node.items[0]) and not place.quiet:
        message = "the first number of `shape` stands for no extent"
        help = "a shape is that of one sample: leave the batch out"
        place.sink.error("E0106", message, node.items[0].span, help)
        return
    for child in node.items:
        if not scalars.fits(kind.item, child):
            _check(kind.item, child, place.inside(place.name, "item", start(child)))


def _is_batch(node: Node) -> bool:
    """Whether an extent is left open, as other frameworks write that of the batch."""
    return isinstance(node, Scalar) and (node.value in (None, -1) or node.text in ("None", "null", "batch"))


def _check_one_of(kind: spec.OneOf, node: Node, place: scalars.Place) -> None:
    chosen = _choose(kind, node)
    if chosen is not None:
        _check(chosen, node, place)
        return
    problems = [scalars.scalar_problem(k, node, place) for k in kind.scalars]
    if None in problems:
        return
    # A violated bound or an unknown word is a closer match than a wrong type.
    nearest = next((p for p in problems if p is not None and p.code != "E0102"), None)
    _report(nearest or scalars.type_problem(kind, node, place), node, place)


def _choose(kind: spec.OneOf, node: Node) -> spec.Kind | None:
    """The list or map kind that best matches a list or a map."""
    match node:
        case Sequence():
            return next((k for k in kind.kinds if isinstance(k, spec.ListOf)), None)
        case Mapping():
            maps = [k for k in kind.kinds if isinstance(k, spec.Block | spec.OneKey | spec.MapOf)]
            listed = next((k for k in kind.kinds if isinstance(k, spec.ListOf)), None)
            if listed is not None and maps and not any(_may_be(k, node) for k in maps):
                return listed
            return max(maps, key=lambda k: _fit(k, node), default=None)
        case Scalar():
            return None


def _may_be(kind: spec.Block | spec.OneKey | spec.MapOf, node: Mapping) -> bool:
    """Whether a map can be meant as `kind`; a map to lists holds lists."""
    lists = isinstance(kind, spec.MapOf) and isinstance(kind.value, spec.ListOf)
    return not lists or not node.entries or any(isinstance(e.value, Sequence) for e in node.entries)


def _fit(kind: spec.Block | spec.OneKey | spec.MapOf, node: Mapping) -> tuple[int, int]:
    """Match score of the keys of `node`: by known keys, then one-key maps before blocks."""
    if isinstance(kind, spec.MapOf):
        return (0, 2)
    return (sum(e.key.text in kind.by_name for e in node.entries), int(isinstance(kind, spec.OneKey)))


def _wrong_type(kind: spec.Kind, node: Node, place: scalars.Place) -> None:
    _report(scalars.type_problem(kind, node, place), node, place)


def _report(problem: scalars.Problem | None, node: Node, place: scalars.Place) -> None:
    if problem is not None:
        # An absent value has no text; its key is underlined.
        empty = isinstance(node, Scalar) and node.span.start == node.span.end
        span = place.at if empty else node.span
        place.sink.error(problem.code, problem.message, span, problem.help)


def start(node: Node) -> Span:
    """The span to underline for a whole node: its first key, rather than all of its lines."""
    if isinstance(node, Mapping) and node.entries:
        return node.entries[0].key.span
    return node.span
