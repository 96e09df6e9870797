"""Delayed reads of synapses, `delayed(pre.v)`, and their reads of phase counters, against numpy.

The neurons' variables are recorded in every step; the value read by a synapse in step k is a row of that record.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.checkpoint import Position, restore_checkpoint, save_checkpoint
from compiler.runtime.common.arrays import persistent_arrays
from tests.grids import diagonal
from tests.numeric.simulated import Array, Simulated, model_of, run, simulate, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
STEPS = 60

NEURONS = """\
language: 1
name: delayed
neurons:
  cell:
    params: {speed: 0.07}
    state: {v: {uniform: {low: 0, high: 1}}, n: 0, seen: 0}
    inputs: {g: {decay: 3 ms}, i: {}}
    update: [n = n + 1, seen = g, v = v + speed + 0.01 * i]
    spike: {when: v > 1, reset: [v = 0.001 * n]}
populations:
  x: {neuron: cell, size: 5, params: {speed: {uniform: {low: 0.03, high: 0.3}}}}
  y: {neuron: cell, size: 4, params: {speed: {uniform: {low: 0.03, high: 0.3}}}}
record:
  - trace: {from: [x, y], variables: [v, n, g], members: all}
  - spikes: {from: all}
"""
"""`v` is reset to a value that tells the step of the spike."""


def text_of(rest: str, numerics: str = "{precision: float64}", steps: int = STEPS) -> str:
    return f"{NEURONS}{rest}simulate: {{dt: 1 ms, duration: {steps} ms, seed: 4}}\nnumerics: {numerics}\n"


def stepped(text: str, folder: Path, target: str, arrays: list[str]) -> tuple[Simulated, dict[str, Array]]:
    """The run, and what `arrays` were at the end of every step; record buffers are kept."""
    model = model_of(text, folder)
    assert model.simulate is not None
    simulated = start(model, folder, target)
    seen: dict[str, list[Array]] = {name: [simulated.instance.read(name).copy()] for name in arrays}
    for step in range(1, model.simulate.steps + 1):
        simulated.instance.run("step", step, 1)
        for name in arrays:
            seen[name].append(simulated.instance.read(name).copy())
    return simulated, {name: np.array(rows) for name, rows in seen.items()}


PAIRS = [(0, 0), (0, 1), (0, 3), (1, 2), (2, 0), (3, 3), (4, 0), (4, 1), (4, 2)]
DELAYS = [0, 1, 7, 300, 59, 60, 61, 3, 2]
LOOK = """\
synapses:
  look:
    state: {a: -1, b: -1, c: -1}
    update: [a = delayed(pre.v), b = delayed(post.v) - post.v, c = pre.v]
projections:
  p: {from: x, to: y, connect: CONNECT, synapse: look, delay: DELAY, back_delay: 5 ms}
