"""Deliveries of synapses, and the timing of their statements: every delay, input, end and condition, by plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError
from compiler.expr.ast import Num, Ref
from compiler.ir.level0.model import Model, Send, Set, SynapseDef
from tests.grids import diagonal
from tests.numeric.simulated import model_of, run, simulate, start
from tests.numeric.synapse_oracle import DT, TOLERANCE, Oracle, Spikes, model_text, pairs_of, trains, weights

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
orders = pytest.mark.parametrize("order", ["reproducible", "bitwise"])


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_inputs_of_both_ends(tmp_path: Path, target: str, order: str) -> None:
    """Several inputs of the target, and back to the source, with a long delay; statements before and after."""
    several = """\
synapses:
  several:
    state: {w: 1 mV, n: 0}
    on_pre:
      - deliver(w)
      - n = n + 1
      - deliver(n * w + (4 mV), post.b)
      - deliver(3 * w, pre.b)
      - w = 2 * w
      - deliver(w, post.b)
    on_post:
      - deliver(16 * w, pre.a)
"""
    pre, post = [(3, 0), (8, 0), (8, 1), (20, 1)], [(10, 1), (3060, 0)]
    projections = """\
  plastic:
    {from: s, to: t, connect: {pairs: {list: [[0, 1], [1, 0], [0, 0]]}}, synapse: several, deliver: {into: a},
     delay: 300 ms}
"""
    numerics = f"{{precision: float32, order: {order}}}"
    result = simulate(model_text(pre, post, (2, 2), projections, several, 3100, numerics), tmp_path, target)
    pairs = [(0, 0), (0, 1), (1, 0)]
    w, n = [1.0] * 3, [0] * 3
    got = {key: np.zeros((3100, 2)) for key in ("ta", "tb", "sa", "sb")}

    def on_pre(step: int, syn: int) -> None:
        i, j = pairs[syn]
        got["ta"][step - 1, j] += w[syn]
        n[syn] += 1
        got["tb"][step - 1, j] += n[syn] * w[syn] + 4 + 2 * w[syn]
        got["sb"][step - 1, i] += 3 * w[syn]
        w[syn] *= 2

    def on_post(step: int, syn: int) -> None:
        got["sa"][step - 1, pairs[syn][0]] += 16 * w[syn]

    Oracle(pairs, pre, post, [3000] * 3, 0, None, on_pre, None, on_post).run(3100)
    assert all(np.count_nonzero(x) > 1 for x in got.values())
    for (population, name), trace in result.traces.items():
        if name != "v":
            np.testing.assert_array_equal(trace, got[population + name], err_msg=f"{population}.{name}")


@pytest.mark.parametrize(
    ("target", "order", "precision"),
    diagonal(["cpu", "reference"], ["reproducible", "bitwise"], ["float64", "float32"]),
)
def test_delays_that_differ_and_statements(tmp_path: Path, target: str, order: str, precision: str) -> None:
    """on_pre runs when the spike arrives at the synapse, also with several spikes under way to it."""
    synapse = """\
synapses:
  counting:
    params: {tau: 3 ms}
    state: {w: 1 mV, n: 0, s: 0}
    post: {state: {y: 0}, dynamics: {dy/dt: -y / tau}, on_spike: [y = y + 1]}
    dynamics: {ds/dt: -s / tau}
    event_driven: true
    on_pre: [deliver(w * (1 + s)), n = n + 1, s = s + post.y, w = w + (0.5 mV)]
    on_post: [w = 0.75 * w]
"""
    pre, post = trains(11, 4, 300, 0.06), trains(12, 3, 300, 0.05)
    projections = """\
  plastic:
    from: s
    to: t
    connect: {fixed_probability: {p: 0.7}}
    synapse: counting
    deliver: {into: b}
    delay: {uniform: {low: 0.1 ms, high: 1.2 ms, round: nearest}}
