"""Values by index and place: `self.i` and the others, in parameters, initial values and equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: places
params: {step: {value: 0.5 mV}}
neurons:
  cell:
    params: {rest: -60 mV, tau: 10 ms + self.i * 1 ms}
    state: {v: rest + self.x * step, k: 0, other: self.c * 100 + self.y * 10 + self.x}
    pool: {reduce: {far: max(k * self.w)}}
    let: {share: self.i / self.n}
    update: [k = k + share + 100 * self.instance + 0 * pool.far]
    dynamics: {dv/dt: (rest - v) / tau}
    spike: {when: self.i == 2 and k > 2, reset: [v = v - self.h * 1 mV]}
populations:
  a: {neuron: cell, shape: [2, 3, 4], init: {k: self.w * self.h}}
  b: {neuron: cell, size: 3, params: {rest: -70 mV + self.i * 1 mV, tau: 5 ms}, init: {k: self.n - self.i}}
simulate: {dt: 1 ms, duration: 3 msEXTRA}
record: [{spikes: {from: [a, b]}}]
numerics: {precision: float64}
"""


def simulation(extra: str = "", target: str = "cpu", **settings: Any) -> netloom.Simulation:
    return netloom.load(TEXT.replace("EXTRA", extra), set=settings).simulation(target=target)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_places(target: str) -> None:
    s = simulation(target=target)
    i = np.arange(24)
    x, y, c = i % 4, i // 4 % 3, i // 12
    np.testing.assert_array_equal(s["a"].tau, 10 + i)
    np.testing.assert_array_equal(s["a"].v, -60 + 0.5 * x)
    np.testing.assert_array_equal(s["a"].other, 100 * c + 10 * y + x)
    assert set(s["a"].k) == {12}
    np.testing.assert_array_equal(s["b"].v, [-70, -68.5, -67])
    np.testing.assert_array_equal(s["b"].k, [3, 2, 1])
    assert s["a"].variables == ("v", "k", "other", "rest", "tau", "pool.far")
    v = np.asarray(s["a"].v)
    s.run("2 ms")
    np.testing.assert_allclose(s["a"].k, 12 + 2 * i / 24, rtol=1e-14)
    moved = -60 + (v + 60) * np.exp(-2 / (10 + i))
    np.testing.assert_allclose(np.delete(s["a"].v, 2), np.delete(moved, 2), rtol=1e-12)
    assert s["a"]["pool.far"].tolist() == [pytest.approx(4 * (12 + 23 / 24))]  # before `update` reads it
    assert s["a"].spikes[1].tolist() == [2, 2]
    v2 = (v[2] + 60) * np.exp(-1 / 12) - 3
    assert s["a"].v[2] == pytest.approx(-60 + v2 * np.exp(-1 / 12) - 3, rel=1e-12)
    s.run("1 ms")
    assert s["b"].spikes[0].tolist() == [2, 3] and set(s["b"].spikes[1]) == {2}  # 1 + 2 / 3 per step


def test_copies_know_their_number() -> None:
    s = simulation(", instances: 3")
    s.run("1 ms")
    for k in range(3):
        np.testing.assert_allclose(s[f"b_{k}"].k, np.array([3, 2 + 1 / 3, 1 + 2 / 3]) + 100 * k, rtol=1e-14)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_drives_and_rates_know_the_copy(target: str) -> None:
    """Copy 0 has none of both: parameters and rates that change in time are worked out for each copy."""
    s = netloom.load("""language: 1
name: driven
neurons: {cell: {params: {p: 0}, inputs: {g: {}}, state: {x: 0, n: 0}, update: [x = p, n = n + g]}}
populations: {a: {neuron: cell, size: 50, params: {p: self.instance * t / (1 ms)}}}
inputs: {noise: {to: a, poisson: {rate: 100 Hz * self.instance * (1 + sin(t / (1 s))), into: g, weight: 1}}}
simulate: {dt: 1 ms, duration: 300 ms, instances: 3}
""").simulation(target=target)
    s.run("300 ms")
    for k in range(3):
        np.testing.assert_allclose(s[f"a_{k}"].x, 299 * k)
        assert np.mean(s[f"a_{k}"].n) == pytest.approx(k * 100 * (0.3 + 1 - np.cos(0.3)), rel=0.1)


def test_a_parameter_is_data() -> None:
    assert simulation(step="2 mV")["b"].v.tolist() == [-70, -67, -64]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("k: self.n - self.i", "k: self.n - self.j", "E0302"),
        ("k: self.n - self.i", "k: self.instance", "E0802"),
        ("k: self.n - self.i", "k: 1 / self.i", "E0308"),
        ("tau: 5 ms}", "tau: 5 ms + self.i}", "E0401"),
        ("rest: -60 mV, tau", "rest: -60 mV + self.instance * 1 mV, tau", "E0802"),
        ("duration: 3 ms", "duration: self.i * 1 ms", "E0302"),
        (
            "init: {k: self.w * self.h}",
            "init: {v: {uniform: {low: -60 mV, high: -50 mV}}, k: self.i * v / (1 mV)}",
            "E0802",
        ),
    ],
)
def test_mistakes(old: str, new: str, code: str) -> None:
    text = TEXT.replace("EXTRA", "")
    assert old in text
    assert code in [d.code for d in netloom.load(text.replace(old, new)).check()]


def test_other_names_keep_their_meaning() -> None:
    text = """language: 1
neurons: {cell: {state: {x: 3, n: 2, i: 1}, update: [x = x + n + i + self.n]}}
populations: {a: {neuron: cell, size: 5}}
simulate: {dt: 1 ms, duration: 1 ms}
"""
    s = netloom.load(text).simulation()
    s.run("1 ms")
    assert s["a"].x.tolist() == [11] * 5
