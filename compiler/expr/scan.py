"""The scan that precedes Python's parser: finds quantities, and says in the user's terms what is
not in the language.

Assumes: one expression as text, of any content.
Guarantees: when `scan` reports nothing, the blanked text is ASCII, of the same length as the
original (offsets agree), has balanced brackets nested at most MAX_NESTING deep, and holds only
tokens of the language; each quantity's unit is replaced by spaces and listed in `units` under the
offset of its number.
Does not: check the order of operators and operands beyond two operands side by side (Python's
parser does).
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from compiler.expr.unit_names import unit_meant
from compiler.expr.units import UNITS, unit_word

MAX_LENGTH: Final = 10_000
MAX_NESTING: Final = 60

Fail = Callable[[str, str, int, int, str | None], None]
"""fail(code, message, start, end, help): reports a mistake at characters [start, end) of the
text."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)
  | (?P<wrong>&&|\|\||:=|<>|<<|>>|->)
  | (?P<op>\*\*|//|<=|>=|==|!=|[-+*/%<>(),])
  | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
# a unit goes on only without spaces: `1 mV/ms` is a quantity, `20 ms / m` divides by the name m
_UNIT_MORE: Final = re.compile(r"(\*\*-?\d{1,2}(?![\w.]))|([*/])([^\W\d]\w*)(?![\w.]|\s*\()")
_PERCENT: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", re.ASCII)
_UNIT_OF_EQUATION: Final = re.compile(
    r"\s*((?:1|[mnpuk]?(?:volt|amp|siemens|second|farad|ohm|metre|meter|[VASF])|Hz)\b.*)", re.ASCII
)
_UNIT_WORD: Final = re.compile(r"[^\W\d]\w*")

_WORDS: Final = frozenset({"and", "or", "not", "if", "else"})
_LITERALS: Final = frozenset({"true", "false", "True", "False"})
_PYTHON: Final = frozenset(keyword.kwlist) - _WORDS - _LITERALS

_BAD: Final = MappingProxyType(
    {
        "^": ("`^` is not an operator", "write `**` for a power"),
        "&&": ("`&&` is not an operator", "write `and`"),
        "||": ("`||` is not an operator", "write `or`"),
        "!": ("`!` is not an operator", "write `not`"),
        "&": ("`&` is not an operator", "write `and`"),
        "|": ("`|` is not an operator", "write `or`, or `abs(x)` for an absolute value"),
        "~": ("`~` is not an operator", "write `not`"),
        "<>": ("`<>` is not an operator", "write `!=`"),
        "<<": ("`<<` is not an operator", "write `* 2 ** n`"),
        ">>": ("`>>` is not an operator", "write `// 2 ** n`"),
        "->": ("`->` is not an operator", None),
        "=": ("`=` does not compare", "write `==` to compare"),
        ":=": ("`:=` cannot stand in an expression", "an expression assigns nothing"),
        "@": ("`@` is not an operator", "write `*`; matrix products are layers"),
        "[": ("`[` cannot stand in an expression", "there are no lists and no subscripts"),
        "]": ("`]` cannot stand in an expression", "there are no lists and no subscripts"),
        "{": ("`{` cannot stand in an expression", None),
        "}": ("`}` cannot stand in an expression", None),
        '"': ("text cannot stand in an expression", None),
        "'": ("text cannot stand in an expression", "for a derivative write the key `dx/dt`"),
        "?": ("`?` is not an operator", "write `a if condition else b`"),
        ":": ("`:` cannot stand in an expression", "write `a if condition else b`"),
        ";": ("`;` cannot stand in an expression", "write one statement per list item"),
        "#": ("`#` cannot stand in an expression", "a YAML comment needs a space before `#`"),
        ".": ("`.` cannot stand here", "a dot joins names, as in `post.y`"),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Scanned:
    """`blank`: the text for Python's parser. `units`: number offset -> (unit, offset after the
    unit). `ends`: offset after a number -> offset after its unit."""

    blank: str
    units: dict[int, tuple[str, int]]
    ends: dict[int, int]


def scan(text: str, fail: Fail, *, units: bool, names: Container[str]) -> Scanned | None:
    """Scan one expression; None after `fail` has been called. `names` are never read as further
    parts of a unit."""
    found: dict[int, tuple[str, int]] = {}
    ends: dict[int, int] = {}
    pieces: list[str] = []
    open_at: list[int] = []
    previous = ""  # the last token's text when it ends an operand, else ""
    previous_at = 0
    at, size = 0, len(text)
    while at < size:
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative takes any character
        kind, word, end = token.lastgroup, token[0], token.end()
        if kind == "space":
            pieces.append(" " * (end - at))
            at = end
            continue
        if previous and (kind == "number" or kind == "name" or word == "("):
            callee = word == "(" and (previous[0].isalpha() or previous[0] == "_")
            if not callee and word not in _WORDS and word not in _PYTHON:
                _side_by_side(text, previous_at, at, end, fail)
                return None
        if kind == "number":
            if len(word) > 1 and word[0] == "0" and word.isdigit() and word.strip("0"):
                fail("E0301", f"`{word}` begins with 0", at, end, f"write `{word.lstrip('0')}`")
                return None
            if len(word) > 60:
                fail("E0301", "the number has too many digits", at, end, None)
                return None
            pieces.append(word)
            unit_end = _unit_end(text, end, names)
            if unit_end > end:
                if not _known(text, at, end, unit_end, units, fail):
                    return None
                found[at] = (text[end:unit_end].strip(), unit_end)
                ends[end] = unit_end
                pieces.append(" " * (unit_end - end))
            previous, previous_at, at = word, at, max(end, unit_end)
            continue
        if kind == "name":
            if not _plain_name(word, at, end, fail):
                return None
            if at and text[at - 1] in "0123456789.":  # `1if`: Python reads it as `1 if`, with a warning
                fail("E0301", f"a space is missing before `{word}`", previous_at, end, None)
                return None
            pieces.append(word)
            previous = "" if word in _WORDS else word
        elif kind == "op":
            if word == "(":
                open_at.append(at)
                if len(open_at) > MAX_NESTING:
                    help = f"at most {MAX_NESTING} parentheses may be open"
                    fail("E0301", "the expression is nested too deeply", at, end, help)
                    return None
            elif word == ")":
                if text[:at].rstrip().endswith("(") and not _called(text, at):
                    fail("E0301", "an expression is missing between `(` and `)`", at, end, None)
                    return None
                if not open_at:
                    fail("E0301", "`)` closes nothing", at, end, "leave it out, or add the `(` that it closes")
                    return None
                open_at.pop()
            elif word == "," and not open_at:
                fail("E0301", "`,` cannot stand here", at, end, "a decimal point is written `.`")
                return None
            pieces.append(word)
            previous = word if word == ")" else ""
        else:
            message, help_text = _BAD.get(word, (f"`{word}` cannot stand in an expression", None))
            if word == ":" and (unit := _UNIT_OF_EQUATION.match(text, end)) is not None:
                help_text = f"an equation has the dimension of its state: leave `: {unit[1].strip()}` out"
            fail("E0301", message, at, end, help_text)
            return None
        previous_at, at = at, end
    if not previous:
        last = len(text.rstrip())
        part = _PERCENT.fullmatch(text)
        help_text = None if part is None else f"a percentage is written as a part of 1: `{float(part[1]) / 100:g}`"
        fail("E0301", "the expression ends too early", previous_at, last, help_text)
        return None
    if open_at:
        fail("E0301", "`(` is never closed", open_at[-1], open_at[-1] + 1, "add the `)` that closes it")
        return None
    return Scanned("".join(pieces), found, ends)


def _called(text: str, at: int) -> bool:
    """Whether the empty parentheses that end at `at` are those of a call."""
    before = text[:at].rstrip()[:-1].rstrip()
    return before[-1:].isalnum() or before[-1:] == "_"


def _plain_name(word: str, start: int, end: int, fail: Fail) -> bool:
    first = word.partition(".")[0]
    if first in _PYTHON or any(part in _PYTHON or part in _WORDS for part in word.split(".")[1:]):
        help = "leave the key out to have no value" if first == "None" else None
        fail("E0301", f"`{first}` cannot stand in an expression", start, end, help)
    elif not word.isascii():
        fail("E0301", f"`{word}` is not a name", start, end, "names are of A-Z a-z 0-9 _")
    elif word[0] == "_" or "._" in word:
        fail("E0301", f"`{word}` is not a name", start, end, "names begin with a letter")
    elif "." in word and first in _WORDS | _LITERALS:
        fail("E0301", "`.` cannot stand here", start + len(first), start + len(first) + 1, None)
    else:
        return True
    return False


def _unit_end(text: str, end: int, names: Container[str]) -> int:
    """Where the unit after the number that ends at `end` ends; `end` when no word follows."""
    at = end
    while at < len(text) and text[at].isspace():
        at += 1
    word = _UNIT_WORD.match(text, at)
    if word is None or word[0] in _WORDS or word[0] in _PYTHON:
        return end
    at = word.end()
    while more := _UNIT_MORE.match(text, at):
        if more[3] is not None and (more[3] not in UNITS or more[3] in names):
            break
        at = more.end()
    return at


def _known(text: str, start: int, end: int, unit_end: int, units: bool, fail: Fail) -> bool:
    """Whether the word after a number is a unit that may stand here; says why not otherwise."""
    word = _UNIT_WORD.match(text[end:unit_end].lstrip())
    assert word is not None
    number, name = text[start:end], word[0]
    at = text.index(name, end)
    follows = text[at + len(name) :].lstrip()[:1]
    if follows == "(":
        _side_by_side(text, start, at, at + len(name), fail)
    elif not units:
        fail("E0301", "a quantity with a unit cannot stand here", start, unit_end, None)
    elif follows == "." or unit_word(name) is None:
        unit = unit_meant(name)
        help = f"to multiply, write `{number} * {name}`" if unit is None else f"write `{number} {unit}`"
        fail("E0403", f"`{name}` is not a known unit", at, at + len(name), help)
    else:
        return True
    return False


def _side_by_side(text: str, left: int, at: int, end: int, fail: Fail) -> None:
    a, b = text[left:at].strip(), text[at:end]
    if len(a) > 20 or a == ")":
        fail("E0301", f"an operator is missing before `{b}`", at, end, None)
    else:
        help = f"to multiply, write `{a} * {b}`" if b != "(" else f"to multiply, write `{a} * (...)`"
        fail("E0301", f"an operator is missing between `{a}` and `{b}`", at, end, help)
