"""Events of synapses with a condition of their own: when they arrive, and their times, against plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.grids import diagonal, together
from tests.numeric.simulated import Array, model_of, start

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
STEPS, N_PRE, N_POST = 40, 5, 4

TEXT = """\
language: 1
name: events
neurons:
  cell:
    state: {v: {uniform: {low: 0, high: 1}}, n: 0}
    inputs: {g: {}}
    update: [n = n + 1, v = 0.6 * v + 0.4 * random(), n = n + g]
    spike: {when: v > 0.75, reset: []}
synapses:
  eventful:
    state: {at_pre: -1, at_post: -1, seen: -1, gap: -1, before: -1, late: -1, spiked: -1}
    on_pre: [late = pre.last_high / (1 ms)]
    update: [spiked = post.last_low / (1 ms)]
    events:
      high: {of: pre, when: pre.v > 0.4 and t - pre.last_high > REST, do: DO_PRE, delayed: true}
      low: {of: post, when: post.v < 0.5 and t - post.last_spike > 2 ms, do: DO_POST, delayed: true}
      now: {of: pre, when: pre.v > 0.6, do: [deliver(1)]}
populations: {a: {neuron: cell, size: 5}, b: {neuron: cell, size: 4}}
projections:
  p: {from: a, to: b, connect: {all_to_all: {}}, synapse: eventful, deliver: {into: g}, delay: DELAY, back_delay: 2 ms}
simulate: {dt: 1 ms, duration: 40 ms, seed: 3}
"""
DO_PRE = "[at_pre = t / (1 ms), seen = delayed(pre.v), gap = (t - pre.last_high) / (1 ms)]"
DO_POST = "[at_post = t / (1 ms), before = post.previous_low / (1 ms)]"
NEVER = -1e9


def stepped(text: str, folder: Path, target: str, names: list[str]) -> dict[str, Array]:
    """What arrays are at the end of every step, the start first."""
    simulated = start(model_of(text, folder), folder, target)
    seen: dict[str, list[Array]] = {name: [simulated.instance.read(name).copy()] for name in names}
    for step in range(1, STEPS + 1):
        simulated.instance.run("step", step, 1)
        for name in names:
            seen[name].append(simulated.instance.read(name).copy())
    return {name: np.array(rows) for name, rows in seen.items()}


@both
def test_events_that_arrive_later(tmp_path: Path, target: str) -> None:
    """`high` with a delay of 3 steps, `low` with a back delay of 2, `now` at once; the condition of `high` reads when
    it last arrived, that of `low` the neuron's spikes (which arrive 2 steps late)."""
    text = TEXT.replace("DO_PRE", DO_PRE).replace("DO_POST", DO_POST).replace("REST", "4 ms").replace("DELAY", "3 ms")
    states = ["at_pre", "at_post", "seen", "gap", "before", "late", "spiked"]
    names = ["a.v", "b.v", "b.n", *(f"p[a->b].{s}" for s in states)]
    found = stepped(text + "numerics: {precision: float64}\n", tmp_path, target, names)
    v = {"a": found["a.v"], "b": found["b.v"]}
    high, low = np.zeros((STEPS + 1, N_PRE), bool), np.zeros((STEPS + 1, N_POST), bool)
    last_high, last_low = np.full(N_PRE, NEVER), np.full((2, N_POST), NEVER)  # arrivals
    last_spike = np.full(N_POST, NEVER)
    expected = {s: np.full((N_PRE, N_POST), -1.0) for s in states}
    n = np.zeros(N_POST)
    for k in range(1, STEPS + 1):
        n += 1 + (v["a"][k - 1] > 0.6).sum() * (k > 1)
        expected["spiked"][:] = last_low[0]
        if k > 3:
            expected["late"][v["a"][k - 3] > 0.75] = last_high[v["a"][k - 3] > 0.75][:, None]
        if k > 2:
            last_spike[v["b"][k - 2] > 0.75] = k
        high[k] = (v["a"][k] > 0.4) & (k - last_high > 4)
        low[k] = (v["b"][k] < 0.5) & (k - last_spike > 2)
        if k > 3:
            due = high[k - 3]
            expected["at_pre"][due] = k
            expected["seen"][due] = v["a"][k - 3][due][:, None]
            expected["gap"][due] = np.where(last_high == NEVER, k - NEVER, k - last_high)[due][:, None]
            last_high[due] = k
        if k > 2:
            due = low[k - 2]
            expected["at_post"][:, due] = k
            expected["before"][:, due] = last_low[1][due]
            last_low[1][due] = last_low[0][due]
            last_low[0][due] = k
        for s in states:
            np.testing.assert_allclose(found[f"p[a->b].{s}"][k].reshape(N_PRE, N_POST), expected[s], err_msg=f"{s} {k}")
        np.testing.assert_array_equal(found["b.n"][k], n)
    assert 20 < high.sum() < 100 and 10 < low.sum() < 100


