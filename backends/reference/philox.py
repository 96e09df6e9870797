"""Counter-based random numbers over numpy arrays: the bit for bit mirror of device/philox.h.

Assumes: backends.reference.elementary, the mirror of the functions that the device text uses.
Guarantees: a draw is a pure function of (key, index, step, draw) with philox.h's counter layout:
words (index low, index high, step low, (draw << 16) | step bits 32..47); the key's words are
(low, high) (compiler/ir/level0/streams.py makes it).
Does not: hold state, or draw for more than 2**48 steps or 256 random calls in one kernel.

Source: Salmon, Moraes, Dror and Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, SC11.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from backends.device.precisions import PRECISIONS
from backends.reference import elementary

Array = NDArray[Any]
Words = NDArray[np.uint32]

_LOW: Final = 0xFFFFFFFF
_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_HALF: Final = np.uint64(32)
_WORD: Final = np.uint64(_LOW)
_DOUBLE: Final = PRECISIONS[1]


def philox(c0: ArrayLike, c1: ArrayLike, c2: ArrayLike, c3: ArrayLike, key: int) -> Words:
    """Philox 4x32-10: counter words (broadcast together) to four words, shape (4, ...)."""
    counter = np.broadcast_arrays(*(np.asarray(w, np.uint64) for w in (c0, c1, c2, c3)))
    shape = counter[0].shape
    # Words 0 and 2, and words 1 and 3, side by side: half as many operations on (mostly short) arrays.
    even, odd = (np.stack(counter[i::2]).reshape(2, -1) for i in range(2))
    for round_key in _round_keys(key):
        product = (even * _MULTIPLIERS)[::-1]
        even, odd = (product >> _HALF) ^ odd ^ round_key, product & _WORD
    return np.stack([even[0], odd[0], even[1], odd[1]]).astype(np.uint32).reshape(4, *shape)


@lru_cache(maxsize=1024)
def _round_keys(key: int) -> tuple[NDArray[np.uint64], ...]:
    """The two words of the key in each round, shape (2, 1)."""
    words = (((key & _LOW) + i * _WEYL[0] & _LOW, (key >> 32) + i * _WEYL[1] & _LOW) for i in range(10))
    return tuple(np.array(w, np.uint64).reshape(2, 1) for w in words)


def words(key: int, index: ArrayLike, step: int, draw: int | Array) -> Words:
    """The four words of the draws at `index` (any shape), shape (4, *index.shape)."""
    at = np.asarray(index, np.uint64)
    last = np.asarray(draw, np.uint64) << np.uint64(16) | np.uint64(step >> 32 & 0xFFFF)
    return philox(at & np.uint64(_LOW), at >> np.uint64(32), step & _LOW, last, key)


def parts(key: int, index: ArrayLike, step: int, draw: int, count: int) -> Words:
    """The `count` (1, 2 or 4) words of the draws at `index`, shape (count, *index.shape): adjacent indices share a
    block."""
    at = np.asarray(index, np.uint64) * np.uint64(count)
    block = words(key, at >> np.uint64(2), step, draw)
    first = (at & np.uint64(3)).astype(np.int64)
    return np.stack([np.take_along_axis(block, (first + k)[None], axis=0)[0] for k in range(count)])


def _drawn(kind: str, key: int, index: ArrayLike, step: int, draw: int, dtype: DTypeLike, count: int) -> Array:
    """One per index, of `count` words in float32 and twice as many in float64."""
    at, shape = np.asarray(index).reshape(-1).astype(np.uint64), np.shape(index)
    of = PRECISIONS[int(np.dtype(dtype) == np.float64)]
    w = parts(key, at, step, draw, count * of.real().itemsize // 4)
    return np.asarray(getattr(of, f"{kind}_of")(*w)).reshape(shape)


def uniform(key: int, index: ArrayLike, step: int, draw: int, dtype: DTypeLike = np.float64) -> Array:
    """Uniform in [0, 1), one per index: 24 bits (float32) or 53 bits (float64)."""
    return _drawn("uniform", key, index, step, draw, dtype, 1)


def normal(key: int, index: ArrayLike, step: int, draw: int, dtype: DTypeLike = np.float64) -> Array:
    """Standard normal, one per index (Box and Muller 1958, the cosine branch)."""
    return _drawn("normal", key, index, step, draw, dtype, 2)


def exponential(key: int, index: ArrayLike, step: int, draw: int, dtype: DTypeLike = np.float64) -> Array:
    """Exponential with mean 1, one per index."""
    return _drawn("exponential", key, index, step, draw, dtype, 1)


def poisson(
    key: int,
    index: ArrayLike,
    step: int,
    draw: int,
    lam: ArrayLike,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Poisson counts of mean `lam` (broadcast to index) as reals; NaN unless 0 <= lam <= 2**52.

    Inversion below 12, then transformed rejection PTRS (Hoermann 1993); computed in float64.
    """
    at, shape = np.asarray(index).reshape(-1).astype(np.uint64), np.shape(index)
    mean = np.broadcast_to(np.asarray(lam, dtype), shape).reshape(-1).astype(np.float64)
    result = np.full(at.shape, np.nan)
    valid = (mean >= 0.0) & (mean <= 4503599627370496.0)
    with np.errstate(all="ignore"):
        small = np.flatnonzero(valid & (mean < 12.0))
        result[small] = _poisson_inversion(key, at[small], step, draw, mean[small])
        large = np.flatnonzero(valid & (mean >= 12.0))
        result[large] = _poisson_rejection(key, at[large], step, draw, mean[large])
    return result.astype(dtype).reshape(shape)


