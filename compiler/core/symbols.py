"""Symbols: names that no text can meet by accident.

Assumes: names of a model are identifiers, dotted where they belong to something (`pool.gi`, `post.y`).
Guarantees: three kinds of names are different by construction, from binding to printing. The compiler's own are plain
strings (`step`, `row`, `n_pre`). A name that the user chose is a Sym, spelled `$v` in the text of the IR. A name that a
pass derives from another is a Sym that knows from which, and in which way: `$v'next`. What a symbol is follows from
these alone, so that nothing counts or searches: those of equal origins are equal. They are strings, hashed once and
ordered by their spelling. `printed` is how one looks to a reader; two symbols of a kernel may look alike, and are told
apart where identifiers of a target are chosen (backends/c_family/names.py).
Does not: know scopes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Sym(str):
    """A symbol: `base` is the name that it follows from, in the way `way` (with `arg`), or the user's own (None).
    `symbol` and `derived` make one; its text is the spelling, one for each origin."""

    __slots__ = ("arg", "base", "way")

    base: str
    way: Way | None
    arg: str


class Way(StrEnum):
    """How a name follows from another."""

    NEXT = "next"  # the value after the integration, until all are known
    NOW = "now"  # a named expression, evaluated again after the integration
    START = "start"  # the same at the start of the step
    DECAY = "decay"  # the factor by which an input decays in a step
    HALF = "half"  # the same in half a step
    STAGE = "stage"  # a named expression in stage `arg` of a Runge-Kutta method
    SLOPE = "slope"  # a state's derivative there
    STATE = "state"  # a state's value there
    SPAN = "span"  # how far a slope of 1 moves a state in a step
    P = "P"  # what the state `arg` adds to it in an exact step ("1": what is constant)
    PH = "Ph"  # the same while others are held
    KEPT = "kept"  # a local's value, kept for a later kernel of the step
    DELIVERED = "delivered"  # what has been delivered to an input
    QUANTUM = "quantum"  # the value of one count of that
    COUNTS = "counts"  # counts in one unit of what is sent
    SENT = "sent"  # an input that statements add to
    PAST = "past"  # a variable's value one delay ago
    LOCAL = "local"  # a local of the block of the end `arg`
    EVERY = "every"  # steps of a trial of a phase
    OF = "of"  # the number `arg` of a rule, or of a value that follows from places
    GIVEN = "given"  # the number `arg` of an initial value
    SUM = "sum"  # sum number `arg` of its kind
    TABLE = "table"  # a lookup table
    AVERAGE = "average"  # its moving average
    TIMED = "timed"  # part `arg` of reading a timed array


_TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        Way.DECAY: "decay_{0}",
        Way.HALF: "decay_half_{0}",
        f"{Way.STAGE}:": "{0}_{1}",
        f"{Way.SLOPE}:": "k{1}_{0}",
        f"{Way.STATE}:": "s{1}_{0}",
        f"{Way.P}:": "P_{0}_{1}",
        f"{Way.PH}:": "Ph_{0}_{1}",
        Way.SENT: "{0}",
        f"{Way.LOCAL}:": "{0}",
        f"{Way.OF}:": "{1}",
        f"{Way.GIVEN}:": "{0}_{1}",
        Way.SUM: "{0}",
        f"{Way.SUM}:": "{0}_{1}",
        f"{Way.TIMED}:": "{0}_timed_{1}",
        Way.AVERAGE: "average",
    }
)
"""How a derived name looks, if not `name_way`: of the name and, after a colon, of `arg`."""

PATTERN: Final = (
    r"(?:\$\w+(?:\.\w+)*|(?<![\w.$])[A-Za-z]\w*(?='))"
    rf"(?:'(?:{'|'.join(Way)})(?![A-Za-z])(?::\$?\w+(?:\.\w+)*)?)*"
)
"""The spelling of a symbol, in a text."""
_STEP: Final = re.compile(r"'([A-Za-z]+)(?::([$\w.]+))?")


def _made(spelling: str, base: str, way: Way | None, arg: str) -> Sym:
    made = Sym(spelling)
    made.base, made.way, made.arg = base, way, arg
    return made


def symbol(name: str) -> Sym:
    """The symbol of a name that the user chose."""
    return _made(f"${name}", name, None, "")


def derived(name: str, way: Way, arg: str = "") -> Sym:
    """The symbol that follows from `name`, which may be the compiler's."""
    return _made(f"{name}'{way}:{arg}" if arg else f"{name}'{way}", name, way, arg)


def spelled(text: str) -> Sym:

    def own(name: str) -> str:
        return symbol(name[1:]) if name.startswith("$") else name

    found = own(text.partition("'")[0])
    for way, arg in _STEP.findall(text):
        found = derived(found, Way(way), own(arg))
    assert isinstance(found, Sym)
    return found


def is_derived(name: str, way: Way) -> bool:
    """Whether `name` follows from another in this way."""
    return isinstance(name, Sym) and name.way is way


def model_name(name: str) -> str:
    """What arrays and messages call it: the user's name; of what is derived, with what it is."""
    if not isinstance(name, Sym):
        return name
    base = model_name(name.base)
    return base if name.way is None else ".".join([base, name.way, *([model_name(name.arg)] if name.arg else [])])


def printed(name: str) -> str:
    """A name as an identifier: `v`, `v_next`, `decay_ge`, `post_y`."""
    return _looks(name) if isinstance(name, Sym) else name


def _looks(name: str) -> str:
    if not isinstance(name, Sym) or name.way is None:
        plain = name.base if isinstance(name, Sym) else name
        return plain.removeprefix("_").replace(".", "_")
    text = _TEXT.get(f"{name.way}:" if name.arg else name.way, "{0}_" + name.way)
    return text.format(_looks(name.base), _looks(name.arg))