"""
    numerics = f"{{precision: {precision}, order: {order}}}"
    result = simulate(model_text(pre, post, (4, 3), projections, synapse, 300, numerics), tmp_path, target)
    pairs = pairs_of(result, "plastic[s->t]", (4, 3))
    delays = [int(d) for d in result.instance.read("plastic[s->t]'delay")]
    assert len(set(delays)) >= 4
    w, n, s, seen, y = [1.0] * len(pairs), [0] * len(pairs), [0.0] * len(pairs), [0] * len(pairs), [0.0] * 3
    got = np.zeros((300, 3))

    def every(step: int) -> None:
        y[:] = [v * math.exp(-DT / 3) for v in y]

    def on_pre(step: int, syn: int) -> None:
        s[syn] *= math.exp(-(step - seen[syn]) * DT / 3)
        seen[syn] = step
        got[step - 1, pairs[syn][1]] += w[syn] * (1 + s[syn])
        n[syn] += 1
        s[syn] += y[pairs[syn][1]]
        w[syn] += 0.5

    def on_post(step: int, syn: int) -> None:
        w[syn] *= 0.75

    def post_spike(step: int, j: int) -> None:
        y[j] += 1

    Oracle(pairs, pre, post, delays, 0, every, on_pre, None, on_post, post_spike).run(300)
    tolerance = 30 * TOLERANCE[precision]
    np.testing.assert_array_equal(weights(result, variable="n"), n)
    np.testing.assert_allclose(weights(result), w, rtol=tolerance)
    np.testing.assert_allclose(weights(result, variable="s"), s, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(result.traces["t", "b"], got, atol=10 * tolerance)


@both
def test_release_by_chance(tmp_path: Path, target: str) -> None:
    """Each synapse draws independently in each step: release counts are binomial."""
    pre: Spikes = [(k, i) for k in range(2, 202) for i in range(2)]
    projections = """\
  plastic:
    {from: s, to: t, connect: {all_to_all: {}}, synapse: library/synapses/stochastic_release, deliver: {into: a},
     params: {w: 1 mV, p: 0.3}}
"""
    result = simulate(model_text(pre, [(2, 0)], (2, 40), projections, "", 210), tmp_path, target)
    trace = result.traces["t", "a"]
    assert set(np.unique(trace)) == {0.0, 1.0, 2.0}
    counts = np.array([np.count_nonzero(trace[1:201] == x) for x in range(3)])
    expected = 200 * 40 * np.array([0.49, 0.42, 0.09])
    assert np.all(np.abs(counts - expected) < 4 * np.sqrt(expected))
    columns = trace[1:201]
    assert not np.array_equal(columns[:, 0], columns[:, 1])


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_an_input_that_is_read(tmp_path: Path, target: str, order: str) -> None:
    """Statements see an input as it was after the neuron's step, never what is delivered in the same step."""
    reading = """\
synapses:
  reading:
    state: {seen: 0 mV, most: 0 mV}
    on_pre: [seen = post.a]
    update: ["most = max(most, post.a)"]
"""
    neurons = """\
  slow:
    state: {v: 0 mV}
    inputs: {a: {unit: mV, decay: 10 ms}}
    update: [v = a]
"""
    pre = [(5, 0), (5, 1), (6, 1), (20, 0)]
    projections = """\
  plastic: {from: s, to: y, connect: {all_to_all: {}}, synapse: reading, delay: 0.1 ms}
  first: {from: s, to: y, connect: {all_to_all: {}}, deliver: {into: a, weight: 1 mV}, delay: 0.1 ms}
  other: {from: s, to: y, connect: {all_to_all: {}}, deliver: {into: a, weight: 4 mV}, delay: 0.9 ms}
"""
    numerics = f"{{precision: float64, order: {order}}}"
    text = model_text(pre, [(90, 0)], (2, 1), projections, reading, 100, numerics, neurons)
    text = text.replace("simulate:", "  y: {neuron: slow, size: 1}\nsimulate:", 1)
    result = simulate(text, tmp_path, target)
    a = most = 0.0
    seen = [0.0, 0.0]
    for k in range(1, 101):
        a *= math.exp(-DT / 10)
        most = max(most, a)
        arrived = [i for at, i in pre if at + 1 == k]
        for i in arrived:
            seen[i] = a
        a += len(arrived) + 4 * sum(at + 9 == k for at, _ in pre)
    np.testing.assert_allclose(weights(result, "plastic[s->y]", "seen"), seen, rtol=1e-9)
    np.testing.assert_allclose(weights(result, "plastic[s->y]", "most"), [most, most], rtol=1e-9)


