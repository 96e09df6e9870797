"""Locals of definitions in other files do not know the parameters of the model."""

from __future__ import annotations

from pathlib import Path

import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

LIBRARY = """language: 1
neurons:
  summing:
    inputs: {g: {}}
    state: {v: 0, w: 0}
    update: [gain = 0.5, v = v + gain + g]
    spike: {when: v > 1000}
    on: {trial.end: [far = 2, w = w + far]}
synapses:
  growing: {state: {w: 1}, on_pre: [gain = 7, w = w + gain, deliver(w)]}
phases: {trial: {every: 2 ms, events: {end: 2 ms}}}
"""
MODEL = """language: 1
name: m
params: {gain: {value: 3}, far: {value: true}}
phases: {trial: {use: lib.yaml#trial}}
neurons:
  clock: {state: {x: 0}, update: [x = x + 1], spike: {when: x == 2}}
populations: {a: {neuron: clock, size: 1}, p: {neuron: lib.yaml#summing, size: 2}}
projections: {k: {from: a, to: p, connect: {all_to_all: {}}, synapse: lib.yaml#growing, deliver: {into: g}}}
inputs: {i: {to: p, current: {into: g, amplitude: gain if far else 0}}}
simulate: {dt: 1 ms, duration: 10 ms}
record: [{spikes: {from: p}}]
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_locals(target: str, tmp_path: Path) -> None:
    (tmp_path / "lib.yaml").write_text(LIBRARY, encoding="utf-8")
    (tmp_path / "m.yaml").write_text(MODEL, encoding="utf-8")
    s = netloom.load(tmp_path / "m.yaml").simulation(target=target)
    s.run("10 ms")
    assert s["p"].v.tolist() == [10 * 0.5 + 10 * 3 + (1 + 7)] * 2
    assert s["p"].w.tolist() == [5 * 2] * 2
