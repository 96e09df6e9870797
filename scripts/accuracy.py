"""The accuracy of the elementary functions, in units in the last place, against mpmath; writes docs/accuracy.md.

    python -m scripts.accuracy

Assumes: mpmath (extra `dev`), which shares nothing with the functions.
Guarantees: `measured(name, precision, count)` is the largest error at the first `count` of a fixed sequence of
arguments: half of them uniform in the function's range, half with magnitudes of every order in it.
Does not: look at NaN, infinities and signed zeros (tests/numeric/test_elementary.py does).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
from numpy.typing import NDArray

from backends.reference.elementary import FUNCTIONS

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
POINTS: Final = 20_000

# Arguments: the largest magnitude below and above 0, in float32 and in float64.
EXP: Final = ((104.0, 88.7), (745.2, 709.7))
REAL: Final = ((3e38, 3e38), (1e308, 1e308))
POSITIVE: Final = ((0.0, 3e38), (0.0, 1e308))
ANGLE: Final = ((2.0**30, 2.0**30), (2.0**30, 2.0**30))
UNIT: Final = ((1.0, 1.0), (1.0, 1.0))
HALF: Final = ((89.4, 89.4), (710.4, 710.4))
RANGES: Final[Mapping[str, tuple[tuple[float, float], tuple[float, float]]]] = {
    **dict.fromkeys(("exp", "expm1", "sigmoid", "softplus"), EXP),
    **{"exprel": ((104.0, 93.0), (745.2, 716.0)), "sinh": HALF, "cosh": HALF, "log1p": ((1.0, 3e38), (1.0, 1e308))},
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "pow"), POSITIVE),
    **dict.fromkeys(("sin", "cos", "tan"), ANGLE),
    **dict.fromkeys(("asin", "acos"), UNIT),
    **dict.fromkeys(("tanh", "atan", "atan2", "erf"), REAL),
}
EXACT: Final[Mapping[str, Callable[..., Any]]] = {
    **{n: getattr(mpmath, n) for n in ("exp", "expm1", "log", "log1p", "log10", "sqrt", "tanh", "sinh", "cosh")},
    **{n: getattr(mpmath, n) for n in ("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "erf")},
    "exprel": lambda x: mpmath.expm1(x) / x,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "pow": mpmath.power,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
}


def arguments(name: str, dtype: Any, count: int) -> list[NDArray[Any]]:
    """`count` values for each argument of the function."""
    wide = dtype == np.float64
    below, above = RANGES[name][wide]
    found = []
    for k in range(2 if name in ("pow", "atan2") else 1):
        rng = np.random.default_rng(k)
        at = rng.random((count, 2)).T
        uniform = at[0] * (min(above, 20.0) + min(below, 20.0)) - min(below, 20.0)
        side = (at[0] < 0.5) * (below > 0)
        least = math.log(5e-308 if wide else 2e-38)
        size = np.where(side, math.log(max(below, 1e-300)), math.log(above))
        spread = np.exp(least + at[1] * (size - least)) * np.where(side, -1.0, 1.0)
        found.append(np.where(np.arange(count) % 2 == 0, uniform, spread).astype(dtype))
    if name == "pow":  # results of every size
        room = np.log(np.finfo(dtype).max) * 0.99
        with np.errstate(divide="ignore"):
            fitting = (np.random.default_rng(9).random(count) * 2 - 1) * room / np.log(found[0].astype(np.float64))
        found[1] = np.clip(fitting, -1e30, 1e30).astype(dtype)
    return [np.where(x == 0, dtype(1), x) for x in found]


def measured(name: str, dtype: Any, count: int) -> tuple[float, tuple[float, ...]]:
    """The largest error in units in the last place of the exact result, and where it was."""
    given = arguments(name, dtype, count)
    limits = np.finfo(dtype)
    worst, where = mpmath.mpf(0), (math.nan,)
    with mpmath.workprec(200):
        for got, *x in zip(FUNCTIONS[name](*given).tolist(), *(a.tolist() for a in given), strict=True):
            exact = EXACT[name](*(mpmath.mpf(v) for v in x))
            unit = mpmath.ldexp(1, max(mpmath.mag(exact) - 1 if exact else -9999, limits.minexp) - limits.nmant)
            error = mpmath.fabs(mpmath.mpf(got) - exact) / unit
            if not error <= worst:
                worst, where = error, tuple(x)
    return float(worst), where


TEXT: Final = """# Accuracy of elementary functions

Every target computes the elementary functions of expressions with the same operations in the same order
(`backends/device/elementary.py`), so that their results have the same bits, and not with its own library, whose bits
would be others. This table, written by `python -m scripts.accuracy`, has the largest error at {points:,} arguments of
each, half of them uniform around 0, half of every magnitude, in units in the last place (ulp) of the exact result,
which [mpmath](https://mpmath.org) gives with 200 bits. A correctly rounded result is within 0.5 ulp.

| function | float32: ulp | at | float64: ulp | at |
| --- | --- | --- | --- | --- |
{rows}

Arguments are those whose results are finite; `sin`, `cos` and `tan` are NaN beyond 2^30.
`tests/numeric/test_accuracy.py` holds the functions to these bounds. Generated code may flush denormal numbers to zero.
"""


def documented() -> dict[str, tuple[float, float]]:
    """The bounds of the page: (float32, float64)."""
    rows = (line.split("|") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `"))
    return {r[1].strip(" `"): (float(r[2]), float(r[4])) for r in rows}


def page() -> str:
    rows = []
    for name in EXACT:
        cells = []
        for dtype in (np.float32, np.float64):
            error, where = measured(name, dtype, POINTS)
            places = 9 if dtype == np.float32 else 17
            cells += [f"{math.ceil(error * 1000) / 1000:.3f}", ", ".join(f"{x:.{places}g}" for x in where)]
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return TEXT.format(points=POINTS, rows="\n".join(sorted(rows)))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