def _poisson_inversion(key: int, at: Array, step: int, draw: int, mean: Array) -> Array:
    return _inverted(words(key, at, step, draw), elementary.exp(-mean), lambda k: mean / k)


def _inverted(w: Words, first: Array, factor: Callable[[Array], Array], most: ArrayLike = np.inf) -> Array:
    """The count, of `most`, up to which probabilities add up to more than a uniform number: `first` that of 0, and
    `factor` that of k over the one before."""
    u: Array = _DOUBLE.uniform_of(w[0], w[1])
    k, p, total = np.zeros_like(u), first, first.copy()
    for _ in range(100):
        go = (u >= total) & (k < most)
        if not go.any():
            break
        k = np.where(go, k + 1.0, k)
        p = np.where(go, p * factor(k), p)
        total = np.where(go, total + p, total)
    return k


_Tried = Callable[[Array, Array, Array, Array], tuple[Array, Array]]
"""Of the places of draws, a uniform number within [-1/2, 1/2), another one, and the distance of the first one from the
ends: counts, and which of them are taken."""


def _tried(result: Array, key: int, at: Array, step: int, draw: int, one: _Tried) -> Array:
    """The counts of the first trials that are taken; those of `result` where none is."""
    open_ = np.arange(len(at))
    for trial in range(256):
        if not len(open_):
            break
        w = words(key, at[open_], step, draw | trial << 8)
        u = _DOUBLE.uniform_of(w[0], w[1]) - 0.5
        k, taken = one(open_, u, _DOUBLE._open(w[2], w[3]), 0.5 - np.abs(u))
        result[open_[taken]] = k[taken]
        open_ = open_[~taken]
    return result


def _poisson_log_pmf(k: Array, mean: Array) -> Array:
    product = np.ones_like(k)
    for i in range(2, 16):
        product = np.where(i <= k, product * float(i), product)
    few = (k * elementary.log(mean) - mean) - elementary.log(product)
    t = (mean - k) / k
    x = 1.0 / (k * k)
    inner = 0.0007936507936507937 - x * (0.0005952380952380953 - x * 0.0008417508417508417)
    series = (0.08333333333333333 - x * (0.002777777777777778 - x * inner)) / k
    many = k * (elementary.log1p(t) - t) - 0.5 * elementary.log(6.283185307179586 * k) - series
    return np.where(k < 16.0, few, many)


def _poisson_rejection(key: int, at: Array, step: int, draw: int, mean: Array) -> Array:
    def one(o: Array, u: Array, v: Array, us: Array) -> tuple[Array, Array]:
        m = mean[o]
        b = 0.931 + 2.53 * np.sqrt(m)
        a = -0.059 + 0.02483 * b
        k = np.floor((2.0 * a / us + b) * u + m + 0.43)
        quick = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0))
        hopeless = ~(k >= 0.0) | ((us < 0.013) & (v > us))
        p = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (us * us) + b)
        return k, quick | (~hopeless & (elementary.log(p) <= _poisson_log_pmf(k, m)))

    return _tried(np.floor(mean), key, at, step, draw, one)


