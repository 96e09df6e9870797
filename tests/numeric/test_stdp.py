"""Spike-timing-dependent plasticity, against formulas and against an event-by-event simulation."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.grids import diagonal, together
from tests.numeric.simulated import model_of, run, simulate, start
from tests.numeric.synapse_oracle import DT, TOLERANCE, Oracle, model_text, pairs_of, trains, weights

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
precisions = pytest.mark.parametrize("precision", ["float64", "float32"])

STDP = """\
synapses:
  stdp:
    params: {tau_pre: 20 ms, tau_post: 30 ms, a_pre: 0.01, a_post: -0.012, w_max: 1 mV, w_0: 0.5 mV}
    state: {w: w_0}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau_pre}, on_spike: [x = x + a_pre]}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau_post}, on_spike: [y = y + a_post]}
    on_pre: [deliver(w), "w = clip(w + post.y * w_max, 0 mV, w_max)"]
    on_post: ["w = clip(w + pre.x * w_max, 0 mV, w_max)"]
"""


@pytest.mark.parametrize(
    ("delay", "back", "target", "precision"),
    diagonal(together([(0, 0), (7, 0), (3, 5), (0, 11)]), ["cpu", "reference"], ["float64", "float32"]),
)
def test_the_window_pair_by_pair(tmp_path: Path, target: str, precision: str, delay: int, back: int) -> None:
    """One presynaptic spike each, at another time, and one of the target: dw(t_post - t_pre), both delayed."""
    n, at = 41, 100
    pre = [(at - 20 + i, i) for i in range(n)]
    projections = f"""\
  plastic:
    from: s
    to: t
    connect: {{all_to_all: {{}}}}
    synapse: stdp
    deliver: {{into: a}}
    delay: {delay / 10:g} ms
    back_delay: {back / 10:g} ms
"""
    text = model_text(pre, [(at, 0)], (n, 1), projections, STDP, 300, f"{{precision: {precision}}}")
    result = simulate(text, tmp_path, target)
    expected = []
    for k, _ in pre:
        steps = (at + back) - (k + delay)
        if steps >= 0:  # at one time: the presynaptic spike first
            expected.append(0.5 + 0.01 * math.exp(-steps * DT / 20))
        else:
            expected.append(0.5 - 0.012 * math.exp(steps * DT / 30))
    np.testing.assert_allclose(weights(result), expected, rtol=TOLERANCE[precision])
    # each source delivers its weight of then, in the step of arrival
    trace = result.traces["t", "a"][:, 0]
    arrived = {k + delay: 0.5 for k, _ in pre}
    assert {k + 1 for k in np.flatnonzero(trace)} == set(arrived)
    first = [k for k in sorted(arrived) if k <= at + back]
    np.testing.assert_allclose(trace[[k - 1 for k in first]], 0.5, rtol=TOLERANCE[precision])


@pytest.mark.parametrize(
    ("connect", "target", "precision"),
    diagonal(
        ["all_to_all: {}", "fixed_probability: {p: 0.4}", "fixed_total: {number: 40}"],
        ["cpu", "reference"],
        ["float64", "float32"],
    ),
)
def test_random_trains(tmp_path: Path, target: str, precision: str, connect: str) -> None:
    sizes, steps, delay, back = (12, 9), 600, 4, 2
    pre, post = trains(1, sizes[0], steps), trains(2, sizes[1], steps)
    projections = f"""\
  plastic:
    {{from: s, to: t, connect: {{{connect}}}, synapse: stdp, deliver: {{into: a}}, delay: 0.4 ms, back_delay: 0.2 ms,
     params: {{a_pre: 0.2, a_post: -0.21}}}}
"""
    text = model_text(pre, post, sizes, projections, STDP, steps, f"{{precision: {precision}}}")
    result = simulate(text, tmp_path, target)
    assert [tuple(map(int, x)) for x in result.spikes["s"]] == pre
    assert [tuple(map(int, x)) for x in result.spikes["t"]] == post
    pairs = pairs_of(result, "plastic[s->t]", sizes)
    w, x, y = [0.5] * len(pairs), [0.0] * sizes[0], [0.0] * sizes[1]
    delivered = np.zeros((steps, sizes[1]))

    def every(step: int) -> None:
        x[:] = [v * math.exp(-DT / 20) for v in x]
        y[:] = [v * math.exp(-DT / 30) for v in y]

    def on_pre(step: int, syn: int) -> None:
        delivered[step - 1, pairs[syn][1]] += w[syn]
        w[syn] = min(max(w[syn] + y[pairs[syn][1]], 0.0), 1.0)

    def on_post(step: int, syn: int) -> None:
        w[syn] = min(max(w[syn] + x[pairs[syn][0]], 0.0), 1.0)

    def pre_spike(step: int, i: int) -> None:
        x[i] += 0.2

    def post_spike(step: int, j: int) -> None:
        y[j] -= 0.21

    Oracle(pairs, pre, post, [delay] * len(pairs), back, every, on_pre, pre_spike, on_post, post_spike).run(steps)
    assert min(w) == 0.0
    assert max(w) == 1.0  # both bounds are reached
    assert len({round(v, 6) for v in w}) > 5
    np.testing.assert_allclose(weights(result), w, rtol=100 * TOLERANCE[precision], atol=100 * TOLERANCE[precision])
    np.testing.assert_allclose(result.traces["t", "a"], delivered, atol=1000 * TOLERANCE[precision])
    np.testing.assert_allclose(result.instance.read("plastic[s->t].pre.x"), x, atol=10 * TOLERANCE[precision])


@both
def test_triplets(tmp_path: Path, target: str) -> None:
    """Pfister & Gerstner 2006: dw at a presynaptic spike -o1 (A2- + A3- r2(t - eps)), at a postsynaptic one
    r1 (A2+ + A3+ o2(t - eps)), r and o by their closed sums over spikes."""
    triplet = """\
