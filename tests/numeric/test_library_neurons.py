"""The library's neuron models against their papers' equations, written again here and solved independently.

A spike time of the solver counts as met when the simulated spike is in the step that ends first after it, or beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy import exp
from scipy.integrate import solve_ivp

from tests.numeric.simulated import Array, Simulated, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

FLOAT64 = "numerics: {precision: float64}\n"
both = pytest.mark.parametrize("target", ["cpu", "reference"])


def one(neuron: str, params: str, variables: str, duration: float, dt: float = 0.01, more: str = "") -> str:
    """One neuron of the library that is recorded in every step."""
    return f"""\
language: 1
name: one
populations: {{p: {{neuron: library/neurons/{neuron}, size: 1, params: {{{params}}}}}}}
simulate: {{dt: {dt} ms, duration: {duration} ms, seed: 1}}
record: [{{spikes: {{from: p}}}}, {{trace: {{from: p, variables: [{variables}], members: all}}}}]
{more}{FLOAT64}"""


def solved(
    f: Callable[[float, Array], list[float]],
    start: list[float],
    duration: float,
    peak: float,
    reset: Callable[[Array], Array] | None,
    refractory: float = 0.0,
) -> list[float]:
    """Times at which the first variable reaches `peak` from below; `reset` None: it goes on, as it is."""

    def crossing(t: float, y: Array) -> float:
        return float(y[0] - peak)

    crossing.terminal = reset is not None  # type: ignore[attr-defined]
    crossing.direction = 1.0  # type: ignore[attr-defined]
    times: list[float] = []
    t, y = 0.0, np.array(start, np.float64)
    while t < duration:
        found = solve_ivp(f, (t, duration), y, "DOP853", events=crossing, rtol=1e-9, atol=1e-11, max_step=0.5)
        times += [float(x) for x in found.t_events[0]]
        if reset is None or not len(found.t_events[0]):
            break
        y = reset(found.y_events[0][0])
        t = times[-1] + refractory
    return times


def assert_times(result: Simulated, expected: list[float], dt: float, tolerance: float) -> None:
    steps = np.array(result.steps_of("p")) * dt
    assert len(steps) == len(expected)
    assert len(steps) >= 3
    np.testing.assert_allclose(steps, expected, rtol=0, atol=tolerance)


# ------------------------------------------------------------------------------------- conductance-based


def test_traub_miles(tmp_path: Path) -> None:
    """The equations of Brette et al. (2007), appendix B, benchmark 3, in their own form and in SI-like units."""

    def f(_: float, y: Array) -> list[float]:
        v, m, h, n = y
        u = v + 63
        dm = 0.32 * (13 - u) / (exp((13 - u) / 4) - 1) * (1 - m) - 0.28 * (u - 40) / (exp((u - 40) / 5) - 1) * m
        dh = 0.128 * exp((17 - u) / 18) * (1 - h) - 4 / (1 + exp((40 - u) / 5)) * h
        dn = 0.032 * (15 - u) / (exp((15 - u) / 5) - 1) * (1 - n) - 0.5 * exp((10 - u) / 40) * n
        dv = 10 * (-60 - v) + 20000 * m**3 * h * (50 - v) + 6000 * n**4 * (-90 - v) + 400
        return [dv / 200, dm, dh, dn]

    text = one("traub_miles", "I_e: 400 pA", "v, m, h, n", 50, 0.02)
    result = simulate(text, tmp_path)
    expected = solved(f, [-60, 0, 1, 0], 50, -20, None)
    assert_times(result, expected, 0.02, 0.03)
    grid = np.arange(1, 101) * 0.02  # until the first spike sets in
    exact = solve_ivp(f, (0, 2.0), [-60.0, 0, 1, 0], "DOP853", rtol=1e-11, atol=1e-13, t_eval=grid).y
    for row, name in enumerate(("v", "m", "h", "n")):
        np.testing.assert_allclose(result.trace("p", name)[:100], exact[row], rtol=1e-5, atol=1e-6)


def test_wang_buzsaki(tmp_path: Path) -> None:
    """The equations of Wang & Buzsaki (1996), section on the model neuron."""

    def f(_: float, y: Array) -> list[float]:
        v, h, n = y
        am, bm = -0.1 * (v + 35) / (exp(-0.1 * (v + 35)) - 1), 4 * exp(-(v + 60) / 18)
        ah, bh = 0.07 * exp(-(v + 58) / 20), 1 / (exp(-0.1 * (v + 28)) + 1)
        an, bn = -0.01 * (v + 34) / (exp(-0.1 * (v + 34)) - 1), 0.125 * exp(-(v + 44) / 80)
        m = am / (am + bm)
        dv = 1.0 - 35 * m**3 * h * (v - 55) - 9 * n**4 * (v + 90) - 0.1 * (v + 65)
        return [dv, 5 * (ah * (1 - h) - bh * h), 5 * (an * (1 - n) - bn * n)]

    result = simulate(one("wang_buzsaki", "I_e: 1 uA/cm**2", "v, h, n", 90, 0.02), tmp_path)
    expected = solved(f, [-64, 0.78, 0.09], 90, 0, None)
    assert_times(result, expected, 0.02, 0.03)
    # Figure 1 of the paper: at 1 uA/cm**2 it fires at about 60 Hz.
    assert 1000 / np.diff(expected)[-1] == pytest.approx(61, abs=4)


def test_lif_cond_alpha(tmp_path: Path) -> None:
    """One delivery of 2 nS makes the conductance w e t/tau exp(-t/tau), and the potential follows it."""
    text = f"""\
