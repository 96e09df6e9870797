"""Spiking models against closed forms, to float64 rounding, from YAML text to both backends.

Time: step k covers ((k-1) dt, k dt]; traces are sampled at the end of a step, so row k - 1 is the end of step k.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, run, simulate, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
EXACT = {"rtol": 0.0, "atol": 1e-10}
"""Hundreds of steps of float64 rounding at 100 mV (1.4e-14 each) stay far below this; single precision does not."""

FLOAT64 = "numerics: {precision: float64}\n"


# ------------------------------------------------------------------------------------- membrane potentials

CURRENTS = """\
language: 1
name: currents
populations:
  "p{i}":
    for: {i: 0..5}
    neuron: library/neurons/lif
    size: 2
    params: {i_e: (140 pA + i * 40 pA), tau_m: (8 ms + i * 1.5 ms), t_ref: i * 0.7 ms, v_reset: (-66 mV - i * 1 mV)}
simulate: {dt: 0.1 ms, duration: 120 ms, seed: 1}
record:
  - spikes: {from: all}
  - trace: {from: all, variables: [v], members: all}
"""


@both
def test_constant_current(tmp_path: Path, target: str) -> None:
    """v(t) = v_inf + (v_0 - v_inf) exp(-t/tau); the spike is in the first whole step at or above threshold."""
    result = simulate(CURRENTS + FLOAT64, tmp_path, target)
    counts = set()
    for i in range(6):
        tau, v_inf, reset, held = 8 + 1.5 * i, -65 + 0.1 * (140 + 40 * i), -66.0 - i, 7 * i
        expected, values, v0, since = [], [], -65.0, 0
        refractory = 0
        for step in range(1, 1201):
            if refractory:
                refractory -= 1
                values.append(reset)
                since = step
                continue
            v = v_inf + (v0 - v_inf) * math.exp(-(step - since) * 0.1 / tau)
            if v >= -50:
                expected.append(step)
                v = v0 = reset
                since, refractory = step, held
            values.append(v)
        for neuron in range(2):
            assert result.steps_of(f"p{i}", neuron) == expected
            np.testing.assert_allclose(result.trace(f"p{i}", "v", neuron), values, **EXACT)
        # The same from the closed form of the interval: a spike every ceil(t / dt) steps after the refractory ones.
        if v_inf > -50:
            interval = math.ceil(tau * math.log((v_inf - reset) / (v_inf + 50)) / 0.1) + held
            assert set(np.diff(expected)) <= {interval}
        counts.add(len(expected))
    assert 0 in counts  # the weakest current stays below the threshold
    assert max(counts) >= 8


PULSES = """\
language: 1
name: pulses
populations:
  source: {neuron: library/neurons/spike_times, size: 1, params: {times: [2 ms], indices: [0]}}
  single: {neuron: library/neurons/lif_psc_exp, size: 1}
  equal: {neuron: library/neurons/lif_psc_exp, size: 1, params: {tau_syn: 10 ms}}
  alpha: {neuron: library/neurons/lif_psc_alpha, size: 1}
  alpha_equal: {neuron: library/neurons/lif_psc_alpha, size: 1, params: {tau_syn: 10 ms}}
  two: {neuron: library/neurons/lif_psc_exp_2, size: 1, params: {tau_in: 7 ms}}
projections:
  to_single: {from: source, to: [single, equal], connect: {all_to_all: {}}, deliver: {into: I_syn, weight: 200 pA},
              delay: 1.5 ms}
  to_alpha: {from: source, to: [alpha, alpha_equal], connect: {all_to_all: {}}, deliver: {into: rise, weight: 200 pA},
             delay: 1.5 ms}
  ex: {from: source, to: two, connect: {all_to_all: {}}, deliver: {into: I_ex, weight: 200 pA}, delay: 0.3 ms}
  in: {from: source, to: two, connect: {all_to_all: {}}, deliver: {into: I_in, weight: -150 pA}, delay: 2.2 ms}
simulate: {dt: 0.1 ms, duration: 40 ms, seed: 1}
record:
  - trace: {from: [single, equal], variables: [v, I_syn], members: all}
  - trace: {from: [alpha, alpha_equal], variables: [v, I_syn, rise], members: all}
  - trace: {from: two, variables: [v, I_ex, I_in], members: all}
