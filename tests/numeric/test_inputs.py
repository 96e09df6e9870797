"""External inputs: distribution, independence and random streams of Poisson events, and constant currents.

An input that does not decay is emptied in every step, so that its trace is the number of events of each step.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare, poisson

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.simulated import Array, model_of, run, simulate, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
MEANS = {"p0": 0.05, "p1": 0.5, "p2": 2.3, "p3": 3.0, "p4": 3.1, "p5": 11.5, "p6": 40.0, "p7": 2000.0}
"""Events per step and neuron: drawn by comparison up to 3, then by inversion below 12, by rejection above."""
N, STEPS = 300, 200


def counting(populations: str, inputs: str, record: str = "all", duration: str = f"{STEPS} ms") -> str:
    return f"""\
language: 1
name: counting
neurons: {{counter: {{state: {{total: 0}}, inputs: {{c: {{}}}}, update: [total = total + c]}}}}
populations:
{populations}
inputs:
{inputs}
simulate: {{dt: 1 ms, duration: {duration}, seed: 4}}
record: [{{trace: {{from: {record}, variables: [c, total], members: all}}}}]
"""


ALL_MEANS = counting(
    "\n".join(f"  {name}: {{neuron: counter, size: {N}}}" for name in MEANS),
    "  noise:\n    to: all\n    values: {mean: {by_target: [" + ", ".join(map(str, MEANS.values())) + "]}}\n"
    "    poisson: {rate: mean * 1 kHz, into: c, weight: 1}",
)


def fit(counts: Array, mean: float) -> float:
    """p of Pearson's test of counts against the Poisson distribution, with bins that expect at least 10."""
    low, high = int(poisson.ppf(1e-9, mean)), int(poisson.ppf(1 - 1e-12, mean)) + 1
    values = counts.ravel().astype(np.int64)
    assert values.min() >= low
    assert values.max() <= high
    probability = poisson.pmf(np.arange(low, high + 1), mean)
    observed = np.bincount(values - low, minlength=high - low + 1)
    bins: list[list[float]] = [[0.0, 0.0]]
    for seen, expected in zip(observed, probability / probability.sum() * values.size, strict=True):
        if bins[-1][1] >= 10:
            bins.append([0.0, 0.0])
        bins[-1][0] += seen
        bins[-1][1] += expected
    if bins[-1][1] < 10:
        last = bins.pop()
        bins[-1] = [bins[-1][0] + last[0], bins[-1][1] + last[1]]
    assert len(bins) >= 3
    table = np.array(bins)
    return float(chisquare(table[:, 0], table[:, 1]).pvalue)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_counts_are_poisson(tmp_path: Path, precision: str) -> None:
    """Distribution, mean and variance, from far below one event in a step to thousands."""
    result = simulate(ALL_MEANS + f"numerics: {{precision: {precision}}}\n", tmp_path)
    for name, mean in MEANS.items():
        counts = result.traces[name, "c"]
        assert counts.shape == (STEPS, N)
        assert np.array_equal(counts, np.round(counts))
        assert fit(counts, mean) > 1e-4, name
        error = np.sqrt(mean / counts.size)
        assert abs(counts.mean() - mean) < 4.5 * error, name
        of_variance = np.sqrt((mean + 2 * mean**2) / counts.size)
        assert abs(counts.var() - mean) < 4.5 * of_variance, name
        # Every neuron has this mean, not only all of them together; and every step has.
        assert np.abs(counts.mean(0) - mean).max() < 5.5 * np.sqrt(mean / STEPS) + 5 / STEPS
        assert np.abs(counts.mean(1) - mean).max() < 5.5 * np.sqrt(mean / N) + 5 / N


def correlations(a: Array, b: Array) -> Array:
    """Coefficients between the columns of a and those of b, times sqrt(samples): standard normal if independent."""
    z = [(x - x.mean(0)) / x.std(0) for x in (a.astype(np.float64), b.astype(np.float64))]
    return np.asarray(z[0].T @ z[1] / np.sqrt(len(a)))


def test_independence(tmp_path: Path) -> None:
    """Between neurons, between steps, between populations of one rate, and between inputs of one population."""
    n, steps = 60, 3000
    text = counting(
        "\n".join(f"  {name}: {{neuron: counter, size: {n}}}" for name in "abc"),
        "  x: {to: all, poisson: {rate: 1.5 kHz, into: c, weight: 1}}\n"
        "  y: {to: c, poisson: {rate: 1.5 kHz, into: c, weight: 1000}}",
        duration=f"{steps} ms",
    )
    result = simulate(text, tmp_path)
    a, b, mixed = (result.traces[name, "c"].astype(np.int64) for name in "abc")
    x, y = mixed % 1000, mixed // 1000
    for name, one in (("a", a), ("b", b), ("x", x), ("y", y)):
        assert fit(one, 1.5) > 1e-4, name
        off = correlations(one, one)[~np.eye(n, dtype=bool)]
        assert np.abs(off).max() < 5.5, name
        assert abs(off.std() - 1) < 0.1, name
        for lag in (1, 2, 7):
            assert np.abs(correlations(one[:-lag], one[lag:])).max() < 5.5, (name, lag)
    for name, one, other in (("a b", a, b), ("a x", a, x), ("x y", x, y), ("b y", b, y)):
        both_ways = correlations(one, other)
        assert np.abs(both_ways).max() < 5.5, name
        assert abs(both_ways.std() - 1) < 0.1, name


