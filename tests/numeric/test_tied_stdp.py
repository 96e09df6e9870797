"""models/tied_stdp.yaml: kernels that all positions share learn oriented strokes (Kheradpisheh et al. 2018)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.grids import slow

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

MAPS, SIDE, AT = 8, 5, 4


def kernels(s: netloom.Simulation) -> np.ndarray:
    """The weights of each map, which are the same at all positions."""
    p = s.projections["conv"]
    map_, row, column = p.target // AT**2, p.target % AT**2 // AT, p.target % AT
    y, x = p.source // 8 - row, p.source % 8 - column
    found = np.full((MAPS, SIDE, SIDE), np.nan)
    found[map_, y, x] = p.w
    np.testing.assert_array_equal(found[map_, y, x], p.w)
    return found


def elongation(kernel: np.ndarray) -> float:
    """The variance of a kernel's weights along their longer axis, over that across it: 1 of a blob, large of a line."""
    y, x = np.indices(kernel.shape)
    weight = kernel / kernel.sum()
    places = np.array([x, y]).reshape(2, -1)
    apart = places - (places * weight.reshape(-1)).sum(axis=1, keepdims=True)
    low, high = np.linalg.eigvalsh((apart * weight.reshape(-1)) @ apart.T)
    return float(high / low)


@pytest.mark.parametrize("seed", [1, 2, *slow(3, 4, 5)])
def test_kernels_become_oriented(root: Path, seed: int) -> None:
    s = netloom.load(root / "models" / "tied_stdp.yaml").simulation(seed=seed)
    s.run("1 ms")
    before = kernels(s)
    s.run("59999 ms")
    after = kernels(s)
    assert max(map(elongation, before)) < 1.2
    assert np.median([*map(elongation, after)]) > 2
    assert np.mean((after < 0.1) | (after > 0.9)) > 0.9  # strokes with borders
    wins = np.bincount(s["features"].spikes[1] // AT**2, minlength=MAPS)
    assert wins.sum() == 2000 and wins.min() > 200  # one in each trial, and every map has its own


def test_reference_has_the_bits_of_the_cpu(root: Path) -> None:
    found = []
    for target in ("cpu", "reference"):
        s = netloom.load(root / "models" / "tied_stdp.yaml").simulation(seed=1, target=target, order="bitwise")
        s.run("150 ms")
        found.append(kernels(s))
    np.testing.assert_array_equal(*found)
