"""Checks one scalar against a kind.

Assumes: kinds of the language; a located tree.
Guarantees: a problem as data, so that a caller with several candidate kinds can rank them.
Does not: report anything, or inspect maps and lists except to name them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import compiler.expr.keys.kinds as spec
from compiler.core.diagnostics import Sink, did_you_mean, letters_of
from compiler.core.source import Span
from compiler.frontend.schema.wording import allowed, elsewhere, found
from compiler.frontend.yaml.core_schema import resolve
from compiler.frontend.yaml.tree import Mapping, Node, Scalar, Sequence


@dataclass(frozen=True)
class Place:
    """The context of a check: its name in messages, and the span to underline for missing keys."""

    name: str
    noun: str | None
    at: Span
    sink: Sink
    quiet: bool  # inside a block that is rejected already: no second E0801
    expanded: bool = False  # all `use` and classes have been expanded
    partial: bool = False  # keys may be missing: they come from what is taken over

    def inside(self, name: str, noun: str | None, at: Span, quiet: bool = False) -> Place:
        """The context of a part."""
        return Place(name, noun, at, self.sink, self.quiet or quiet, self.expanded, self.partial)

    def __str__(self) -> str:
        if self.noun == "item":
            return f"each item of `{self.name}`"
        if self.noun is not None:
            return f"{self.noun} `{self.name}`"
        return f"`{self.name}`" if self.name else "the file"


@dataclass(frozen=True)
class Problem:
    code: str
    message: str
    help: str | None = None


def fits(kind: spec.Kind, node: Node) -> bool:
    """Whether `node` is a valid scalar of `kind`; the fast path, taken by nearly every node."""
    if type(node) is not Scalar:
        return False
    value = node.value
    if isinstance(kind, spec.OneOf):
        return any(fits(k, node) for k in kind.scalars)
    if isinstance(value, str):
        if not isinstance(kind, spec.Value) or (number := _number_in(value)) is None:
            return _text_fits(kind, value)
        value = number
    if isinstance(value, bool):
        return isinstance(kind, spec.Flag | spec.Expression)
    if isinstance(value, int | float):
        match kind:
            case spec.Value(integer=integer):
                return (not integer or isinstance(value, int)) and _out_of_bounds(kind, value) is None
            case spec.Expression():
                return True
            case spec.Constant(wanted):
                return value == wanted and isinstance(value, int)
    return False


def _number_in(text: str) -> int | float | None:
    """The number that a text, in quotes, is; it is checked as the number itself. None for other expressions."""
    value = resolve(text.strip())
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text_fits(kind: spec.Kind, value: str) -> bool:
    match kind:
        case spec.Value() | spec.Expression() | spec.Statement() | spec.Text():
            return value != "" and not value.isspace()
        case spec.Reference() | spec.Pattern():
            return compiled(kind.pattern).search(value) is not None
        case spec.Name():
            return NAME.search(value) is not None
        case spec.Choice():
            return value in kind.by_value and kind.by_value[value].supported
    return False


def _out_of_bounds(kind: spec.Value, value: int | float) -> str | None:
    """The bounds violated by `value`, in words."""
    low, high = kind.low, kind.high
    if not math.isfinite(value):
        return "finite"
    if low is not None and (value < low or (kind.above and value == low)):
        if kind.above:
            return f"above {low:g}"
        return f"at least {low:g}" if high is None or kind.integer else f"from {low:g} to {high:g}"
    if high is not None and value > high:
        if kind.integer:
            return f"at most {high:,}"
        return f"at most {high:g}" if low is None else f"from {low:g} to {high:g}"
    return f"below {high:g}" if kind.below and value == high else None


def scalar_problem(kind: spec.Kind, node: Node, place: Place) -> Problem | None:
    """The problem with `node` as a scalar of `kind`; None when it is valid."""
    if not isinstance(node, Scalar) or fits(kind, node):
        return None if isinstance(node, Scalar) else type_problem(kind, node, place)
    value = node.value
    if isinstance(kind, spec.Value) and isinstance(value, str) and (number := _number_in(value)) is not None:
        node, value = replace(node, value=number), number
    match kind:
        case spec.Value() if isinstance(value, int | float) and not isinstance(value, bool):
            bounds = _out_of_bounds(kind, value)
            if bounds is not None:
                it = f"{value:,}" if kind.integer and value > 0 else node.text
                return Problem("E0106", f"{place} must be {bounds}; it is {it}", kind.negative if value < 0 else None)
        case spec.Choice() if isinstance(value, str):
            return _word_problem(kind, value, place)
        case spec.Name(example) if isinstance(value, str):
            return _name_problem(value, "name", example)
        case spec.Reference(to, example) if isinstance(value, str):
            return _name_problem(value, f"name for {spec.article(to)} {to}", example, _formats(kind))
        case spec.Constant(wanted) if isinstance(value, int) and not isinstance(value, bool):
            return Problem("E0105", f"{place} must be `{wanted}`, not `{value}`")
        case spec.Choice(elsewhere=words) if isinstance(value, int) and node.text in words:
            return _word_problem(kind, node.text, place)
    return type_problem(kind, node, place)


def _word_problem(kind: spec.Choice, value: str, place: Place) -> Problem | None:
    option = kind.by_value.get(value)
    if option is not None:
        if option.supported or place.quiet:
            return None
        return Problem("E0801", f"`{value}` as {kind.noun} is not supported yet")
    help = elsewhere(kind.elsewhere, value) or did_you_mean(value, kind.by_value)
    if help is None:
        help = allowed("one of", kind.by_value)
    return Problem("E0105", f"unknown {kind.noun} `{value}`", help)


def _name_problem(value: str, what: str, example: str, formats: str = "") -> Problem:
    help = "names are letters, digits and `_`, and begin with a letter"
    if "file" in what:
        known = " of a known format" if formats.startswith("known") else ""
        return Problem("E0107", f"`{value}` is no {what.removeprefix('name for a ')}{known}", formats)
    if "/" in example or "." in example:
        help = f"for example `{example}`"
    if what == "name for a population" and (several := re.fullmatch(r"([A-Za-z]\w*)_?[*?]", value)):
        name = several[1].rstrip("_")
        declared = f"declare `classes: {{{name}: {{}}}}`"
        help = f"a class names several: give them `classes: [{name}]`, {declared}, and write `{name}`"
    return Problem("E0107", f"`{value}` is not a good {what}", help)


def _formats(kind: spec.Reference) -> str:
    """The formats of files that a reference may name."""
    endings = [e for e in ("npz", "npy", "csv", "h5", "hdf5", "parquet") if e in kind.pattern]
    if not endings:
        return f"for example `{kind.example}`"
    idx = ", and IDX (`train-images-idx3-ubyte`)" if "idx" in kind.pattern else ""
    return allowed("known are", (f".{e}" for e in endings)) + idx


def type_problem(kind: spec.Kind, node: Node, place: Place) -> Problem:
    expected = spec.describe(kind)
    if isinstance(node, Scalar) and node.value is None:
        return Problem("E0102", f"{place} has no value; expected {expected}", _empty_help(kind, place))
    return Problem("E0102", f"{place} must be {expected}, not {found(node)}", _type_help(kind, node, place))


def _empty_help(kind: spec.Kind, place: Place) -> str | None:
    if isinstance(kind, spec.Block) and not kind.required and not kind.one_of and place.name:
        return f"write `{place.name}: {{}}`"
    return None


def _type_help(kind: spec.Kind, node: Node, place: Place) -> str | None:
    """Help with the probably intended value."""
    if place.noun == "optimizer parameter":
        return _optimizer_help(place.name, node)
    kinds = kind.kinds if isinstance(kind, spec.OneOf) else (kind,)
    helps = (_known_mistake(one, node) or _shape_help(one, node) for one in kinds)
    return next((help for help in helps if help is not None), None)


def _shape_help(kind: spec.Kind, node: Node) -> str | None:
    """Help with a text in place of a Boolean, a list or a map, and with a list in place of a map or vice versa."""
    match node:
        case Scalar(text=text):
            return _text_help(kind, node, text)
        case Mapping():
            listed = isinstance(kind, spec.ListOf) and isinstance(kind.item, spec.OneKey)
            return "write a list: a `-` before each key" if listed else None
        case Sequence(items=items):
            maps = isinstance(kind, spec.Block | spec.MapOf) and items and all(isinstance(i, Mapping) for i in items)
            return "write a map: no `-` before the keys" if maps else None


def _text_help(kind: spec.Kind, node: Scalar, text: str) -> str | None:
    match kind:
        case spec.Flag() if text.lower() in _SWITCHES:
            return f"write `{_SWITCHES[text.lower()]}`"
        case spec.OneKey() if text in kind.by_name:
            return f"write `{kind.by_name[text].example or '{' + text + ': {}}'}`"
        case spec.ListOf(item) if text and (isinstance(item, spec.OneKey) or fits(item, node)):
            return f"write a list: `[{text}]`" if isinstance(item, spec.OneKey) or not _RANGE.fullmatch(text) else None
        case spec.Text() | spec.Name() | spec.Reference() if text and fits(kind, Scalar(text, text, False, node.span)):
            return f'put it in quotes: `"{text}"`'
        case spec.Block() if len(kind.required) == 1 and fits(kind.by_name[kind.required[0]].kind, node):
            return f"write `{{{kind.required[0]}: {text}}}`"
    return None


_RANGE: Final = re.compile(r"\s*(\d{1,9})\s*(:|-|\.\.\.|to|,)\s*(\d{1,9})\s*", re.ASCII)
_PYTHON_RANGE: Final = re.compile(r"\s*(?:range|arange)\(\s*(?:(\d{1,9})\s*,)?\s*(\d{1,9})\s*\)\s*", re.ASCII)
_EQUATION: Final = re.compile(r"\s*(d[A-Za-z]\w*/dt)\s*=\s*([^=].*)", re.ASCII)


def _known_mistake(kind: spec.Kind, node: Node) -> str | None:
    """Help with the syntax of another language."""
    text = node.text if isinstance(node, Scalar) else ""
    match kind:
        case spec.Value(integer=True) if isinstance(node, Scalar) and isinstance(node.value, float):
            whole = node.value.is_integer() and abs(node.value) < 1e15
            return f"write `{int(node.value)}`" if whole else None
        case spec.Constant(wanted) if text.partition(".")[0] == str(wanted):
            return f"write `{wanted}`, a whole number without quotes"
        case spec.Pattern() if ".." in kind.example and text:
            return _range_help(text)
        case spec.MapOf(key=pattern) if "/dt" in pattern:
            items = node.items if isinstance(node, Sequence) else (node,)
            matches = [_EQUATION.fullmatch(i.text) for i in items if isinstance(i, Scalar)]
            pairs = [f"{m[1]}: {m[2]}" for m in matches if m is not None]
            return f"write `{{{', '.join(pairs)}}}`" if pairs and len(pairs) == len(items) else None
        case spec.ListOf(spec.Statement() | spec.OneOf((spec.Statement(), *_))) if isinstance(node, Mapping):
            pairs = [f"{e.name} = {e.value.text}" for e in node.entries if isinstance(e.value, Scalar)]
            return f"write a list of assignments: `[{', '.join(pairs)}]`" if pairs else None
        case spec.OneKey():
            return _one_key_meant(kind, node, text)
        case spec.Block() if isinstance(node, Sequence) and 1 < len(kind.required) == len(node.items):
            values = [i.text for i in node.items if isinstance(i, Scalar)]
            pairs = [f"{k}: {v}" for k, v in zip(kind.required, values, strict=False)]
            return f"write `{{{', '.join(pairs)}}}`" if len(values) == len(node.items) else None
        case spec.Block() if isinstance(node, Sequence) and len(kind.required) == 1 and len(node.items) > 1:
            several = [i for i in node.items if fits(kind.by_name[kind.required[0]].kind, i)]
            one = several[0] if len(several) == len(node.items) else None
            return f"write one for each: `{{{kind.required[0]}: {one.text}}}`" if isinstance(one, Scalar) else None
    return None


def _optimizer_help(name: str, node: Node) -> str | None:
    """Help with non-numeric settings of other frameworks' optimizers."""
    if name == "betas" and isinstance(node, Sequence) and len(node.items) == 2:
        first, second = (i.text if isinstance(i, Scalar) else "..." for i in node.items)
        return f"write `beta1: {first}, beta2: {second}`"
    if name in ("nesterov", "amsgrad"):
        return f"the optimizer that has it is `{name}`: write `{{{name}: {{learning_rate: ...}}}}`"
    return None


