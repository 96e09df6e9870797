"""Per-synapse delays: deliveries per target and step, decoded and compared with numpy.

The targets' inputs do not decay, so that a trace of one, sampled at the end of every step, is the sum delivered in
that step. Weights are powers of two or small integers, so that sums identify the synapses that delivered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, expon, lognorm, norm

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.checkpoint import Position, restore_checkpoint, save_checkpoint
from compiler.runtime.common.arrays import persistent_arrays
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, run, simulate, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
NUMERICS = [f"{{precision: {p}, order: {o}}}" for p in ("float32", "float64") for o in ("reproducible", "bitwise")]
STEPS = 120
SPIKES = ((1, 0), (1, 3), (2, 1), (9, 0), (9, 1), (9, 2), (9, 3), (10, 0), (11, 0), (40, 2), (41, 2), (42, 3), (70, 1))
"""(step, neuron) of the source `s`: alone, simultaneous, and again while earlier ones are pending."""

HEAD = f"""\
language: 1
name: delays
neurons:
  sink:
    state: {{v: 0 mV}}
    inputs: {{a: {{unit: mV}}, b: {{unit: mV}}, c: {{unit: mV}}}}
    update: [v = v + a + b + c]
populations:
  s:
    neuron: library/neurons/spike_times
    size: 4
    params: {{times: [{", ".join(f"{k / 10:g} ms" for k, _ in SPIKES)}], indices: {[i for _, i in SPIKES]}}}
  t: {{neuron: sink, size: 3}}
  u: {{neuron: sink, size: 2}}
simulate: {{dt: 0.1 ms, duration: {STEPS / 10:g} ms, seed: 3}}
record:
  - trace: {{from: [t, u], variables: [v, a, b, c], members: all}}
"""


def whole_numbers(simulated: Simulated, name: str) -> Array:
    return simulated.instance.read(name).astype(np.int64)


def relation(simulated: Simulated, name: str, n: int) -> tuple[Array, Array]:
    """Row pointers and targets; all-to-all stores none."""
    if f"{name}'row" in {a.name for a in simulated.lowered.merged.arrays}:
        return whole_numbers(simulated, f"{name}'row"), whole_numbers(simulated, f"{name}'col")
    return np.arange(5) * n, np.tile(np.arange(n), 4)


def arrivals(simulated: Simulated, name: str, n: int, weights: Any, delays: Any = None, steps: int = STEPS) -> Array:
    """(steps, n): the deliveries of one projection from `s` per step, computed from its relation.
    `weights`, `delays`: one number, or one per synapse (default: those that were drawn)."""
    row, col = relation(simulated, name, n)
    late = np.broadcast_to(whole_numbers(simulated, f"{name}'delay") if delays is None else delays, col.shape)
    weight = np.broadcast_to(np.asarray(weights, np.float64), col.shape)
    out = np.zeros((steps, n))
    for step, source in SPIKES:
        for k in range(row[source], row[source + 1]):
            if step + late[k] <= steps:
                out[step + late[k] - 1, col[k]] += weight[k]
    return out


def check_targets(simulated: Simulated, expected: dict[tuple[str, str], Array]) -> None:
    """Every input of `t` and `u` receives exactly this (nothing, where it is not named), and acts a step later."""
    for population, n in (("t", 3), ("u", 2)):
        total = np.zeros((STEPS, n))
        for name in "abc":
            wanted = expected.get((population, name), np.zeros((STEPS, n)))
            np.testing.assert_array_equal(simulated.traces[population, name], wanted, err_msg=f"{population}.{name}")
            total += wanted
        acted = np.vstack([np.zeros((1, n)), np.cumsum(total, axis=0)[:-1]])
        np.testing.assert_array_equal(simulated.traces[population, "v"], acted)


PAIRS = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 1), (2, 2), (3, 0), (3, 1), (0, 0), (3, 0)]
"""(source, target); two of them twice."""
ONE = f"""\
projections:
  p:
    from: s
    to: t
    connect: {{pairs: {{list: {[list(p) for p in PAIRS]}}}}}
    deliver: {{into: a, weight: [{", ".join(f"{1 << k} mV" for k in range(len(PAIRS)))}]}}
    delay: {{uniform: {{low: 0 ms, high: 3 ms, round: nearest}}}}
