"""Weights, delays, parameters and initial values of synapses that follow from the places of both ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import netloom
from compiler.core.diagnostics import ModelError
from tests.grids import diagonal, together
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: placed
params: {s: {value: 0.3 mV}, speed: {value: 0.2}, n: {value: 20}}
neurons:
  clock: {state: {x: 0}, update: [x = x + 1], spike: {when: x == 2}}
  cell: {inputs: {g: {unit: mV}}, state: {v: 0 mV}, update: [v = v + g]}
populations:
  a: {neuron: clock, shape: [4, 5]}
  b: {neuron: cell, shape: [4, 5]}
projections:
  p: {from: a, to: b, CONNECT, SPACEdeliver: {into: g, weight: WEIGHT}, delay: DELAY}
simulate: {dt: 0.5 ms, duration: 20 ms}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""
ALL = "connect: {all_to_all: {}}"
NEAR = "s * exp(-distance / 2) + 0.01 mV * i"
K = np.arange(20)
X, Y = K % 5, K // 5
D = np.hypot(X[:, None] - X, Y[:, None] - Y)
NEAR_VALUES = 0.3 * np.exp(-D / 2) + 0.01 * K[:, None]


def simulation(
    weight: str = "1 mV", connect: str = ALL, delay: str = "0 ms", space: str = "", target: str = "cpu"
) -> netloom.Simulation:
    text = TEXT.replace("CONNECT", connect).replace("SPACE", space).replace("WEIGHT", weight).replace("DELAY", delay)
    return netloom.load(text).simulation(target=target)


def matrix(p: Any, name: str = "weight") -> npt.NDArray[np.float64]:
    found = np.full((20, 20), np.nan)
    found[np.asarray(p.source), np.asarray(p.target)] = getattr(p, name)
    return found


@pytest.mark.parametrize(
    ("connect", "target"),
    diagonal(
        [
            "connect: {all_to_all: {}}",
            "connect: {one_to_one: {}}",
            "connect: {fixed_probability: {p: 0.4}}",
            "connect: {fixed_total: {number: 90, multapses: false}}",
            "connect: {rule: {when: distance < 2.5}}",
            "connect: {pairs: {list: [[3, 4], [0, 19], [7, 7], [3, 2]]}}",
            "connect: {fixed_probability: {p: 0.4, storage: procedural}}",
            "connect: {fixed_probability: {p: 0.4, storage: bitmask}}",
        ],
        ["cpu", "reference"],
    ),
)
def test_weights(connect: str, target: str) -> None:
    s = simulation(NEAR, connect, target=target)
    stored = "procedural" not in connect and "bitmask" not in connect
    there = ~np.isnan(matrix(s.projections["p"])) if stored else pairs_of(connect)
    if stored:
        found = matrix(s.projections["p"])
        np.testing.assert_allclose(found[there], NEAR_VALUES[there], rtol=1e-15)
    s.run("20 ms")
    np.testing.assert_allclose(s["b"].v, np.where(there, NEAR_VALUES, 0).sum(0), rtol=1e-14)


def pairs_of(connect: str) -> npt.NDArray[np.bool_]:
    """The pairs of a rule that stores none."""
    sparse = connect.replace(", storage: procedural", "").replace(", storage: bitmask", "")
    return ~np.isnan(matrix(simulation("1 mV", sparse).projections["p"]))


@pytest.mark.parametrize(
    ("delay", "expected", "target"),
    diagonal(
        together(
            [
                ("{value: distance / speed * 1 ms, round: nearest}", np.floor(D / 0.2 / 0.5 + 0.5)),
                ('{value: "1 ms * max(j - i + 3 * x_i - w_to + h_from, 0)", round: nearest}', None),
                (
                    "{value: 0.5 ms * (n_from - n + n_to - 20 + (1 if y_j == 2 else c_i)), round: nearest}",
                    (Y == 2) + 0 * D,
                ),
            ]
        ),
        ["cpu", "reference"],
    ),
)
def test_delays(delay: str, expected: npt.NDArray[np.float64] | None, target: str) -> None:
    if expected is None:
        expected = 2.0 * np.maximum(K - K[:, None] + 3 * X[:, None] - 1, 0)
    s = simulation("0.25 mV * (1 + i)", delay=delay, target=target)
    s.run("1 ms")  # the clocks spike in step 2
    for step in range(2, 40):
        arrived = np.where(expected <= step - 3, 0.25 * (1 + K[:, None]), 0).sum(0)
        np.testing.assert_allclose(s["b"].v, arrived, rtol=1e-13)
        s.run("0.5 ms")


def test_space() -> None:
    """A torus with a spacing in um, of the projection or of its rule."""
    x, y = (np.minimum(np.abs(k[:, None] - k), n - np.abs(k[:, None] - k)) for k, n in ((X, 5), (Y, 4)))
    expected = 0.02 * np.hypot(x, y)
    weight, space = "distance / (1 mm) * 1 mV", "spacing: 20 um, periodic: true"
    found = matrix(simulation(weight, space=f"space: {{{space}}}, ").projections["p"])
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    found = matrix(simulation(weight, f"connect: {{rule: {{when: distance < 45 um, {space}}}}}").projections["p"])
    np.testing.assert_allclose(found, np.where(expected < 0.045, expected, np.nan), rtol=1e-14)


def test_names_of_users_win() -> None:
    """Parameters and values of an entry keep their meaning."""
    text = TEXT.replace("n: {value: 20}", "n: {value: 20}, i: {value: 3}").replace("CONNECT", ALL).replace("SPACE", "")
    text = text.replace("WEIGHT", "j * i * 1 mV").replace("DELAY", "0 ms")
    found = matrix(netloom.load(text).simulation().projections["p"])
    np.testing.assert_array_equal(found, np.broadcast_to(3.0 * K, (20, 20)))


PLASTIC = """language: 1
name: placed
params: {s: {value: 0.3 mV}}
neurons:
  clock: {state: {x: 0}, update: [x = x + 1], spike: {when: x == 2}}
  cell: {inputs: {g: {unit: mV}}, state: {v: 0 mV}, update: [v = v + g]}