@pytest.mark.parametrize(("target", "end"), diagonal(["cpu", "reference"], ["pre", "post"]))
def test_events_with_a_condition(tmp_path: Path, target: str, end: str) -> None:
    """In each step in which the condition of a neuron holds, its synapses run the statements, after on_post."""
    conditional = f"""\
synapses:
  conditional:
    params: {{least: 2.5 mV}}
    state: {{n: 0, m: 0}}
    {end}: {{state: {{z: 0}}, on_spike: [z = z + 1]}}
    on_pre: [m = 100]
    on_post: [m = 200]
    events:
      high: {{of: {end}, when: {end}.v > least and {end}.v < 5 mV, do: [n = n + {end}.z, m = m + 1]}}
"""
    # v of a neuron counts what it got by a and b: drive it with static synapses from the other population
    pre, post = [(10, 0), (20, 1), (30, 0), (40, 0)], [(15, 0), (25, 1), (30, 1), (45, 0)]
    projections = """\
  plastic: {from: s, to: t, connect: {pairs: {list: [[0, 0], [1, 1], [1, 0]]}}, synapse: conditional}
  up_t: {from: d, to: t, connect: {one_to_one: {}}, deliver: {into: a, weight: 3 mV}}
  up_s: {from: p, to: s, connect: {one_to_one: {}}, deliver: {into: a, weight: 3 mV}}
"""
    result = simulate(model_text(pre, post, (2, 2), projections, conditional, 60), tmp_path, target)
    pairs = [(0, 0), (1, 0), (1, 1)]
    spikes = pre if end == "pre" else post
    n, m = [0] * 3, [0] * 3
    for k in range(1, 61):
        for syn, (i, j) in enumerate(pairs):
            m[syn] = 100 if (k, i) in pre else m[syn]
            m[syn] = 200 if (k, j) in post else m[syn]
            me = i if end == "pre" else j
            first = [at for at, x in spikes if x == me and at <= k]
            if len(first) == 1:  # v is 3 mV from the step of the first spike on, 6 mV from that of the second
                n[syn] += len(first)
                m[syn] += 1
    np.testing.assert_array_equal(weights(result, variable="n"), n)
    np.testing.assert_array_equal(weights(result, variable="m"), m)
    assert len(set(n)) > 1


def with_synapse(model: Model, change: Callable[[SynapseDef], SynapseDef]) -> Model:
    """The model with its synapse changed, as the frontend does not let it be written yet."""
    changed = tuple(p if p.synapse is None else replace(p, synapse=change(p.synapse)) for p in model.projections)
    return replace(model, projections=changed)


@both
@orders
def test_an_input_that_is_read_and_added_to(tmp_path: Path, target: str, order: str) -> None:
    """All active synapses of a step see the same value, independent of their order."""
    synapse = """\
synapses:
  reading:
    state: {seen: 0 mV}
    on_pre: [deliver(1 mV), seen = post.v]
"""
    projections = "  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: reading, deliver: {into: a}}\n"
    pre = [(5, 0), (5, 1), (6, 1), (6, 2)]
    numerics = f"{{precision: float32, order: {order}}}"
    text = model_text(pre, [(90, 0)], (3, 2), projections, synapse, 20, numerics)
    reads = (Send(Num(1.0)), Set("seen", Ref("post.a")), Send(Num(2.0)), Set("seen", Ref("post.a")))
    model = with_synapse(model_of(text, tmp_path), lambda d: replace(d, on_pre=reads))
    result = run(start(model, tmp_path, target), 20)
    # an input without decay holds what came in one step and is empty in the next: nothing is seen
    np.testing.assert_array_equal(weights(result, variable="seen"), [0.0] * 6)
    np.testing.assert_array_equal(result.traces["t", "a"][4:6], [[6, 6], [6, 6]])


@both
def test_values_of_explicit_pairs(tmp_path: Path, target: str) -> None:
    """Lists are in the user's order, whatever the order of storage; formulas see them synapse by synapse."""
    synapse = """\
synapses:
  given:
    params: {gain: 1, top: 1 mV}
    state: {w: 2 * top * gain, u: 0}
    on_pre: ["u = u + gain * w / (1 mV)", deliver(w)]
"""
    pairs = [(2, 0), (0, 1), (1, 1), (0, 0)]
    projections = f"""\
  plastic:
    from: s
    to: t
    connect: {{pairs: {{list: {[list(p) for p in pairs]}}}}}
    synapse: given
    deliver: {{into: a}}
    params: {{gain: [1, 2, 3, 4], top: 5 mV}}
    init: {{u: [0.125, 0.25, 0.375, 0.5]}}
"""
    text = model_text([(5, 0), (5, 2)], [(90, 0)], (3, 2), projections, synapse, 20)
    result = simulate(text, tmp_path, target)
    order = sorted(range(4), key=lambda k: pairs[k])
    gains = np.array([1.0, 2, 3, 4])[order]
    np.testing.assert_array_equal(weights(result), 10 * gains)
    expected = np.array([0.125, 0.25, 0.375, 0.5])[order]
    expected[[0, 1, 3]] += (gains * 10 * gains)[[0, 1, 3]]
    np.testing.assert_array_equal(weights(result, variable="u"), expected)


