"""YAML 1.2 core schema: tag resolution of plain scalars (YAML 1.2.2, section 10.3).

Assumes: text of one plain scalar, without surrounding white space.
Guarantees: `on`, `off`, `yes`, `no`, `1_000`, `0b1` and `1:30` are strings, as in the core schema.
Does not: report anything; a number not representable in Python or float64 is `UNREADABLE`.
"""

from __future__ import annotations

import math
import re
from typing import Final, TypeAlias

Value: TypeAlias = str | int | float | bool | None

WORDS: Final[dict[str, Value]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

# One object, because nan is unequal to everything, but tuples compare elements by identity first.
NAN: Final = math.nan

_INT: Final = re.compile(r"[-+]?[0-9]+\Z", re.ASCII)
_OCTAL: Final = re.compile(r"0o[0-7]+\Z", re.ASCII)
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+\Z", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z", re.ASCII)
_INFINITY: Final = re.compile(r"[-+]?\.(inf|Inf|INF)\Z")
_NAN: Final = re.compile(r"\.(nan|NaN|NAN)\Z")
_MAY_START_A_NUMBER: Final = frozenset("+-.0123456789")
_MAX_INT_DIGITS: Final = 300  # each also representable as float64, so that comparison and conversion cannot fail


class Unreadable:
    """The type of `UNREADABLE`."""


UNREADABLE: Final = Unreadable()
"""A number by its syntax, but an int of hundreds of digits or a float beyond the range of float64."""


def resolve(text: str) -> Value | Unreadable:
    """The value of a plain scalar written as `text`."""
    if text[:1] not in _MAY_START_A_NUMBER:
        return WORDS.get(text, text)
    if _INT.match(text):
        return int(text) if len(text) <= _MAX_INT_DIGITS else UNREADABLE
    if _FLOAT.match(text):
        value = float(text)
        return UNREADABLE if math.isinf(value) else value
    if _OCTAL.match(text):
        return int(text[2:], 8) if len(text) <= _MAX_INT_DIGITS else UNREADABLE
    if _HEX.match(text):
        return int(text[2:], 16) if len(text) <= _MAX_INT_DIGITS * 3 // 4 else UNREADABLE
    if _INFINITY.match(text):
        return -math.inf if text[0] == "-" else math.inf
    return NAN if _NAN.match(text) else text