"""


@pytest.mark.parametrize(
    ("numerics", "target"),
    diagonal(NUMERICS, ["cpu", "reference"]),
)
def test_who_receives_what_in_which_step(tmp_path: Path, target: str, numerics: str) -> None:
    result = simulate(HEAD + ONE + f"numerics: {numerics}\n", tmp_path, target)
    name = "p[s->t]"
    order = sorted(range(len(PAIRS)), key=lambda k: PAIRS[k])  # stable: canonical order of the synapses
    assert whole_numbers(result, f"{name}'col").tolist() == [PAIRS[k][1] for k in order]
    delays = whole_numbers(result, f"{name}'delay")
    assert len(np.unique(delays)) >= 6
    assert delays.min() >= 0
    assert delays.max() <= 30
    weights = [1 << k for k in order]
    expected = arrivals(result, name, 3, weights)
    assert len(np.unique(expected)) > len(PAIRS)  # several synapses at once, too
    check_targets(result, {("t", "a"): expected})


@both
def test_bits_of_a_weight_name_its_synapse(tmp_path: Path, target: str) -> None:
    """The other way round: the delay of each synapse, from the trace alone, for the source that fires in step 70."""
    result = simulate(HEAD + ONE, tmp_path, target)
    trace = result.traces["t", "a"].astype(np.int64)
    row, delays = whole_numbers(result, "p[s->t]'row"), whole_numbers(result, "p[s->t]'delay")
    seen = {}
    for k, (source, post) in enumerate(PAIRS):
        if source == 1:
            (steps,) = np.nonzero(trace[69:, post] & (1 << k))
            seen[post] = int(steps[0])
            assert len(steps) == 1
    assert list(seen.values()) == delays[row[1] : row[2]].tolist()


SHARED = """\
projections:
  drawn:
    from: s
    to: t
    connect: {fixed_probability: {p: 0.7}}
    deliver: {into: a, weight: 1 mV}
    delay: {normal: {mean: 0.5 ms, std: 0.2 ms, min: 0 ms, max: 1 ms, round: nearest}}
  fixed: {from: s, to: t, connect: {all_to_all: {}}, deliver: {into: a, weight: 1024 mV}, delay: DELAY}
  other: {from: s, to: [t, u], connect: {all_to_all: {}}, deliver: {into: b, weight: 3 mV}, delay: 0.7 ms}
  wide:
    from: s
    to: u
    connect: {fixed_total: {number: 9}}
    deliver: {into: c, weight: 5 mV}
    delay: {uniform: {low: 0 ms, high: 4 ms, round: nearest}}
  small:
    from: s
    to: u
    connect: {fixed_total: {number: 7}}
    deliver: {into: a, weight: 7 mV}
    delay: {uniform: {low: 0 ms, high: 0.3 ms, round: nearest}}