"""


def since(arrival: int, steps: int = 400, dt: float = 0.1) -> tuple[Array, Array]:
    """Times since the end of step `arrival`, for the ends of steps 1 .. steps, and whether it is over."""
    t = (np.arange(1, steps + 1) - arrival) * dt
    return np.maximum(t, 0), (t >= 0).astype(float)


def exponential_psc(w: float, t: Array, tau: float, tau_m: float = 10.0, c: float = 250.0) -> Array:
    """Potential at time t after a current w exp(-t/tau) has begun (Rotter & Diesmann 1999)."""
    if tau == tau_m:
        return w / c * t * np.exp(-t / tau)
    return w / c * tau * tau_m / (tau_m - tau) * (np.exp(-t / tau_m) - np.exp(-t / tau))


@both
def test_postsynaptic_currents(tmp_path: Path, target: str) -> None:
    """The spike of step 20 arrives at the end of step 20 + delay and acts from the step after."""
    result = simulate(PULSES + FLOAT64, tmp_path, target)
    t, on = since(20 + 15)
    for name, tau in (("single", 2.0), ("equal", 10.0)):
        np.testing.assert_allclose(result.trace(name, "I_syn"), 200 * np.exp(-t / tau) * on, **EXACT)
        np.testing.assert_allclose(result.trace(name, "v"), -70 + exponential_psc(200, t, tau), **EXACT)
    t_ex, t_in = since(20 + 3)[0], since(20 + 22)[0]
    both_psc = exponential_psc(200, t_ex, 2.0) + exponential_psc(-150, t_in, 7.0)
    np.testing.assert_allclose(result.trace("two", "v"), -70 + both_psc, **EXACT)
    assert np.max(result.trace("single", "v")) > -69  # something happened


@both
def test_two_coupled_linear_inputs(tmp_path: Path, target: str) -> None:
    """An alpha current is a chain of two; its potential is the matrix exponential over the whole time at once."""
    result = simulate(PULSES + FLOAT64, tmp_path, target)
    t, on = since(20 + 15)
    for name, tau in (("alpha", 2.0), ("alpha_equal", 10.0)):
        current = 200 * math.e * t / tau * np.exp(-t / tau)
        np.testing.assert_allclose(result.trace(name, "I_syn"), current, **EXACT)
        np.testing.assert_allclose(result.trace(name, "rise"), 200 * np.exp(-t / tau) * on, **EXACT)
        system = np.array([[-1 / tau, 0, 0], [math.e / tau, -1 / tau, 0], [0, 1 / 250, -1 / 10]])
        potential = [(expm(system * x) @ [200, 0, 0])[2] for x in t]
        np.testing.assert_allclose(result.trace(name, "v"), -70 + np.array(potential), **EXACT)
        if tau != 10:  # and the closed form
            k = 1 / tau - 1 / 10
            closed = 200 * math.e / tau / 250 * (np.exp(-t / 10) - np.exp(-t / tau) * (1 + k * t)) / k**2
            np.testing.assert_allclose(result.trace(name, "v"), -70 + closed, **EXACT)
    assert max(result.trace("alpha", "I_syn")) == pytest.approx(200, rel=1e-3)  # the peak of an alpha current is w


def test_a_rotation_is_exact(tmp_path: Path) -> None:
    """Complex eigenvalues: a damped oscillator driven by a constant, by `exact` and by what `auto` chooses."""
    text = """\
language: 1
name: rotation
neurons:
  oscillator:
    params: {omega: 0.7 / (1 ms), tau: 30 ms, force: 0.2 mV/ms}
    state: {x: 1 mV, y: 0 mV}
    method: METHOD
    dynamics: {dx/dt: omega * y - x / tau + force, dy/dt: -omega * x}
populations: {p: {neuron: oscillator, size: 1}}
simulate: {dt: 0.5 ms, duration: 100 ms, seed: 1}
record: [{trace: {from: p, variables: [x, y], members: all}}]
"""
    a = np.array([[-1 / 30, 0.7, 0.2], [-0.7, 0, 0], [0, 0, 0]])
    expected = np.array([(expm(a * 0.5 * k) @ [1, 0, 1])[:2] for k in range(1, 201)])
    for method in ("exact", "auto"):
        result = simulate(text.replace("METHOD", method) + FLOAT64, tmp_path)
        np.testing.assert_allclose(result.trace("p", "x"), expected[:, 0], **EXACT)
        np.testing.assert_allclose(result.trace("p", "y"), expected[:, 1], **EXACT)


# ----------------------------------------------------------------------------------------- refractoriness

REFRACTORY = """\
language: 1
name: refractory
neurons:
  clock:                        # v grows by 1 mV a step until it spikes; w and g live on while v is held
    params: {t_ref: 0 ms, slope: 10 mV/ms}
    state: {v: 0 mV, w: 0 mV, x: 0}
    inputs: {g: {unit: mV, decay: 4 ms}, jump: {unit: mV}}
    dynamics: {dv/dt: slope, dw/dt: (v - w) / (3 ms)}
    update: [v = v + jump, x = x + 1]
    spike: {when: v > 9.5 mV, reset: [v = 0 mV], refractory: t_ref}
