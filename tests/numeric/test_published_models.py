"""Models of the literature against the same equations stepped here: a pyramidal cell of two compartments (Pinsky and
Rinzel 1994), a threshold with two time constants (Kobayashi, Tsubo and Shinomoto 2009), rates of two populations that
see each other late (Wilson and Cowan 1972), and neurons that gap junctions couple."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np
import numpy.typing as npt
import pytest

from netloom import RunResult, run

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

MODEL = """
language: 1
functions:
  "S(x, a, th)": 1 / (1 + exp(-a * (x - th))) - 1 / (1 + exp(a * th))
neurons:
  pinsky_rinzel:
    params: {I: 0.75 uA/cm**2, gc: 2.1 mS/cm**2, p: 0.5, C: 3 uF/cm**2}
    state: {vs: -4.6 mV, vd: -4.5 mV, h: 0.999, n: 0.001, s: 0.009, c: 0.007, q: 0.01, ca: 0.2}
    let:
      xs: vs / (1 mV)
      xd: vd / (1 mV)
      am: 1.28 / exprel((13.1 - xs) / 4)
      m: am / (am + 1.4 / exprel((xs - 40.1) / 5))
      high: 2 * exp(-(xd - 6.5) / 27)
      ac: exp((xd - 10) / 11 - (xd - 6.5) / 27) / 18.975 if xd <= 50 else high
      chi: min(ca / 250, 1)
      aq: min(0.00002 * ca, 0.01)
    dynamics:
      dvs/dt: (-0.1 mS/cm**2 * vs - 30 mS/cm**2 * m ** 2 * h * (vs - 120 mV) - 15 mS/cm**2 * n * (vs + 15 mV)
        + (gc * (vd - vs) + I) / p) / C
      dvd/dt: (-0.1 mS/cm**2 * vd - 10 mS/cm**2 * s ** 2 * (vd - 140 mV)
        - (0.8 mS/cm**2 * q + 15 mS/cm**2 * c * chi) * (vd + 15 mV) + gc * (vs - vd) / (1 - p)) / C
      dh/dt: (0.128 * exp((17 - xs) / 18) * (1 - h) - 4 / (1 + exp((40 - xs) / 5)) * h) / (1 ms)
      dn/dt: (0.08 / exprel((35.1 - xs) / 5) * (1 - n) - 0.25 * exp(0.5 - 0.025 * xs) * n) / (1 ms)
      ds/dt: (1.6 / (1 + exp(-0.072 * (xd - 65))) * (1 - s) - 0.1 / exprel((xd - 51.1) / 5) * s) / (1 ms)
      dc/dt: (ac * (1 - c) - (high - ac if xd <= 50 else 0) * c) / (1 ms)
      dq/dt: (aq * (1 - q) - 0.001 * q) / (1 ms)
      dca/dt: (-1.3 * s ** 2 * (xd - 140) - 0.075 * ca) / (1 ms)
    method: rk4
    spike: {when: vs > 30 mV, refractory: {while: vs > 10 mV}}
  adaptive_threshold:
    params: {E_L: -70 mV, omega: 19 mV}
    state: {v: E_L, fast: 0 mV, slow: 0 mV}
    dynamics: {dv/dt: (E_L - v) / (5 ms) + 600 pA / (100 pF), dfast/dt: -fast / (10 ms), dslow/dt: -slow / (200 ms)}
    spike:
      when: v - E_L >= omega + fast + slow
      reset: [fast = fast + 37 mV, slow = slow + 2 mV]
      refractory: {time: 2 ms, hold: []}                  # no spike, and the potential goes on
  rate:
    params: {a: 1.3, th: 4, P: 0}
    inputs: {drive: {}}
    state: {r: 0.1}
    dynamics: {dr/dt: "(-r + (0.97 - r) * S(drive + P, a, th)) / (8 ms)"}
    method: rk4
  coupled:
    inputs: {gap: {}}
    state: {v: 0}
    dynamics: {dv/dt: (1.05 - v + gap) / (10 ms)}
    spike: {when: v > 1, reset: [v = 0]}
synapses:
  late: {params: {w: 1}, update: [deliver(w * delayed(pre.r))]}
populations:
  cell: {neuron: pinsky_rinzel, size: 1}
  mat: {neuron: adaptive_threshold, size: 1}
  E: {neuron: rate, size: 1, params: {P: 1.25}}
  I: {neuron: rate, size: 1, params: {a: 2, th: 3.7}}
  ring: {neuron: coupled, size: 10, init: {v: self.i / 9}}
projections:
  rates:
    from: [E, I]
    to: [E, I]
    connect: {all_to_all: {}}
    synapse: late
    values: {w: {by_pair: [[16, -12], [15, -3]]}}
    params: {w: w}
    deliver: {into: drive}
    delay: 1 ms
  gaps:
    from: ring
    to: ring
    connect: {all_to_all: {}}
    synapse: library/synapses/gap_junction
    params: {g: 0.02}
    deliver: {into: gap}