"""


@pytest.mark.parametrize(
    ("numerics", "fixed", "target"),
    diagonal(NUMERICS, [0, 4, 77], ["cpu", "reference"]),
)
def test_one_delay_and_many_into_one_input(tmp_path: Path, target: str, numerics: str, fixed: int) -> None:
    """Into `a` of t: a distribution and one delay (shorter and far longer than those drawn); `b` has no ring; the two
    rings of u need different numbers of slots."""
    text = HEAD + SHARED.replace("DELAY", f"{fixed / 10:g} ms") + f"numerics: {numerics}\n"
    result = simulate(text, tmp_path, target)
    drawn = arrivals(result, "drawn[s->t]", 3, 1)
    assert drawn.any()
    expected = {
        ("t", "a"): drawn + arrivals(result, "fixed[s->t]", 3, 1024, fixed),
        ("t", "b"): arrivals(result, "other[s->t]", 3, 3, 7),
        ("u", "b"): arrivals(result, "other[s->u]", 2, 3, 7),
        ("u", "c"): arrivals(result, "wide[s->u]", 2, 5),
        ("u", "a"): arrivals(result, "small[s->u]", 2, 7),
    }
    assert whole_numbers(result, "wide[s->u]'delay").max() > whole_numbers(result, "small[s->u]'delay").max() + 4
    check_targets(result, expected)


@pytest.mark.parametrize(("delay", "target"), diagonal([0, 1, 5], ["cpu", "reference"]))
def test_a_distribution_of_one_value(tmp_path: Path, target: str, delay: int) -> None:
    """`low == high` is a homogeneous delay by other means, 0 included: the same bits."""
    text = (
        HEAD
        + "projections: {p: {from: s, to: [t, u], connect: {all_to_all: {}}, deliver: {into: a, weight: W}, delay: D}}"
    )
    text = text.replace("W", "{normal: {mean: 1 mV, std: 0.3 mV}}")
    time = f"{delay / 10:g} ms"
    plain = simulate(text.replace(" D}", f" {time}}}"), tmp_path, target)
    ringed = simulate(
        text.replace(" D}", f" {{uniform: {{low: {time}, high: {time}, round: nearest}}}}}}"), tmp_path, target
    )
    assert set(whole_numbers(ringed, "p[s->t]'delay")) == {delay}
    for key, trace in plain.traces.items():
        if key[1] == "a":
            # Sums of one step: added to 0 one by one in the same order.
            np.testing.assert_array_equal(trace, ringed.traces[key])
    assert np.count_nonzero(plain.traces["t", "a"]) > 10


@both
def test_long_delays(tmp_path: Path, target: str) -> None:
    """More than 255 steps exceed a byte; one that ends after the run is never delivered."""
    text = HEAD.replace(f"duration: {STEPS / 10:g} ms", "duration: 60 ms") + ONE.replace("high: 3 ms", "high: 50 ms")
    result = simulate(text, tmp_path, target)
    delays = whole_numbers(result, "p[s->t]'delay")
    assert result.instance.read("p[s->t]'delay").dtype == np.int32
    assert delays.max() > 255
    order = sorted(range(len(PAIRS)), key=lambda k: PAIRS[k])
    expected = arrivals(result, "p[s->t]", 3, [1 << k for k in order], steps=600)
    np.testing.assert_array_equal(result.traces["t", "a"], expected)


NORMAL = """\
language: 1
name: normal
neurons: {sink: {state: {v: 0 mV}, inputs: {a: {unit: mV}}, update: [v = v + a]}}
populations:
  s: {neuron: library/neurons/spike_times, size: 200, params: {times: [0.1 ms], indices: [0]}}
  t: {neuron: sink, size: 200}
projections:
  n: {from: s, to: t, connect: {all_to_all: {}}, deliver: {into: a, weight: 1 mV},
      delay: {normal: {mean: 1.5 ms, relative_std: 0.5, min: 0.1 ms, max: 3.2 ms, round: nearest}}}
  u: {from: s, to: t, connect: {all_to_all: {}}, deliver: {into: a, weight: 1 mV},
      delay: {uniform: {low: 0.2 ms, high: 1.4 ms, round: nearest}}}
  e: {from: s, to: t, connect: {all_to_all: {}}, deliver: {into: a, weight: 1 mV},
      delay: {exponential: {mean: 0.8 ms, min: 0.2 ms, max: 3 ms, round: nearest}}}
  l: {from: s, to: t, connect: {all_to_all: {}}, deliver: {into: a, weight: 1 mV},
      delay: {lognormal: {mean: 0.9 ms, std: 0.5 ms, max: 2.5 ms, round: nearest}}}
