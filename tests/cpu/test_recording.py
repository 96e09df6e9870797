"""Recording of rates, synapses, histograms and subsets: the files of a run against their expected contents."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from netloom import run

pytestmark = pytest.mark.usefixtures("not_optimized")

MODEL = """
language: 1
name: recorded
neurons:
  lif: {state: {v: 0}, inputs: {i: {}}, dynamics: {dv/dt: (1.5 - v) / (10 ms)}, update: [v = v + i],
        spike: {when: v > 1, reset: [v = 0]}}
populations:
  a: {neuron: lif, size: 6, init: {v: {uniform: {low: 0, high: 1}}}}
  b: {neuron: lif, size: 4}
projections:
  drawn: {from: a, to: b, connect: {fixed_probability: {p: 0.6}},
          deliver: {into: i, weight: {normal: {mean: 0.1, std: 0.02}}},
          delay: {uniform: {low: 0.2 ms, high: 2 ms, round: nearest}}}
  given: {from: a, to: b, connect: {pairs: {list: [[5, 0], [0, 3], [2, 1]]}},
          deliver: {into: i, weight: [0.3, 0.1, 0.2]}}
  same: {from: b, to: b, connect: {all_to_all: {autapses: false}}, deliver: {into: i, weight: -0.05}}
simulate: {dt: 0.1 ms, duration: 100 ms, warmup: 5 ms, seed: 3}
record:
  - spikes: {from: a}
  - spikes: {from: b, members: [1, 3], between: [20 ms, 60 ms]}
  - rate: {from: [a, b], every: 10 ms}
  - trace: {from: b, variables: [v], members: 0..1, every: 0.5 ms, between: [10 ms, 20 ms]}
  - synapses: {from: drawn, variables: [weight, delay]}
  - synapses: {from: given, variables: [weight], every: 40 ms}
  - synapses: {from: same, variables: [weight]}
  - histogram: {from: drawn, variable: weight, range: [0, 0.2], bins: 8, every: 50 ms}
plots:
  - rate: {from: [a, b]}
  - histogram: {from: drawn, variable: weight}
  - matrix: {from: drawn, variable: weight}
  - evolution: {from: given, variable: weight}