synapses:
  triplet:
    params: {tp: 16.8 ms, tx: 101 ms, tm: 33.7 ms, ty: 125 ms, p2: 5e-3, p3: 6.2e-2, m2: 7e-3, m3: 2.3e-2}
    state: {w: 1 mV}
    pre: {state: {r1: 0, r2: 0}, dynamics: {dr1/dt: -r1 / tp, dr2/dt: -r2 / tx}, on_spike: [r1 = r1 + 1, r2 = r2 + 1]}
    post: {state: {o1: 0, o2: 0}, dynamics: {do1/dt: -o1 / tm, do2/dt: -o2 / ty}, on_spike: [o1 = o1 + 1, o2 = o2 + 1]}
    on_pre: [w = w - (1 mV) * post.o1 * (m2 + m3 * pre.r2)]
    on_post: [w = w + (1 mV) * pre.r1 * (p2 + p3 * post.o2)]
"""
    steps = 900
    pre, post = trains(3, 1, steps, 0.02), trains(4, 1, steps, 0.02)
    both_times = {k for k, _ in pre} & {k for k, _ in post}
    post = [*post, *((k, 0) for k, _ in pre[:2] if k not in both_times)]  # simultaneous ones, too
    post = sorted(set(post))
    projections = "  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: triplet}\n"
    result = simulate(model_text(pre, post, (1, 1), projections, triplet, steps), tmp_path, target)

    def trace(spikes: list[int], step: int, tau: float) -> float:
        return sum(math.exp(-(step - k) * DT / tau) for k in spikes)

    a, b = [k for k, _ in pre], [k for k, _ in post]
    w = 1.0
    for step in range(1, steps + 1):
        if step in a:
            before = [k for k in a if k < step]
            o1 = trace([k for k in b if k < step], step, 33.7)
            w -= o1 * (7e-3 + 2.3e-2 * trace(before, step, 101))
        if step in b:
            r1 = trace([k for k in a if k <= step], step, 16.8)  # pre counts as before post
            w += r1 * (5e-3 + 6.2e-2 * trace([k for k in b if k < step], step, 125))
    np.testing.assert_allclose(weights(result), [w], rtol=1e-11)


@both
def test_nearest_spikes_by_their_times(tmp_path: Path, target: str) -> None:
    """`last_spike` and `previous_spike` of both ends, as they are when statements run."""
    times = """\
synapses:
  times:
    state: {a: -1, b: -1, c: -1, d: -1, e: -1, f: -1}
    on_pre: [a = pre.last_spike / (1 ms), b = pre.previous_spike / (1 ms), c = post.last_spike / (1 ms)]
    on_post: [d = pre.last_spike / (1 ms), e = post.previous_spike / (1 ms), f = (t - post.last_spike) / (1 ms)]
"""
    pre, post = [(10, 0), (25, 0), (40, 0), (41, 1)], [(12, 0), (40, 0)]
    projections = """\
  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: times, delay: 0.3 ms, back_delay: 0.1 ms}
"""
    result = simulate(model_text(pre, post, (3, 1), projections, times, 60), tmp_path, target)
    never = -1e9
    # arrivals: neuron 0 at 13, 28, 43, neuron 1 at 44; the target counts at 13 and 41
    expected = {
        "a": [2.8, never, -1],
        "b": [1.3, never, -1],
        "c": [4.1, 4.1, -1],
        "d": [2.8, never, never],
        "e": [never, never, never],
        "f": [2.8, 2.8, 2.8],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(weights(result, variable=name), values, rtol=1e-12, err_msg=name)


@both
def test_a_parameter_may_have_a_name_of_the_clock(tmp_path: Path, target: str) -> None:
    """`step` of the user stays apart from the integer step in the time since a spike."""
    since = """\
synapses:
  since:
    params: {step: 2}
    state: {x: 0}
    on_post: [x = step * (t - pre.last_spike) / (1 ms)]
"""
    projections = "  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: since}\n"
    result = simulate(model_text([(10, 0)], [(13, 0)], (1, 1), projections, since, 20), tmp_path, target)
    np.testing.assert_allclose(weights(result, variable="x"), [2 * 0.3], rtol=1e-12)


def test_times_stay_exact_in_float32(tmp_path: Path) -> None:
    """`t - pre.last_spike` after many steps is a whole number of steps times dt."""
    since = """\
synapses:
  since:
    state: {x: 0}
    on_post: [x = (t - pre.last_spike) / (1 ms)]
"""
    projections = "  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: since}\n"
    text = model_text([(200_000, 0)], [(200_003, 0)], (1, 1), projections, since, 200_010, "{precision: float32}")
    text = text[: text.index("record:")] + text[text.index("numerics:") :]
    result = run(start(model_of(text, tmp_path), tmp_path), 200_010)
    assert weights(result, variable="x")[0] == np.float32(3) * np.float32(0.1)
