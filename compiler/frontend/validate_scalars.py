"""Checks one scalar against a kind, and says what is wrong with it.

Assumes: kinds of the language; a located tree.
Guarantees: a problem as data, so that a caller with several kinds to choose from can weigh them.
Does not: report anything, or look into maps and lists except to name them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from compiler.diagnostics import Sink, did_you_mean
from compiler.frontend.language.kinds import (
    Block,
    Choice,
    Constant,
    Expression,
    Flag,
    Kind,
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
)
from compiler.frontend.tree import Mapping, Node, Scalar, Sequence
from compiler.frontend.wording import allowed, found
from compiler.source import Span


@dataclass(frozen=True)
class Place:
    """Where a check stands: what the place is called in messages, and what to underline for what is
    missing."""

    name: str
    noun: str | None
    at: Span
    sink: Sink
    quiet: bool  # inside of something that is refused already: no second E0801
    expanded: bool = False  # nothing comes from a `use` or a class any more

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


def fits(kind: Kind, node: Node) -> bool:
    """Whether `node` is a good scalar of `kind`; the quick answer, which nearly every node gets."""
    if type(node) is not Scalar:
        return False
    value = node.value
    if isinstance(kind, OneOf):
        return any(fits(k, node) for k in kind.scalars)
    if isinstance(value, str):
        match kind:
            case Value() | Expression() | Statement() | Text():
                return value != "" and not value.isspace()
            case Reference() | Pattern():
                return compiled(kind.pattern).search(value) is not None
            case Name():
                return NAME.search(value) is not None
            case Choice():
                return value in kind.by_value and kind.by_value[value].supported
    elif isinstance(value, bool):
        return isinstance(kind, Flag | Expression)
    elif isinstance(value, int | float):
        match kind:
            case Value(integer=integer):
                whole = not integer or isinstance(value, int)
                return whole and _out_of_bounds(kind, value) is None
            case Expression():
                return True
            case Constant(wanted):
                return value == wanted and isinstance(value, int)
    return False


def _out_of_bounds(kind: Value, value: int | float) -> str | None:
    """The bounds that `value` is outside of, in words."""
    low, high = kind.low, kind.high
    if not math.isfinite(value):
        return "finite"
    if low is not None and (value < low or (kind.above and value == low)):
        if kind.above:
            return f"above {low:g}"
        return f"at least {low:g}" if high is None else f"from {low:g} to {high:g}"
    if high is not None and value > high:
        return f"at most {high:g}" if low is None else f"from {low:g} to {high:g}"
    return None


def scalar_problem(kind: Kind, node: Node, place: Place) -> Problem | None:
    """What is wrong with `node` as a scalar of `kind`; None when nothing is."""
    if not isinstance(node, Scalar) or fits(kind, node):
        return None if isinstance(node, Scalar) else type_problem(kind, node, place)
    value = node.value
    match kind:
        case Value() if isinstance(value, int | float) and not isinstance(value, bool):
            bounds = _out_of_bounds(kind, value)
            if bounds is not None:
                return Problem("E0106", f"{place} must be {bounds}; it is {node.text}")
        case Choice() if isinstance(value, str):
            return _word_problem(kind, value, place)
        case Name(example) if isinstance(value, str):
            return _name_problem(value, "name", example)
        case Reference(to, example) if isinstance(value, str):
            return _name_problem(value, f"name for {article(to)} {to}", example)
        case Constant(wanted) if isinstance(value, int) and not isinstance(value, bool):
            return Problem("E0105", f"{place} must be `{wanted}`, not `{value}`")
    return type_problem(kind, node, place)


def _word_problem(kind: Choice, value: str, place: Place) -> Problem | None:
    option = kind.by_value.get(value)
    if option is not None:
        if option.supported or place.quiet:
            return None
        return Problem("E0801", f"`{value}` as {kind.noun} is not supported yet")
    help = did_you_mean(value, kind.by_value)
    if help is None:
        help = allowed("one of", kind.by_value)
    return Problem("E0105", f"unknown {kind.noun} `{value}`", help)


def _name_problem(value: str, what: str, example: str) -> Problem:
    help = "names are letters, digits and `_`, and begin with a letter"
    if "/" in example or "." in example:
        help = f"for example `{example}`"
    return Problem("E0107", f"`{value}` is not a good {what}", help)


def type_problem(kind: Kind, node: Node, place: Place) -> Problem:
    expected = describe(kind)
    if isinstance(node, Scalar) and node.value is None:
        return Problem("E0102", f"{place} has no value; expected {expected}", _empty_help(kind, place))
    return Problem("E0102", f"{place} must be {expected}, not {found(node)}", _type_help(kind, node))


def _empty_help(kind: Kind, place: Place) -> str | None:
    if isinstance(kind, Block) and not kind.required and not kind.one_of and place.name:
        return f"write `{place.name}: {{}}`"
    return None


def _type_help(kind: Kind, node: Node) -> str | None:
    """How to write what was probably meant."""
    kinds = kind.kinds if isinstance(kind, OneOf) else (kind,)
    for one in kinds:
        match one, node:
            case Flag(), Scalar(text=text) if text.lower() in _SWITCHES:
                return f"write `{_SWITCHES[text.lower()]}`"
            case OneKey(), Scalar(text=text) if text in one.by_name:
                return f"write `{one.by_name[text].example or '{' + text + ': {}}'}`"
            case ListOf(item), Scalar(text=text) if text and (isinstance(item, OneKey) or fits(item, node)):
                return f"write a list: `[{text}]`"
            case ListOf(OneKey()), Mapping():
                return "write a list: a `-` before each key"
            case OneKey(), Scalar(text=text) if text in one.elsewhere:
                return f"write {one.elsewhere[text]}"
            case ((Text() | Name() | Reference()), Scalar(text=text)) if text:
                if fits(one, Scalar(text, text, False, node.span)):
                    return f'put it in quotes: `"{text}"`'
            case Block(), Scalar(text=text) if len(one.required) == 1:
                if fits(one.by_name[one.required[0]].kind, node):
                    return f"write `{{{one.required[0]}: {text}}}`"
            case ((Block() | MapOf()), Sequence(items=items)):
                if items and all(isinstance(i, Mapping) for i in items):
                    return "write a map: no `-` before the keys"
    return None


def name_help(pattern: str, example: str) -> str:
    if re.search(pattern, "a"):
        return "names are letters, digits and `_`, and begin with a letter"
    if "/dt" in pattern:
        return f"for example `{example}`; a second derivative is a first one of another state variable"
    return f"for example `{example}`"


_SWITCHES: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
"""Words that YAML 1.1 took for truth values."""


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str]:
    # ECMA's `$` is the very end; Python's also matches before a last line break.
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)


NAME = compiled(r"^[A-Za-z][A-Za-z0-9_]*$")