"""
LISTED = f"pairs: {{list: {[list(p) for p in PAIRS]}}}"


@both
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_delay_reads_its_step(tmp_path: Path, target: str, precision: str) -> None:
    """Delays of 0, of a step, longer than the run; the start before it."""
    delays = "[" + ", ".join(f"{d} ms" for d in DELAYS) + "]"
    rest = LOOK.replace("CONNECT", f"{{{LISTED}}}").replace("DELAY", delays)
    names = ["x.v", "y.v", *(f"p[x->y].{n}" for n in "abc")]
    _, seen = stepped(text_of(rest, f"{{precision: {precision}}}"), tmp_path, target, names)
    pre, post = np.array(PAIRS).T
    late = np.array(DELAYS)
    for k in range(1, STEPS + 1):
        np.testing.assert_array_equal(seen["p[x->y].a"][k], seen["x.v"][np.maximum(k - late, 0), pre])
        np.testing.assert_array_equal(seen["p[x->y].b"][k], seen["y.v"][max(k - 5, 0), post] - seen["y.v"][k, post])
        np.testing.assert_array_equal(seen["p[x->y].c"][k], seen["x.v"][k, pre])
    assert np.any(np.diff(seen["x.v"], axis=0) < 0)  # there were resets


STORED = {
    "all to all": "{all_to_all: {}}",
    "all to all, sparse": "{all_to_all: {storage: sparse}}",
    "drawn": "{fixed_probability: {p: 0.6}}",
}


@pytest.mark.parametrize(("connect", "target"), diagonal(list(STORED), ["cpu", "reference"]))
def test_drawn_delays(tmp_path: Path, target: str, connect: str) -> None:
    delay = "{uniform: {low: 0 ms, high: 40 ms, round: nearest}}"
    rest = LOOK.replace("CONNECT", STORED[connect]).replace("DELAY", delay)
    simulated, seen = stepped(text_of(rest), tmp_path, target, ["x.v", "p[x->y].a"])
    late = simulated.instance.read("p[x->y]'delay").astype(np.int64)
    assert len(np.unique(late)) > 5
    if connect == "all to all":
        pre = np.repeat(np.arange(5), 4)
    else:
        pre = np.repeat(np.arange(5), np.diff(simulated.instance.read("p[x->y]'row")))
    for k in range(1, STEPS + 1):
        np.testing.assert_array_equal(seen["p[x->y].a"][k], seen["x.v"][np.maximum(k - late, 0), pre])


AT_EVENTS = """\
phases: {trial: {every: 8 ms, events: {start: 0 ms, end: 8 ms}}}
synapses:
  look:
    state: {at_pre: -1, at_post: -1, mixed: -1, high: 0, higher: -1, at_start: -1, at_end: -1}
    let: {difference: delayed(pre.v) - delayed(post.v)}
    on_pre: [at_pre = delayed(pre.v)]
    on_post: [at_post = delayed(post.v), mixed = difference]
    events: {high: {of: pre, when: delayed(pre.v) > 0.8, do: [high = high + 1, higher = delayed(pre.v)]}}
    on:
      trial.start: [at_start = delayed(pre.v)]
      trial.end: [at_end = delayed(pre.n)]
projections:
  p: {from: x, to: y, connect: {all_to_all: {}}, synapse: look, delay: 9 ms, back_delay: 4 ms}
"""


@both
def test_at_spikes_and_events(tmp_path: Path, target: str) -> None:
    """A spike of step k arrives in step k + 9 and reads `v` as it was after step k, reset. So for the target and
    `back_delay`, for conditions of events and for events of phases."""
    variables = ("at_pre", "at_post", "mixed", "high", "higher", "at_start", "at_end")
    names = ["x.v", "y.v", *(f"p[x->y].{n}" for n in variables)]
    simulated, seen = stepped(text_of(AT_EVENTS), tmp_path, target, names)
    run_of = run(start(simulated.model, tmp_path, target), STEPS)
    spiked = {p: {tuple(pair) for pair in run_of.spikes[p].tolist()} for p in "xy"}
    assert len(spiked["x"]) > 20 < len(spiked["y"])
    expected = {n: np.full((5, 4), 0.0 if n == "high" else -1.0) for n in variables}
    for k in range(1, STEPS + 1):
        v, u = seen["x.v"][max(k - 9, 0)], seen["y.v"][max(k - 4, 0)]
        if k % 8 == 1:
            expected["at_start"][:] = v[:, None]
        for i in range(5):
            if (k - 9, i) in spiked["x"]:
                expected["at_pre"][i] = v[i]
                assert v[i] == 0.001 * (k - 9)
        for j in range(4):
            if (k - 4, j) in spiked["y"]:
                expected["at_post"][:, j] = u[j]
                expected["mixed"][:, j] = v - u[j]
                assert u[j] == 0.001 * (k - 4)
        for i in np.flatnonzero(v > 0.8):
            expected["high"][i] += 1
            expected["higher"][i] = v[i]
        if k % 8 == 0:
            expected["at_end"][:] = max(k - 9, 0)
        for n in variables:
            np.testing.assert_array_equal(seen[f"p[x->y].{n}"][k].reshape(5, 4), expected[n], err_msg=f"{n}, {k}")
    assert (expected["high"] > 0).all()


@pytest.mark.parametrize(("target", "order"), diagonal(["cpu", "reference"], ["reproducible", "bitwise"]))
def test_inputs_are_delayed_too(tmp_path: Path, target: str, order: str) -> None:
    """`delayed(post.g)` is the input as `post.g` was: with what had been delivered until the step before."""
    rest = """\
synapses:
  look: {state: {a: -1, b: -1}, update: [a = delayed(post.g), b = post.g]}
