"""Inputs that projections hold at their targets (`post: {inputs: ..., deliver: ...}`), against numbers apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import netloom
from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

STEPS = 40
TEXT = """language: 1
name: own
phases: {trial: {every: 10 ms, events: {start: 0 ms}}}
neurons:
  src: {state: {n: 0}, update: [n = n + 1], spike: {when: n % (3 + self.i) == 0}}
  cell: {inputs: {i: {}, j: {}}, state: {v: 0, got: 0, other: 0}, update: [got = i, other = j, v = v + 0.1 * (i - v)]}
synapses:
  conductance:
    params: {w: 0.5, tau: 5 ms, e: 2}
    post: {inputs: {g: {decay: tau}}, deliver: g * (e - post.v)}
    on_pre: ["deliver(w, post.g)"]
  alpha:
    params: {w: 1}
    post: {state: {s: 0}, inputs: {a: {}}, update: [s = 0.8 * s + a], deliver: {i: s, j: 2 * s + a}}
    on_pre: ["deliver(w, post.a)"]
populations: {a: {neuron: src, size: 3}, b: {neuron: cell, size: 1}}
projections:
PROJECTIONS
simulate: {dt: 1 ms, duration: 40 ms}
numerics: {precision: float64}
record: [{trace: {from: b, variables: [got, other, v], every: 1 ms}}]
"""
SPIKES = np.array([[k % (3 + i) == 0 for i in range(3)] for k in range(1, STEPS + 1)])
"""By step and neuron."""


def arrived(delay: int) -> npt.NDArray[np.float64]:
    """Spikes that arrive in each step."""
    return np.concatenate((np.zeros(delay), SPIKES.sum(1)))[:STEPS]


def traces(projections: str, target: str) -> dict[str, npt.NDArray[np.float64]]:
    s = netloom.load(TEXT.replace("PROJECTIONS", projections)).simulation(target=target)
    found: dict[str, list[float]] = {"got": [], "other": [], "v": []}
    for _ in range(STEPS):
        s.run("1 ms")
        for name, values in found.items():
            values.append(float(np.asarray(getattr(s["b"], name))[0]))
    return {name: np.array(values) for name, values in found.items()}


def two_conductances() -> dict[str, npt.NDArray[np.float64]]:
    """p: 0.5 a spike, 5 ms, towards 2; q: 0.2 a spike, 9 ms, towards -1, 2 ms later."""
    g, h, v, current = 0.0, 0.0, 0.0, 0.0
    found: dict[str, list[float]] = {"got": [], "v": []}
    for k in range(STEPS):
        v = v + 0.1 * (current - v)
        found["got"].append(current)
        found["v"].append(v)
        g = g * np.exp(-1 / 5) + 0.5 * arrived(0)[k]
        h = h * np.exp(-1 / 9) + 0.2 * arrived(2)[k]
        current = g * (2 - v) + h * (-1 - v)
    return {name: np.array(values) for name, values in found.items()}


TWO = """  p: {from: a, to: b, connect: {all_to_all: {}}, synapse: conductance, deliver: {into: i}}
  q:
    from: a
    to: b
    connect: {all_to_all: {}}
    synapse: conductance
    deliver: {into: i}
    params: {w: 0.2, tau: 9 ms, e: -1}
    delay: 2 ms"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_conductances_of_projections_add_up_in_one_input(target: str) -> None:
    found, expected = traces(TWO, target), two_conductances()
    for name in ("got", "v"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_what_arrives_in_a_step_acts_in_the_next(target: str) -> None:
    found = traces("  p: {from: a, to: b, connect: {all_to_all: {}}, synapse: alpha}", target)
    a, s = np.concatenate(([0.0], arrived(0)[:-1])), np.zeros(STEPS)
    for k in range(1, STEPS):  # `a` of step k - 1 joins `s` in step k, and is delivered at the end of that step
        s[k] = 0.8 * s[k - 1] + a[k]
    np.testing.assert_allclose(found["got"][1:], s[:-1], rtol=1e-12)
    np.testing.assert_allclose(found["other"][1:], (2 * s + arrived(0))[:-1], rtol=1e-12)


def test_events_of_phases_empty_them() -> None:
    text = TEXT.replace("deliver: g * (e - post.v)}", "deliver: g, on: {trial.start: [g = 0]}}")
    s = netloom.load(text.replace("PROJECTIONS", TWO.partition("\n")[0])).simulation()
    s.run("40 ms")
    g = 0.0
    for k in range(STEPS - 1):
        g = (0.0 if k % 10 == 0 else g) * np.exp(-1 / 5) + 0.5 * arrived(0)[k]
    np.testing.assert_allclose(float(np.asarray(s["b"].got)[0]), g, rtol=1e-12)


def test_conductances_go_on_where_learning_is_frozen() -> None:
    frozen = TEXT.replace("PROJECTIONS", TWO).replace("duration: 40 ms", "duration: 40 ms, freeze: learning")
    s = netloom.load(frozen).simulation()
    s.run("40 ms")
    np.testing.assert_allclose(float(np.asarray(s["b"].v)[0]), two_conductances()["v"][-1], rtol=1e-12)


ONE = "{from: a, to: b, connect: {all_to_all: {}}, synapse: conductance, deliver: {into: i}, params: {w: K}}"


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_kernels_do_not_grow_with_the_number_of_projections(target: str, tmp_path: Path) -> None:
    def kernels(many: int) -> list[str]:
        projections = "\n".join(f"  p{k}: {ONE.replace('K', str(k + 1))}" for k in range(many))
        model = model_of(TEXT.replace("PROJECTIONS", projections), tmp_path)
        return [t.digest for t in lower(model, backend(target).capabilities).merged.templates]

    assert kernels(2) == kernels(30)
