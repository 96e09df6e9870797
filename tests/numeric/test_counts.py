"""poisson(lam) and binomial(n, p) in models: their distributions, and vesicles that are released and refilled.

Assumes: gcc.
Guarantees: the draws of neurons have the distributions of their names (chi-square), whether their arguments are
numbers, parameters or states; a synapse that draws is held against the stationary distribution of its states.
Does not: compare targets (construct `counts`), or draw from philox.h alone (test_philox.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import netloom

pytestmark = pytest.mark.usefixtures("not_optimized", "without_plots")

NEURONS = """
language: 1
neurons:
  cell:
    params: {lam: LAM, n: N, p: P}
    state: {few: 0, many: 0, again: 0}
    update:
      - few = poisson(lam)
      - "many = binomial(n, p)"
      - "again = binomial(many, 0.5)"                # a thinned count is a count of fewer trials
populations: {a: {neuron: cell, size: 4000}}
simulate: {dt: 1 ms, duration: 20 ms, seed: 3}
record: [trace: {from: a, variables: [few, many, again], members: all}]
"""


def _fits(counts: NDArray[Any], law: Any) -> None:
    low, high = (int(v) for v in law.ppf([20 / counts.size, 1 - 20 / counts.size]))
    cells = np.bincount(np.clip(counts, low, high).astype(int) - low, minlength=high - low + 1)
    expected = law.pmf(np.arange(low, high + 1))
    expected[0], expected[-1] = law.cdf(low), law.sf(high - 1)
    assert stats.chisquare(cells, expected / expected.sum() * counts.size).pvalue > 1e-3


@pytest.mark.parametrize(("lam", "n", "p"), [(2.5, 10, 0.3), (40, 300, 0.7)])
def test_counts_of_neurons(lam: float, n: int, p: float, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(NEURONS.replace("LAM", str(lam)).replace("N,", f"{n},").replace("P}", f"{p}}}"))
    result = netloom.run(path, build_dir=tmp_path, out=tmp_path / "out")
    few, many, again = (result.traces("a", x)[1].ravel() for x in ("few", "many", "again"))
    _fits(few, stats.poisson(lam))
    _fits(many, stats.binom(n, p))
    _fits(again, stats.binom(n, p / 2))
    rest = many - again
    assert abs(np.corrcoef(again - many / 2, rest + again)[0, 1]) < 4 / np.sqrt(many.size)


RELEASE = """
language: 1
neurons:
  silent: {state: {v: 0}, inputs: {g: {}}, update: [v = g]}
  train: {spike: {when: beat.step == 1}}
phases: {beat: {every: 10 ms}}
synapses:
  quantal:
    params: {n: 8, p: 0.4, r: 0.3}
    state: {ready: 8}
    on_pre:
      - "ready = ready + binomial(n - ready, r)"
      - "released = binomial(ready, p)"
      - deliver(released)
      - ready = ready - released
populations: {s: {neuron: train, size: 3000}, t: {neuron: silent, size: 3000}}
projections: {q: {from: s, to: t, connect: {one_to_one: {}}, synapse: quantal, deliver: {into: g}}}
simulate: {dt: 1 ms, duration: 401 ms, seed: 8}
record: [trace: {from: t, variables: [v], members: all}]
"""


def test_vesicles(tmp_path: Path) -> None:
    """Places are independent: one is filled before a spike with probability f = r + (1 - r) (1 - p) f."""
    path = tmp_path / "model.yaml"
    path.write_text(RELEASE)
    result = netloom.run(path, build_dir=tmp_path, out=tmp_path / "out")
    v = result.traces("t", "v")[1]
    arrived = v[v.any(axis=1)]
    assert len(arrived) == 40
    n, p, r = 8, 0.4, 0.3
    _fits(arrived[0], stats.binom(n, p))
    _fits(arrived[-1], stats.binom(n, p * r / (1 - (1 - r) * (1 - p))))