language: 1
name: alpha
populations:
  source: {{neuron: library/neurons/spike_times, size: 1, params: {{times: [1 ms], indices: [0]}}}}
  p: {{neuron: library/neurons/lif_cond_alpha, size: 1, params: {{tau_ex: 1.5 ms}}}}
projections:
  ex: {{from: source, to: p, connect: {{all_to_all: {{}}}}, deliver: {{into: rise_ex, weight: 2 nS}}, delay: 1 ms}}
  in: {{from: source, to: p, connect: {{all_to_all: {{}}}}, deliver: {{into: rise_in, weight: 5 nS}}, delay: 4 ms}}
simulate: {{dt: 0.02 ms, duration: 20 ms, seed: 1}}
record: [{{trace: {{from: p, variables: [v, g_ex, g_in], members: all}}}}]
{FLOAT64}"""
    result = simulate(text, tmp_path)
    t = np.arange(1, 1001) * 0.02

    def alpha(t: Array, w: float, tau: float) -> Array:
        return np.asarray(np.where(t > 0, w * np.e * t / tau * exp(-np.maximum(t, 0) / tau), 0))

    np.testing.assert_allclose(result.trace("p", "g_ex"), alpha(t - 2, 2, 1.5), rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.trace("p", "g_in"), alpha(t - 5, 5, 2.0), rtol=0, atol=1e-6)

    def f(t: float, y: Array) -> list[float]:
        ex, inh = (float(alpha(np.array(t - at), w, tau)) for at, w, tau in ((2, 2, 1.5), (5, 5, 2.0)))
        return [(16.6667 * (-70 - y[0]) + ex * (0 - y[0]) + inh * (-85 - y[0])) / 250]

    exact = solve_ivp(f, (0, 20), [-70.0], "DOP853", rtol=1e-10, atol=1e-12, t_eval=t, max_step=0.05).y[0]
    np.testing.assert_allclose(result.trace("p", "v"), exact, rtol=0, atol=2e-6)


# ---------------------------------------------------------------------------------------- one or two variables


def test_izhikevich_2007(tmp_path: Path) -> None:
    """Regular spiking with spike-frequency adaptation, at the 100 pA of figure 8.12."""

    def f(_: float, y: Array) -> list[float]:
        v, u = y
        return [(0.7 * (v + 60) * (v + 40) - u + 100) / 100, 0.03 * (-2 * (v + 60) - u)]

    result = simulate(one("izhikevich_2007", "I_e: 100 pA", "v, u", 300, 0.005), tmp_path)
    expected = solved(f, [-60, 0], 300, 35, lambda y: np.array([-50.0, y[1] + 100]))
    assert_times(result, expected, 0.005, 0.1)
    intervals = np.diff(expected)
    assert intervals[1] > intervals[0] + 2  # it adapts


def test_eif(tmp_path: Path) -> None:
    """The interval of the published neuron, and its rate that vanishes where the saddle and the node meet."""

    def f(_: float, y: Array) -> list[float]:
        v = min(float(y[0]), 0.0)
        return [(-65 - y[0] + 3.48 * exp((v + 59.9) / 3.48)) / 10 + 100 / 200]

    result = simulate(one("eif", "I_e: 100 pA", "v", 150, 0.01), tmp_path)
    expected = solved(f, [-65], 150, 0, lambda y: np.array([-68.0]), 1.7)
    assert_times(result, expected, 0.01, 0.2)
    # Rheobase: g_L (V_T - E_L - Delta_T) = 20 * (5.1 - 3.48) pA.
    for current, spikes in ((32.0, False), (33.5, True)):
        quiet = simulate(one("eif", f"I_e: {current} pA", "v", 600, 0.1), tmp_path)
        assert bool(quiet.steps_of("p")) is spikes


def test_qif_rate_is_analytic(tmp_path: Path) -> None:
    """With D = v_thresh - v_rest and q^2 = D R I - D^2/4: T = tau D / q (atan(w_peak / q) - atan(w_reset / q))."""
    d, tau, middle, dt = 15.0, 10.0, -57.5, 0.005
    currents = [60.0, 100.0, 200.0]
    text = f"""\
