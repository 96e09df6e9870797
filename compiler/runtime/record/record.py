"""Recording: drains the buffers of an instance into spikes.h5, events.h5 and traces.h5.

Assumes: buffers named as compiler/passes/cells/lower_records.py names them; the traces of one population have one list
of members and one interval (checked by the frontend).
Guarantees: files grow as the run goes on, nothing of a long run is kept in memory; spikes are sorted by time, then by
id; times count from the end of the warm-up. spikes.h5 has the SONATA layout (/spikes/<population>/timestamps in ms,
/spikes/<population>/node_ids), events.h5 the same with events of synapses (/spikes/<projection>[a->b].<event>);
traces.h5 has /<population>/<variable> (samples, members), /<population>/members and
/<population>/time in ms, with the unit of a variable in its attribute `unit`; variables of pools are in a group
/<population>.pool (or .population), whose members are the pools.
Does not: change what is simulated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.core.diagnostics import RunError
from compiler.ir.level2.synapse_values import recorded_events
from compiler.ir.space import array_name, own_array
from compiler.runtime.record.growing import Growing, RecordFile, growing, label_sorting, publish, require

SONATA_MAGIC: Final = np.uint32(0x0A7A)
HELD: Final = 1 << 18  # events that are held in memory before they are written
ZERO: Final = np.zeros(1, np.int64)

Pairs = npt.NDArray[np.int32]


def recorded_populations(model: l0.Model) -> tuple[str, ...]:
    """Populations whose spikes are recorded, in the order of the model's `record`, each once."""
    return tuple(dict.fromkeys(p for r in model.spikes for p in r.populations))


@dataclass(frozen=True)
class Listed:
    """Events that are recorded: of a population (its spikes, or events with conditions), or of synapses. `size`: of the
    neurons that have them; `members`: those that are kept (empty: all); `between`: steps after the warm-up."""

    name: str
    size: int
    members: tuple[int, ...]
    between: tuple[int, int] | None


def recorded_spikes(model: l0.Model) -> tuple[Listed, ...]:
    """The populations whose spikes are recorded."""
    sizes = {p.name: p.size for p in model.populations}
    found = {}
    for name in recorded_populations(model):
        record = next(r for r in model.spikes if name in r.populations)
        found[name] = Listed(name, sizes[name], record.members, record.between)
    return tuple(found.values())


def events_with_conditions(model: l0.Model) -> tuple[Listed, ...]:
    """The events of synapses that are recorded, `plastic[exc->inh].release`, and those of neurons, `exc.gate`."""
    sizes = {p.name: p.size for p in model.populations}
    found = ((r, *event) for r in model.events for event in recorded_events(model, r))
    return tuple(Listed(name, sizes[population], (), r.between) for r, name, population in found)


def sorted_events(pairs: Pairs) -> Pairs:
    """(step, id) pairs by step, then by id; no copy where they are sorted already (as one thread leaves them)."""
    key = (pairs[:, 0].astype(np.int64) << 32) | pairs[:, 1]
    if np.all(key[1:] >= key[:-1]):
        return pairs
    return pairs[np.argsort(key, kind="stable")]


@dataclass
class _SpikeBuffer:
    """Spikes of one population, or events of synapses: their datasets, the neurons and steps that are `wanted`, and the
    events not yet written."""

    times: Growing
    ids: Growing
    wanted: npt.NDArray[np.bool_] | None
    between: tuple[int, int] | None
    blocks: list[Pairs] = field(default_factory=list)
    events: int = 0


def _kept(pairs: Pairs, held: _SpikeBuffer) -> Pairs:
    """The (step, id) pairs that the model wants."""
    if held.wanted is not None:
        pairs = pairs[held.wanted[pairs[:, 1]]]
    if held.between is not None:
        pairs = pairs[(pairs[:, 0] > held.between[0]) & (pairs[:, 0] <= held.between[1])]
    return pairs