populations:
  "r{i}": {for: {i: 0..7}, neuron: clock, size: 1, params: {t_ref: i * 0.1 ms}}
  source: {neuron: library/neurons/spike_times, size: 1, params: {times: [1.2 ms, 5 ms], indices: [0, 0]}}
projections:
  jumps: {from: source, to: [r0, r7], connect: {all_to_all: {}}, deliver: {into: jump, weight: 5 mV}}
  decays: {from: source, to: [r0, r7], connect: {all_to_all: {}}, deliver: {into: g, weight: 5 mV}}
simulate: {dt: 0.1 ms, duration: 20 ms, seed: 1}
record:
  - spikes: {from: all}
  - trace: {from: [r0, r1, r2, r3, r4, r5, r6, r7], variables: [v, w, g, x], members: all}
"""


@both
def test_refractory_counts(tmp_path: Path, target: str) -> None:
    """A spike in step k holds v in steps k+1 .. k+r exactly, and nothing else."""
    result = simulate(REFRACTORY + FLOAT64, tmp_path, target)
    for r in range(1, 7):
        expected = list(range(10, 201, 10 + r))
        assert result.steps_of(f"r{r}") == expected
        v = result.trace(f"r{r}", "v")
        for k in expected:
            held = v[k - 1 : k + r]
            assert np.array_equal(held, np.zeros(len(held)))  # reset, then held
            if k + r < 200:
                assert v[k + r] == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_array_equal(result.trace(f"r{r}", "x"), np.arange(1, 201))  # not held


@both
def test_what_arrives_while_refractory(tmp_path: Path, target: str) -> None:
    """Jumps that reach a held v are lost, decaying inputs are not; without refractoriness both act."""
    result = simulate(REFRACTORY + FLOAT64, tmp_path, target)
    # r7: spikes in step 10, held in 11..17; the jump of step 12 would act in step 13, that of step 50 acts in 51.
    steps = result.steps_of("r7")
    assert steps[:2] == [10, 27]
    v = result.trace("r7", "v")
    assert np.array_equal(v[9:17], np.zeros(8))
    k = steps[2]
    assert k == 44
    assert v[50] == 0.0  # held in 45..51: the second jump is lost, too
    t, on = since(12, 200)
    t2, on2 = since(50, 200)
    for name in ("r0", "r7"):
        np.testing.assert_allclose(
            result.trace(name, "g"), 5 * np.exp(-t / 4) * on + 5 * np.exp(-t2 / 4) * on2, **EXACT
        )
    v0 = result.trace("r0", "v")
    np.testing.assert_allclose(v0[10:13], [1, 2, 8], **EXACT)  # the jump acts in step 13, once
    assert result.steps_of("r0")[:2] == [10, 15]


@both
def test_states_that_are_driven_by_a_held_one(tmp_path: Path, target: str) -> None:
    """While v is held, w is driven by the v that stands still: the second set of propagators."""
    result = simulate(REFRACTORY + FLOAT64, tmp_path, target)
    free = expm(np.array([[0, 0, 10], [1 / 3, -1 / 3, 0], [0, 0, 0]]) * 0.1)
    held = expm(np.array([[0, 0, 0], [1 / 3, -1 / 3, 0], [0, 0, 0]]) * 0.1)
    for r in range(1, 7):
        x, left, expected = np.array([0.0, 0.0, 1.0]), 0, []
        for _ in range(200):
            x = (held if left else free) @ x
            if left:
                left -= 1
            elif x[0] > 9.5:
                x[0], left = 0.0, r
            expected.append(x[:2])
        np.testing.assert_allclose(result.trace(f"r{r}", "v"), np.array(expected)[:, 0], **EXACT)
        np.testing.assert_allclose(result.trace(f"r{r}", "w"), np.array(expected)[:, 1], **EXACT)


@pytest.mark.parametrize("method", ["exact", "euler", "rk4"])
def test_what_is_held_can_be_chosen(tmp_path: Path, method: str) -> None:
    """`hold` names other states than those of the condition."""
    text = f"""\