projections:
  q: {from: x, to: y, connect: {pairs: {list: [[0, 0], [1, 1], [2, 2], [3, 3], [4, 0]]}}, deliver: {into: g, weight: 2}}
  p: {from: x, to: y, connect: {pairs: {list: [[0, 0], [1, 1], [2, 2], [3, 3], [4, 0]]}}, synapse: look,
      back_delay: 6 ms}
"""
    text = text_of(rest, f"{{precision: float64, order: {order}}}")
    simulated, seen = stepped(text, tmp_path, target, ["p[x->y].a", "p[x->y].b"])
    for k in range(1, STEPS + 1):
        expected = seen["p[x->y].b"][k - 6] if k > 6 else np.zeros(5)
        np.testing.assert_array_equal(seen["p[x->y].a"][k], expected)
    recorded = run(start(simulated.model, tmp_path, target), STEPS).traces["y", "g"]
    assert len(np.unique(seen["p[x->y].a"])) > 10
    for k in range(7, STEPS + 1):  # a record holds what arrived in its step, which the synapses of that step do not see
        then, before = recorded[k - 7, [0, 1, 2, 3, 0]], recorded[k - 8, [0, 1, 2, 3, 0]] if k > 7 else np.zeros(5)
        np.testing.assert_allclose(seen["p[x->y].a"][k], before * np.exp(-1 / 3), atol=1e-11)
        assert (then >= seen["p[x->y].a"][k] - 1e-11).all()


GAPS = """\
synapses:
  gap:
    params: {k: 0.004}
    update: [deliver(k * (delayed(pre.v) - post.v))]
projections:
  p: {from: [x, y], to: [x, y], connect: CONNECT, synapse: gap, deliver: {into: i}, delay: DELAY,
      values: {late: {by_pair: [[3 ms, 11 ms], [0 ms, 1 ms]]}}}
"""


def coupled(v: Array, speed: Array, late: Callable[[int, int], Array], steps: int) -> Array:
    """The network of GAPS in numpy: `late(source, target)`: delay of neurons of 0 .. 8, 5 of `x` and 4 of `y`."""
    rows, n = [v], len(v)
    arriving = np.zeros(n)
    for k in range(1, steps + 1):
        v = v + speed + 0.01 * arriving
        v = np.where(v > 1, 0.001 * k, v)
        rows.append(v)
        before = np.array([[rows[max(k - late(i, j), 0)][i] for i in range(n)] for j in range(n)])
        arriving = (0.004 * (before - v[:, None])).sum(axis=1)
    return np.array(rows)


@pytest.mark.parametrize(
    ("storage", "target"), diagonal(["auto", "sparse", "bitmask", "procedural"], ["cpu", "reference"])
)
def test_gap_junctions_with_delays(tmp_path: Path, target: str, storage: str) -> None:
    """Every pair of two populations coupled, a delay for each pair of them; the same in every storage."""
    text = text_of(GAPS.replace("CONNECT", f"{{all_to_all: {{storage: {storage}}}}}").replace("DELAY", "late"))
    model = model_of(text, tmp_path)
    simulated = start(model, tmp_path, target)
    v = np.concatenate([simulated.instance.read(f"{p}.v") for p in "xy"])
    speed = np.concatenate([simulated.instance.read(f"{p}.speed") for p in "xy"])
    run(simulated, STEPS)
    delays = np.array([[3, 11], [0, 1]])  # rows: targets
    expected = coupled(v, speed, lambda i, j: delays[int(j >= 5), int(i >= 5)], STEPS)
    found = np.concatenate([simulated.traces[p, "v"] for p in "xy"], axis=1)
    np.testing.assert_allclose(found, expected[1:], rtol=0, atol=1e-12)


@both
def test_gap_junctions_with_drawn_delays(tmp_path: Path, target: str) -> None:
    """Each synapse with a delay of its own, fed back."""
    delay = "{normal: {mean: 12 ms, std: 6 ms, max: 30 ms, round: nearest}}"
    text = text_of(GAPS.replace("CONNECT", "{all_to_all: {}}").replace("DELAY", delay))
    text = text.replace(",\n      values: {late: {by_pair: [[3 ms, 11 ms], [0 ms, 1 ms]]}}", "")
    simulated = start(model_of(text, tmp_path), tmp_path, target)
    v = np.concatenate([simulated.instance.read(f"{p}.v") for p in "xy"])
    speed = np.concatenate([simulated.instance.read(f"{p}.speed") for p in "xy"])
    run(simulated, STEPS)
    late = np.zeros((9, 9), np.int64)
    for a, first, n in (("x", 0, 5), ("y", 5, 4)):
        for b, start_of, m in (("x", 0, 5), ("y", 5, 4)):
            drawn = simulated.instance.read(f"p[{a}->{b}]'delay").reshape(n, m)
            late[first : first + n, start_of : start_of + m] = drawn
    assert len(np.unique(late)) > 10
    expected = coupled(v, speed, lambda i, j: late[i, j], STEPS)
    found = np.concatenate([simulated.traces[p, "v"] for p in "xy"], axis=1)
    np.testing.assert_allclose(found, expected[1:], rtol=0, atol=1e-12)


PLANES = """\
language: 1
neurons:
  a: {state: {v: {uniform: {low: 0, high: 1}}}, update: [v = 3.7 * v * (1 - v)]}
  b: {state: {v: 0}, inputs: {i: {}}, update: [v = i]}
