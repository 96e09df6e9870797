"""Parameters of a population that follow from others of the same neuron, and inputs that do not begin at 0, against
NumPy: drawn, listed, by place, and one for all."""

from __future__ import annotations

import numpy as np
import pytest

import netloom
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

TEXT = """
language: 1
params: {k: {value: 2}, tau: {value: 3 ms}}
neurons:
  cell:
    params: {r: 1, tau: 5 ms, c: 3, q: c + 1, z: 1}
    inputs: {g: {unit: nS, decay: tau}}
    state: {v: 0 nS}
    update: [v = g * (r + c + q + z)]
populations:
  drawn:
    {neuron: cell, size: 6, params: {r: {uniform: {low: 1, high: 3}}, c: k * r ** 2, z: q}, init: {g: (r + c) * 1 nS}}
  listed: {neuron: cell, size: 3, params: {r: [1, 2, 3], c: k * r ** 2 + self.i, z: r}, init: {g: 2 nS * self.i}}
  single: {neuron: cell, size: 2, params: {r: 4, c: r + k, tau: tau, z: tau / (1 ms)}, init: {g: [1 nS, 2 nS]}}
  spread: {neuron: cell, size: 4, init: {g: {uniform: {low: 1 nS, high: 2 nS}}}}
  silent: {neuron: cell, size: 1}
simulate: {dt: 1 ms, duration: 2 ms, instances: COPIES}
numerics: {precision: float64, order: bitwise}
"""


@pytest.mark.parametrize(("target", "copies"), diagonal(["cpu", "reference"], [1, 2]))
def test_values_that_follow(target: str, copies: int) -> None:
    s = netloom.load(TEXT.replace("COPIES", str(copies))).simulation(target=target)

    def values(population: str, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.asarray(s[population + ("_0" if copies > 1 else "")][name])

    r, c = values("drawn", "r"), values("drawn", "c")
    assert len(np.unique(r)) == 6
    np.testing.assert_allclose(c, 2 * r**2, rtol=1e-15)
    np.testing.assert_allclose(values("drawn", "z"), c + 1, rtol=1e-15)
    np.testing.assert_allclose(values("drawn", "g"), r + c, rtol=1e-15)
    np.testing.assert_allclose(values("listed", "c"), [2, 9, 20], rtol=1e-15)
    np.testing.assert_allclose(values("listed", "z"), [1, 2, 3], rtol=1e-15)
    first = values("spread", "g")
    assert len(np.unique(first)) == 4 and ((first >= 1) & (first < 2)).all()
    s.run("2 ms")
    np.testing.assert_allclose(values("listed", "v"), np.exp(-2 / 5) * np.array([0, 2, 4]) * [7, 23, 47], rtol=1e-14)
    np.testing.assert_allclose(values("single", "v"), np.exp(-2 / 3) * np.array([1, 2]) * (4 + 6 + 7 + 3), rtol=1e-14)
    np.testing.assert_allclose(values("spread", "g"), first * np.exp(-2 / 5), rtol=1e-14)
    assert values("silent", "g") == 0


def test_names_of_the_model_win() -> None:
    """`tau: tau` is the model's, as it has been."""
    s = netloom.load(TEXT.replace("COPIES", "1"), set={"tau": "7 ms"}).simulation()
    assert (np.asarray(s["single"]["tau"]) == 7).all()
