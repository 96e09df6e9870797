"""exponentials: the exponential of small matrices, rounded to float64 at the end alone.

Assumes: float64, rounded to nearest.
Guarantees: results depend on the matrix alone: not on others beside it, on a library or on a processor. They are
computed as pairs of float64, of which the second holds what the first was rounded by (Dekker 1971), 106 bits, without
SciPy, which takes longer to load than a model to lower: M / 2^s by Taylor's series, then s squarings (Moler & Van Loan
2003). What is beyond float64 is infinite, or no number.
Does not: take large matrices apart: the work grows with the cube of their rows.
"""

from __future__ import annotations

from math import factorial
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

TERMS: Final = 15
"""Powers in the series. Factorials up to 18 are whole numbers of float64."""
HALVINGS: Final = 2
"""The series is taken of matrices of norm 2^-2 at most: what it leaves out is below 2^-76."""
SPLIT: Final = float(2**27 + 1)
AT_ONCE: Final = 512
"""Matrices of which a cache of a core holds what their products are made of."""


class Pair(NamedTuple):
    """`high` + `low`, where `high` is the sum rounded to nearest. Of matrices: [row, column, matrix]."""

    high: Array
    low: Array


def exponentials(matrices: Array) -> Array:
    """The exponential of each matrix of [k, n, n], computed once for equal ones: populations often share their time
    constants."""
    keys = [m.tobytes() for m in matrices]
    distinct = dict(zip(keys, matrices, strict=True))
    number = {key: i for i, key in enumerate(distinct)}
    stacked = np.stack(list(distinct.values()))
    found = np.concatenate([exponentials_of(stacked[i : i + AT_ONCE]) for i in range(0, len(stacked), AT_ONCE)])
    return found[[number[key] for key in keys]]


def exponentials_of(matrices: Array) -> Array:
    """The exponential of each matrix of [k, n, n], computed side by side."""
    with np.errstate(all="ignore"):
        norms = np.abs(matrices).sum(axis=2).max(axis=1)
        squarings = np.where(np.isfinite(norms), np.maximum(np.frexp(norms)[1] + HALVINGS, 0), 0)
        high, low = _series(np.ldexp(np.ascontiguousarray(matrices.transpose(1, 2, 0)), -squarings))
        for done in range(int(squarings.max())):
            at = np.flatnonzero(squarings > done)
            root = Pair(high[:, :, at], low[:, :, at])
            high[:, :, at], low[:, :, at] = _product(root, root)
    found: Array = high.transpose(2, 0, 1)
    return found


def _series(matrices: Array) -> Pair:
    """The series times the factorial of its last power, whose coefficients are whole numbers, divided by it."""
    one = np.eye(len(matrices))[:, :, None]
    powers = Pair(matrices, np.zeros_like(matrices))
    found = Pair(np.broadcast_to(one, matrices.shape), powers.low)
    for power in reversed(range(TERMS)):
        times, low = _product(found, powers)
        high, rest = _sum(times, one * (factorial(TERMS) // factorial(power)))
        found = _pair(high, rest + low)
    return _quotient(found, float(factorial(TERMS)))


def _product(x: Pair, y: Pair) -> Pair:
    """The product of matrices: the sum over a middle axis."""
    a, b = Pair(x.high[:, :, None], x.low[:, :, None]), Pair(y.high[None], y.low[None])
    high = a.high * b.high
    low = _rest_of_product(_halves(a.high), _halves(b.high), high)
    low += a.high * b.low + a.low * b.high
    found = _pair(high[:, 0], low[:, 0])
    for i in range(1, high.shape[1]):
        total, rest = _sum(found.high, high[:, i])
        found = _pair(total, rest + (found.low + low[:, i]))
    return found


def _quotient(x: Pair, divisor: float) -> Pair:
    high = x.high / divisor
    back = high * divisor
    rest = _rest_of_product(_halves(high), _halves(np.float64(divisor)), back)
    return _pair(high, ((x.high - back) - rest + x.low) / divisor)


def _halves(a: Array | np.float64) -> Pair:
    """Two parts of 26 bits each, whose products are exact."""
    high = SPLIT * a
    high = high - (high - a)
    return Pair(np.asarray(high), np.asarray(a - high))


def _rest_of_product(a: Pair, b: Pair, product: Array) -> Array:
    """What a product was rounded by, exactly."""
    return a.high * b.high - product + a.high * b.low + a.low * b.high + a.low * b.low


def _sum(a: Array, b: Array) -> Pair:
    """The sum, and what it was rounded by, exactly."""
    high = a + b
    second = high - a
    return Pair(high, (a - (high - second)) + (b - second))


def _pair(high: Array, low: Array) -> Pair:
    """Numbers of which the second is much smaller; where the first is none or infinite, the first alone."""
    low = np.where(np.isfinite(high), low, 0.0)
    whole = high + low
    return Pair(whole, low - (whole - high))