synapses:
  graded: {params: {w: 1}, update: [deliver(w * delayed(pre.v))]}
populations: {x: {neuron: a, shape: [2, 5, 6]}, y: {neuron: b, shape: [3, 5, 6]}}
projections:
  p: {from: x, to: y, connect: {conv2d: {kernel: 3, padding: 1, storage: STORAGE}}, synapse: graded, deliver: {into: i},
      delay: 4 ms, params: {w: 0.5}}
record: [{trace: {from: [x, y], variables: [v], members: all}}]
simulate: {dt: 1 ms, duration: 20 ms, seed: 4}
numerics: {precision: float64}
"""


@both
@pytest.mark.parametrize("storage", ["toeplitz", "sparse"])
def test_a_convolution_of_what_was(tmp_path: Path, target: str, storage: str) -> None:
    result = simulate(PLANES.replace("STORAGE", storage), tmp_path, target)
    x, y = (result.traces[p, "v"].reshape(20, -1, 5, 6) for p in "xy")
    padded = np.pad(x.sum(axis=1), ((0, 0), (1, 1), (1, 1)))
    around = sum(padded[:, i : i + 5, j : j + 6] for i in range(3) for j in range(3))
    for k in range(6, 20):  # step k + 1 shows what was delivered in step k, which read step k - 4
        np.testing.assert_allclose(y[k], np.broadcast_to(0.5 * around[k - 5], (3, 5, 6)), rtol=1e-12)


@both
def test_going_on_from_a_checkpoint(tmp_path: Path, target: str) -> None:
    delay = "{uniform: {low: 0 ms, high: 40 ms, round: nearest}}"
    text = text_of(GAPS.replace("CONNECT", "{all_to_all: {}}").replace("DELAY", delay), "{order: bitwise}")
    text = text.replace(",\n      values: {late: {by_pair: [[3 ms, 11 ms], [0 ms, 1 ms]]}}", "")
    model, cut = model_of(text, tmp_path), 33
    unbroken = run(start(model, tmp_path, target), STEPS)
    first = run(start(model, tmp_path, target), cut)
    assert {"x.v'past", "y.v'past"} <= {a.name for a in persistent_arrays(first.lowered.merged)}
    path = tmp_path / "here.safetensors"
    save_checkpoint(path, first.instance, first.lowered.merged, Position("spiking", cut, 6, "m"))
    second = start(model, tmp_path, target)
    restore_checkpoint(path, second.instance, second.lowered.merged)
    run(second, STEPS - cut, cut + 1)
    for key, values in unbroken.traces.items():
        np.testing.assert_array_equal(np.concatenate([first.traces[key], second.traces[key]]), values)


def test_text_does_not_depend_on_delays(tmp_path: Path) -> None:
    """One text for every number of populations and every delay; ring buffers have minimal length."""
    cpu = backend("cpu")
    emitted, slots = [], []
    for delays in ((1, 2, 3, 4), (0, 7, 500, 4000)):
        values = "by_pair: [[{} ms, {} ms], [{} ms, {} ms]]".format(*delays)
        text = text_of(GAPS.replace("CONNECT", "{all_to_all: {}}").replace("DELAY", "late"))
        text = text.replace("by_pair: [[3 ms, 11 ms], [0 ms, 1 ms]]", values)
        lowered = lower(model_of(text, tmp_path), cpu.capabilities, verify=True)
        emitted.append(cpu.emit(lowered.merged))
        slots.append({a.name: a.shape[0] for a in lowered.merged.arrays if a.name.endswith("'past")})
    assert emitted[0] == emitted[1]
    assert slots == [{"x.v'past": 4, "y.v'past": 5}, {"x.v'past": 501, "y.v'past": 4001}]
    assert "x'spikes" in {a.name for a in lowered.merged.arrays}
    rings = {a.name: a.shape[0] for a in lowered.merged.arrays if a.name.endswith("'spikes")}
    assert max(rings.values()) == 3  # nothing waits for spikes, which are kept for no step longer


# ------------------------------------------------------------------------------------- counters of phases

COUNTERS = """\
phases: {trial: {every: 7 ms, events: {start: 0 ms, late: 5 ms, end: 7 ms}}, day: {every: 31 ms}}
synapses:
  counting:
    state: {a: 0, b: 0, c: 0, d: 0, e: 0, f: 0, s: 0}
    let: {now: trial.step + 100 * trial.count}
    pre: {state: {z: 0}, update: [z = z + trial.step], on_spike: [z = -trial.count]}
    post: {state: {y: 0}, dynamics: {dy/dt: (day.step - y) / (4 ms)}}
    dynamics: {ds/dt: -s * trial.step / (20 ms)}
    update: [a = now, s = s + 1 if trial.step == 2 else s]
    on_pre: [b = trial.step, "deliver(0.5 if day.count > 0 else 0, post.i)"]
    on_post: [c = day.step]
    events: {first: {of: pre, when: trial.step == 1 and pre.v > 0.3, do: [d = d + trial.count]}}
    on: {trial.start: [e = now], trial.late: [f = now]}