@pytest.mark.parametrize(
    ("target", "delay"),
    diagonal(["cpu", "reference"], ["[0 ms, 1 ms, 7 ms, 3 ms]", "{uniform: {low: 0 ms, high: 9 ms, round: nearest}}"]),
)
def test_delays_that_differ(tmp_path: Path, target: str, delay: str) -> None:
    """An event arrives at each synapse after the synapse's own delay."""
    text = TEXT.replace("DO_PRE", DO_PRE.partition(", gap")[0] + ", gap = gap + 1]").replace("DO_POST", DO_POST)
    text = text.replace("and t - pre.last_high > REST", "").replace("[late = pre.last_high / (1 ms)]", "[late = 1]")
    text = text.replace("DELAY", delay)
    if delay.startswith("["):
        text = text.replace("all_to_all: {}", "pairs: {list: [[0, 0], [0, 1], [4, 2], [2, 3]]}")
    names = ["a.v", "p[a->b].at_pre", "p[a->b].seen", "p[a->b].gap", "p[a->b]'delay"]
    found = stepped(text + "numerics: {precision: float64}\n", tmp_path, target, names)
    late = found["p[a->b]'delay"][0].astype(int)
    pre = np.array([0, 0, 2, 4]) if delay.startswith("[") else np.repeat(np.arange(N_PRE), N_POST)
    assert len(set(late)) > 3
    at, seen, gap = (np.full(len(late), -1.0) for _ in range(3))
    for k in range(1, STEPS + 1):
        emitted = k - late
        value = found["a.v"][np.maximum(emitted, 0), pre]
        due = (emitted > 0) & (value > 0.4)
        at[due], seen[due], gap[due] = k, value[due], gap[due] + 1
        np.testing.assert_array_equal(found["p[a->b].at_pre"][k], at)
        np.testing.assert_array_equal(found["p[a->b].seen"][k], seen)
        np.testing.assert_array_equal(found["p[a->b].gap"][k], gap)


BACK = """\
language: 1
name: back
neurons:
  cell:
    state: {v: {uniform: {low: 0, high: 1}}, n: 0}
    inputs: {g: {}}
    update: [n = n + g, v = 0.6 * v + 0.4 * random()]
    spike: {when: v > 0.7, reset: []}
synapses:
  answering:
    params: {w: 2}
    post: {state: {spikes: 0}, on_spike: [spikes = spikes + 1]}
    on_post: ["deliver(w + delayed(post.v) + post.spikes, pre.g)"]
    events: {low: {of: post, when: post.v < 0.4, do: ["deliver(0.125 * w, pre.g)", "deliver(1, post.g)"]}}
populations: {a: {neuron: cell, shape: [1, 4, 4]}, b: {neuron: cell, shape: [1, 4, 4]}}
projections:
  p: {from: a, to: b, connect: {RULE, storage: STORAGE}}, synapse: answering, back_delay: 2 ms}
simulate: {dt: 1 ms, duration: 40 ms, seed: 3}
numerics: {precision: float64}
"""


