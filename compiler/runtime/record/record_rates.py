"""Recording of rates: event counts per step, summed in bins, into rates.h5.

Assumes: buffers named as compiler/passes/cells/lower_records.py names them.
Guarantees: /<population>/rate (Hz, the mean over the population and the bin) and /<population>/time (ms, the end of the
bin, from the end of the warm-up); a last bin that the run does not fill is not written, nor a first one that began
before the end of the warm-up (bins that end at an event of a phase). The counts of an incomplete bin are in
checkpoints.
Does not: change what is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from backends.protocol import Instance
from compiler.ir.space import own_array
from compiler.runtime.common.rates import rate_of
from compiler.runtime.record.growing import Growing, RecordFile, growing, publish
from compiler.runtime.record.record import ZERO


@dataclass
class _Bins:
    """One population: the counts of an incomplete bin are in `rest`; the next `skip` steps belong to a bin whose
    beginning is unknown; `first`: the number of the bin in row 0 of the file."""

    population: str
    every: int
    shift: int
    scale: float
    rates: Growing
    times: Growing
    skip: int
    first: int
    rest: npt.NDArray[np.float64]


class RateWriter(RecordFile):
    """rates.h5 of one run; a file that is there is continued. `start`: the step before the first one; `begun`: what
    `rests` was then."""

    def __init__(
        self, path: Path, model: l0.Model, start: int = 0, begun: Mapping[str, npt.NDArray[np.float64]] | None = None
    ) -> None:
        assert model.simulate is not None
        self._dt = model.simulate.dt
        done = max(start - model.simulate.warmup, 0)
        sizes = {p.name: p.size for p in model.populations}
        super().__init__(path)
        self._bins: list[_Bins] = []
        for record in model.rates:
            name = record.population
            group = self._file.require_group(name)
            scale = rate_of(1, sizes[name], record.every * self._dt)
            rates = growing(group, "rate", "float64", (), 1024, {"unit": "Hz"})
            times = growing(group, "time", "float64", (), 1024, {"unit": "ms"})
            # A run that resumes within a bin and does not know the bin's beginning leaves it out.
            shift = l0.shift_of(record.every, record.at)
            rest = (begun or {}).get(name, np.zeros(0))
            if len(rest) != (done + shift) % record.every:
                rest = np.zeros(0)
            skip = 0 if len(rest) else -(done + shift) % record.every
            first = (done + skip + shift) // record.every - rates.rows
            self._bins.append(_Bins(name, record.every, shift, scale, rates, times, skip, first, rest))
        publish(self._file)

    def rests(self) -> dict[str, npt.NDArray[np.float64]]:
        """By population, the counts of the steps of the bin that is not full yet."""
        return {b.population: b.rest for b in self._bins}

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Append the bins that are full; with keep=False the contents of the buffers are dropped (the warm-up)."""
        for b in self._bins:
            buffer = own_array(own_array(b.population, "spike_count"), "record")
            used = int(instance.read(own_array(buffer, "used"))[0])
            if used == 0:
                continue
            counts = np.asarray(instance.read(buffer)[:used], np.float64)
            instance.write(own_array(buffer, "used"), ZERO)
            if not keep:
                continue
            dropped = min(b.skip, used)
            b.skip -= dropped
            counts = np.concatenate([b.rest, counts[dropped:]])
            full = len(counts) // b.every
            b.rest = counts[full * b.every :]
            numbers = b.first + b.rates.rows + np.arange(1, full + 1)
            b.rates.append(counts[: full * b.every].reshape(full, b.every).sum(axis=1) * b.scale)
            b.times.append((numbers * b.every - b.shift) * self._dt)

    def _datasets(self) -> list[Growing]:
        return [data for b in self._bins for data in (b.rates, b.times)]
