"""Timed arrays with a row for each trial of a phase, in order or shuffled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import netloom

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

TEXT = """language: 1
name: trials
phases: {trial: {every: 3 ms, events: {start: 0 ms, end: 3 ms}}}
timed:
  shown: {values: {file: data.npz, array: shown}, each: trialORDER}
  wanted: {values: {file: data.npz, array: wanted}, each: trialORDER}
  single: {values: [10, 20, 30], each: trial}
neurons:
  unit:
    state: {seen: 0, wish: 0, one: 0}
    update: ["seen = shown(t, i)", "one = single(t)"]
    on: {trial.end: ["wish = wanted(t)"]}
    spike: {when: seen > 1000}
populations: {p: {neuron: unit, size: 2}}
simulate: {dt: 1 ms, duration: 90 ms, seed: 4EXTRA}
record: [{spikes: {from: p}}]
numerics: {precision: float64}
"""
ROWS = 7


def loaded(folder: Path, order: str = "", extra: str = "") -> Any:
    np.savez(folder / "data.npz", shown=np.arange(ROWS * 2.0).reshape(ROWS, 2), wanted=100 + np.arange(float(ROWS)))
    (folder / "m.yaml").write_text(TEXT.replace("ORDER", order).replace("EXTRA", extra), encoding="utf-8")
    return netloom.load(folder / "m.yaml")


def rows(s: Any, trials: int, population: str = "p") -> npt.NDArray[np.int64]:
    """The row of each trial; everything in a trial is of one row."""
    found = []
    for _ in range(trials):
        for _ in range(3):
            s.run("1 ms")
            assert s[population].seen[1] == s[population].seen[0] + 1
            found.append(int(s[population].seen[0]) // 2)
        assert set(found[-3:]) == {found[-1]}
        assert s[population].wish.tolist() == [100 + found[-1]] * 2
    return np.array(found[::3])


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_in_order(target: str, tmp_path: Path) -> None:
    s = loaded(tmp_path).simulation(target=target)
    assert rows(s, 16).tolist() == [k % ROWS for k in range(16)]
    assert s["p"].one.tolist() == [10, 10]


def test_shuffled(tmp_path: Path) -> None:
    """Every pass shows each row once, in another order, the same on both targets and by pieces; by seed."""
    model = loaded(tmp_path, ", order: shuffled")
    found = {target: rows(model.simulation(target=target), 28) for target in ("cpu", "reference")}
    passes = found["cpu"].reshape(4, ROWS)
    assert all(sorted(p) == list(range(ROWS)) for p in passes.tolist())
    assert len({tuple(p) for p in passes.tolist()}) == 4
    np.testing.assert_array_equal(found["cpu"], found["reference"])
    assert rows(model.simulation(seed=5), 28).tolist() != found["cpu"].tolist()
    s = model.simulation()
    s.run("7 ms")
    kept = s.checkpoint()
    s.run("20 ms")
    seen = s["p"].seen[0]
    s.restore(kept)
    s.run("20 ms")
    assert s["p"].seen[0] == seen == 2 * found["cpu"][8]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_instances(target: str, tmp_path: Path) -> None:
    """Each instance has an order of its own."""
    s = loaded(tmp_path, ", order: shuffled", ", instances: 2").simulation(target=target)
    both = []
    for _ in range(7):
        s.run("3 ms")
        both.append([int(s[f"p_{k}"].seen[0]) // 2 for k in range(2)])
    first, second = zip(*both, strict=True)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert first != second


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_dealt(target: str, tmp_path: Path) -> None:
    """Instances take the rows of one shuffled pass in turn; one instance alone has them as if they were shuffled."""
    alone = loaded(tmp_path, ", order: shuffled").simulation(target=target)
    order = [int(x) for x in rows(alone, 3 * ROWS)]
    s = loaded(tmp_path, ", order: dealt", ", instances: 3").simulation(target=target)
    dealt = []
    for _ in range(ROWS):
        s.run("3 ms")
        dealt += [int(s[f"p_{k}"].seen[0]) // 2 for k in range(3)]
    assert dealt == order
    assert rows(loaded(tmp_path, ", order: dealt").simulation(target=target), ROWS).tolist() == order[:ROWS]


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("warmup", [3, 4, 25])
def test_warm_up(warmup: int, target: str, tmp_path: Path) -> None:
    """The order after time 0 is that of a run without warm-up, whichever part of a trial came before."""
    whole = rows(loaded(tmp_path, ", order: shuffled").simulation(), 9)
    s = loaded(tmp_path, ", order: shuffled", f", warmup: {warmup} ms").simulation(target=target)
    assert rows(s, 9).tolist() == whole.tolist()