language: 1
name: hold
neurons:
  pair:
    state: {{v: 0 mV, u: 0 mV}}
    method: {method}
    dynamics: {{dv/dt: 10 mV/ms, du/dt: 1 mV/ms}}
    spike:
      when: v > 4.5 mV
      reset: [v = 0 mV]
      refractory: {{time: 0.74 ms, hold: [u], round: nearest}}
populations: {{p: {{neuron: pair, size: 1}}}}
simulate: {{dt: 0.1 ms, duration: 3 ms, seed: 1}}
record: [{{spikes: {{from: p}}}}, {{trace: {{from: p, variables: [v, u], members: all}}}}]
"""
    result = simulate(text + FLOAT64, tmp_path)
    v, u = result.trace("p", "v"), result.trace("p", "u")
    # v reaches 5 in step 5; 7 steps (0.74 ms, rounded) without a spike while v goes on to 8; a spike in step 13.
    assert result.steps_of("p")[:2] == [5, 13]
    np.testing.assert_allclose(v[:13], [1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 0], **EXACT)
    np.testing.assert_allclose(u[:13], [0.1, 0.2, 0.3, 0.4, *([0.5] * 8), 0.6], **EXACT)


# --------------------------------------------------------------------------------------------------- events

TIMING = """\
language: 1
name: timing
neurons:
  counter:
    state: {x: 0, fast: 0}
    inputs: {i: {}, slow: {decay: 3 ms}}
    update: [x = x + i]
populations:
  source: {neuron: library/neurons/spike_times, size: 3, params: {times: [1 ms, 1.1 ms, 1.1 ms, 3 ms],
           indices: [0, 0, 2, 1]}}
  "d{k}": {for: {k: [0, 1, 2, 5, 13, 64]}, neuron: counter, size: 3}
projections:
  "p{k}": {for: {k: [0, 1, 2, 5, 13, 64]}, from: source, to: "d{k}", connect: {one_to_one: {}},
           deliver: {into: i, weight: k + 1}, delay: k * 0.1 ms}
  "s{k}": {for: {k: [0, 1, 2, 5, 13, 64]}, from: source, to: "d{k}", connect: {one_to_one: {}},
           deliver: {into: slow, weight: k + 1}, delay: k * 0.1 ms}
simulate: {dt: 0.1 ms, duration: 12 ms, seed: 1}
record:
  - spikes: {from: source}
  - trace: {from: [d0, d1, d2, d5, d13, d64], variables: [x, i, slow], members: all}
"""


@pytest.mark.parametrize(("order", "target"), diagonal(["fast", "reproducible", "bitwise"], ["cpu", "reference"]))
def test_event_timing(tmp_path: Path, target: str, order: str) -> None:
    """A spike in step k with a delay of d is delivered at the end of step k + d, acts from k + d + 1 on, and an
    input without decay acts for exactly that one step."""
    text = TIMING + f"numerics: {{precision: float64, order: {order}}}\n"
    result = simulate(text, tmp_path, target)
    assert result.spikes["source"].tolist() == [[10, 0], [11, 0], [11, 2], [30, 1]]
    for d in (0, 1, 2, 5, 13, 64):
        for neuron, steps in ((0, (10, 11)), (1, (30,)), (2, (11,))):
            delivered, acted, slow = np.zeros(120), np.zeros(120), np.zeros(120)
            for k in steps:
                if k + d <= 120:
                    delivered[k + d - 1] = d + 1
                    acted[k + d :] += d + 1
                    t, on = since(k + d, 120)
                    slow += (d + 1) * np.exp(-t / 3) * on
            np.testing.assert_array_equal(result.trace(f"d{d}", "i", neuron), delivered)
            np.testing.assert_array_equal(result.trace(f"d{d}", "x", neuron), acted)
            np.testing.assert_allclose(result.trace(f"d{d}", "slow", neuron), slow, **EXACT)


TESTED = """\
language: 1
name: tested
neurons:
  relay:
    state: {seen: 0, last: 0}
    inputs: {go: {}}
    update: [last = 0 * last]
    POOL
    spike: {when: CONDITION, reset: [seen = seen + go, last = go]}
