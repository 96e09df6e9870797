"""Reductions over neurons in statements of `on`, against numpy simulations of the same model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numeric.simulated import Array, simulate

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

both = pytest.mark.parametrize("target", ["cpu", "reference"])
SIZE, STEPS, POOLS = 24, 20, 4


def text(cell: str, variables: str, more: str = "", pools: int = POOLS, order: str = "bitwise") -> str:
    return f"""\
language: 1
name: sums
phases: {{trial: {{every: 4 ms, events: {{start: 0 ms, mid: 2 ms, end: 4 ms}}}}}}
neurons:
  cell:
{cell}
populations:
  a: {{neuron: cell, size: {SIZE}, pools: {pools}, init: {{x: {start()}}}}}
simulate: {{dt: 1 ms, duration: {STEPS} ms, seed: 2}}
record: [{{trace: {{from: a, variables: [{variables}], members: all}}}}]
numerics: {{precision: float64, order: {order}}}
{more}"""


def start() -> list[float]:
    return [round(float(x), 3) for x in np.random.default_rng(5).uniform(0.1, 1.0, SIZE)]


def each(x: Array) -> Array:
    """A value per pool, for each of its neurons."""
    return np.repeat(x, SIZE // POOLS)


@both
def test_statements_of_neurons(tmp_path: Path, target: str) -> None:
    """A reduction sees what the statements before it did to all neurons; one that nothing changes waits for nothing, so
    that locals live on."""
    cell = """\
    params: {gain: 0.5}
    let: {twice: 2 * x}
    state: {x: 0, m: 0, v: 0, top: 0, who: 0, low: 0}
    update: [x = x + 0.25]
    on:
      trial.mid:
        - factor = gain + 0.25
        - v = mean_pool((x - mean_pool(x)) ** 2)
        - m = factor * sum_pool(twice)
        - x = x - mean_population(x)
        - top = max_population(x) + min_pool(x)
        - who = argmax_pool(x)
      trial.start: [low = min_pool(x) + 0.125 * trial.count]
"""
    found = simulate(text(cell, "x, m, v, top, who, low"), tmp_path, target)
    x, m, v, top, who, low = np.array(start()), *(np.zeros(SIZE) for _ in range(5))
    for step in range(1, STEPS + 1):
        if step % 4 == 1:
            low = each(x.reshape(POOLS, -1).min(1)) + 0.125 * ((step - 1) // 4)
        x = x + 0.25
        if step % 4 == 2:
            v = each(x.reshape(POOLS, -1).var(1))
            m = 0.75 * each((2 * x).reshape(POOLS, -1).sum(1))
            x = x - x.mean()
            top = x.max() + each(x.reshape(POOLS, -1).min(1))
            who = each(x.reshape(POOLS, -1).argmax(1).astype(float))
        for name, expected in (("x", x), ("m", m), ("v", v), ("top", top), ("who", who), ("low", low)):
            np.testing.assert_allclose(found.traces["a", name][step - 1], expected, rtol=1e-12, atol=1e-12)


@both
def test_statements_of_pools(tmp_path: Path, target: str) -> None:
    """In `on` of a pool, `sum(x)` is over its neurons; a name may be the pool's and the neurons'."""
    cell = """\
    params: {gain: 0.5}
    state: {x: 0, y: 1}
    let: {twice: 2 * x}
    update: [x = x + 0.25]
    population:
      state: {all: 0}
      on: {trial.end: [all = mean(x * y)]}
    pool:
      state: {x: 0, err: 1, who: 0}
      on:
        trial.end:
          - err = err + gain * sum(abs(twice - y))
          - x = max(x - pool.err) + population.all + max(err, 2)
          - who = argmax(x)
"""
    found = simulate(text(cell, "x, pool.x, pool.err, pool.who, population.all"), tmp_path, target)
    x, own, err, who, total = np.array(start()), np.zeros(POOLS), np.ones(POOLS), np.zeros(POOLS), 0.0
    for step in range(1, STEPS + 1):
        x = x + 0.25
        if step % 4 == 0:
            total = float(x.mean())
            err = err + 0.5 * np.abs(2 * x - 1).reshape(POOLS, -1).sum(1)
            own = (x - each(err)).reshape(POOLS, -1).max(1) + total + np.maximum(err, 2)
            who = x.reshape(POOLS, -1).argmax(1).astype(float)
        np.testing.assert_allclose(found.traces["a", "x"][step - 1], x, rtol=1e-12)
        for name, expected in (("x", own), ("err", err), ("who", who)):
            np.testing.assert_allclose(found.traces["a", f"pool.{name}"][step - 1], expected, rtol=1e-12)
        np.testing.assert_allclose(found.traces["a", "population.all"][step - 1], [total], rtol=1e-12)


@both
@pytest.mark.parametrize("order", ["bitwise", "reproducible"])
def test_deliveries_come_before(tmp_path: Path, target: str, order: str) -> None:
    """At a trial's start a reduction reads inputs with what the step before delivered, also where deliveries are
    collected in integers; a population without `pool` is one pool."""
    cell = """\
    state: {x: 0, seen: 0, plain: 0}
    inputs: {g: {decay: 8 ms}}
    spike: {when: x > 0.5, reset: []}
    on:
      trial.start: [seen = sum_pool(g), plain = g]
    population:
      state: {s: 0}
      on: {trial.start: [s = mean(g)]}
"""
    synapses = "connect: {all_to_all: {}}, deliver: {into: g, weight: 0.0625}, delay: 1 ms"
    more = f"projections: {{p: {{from: a, to: a, {synapses}}}}}\n"
    found = simulate(text(cell, "seen, plain, population.s", more, 1, order), tmp_path, target)
    spiking = int((np.array(start()) > 0.5).sum())
    g, seen = 0.0, 0.0
    for step in range(1, STEPS + 1):
        g += 0.0625 * spiking if step > 2 else 0.0  # the spikes of step 1 arrive at the end of step 2
        seen = SIZE * g if step % 4 == 1 else seen
        np.testing.assert_allclose(found.traces["a", "seen"][step - 1], seen, rtol=1e-5)
        np.testing.assert_allclose(found.traces["a", "plain"][step - 1], seen / SIZE, rtol=1e-5)
        np.testing.assert_allclose(found.traces["a", "population.s"][step - 1], seen / SIZE, rtol=1e-5)
        g *= np.exp(-1 / 8)


def test_instances_are_apart(tmp_path: Path) -> None:
    """Pools of one instance see that instance; sums over instances may stand beside them."""
    cell = """\
    state: {x: 0, own: 0, all: 0}
    update: [x = x + self.instance]
    on: {trial.end: [own = mean_population(x), all = own + sum_instances(x) - mean_pool(x)]}
"""
    whole = text(cell, "x, own, all").replace("seed: 2", "seed: 2, instances: 2")
    found = simulate(whole, tmp_path)
    x0, steps = np.array(start()), np.arange(1, STEPS + 1)
    for k in range(2):
        own = np.where(steps >= 4, x0.mean() + k * (steps // 4 * 4), 0.0)
        np.testing.assert_allclose(found.traces[f"a_{k}", "own"][:, 0], own, rtol=1e-12)
