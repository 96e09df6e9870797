"""The functions that an expression may call: one frozen row each.

Assumes: nothing.
Guarantees: every property of a function that a stage needs (arity, kinds, dimensions, machine types, values, bounds,
derivative, expansion into simpler functions, randomness) stands in its row; stages hold no lists of function names of
their own.
Does not: parse the texts in the rows (diff.py and inline.py do, once), or choose types (interp.py does).

Dimension rules
  "pure"     arguments and result are numbers without a unit
  "same"     all arguments share one dimension, which is the result's
  "ratio"    all arguments share one dimension, the result is a number without a unit
  "any"      the argument may have any dimension, the result is a number without a unit
  "sqrt"     the result has the square root of the argument's dimension
  "select"   the first argument is a test, the others share the result's dimension
Kind rules (of the result; the arguments are numbers unless said otherwise)
  "real" | "int" | "bool"; "same": integer when all arguments are; "select": as the arms of a
  conditional; "cast_real", "cast_int": the argument may also be a boolean
Machine types of a call in a kernel (`machine`; of most functions it follows from the kind)
  "real"     the precision; integer arguments are converted to it
  "same"     that of the arguments
  "whole"    as "same", and an integer is its own value
  "own"      the stages know: random functions, casts, tests, `heaviside`
Values (`numbers`, `arrays`): of Python numbers, and of numpy arrays of one type; without mention those of `math` and
`numpy` of the same name.
Derivatives are texts in the names of `parameters`, one per parameter; `None` means that diff.py
knows the rule (min, max, where), or, for a random function, that there is none. Where a function
has a kink, the value is PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

DimensionRule = Literal["pure", "same", "ratio", "any", "sqrt", "select"]
KindRule = Literal["real", "int", "bool", "same", "select", "cast_real", "cast_int"]
MachineRule = Literal["real", "same", "whole", "own"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Domain:
    """What an argument of a random function may be: from `low` to `high`, `whole` or any number."""

    low: float
    high: float
    whole: bool
    doc: str

    def __contains__(self, x: float) -> bool:
        return self.low <= x <= self.high and (not self.whole or x == math.floor(x))


@dataclass(frozen=True)
class Function:
    """One known function. `most` is None when any number of arguments from `least` on is allowed."""

    name: str
    parameters: tuple[str, ...]
    least: int
    most: int | None
    dimension: DimensionRule
    kind: KindRule
    derivatives: tuple[str, ...] | None
    definition: str | None
    random: bool
    doc: str
    machine: MachineRule
    numbers: Callable[..., Any] | None
    arrays: Callable[..., Any] | None
    bounds: Interval | Callable[..., Interval] | None
    """Of all values, whatever the arguments, or as a function of the intervals of these."""
    domains: tuple[Domain, ...] = ()
    """Of the arguments of a random function, one per parameter; outside of them the draw is nan."""

    def accepts(self, count: int) -> bool:
        """Whether a call with `count` arguments is complete."""
        return count >= self.least and (self.most is None or count <= self.most)


def _row(
    signature: str,
    doc: str,
    derivatives: tuple[str, ...] | None = None,
    *,
    dimension: DimensionRule = "pure",
    kind: KindRule = "real",
    definition: str | None = None,
    variadic: bool = False,
    random: bool = False,
    machine: MachineRule | None = None,
    numbers: Callable[..., Any] | None = None,
    arrays: Callable[..., Any] | None = None,
    bounds: Interval | Callable[..., Interval] | None = None,
    domains: tuple[Domain, ...] = (),
) -> Function:
    name, _, rest = signature.partition("(")
    parameters = tuple(p.strip() for p in rest.rstrip(")").split(",") if p.strip())
    count = len(parameters)
    most = None if variadic else count
    if machine is None:
        machine = "own" if random or kind not in ("real", "same") else kind
    if not random:
        numbers, arrays = numbers or getattr(math, name, None), arrays or getattr(np, name, None)
    texts = (derivatives, definition, random, doc)
    return Function(name, parameters, count, most, dimension, kind, *texts, machine, numbers, arrays, bounds, domains)


# ------------------------------------------------------------------------------------------ values


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _min(*values: Any) -> Any:
    """The smallest; nan when any value is nan, as with arrays (Python's min depends on the order)."""
    return next((v for v in values if v != v), min(values))


def _max(*values: Any) -> Any:
    return next((v for v in values if v != v), max(values))


def _positive(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _erf(x: Any) -> Any:
    from scipy.special import erf  # slow to import, rarely needed

    return erf(x)


# ------------------------------------------------------------------------------------------ bounds


def _lows_and_highs(choose: Callable[..., float]) -> Callable[..., Interval]:
    """Of a function that is monotone in each argument."""
    return lambda *args: (choose(*(low for low, _ in args)), choose(*(high for _, high in args)))


def _exp_bounds(x: Interval) -> Interval:
    if x[1] >= 700:
        return -math.inf, math.inf
    return (math.exp(x[0]) if x[0] > -700 else 0.0), math.exp(x[1])


def _nearby(x: Interval) -> Interval:
    """Of a function that changes a number by less than 1."""
    return x[0] - 1.0, x[1] + 1.0


# ------------------------------------------------------------------------------------------ rows

_LN2 = repr(math.log(2.0))
_LN10 = repr(math.log(10.0))
_MOST = 2.0**52
"""Largest mean of Poisson counts and number of trials of binomial ones."""
_TWO_OVER_SQRT_PI = repr(2.0 / math.sqrt(math.pi))

_same = partial(_row, dimension="same", kind="same")
_ROWS: Final = (
    _row("exp(x)", "exponential", ("exp(x)",), bounds=_exp_bounds),
    _row("log(x)", "natural logarithm", ("1 / x",)),
    _row("log10(x)", "logarithm to base 10", (f"1 / (x * {_LN10})",)),
    _row("log2(x)", "logarithm to base 2", (f"1 / (x * {_LN2})",)),
    _row("expm1(x)", "exp(x) - 1, accurate near 0", ("exp(x)",)),
    _row("log1p(x)", "log(1 + x), accurate near 0", ("1 / (1 + x)",)),
    _row(
        "exprel(x)",
        "expm1(x) / x, with its limit 1 at x = 0 (rates of Hodgkin-Huxley type)",
        # Taylor series where the difference cancels; its first omitted term is x**4 / 144
        ("(exp(x) - exprel(x)) / x if abs(x) > 1e-3 else 0.5 + x / 3 + x * x / 8 + x * x * x / 30",),
        definition="1 if x == 0 else expm1(x) / x",
        numbers=lambda x: math.expm1(x) / x if x != 0 else 1.0,
        arrays=lambda x: np.where(x == 0, x.dtype.type(1), np.expm1(x) / x),
    ),
    _row(
        "sqrt(x)",
        "square root",
        ("0.5 / sqrt(x)",),
        dimension="sqrt",
        bounds=_lows_and_highs(lambda x: math.sqrt(max(x, 0.0))),
    ),
    _same("abs(x)", "absolute value", ("sign(x)",), numbers=abs, bounds=lambda x: (0.0, max(abs(x[0]), abs(x[1])))),
    _row(
        "sign(x)",
        "-1, 0 or 1",
        ("0",),
        dimension="any",
        kind="int",
        definition="1 if x > 0 else (-1 if x < 0 else x * 0)",
        machine="same",
        numbers=lambda x: 1 if x > 0 else -1 if x < 0 else x * 0,
        bounds=(-1.0, 1.0),
    ),
    _row("floor(x)", "largest whole number that is not above x", ("0",), kind="int", machine="whole", bounds=_nearby),
    _row("ceil(x)", "smallest whole number that is not below x", ("0",), kind="int", machine="whole", bounds=_nearby),
    _row(
        "round(x)",
        "nearest whole number, halves to the even one",
        ("0",),
        kind="int",
        machine="whole",
        numbers=round,
        arrays=np.rint,
        bounds=_nearby,
    ),
    _same(
        "min(x, y)",
        "the smallest argument",
        variadic=True,
        numbers=_min,
        arrays=lambda *values: reduce(np.minimum, values),
        bounds=_lows_and_highs(lambda *x: min(x)),
    ),
    _same(
        "max(x, y)",
        "the largest argument",
        variadic=True,
        numbers=_max,
        arrays=lambda *values: reduce(np.maximum, values),
        bounds=_lows_and_highs(lambda *x: max(x)),
    ),
    _same(
        "clip(x, lo, hi)",
        "x held between lo and hi",
        ("1 if lo <= x and x <= hi else 0", "1 if x < lo and lo < hi else 0", "1 if x > hi or hi < lo else 0"),
        definition="min(max(x, lo), hi)",
        numbers=lambda x, lo, hi: _min(_max(x, lo), hi),
        arrays=lambda x, lo, hi: np.minimum(np.maximum(x, lo), hi),
        bounds=lambda x, lo, hi: (min(lo[0], hi[0]), hi[1]),
    ),
    _row("sin(x)", "sine of an angle in radians", ("cos(x)",), bounds=(-1.0, 1.0)),
    _row("cos(x)", "cosine of an angle in radians", ("-sin(x)",), bounds=(-1.0, 1.0)),
    _row("tan(x)", "tangent of an angle in radians", ("1 + tan(x) ** 2",)),
    _row("asin(x)", "inverse sine", ("1 / sqrt(1 - x * x)",), arrays=np.arcsin),
    _row("acos(x)", "inverse cosine", ("-1 / sqrt(1 - x * x)",), arrays=np.arccos),
    _row("atan(x)", "inverse tangent", ("1 / (1 + x * x)",), arrays=np.arctan),
    _row(
        "atan2(y, x)",
        "angle of the point (x, y)",
        ("x / (x * x + y * y)", "-y / (x * x + y * y)"),
        dimension="ratio",
        arrays=np.arctan2,
    ),
    _row("sinh(x)", "hyperbolic sine", ("cosh(x)",)),
    _row("cosh(x)", "hyperbolic cosine", ("sinh(x)",)),
    _row("tanh(x)", "hyperbolic tangent", ("1 - tanh(x) ** 2",), bounds=(-1.0, 1.0)),
    _row(
        "sigmoid(x)",
        "1 / (1 + exp(-x))",
        ("sigmoid(x) * (1 - sigmoid(x))",),
        definition="1 / (1 + exp(-x))",
        numbers=lambda x: 1.0 / (1.0 + _exp(-x)),
        arrays=lambda x: x.dtype.type(1) / (x.dtype.type(1) + np.exp(-x)),
        bounds=(0.0, 1.0),
    ),
    _same(
        "relu(x)",
        "max(x, 0)",
        ("1 if x > 0 else 0",),
        definition="max(x, 0)",
        numbers=lambda x: _max(x, 0),
        arrays=_positive,
        bounds=_lows_and_highs(lambda x: max(x, 0.0)),
    ),
    _row(
        "softplus(x)",
        "log(1 + exp(x))",
        ("sigmoid(x)",),
        definition="max(x, 0) + log1p(exp(-abs(x)))",
        numbers=lambda x: _max(x, 0.0) + math.log1p(math.exp(-abs(x))),
        arrays=lambda x: _positive(x) + np.log1p(np.exp(-np.abs(x))),
    ),
    _row("erf(x)", "error function", (f"{_TWO_OVER_SQRT_PI} * exp(-x * x)",), arrays=_erf, bounds=(-1.0, 1.0)),
    _row(
        "heaviside(x)",
        "1 where x >= 0, else 0",
        ("0",),
        dimension="any",
        kind="int",
        definition="1 if x >= 0 else 0",
        numbers=lambda x: 1 if x >= 0 else 0,
        arrays=lambda x: np.where(x >= 0, x.dtype.type(1), x.dtype.type(0)),
        bounds=(0.0, 1.0),
    ),
    _row("where(c, a, b)", "a where c holds, else b", dimension="select", kind="select"),
    _row(
        "int(x)",
        "x without its fraction (towards 0)",
        ("0",),
        kind="cast_int",
        numbers=int,
        arrays=lambda x: np.trunc(x).astype(np.int64),
        bounds=_nearby,
    ),
    _row(
        "float(x)",
        "x as a real number",
        ("1",),
        dimension="same",
        kind="cast_real",
        numbers=float,
        arrays=lambda x: x,
        bounds=_nearby,
    ),
    _row("isnan(x)", "whether x is not a number", ("0",), dimension="any", kind="bool"),
    _row("random()", "uniform in [0, 1)", random=True, bounds=(0.0, 1.0)),
    _row("normal()", "standard normal", random=True, bounds=(-10.0, 10.0)),
    _row("exponential()", "exponential with mean 1", random=True, bounds=(0.0, 40.0)),
    _row(
        "poisson(lam)",
        "Poisson count with mean lam, from 0 to 2**52",
        kind="int",
        random=True,
        domains=(Domain(0.0, _MOST, False, "from 0 to 2**52"),),
    ),
    _row(
        "binomial(n, p)",
        "how many of n trials succeed, each with probability p; n is whole, from 0 to 2**52",
        kind="int",
        random=True,
        bounds=lambda n, p: (0.0, max(n[1], 0.0)),
        domains=(Domain(0.0, _MOST, True, "a whole number from 0 to 2**52"), Domain(0.0, 1.0, False, "from 0 to 1")),
    ),
)

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({f.name: f for f in _ROWS})
"""Known functions by name."""

CONSTANTS: Final[Mapping[str, float]] = MappingProxyType({"pi": math.pi, "e": math.e, "inf": math.inf})
"""Names with a fixed value; a name that the model declares hides the constant."""

RANDOM: Final = frozenset(f.name for f in _ROWS if f.random)
"""Functions that draw a random number at each evaluation: never folded, shared or
differentiated."""

COUNTS: Final = frozenset(f.name for f in _ROWS if f.random and f.parameters)
"""Those with arguments: they take as many words as they need."""

LOOKUP: Final = "lookup"
"""What kernels call: lookup(table, x)."""

ROUNDED: Final = "bf16"
"""What kernels call: bf16(x) is x rounded to 8 significant bits, half-way cases to even; of float32 alone."""


def table_call(name: str) -> str:
    """The function that expressions call for a table of the model, of a number without a unit: no user's name begins
    so."""
    return f"_{name}"


def called_table(func: str) -> str | None:
    """The table that a function reads; None of any other function."""
    return func[1:] if func[:1] == "_" and func[1:].isidentifier() else None