populations:
  source: {neuron: library/neurons/spike_times, size: 2, params: {times: [1 ms, 2 ms, 2 ms], indices: [0, 0, 1]}}
  relay: {neuron: relay, size: 2}
projections:
  go: {from: source, to: relay, connect: {one_to_one: {}}, deliver: {into: go, weight: 2}, delay: 0.5 ms}
simulate: {dt: 0.1 ms, duration: 5 ms}
record: [{spikes: {from: relay}}, {trace: {from: relay, variables: [seen, last], members: all}}]
"""


@both
@pytest.mark.parametrize("condition", ["go > 1", "relay_of > 1", "go > 0 and pool.most > 1"])
def test_spike_tests_and_resets_read_what_arrived(tmp_path: Path, target: str, condition: str) -> None:
    """An input without decay that the spike test or the reset reads is what arrived in the step before."""
    text = TESTED.replace("CONDITION", condition)
    text = text.replace("POOL", "pool: {reduce: {most: max(go)}}" if "pool" in condition else "let: {relay_of: go}")
    result = simulate(text, tmp_path, target)
    assert result.spikes["relay"].tolist() == [[16, 0], [26, 0], [26, 1]]
    np.testing.assert_array_equal(result.trace("relay", "seen", 0)[[14, 15, 25, 49]], [0, 2, 4, 4])
    np.testing.assert_array_equal(result.trace("relay", "last", 1)[[24, 25, 26]], [0, 2, 0])


CHAIN = """\
language: 1
name: chain
neurons:
  relay:
    state: {x: 0}
    inputs: {i: {}}
    update: [x = i]
    spike: {when: x > 0.5, reset: []}
populations:
  source: {neuron: library/neurons/spike_times, size: 1, params: {times: [1 ms], indices: [0]}}
  "relay{k}": {for: {k: 0..2}, neuron: relay, size: 1}
projections:
  begin: {from: source, to: relay0, connect: {one_to_one: {}}, deliver: {into: i, weight: 1}, delay: DELAY}
  "link{k}": {for: {k: 0..1}, from: "relay{k}", to: "relay{k + 1}", connect: {one_to_one: {}},
              deliver: {into: i, weight: 1}, delay: DELAY}
  loop: {from: relay2, to: relay0, connect: {one_to_one: {}}, deliver: {into: i, weight: 1}, delay: DELAY}
simulate: {dt: 0.1 ms, duration: 10 ms, seed: 1}
record: [{spikes: {from: all}}]
"""


@both
@pytest.mark.parametrize("delay", [0, 1, 4])
def test_a_spike_goes_round_a_loop(tmp_path: Path, target: str, delay: int) -> None:
    """Each hop takes delay + 1 steps, whatever the order of the populations and with a delay of zero too."""
    result = simulate(CHAIN.replace("DELAY", f"{delay * 0.1:.1f} ms"), tmp_path, target)
    for k in range(3):
        first = 10 + (k + 1) * (delay + 1)
        assert result.steps_of(f"relay{k}") == list(range(first, 101, 3 * (delay + 1)))


@both
def test_given_spikes_are_decoded_exactly(tmp_path: Path, target: str) -> None:
    """Times from a file, in any order, several in one step, up to the last step; recorded as they were given."""
    rng = np.random.default_rng(3)
    pairs = np.unique(np.stack([rng.integers(1, 3001, 4000), rng.integers(0, 37, 4000)], axis=1), axis=0)
    pairs = np.concatenate([pairs, [[3000, 0], [1, 36]]]) if [3000, 0] not in pairs.tolist() else pairs
    pairs = np.unique(pairs, axis=0)
    mixed = rng.permutation(pairs)
    np.savez(tmp_path / "given.npz", t=mixed[:, 0] * 0.1, n=mixed[:, 1].astype(np.uint16))
    text = """\
language: 1
name: given
populations:
  p: {neuron: library/neurons/spike_times, size: 37,
      params: {times: {file: given.npz, array: t}, indices: {file: given.npz, array: n}}}
simulate: {dt: 0.1 ms, duration: 300 ms, seed: 1}
record: [{spikes: {from: p}}]
"""
    result = simulate(text, tmp_path, target)
    np.testing.assert_array_equal(result.spikes["p"], pairs)


def poisson(rate: str, tmp_path: Path, size: int = 200, seconds: float = 5.0) -> Simulated:
    text = f"""\