def test_adding_a_population_changes_no_draw_of_another(tmp_path: Path) -> None:
    """Random streams are keyed by input and population; size, seed and name affect only their own."""
    inputs = "  x: {to: all, poisson: {rate: 800 Hz, into: c, weight: 1}}"
    few = counting("  a: {neuron: counter, size: 40}\n  b: {neuron: counter, size: 30}", inputs)
    more = counting(
        "  z: {neuron: counter, size: 9}\n  b: {neuron: counter, size: 50}\n  a: {neuron: counter, size: 40}",
        "  first: {to: [z, a], poisson: {rate: 9 kHz, into: c, weight: 0}}\n" + inputs,
    )
    left, right = simulate(few, tmp_path), simulate(more, tmp_path)
    np.testing.assert_array_equal(left.traces["a", "c"], right.traces["a", "c"])
    np.testing.assert_array_equal(left.traces["b", "c"], right.traces["b", "c"][:, :30])
    other = simulate(few, tmp_path, seed=5)
    assert not np.array_equal(left.traces["a", "c"], other.traces["a", "c"])
    renamed = simulate(few.replace("  x: {to", "  w: {to"), tmp_path)
    assert not np.array_equal(left.traces["a", "c"], renamed.traces["a", "c"])


@both
def test_stepwise_as_in_one_go(tmp_path: Path, target: str) -> None:
    """Draws are counter-based by step and neuron: independent of the partition of a run."""
    text = counting("  a: {neuron: counter, size: 12}", "  x: {to: a, poisson: {rate: 5 kHz, into: c, weight: 1}}")
    model = model_of(text, tmp_path)
    whole = run(start(model, tmp_path, target), 30).traces["a", "c"]
    again = start(model, tmp_path, target)
    parts = [run(again, n, first).traces["a", "c"].copy() for n, first in ((1, 1), (12, 2), (17, 14))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_cpu_and_reference_draw_the_same(tmp_path: Path, precision: str) -> None:
    text = ALL_MEANS.replace(f"size: {N}", "size: 20").replace(f"duration: {STEPS} ms", "duration: 40 ms")
    text += f"numerics: {{precision: {precision}, order: bitwise}}\n"
    here, there = simulate(text, tmp_path, "cpu"), simulate(text, tmp_path, "reference")
    for key, values in here.traces.items():
        np.testing.assert_array_equal(values, there.traces[key], err_msg=str(key))


def test_precisions_agree_where_they_draw_the_same(tmp_path: Path) -> None:
    """By inversion and rejection (means above 3) counts are computed in float64 for both precisions."""
    single, double = (simulate(ALL_MEANS + f"numerics: {{precision: {p}}}", tmp_path) for p in ("float32", "float64"))
    for name in ("p5", "p6"):
        differ = single.traces[name, "c"] != double.traces[name, "c"]
        assert differ.mean() < 1e-3  # a mean such as 11.5 ms is rounded


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_events_are_delivered_at_the_end_of_a_step(tmp_path: Path, target: str, order: str) -> None:
    """A decaying input jumps by weight times a whole number in each step, and acts from the next step on; it is so
    beside events from synapses, with and without delays of their own."""
    text = f"""\
language: 1
name: decaying
neurons:
  cell:
    state: {{seen: 0 mV}}
    inputs: {{g: {{unit: mV, decay: 5 ms}}, c: {{unit: mV}}}}
    update: [seen = c]
populations:
  s: {{neuron: library/neurons/spike_times, size: 1, params: {{times: [3 ms, 9 ms], indices: [0, 0]}}}}
  a: {{neuron: cell, size: 10}}
  b: {{neuron: cell, size: 10}}
projections:
  plain: {{from: s, to: a, connect: {{all_to_all: {{}}}}, deliver: {{into: c, weight: 128 mV}}, delay: 2 ms}}
  drawn: {{from: s, to: b, connect: {{all_to_all: {{}}}}, deliver: {{into: c, weight: 128 mV}},
          delay: {{uniform: {{low: 1 ms, high: 4 ms, round: nearest}}}}}}
inputs:
  x: {{to: all_cells, poisson: {{rate: 0.4 kHz, into: g, weight: -0.25 mV}}}}
  y: {{to: all_cells, poisson: {{rate: 0.9 kHz, into: c, weight: 2 mV}}}}
simulate: {{dt: 1 ms, duration: 60 ms, seed: 4}}
record: [{{trace: {{from: [a, b], variables: [g, c, seen], members: all}}}}]
numerics: {{precision: float64, order: {order}}}
""".replace("all_cells", "[a, b]")
    result = simulate(text, tmp_path, target)
    for name in "ab":
        g, c = result.traces[name, "g"], result.traces[name, "c"]
        jumps = (g[1:] - g[:-1] * np.exp(-1 / 5)) / -0.25
        assert np.abs(jumps - np.round(jumps)).max() < 1e-9
        assert jumps.max() > 1.5
        assert abs(jumps.mean() - 0.4) < 5 * np.sqrt(0.4 / jumps.size)
        assert g[0].min() < 0  # step 1 has events, too
        np.testing.assert_array_equal(result.traces[name, "seen"][1:], c[:-1])
        np.testing.assert_array_equal(result.traces[name, "seen"][0], 0)
        arrived = c >= 128
        delays = np.full(10, 2) if name == "a" else result.instance.read("drawn[s->b]'delay").astype(int)
        wanted = np.zeros_like(arrived)
        for step in (3, 9):
            wanted[step + delays - 1, np.arange(10)] = True
        np.testing.assert_array_equal(arrived, wanted)
        events = (c - 128 * wanted) / 2
        np.testing.assert_array_equal(events, np.round(events))
        assert abs(events.mean() - 0.9) < 5 * np.sqrt(0.9 / events.size)


def test_no_rate_no_events(tmp_path: Path) -> None:
    text = counting("  a: {neuron: counter, size: 50}", "  x: {to: a, poisson: {rate: 0 Hz, into: c, weight: 1}}")
    assert not simulate(text, tmp_path).traces["a", "c"].any()


CURRENT = """\
language: 1
name: current
params: {extra: {value: 30 pA}}
populations:
  a: {neuron: library/neurons/lif_psc_exp, size: 3, params: {I_e: A}, init: {v: {uniform: {low: -70 mV, high: -60 mV}}}}
  b: {neuron: library/neurons/lif_psc_exp, size: 2, params: {I_e: B}}
  c: {neuron: library/neurons/lif_psc_exp, size: 2C}
INPUTSsimulate: {dt: 0.1 ms, duration: 50 ms, seed: 4}
record: [{spikes: {from: all}}, {trace: {from: all, variables: [v], members: all}}]
numerics: {precision: float64}
"""
INPUTS = """\
inputs:
  one:
    to: all
    values: {more: {by_target: [100 pA, -25 pA, 512 pA]}}
    current: {into: I_e, amplitude: more}
  two: {to: [a, c], current: {into: I_e, amplitude: 2 * extra}}
"""


@both
def test_a_current_is_the_parameter_changed_by_hand(tmp_path: Path, target: str) -> None:
    """Currents add up, each target has its own; without them, nothing is like it."""
    texts = {
        "given": CURRENT.replace("I_e: A", "I_e: 250 pA").replace("I_e: B", "I_e: 425 pA").replace("2C", "2"),
        "by hand": CURRENT.replace("I_e: A", "I_e: 410 pA")
        .replace("I_e: B", "I_e: 400 pA")
        .replace("2C", "2, params: {I_e: 572 pA}"),
    }
    given = simulate(texts["given"].replace("INPUTS", INPUTS), tmp_path, target)
    by_hand = simulate(texts["by hand"].replace("INPUTS", ""), tmp_path, target)
    without = simulate(texts["given"].replace("INPUTS", ""), tmp_path, target)
    for name in "abc":
        np.testing.assert_array_equal(given.spikes[name], by_hand.spikes[name])
        np.testing.assert_array_equal(given.traces[name, "v"], by_hand.traces[name, "v"])
        assert not np.array_equal(given.traces[name, "v"], without.traces[name, "v"])
    assert len(given.spikes["c"]) > 0


def test_exceptions_of_values(tmp_path: Path) -> None:
    text = counting(
        "\n".join(f"  {name}: {{neuron: counter, size: 2000}}" for name in "abc"),
        "  x:\n    to: all\n    values: {mean: {by_target: [1, 2, 3], except: [{to: b, value: 9}]}}\n"
        "    poisson: {rate: mean * 1 kHz, into: c, weight: 1}",
        duration="5 ms",
    )
    result = simulate(text, tmp_path)
    for name, mean in (("a", 1), ("b", 9), ("c", 3)):
        assert abs(result.traces[name, "c"].mean() - mean) < 5 * np.sqrt(mean / 10_000)


def test_text_is_independent_of_inputs(tmp_path: Path) -> None:
    """Any number of inputs and populations, any weight, any rate, however drawn: the same text."""
    cpu = backend("cpu")

    def emit(populations: int, inputs: int, rate: float) -> str:
        text = counting(
            "\n".join(f"  p{i}: {{neuron: counter, size: {i + 2}}}" for i in range(populations)),
            "\n".join(
                f"  x{i}: {{to: all, poisson: {{rate: {rate + 3 * i} Hz, into: c, weight: {i}}}}}"
                for i in range(inputs)
            ),
        )
        emitted = cpu.emit(lower(model_of(text, tmp_path), cpu.capabilities).merged)
        return re.sub(r"model\.yaml:\d+|\s", "", emitted)  # where comments with long paths break varies

    assert emit(1, 1, 100.0) == emit(4, 3, 1800.0) == emit(1, 2, 1e6) == emit(3, 1, 2998.0)
