"""The files of records of one run: those that the model asks for.

Assumes: a folder; files that are there are continued.
Guarantees: every file is closed in any case, when the given stack is.
Does not: decide when.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2
from backends.protocol import Instance
from compiler.runtime.record.growing import RecordFile
from compiler.runtime.record.record import SpikeWriter, TraceWriter, events_with_conditions, recorded_spikes
from compiler.runtime.record.record_rates import RateWriter
from compiler.runtime.record.record_synapses import SynapseWriter
from compiler.runtime.record.tables import TableWriter

W = TypeVar("W", bound=RecordFile | TableWriter)


@dataclass(frozen=True)
class Writers:
    """The open files; None for what the model does not record."""

    spikes: SpikeWriter | None = None
    traces: TraceWriter | None = None
    rates: RateWriter | None = None
    synapses: SynapseWriter | None = None
    tables: TableWriter | None = None
    events: SpikeWriter | None = None

    @property
    def rows(self) -> dict[str, npt.NDArray[np.int64]]:
        """How much each file holds."""
        return {w.name: np.array(w.rows, np.int64) for w in (*self.drained, *self.sampled)}

    @property
    def sampled(self) -> tuple[SynapseWriter | TableWriter, ...]:
        """Those that read the instance at certain steps."""
        return tuple(w for w in (self.synapses, self.tables) if w is not None)

    @property
    def drained(self) -> tuple[SpikeWriter | TraceWriter | RateWriter, ...]:
        """Those that drain buffers of the instance."""
        return tuple(w for w in (self.spikes, self.events, self.traces, self.rates) if w is not None)

    def drain(self, instance: Instance, keep: bool = True) -> None:
        """Empty the buffers of the instance into memory; with keep=False their contents are dropped."""
        for writer in self.drained:
            writer.drain(instance, keep=keep)

    def flush(self, durable: bool = False) -> None:
        """Write all that was drained and sampled, for readers, or (`durable`) as far as the disk."""
        for writer in (*self.drained, *self.sampled):
            if durable:
                writer.sync()
            else:
                writer.flush()


def open_writers(
    folder: Path,
    model: l0.Model,
    program: l2.Merged,
    instance: Instance,
    start: int,
    begun: Mapping[str, npt.NDArray[np.float64]],
    opened: ExitStack,
) -> Writers:
    """The writers of the model's records after step `start`; `begun`: the counts of incomplete bins (RateWriter);
    `opened` closes each of them. Raises RunError (E0930)."""

    def kept(writer: W) -> W:
        opened.callback(writer.close)
        return writer

    of_synapses = model.synapses or model.histograms
    return Writers(
        spikes=kept(SpikeWriter(folder / "spikes.h5", model, recorded_spikes(model))) if model.spikes else None,
        events=kept(SpikeWriter(folder / "events.h5", model, events_with_conditions(model))) if model.events else None,
        traces=kept(TraceWriter(folder / "traces.h5", model, program, start)) if model.traces else None,
        rates=kept(RateWriter(folder / "rates.h5", model, start, begun)) if model.rates else None,
        synapses=kept(SynapseWriter(folder / "synapses.h5", model, program, instance, start)) if of_synapses else None,
        tables=kept(TableWriter(folder, model, program, start)) if model.tables else None,
    )
