"""Evenly spread values in a random order."""

from __future__ import annotations

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: permuted
neurons:
  cell:
    params: {k: 1}
    state: {v: {permutation: {low: 0.5 mV, high: 2 mV}}}
    update: [v = v]
    spike: {when: v > 1 V * k}
populations:
  a: {neuron: cell, size: 11, params: {k: {permutation: {low: 1, high: 3}}}}
  b: {neuron: cell, size: 1}
simulate: {dt: 1 ms, duration: 10 ms, instances: 2}
record: [{spikes: {from: a}}]
"""


def test_values() -> None:
    """Each once, in another order for each population, parameter and instance, the same on both targets; by seed."""
    model = netloom.load(TEXT)
    found = {t: model.simulation(target=t) for t in ("cpu", "reference")}
    orders = set()
    for population in ("a_0", "a_1"):
        for name, low, high in (("v", 0.5, 2), ("k", 1, 3)):
            values = np.asarray(getattr(found["cpu"][population], name))
            np.testing.assert_allclose(np.sort(values), np.linspace(low, high, 11), rtol=1e-6)
            np.testing.assert_array_equal(values, getattr(found["reference"][population], name))
            orders.add(tuple(np.argsort(values)))
    assert len(orders) == 4
    assert found["cpu"]["b_0"].v.tolist() == [0.5]
    again = model.simulation(seed=9)
    assert np.asarray(again["a_0"].v).tolist() != np.asarray(found["cpu"]["a_0"].v).tolist()