simulate: {dt: 0.1 ms, duration: 1 ms, seed: 8}
"""


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_distributions_of_delays(tmp_path: Path, precision: str) -> None:
    """What is drawn is cut to min..max and rounded: every number of steps has its probability."""
    result = start(model_of(NORMAL + f"numerics: {{precision: {precision}}}\n", tmp_path), tmp_path)
    drawn = np.bincount(whole_numbers(result, "n[s->t]'delay"), minlength=33)
    assert len(drawn) == 33
    assert drawn[0] == 0
    cut = np.concatenate([[0.0], norm.cdf((np.arange(1, 32) + 0.5 - 15) / 7.5), [1.0]])
    assert chisquare(drawn[1:], np.diff(cut) * 40_000).pvalue > 1e-4
    drawn = np.bincount(whole_numbers(result, "u[s->t]'delay"), minlength=15)
    assert len(drawn) == 15
    shares = np.array([0.5, *[1.0] * 11, 0.5]) / 12  # the ends are half as wide
    assert chisquare(drawn[2:], shares * 40_000).pvalue > 1e-4
    drawn = np.bincount(whole_numbers(result, "e[s->t]'delay"), minlength=31)
    assert len(drawn) == 31 and not drawn[:2].any()
    cut = np.concatenate([[0.0], expon.cdf((np.arange(2, 30) + 0.5) / 8), [1.0]])
    assert chisquare(drawn[2:], np.diff(cut) * 40_000).pvalue > 1e-4
    drawn = np.bincount(whole_numbers(result, "l[s->t]'delay"), minlength=26)
    width = np.sqrt(np.log1p((0.5 / 0.9) ** 2))  # of the logarithm
    cut = np.concatenate([[0.0], lognorm.cdf(np.arange(1, 25) + 0.5, width, scale=9 * np.exp(-(width**2) / 2)), [1.0]])
    assert len(drawn) == 26
    drawn = np.concatenate([[drawn[:2].sum()], drawn[2:]])  # steps 0 and 1 are rare
    assert chisquare(drawn, np.diff(cut) * 40_000).pvalue > 1e-4


NETWORK = """\
language: 1
name: network
params: {n: {value: 40, type: int}, late: {value: 1.5 ms}}
neurons:
  lif:
    params: {tau_m: 10 ms, tau_s: 2 ms, drive: 12 mV}
    state: {v: 0 mV}
    inputs: {g: {unit: mV, decay: tau_s}, h: {unit: mV, decay: 3 ms}, jump: {unit: mV}}
    update: [v = v + jump]
    dynamics: {dv/dt: (drive + g + h - v) / tau_m}
    spike: {when: v > 10 mV, reset: [v = 0 mV], refractory: 0.5 ms}
populations:
  a: {neuron: lif, size: n, init: {v: {uniform: {low: 0 mV, high: 10 mV}}}}
  b: {neuron: lif, size: 15, params: {drive: 9 mV}}
projections:
  ab:
    from: [a, b]
    to: [a, b]
    connect: {fixed_probability: {p: 0.3}}
    deliver: {into: g, weight: {normal: {mean: 2 mV, std: 0.4 mV}}}
    delay: {normal: {mean: late, relative_std: 0.5, min: 0 ms, round: nearest}}
  ba: {from: b, to: a, connect: {fixed_total: {number: 90}}, deliver: {into: h, weight: -3 mV}, delay: 0.6 ms}
  mixed: {from: a, to: b, connect: {fixed_probability: {p: 0.1}}, deliver: {into: g, weight: 1.7 mV}, delay: 2.9 ms}
  kicks: {from: a, to: b, connect: {fixed_total: {number: 30}}, deliver: {into: jump, weight: 0.9 mV},
          delay: {uniform: {low: 0 ms, high: 2 ms, round: nearest}}}
inputs:
  noise: {to: [a, b], poisson: {rate: 700 Hz, into: g, weight: 0.3 mV}}
  many: {to: b, poisson: {rate: 60000 Hz, into: h, weight: 0.01 mV}}
simulate: {dt: 0.1 ms, duration: 40 ms, seed: 6}
record:
  - spikes: {from: all}
  - trace: {from: a, variables: [v, g, h, jump], members: all, every: 0.3 ms}
  - trace: {from: b, variables: [v, g, h, jump], members: [0, 3, 7], every: 0.1 ms}
