"""Time 0 is the end of the warm-up: every reader of the clock behaves the same after it, independent of its length."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.cuda.emit.emit import emit as emit_cuda
from backends.registry import backend
from compiler.core.diagnostics import ModelError, RunError
from compiler.passes.pipeline.lower import lower
from compiler.passes.program.clock import WARMUP
from netloom import run
from tests.numeric.simulated import model_of

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

MODEL = """\
language: 1
name: clock
neurons:
  cell:
    params: {I: 0, J: 0}
    state: {now: 0, current: 0, read: 0, smooth: 0, trial: 0, of_trial: 0, begun: 0, ended: 0, q: 0, given: 0}
    inputs: {g: {}}
    pool: {reduce: {top: max(now)}, state: {at: 0}, update: [at = t / (1 ms) + 0 * top]}
    dynamics: {dq/dt: (t / (1 ms) - q) / (0.5 ms)}
    method: euler
    update:
      - now = t / (1 ms)
      - current = I + 100 * J
      - read = steps(t)
      - smooth = ramp(t)
      - trial = lap.count
      - of_trial = lap.step
      - given = g
    on: {lap.start: [begun = t / (1 ms)], lap.late: [ended = t / (1 ms)]}
synapses:
  seen:
    state: {last: 0, count: 0, arrived: 0}
    on_pre: [last = pre.last_spike / (1 ms), arrived = t / (1 ms), deliver(1)]
    update: [count = lap.count * 100 + lap.step]
    on: {lap.late: [count = -1]}
phases: {lap: {every: 2 ms, events: {start: 0 ms, late: 1.5 ms}}}
timed:
  steps: {values: [1, 2, 3, 4], every: 1.5 ms}
  ramp: {values: [1, 5, 7, 20], every: 2 ms, interpolate: true}
populations:
  a: {neuron: cell, size: 2, params: {J: t / (1 ms)}}
  b: {neuron: cell, size: 1}
  s: {neuron: library/neurons/spike_times, size: 2, params: {times: [GIVEN1 ms, 2 ms, 3.5 ms], indices: [0, 1, 0]}}
projections: {p: {from: s, to: a, connect: {all_to_all: {}}, synapse: seen, deliver: {into: g}, delay: 0.5 ms}}
inputs:
  c: {to: a, current: {into: I, source: library/currents/step, params: {amplitude: 1, start: 2 ms, stop: 4 ms}}}
simulate: {dt: 0.5 ms, duration: DURATION ms, warmup: WARMUP ms, seed: 4}
record:
  - spikes: {from: s}
  - trace: {from: a, variables: [now, current, read, smooth, trial, of_trial, begun, ended, q, given, pool.at]}
  - trace: {from: b, variables: [now, of_trial], at: lap.late}
  - rate: {from: s, every: 1 ms}
  - synapses: {from: p, variables: [last, count, arrived], every: 0.5 ms}