@both
@orders
def test_a_population_onto_itself(tmp_path: Path, target: str, order: str) -> None:
    """Both ends are one population: its variables and inputs are read and added to from both sides."""
    synapse = """\
synapses:
  mutual:
    params: {k: 1}
    state: {n: 0}
    pre: {state: {x: 0}, on_spike: [x = x + 1]}
    post: {state: {y: 0}, on_spike: [y = y + 1]}
    on_pre:
      - deliver(k * (1 mV) + 0.5 * pre.v, post.a)
      - deliver(2 mV + 0.25 * post.v, pre.a)
      - n = n + post.y + t / dt
    on_post: [n = n + 100 * pre.x]
"""
    pre = [(5, 0), (5, 1), (9, 2), (10, 0)]
    projections = """\
  plastic: {from: s, to: s, connect: {all_to_all: {autapses: false}}, synapse: mutual, delay: 0.1 ms, params: {k: 3}}
"""
    numerics = f"{{precision: float64, order: {order}}}"
    result = simulate(model_text(pre, [(90, 0)], (3, 1), projections, synapse, 20, numerics), tmp_path, target)
    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    v, a, x, y, n = np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(3), np.zeros(6)
    for k in range(1, 21):
        v += a
        a = np.zeros(3)
        for syn, (i, j) in enumerate(pairs):
            if (k - 1, i) in pre:
                a[j] += 3 + 0.5 * v[i]
                a[i] += 2 + 0.25 * v[j]
                n[syn] += y[j] + k
        x += [(k - 1, i) in pre for i in range(3)]
        for syn, (i, j) in enumerate(pairs):
            if (k, j) in pre:
                n[syn] += 100 * x[i]
        y += [(k, j) in pre for j in range(3)]
    np.testing.assert_allclose(weights(result, "plastic[s->s]", "n"), n, rtol=1e-12)
    np.testing.assert_allclose(result.traces["s", "v"][-1], v, rtol=1e-9)


def test_too_many_different_delays_are_refused(tmp_path: Path) -> None:
    synapse = "synapses: {count: {state: {n: 0}, on_pre: [n = n + 1]}}\n"
    projections = """\
  plastic: {from: s, to: t, connect: {all_to_all: {}}, synapse: count,
            delay: {uniform: {low: 0 ms, high: 50 ms, round: nearest}}}
"""
    model = model_of(model_text([(5, 0)], [(6, 0)], (2, 2), projections, synapse), tmp_path)
    with pytest.raises(ModelError) as error:
        run(start(model, tmp_path), 10)
    assert error.value.diagnostics[0].code == "E0802"


@pytest.mark.parametrize(("target", "storage"), diagonal(["cpu", "reference"], ["sparse", "procedural"]))
def test_names_of_the_rule_and_of_the_synapse(tmp_path: Path, target: str, storage: str) -> None:
    """Params of a synapse may be called as those of the rule that draws its connections, or as the compiler's own."""
    synapse = """\
synapses:
  chance:
    params: {sigma: 2 mV, number: 0.5, multapses: 1 mV, connect_key: 3, key: 1, event: 2}
    on_pre: ["deliver(sigma * event * connect_key + multapses if random() < number * key else 0 mV)"]
"""
    projections = f"""\
  plastic:
    from: s
    to: t
    connect: {{rule: {{probability: exp(-(i - j) ** 2 / sigma ** 2), storage: {storage}}}}}
    synapse: chance
    deliver: {{into: a}}
"""
    pre = [(k, i) for k in range(2, 102) for i in range(6)]
    text = model_text(pre, [(90, 0)], (6, 6), projections, synapse, 110)
    text = text.replace("neurons:", "params: {sigma: {value: 3.0}}\nneurons:", 1)
    result = simulate(text, tmp_path, target)
    trace = result.traces["t", "a"][1:101]
    np.testing.assert_array_equal(trace % 13, 0)  # 2 * 2 * 3 + 1 each
    sparse = simulate(text.replace("procedural", "sparse"), tmp_path, target)
    np.testing.assert_array_equal(sparse.traces["t", "a"][1:101], trace)
    synapses = len(pairs_of(sparse, "plastic[s->t]", (6, 6)))
    assert 10 < synapses < 36
    assert abs(trace.sum() / 13 - 50 * synapses) < 4 * math.sqrt(25 * synapses)