simulate: {dt: 0.02 ms, duration: 120 ms}
record: [{spikes: {from: all}}, {trace: {from: [E, I], variables: [r], every: 2 ms}}]
numerics: {precision: float64}
"""
DT, STEPS = 0.02, 6000
State = tuple[float, ...]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("published")
    path = folder / "published.yaml"
    path.write_text(MODEL, encoding="utf-8")
    return run(path, out=folder / "run", quiet=True)


def rk4(f: Callable[[State], State], y: State) -> State:
    def moved(k: State, part: float) -> State:
        return tuple(a + part * DT * b for a, b in zip(y, k, strict=True))

    first = f(y)
    second = f(moved(first, 0.5))
    third = f(moved(second, 0.5))
    last = f(moved(third, 1.0))
    each = zip(y, first, second, third, last, strict=True)
    return tuple(a + DT / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in each)


def exprel(x: float) -> float:
    return 1.0 if x == 0 else (exp(x) - 1) / x


def pinsky_rinzel(y: State) -> State:
    vs, vd, h, n, s, c, q, ca = y
    am = 1.28 / exprel((13.1 - vs) / 4)
    m = am / (am + 1.4 / exprel((vs - 40.1) / 5))
    high = 2 * exp(-(vd - 6.5) / 27)
    ac = exp((vd - 10) / 11 - (vd - 6.5) / 27) / 18.975 if vd <= 50 else high
    aq = min(2e-5 * ca, 0.01)
    soma = -0.1 * vs - 30 * m**2 * h * (vs - 120) - 15 * n * (vs + 15) + (2.1 * (vd - vs) + 0.75) / 0.5
    dendrite = -0.1 * vd - 10 * s**2 * (vd - 140) - (0.8 * q + 15 * c * min(ca / 250, 1)) * (vd + 15)
    return (
        soma / 3,
        (dendrite + 2.1 * (vs - vd) / 0.5) / 3,
        0.128 * exp((17 - vs) / 18) * (1 - h) - 4 / (1 + exp((40 - vs) / 5)) * h,
        0.08 / exprel((35.1 - vs) / 5) * (1 - n) - 0.25 * exp(0.5 - 0.025 * vs) * n,
        1.6 / (1 + exp(-0.072 * (vd - 65))) * (1 - s) - 0.1 / exprel((vd - 51.1) / 5) * s,
        ac * (1 - c) - (high - ac) * c,
        aq * (1 - q) - 0.001 * q,
        -1.3 * s**2 * (vd - 140) - 0.075 * ca,
    )


def test_two_compartments(result: RunResult) -> None:
    y: State = (-4.6, -4.5, 0.999, 0.001, 0.009, 0.007, 0.01, 0.2)
    above, times = False, list[float]()
    for k in range(STEPS):
        y = rk4(pinsky_rinzel, y)
        above = above and y[0] > 10
        if not above and y[0] > 30:
            times.append((k + 1) * DT)
            above = True
    assert len(times) == 2
    np.testing.assert_allclose(result.spikes("cell")[0], times, atol=1e-9)


def test_adaptive_threshold(result: RunResult) -> None:
    v, fast, slow, left, times = 0.0, 0.0, 0.0, 0, list[float]()
    for k in range(STEPS):
        v = 30 + (v - 30) * exp(-DT / 5)
        fast, slow = fast * exp(-DT / 10), slow * exp(-DT / 200)
        if left == 0 and v >= 19 + fast + slow:
            times.append((k + 1) * DT)
            fast, slow, left = fast + 37, slow + 2, 101
        left = max(left - 1, 0)
    assert len(times) > 4
    np.testing.assert_allclose(result.spikes("mat")[0], times, atol=1e-9)


def test_late_rates(result: RunResult) -> None:
    def gain(x: float, a: float, th: float) -> float:
        return 1 / (1 + exp(-a * (x - th))) - 1 / (1 + exp(a * th))

    late = 50
    past = [(0.1, 0.1)] * (late + 1)
    seen = list[State]()
    drive = 0.0, 0.0
    y: State = (0.1, 0.1)
    for k in range(STEPS):

        def slope(y: State, drive: State = drive) -> State:
            e = (-y[0] + (0.97 - y[0]) * gain(drive[0] + 1.25, 1.3, 4)) / 8
            return e, (-y[1] + (0.97 - y[1]) * gain(drive[1], 2, 3.7)) / 8

        y = rk4(slope, y)
        past = [*past[1:], (y[0], y[1])]
        e, i = past[0]
        drive = 16 * e - 12 * i, 15 * e - 3 * i
        if (k + 1) % 100 == 0:
            seen.append(y)
    found = np.stack([result.traces(p, "r")[1][:, 0] for p in ("E", "I")], axis=1)
    np.testing.assert_allclose(found, seen, rtol=1e-9)
    assert np.ptp(found[:, 0]) > 0.1


def test_gap_junctions(result: RunResult) -> None:
    v: npt.NDArray[np.float64] = np.arange(10) / 9
    gap, spikes = np.zeros(10), list[tuple[float, int]]()
    for k in range(STEPS):
        v = 1.05 + gap + (v - 1.05 - gap) * exp(-DT / 10)
        fired = v > 1
        spikes += [((k + 1) * DT, int(n)) for n in np.flatnonzero(fired)]
        v = np.where(fired, 0, v)
        gap = 0.02 * (v.sum() - 10 * v)
    times, neurons = result.spikes("ring")
    assert len(spikes) > 20
    np.testing.assert_allclose(times, [t for t, _ in spikes], atol=1e-9)
    assert neurons.tolist() == [n for _, n in spikes]
