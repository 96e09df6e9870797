"""Simulations from Python: pieces are one run, values go in and out, nothing is lost or left behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("not_optimized", "without_plots")

CUBA = """language: 1
name: small_cuba
params: {weight: {value: 3 mV}, drive: {value: 11.5 mV}, n: {value: 80, type: int}}
neurons:
  lif:
    params: {tau: 20 ms, E: drive, rest: -60 mV}
    state: {v: rest}
    inputs: {g: {unit: mV, decay: 5 ms}}
    dynamics: {dv/dt: (rest - v + g + E) / tau}
    spike: {when: v > -50 mV, reset: [v = rest], refractory: 2 ms}
populations:
  a: {neuron: lif, size: n, init: {v: {uniform: {low: -60 mV, high: -50 mV}}}}
  b: {neuron: lif, size: 20, init: {v: {uniform: {low: -60 mV, high: -50 mV}}}}
projections:
  ab: {from: a, to: [a, b], connect: {fixed_probability: {p: 0.1}}, deliver: {into: g, weight: weight}, delay: 1.5 ms}
  ba: {from: b, to: a, connect: {pairs: {list: [[3, 1], [0, 7], [0, 2]]}},
       deliver: {into: g, weight: {uniform: {low: -3 mV, high: -1 mV}}}, delay: 1 ms}
simulate: {dt: 0.1 ms, duration: 200 ms, seed: 7, WARM}
record:
  - spikes: {from: [a, b]}
  - trace: {from: a, variables: [v], members: [0, 3], every: 0.5 ms}
  - rate: {from: b, every: 7 ms}
  - synapses: {from: ba, variables: [weight], every: 50 ms}
"""
PLAIN, WARM = CUBA.replace(", WARM", ""), CUBA.replace("WARM", "warmup: 30 ms")
STDP = """language: 1
name: small_stdp
synapses:
  learning:
    params: {tau: 20 ms}
    state: {w: 0.5}
    pre: {state: {x: 0}, dynamics: {dx/dt: -x / tau}, on_spike: [x += 1]}
    on_post: [w = w + 0.01 * pre.x]
    on_pre: [deliver(w)]
neurons:
  leaky: {state: {v: 0}, inputs: {g: {unit: "1"}}, update: [v = 0.9 * v + g], spike: {when: v > 3, reset: [v = 0]}}
populations:
  input: {neuron: library/neurons/poisson, size: 30, params: {rate: 40 Hz}}
  output:
    size: 2
    neuron: leaky
projections:
  p: {from: input, to: output, connect: {all_to_all: {}}, synapse: learning, deliver: {into: g}}
simulate: {dt: 1 ms, duration: 300 ms, seed: 2}
record: [spikes: {from: output}, synapses: {from: p, variables: [w], every: 300 ms}]
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def records(s: netloom.Simulation) -> list[np.ndarray]:
    return [*s["a"].spikes, *s["b"].spikes, *s["a"].trace("v"), *s["b"].rate, s["a"].v, s["b"].g]