@pytest.mark.parametrize(
    ("rule", "storage", "target"),
    diagonal(
        together(
            [
                *(("fixed_probability: {p: 0.4", s) for s in ("sparse", "bitmask", "procedural")),
                *(("all_to_all: {autapses: true", s) for s in ("bitmask", "procedural")),
                ("fixed_outdegree: {number: 3, multapses: false", "procedural"),
                *(("conv2d: {kernel: 3, padding: 1", s) for s in ("sparse", "toeplitz")),
            ]
        ),
        ["cpu", "reference"],
    ),
)
def test_targets_answer_whatever_the_storage(tmp_path: Path, target: str, rule: str, storage: str) -> None:
    """Statements at spikes and events of targets, where connections are found by their sources alone."""
    text = BACK.replace("RULE", rule).replace("STORAGE", storage)
    found = stepped(text, tmp_path, target, ["a.n", "b.n", "b.v"])
    p = netloom.load(text.replace(storage, "sparse")).simulation(target=target).projections["p"]
    connected = np.zeros((16, 16))
    np.add.at(connected, (np.asarray(p.source), np.asarray(p.target)), 1)
    spikes, a, b, arriving = np.zeros(16), np.zeros(16), np.zeros(16), (np.zeros(16), np.zeros(16))
    for k in range(1, STEPS + 1):
        a, b = a + arriving[0], b + arriving[1]
        np.testing.assert_allclose(found["a.n"][k], a)
        np.testing.assert_allclose(found["b.n"][k], b)
        v = found["b.v"]
        spiked = (v[k - 2] > 0.7) & (k > 2)
        low = v[k] < 0.4
        arriving = (
            connected @ (spiked * (2 + v[max(k - 2, 0)] + spikes) + 0.25 * low),
            connected.sum(axis=0) * low,
        )
        spikes += spiked
    assert a.min() > 0 and b.max() > 9


RECORDED = """record:
  - trace: {from: a, variables: [v], members: all}
  - events: {from: p, events: [high, low], between: [5 ms, 30 ms]}
"""


@both
def test_recorded(tmp_path: Path, target: str) -> None:
    """The steps in which conditions hold, not those in which events arrive; in pieces as in one run, and frozen."""
    text = TEXT.replace("DO_PRE", DO_PRE).replace("DO_POST", DO_POST).replace("DELAY", "3 ms")
    text = text.replace(" and t - pre.last_high > REST", "")
    path = tmp_path / "model.yaml"
    path.write_text(text + RECORDED, encoding="utf-8")
    result = netloom.run(path, target, out=tmp_path / "run", build_dir=tmp_path / "build")
    times, v = result.traces("a", "v")
    steps, neurons = np.nonzero(v > np.float32(0.4))
    kept = (times[steps] > 5) & (times[steps] <= 30)
    found = result.events("p", "high")
    assert found.keys() == {"a->b"} and 30 < kept.sum() < 120
    np.testing.assert_array_equal(found["a->b"], (times[steps][kept], neurons[kept]))
    table = result.to_pandas("events")
    assert set(table.columns) == {"time", "projection", "pair", "event", "neuron"}
    assert sorted(set(table["event"])) == ["high", "low"]
    s = netloom.load(path).simulation(target=target)
    for _ in range(8):
        s.run("5 ms")
    for event in ("high", "low"):
        np.testing.assert_array_equal(s.projections["p"].events(event), result.events("p", event)["a->b"])
    frozen = netloom.run(path, target, freeze="learning", out=tmp_path / "frozen", build_dir=tmp_path / "build")
    np.testing.assert_array_equal(frozen.events("p", "high")["a->b"], found["a->b"])
    with pytest.raises(KeyError):
        result.events("p", "now")
    with pytest.raises(netloom.NetloomError, match="does not record the events `now`"):
        s.projections["p"].events("now")