class SpikeWriter(RecordFile):
    """spikes.h5, or events.h5, of one run; a file that is there is continued. `counts`: events of each name in the
    file."""

    def __init__(self, path: Path, model: l0.Model, lists: tuple[Listed, ...]) -> None:
        assert model.simulate is not None
        self._dt, self._warmup = model.simulate.dt, model.simulate.warmup
        self.counts: dict[str, int] = {}
        self._held: dict[str, _SpikeBuffer] = {}
        self._waiting = 0
        super().__init__(path)
        self._file.attrs["magic"] = SONATA_MAGIC
        self._file.attrs["version"] = np.array([0, 1], np.uint32)
        root = self._file.require_group("spikes")
        for listed in lists:
            name, between = listed.name, listed.between
            group = root.require_group(name)
            label_sorting(group, "by_time")
            chunk = 8192 if listed.size >= 256 else 256
            times = growing(group, "timestamps", "float64", (), chunk, {"units": "ms"})
            wanted: npt.NDArray[np.bool_] | None = None
            if listed.members:
                wanted = np.zeros(listed.size, np.bool_)
                wanted[list(listed.members)] = True
            if between is not None:
                between = between[0] + self._warmup, between[1] + self._warmup
            ids = growing(group, "node_ids", "uint64", (), chunk, {})
            self._held[name] = _SpikeBuffer(times, ids, wanted, between)
            self.counts[name] = times.rows
        publish(self._file)

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Take the contents of the buffers and empty them; with keep=False they are dropped (the warm-up)."""
        for name, held in self._held.items():
            buffer = own_array(own_array(name, "spikes"), "record")
            used = int(instance.read(own_array(buffer, "used"))[0])
            if used == 0:
                continue
            if keep:
                pairs = _kept(instance.read(buffer)[: 2 * used].reshape(-1, 2).astype(np.int32), held)
                held.blocks.append(sorted_events(pairs))
                held.events += len(pairs)
                self.counts[name] += len(pairs)
                self._waiting += len(pairs)
            instance.write(own_array(buffer, "used"), ZERO)
        if self._waiting > HELD:
            self._append()

    def _append(self) -> None:
        """Write the events in memory to the file: all, or none."""
        require(self._file.id, 16 * self._waiting)
        for held in self._held.values():
            if held.events:
                pairs = np.concatenate(held.blocks)
                held.times.append((pairs[:, 0].astype(np.int64) - self._warmup) * self._dt)
                held.ids.append(pairs[:, 1].astype(np.uint64))
                held.blocks.clear()
                held.events = 0
        self._waiting = 0

    def flush(self) -> None:
        self._append()
        super().flush()

    def sync(self) -> None:
        self._append()
        super().sync()

    def close(self) -> None:
        try:
            self._append()
        finally:
            super().close()

    def _datasets(self) -> list[Growing]:
        return [data for held in self._held.values() for data in (held.times, held.ids)]


@dataclass
class _SampleTimes:
    """The times of a group: `first` is the number of the sample in row 0, `values` a dataset of the group; `every` and
    `shift` as shift_of says."""

    times: Growing
    values: Growing
    every: int
    shift: int
    first: int


@dataclass
class _TraceBuffer:
    """One variable: its buffer, how many samples came before, and which ones are kept (low < number <= high)."""

    buffer: str
    members: int
    data: Growing
    seen: int
    low: int
    high: int


class TraceWriter(RecordFile):
    """traces.h5 of one run; a file that is there is continued. `start`: the step before the first one."""

    def __init__(self, path: Path, model: l0.Model, program: l2.Merged, start: int = 0) -> None:
        assert model.simulate is not None
        self._dt, self._warmup = model.simulate.dt, model.simulate.warmup
        super().__init__(path)
        start = max(start - self._warmup, 0)
        arrays = {a.name: a for a in program.arrays}
        self._buffers: list[_TraceBuffer] = []
        groups: dict[str, _SampleTimes] = {}
        for number, record in enumerate(model.traces):
            name = record.group
            group = self._group(record, path)
            m, shift = len(record.members), l0.shift_of(record.every, record.at)
            for variable in record.variables:
                array = arrays[own_array(array_name(record.population, variable), f"record.{number}")]
                rows = min(1024, max(1, (1 << 17) // (m * array.dtype.bytes)))
                data = growing(group, variable.rpartition(".")[2], array.dtype.numpy, (m,), rows, {"unit": array.unit})
                low, high = 0, 1 << 62
                if record.between is not None:
                    low, high = ((x + shift) // record.every for x in record.between)
                seen = (start + shift) // record.every
                self._buffers.append(_TraceBuffer(array.name, m, data, seen, low, high))
                if name not in groups:
                    times = growing(group, "time", "float64", (), 1024, {"unit": "ms"})
                    first = max(seen, low) + 1 - times.rows
                    groups[name] = _SampleTimes(times, data, record.every, shift, first)
        self._groups = tuple(groups.values())
        publish(self._file)

    def _group(self, record: l0.RecordTraces, path: Path) -> Any:
        name = record.group
        if name in self._file:
            group = self._file[name]
            if tuple(group["members"][:]) != record.members:
                raise RunError("E0909", f"{path.name} has other members of `{name}`")
            return group
        group = self._file.create_group(name)
        group.create_dataset("members", data=np.array(record.members, np.uint64))
        return group

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Append the contents of the buffers and empty them; with keep=False they are dropped (the warm-up)."""
        for b in self._buffers:
            used = int(instance.read(own_array(b.buffer, "used"))[0])
            if used and keep:
                numbers = b.seen + np.arange(1, used + 1)
                rows = instance.read(b.buffer)[: used * b.members].reshape(used, b.members)
                b.data.append(rows[(numbers > b.low) & (numbers <= b.high)])
                b.seen += used
            if used:
                instance.write(own_array(b.buffer, "used"), ZERO)
        for g in self._groups:
            numbers = g.first + np.arange(g.times.rows, g.values.rows, dtype=np.int64)
            g.times.append((numbers * g.every - g.shift) * self._dt)

    def _datasets(self) -> list[Growing]:
        return [*(b.data for b in self._buffers), *(g.times for g in self._groups)]
