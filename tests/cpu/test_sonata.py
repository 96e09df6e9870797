"""Compatibility of spikes.h5 with the package libsonata, in both directions."""

from __future__ import annotations

from pathlib import Path

import h5py
import libsonata
import numpy as np
import pytest

from compiler.core.diagnostics import ModelError
from compiler.runtime.record.growing import SORTING
from netloom import run

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

MODEL = """\
language: 1
name: sonata
populations: {p: {neuron: library/neurons/spike_times, size: 6, params: {GIVEN}}}
simulate: {dt: 0.1 ms, duration: 60 ms}
record: [{spikes: {from: p}}]
"""
TIMES, IDS = np.array([0.1, 12.3, 12.3, 45.6]), np.array([3, 0, 5, 3], np.uint64)


def played(folder: Path, given: str, name: str = "m") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yaml").write_text(MODEL.replace("GIVEN", given))
    done = run(folder / f"{name}.yaml", out=folder / f"out-{name}", build_dir=folder / "build")
    return Path(done.folder) / "spikes.h5"


def read(path: Path) -> tuple[np.ndarray, np.ndarray, libsonata.SpikePopulation]:
    population = libsonata.SpikeReader(str(path))["p"]
    found = population.get_dict()
    return np.asarray(found["timestamps"]), np.asarray(found["node_ids"]), population


def given(path: Path) -> str:
    return f"file: {path}, times: spikes/p/timestamps, indices: spikes/p/node_ids"


def test_libsonata_reads_what_a_run_writes(tmp_path: Path) -> None:
    listed = f"times: {[f'{t} ms' for t in TIMES.tolist()]}, indices: {IDS.tolist()}".replace("'", "")
    path = played(tmp_path, listed)
    times, ids, population = read(path)
    assert np.allclose(times, TIMES)
    assert np.array_equal(ids, IDS)
    assert population.sorting == "by_time"
    assert population.time_units == "ms"
    assert population.get(libsonata.Selection([5]))[0][0] == 5
    again = played(tmp_path, given(path), "again")
    assert np.allclose(read(again)[0], TIMES) and np.array_equal(read(again)[1], IDS)


@pytest.mark.parametrize(("units", "factor"), [("ms", 1.0), ("s", 1000.0), (None, 1.0), ("us", 0.001), (b"s", 1000.0)])
def test_units_of_imported_times(tmp_path: Path, units: str | bytes | None, factor: float) -> None:
    path = tmp_path / "spikes.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("spikes/p")
        group.attrs.create("sorting", SORTING["by_time"], dtype=h5py.enum_dtype(SORTING, basetype="u1"))
        group["timestamps"], group["node_ids"] = TIMES / factor, IDS
        if units is not None:
            group["timestamps"].attrs["units"] = np.bytes_(units) if isinstance(units, bytes) else units
    if units in ("ms", "s"):
        assert read(path)[2].time_units == units
    times, ids, _ = read(played(tmp_path, given(path)))
    assert np.allclose(times, TIMES)
    assert np.array_equal(ids, IDS)
    each = "times: {FILE, array: spikes/p/timestamps}, indices: {FILE, array: spikes/p/node_ids}"
    times, _, _ = read(played(tmp_path, each.replace("FILE", f"file: {path}"), "each"))
    assert np.allclose(times, TIMES)


def test_another_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spikes.h5"
    with h5py.File(path, "w") as file:
        file["spikes/p/timestamps"], file["spikes/p/node_ids"] = TIMES, IDS
        file["spikes/p/timestamps"].attrs["units"] = "mV"
    with pytest.raises(ModelError, match="`mV`, which is not a unit of time"):
        played(tmp_path, given(path))