def binomial(
    key: int,
    index: ArrayLike,
    step: int,
    draw: int,
    n: ArrayLike,
    p: ArrayLike,
    dtype: DTypeLike = np.float64,
) -> Array:
    """Binomial counts of `n` trials with probability `p` (broadcast to index) as reals; NaN unless n is whole,
    0 <= n <= 2**52, and 0 <= p <= 1.

    Of the rarer outcome: inversion where its mean is below 12, then transformed rejection BTRS (Hoermann 1993);
    computed in float64.
    """
    at, shape = np.asarray(index).reshape(-1).astype(np.uint64), np.shape(index)
    many, chance = (np.broadcast_to(np.asarray(x, dtype), shape).reshape(-1).astype(np.float64) for x in (n, p))
    rare = np.where(chance > 0.5, 1.0 - chance, chance)
    result = np.full(at.shape, np.nan)
    with np.errstate(all="ignore"):
        mean = many * rare
        whole = (many >= 0.0) & (many <= 4503599627370496.0) & (np.floor(many) == many)
        valid = whole & (chance >= 0.0) & (chance <= 1.0)
        small = np.flatnonzero(valid & (mean < 12.0))
        result[small] = _binomial_inversion(key, at[small], step, draw, many[small], rare[small])
        large = np.flatnonzero(valid & (mean >= 12.0))
        result[large] = _binomial_rejection(key, at[large], step, draw, many[large], rare[large])
        result = np.where(chance > 0.5, many - result, result)
    return result.astype(dtype).reshape(shape)


def _binomial_inversion(key: int, at: Array, step: int, draw: int, n: Array, r: Array) -> Array:
    odds, none = r / (1.0 - r), elementary.exp(n * elementary.log1p(-r))
    return _inverted(words(key, at, step, draw), none, lambda k: (n - k + 1.0) / k * odds, n)


def _binomial_log_pmf(k: Array, n: Array, mp: Array, mq: Array) -> Array:
    return _poisson_log_pmf(k, mp) + _poisson_log_pmf(n - k, mq)


def _binomial_rejection(key: int, at: Array, step: int, draw: int, n: Array, r: Array) -> Array:
    mp, mq = n * r, n * (1.0 - r)
    sd = np.sqrt(mq * r)
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * r
    result = np.floor((n + 1.0) * r)
    top = _binomial_log_pmf(result, n, mp, mq)

    def one(o: Array, u: Array, v: Array, us: Array) -> tuple[Array, Array]:
        k = np.floor((2.0 * a[o] / us + b[o]) * u + mp[o] + 0.5)
        quick = (us >= 0.07) & (v <= 0.92 - 4.2 / b[o])
        possible = (k >= 0.0) & (k <= n[o])
        ratio = v * ((2.83 + 5.1 / b[o]) * sd[o]) / (a[o] / (us * us) + b[o])
        fits = elementary.log(ratio) <= _binomial_log_pmf(k, n[o], mp[o], mq[o]) - top[o]
        return k, quick | (possible & fits)

    return _tried(result, key, at, step, draw, one)


ROUNDS: Final = 24
_HASH: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


def shuffled(key: int, index: ArrayLike, n: int, at: ArrayLike) -> NDArray[np.int64]:
    """Place `at` (0 <= at < n) of the permutation of 0 .. n - 1 (n < 2**62) that (key, index) name: a swap-or-not
    network (Hoang, Morris and Rogaway 2012); `index` and `at` are broadcast. See device/philox.h."""
    which, x = (np.asarray(a, np.uint64) for a in np.broadcast_arrays(index, at))
    half, low, size = np.uint64(32), np.uint64(_LOW), np.uint64(n)
    n0, n1 = np.uint64(n & _LOW), np.uint64(n >> 32)
    with np.errstate(over="ignore"):
        for r in range(ROUNDS):
            w = words(key, which, r, 1).astype(np.uint64)
            mid = w[0] * n0 + (w[1] * n0 >> half)
            cross = w[1] * n1 + (mid & low)
            offset = w[0] * n1 + (mid >> half) + (cross >> half)
            other = offset - x
            other = other + np.where(other >> np.uint64(63) != 0, size, np.uint64(0))
            h = (np.maximum(x, other) + (w[2] << half | w[3])) * np.uint64(_HASH[0])
            h = (h ^ (h >> half)) * np.uint64(_HASH[1])
            x = np.where(h >> np.uint64(63) != 0, other, x)
    return np.asarray(x, np.int64)
