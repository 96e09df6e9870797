"""Recording: drains the buffers of an instance into spikes.h5 and traces.h5.

Assumes: buffers named as compiler/passes/lower_records.py names them.
Guarantees: files grow as the run goes on, nothing of a long run is kept in memory; spikes are sorted by time, then by
id; times count from the end of the warm-up. spikes.h5 has the SONATA layout (/spikes/<population>/timestamps in ms,
/spikes/<population>/node_ids); traces.h5 has /<population>/<variable> (samples, members), /<population>/members and
/<population>/time in ms, with the unit of a variable in its attribute `unit`.
Does not: change what is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import numpy.typing as npt

from backends.protocol import Instance
from compiler.ir.model import Model, RecordTraces
from compiler.ir.program import Merged
from compiler.runner.errors import RunError

SONATA_MAGIC: Final = np.uint32(0x0A7A)
HELD: Final = 1 << 18  # events that are held in memory before they are written
ZERO: Final = np.zeros(1, np.int64)

Pairs = npt.NDArray[np.int32]


def recorded_populations(model: Model) -> tuple[str, ...]:
    """Populations whose spikes are recorded, in the order of the model's `record`, each once."""
    return tuple(dict.fromkeys(p for r in model.spikes for p in r.populations))


def trace_groups(model: Model) -> tuple[tuple[str, RecordTraces], ...]:
    """The group in traces.h5 of each trace recording. The first of a population is called like it; another one
    that samples other members or other times is called `<population>.<number>`."""
    groups: dict[str, RecordTraces] = {}
    result: list[tuple[str, RecordTraces]] = []
    for number, record in enumerate(model.traces):
        name = record.population
        first = groups.setdefault(name, record)
        if (first.members, first.every) != (record.members, record.every):
            name = f"{name}.{number}"
        result.append((name, record))
    return tuple(result)


def sorted_events(pairs: Pairs) -> Pairs:
    """(step, id) pairs by step, then by id; no copy where they are sorted already (as one thread leaves them)."""
    key = (pairs[:, 0].astype(np.int64) << 32) | pairs[:, 1]
    if np.all(key[1:] >= key[:-1]):
        return pairs
    return pairs[np.argsort(key, kind="stable")]


def _extend(dataset: Any, values: npt.NDArray[Any]) -> None:
    used = dataset.shape[0]
    dataset.resize(used + len(values), axis=0)
    dataset[used:] = values


@dataclass
class _Held:
    """Spikes of one population that are not on disk yet."""

    times: Any
    ids: Any
    blocks: list[Pairs] = field(default_factory=list)
    events: int = 0


