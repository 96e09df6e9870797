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
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from compiler.expr.units import UNITS, unit_meant, unit_word

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
# a unit continues only without spaces: `1 mV/ms` is a quantity, `20 ms / m` divides by the name m
_UNIT_MORE: Final = re.compile(r"(\*\*-?\d{1,2}(?![\w.]))|([*/])([^\W\d]\w*)(?![\w.]|\s*\()")
_PERCENT: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", re.ASCII)
_UNIT_OF_EQUATION: Final = re.compile(
    r"\s*((?:1|[mnpuk]?(?:volt|amp|siemens|second|farad|ohm|metre|meter|[VASF])|Hz)\b.*)", re.ASCII
)
_UNIT_WORD: Final = re.compile(r"[^\W\d]\w*")
_PER_UNIT: Final = re.compile(r"\s*/\s*([A-Za-z]\w*)")

_WORDS: Final = frozenset({"and", "or", "not", "if", "else"})
_LITERALS: Final = frozenset({"true", "false", "True", "False"})
_PYTHON: Final = frozenset(keyword.kwlist) - _WORDS - _LITERALS

FROM: Final = "from."
HIDDEN_FROM: Final = "_rom."
"""`from.x` is a name of the language, but `from` is a word of Python; no name of a user begins like its stand-in."""

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
        **{
            sign: (f"`{sign}` (U+{ord(sign):04X}) cannot stand in an expression", f"write `{meant}`")
            for meant, signs in {
                "-": "\u2010\u2011\u2012\u2013\u2014\u2212", "*": "\u00b7\u00d7\u2217\u22c5", "/": "\u00f7\u2044\u2215",
                "<=": "\u2264", ">=": "\u2265", "!=": "\u2260", "sqrt(x)": "\u221a", "** 2": "\u00b2", "** 3": "\u00b3",
            }.items()
            for sign in signs
        },
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
    state = _Scan(text, fail, units, names)
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None  # the last alternative takes any character
        kind, word, end = token.lastgroup, token[0], token.end()
        if kind == "space":
            state.pieces.append(" " * (end - at))
        elif (kind in ("number", "name") or word == "(") and not state.may_follow(word, at, end):
            return None
        else:
            after = state.token(kind, word, at, end)
            if after is None:
                return None
            state.previous_at, end = at, after
        at = end
    return Scanned("".join(state.pieces), state.found, state.ends) if state.complete() else None


@dataclass
class _Scan:
    """State of a scan. `previous`: the last token's text when it ends an operand, else ""; each kind of token has a
    method that returns whether the token is allowed, after `fail` if it is not."""

    text: str
    fail: Fail
    units: bool
    names: Container[str]
    found: dict[int, tuple[str, int]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    open_at: list[int] = field(default_factory=list)
    previous: str = ""
    previous_at: int = 0

    def token(self, kind: str | None, word: str, at: int, end: int) -> int | None:
        """The offset after the token and its unit; None when it is not allowed here."""
        match kind:
            case "number":
                return self.number(word, at, end)
            case "name":
                return end if self.name(word, at, end) else None
            case "op":
                return end if self.operator(word, at, end) else None
        shown = f"`{word}`" if word.isprintable() else f"U+{ord(word[0]):04X}, which is not shown,"
        message, help_text = _BAD.get(word, (f"{shown} cannot stand in an expression", None))
        if word == ":" and (unit := _UNIT_OF_EQUATION.match(self.text, end)) is not None:
            help_text = f"an equation has the dimension of its state: leave `: {unit[1].strip()}` out"
        self.fail("E0301", message, at, end, help_text)
        return None

    def may_follow(self, word: str, at: int, end: int) -> bool:
        """Whether the beginning of an operand may follow the previous token."""
        callee = word == "(" and (self.previous[:1].isalpha() or self.previous[:1] == "_")
        if not self.previous or callee or word in _WORDS or word in _PYTHON:
            return True
        _side_by_side(self.text, self.previous_at, at, end, self.fail)
        return False

    def number(self, word: str, at: int, end: int) -> int | None:
        if len(word) > 1 and word[0] == "0" and word.isdigit() and word.strip("0"):
            self.fail("E0301", f"`{word}` begins with 0", at, end, f"write `{word.lstrip('0')}`")
            return None
        if len(word) > 60:
            self.fail("E0301", "the number has too many digits", at, end, None)
            return None
        self.pieces.append(word)
        self.previous = word
        unit_end = _unit_end(self.text, end, self.names)
        if unit_end <= end:
            return end
        if not _known(self.text, at, end, unit_end, self.units, self.fail):
            return None
        self.found[at] = (self.text[end:unit_end].strip(), unit_end)
        self.ends[end] = unit_end
        self.pieces.append(" " * (unit_end - end))
        return unit_end

    def name(self, word: str, at: int, end: int) -> bool:
        if not _plain_name(word, at, end, self.fail):
            return False
        if at and self.text[at - 1] in "0123456789.":  # `1if`: Python reads it as `1 if`, with a warning
            self.fail("E0301", f"a space is missing before `{word}`", self.previous_at, end, None)
            return False
        self.pieces.append(word.replace(FROM, HIDDEN_FROM, 1) if word.startswith(FROM) else word)
        self.previous = "" if word in _WORDS else word
        return True

    def operator(self, word: str, at: int, end: int) -> bool:
        wrong: tuple[str, str | None] | None = None
        if word == "(":
            self.open_at.append(at)
            if len(self.open_at) > MAX_NESTING:
                wrong = "the expression is nested too deeply", f"at most {MAX_NESTING} parentheses may be open"
        elif word == ")":
            if self.text[:at].rstrip().endswith("(") and not _called(self.text, at):
                wrong = "an expression is missing between `(` and `)`", None
            elif not self.open_at:
                wrong = "`)` closes nothing", "leave it out, or add the `(` that it closes"
            else:
                self.open_at.pop()
        elif word == "," and not self.open_at:
            wrong = "`,` cannot stand here", "a decimal point is written `.`"
        if wrong is not None:
            self.fail("E0301", wrong[0], at, end, wrong[1])
            return False
        self.pieces.append(word)
        self.previous = word if word == ")" else ""
        return True

    def complete(self) -> bool:
        """Whether the text may end here."""
        if not self.previous:
            part = _PERCENT.fullmatch(self.text)
            help_text = None if part is None else f"a percentage is written as a part of 1: `{float(part[1]) / 100:g}`"
            last = len(self.text.rstrip())
            self.fail("E0301", "the expression ends too early", self.previous_at, last, help_text)
            return False
        if self.open_at:
            at = self.open_at[-1]
            self.fail("E0301", "`(` is never closed", at, at + 1, "add the `)` that closes it")
            return False
        return True


def _called(text: str, at: int) -> bool:
    """Whether the empty parentheses that end at `at` are those of a call."""
    before = text[:at].rstrip()[:-1].rstrip()
    return before[-1:].isalnum() or before[-1:] == "_"


def _plain_name(word: str, start: int, end: int, fail: Fail) -> bool:
    first = word.removeprefix(FROM).partition(".")[0]
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
        if (rest := name.replace("_", "")).isdecimal():  # digits in groups, as in Python
            help = f"write `{number}{rest}`"
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
        if b == "1" and (per := _PER_UNIT.match(text, end)) and unit_word(per[1]) is not None:
            help = f"write `{a} / (1 {per[1]})`"
        fail("E0301", f"an operator is missing between `{a}` and `{b}`", at, end, help)
