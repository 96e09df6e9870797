"""lower_connect: the numbers that the connect rules of level 2 draw with.

Assumes: IEEE float64 on the host.
Guarantees: tables are integers, so that every backend compares integers and draws the same network.
Does not: make arrays, rows or kernels (lower_projections does).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

BLOCK: Final = 256
"""Skips are drawn as whole blocks of 256 targets and a rest below 256, from one table of 256
entries each."""

_ONE: Final = 1 << 32


def _thresholds(cdf: npt.NDArray[np.float64]) -> npt.NDArray[np.uint32]:
    """A cumulative distribution as thresholds: a 32-bit word w is in the first k outcomes when w
    <= entry[k].

    P(w <= entry) = (entry + 1) / 2**32, so entry = floor(cdf * 2**32) - 1; an outcome whose
    cumulative probability is below 2**-32 is rounded up to 2**-32.
    """
    counts = np.floor(np.clip(cdf, 0.0, 1.0) * float(_ONE))
    return (np.clip(counts, 1.0, float(_ONE)) - 1.0).astype(np.uint32)


def fixed_probability_table(p: float) -> npt.NDArray[np.uint32]:
    """The table of the rule `fixed_probability`: u32[512] for 0 < p <= 1.

    A source visits its possible targets 0 .. n_pool - 1 in order; the number of targets that it
    passes over before each synapse is geometric, P(skip) = p q**skip with q = 1 - p (Devroye 1986,
    ch. X.2). It is drawn as 256 * blocks + rest, which are independent:
      entries 256..511 ("hi"): P(blocks <= k) = 1 - q**(256 (k + 1)). A word above the last entry
        means 256 blocks or more; by the lack of memory of the geometric law, 256 blocks are passed
      and the draw repeats.
      entries 0..255 ("lo"): P(rest <= k | rest <= 255) = (1 - q**(k + 1)) / (1 - q**256); the last
        entry is 2**32 - 1, so every word finds an outcome.
    A word w has outcome min {k : w <= entry[k]}.
    """
    if not 0.0 < p <= 1.0:
        raise ValueError(f"a connection probability must be above 0 and at most 1, not {p}")
    log_q = math.log1p(-p) if p < 1.0 else -math.inf
    k = np.arange(1, BLOCK + 1, dtype=np.float64)
    rest = np.expm1(k * log_q) / math.expm1(BLOCK * log_q)
    rest[-1] = 1.0
    blocks = -np.expm1(BLOCK * k * log_q)
    return np.concatenate([_thresholds(rest), _thresholds(blocks)])