"""


def same(a: Simulated, b: Simulated) -> None:
    """All records of two runs are equal, bit for bit."""
    for name, pairs in a.spikes.items():
        np.testing.assert_array_equal(pairs, b.spikes[name], err_msg=name)
    for key, values in a.traces.items():
        assert values.dtype == b.traces[key].dtype
        np.testing.assert_array_equal(values, b.traces[key], err_msg=str(key))


@pytest.mark.parametrize("precision", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_cpu_and_reference_agree_bit_for_bit(tmp_path: Path, precision: str) -> None:
    text = NETWORK + f"numerics: {{precision: {precision}, order: bitwise}}\n"
    cpu, reference = simulate(text, tmp_path, "cpu"), simulate(text, tmp_path, "reference")
    for name in ("ab[a->a]", "ab[a->b]", "ab[b->a]", "kicks[a->b]"):
        for part in ("row", "col", "delay"):
            np.testing.assert_array_equal(
                cpu.instance.read(f"{name}'{part}"), reference.instance.read(f"{name}'{part}")
            )
    assert len(cpu.spikes["a"]) > 100
    assert len(cpu.spikes["b"]) > 20
    same(cpu, reference)


def test_orders_agree_within_rounding(tmp_path: Path) -> None:
    """Fixed point and direct accumulation: the same network."""
    runs = [
        simulate(NETWORK + f"numerics: {{precision: float64, order: {order}}}\n", tmp_path)
        for order in ("bitwise", "reproducible", "fast")
    ]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].spikes["a"], other.spikes["a"])
        for key, values in runs[0].traces.items():
            np.testing.assert_allclose(values, other.traces[key], rtol=0, atol=1e-6)


@both
def test_traces_hold_what_was_delivered_in_the_step(tmp_path: Path, target: str) -> None:
    """A decaying input at the end of step k is what was left of step k - 1, and the deliveries of step k."""
    text = HEAD.replace("a: {unit: mV}", "a: {unit: mV, decay: 2 ms}").replace("members: all}", "members: [2, 0]}")
    text = text.replace("from: [t, u]", "from: [t]") + ONE + "numerics: {precision: float64}\n"
    result = simulate(text, tmp_path, target)
    order = sorted(range(len(PAIRS)), key=lambda k: PAIRS[k])
    delivered = arrivals(result, "p[s->t]", 3, [1 << k for k in order])
    expected, level = np.zeros((STEPS, 3)), np.zeros(3)
    for k in range(STEPS):
        level = level * np.exp(-0.1 / 2) + delivered[k]
        expected[k] = level
    np.testing.assert_allclose(result.traces["t", "a"], expected[:, [2, 0]], rtol=1e-12, atol=1e-12)
    every = simulate(text.replace("members: [2, 0]}", "members: [2, 0], every: 0.7 ms}"), tmp_path, target)
    np.testing.assert_array_equal(every.traces["t", "a"], result.traces["t", "a"][6::7])


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_resuming_with_events_under_way(tmp_path: Path, target: str, order: str) -> None:
    model = model_of(NETWORK + f"numerics: {{order: {order}}}\n", tmp_path)
    steps, cut = 300, 151
    unbroken = run(start(model, tmp_path, target), steps)
    first = run(start(model, tmp_path, target), cut)
    rings = [a.name for a in persistent_arrays(first.lowered.merged) if a.name.endswith("'delivered")]
    assert {"a.g'delivered", "b.g'delivered", "b.jump'delivered"} <= set(rings)
    for name in ("a.g'delivered", "b.g'delivered"):
        size = 40 if name[0] == "a" else 15
        ring = first.instance.read(name).reshape(-1, size)
        assert np.count_nonzero(ring.any(axis=1)) > 5  # slots of several later steps
    path = tmp_path / "here.safetensors"
    save_checkpoint(path, first.instance, first.lowered.merged, Position("spiking", cut, 6, "m"))
    second = start(model, tmp_path, target)
    restore_checkpoint(path, second.instance, second.lowered.merged)
    run(second, steps - cut, cut + 1)
    for name, pairs in unbroken.spikes.items():
        np.testing.assert_array_equal(np.concatenate([first.spikes[name], second.spikes[name]]), pairs)
    for key, values in unbroken.traces.items():
        np.testing.assert_array_equal(np.concatenate([first.traces[key], second.traces[key]]), values)
    for array in persistent_arrays(unbroken.lowered.merged):
        np.testing.assert_array_equal(
            unbroken.instance.read(array.name), second.instance.read(array.name), err_msg=array.name
        )


def test_text_is_independent_of_delays_and_sizes(tmp_path: Path) -> None:
    """Delays are data: slot counts are columns."""
    cpu = backend("cpu")

    def emit(**settings: str) -> str:
        return cpu.emit(lower(model_of(NETWORK, tmp_path, settings), cpu.capabilities).merged)

    assert emit() == emit(late="2.5 ms", n="7") == emit(late="0.3 ms", n="300")