language: 1
name: rates
populations: {{p: {{neuron: library/neurons/qif, size: 4, params: {{i_e: [37 pA, 60 pA, 100 pA, 200 pA]}}}}}}
simulate: {{dt: {dt} ms, duration: 300 ms, seed: 1}}
record: [{{spikes: {{from: p}}}}]
{FLOAT64}"""
    result = simulate(text, tmp_path)
    assert not result.steps_of("p", 0)  # below D/4 = 3.75 mV it rests
    for neuron, current in enumerate(currents, 1):
        q = np.sqrt(d * 0.1 * current - d**2 / 4)
        interval = tau * d / q * (np.arctan((20 - middle) / q) - np.arctan((-80 - middle) / q))
        steps = np.array(result.steps_of("p", neuron)) * dt
        assert len(steps) >= 3
        np.testing.assert_allclose(np.diff(steps)[1:], interval, rtol=0, atol=3 * dt)


def test_rulkov_map(tmp_path: Path) -> None:
    """The map itself, iterated here: tonic spikes at alpha = 4, bursts at alpha = 6."""
    counts = {}
    for alpha, sigma in ((4.0, 0.01), (6.0, -0.1)):
        text = one("rulkov", f"alpha: {alpha}, sigma: {sigma}", "x, y", 3000, 1)
        result = simulate(text, tmp_path)
        x, y = -1.0, -3.0
        xs, ys, spikes = [], [], []
        for step in range(1, 3001):
            if x <= 0:
                new = alpha / (1 - x) + y
            elif x < alpha + y:
                new = alpha + y
            else:
                new = -1.0
                spikes.append(step)
            x, y = new, y - 0.001 * (x + 1 - sigma)
            xs.append(x)
            ys.append(y)
        np.testing.assert_allclose(result.trace("p", "x")[:300], xs[:300], rtol=0, atol=1e-9)
        np.testing.assert_allclose(result.trace("p", "y")[:300], ys[:300], rtol=0, atol=1e-9)
        found = result.steps_of("p")
        assert found[:10] == spikes[:10]
        counts[alpha] = np.diff(spikes)
    assert counts[4.0].max() < 5 * np.median(counts[4.0])
    assert counts[6.0].max() > 10 * np.median(counts[6.0])  # silence between bursts


@both
def test_alif(tmp_path: Path, target: str) -> None:
    """The discrete equations of Bellec et al. (2018): V decays by alpha, b by rho, a reset subtracts the threshold."""
    dt, tau_m, tau_a, b0, beta, current = 1.0, 20.0, 700.0, 0.01, 1.8, 0.03
    result = simulate(one("alif", f"i_e: {current}", "v, b", 500, 1), tmp_path, target)
    alpha, rho = np.exp(-dt / tau_m), np.exp(-dt / tau_a)
    v = b = 0.0
    refractory, spikes, vs, bs = 0, [], [], []
    for step in range(1, 501):
        held = refractory > 0
        v = v if held else alpha * v + (1 - alpha) * current
        b = rho * b
        spiked = not held and v > b0 + beta * b
        refractory = 5 if spiked else max(refractory - 1, 0)
        if spiked:
            v -= b0 + beta * b
            b += (1 - rho) / dt
            spikes.append(step)
        vs.append(v)
        bs.append(b)
    assert result.steps_of("p") == spikes
    np.testing.assert_allclose(result.trace("p", "v"), vs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.trace("p", "b"), bs, rtol=0, atol=1e-12)
    intervals = np.diff(spikes)
    assert intervals[-1] > 1.3 * intervals[0]


@both
def test_if_delta(tmp_path: Path, target: str) -> None:
    """Every delivery counts in full; the neuron fires in the step after the one that reaches its threshold."""
    text = f"""\
