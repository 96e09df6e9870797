"""Elementary functions against mpmath: the bounds that docs/accuracy.md gives."""

from __future__ import annotations

import numpy as np
import pytest

from backends.reference.elementary import FUNCTIONS
from scripts.accuracy import EXACT, documented, measured

ROUNDING = {"floor", "ceil", "round", "abs", "sign", "min", "max", "clip", "floordiv", "mod"}


def test_the_page_has_all_functions() -> None:
    assert set(documented()) == set(EXACT) == set(FUNCTIONS) - ROUNDING


@pytest.mark.parametrize("name", EXACT)
def test_errors_are_within_the_documented_bounds(name: str) -> None:
    for dtype, bound in zip((np.float32, np.float64), documented()[name], strict=True):
        error, where = measured(name, dtype, 1_500)
        assert error <= bound, f"{name}{where}: {error:.3f} ulp"
        assert 0.3 < error and bound < 2.0
