"""Synapses that read pools and other populations, against NumPy step by step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.numeric.simulated import simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

TEXT = """language: 1
name: modulated
neurons:
  cell:
    state: {k: self.i, x: 0}
    inputs: {g: {}}
    pool: {reduce: {m: mean(x)}}
    update: [k = k + 1 + 0 * pool.m, x = 0.9 * x + 0.1 * self.i + g]
    spike: {when: k > 2.5, reset: [k = 0]}
  chief: {state: {level: 1}, others: {below: {pool.m: 1}}, update: [level = level + 0.1 * (below.pool.m + 1)]}
synapses:
  three:
    others: {dopamine: {level: 1}, crowd: {pool.m: 1}}
    params: {rate: 0.1}
    state: {w: 0.1, n: 0}
    pre: {state: {tr: 0}, update: [tr = 0.8 * tr], on_spike: [tr = tr + 1]}
    let: {gain: dopamine.level * rate}
    on_pre: ["deliver(0.01 * w)", w = w + gain * post.pool.m]
    on_post: [w = w - gain * pre.tr + 0.01 * crowd.pool.m]
    update: [n = n + dopamine.level + pre.pool.m]
    events: {high: {of: post, when: post.x > post.pool.m + 0.1 * dopamine.level, do: [n = n + 100]}}
populations:
  b: {neuron: cell, size: 8, POOLS}
  a: {neuron: cell, size: 6}
  c: {neuron: cell, size: 3}
  da: {neuron: chief, size: 1, others: {below: c}}
projections:
  p:
    from: a
    to: b
    connect: {all_to_all: {storage: STORAGE}}
    synapse: three
    deliver: {into: g}
    delay: 2 ms
    others: {dopamine: da, crowd: c}
simulate: {dt: 1 ms, duration: 20 msMORE}
numerics: {precision: float64}
"""


def expected(steps: int, pools: int) -> tuple[np.ndarray, np.ndarray]:
    """w and n, (sources, targets)."""
    size = {"a": 6, "b": 8, "c": 3}
    parts = {"a": 1, "b": pools, "c": 1}
    k = {p: np.arange(float(n)) for p, n in size.items()}
    x = {p: np.zeros(n) for p, n in size.items()}
    g, tr, level = np.zeros(8), np.zeros(6), 1.0
    w, n = np.full((6, 8), 0.1), np.zeros((6, 8))
    spiked: list[np.ndarray] = []
    for _ in range(steps):
        m: dict[str, np.ndarray] = {}
        spikes: dict[str, np.ndarray] = {}
        for p in size:
            m[p] = np.repeat(x[p].reshape(parts[p], -1).mean(1), size[p] // parts[p])
            x[p] = 0.9 * x[p] + 0.1 * np.arange(size[p]) + (g if p == "b" else 0)
            spikes[p] = k[p] + 1 > 2.5
            k[p] = np.where(spikes[p], 0, k[p] + 1)
        level += 0.1 * (m["c"][0] + 1)
        g = np.zeros(8)
        tr *= 0.8
        n += level + m["a"][:, None]
        spiked.append(spikes["a"])
        arrived = spiked[-3] if len(spiked) > 2 else np.zeros(6, bool)
        g += (0.01 * w * arrived[:, None]).sum(0)
        w += np.where(arrived[:, None], level * 0.1 * m["b"], 0)
        tr += arrived
        w += np.where(spikes["b"], 0.01 * m["c"][0] - level * 0.1 * tr[:, None], 0)
        n += np.where(x["b"] > m["b"] + 0.1 * level, 100, 0)
    return w, n


def text(pools: str = "pools: 1", storage: str = "auto", more: str = "") -> str:
    return TEXT.replace("POOLS", pools).replace("STORAGE", storage).replace("MORE", more)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(("pools", "storage"), [(1, "dense"), (2, "sparse")])
def test_pools_and_globals(target: str, pools: int, storage: str, tmp_path: Path) -> None:
    r = simulate(text(f"pools: {pools}", storage), tmp_path, target)
    w, n = expected(20, pools)
    np.testing.assert_allclose(r.instance.read("p[a->b].w").reshape(6, 8), w, rtol=1e-12)
    np.testing.assert_allclose(r.instance.read("p[a->b].n").reshape(6, 8), n, rtol=1e-12)


def test_copies_read_their_own() -> None:
    s = netloom.load(text(more=", instances: 2")).simulation()
    s.run("9 ms")
    s.run("11 ms")
    w, _ = expected(20, 1)
    for copy in range(2):
        np.testing.assert_allclose(s.projections[f"p[a_{copy}->b_{copy}]"].w.reshape(6, 8), w, rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("dopamine: da, crowd: c", "dopamine: da", "E0103"),
        ("dopamine: da, crowd", "dopamine: a, crowd", "E0201"),
        ("dopamine: da, crowd: c", "dopamine: da, crowd: b", "E0604"),
        ("crowd: {pool.m: 1}", "crowd: {x: 1}, more: {pool.m: 1}", "E0302"),
        ("dopamine.level * rate", "dopamine.leve * rate", "E0302"),
        ("gain * post.pool.m]", "gain * post.pool.q]", "E0302"),
        ("gain * post.pool.m]", "gain * delayed(post.pool.m)]", "E0315"),
        ("dopamine: {level: 1}, crowd", "pre: {level: 1}, crowd", "E0107"),
    ],
)
def test_mistakes(old: str, new: str, code: str) -> None:
    whole = text("pools: 2")
    assert old in whole
    assert code in [d.code for d in netloom.load(whole.replace(old, new)).check()]


MOVING = """language: 1
name: moving
params: {tau_r: {value: 5 ms}, on: {value: true, type: bool}}
neurons:
  unit: {state: {k: 0}, update: [k = k + 1], spike: {when: k > 1.5, reset: [k = 0]}}