def same(x: list[np.ndarray], y: list[np.ndarray]) -> None:
    for left, right in zip(x, y, strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


@pytest.mark.parametrize("text", [PLAIN, WARM], ids=["from the start", "behind a warm-up"])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_pieces_are_one_run(text: str, target: str) -> None:
    m = netloom.load(text)
    whole, pieces = m.simulation(target=target), m.simulation(target=target)
    whole.run("60 ms")
    for steps in (1, 1, 3, 10, 200, 85, 300):
        pieces.run(steps=steps)
    assert pieces.time == whole.time == 60 and pieces.step == (900 if text is WARM else 600)
    assert len(whole["a"].spikes[0]) > 20
    same(records(pieces), records(whole))


@pytest.mark.parametrize("text", [PLAIN, WARM], ids=["from the start", "behind a warm-up"])
def test_records_are_those_of_a_run(text: str) -> None:
    m = netloom.load(text)
    run, s = m.run(), m.simulation()
    for _ in range(200):
        s.run("1 ms")
    for population in ("a", "b"):
        same(list(s[population].spikes), list(run.spikes(population)))
    same(list(s["a"].trace("v")), list(run.traces("a", "v")))
    with h5py.File(run.folder / "rates.h5") as file:
        same(list(s["b"].rate), [file["b/time"][:], file["b/rate"][:]])
    with h5py.File(run.folder / "synapses.h5") as file:
        group = file["ba/b->a"]
        view = s.projections["ba"]
        same([view.weight, view.source, view.target], [group["weight"][-1], group["source"][:], group["target"][:]])
        assert list(view.source) == [3, 0, 0] and list(view.target) == [1, 7, 2] and len(view) == 3


@pytest.mark.parametrize("drive", ["2 nA", "{uniform: {low: 1 nA, high: 2 nA}}", "[1 nA, 2 nA, 3 nA]", "1 nA * self.i"])
def test_a_parameter_has_its_unit(drive: str) -> None:
    """In whatever way its values are given."""
    text = f"""\
language: 1
name: units
neurons: {{cell: {{params: {{drive: 1 nA, c: 1 nF}}, state: {{v: 0 mV}}, dynamics: {{dv/dt: drive / c}}}}}}
populations: {{p: {{neuron: cell, size: 3, params: {{drive: {drive}}}}}}}
simulate: {{dt: 1 ms, duration: 1 ms, seed: 1}}
"""
    p = netloom.load(text).simulation()["p"]
    assert p.drive.unit == "pA" and p.drive.max() >= 1000
    assert p.c.unit == "pF" and p.v.unit == "mV"


def test_values_are_read_and_written() -> None:
    s = netloom.load(PLAIN).simulation()
    a = s["a"]
    assert a.variables == ("v", "g", "tau", "E", "rest") and len(a) == 80 and list(s) == ["a", "b"]
    v = a.v
    assert v.shape == (80,) and v.unit == "mV" and v.dtype == np.float32 and np.all((v >= -60) & (v <= -50))
    v[:3] = [-51, -52, -53]
    assert a.v[:4].tolist() == [-51, -52, -53, v[3]]
    part = v[10:20]
    part[:] = 0  # a part is a copy
    assert np.all(a.v[10:20] < 0)
    a.v += 0.5
    assert a.v[0] == -50.5 and type(a.v + 1) is np.ndarray
    a["v"] = -55
    assert np.all(a.v == -55)
    assert np.all(a.E == 11.5) and a.E.unit == "mV"
    weights = s.projections["ba"]
    assert weights.weight.unit == "mV"
    weights.weight = [-1, -2, -3]
    assert weights.weight.tolist() == [-1, -2, -3]
    s.run("5 ms")
    assert weights.weight.tolist() == [-1, -2, -3]


def test_parameters_and_delays_of_synapses_are_read() -> None:
    text = """
language: 1
synapses: {s: {params: {a: 1, b: 2 ms, c: 3}, state: {w: 0}, on_pre: [deliver(w + a + c), w = w + b / (1 ms)]}}
neurons: {n: {inputs: {i: {}}, state: {x: 0}, update: [x = x + i], spike: {when: x > 9, reset: [x = 0]}}}
populations: {p: {neuron: n, size: 9}}
projections:
  q:
    {from: p, to: p, connect: {pairs: {list: [[5, 1], [0, 2], [0, 1]]}}, synapse: s, deliver: {into: i},
     params: {a: [7, 8, 9], c: i + 10 * j}, delay: [3 ms, 1 ms, 2 ms]}
  r: {from: p, to: p, connect: {all_to_all: {}}, deliver: {into: i, weight: 1}, delay: 4 ms}
simulate: {dt: 0.5 ms, duration: 1 ms}
"""
    s = netloom.load(text).simulation()
    q, r = s.projections["q"], s.projections["r"]
    assert q.variables == ("w", "delay", "a", "b", "c") and r.variables == ("weight", "delay")
    assert (q.a.tolist(), q.b.tolist(), q.c.tolist()) == ([7, 8, 9], [2, 2, 2], [15, 20, 10])
    assert (q.delay.tolist(), q.delay.unit, q.b.unit, r.delay[80]) == ([3, 1, 2], "ms", "ms", 4)
    with pytest.raises(netloom.RunError, match="stays as it was drawn"):
        q.delay = 1


def test_names_that_are_missing_are_missing_to_python() -> None:
    s = netloom.load(PLAIN).simulation()
    assert not hasattr(s["a"], "w") and getattr(s.projections["ba"], "w", 7) == 7
    assert "ba" in s.projections and "ba[b->a]" in s.projections and "ab" not in s.projections
    assert s.projections.get("no") is None and list(s.projections) == ["ab[a->a]", "ab[a->b]", "ba"]
    assert len(s.projections) == 3


def test_values_that_are_written_have_their_effect() -> None:
    s = netloom.load(PLAIN).simulation()
    s["a"].v = -60
    s["b"].v = -60
    s["b"].v[3] = -49  # spikes at once, and its only synapse leads to a[1]
    s.projections["ba"].weight = [-7, 0, 0]
    s.run("1.5 ms")
    assert s["b"].spikes[1].tolist() == [3]
    assert np.flatnonzero(s["a"].g).tolist() == [1] and -7 < s["a"].g[1] < -6


@pytest.mark.parametrize(
    ("act", "part"),
    [
        (lambda s: s["c"], "there is no population `c`"),
        (lambda s: s["a"].w, "`a` has no variable `w`"),
        (lambda s: setattr(s["a"], "V", 3), "did you mean `v`"),
        (lambda s: setattr(s["a"], "v", [1, 2]), "has the shape [80], not [2]"),
        (lambda s: setattr(s["a"], "v", "high"), "holds numbers of type float32"),
        (lambda s: setattr(s["a"], "E", 3), "`a.E` is one number of the model, 11.5"),
        (lambda s: setattr(s.projections["ab[a->b]"], "weight", 3), "is one number of the model"),
        (lambda s: s.projections["ab"], "it has several parts: `ab[a->a]`, `ab[a->b]`"),
        (lambda s: s["b"].trace("v"), "does not record `v` of `b`"),
        (lambda s: s["a"].rate, "does not record the rate of `a`"),
        (lambda s: s.run(), "a duration such as '100 ms', or `steps`"),
        (lambda s: s.run("1 ms", steps=3), "a duration such as '100 ms', or `steps`"),
        (lambda s: s.run("0.05 ms"), "not a whole number of steps"),
        (lambda s: s.run("-1 ms"), "a time such as"),
        (lambda s: s.run(steps=-1), "an integer from 0"),
        (lambda s: s.run(steps=1 << 31), "at most 2,147,483,647 steps"),
        (lambda s: s.every("0 ms", print), "at least one step"),
        (lambda s: s.set(n=81), "these settings change more than values"),
        (lambda s: s.restore("nowhere"), "there is no run directory or checkpoint"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(act: Any, part: str) -> None:
    s, other = netloom.load(PLAIN).simulation(), netloom.load(PLAIN).simulation()
    s.run("3 ms")
    with pytest.raises(netloom.RunError) as raised:
        act(s)
    assert part in str(raised.value)
    s.run("3 ms")
    other.run("6 ms")
    same(records(s), records(other))


def test_a_network_of_layers_is_not_stepped() -> None:
    with pytest.raises(netloom.RunError, match="no `simulate`"):
        netloom.load(str(Path(__file__).resolve().parents[2] / "models/lenet_digits.yaml")).simulation()


def test_back_to_a_checkpoint() -> None:
    s, other = netloom.load(PLAIN).simulation(), netloom.load(PLAIN).simulation()
    s.run("20 ms")
    first = s.checkpoint()
    s.run("7.3 ms")
    second = s.checkpoint()
    s["a"].v = -60
    s.run("15 ms")
    s.restore(second)
    assert s.time == 27.3
    s.run("12.7 ms")
    other.run("40 ms")
    same(records(s), records(other))
    s.restore(first)
    s.restore(second)  # from the other side: its records begin there
    assert s.time == 27.3 and len(s["a"].spikes[0]) == 0
    s.run("12.7 ms")
    same([s["a"].v], [other["a"].v])
    times, ids = other["a"].spikes
    same(list(s["a"].spikes), [times[times > 27.35], ids[times > 27.35]])


def test_checkpoint_files_are_those_of_runs(tmp_path: Path) -> None:
    m = netloom.load(PLAIN)
    s, other = m.simulation(), m.simulation()
    s.run("50 ms")
    path = s.checkpoint(tmp_path / "at50.safetensors")
    assert path == tmp_path / "at50.safetensors"
    s.run("150 ms")
    other.restore(path)
    assert other.time == 50
    other.run("150 ms")
    same([s["a"].v, s["b"].g], [other["a"].v, other["b"].g])
    resumed = m.run(resume=path)
    times, ids = s["a"].spikes
    same(list(resumed.spikes("a")), [times[times > 50.05], ids[times > 50.05]])
    with pytest.raises(netloom.RunError, match="seed 7, not 8"):
        m.simulation(seed=8).restore(path)


def test_parameters_change_on_the_way() -> None:
    m = netloom.load(PLAIN)
    s, same_values, without = m.simulation(), m.simulation(), m.simulation()
    for x in (s, same_values, without):
        x.run("30 ms")
    s.set(drive="-5 mV")
    same_values.set({"drive": "11.5 mV"}, weight="3 mV")
    assert np.all(s["a"].E == -5)
    for x in (s, same_values, without):
        x.run("50 ms")
    same(records(same_values), records(without))
    times = s["a"].spikes[0]
    assert np.sum(times < 30) > 5 and np.sum(times > 60) == 0 and np.sum(without["a"].spikes[0] > 60) > 5
    same([s["a"].spikes[0][times < 30]], [without["a"].spikes[0][without["a"].spikes[0] < 30]])


def test_learned_weights_stay_when_parameters_change() -> None:
    text = STDP.replace("params: {tau: 20 ms}", "params: {tau: tau}")
    m = netloom.load(text.replace("synapses:", "params: {tau: {value: 20 ms}}\nsynapses:", 1))
    s = m.simulation()
    s.run("100 ms")
    learned = np.asarray(s.projections["p"].w)
    assert np.any(learned != 0.5)
    s.set(tau="10 ms")
    same([s.projections["p"].w], [learned])


def test_plastic_synapses_are_those_of_a_run() -> None:
    m = netloom.load(STDP)
    run, s = m.run(), m.simulation()
    for _ in range(300):
        s.run("1 ms")
    p = s.projections["p"]
    with h5py.File(run.folder / "synapses.h5") as file:
        same([p.w], [file["p/input->output/w"][-1]])
    assert p.variables == ("w", "delay", "tau", "pre.x") and p["pre.x"].shape == (30,)
    assert len(p) == 60 and p.source[:3].tolist() == [0, 0, 1]


def test_a_world_in_python_closes_the_loop() -> None:
    s = netloom.load(PLAIN).simulation()
    seen: list[float] = []

    def world(simulation: netloom.Simulation) -> bool | None:
        seen.append(simulation.time)
        simulation["a"].v = -60
        return simulation.time >= 30

    remove = s.every("5 ms", world)
    s.run("12 ms")
    assert seen == [5, 10] and s.time == 12
    s.run("100 ms")
    assert seen == [5, 10, 15, 20, 25, 30] and s.time == 30
    remove()
    s.run("10 ms")
    assert len(seen) == 6 and s.time == 40

    def wrong(simulation: netloom.Simulation) -> None:
        simulation.run("1 ms")

    remove = s.every("2 ms", wrong)
    with pytest.raises(netloom.RunError, match="cannot run the simulation"):
        s.run("10 ms")
    assert s.time == 42
    remove()
    s.run("1 ms")


def test_callbacks_come_behind_a_warmup() -> None:
    s = netloom.load(WARM).simulation()
    seen: list[float] = []
    s.every("4 ms", lambda x: seen.append(x.time))
    s.run("9 ms")
    assert seen == [4, 8] and s.time == 9


def test_ctrl_c_comes_between_two_steps() -> None:
    m = netloom.load(PLAIN)
    s, other = m.simulation(), m.simulation()
    s.run("100 ms")
    for delay in (0.01, 0.02, 0.05):
        timer = threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            while time.monotonic() < begin + 20:
                s.run("0.5 ms")
        timer.join()
    s.run(steps=-s.step % 100)
    other.run(steps=s.step)
    assert s.step == other.step > 1000
    same(records(s), records(other))


def test_a_state_that_is_not_finite_is_an_error() -> None:
    s = netloom.load(PLAIN).simulation()
    s["a"].v[5] = np.nan
    with pytest.raises(netloom.RunError, match=r"a.v\[5\]"):
        s.run("200 ms")


def test_what_is_closed_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    m = netloom.load(PLAIN)
    with m.simulation() as s:
        s.run("10 ms")
    s = m.simulation()
    s.run("1 ms")
    del s, m
    gc.collect()
    assert not [*(tmp_path / "temporary").iterdir()]


@pytest.mark.slow
def test_a_thousand_simulations_leave_nothing() -> None:
    m = netloom.load(PLAIN)

    def memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def some(count: int) -> None:
        for seed in range(count):
            s = m.simulation(seed=seed)
            s.run("5 ms")
            s.restore(s.checkpoint())

    some(100)
    gc.collect()
    before, files, threads = memory(), len(os.listdir("/proc/self/fd")), threading.active_count()
    some(1000)
    gc.collect()
    assert memory() - before < 30 << 20
    assert len(os.listdir("/proc/self/fd")) == files and threading.active_count() == threads
