"""Initial values of currents follow from their parameters, drawn ones too, and from the states before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netloom import run

MODEL = """
language: 1
neurons:
  cell:
    params: {bias: 0 pA}
    inputs: {i: {unit: pA}}
    state: {seen: 0 pA, biased: 0 pA}
    update: [seen = i, biased = bias]
currents:
  decaying:
    params: {amplitude: 1 pA, factor: 2, doubled: factor * amplitude}
    state: {x: doubled, y: 3 * x}
    dynamics: {dx/dt: -x / (10 ms), dy/dt: -y / (20 ms)}
    value: x + y
populations: {p: {neuron: cell, size: 50}}
inputs:
  drawn: {to: p, current: {into: i, source: decaying, params: {amplitude: {uniform: {low: 1 pA, high: 5 pA}}}}}
  fixed: {to: p, current: {into: bias, source: decaying}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 1}
record: [{trace: {from: p, variables: [seen, biased]}}]
numerics: {precision: float64}
"""


def test_states_follow_from_parameters_and_states(tmp_path: Path) -> None:
    path = tmp_path / "currents.yaml"
    path.write_text(MODEL, encoding="utf-8")
    result = run(path, out=tmp_path / "run", quiet=True)
    t = 0.1 * np.arange(10)
    course = 2 * np.exp(-t / 10) + 6 * np.exp(-t / 20)
    np.testing.assert_allclose(result.traces("p", "biased")[1], np.repeat(course[:, None], 50, 1), rtol=1e-12)
    seen = result.traces("p", "seen")[1]
    amplitudes = seen[0] / 8
    assert amplitudes.min() > 1 and amplitudes.max() < 5 and np.ptp(amplitudes) > 2
    np.testing.assert_allclose(seen, course[:, None] * amplitudes, rtol=1e-12)