projections:
  p: {from: x, to: y, connect: {all_to_all: {}}, synapse: counting, delay: 2 ms}
"""


@pytest.mark.parametrize(("target", "precision"), diagonal(["cpu", "reference"], ["float32", "float64"]))
def test_counters_of_phases(tmp_path: Path, target: str, precision: str) -> None:
    names = [f"p[x->y].{n}" for n in ("a", "b", "c", "d", "e", "f", "s", "pre.z", "post.y")]
    text = text_of(COUNTERS, f"{{precision: {precision}}}")
    simulated, seen = stepped(text, tmp_path, target, ["x.v", "y.v", "y.i", *names])
    run_of = run(start(simulated.model, tmp_path, target), STEPS)
    spiked = {p: {tuple(pair) for pair in run_of.spikes[p].tolist()} for p in "xy"}
    expected = {n: np.zeros((5, 4)) for n in "abcdefs"} | {"pre.z": np.zeros(5), "post.y": np.zeros(4)}
    tolerance = 1e-12 if precision == "float64" else 1e-5
    delivered = 0
    for k in range(1, STEPS + 1):
        step, count, day, days = (k - 1) % 7 + 1, (k - 1) // 7, (k - 1) % 31 + 1, (k - 1) // 31
        now = step + 100 * count
        arrived = [i for i in range(5) if (k - 2, i) in spiked["x"]]
        if step == 1:
            expected["e"][:] = now
        expected["pre.z"] += step
        expected["post.y"] = day + (expected["post.y"] - day) * np.exp(-1 / 4)
        expected["s"] *= np.exp(-step / 20)
        expected["a"][:] = now
        expected["s"] += step == 2
        expected["b"][arrived] = step
        expected["pre.z"][arrived] = -count
        expected["c"][:, [j for j in range(4) if (k, j) in spiked["y"]]] = day
        if step == 1:
            expected["d"][seen["x.v"][k] > 0.3] += count
        if step == 5:
            expected["f"][:] = now
        for n, value in expected.items():
            found = seen[f"p[x->y].{n}"][k].reshape(value.shape)
            np.testing.assert_allclose(found, value, rtol=tolerance, atol=tolerance, err_msg=f"{n}, step {k}")
        delivered += len(arrived) * days
        np.testing.assert_array_equal(seen["y.i"][k], 0.5 * len(arrived) * days)
    assert delivered > 3 and (expected["d"] > 0).any()
