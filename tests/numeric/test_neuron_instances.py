"""Sums over instances in events of neurons, and states that all instances share, against values computed by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import netloom
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

COPIES = 3
TEXT = """language: 1
name: copies
phases: {trial: {every: 5 ms, events: {start: 0 ms, minus: 2 ms, plus: 5 ms}}}
functions: {twice(a): 2 * a}
neurons:
  unit:
    params: {gain: 0.5}
    state: {x: 0, total: 0, top: 0, low: 0, seen: 0, held: 10}
    pool: {reduce: {x_mean: mean(x)}}
    shared: [held]
    update: [x = x + (self.i + 1) * (1 + self.instance)]
    on:
      trial.minus:
        - x = x + 100                          # not seen by the sums below
        - total = sum_instances(twice(x) * self.i)
        - seen = mean_instances(x - pool.x_mean)
        - share = gain * mean_instances(x)
        - held = held + share
      trial.plus: [top = max_instances(x), low = min_instances(x + t / (1 ms))]
populations:
  a: {neuron: unit, size: 4, pools: 2}
simulate: {dt: 1 ms, duration: 5 ms, seed: 1, instances: COPIES}
numerics: {precision: float64}
"""


def simulation(folder: Path, text: str, target: str) -> netloom.Simulation:
    path = folder / "m.yaml"
    path.write_text(text, encoding="utf-8")
    return netloom.load(path).simulation(target=target)


@pytest.mark.parametrize(("copies", "target"), diagonal([1, COPIES, 13], ["cpu", "reference"]))
def test_sums_are_of_the_step_before(tmp_path: Path, copies: int, target: str) -> None:
    s = simulation(tmp_path, TEXT.replace("COPIES", str(copies)), target)
    s.run("5 ms")
    k, i = np.arange(copies)[:, None], np.arange(4)
    one = (i + 1) * (1 + k)  # what x grows by in a step, [instances, neurons]
    pools = one.reshape(copies, 2, 2).mean(axis=2).repeat(2, axis=1)
    late = 4 * one + 100  # x after four steps, the event of the second one included
    for copy in range(copies):
        a = s[f"a_{copy}" if copies > 1 else "a"]
        np.testing.assert_allclose(a.total, (2 * one * i).sum(axis=0))
        np.testing.assert_allclose(a.seen, (one - pools).mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(a.held, 10 + 0.5 * one.mean(axis=0))
        np.testing.assert_allclose(a.top, late.max(axis=0))
        np.testing.assert_allclose(a.low, late.min(axis=0) + 5)
        np.testing.assert_allclose(a.x, late[copy] + one[copy])


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_shared_states_are_drawn_once(tmp_path: Path, target: str) -> None:
    drawn = TEXT.replace("held: 10", "held: {permutation: {low: 1, high: 4}}").replace(
        "x: 0", "x: {normal: {mean: 0, std: 1}}"
    )
    s = simulation(tmp_path, drawn.replace("COPIES", str(COPIES)), target)
    s.run("1 ms")
    held = [np.asarray(s[f"a_{k}"].held) for k in range(COPIES)]
    assert sorted(held[0]) == pytest.approx([1, 2, 3, 4])
    assert list(held[0]) != sorted(held[0])
    s.run("30 ms")
    held = [np.asarray(s[f"a_{k}"].held) for k in range(COPIES)]
    states = [np.asarray(s[f"a_{k}"].x) for k in range(COPIES)]
    for (one, other), (x, y) in zip(pairwise(held), pairwise(states), strict=True):
        assert one.tobytes() == other.tobytes()
        assert (x != y).all()


def test_pieces_are_one_run(tmp_path: Path) -> None:
    whole = simulation(tmp_path, TEXT.replace("COPIES", "2"), "cpu")
    whole.run("12 ms")
    parts = simulation(tmp_path, TEXT.replace("COPIES", "2"), "cpu")
    for _ in range(12):
        parts.run("1 ms")
    for name in ("held", "total", "seen", "x"):
        assert np.asarray(whole["a_1"][name]).tobytes() == np.asarray(parts["a_1"][name]).tobytes(), name