synapses:
  s:
    params: {rate: 0.1, other: 1, drop: 0.5}
    state: {w: 0, v: 0, c: 1}
    pre: {state: {y: 0}, on_spike: [y = y + rate]}
    let: {both: rate * other}
    dynamics: {dc/dt: -c / (10 ms)}
    update: [w = w + both]
    on_post: [v = v + pre.y]
    events: {late: {of: post, when: rate > 0.5, do: [v = v + 100]}}
populations: {a: {neuron: unit, size: 3}}
phases: {trial: {every: 3 ms}}
projections:
  p: {from: a, to: a, connect: {one_to_one: {}}, synapse: s, params: {rate: exp(-t / tau_r)}}
  q: {from: a, to: a, connect: {one_to_one: {}}, synapse: s, params: {rate: 0.3 / (1 + trial.count), other: 2}}
  r: {from: a, to: a, connect: {one_to_one: {}}, synapse: s, params: {rate: "0.1 if on and t < 3.5 ms else 0.2"}}
simulate: {dt: 1 ms, duration: 7 ms}
numerics: {precision: float64}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_parameters_that_change(target: str) -> None:
    """An expression of the time, or of trials, in place of a number: wherever the synapse reads the parameter."""
    s = netloom.load(MOVING).simulation(target=target)
    s.run("4 ms")
    s.run("3 ms")
    k = np.arange(1, 8)
    rates = {"p": np.exp(-k / 5), "q": 0.3 / (1 + (k - 1) // 3), "r": np.where(k < 3.5, 0.1, 0.2)}
    for name, rate in rates.items():
        other = 2 if name == "q" else 1
        np.testing.assert_allclose(s.projections[name].w, np.full(3, (rate * other).sum()), rtol=1e-12)
        spikes = k % 2 == 0
        v = np.cumsum(rate * spikes)[spikes].sum() + 100 * (rate > 0.5).sum()
        np.testing.assert_allclose(s.projections[name].v, np.full(3, v), rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("exp(-t / tau_r)", "exp(-t)", "E0401"),
        ("exp(-t / tau_r)", "t", "E0401"),
        ("exp(-t / tau_r)", "other * t / tau_r", "E0302"),
        ("other: 1, drop: 0.5", "other: 2 * rate, drop: 0.5", "E0802"),
        ("state: {w: 0,", "state: {w: rate,", "E0802"),
        ("-c / (10 ms)", "-c * rate / (10 ms)}\n    event_driven: true\n    on_pre: [c = c + 1", "E0802"),
    ],
)
def test_mistakes_of_parameters_that_change(old: str, new: str, code: str) -> None:
    assert old in MOVING
    text = MOVING.replace(old, new).replace("c = c + 1}", "c = c + 1]")
    assert code in [d.code for d in netloom.load(text).check()]