synapses:
  scaled:
    params: {gain: 1, top: {value: 2 mV}}
    state: {w: 0.5 mV, seen: gain + 1}
    on_pre: [deliver(gain * w), "w = min(w + 1 mV, top)"]
    on: {trial.end: ["w = w if seen > 0 else top"]}
phases: {trial: {every: 2 ms, events: {end: 2 ms}}}
populations:
  a: {neuron: clock, shape: [4, 5]}
  b: {neuron: cell, shape: [4, 5]}
projections:
  p:
    from: a
    to: b
    connect: {fixed_probability: {p: 0.5}}
    synapse: scaled
    params: {gain: 1 + distance, top: s * (1 + x_j) * 10}
    init: {w: s * exp(-distance)}
    deliver: {into: g}
    delay: {value: 0.5 ms * distance, round: nearest}
simulate: {dt: 0.5 ms, duration: 20 ms}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parameters_and_states(target: str) -> None:
    s = netloom.load(PLASTIC).simulation(target=target)
    p = s.projections["p"]
    i, j = np.asarray(p.source), np.asarray(p.target)
    d, top = D[i, j], 3.0 * (1 + X[j])
    np.testing.assert_allclose(p.w, 0.3 * np.exp(-d), rtol=1e-15)
    np.testing.assert_allclose(p.seen, 2 + d, rtol=1e-15)
    s.run("20 ms")
    np.testing.assert_allclose(p.w, np.minimum(0.3 * np.exp(-d) + 1, top), rtol=1e-14)
    expected = np.bincount(j, (1 + d) * 0.3 * np.exp(-d), 20)
    np.testing.assert_allclose(s["b"].v, expected, rtol=1e-13)


@pytest.mark.parametrize("order", ["reproducible", "bitwise"])
def test_bounds(order: str, tmp_path: Path) -> None:
    """Exact bounds scale the accumulators; large populations have those of interval analysis."""
    text = TEXT.replace("precision: float64", f"precision: float32, order: {order}").replace("CONNECT", ALL)
    text = text.replace("SPACE", "").replace("DELAY", "0 ms").replace("WEIGHT", NEAR)
    (member,) = model_of(text, tmp_path).projections[0].members
    assert (member.weight.low, member.weight.high) == (NEAR_VALUES.min(), NEAR_VALUES.max())
    s = netloom.load(text).simulation()
    s.run("20 ms")
    np.testing.assert_allclose(s["b"].v, NEAR_VALUES.sum(0), rtol=1e-6)
    large = text.replace("[4, 5]", "[300, 500]")
    (member,) = model_of(large, tmp_path).projections[0].members
    assert 0 <= member.weight.low <= 0.3 * np.exp(-np.hypot(299, 499) / 2)
    assert member.weight.high == pytest.approx(0.3 + 0.01 * 149_999)
    (member,) = model_of(large.replace(NEAR, "s * (distance - 100)"), tmp_path).projections[0].members
    assert member.weight.high == pytest.approx(0.3 * (np.hypot(299, 499) - 100))


def test_values_of_pairs_that_cannot_be(tmp_path: Path) -> None:
    """What has no value where nothing can be connected is no error."""
    text = TEXT.replace("to: b, ", "to: a, ").replace(
        "spike: {when: x == 2}", "inputs: {g: {unit: mV}}, spike: {when: x == 2}"
    )
    text = text.replace("x = x + 1", "x = x + 1 + g * 0 / (1 mV)").replace("SPACE", "").replace("DELAY", "0 ms")
    weight = "0.1 mV / distance"
    for connect in ("all_to_all: {autapses: false}", "rule: {when: distance > 0}"):
        model_of(text.replace("WEIGHT", weight).replace("CONNECT", f"connect: {{{connect}}}"), tmp_path)
    with pytest.raises(ModelError) as error:
        model_of(text.replace("WEIGHT", weight).replace("CONNECT", ALL), tmp_path)
    assert "`weight` is inf from neuron 0 of `a` to 0 of `a`" in str(error.value)


REWIRED = """language: 1
name: rewired
neurons:
  clock: {state: {x: 0}, update: [x = x + 1], spike: {when: x % 2 == 0}}
  cell: {inputs: {g: {unit: mV}}, state: {v: 0 mV}, update: [v = v + g]}
synapses:
  moved:
    state: {w: 0 mV, age: 0}
    on_pre: [deliver(w), age = age + 1]
    on: {trial.end: [rewire(random() < 0.5)]}
phases: {trial: {every: 2 ms, events: {end: 2 ms}}}
populations:
  a: {neuron: clock, size: 30}
  b: {neuron: cell, size: 40}
projections:
  p: {from: a, to: b, connect: {fixed_probability: {p: 0.2}}, synapse: moved, deliver: {into: g},
      init: {w: 0.1 mV * j + 10 mV * i}}
simulate: {dt: 1 ms, duration: 6 ms}
record: [{spikes: {from: a}}]
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_rewired_synapses_start_from_their_new_places(target: str) -> None:
    s = netloom.load(REWIRED).simulation(target=target)
    p = s.projections["p"]
    before = np.asarray(p.target).copy()
    s.run("6 ms")
    i, j = np.asarray(p.source), np.asarray(p.target)
    assert (j != before).mean() > 0.5
    np.testing.assert_allclose(p.w, 0.1 * j + 10 * i, rtol=1e-14)
