"""Inputs of parts of populations, and rates and currents that follow from the place of a neuron."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netloom
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: inputs
timed: {ramp: {values: [0, 1, 2, 3], every: 1 ms}}
currents: {pulse: {params: {size: 2}, value: size if t < 2 ms else 0}}
neurons:
  cell: {params: {offset: 5}, inputs: {g: {}}, state: {got: 0, seen: 0}, update: [got = got + g, seen = seen + offset],
         spike: {when: got > 1000000}}
populations:
  a: {neuron: cell, shape: [2, 6]}
inputs:
  INPUT
simulate: {dt: 1 ms, duration: 4 ms, seed: 3}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""


def run(text: str, target: str) -> netloom.Simulation:
    s = netloom.load(TEXT.replace("INPUT", text)).simulation(target=target)
    s.run("4 ms")
    return s


INSIDE = np.isin(np.arange(12), [0, 1, 2, 8])
CASES: dict[str, tuple[str, Any, Any]] = {
    "a constant into an input": ('{to: "a[0..2, 8]", current: {into: g, amplitude: 3}}', 12 * INSIDE, 20),
    "a constant into a parameter": ('{to: "a[0..2, 8]", current: {into: offset, amplitude: 3}}', 0, 20 + 12 * INSIDE),
    "by place": (
        "{to: a, current: {into: g, amplitude: self.i + 10 * self.y}}",
        4 * (np.arange(12) + 10 * (np.arange(12) // 6)),
        20,
    ),
    "by place and time": (
        '{to: "a[x < 2]", current: {into: g, amplitude: ramp(t) * self.i}}',
        6 * np.arange(12) * (np.arange(12) % 6 < 2),
        20,
    ),
    "of the file": ('{to: "a[0..2, 8]", current: {into: g, source: pulse, params: {size: 7}}}', 14 * INSIDE, 20),
}


@pytest.mark.parametrize(("name", "target"), diagonal(list(CASES), ["cpu", "reference"]))
def test_currents(name: str, target: str) -> None:
    text, got, seen = CASES[name]
    s = run("x: " + text, target)
    np.testing.assert_allclose(s["a"].got, got + np.zeros(12), rtol=1e-14)
    np.testing.assert_allclose(s["a"].seen, seen + np.zeros(12), rtol=1e-14)


@pytest.mark.parametrize(
    "rate", ["100000 Hz", "100000 Hz * (1 + 0 * t / (1 ms))", "100000 Hz * (1 if self.i < 9 else 0)"]
)
def test_poisson(rate: str) -> None:
    """Rates of neurons outside are 0; the others draw as they would in the whole population."""
    text = f'x: {{to: "a[0..2, 8]", poisson: {{rate: {rate}, into: g, weight: 1}}}}'
    found = {target: np.asarray(run(text, target)["a"].got) for target in ("cpu", "reference")}
    np.testing.assert_array_equal(found["cpu"], found["reference"])
    assert (found["cpu"][~INSIDE] == 0).all()
    np.testing.assert_allclose(found["cpu"][INSIDE], 300, rtol=0.25)  # the last of 4 steps arrives in the next
    whole = np.asarray(
        run(text.replace('"a[0..2, 8]"', "a").replace("if self.i", "+ 0 * t / (1 ms) if self.i"), "cpu")["a"].got
    )
    np.testing.assert_array_equal(found["cpu"][INSIDE], whole[INSIDE])