def _range_help(text: str) -> str | None:
    match, python = _RANGE.fullmatch(text), _PYTHON_RANGE.fullmatch(text)
    if python is not None:
        return f"write `{int(python[1] or 0)}..{int(python[2]) - 1}`: both ends are included"
    if match is None:
        return None
    last = int(match[3]) - (match[2] == ":")
    return f"write `{int(match[1])}..{last}`: both ends are included"


def _one_key_meant(kind: spec.OneKey, node: Node, text: str) -> str | None:
    """The one-key map for a word, of this language or of another."""
    if not isinstance(node, Scalar) or not text or text in kind.by_name:
        return None
    name = next((n for n in kind.by_name if letters_of(n) == letters_of(text)), None)
    help = elsewhere(kind.elsewhere, text)
    if name is None and help is not None:
        target = help.removeprefix("write ").strip("`")
        name = target if target in kind.by_name else None
    if name is not None:
        return f"write `{kind.by_name[name].example or '{' + name + ': {}}'}`"
    if help is not None:
        return help
    if "rule" in kind.by_name and _CONDITION.search(text):
        return f"write `{{rule: {{when: {text}}}}}`"
    return None


def nest_rule(kind: spec.OneKey, node: Mapping) -> str | None:
    """The form of NEST's `{rule: fixed_indegree, indegree: 10}` in this language."""
    rule = node.get("rule")
    if "rule" not in kind.by_name or not isinstance(rule, Scalar) or not isinstance(rule.value, str):
        return None
    named = next((a for a in kind.alternatives if letters_of(a.name) == letters_of(rule.text)), None)
    if named is None:
        meant = elsewhere(kind.elsewhere, rule.text)
        if meant is None and _CONDITION.search(rule.text):
            meant = f"write `rule: {{when: {rule.text}}}`"
        return None if meant is None else meant.replace("write `", "write `connect: {", 1)[:-1] + "}`"
    block = named.kind
    given: list[str] = []
    for entry in node.entries:
        key = entry.name
        if key == "rule" or not isinstance(block, spec.Block) or not isinstance(entry.value, Scalar):
            continue
        other = elsewhere(block.elsewhere, key)
        key = key if key in block.by_name or other is None else other.removeprefix("write ").strip("`")
        given.append(f"{key}: {entry.value.text}")
    return f"write `connect: {{{named.name}: {{{', '.join(given)}}}}}`"


_CONDITION: Final = re.compile(r"\b[ij]\b.*(?:[<>]|[!=]=)|(?:[<>]|[!=]=).*\b[ij]\b", re.ASCII)


_DERIVATIVE: Final = re.compile(
    r"\s*(?:d([A-Za-z]\w*)/dt\s*=.*|d([A-Za-z]\w*)_?dt|([A-Za-z]\w*)'|D\(?([A-Za-z]\w*)\)?)\s*", re.ASCII
)


def name_help(pattern: str, example: str, name: str = "") -> str:
    if re.search(pattern, "a"):
        return "names are letters, digits and `_`, and begin with a letter"
    if "/dt" in pattern:
        meant = _DERIVATIVE.fullmatch(name)
        if meant is not None:
            state = meant[1] or meant[2] or meant[3] or meant[4]
            return f"write `d{state}/dt`" + (": the right-hand side is its value" if "=" in name else "")
        return f"for example `{example}`; a second derivative is a first one of another state variable"
    return f"for example `{example}`"


_SWITCHES: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Boolean words of YAML 1.1."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    # ECMA's `$` is the very end; Python's also matches before a last line break.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


NAME = compiled(r"^[A-Za-z][A-Za-z0-9_]*$")
