"""Recording at events of phases: the samples are those of a recording of every step, one per trial."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from netloom import run
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

MODEL = """\
language: 1
name: at
neurons:
  cell:
    state: {v: {uniform: {low: 0, high: 1}}, mark: 0}
    inputs: {g: {}}
    pool: {reduce: {top: max(v)}}
    update: [v = v + 0.13 + 0 * g * pool.top]
    spike: {when: v >= 1, reset: [v = 0]}
    on: {trial.start: [mark = mark + 1], trial.minus: [mark = mark + 0.1]}
synapses:
  rule:
    state: {w: 0.5}
    on_pre: [w = w + 0.01, "deliver(w, post.g)"]
    on: {trial.minus: [w = w + 100], trial.start: [w = w + 10000]}
phases: {trial: {every: 10 ms, events: {start: 0 ms, minus: 4 ms, end: 10 ms}}}
populations: {a: {neuron: cell, size: 6, pools: 2}, b: {neuron: cell, size: 6}}
projections: {p: {from: a, to: b, connect: {one_to_one: {}}, synapse: rule}}
simulate: {dt: 1 ms, duration: 33 ms, warmup: WARMUP, seed: 4}
record:
  - trace: {from: a, variables: [v, mark, pool.top], SAMPLE}
  - trace: {from: b, variables: [v, g], SAMPLE, members: [1, 3], between: [5 ms, 28 ms]}
  - rate: {from: [a, b], RATE}
  - synapses: {from: p, variables: [w], SAMPLE}
  - histogram: {from: p, variable: w, range: [0, 1000], bins: 7, SAMPLE}
"""
SETS = ("a/v", "a/mark", "a.pool/top", "b/v", "b/g")


def recorded(folder: Path, sample: str, rate: str, warmup: int, duration: str | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = MODEL.replace("SAMPLE", sample).replace("RATE", rate).replace("WARMUP", f"{warmup} ms")
    (folder / "m.yaml").write_text(text, encoding="utf-8")
    done = run(folder / "m.yaml", out=folder / f"out-{duration}", build_dir=folder / "build", duration=duration)
    return Path(done.folder)


@pytest.mark.parametrize(("event", "warmup"), diagonal(["start", "minus", "end"], [0, 7]))
def test_samples_of_every_trial(tmp_path: Path, event: str, warmup: int) -> None:
    each = recorded(tmp_path / "each", "every: 1 ms", "every: 1 ms", warmup)
    some = recorded(tmp_path / "some", f"at: trial.{event}", f"at: trial.{event}", warmup)
    step = 4 if event == "minus" else 10
    times = np.array([t for t in range(1, 34) if t % 10 == step % 10])
    assert len(times) == 3
    with h5py.File(each / "traces.h5") as a, h5py.File(some / "traces.h5") as b:
        for name in SETS:
            group = name.partition("/")[0]
            wanted = times[(times > 5) & (times <= 28)] if group == "b" else times
            assert np.allclose(b[f"{group}/time"][:], wanted), name
            rows = np.searchsorted(a[f"{group}/time"][:], wanted - 0.5)
            assert np.array_equal(b[name][:], a[name][:][rows]), name
        assert np.ptp(b["a/v"][:]) > 0
    with h5py.File(each / "synapses.h5") as a, h5py.File(some / "synapses.h5") as b:
        at = np.array([0, *times]) if step == 10 else times
        assert np.allclose(b["p/a->b/time"][:], at)
        assert np.array_equal(b["p/a->b/w"][:], a["p/a->b/w"][:][at])
        assert np.array_equal(b["p/a->b/w.histogram"][:], a["p/a->b/w.histogram"][:][at])
    with h5py.File(each / "rates.h5") as a, h5py.File(some / "rates.h5") as b:
        ends = times[times >= 10]
        assert np.allclose(b["a/time"][:], ends)
        means = [a["a/rate"][:][t - 10 : t].mean() for t in ends]
        assert np.allclose(b["a/rate"][:], means) and min(means) > 0


def test_what_happens_at_the_event_is_seen(tmp_path: Path) -> None:
    """A later event: after its own statements; the start: before them, when the last trial has ended."""
    minus, start = (recorded(tmp_path / e, f"at: trial.{e}", f"at: trial.{e}", 0) for e in ("minus", "start"))
    with h5py.File(minus / "traces.h5") as file:
        assert np.allclose(file["a/mark"][:, 0], [1.1, 2.2, 3.3])
    with h5py.File(start / "traces.h5") as file:
        assert np.allclose(file["a/mark"][:, 0], [1.1, 2.2, 3.3])
    with h5py.File(minus / "synapses.h5") as file:
        assert np.array_equal(file["p/a->b/w"][:, 0] // 100, [101, 202, 303])


def test_resumed(tmp_path: Path) -> None:
    """In the middle of a trial; the bin of the rate in which the run was broken is left out."""
    whole = recorded(tmp_path, "at: trial.minus", "at: trial.minus", 7)
    first = recorded(tmp_path, "at: trial.minus", "at: trial.minus", 7, "15 ms")
    second = Path(run(tmp_path / "m.yaml", out=tmp_path / "second", build_dir=tmp_path / "build", resume=first).folder)
    for name in ("traces.h5", "synapses.h5"):
        with h5py.File(whole / name) as a, h5py.File(second / name) as b:
            found: list[str] = []
            a.visititems(lambda key, item, found=found: found.append(key) if isinstance(item, h5py.Dataset) else None)
            assert len(found) > 4
            for key in found:
                assert np.array_equal(a[key][:], b[key][:]), key
    with h5py.File(whole / "rates.h5") as a, h5py.File(second / "rates.h5") as b:
        kept = np.isin(a["a/time"][:], b["a/time"][:])
        assert kept.sum() == len(b["a/time"]) and np.array_equal(a["a/rate"][:][kept], b["a/rate"][:])
