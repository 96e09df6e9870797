"""`transpose(mirror.w)`: one synapse model for several projections, each with a counterpart of its own."""

from __future__ import annotations

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: mirrors
phases: {trial: {every: 2 ms, events: {end: 2 ms}}}
neurons:
  cell: {inputs: {g: {}}, state: {v: 0}, update: [v = v + g], spike: {when: v > 1000}}
synapses:
  forward: {state: {w: 0}, on_pre: [deliver(w)]}
  back: {state: {w: 0}, on_pre: [deliver(w)], on: {trial.end: [w = 10 * w, w = transpose(mirror.w), w = w + 1]}}
populations: {a: {neuron: cell, size: 3}, b: {neuron: cell, size: 4}, c: {neuron: cell, size: 5}}
projections:
  up_1: {from: a, to: b, connect: {all_to_all: {}}, synapse: forward, deliver: {into: g}, init: {w: 10 * i + j}}
  up_2: {from: b, to: c, connect: {all_to_all: {}}, synapse: forward, deliver: {into: g}, init: {w: 100 + 10 * i + j}}
  down_1: {from: b, to: a, connect: {all_to_all: {}}, synapse: back, deliver: {into: g}, mirror: up_1}
  down_2: {from: c, to: b, connect: {all_to_all: {storage: sparse}}, synapse: back, deliver: {into: g}, mirror: up_2}
simulate: {dt: 1 ms, duration: 2 ms}
record: [{spikes: {from: a}}]
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_mirrors(target: str) -> None:
    s = netloom.load(TEXT).simulation(target=target)
    s.run("2 ms")
    for k, (n, m) in enumerate(((3, 4), (4, 5))):
        forward = 100 * k + 10 * np.arange(n)[:, None] + np.arange(m)
        np.testing.assert_array_equal(s.projections[f"up_{k + 1}"].w, forward.ravel())
        np.testing.assert_array_equal(s.projections[f"down_{k + 1}"].w, forward.T.ravel() + 1)
