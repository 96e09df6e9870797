"""Exponentials of matrices against 120 digits, and as what they are in closed form."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from compiler.passes.cells.exponentials import AT_ONCE, exponentials

Array = npt.NDArray[np.float64]


def exact(matrix: Array) -> Array:
    with mpmath.workdps(120):
        found = mpmath.expm(mpmath.matrix(matrix.tolist()), method="taylor")
        return np.array([[float(found[i, j]) for j in range(len(matrix))] for i in range(len(matrix))])


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("norm", [1e-9, 1e-3, 0.3, 2, 40])
def test_every_number_is_the_nearest(rows: int, norm: float) -> None:
    """Those of `scipy.linalg.expm` are off by up to 4e-12 of them."""
    random = np.random.default_rng(rows)
    matrices = random.normal(size=(6, rows, rows)) * norm
    matrices[::2] = np.tril(matrices[::2])
    found = exponentials(matrices)
    expected = np.stack([exact(m) for m in matrices])
    off = np.abs(found - expected) / np.spacing(np.abs(expected))
    assert off.max() == 0


def test_a_cell_with_currents_that_decay() -> None:
    """Potential, two currents and a constant part, of tau 20, 5 and 10 ms, in steps of 0.1 ms and of a second."""
    system = np.zeros((4, 4))
    system[0], system[1, 1], system[2, 2] = [-1 / 20, 1 / 20, 1 / 20, -49 / 20], -1 / 5, -1 / 10
    for step in (0.1, 1000.0):
        (found,) = exponentials((system * step)[None])
        np.testing.assert_array_equal(found, exact(system * step))


def test_what_stands_beside_a_matrix_does_not_matter() -> None:
    random = np.random.default_rng(1)
    matrices = random.normal(size=(AT_ONCE + 9, 3, 3)) * np.geomspace(1e-4, 30, AT_ONCE + 9)[:, None, None]
    together = exponentials(matrices)
    for i in (0, 7, AT_ONCE - 1, AT_ONCE, AT_ONCE + 8):
        np.testing.assert_array_equal(exponentials(matrices[i : i + 1])[0], together[i])


def test_beyond_the_range() -> None:
    found = exponentials(np.array([[[1000.0]], [[-1000.0]], [[709.5]], [[math.inf]], [[math.nan]], [[0.0]]])).ravel()
    np.testing.assert_array_equal(found, [math.inf, 0, math.exp(709.5), math.inf, math.nan, 1])
