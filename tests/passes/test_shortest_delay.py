"""The lower bound on delays: no synapse's rounded delay is below it, and it is the least one where that is known."""

from __future__ import annotations

import numpy as np
import pytest

import compiler.ir.level0.model as l0
from compiler.passes.projections.synapse_arrays import shortest

WRITTEN = [0.0, 0.4, 0.5, 0.6, 1.5, 2.4, 2.5, 2.51, 3.0, 3.5, 0.3 / 0.1, 1e4 + 0.5]


@pytest.mark.parametrize("low", WRITTEN)
def test_delays_round_to_the_even_half(low: float) -> None:
    drawn = l0.Distribution("uniform", (("low", low), ("high", low + 3)))
    clipped = l0.Distribution("normal", (("mean", low + 1), ("std", 1.0), ("min", low), ("max", low + 3)))
    for value in (drawn, clipped, l0.Listed((low, low + 2))):
        assert shortest(value) == np.rint(np.float32(low))


def test_what_has_no_bound_begins_at_0() -> None:
    assert shortest(l0.Distribution("normal", (("mean", 3.0), ("std", 1.0)))) == 0
    assert shortest(l0.Listed(())) == 0