language: 1
name: noise
populations: {{p: {{neuron: library/neurons/poisson, size: {size}, params: {{rate: {rate}}}}}}}
simulate: {{dt: 0.1 ms, duration: {seconds} s, seed: 17}}
record: [{{spikes: {{from: p}}}}]
"""
    return simulate(text, tmp_path)


def test_poisson_rate_and_intervals(tmp_path: Path) -> None:
    """Counts are binomial, intervals geometric, neurons independent; bounds of about five standard deviations."""
    size, steps, p = 200, 50_000, 30 / 1000 * 0.1
    pairs = poisson("30 Hz", tmp_path).spikes["p"]
    mean = size * steps * p
    assert abs(len(pairs) - mean) < 5 * math.sqrt(mean * (1 - p))
    counts = np.bincount(pairs[:, 1], minlength=size)
    expected = steps * p
    chi = np.sum((counts - expected) ** 2) / (expected * (1 - p))
    assert abs(chi - size) < 5 * math.sqrt(2 * size)  # neither all alike nor too different
    intervals = np.concatenate([np.diff(pairs[pairs[:, 1] == i, 0]) for i in range(size)])
    assert intervals.min() >= 1
    edges = np.array([1, 50, 100, 200, 400, 800, 10**9])
    share = (1 - p) ** (edges[:-1] - 1) - (1 - p) ** (edges[1:] - 1)
    observed = np.histogram(intervals, edges)[0]
    wanted = share * len(intervals)
    assert np.sum((observed - wanted) ** 2 / wanted) < 30  # chi-square with 5 degrees of freedom: P < 2e-5
    per_step = np.bincount(pairs[:, 0], minlength=steps + 1)[1:]
    assert per_step.var() == pytest.approx(size * p * (1 - p), rel=0.05)


# ---------------------------------------------------------------------------------------------------- time

CLOCKS = """\
language: 1
name: clocks
neurons:
  clock:
    state: {x: 0, y: 0, now: 0}
    method: METHOD
    dynamics: {dx/dt: 3 * (t / (1 ms)) ** 2 / (1 ms), dy/dt: t / (1 ms) ** 2}
    update: [now = t / (1 ms)]
    spike: {when: t >= 2.95 ms and t < 3.05 ms, reset: [x = x + t / (1 ms)]}
populations: {p: {neuron: clock, size: 1}}
simulate: {dt: 0.1 ms, duration: 4 ms, seed: 1}
record: [{spikes: {from: p}}, {trace: {from: p, variables: [x, y, now], members: all}}]
"""


@pytest.mark.parametrize(
    ("method", "target"), diagonal(["euler", "rk2", "rk4", "exponential_euler"], ["cpu", "reference"])
)
def test_time_in_equations(tmp_path: Path, target: str, method: str) -> None:
    """In `dynamics` t runs through the step (its start for Euler, its middle for the exponential method, its stages for
    Runge-Kutta); in `update`, `when`
    and `reset` it is the end of the step."""
    result = simulate(CLOCKS.replace("METHOD", method) + FLOAT64, tmp_path, target)
    k = np.arange(1, 41)
    end = 0.1 * k
    if method == "rk4":
        x, y = end**3, end**2 / 2  # exact for polynomials of degree 3
    elif method in ("rk2", "exponential_euler"):
        x = np.cumsum(0.1 * 3 * (end - 0.05) ** 2)
        y = end**2 / 2
    else:
        x = np.cumsum(0.1 * 3 * (end - 0.1) ** 2)
        y = np.cumsum(0.1 * (end - 0.1))
    x = x + np.where(k >= 30, 3.0, 0.0)
    np.testing.assert_allclose(result.trace("p", "now"), end, rtol=1e-14)
    np.testing.assert_allclose(result.trace("p", "x"), x, **EXACT)
    np.testing.assert_allclose(result.trace("p", "y"), y, **EXACT)
    assert result.steps_of("p") == [30]


def test_time_goes_on_between_calls(tmp_path: Path) -> None:
    """t belongs to the step, not to the call that runs it."""
    text = CLOCKS.replace("METHOD", "rk4") + FLOAT64
    whole = simulate(text, tmp_path)
    parts = start(whole.model, tmp_path)
    first = run(parts, 17).traces["p", "x"]
    second = run(parts, 23, first=18).traces["p", "x"]
    np.testing.assert_array_equal(np.concatenate([first, second]), whole.traces["p", "x"])