"""
EVERYTHING = """
record: [{spikes: {from: [a, b]}}, {trace: {from: b, variables: [v]}}]
"""


def ran(text: str, folder: Path, target: str = "cpu") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "m.yaml"
    path.write_text(text)
    result = run(path, target=target, runs_dir=folder / "runs", build_dir=folder / "build")
    return Path(result.folder)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_what_is_recorded(tmp_path: Path, target: str) -> None:
    here = ran(MODEL, tmp_path / "some", target)
    whole = ran(MODEL[: MODEL.index("record:")] + EVERYTHING, tmp_path / "all", target)
    with h5py.File(whole / "spikes.h5") as file:
        all_spikes = {n: (file[f"spikes/{n}/timestamps"][:], file[f"spikes/{n}/node_ids"][:]) for n in "ab"}
    with h5py.File(here / "spikes.h5") as file:
        assert np.array_equal(file["spikes/a/timestamps"][:], all_spikes["a"][0])
        times, ids = all_spikes["b"]
        kept = np.isin(ids, [1, 3]) & (times > 20 + 1e-9) & (times < 60 + 1e-9)
        assert 0 < kept.sum() < len(times)
        assert np.array_equal(file["spikes/b/timestamps"][:], times[kept])
        assert np.array_equal(file["spikes/b/node_ids"][:], ids[kept])
    with h5py.File(here / "rates.h5") as file:
        for name, size in (("a", 6), ("b", 4)):
            counts, _ = np.histogram(all_spikes[name][0] - 0.05, np.arange(0, 101, 10))
            assert np.allclose(file[name]["rate"][:], counts * 1000 / (size * 10))
            assert np.allclose(file[name]["time"][:], np.arange(10, 101, 10))
            assert counts.sum() > 0
    with h5py.File(here / "traces.h5") as file, h5py.File(whole / "traces.h5") as other:
        times = other["b/time"][:]
        rows = np.isin(np.rint(times * 10), np.rint(file["b/time"][:] * 10))
        assert np.allclose(file["b/time"][:], np.arange(10.5, 20.1, 0.5))
        assert np.array_equal(file["b/v"][:], other["b/v"][:][rows][:, :2])
    with h5py.File(here / "synapses.h5") as file:
        given = file["given/a->b"]
        assert given["source"][:].tolist() == [5, 0, 2]
        assert given["target"][:].tolist() == [0, 3, 1]
        assert np.allclose(given["weight"][:], [[0.3, 0.1, 0.2]] * 3)
        assert np.allclose(given["time"][:], [0, 40, 80])
        same = file["same/b->b"]
        pairs = set(zip(same["source"][:].tolist(), same["target"][:].tolist(), strict=True))
        assert pairs == {(i, j) for i in range(4) for j in range(4) if i != j}
        assert np.allclose(same["weight"][:], -0.05)
        assert np.allclose(same["time"][:], [100])
        drawn = file["drawn/a->b"]
        count = len(drawn["source"])
        assert 0 < count < 24
        assert drawn["weight"].shape == drawn["delay"].shape == (1, count)
        delays = drawn["delay"][0] / 0.1
        assert np.allclose(delays, np.rint(delays))
        assert delays.min() >= 2
        assert delays.max() <= 20
        assert drawn["delay"].attrs["unit"] == "ms"
        bars, _ = np.histogram(drawn["weight"][0], np.linspace(0, 0.2, 9))
        assert drawn["weight.histogram"][:].tolist() == [bars.tolist()] * 3
        assert bars.sum() > 0
        assert np.allclose(drawn["weight.histogram.time"][:], [0, 50, 100])
    for name in ("rate", "histogram", "matrix", "evolution"):
        assert (here / "plots" / f"{name}.png").stat().st_size > 5000


def test_a_resumed_run_has_the_records_of_an_unbroken_one(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(MODEL)
    folders = {"runs_dir": tmp_path / "runs", "build_dir": tmp_path / "build"}
    whole = Path(run(tmp_path / "m.yaml", **folders).folder)
    first = Path(run(tmp_path / "m.yaml", duration="45 ms", **folders).folder)
    second = Path(run(tmp_path / "m.yaml", resume=first, **folders).folder)
    for name in ("rates.h5", "synapses.h5", "traces.h5", "spikes.h5"):
        with h5py.File(whole / name) as a, h5py.File(second / name) as b:
            found: list[str] = []
            a.visititems(lambda key, item, found=found: found.append(key) if isinstance(item, h5py.Dataset) else None)
            assert found
            for key in found:
                assert np.array_equal(a[key][:], b[key][:]), (name, key)


@pytest.mark.parametrize("kind", ["h5", "csv"])
def test_recorded_spikes_are_played_again(tmp_path: Path, kind: str) -> None:
    """A run's own spikes.h5 (SONATA), or a .csv with a line of names, as the spikes of a population."""
    first = ran(MODEL[: MODEL.index("record:")] + EVERYTHING, tmp_path / "first")
    with h5py.File(first / "spikes.h5") as file:
        times, ids = file["spikes/a/timestamps"][:], file["spikes/a/node_ids"][:]
    given = f"file: {first / 'spikes.h5'}, times: spikes/a/timestamps, indices: spikes/a/node_ids"
    if kind == "csv":
        rows = [f"{t:.1f},{i}" for t, i in zip(times, ids, strict=True)]
        (tmp_path / "spikes.csv").write_text("\n".join(["t,id", *rows]) + "\n")
        given = f"file: {tmp_path / 'spikes.csv'}, times: t, indices: id"
    again = ran(
        "language: 1\n"
        f"populations: {{played: {{neuron: spike_times, size: 6, params: {{{given}}}}}}}\n"
        "simulate: {dt: 0.1 ms, duration: 100 ms}\n"
        "record: [{spikes: {from: played}}]\n",
        tmp_path / "again",
    )
    with h5py.File(again / "spikes.h5") as file:
        assert np.allclose(file["spikes/played/timestamps"][:], times)
        assert np.array_equal(file["spikes/played/node_ids"][:], ids)
    assert len(times) > 20
