"""Level 0, values: the alternatives to a literal number.

Assumes, guarantees: compiler/ir/level0/model.py, which shows these names to everyone else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr


# Frozen by `Final` where a model may have 100,000, as spans are (compiler/core/source.py).
@dataclass(slots=True, unsafe_hash=True)
class Const:
    """One number, the same for every element; canonical units."""

    value: Final[float | int]
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)


@dataclass(slots=True, unsafe_hash=True)
class Distribution:
    """Drawn per element. kind and args (canonical numbers):
    uniform: low, high; normal: mean, std (relative_std is resolved to std), optional keep_sign (0/1: values of the
    wrong sign become 0); exponential: mean; lognormal: mean, std (of the value's log). All but uniform: optional min,
    max, to which values are clipped. permutation: low, high: evenly spread values in a random order (of neurons).
    `stream`: the name of the stream of draws, where it is not that of the array.
    """

    kind: Final[str]
    args: Final[tuple[tuple[str, float], ...]]
    stream: Final[str] = ""
    span: Final[Span] = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class FromFile:
    """An array of a file; `path` absolute, `array` its name in an .npz, `scale` to canonical units."""

    path: str
    array: str | None
    scale: float = 1.0
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Listed:
    """Numbers given inline, one per element."""

    values: tuple[float, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Formula:
    """An expression over the parameters of the thing it initialises (`v: v_rest`), evaluated per element."""

    expr: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Placed:
    """Worked out per synapse from the places of its ends: an expression over `i`, `j`, `x_i` ... `c_j` (as rule
    "expression" reads them; PLACES of level 2) and the names in `numbers` (sizes, extents, params). `low`, `high`:
    bounds on its values."""

    value: Expr
    numbers: tuple[tuple[str, float | int], ...]
    low: float
    high: float
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Driven:
    """A parameter whose value in each step is the sum of its drives (0 without them)."""

    span: Span = field(default=NOWHERE, compare=False, repr=False)


Value = Const | Distribution | FromFile | Listed | Formula | Placed | Driven