language: 1
name: delta
populations:
  source: {{neuron: library/neurons/spike_times, size: 3,
           params: {{times: [1 ms, 1 ms, 2 ms, 4 ms, 4 ms], indices: [0, 1, 0, 1, 2]}}}}
  p: {{neuron: library/neurons/if_delta, size: 1, params: {{v_thresh: 2}}}}
projections:
  a: {{from: source, to: p, connect: {{all_to_all: {{}}}}, deliver: {{into: i, weight: 0.75}}}}
simulate: {{dt: 1 ms, duration: 8 ms, seed: 1}}
record: [{{spikes: {{from: p}}}}, {{trace: {{from: p, variables: [v], members: all}}}}]
{FLOAT64}"""
    result = simulate(text, tmp_path, target)
    # Deliveries of steps 1, 2 and 4 act in steps 2, 3 and 5.
    assert list(result.trace("p", "v")) == [0, 1.5, 0, 0, 1.5, 1.5, 1.5, 1.5]
    assert result.steps_of("p") == [3]


@both
def test_inhomogeneous_poisson(tmp_path: Path, target: str) -> None:
    """The number of spikes in each part of the period is binomial with the mean of the rate there."""
    n, steps, dt, period = 2000, 400, 0.5, 100.0
    text = f"""\
language: 1
name: modulated
populations:
  p: {{neuron: library/neurons/inhomogeneous_poisson, size: {n},
      params: {{rate: 40 Hz, amplitude: 60 Hz, frequency: 10 Hz, phase: 0.5}}}}
simulate: {{dt: {dt} ms, duration: {steps * dt} ms, seed: 5}}
record: [{{spikes: {{from: p}}}}]
"""
    result = simulate(text, tmp_path, target)
    t = np.arange(1, steps + 1) * dt
    p = np.clip((0.04 + 0.06 * np.sin(2 * np.pi * t / period + 0.5)) * dt, 0, None)
    counts = np.bincount(result.spikes["p"][:, 0].astype(int), minlength=steps + 1)[1:]
    assert counts[p == 0].sum() == 0
    for part in np.split(np.arange(steps), 20):
        mean, deviation = n * p[part].sum(), np.sqrt(n * (p[part] * (1 - p[part])).sum())
        assert abs(counts[part].sum() - mean) <= 4.5 * deviation
