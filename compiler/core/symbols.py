"""Symbols: names that no text can meet by accident.

Assumes: names of a model are identifiers, dotted where they belong to something (`pool.gi`, `post.y`).
Guarantees: three kinds of names are different by construction. The compiler's own are plain strings (`step`, `row`,
`n_pre`). A name that the user chose is a Sym, `$v`. A name that a pass derives from another is a Sym that says how,
`$v'next`. Symbols with equal origins are equal, so that nothing counts them; they are strings, hashed once and ordered
by text. `printed` is how one looks where it is printed; two symbols of a kernel may look alike, so close_kernel numbers
these.
Does not: know scopes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Sym(str):
    """A symbol. `symbol` and `derived` make one."""

    __slots__ = ()


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

PATTERN: Final = r"(?:\$\w+(?:\.\w+)*|(?<![\w.$])[A-Za-z]\w*(?='))(?:'[A-Za-z]+(?::\$?\w+(?:\.\w+)*)?)*"
"""What a symbol is made of, in a text."""
_STEP: Final = re.compile(r"'([A-Za-z]+)(?::([$\w.]+))?")


def symbol(name: str) -> Sym:
    """The symbol of a name that the user chose."""
    return Sym(f"${name}")


def derived(name: str, way: Way, arg: str = "") -> Sym:
    """The symbol that follows from `name`, which may be the compiler's."""
    return Sym(f"{name}'{way}:{arg}" if arg else f"{name}'{way}")


def is_derived(name: str, way: Way) -> bool:
    """Whether `name` follows from another in this way."""
    steps = name.rpartition("'")
    return bool(steps[1]) and steps[2].partition(":")[0] == way


def model_name(name: str) -> str:
    """What arrays and messages call it: the user's name; of what is derived, with what it is."""
    if not isinstance(name, Sym):
        return name
    return re.sub(r"['.:$]+", ".", name).removeprefix(".") if "'" in name else name[1:]


def printed(name: str) -> str:
    """A name as an identifier: `v`, `v_next`, `decay_ge`, `post_y`."""
    if not isinstance(name, Sym):
        return name
    base, *_ = name.partition("'")
    found = _plain(base)
    for way, arg in _STEP.findall(name):
        found = _TEXT.get(f"{way}:" if arg else way, "{0}_" + way).format(found, _plain(arg))
    return found


def _plain(name: str) -> str:
    return name.removeprefix("$").removeprefix("_").replace(".", "_")
