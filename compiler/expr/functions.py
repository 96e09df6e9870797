"""The functions that an expression may call, as data: one frozen row each.

Assumes: nothing.
Guarantees: every property of a function that a stage needs (arity, kinds, dimensions, machine types, bounds,
derivative, expansion into simpler functions, randomness) stands in its row; stages hold no lists of function names of
their own.
Does not: parse the texts in the rows (diff.py and inline.py do, once), or compute (interp.py does).

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
Derivatives are texts in the names of `parameters`, one per parameter; `None` means that diff.py
knows the rule (min, max, where), or, for a random function, that there is none. Where a function
has a kink, the value is PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

DimensionRule = Literal["pure", "same", "ratio", "any", "sqrt", "select"]
KindRule = Literal["real", "int", "bool", "same", "select", "cast_real", "cast_int"]
MachineRule = Literal["real", "same", "whole", "own"]


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
    bounds: tuple[float, float] | None
    """Of all values, whatever the arguments."""

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
    bounds: tuple[float, float] | None = None,
) -> Function:
    name, _, rest = signature.partition("(")
    parameters = tuple(p.strip() for p in rest.rstrip(")").split(",") if p.strip())
    count = len(parameters)
    most = None if variadic else count
    if machine is None:
        machine = "own" if random or kind not in ("real", "same") else kind
    return Function(
        name, parameters, count, most, dimension, kind, derivatives, definition, random, doc, machine, bounds
    )


_LN2 = repr(math.log(2.0))
_LN10 = repr(math.log(10.0))
_TWO_OVER_SQRT_PI = repr(2.0 / math.sqrt(math.pi))

_ROWS: Final = (
    _row("exp(x)", "exponential", ("exp(x)",)),
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
    ),
    _row("sqrt(x)", "square root", ("0.5 / sqrt(x)",), dimension="sqrt"),
    _row("abs(x)", "absolute value", ("sign(x)",), dimension="same", kind="same"),
    _row(
        "sign(x)",
        "-1, 0 or 1",
        ("0",),
        dimension="any",
        kind="int",
        definition="1 if x > 0 else (-1 if x < 0 else x * 0)",
        machine="same",
        bounds=(-1.0, 1.0),
    ),
    _row("floor(x)", "largest whole number that is not above x", ("0",), kind="int", machine="whole"),
    _row("ceil(x)", "smallest whole number that is not below x", ("0",), kind="int", machine="whole"),
    _row("round(x)", "nearest whole number, halves to the even one", ("0",), kind="int", machine="whole"),
    _row("min(x, y)", "the smallest argument", dimension="same", kind="same", variadic=True),
    _row("max(x, y)", "the largest argument", dimension="same", kind="same", variadic=True),
    _row(
        "clip(x, lo, hi)",
        "x held between lo and hi",
        (
            "1 if lo <= x and x <= hi else 0",
            "1 if x < lo and lo < hi else 0",
            "1 if x > hi or hi < lo else 0",
        ),
        dimension="same",
        kind="same",
        definition="min(max(x, lo), hi)",
    ),
    _row("sin(x)", "sine of an angle in radians", ("cos(x)",), bounds=(-1.0, 1.0)),
    _row("cos(x)", "cosine of an angle in radians", ("-sin(x)",), bounds=(-1.0, 1.0)),
    _row("tan(x)", "tangent of an angle in radians", ("1 + tan(x) ** 2",)),
    _row("asin(x)", "inverse sine", ("1 / sqrt(1 - x * x)",)),
    _row("acos(x)", "inverse cosine", ("-1 / sqrt(1 - x * x)",)),
    _row("atan(x)", "inverse tangent", ("1 / (1 + x * x)",)),
    _row(
        "atan2(y, x)",
        "angle of the point (x, y)",
        ("x / (x * x + y * y)", "-y / (x * x + y * y)"),
        dimension="ratio",
    ),
    _row("sinh(x)", "hyperbolic sine", ("cosh(x)",)),
    _row("cosh(x)", "hyperbolic cosine", ("sinh(x)",)),
    _row("tanh(x)", "hyperbolic tangent", ("1 - tanh(x) ** 2",), bounds=(-1.0, 1.0)),
    _row(
        "sigmoid(x)",
        "1 / (1 + exp(-x))",
        ("sigmoid(x) * (1 - sigmoid(x))",),
        bounds=(0.0, 1.0),
        definition="1 / (1 + exp(-x))",
    ),
    _row(
        "relu(x)",
        "max(x, 0)",
        ("1 if x > 0 else 0",),
        dimension="same",
        kind="same",
        definition="max(x, 0)",
    ),
    _row(
        "softplus(x)",
        "log(1 + exp(x))",
        ("sigmoid(x)",),
        definition="max(x, 0) + log1p(exp(-abs(x)))",
    ),
    _row("erf(x)", "error function", (f"{_TWO_OVER_SQRT_PI} * exp(-x * x)",), bounds=(-1.0, 1.0)),
    _row(
        "heaviside(x)",
        "1 where x >= 0, else 0",
        ("0",),
        dimension="any",
        kind="int",
        definition="1 if x >= 0 else 0",
        bounds=(0.0, 1.0),
    ),
    _row("where(c, a, b)", "a where c holds, else b", dimension="select", kind="select"),
    _row("int(x)", "x without its fraction (towards 0)", ("0",), kind="cast_int"),
    _row("float(x)", "x as a real number", ("1",), dimension="same", kind="cast_real"),
    _row("isnan(x)", "whether x is not a number", ("0",), dimension="any", kind="bool"),
    _row("random()", "uniform in [0, 1)", random=True, bounds=(0.0, 1.0)),
    _row("normal()", "standard normal", random=True, bounds=(-10.0, 10.0)),
    _row("exponential()", "exponential with mean 1", random=True, bounds=(0.0, 40.0)),
    _row("poisson(lam)", "Poisson count with mean lam", kind="int", random=True),
)

FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({f.name: f for f in _ROWS})
"""Known functions by name."""

CONSTANTS: Final[Mapping[str, float]] = MappingProxyType({"pi": math.pi, "e": math.e, "inf": math.inf})
"""Names with a fixed value; a name that the model declares hides the constant."""

RANDOM: Final = frozenset(f.name for f in _ROWS if f.random)
"""Functions that draw a random number at each evaluation: never folded, shared or
differentiated."""