"""


def recorded(folder: Path, warmup: float, target: str, name: str, **options: object) -> dict[str, np.ndarray]:
    """All that a run records, by path."""
    text = MODEL.replace("WARMUP", f"{warmup:g}").replace("DURATION", "6").replace("GIVEN1", "1")
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "m.yaml").write_text(text)
    done = run(place / "m.yaml", out=place / "out", build_dir=folder / "build", target=target, **options)  # type: ignore[arg-type]
    return datasets(Path(done.folder))


def datasets(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.h5")):
        with h5py.File(path) as file:
            file.visititems(
                lambda key, x, name=path.name: (
                    found.update({f"{name}/{key}": x[()]}) if isinstance(x, h5py.Dataset) else None
                )
            )
    return found


@cache
def without(folder: Path, target: str) -> dict[str, np.ndarray]:
    return recorded(folder, 0, target, f"without-{target}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clock")


HISTORY = {"traces.h5/a/ended": 2, "synapses.h5/p/s->a/count": 1}
"""Samples that show what was before time 0: the event of the trial before, the sample at time 0."""


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys() and len(a) > 20
    for key, values in a.items():
        first = HISTORY.get(key, 0)
        assert np.array_equal(values[first:], b[key][first:]), key


@settings(max_examples=6, deadline=None)
@given(steps=st.integers(1, 13), target=st.sampled_from(["cpu", "reference"]))
def test_the_clock_does_not_see_the_warm_up(folder: Path, steps: int, target: str) -> None:
    same(without(folder, target), recorded(folder, 0.5 * steps, target, f"{target}-{steps}"))


def test_the_values(folder: Path) -> None:
    found = without(folder, "cpu")
    t = 0.5 * np.arange(1, 13)
    start = t - 0.5
    expected = {
        "time": t,
        "now": t,
        "current": ((start >= 2) & (start < 4)) + 100 * start,
        "read": 1 + np.minimum(start // 1.5, 3),
        "smooth": np.interp(start, [0, 2, 4, 6], [1, 5, 7, 20]),
        "trial": start // 2,
        "of_trial": (np.arange(12) % 4) + 1,
        "begun": start // 2 * 2,
        "q": start,
    }
    for name, values in expected.items():
        assert np.allclose(found[f"traces.h5/a/{name}"].reshape(12, -1)[:, 0], values), name
    assert np.array_equal(found["spikes.h5/spikes/s/timestamps"], [1, 2, 3.5])
    late = recorded(folder, 3.5, "cpu", "late")
    assert np.array_equal(late["traces.h5/a/ended"][:3, 0], [-0.5, -0.5, 1.5])


def test_given_spikes_of_the_warm_up(folder: Path) -> None:
    """A time below 0 lies in the warm-up; one before its beginning is refused."""
    for time, warmup in ((-1, 1.5), (-1, 1)):
        text = MODEL.replace("WARMUP", f"{warmup}").replace("DURATION", "6").replace("GIVEN1", f"{time}")
        place = folder / f"early-{warmup}"
        place.mkdir()
        (place / "m.yaml").write_text(text)
        if warmup == 1:
            with pytest.raises(ModelError, match="is at -1 ms, before the end of the first step"):
                run(place / "m.yaml", out=place / "out", build_dir=folder / "build")
            continue
        found = datasets(Path(run(place / "m.yaml", out=place / "out", build_dir=folder / "build").folder))
        assert np.array_equal(found["spikes.h5/spikes/s/timestamps"], [2, 3.5])
        last = found["synapses.h5/p/s->a/arrived"]
        assert last.min() == -0.5  # before any other spike


def test_resumed(folder: Path) -> None:
    """Bit for bit, and never with another warm-up."""
    whole = recorded(folder, 2.5, "cpu", "whole")
    recorded(folder, 2.5, "cpu", "first", duration="2 ms")
    first = folder / "first" / "out"
    second = recorded(folder, 2.5, "cpu", "second", resume=first)
    assert whole.keys() == second.keys()
    for key, values in whole.items():
        assert np.array_equal(values, second[key]), key
    with pytest.raises(RunError, match="another model"):
        recorded(folder, 3, "cpu", "other", resume=first)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_warm_up_is_data(tmp_path: Path, target: str) -> None:
    """One text for every warm-up; every kernel that reads the clock has it as a column."""
    texts: list[object] = []
    for warmup in (0, 3.5):
        text = MODEL.replace("WARMUP", f"{warmup:g}").replace("DURATION", "6").replace("GIVEN1", "1")
        merged = lower(model_of(text, tmp_path), backend(target).capabilities, verify=True).merged
        columns = [rows.scalars[WARMUP] for rows in merged.tables if WARMUP in rows.scalars]
        assert len(columns) > 5 and all(set(np.asarray(c).tolist()) == {2 * warmup} for c in columns)
        texts.append(emit_cuda(merged).text if target == "cuda" else [t.digest for t in merged.templates])
    assert texts[0] == texts[1]