class SpikeWriter:
    """spikes.h5 of one run; a file that is there is continued. `counts`: spikes of each population in the file."""

    def __init__(self, path: Path, model: Model) -> None:
        assert model.simulate is not None
        self._dt, self._warmup = model.simulate.dt, model.simulate.warmup
        self.counts: dict[str, int] = {}
        self._held: dict[str, _Held] = {}
        self._waiting = 0
        self._file = h5py.File(path, "a")
        self._file.attrs["magic"] = SONATA_MAGIC
        self._file.attrs["version"] = np.array([0, 1], np.uint32)
        for name in recorded_populations(model):
            group = self._file.require_group(f"spikes/{name}")
            group.attrs["sorting"] = "by_time"
            if "timestamps" not in group:
                growing: dict[str, Any] = {"shape": (0,), "maxshape": (None,), "chunks": (8192,)}
                group.create_dataset("timestamps", dtype=np.float64, **growing)
                group["timestamps"].attrs["units"] = "ms"
                group.create_dataset("node_ids", dtype=np.uint64, **growing)
            self._held[name] = _Held(group["timestamps"], group["node_ids"])
            self.counts[name] = group["timestamps"].shape[0]

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Take what the buffers hold and empty them; with keep=False it is dropped (the warm-up)."""
        for name, held in self._held.items():
            buffer = f"{name}.spikes.record"
            used = int(instance.read(f"{buffer}.used")[0])
            if used == 0:
                continue
            if keep:
                pairs = instance.read(buffer)[: 2 * used].reshape(-1, 2).astype(np.int32)
                held.blocks.append(sorted_events(pairs))
                held.events += used
                self.counts[name] += used
                self._waiting += used
            instance.write(f"{buffer}.used", ZERO)
        if self._waiting > HELD:
            self.flush()

    def flush(self) -> None:
        """Put what is held in memory on disk."""
        for held in self._held.values():
            if held.events:
                pairs = np.concatenate(held.blocks)
                steps = pairs[:, 0].astype(np.int64) - self._warmup
                _extend(held.times, steps * self._dt)
                _extend(held.ids, pairs[:, 1].astype(np.uint64))
                held.blocks.clear()
                held.events = 0
        self._waiting = 0
        self._file.flush()

    def close(self) -> None:
        self.flush()
        self._file.close()


class TraceWriter:
    """traces.h5 of one run; a file that is there is continued. `start`: the step before the first one."""

    def __init__(self, path: Path, model: Model, program: Merged, start: int = 0) -> None:
        assert model.simulate is not None
        self._dt, self._warmup = model.simulate.dt, model.simulate.warmup
        self._file = h5py.File(path, "a")
        start = max(start, self._warmup)
        arrays = {a.name: a for a in program.arrays}
        self._buffers: list[tuple[str, int, Any]] = []  # buffer, members, dataset
        self._times: list[tuple[Any, Any, int, int]] = []  # times, values, every, number of row 0
        done: set[str] = set()
        for number, (name, record) in enumerate(trace_groups(model)):
            group = self._file.require_group(name)
            group.attrs["population"] = record.population
            m = len(record.members)
            if "members" in group and tuple(group["members"][:]) != record.members:
                raise RunError("E0909", f"{path.name} has other members of `{name}`", exit_code=2)
            if "members" not in group:
                group.create_dataset("members", data=np.array(record.members, np.uint64))
                times = group.create_dataset("time", (0,), np.float64, maxshape=(None,), chunks=(4096,))
                times.attrs["unit"] = "ms"
            for variable in record.variables:
                array = arrays[f"{record.population}.{variable}.record.{number}"]
                if variable not in group:
                    rows = max(1, min(4096, (1 << 20) // (m * array.dtype.bytes)))
                    data = group.create_dataset(
                        variable, (0, m), array.dtype.numpy, maxshape=(None, m), chunks=(rows, m)
                    )
                    data.attrs["unit"] = array.unit
                self._buffers.append((array.name, m, group[variable]))
            if name not in done:
                done.add(name)
                first = start // record.every + 1 - group["time"].shape[0]
                self._times.append((group["time"], group[record.variables[0]], record.every, first))

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Append what the buffers hold and empty them; with keep=False it is dropped (the warm-up)."""
        for name, m, data in self._buffers:
            used = int(instance.read(f"{name}.used")[0])
            if used and keep:
                _extend(data, instance.read(name)[: used * m].reshape(used, m))
            if used:
                instance.write(f"{name}.used", ZERO)
        for times, data, every, first in self._times:
            have, want = times.shape[0], data.shape[0]
            if want > have:
                steps = (first + np.arange(have, want, dtype=np.int64)) * every
                _extend(times, (steps - self._warmup) * self._dt)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def cut_records(folder: Path, model: Model, step: int) -> None:
    """Drop from the files in `folder` what was recorded after `step` (a copy is being resumed from there)."""
    assert model.simulate is not None
    end = (step - model.simulate.warmup + 0.5) * model.simulate.dt
    if (folder / "spikes.h5").exists():
        with h5py.File(folder / "spikes.h5", "a") as file:
            for group in file["spikes"].values():
                used = int(np.searchsorted(group["timestamps"][:], end))
                for data in group.values():
                    data.resize(used, axis=0)
    if (folder / "traces.h5").exists():
        with h5py.File(folder / "traces.h5", "a") as file:
            for group in file.values():
                used = int(np.searchsorted(group["time"][:], end))
                for name, data in group.items():
                    if name != "members":
                        data.resize(used, axis=0)


def mean_rates(model: Model, counts: Mapping[str, int], steps: int) -> dict[str, float]:
    """Spikes per neuron and second (Hz) over `steps` recorded steps; empty when none ran."""
    assert model.simulate is not None
    seconds = steps * model.simulate.dt / 1000
    sizes = {p.name: p.size for p in model.populations}
    return {n: c / (sizes[n] * seconds) for n, c in counts.items()} if seconds > 0 else {}
