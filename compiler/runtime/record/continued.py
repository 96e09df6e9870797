"""What a resumed run copies from its predecessor: the records up to the checkpoint, and the checkpoint.

Assumes: the files of the previous run are complete up to its checkpoint, as compiler/runtime/spiking/run_spiking.py
guarantees; it may have been killed at any moment.
Guarantees: the new folder begins with copies; the previous run is not changed. The checkpoint is copied last: a
folder with a checkpoint has its records.
Does not: find the checkpoint (compiler/runtime/artifacts/checkpoint.py).
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Any, Final

import h5py

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.core.disk import copy_file, link_file, make_folder
from compiler.runtime.record.growing import RECORDING
from compiler.runtime.record.superblock import unmark
from compiler.runtime.record.tables import TABLES, cut_table

ALONE: Final = "resume from the checkpoint file alone, copied to another folder: records then begin there"
# What h5py raises for a damaged file, or for what it gives in place of a group that cannot be read (None).
_UNREADABLE = (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError)
RECORDS = ("spikes.h5", "events.h5", "traces.h5", "rates.h5", "synapses.h5")


def copy_records(source: Path, folder: Path, model: l0.Model, step: int) -> bool:
    """Begin `folder` with the records of the run directory `source` up to `step`; False when it has none. Raises
    RunError (E0909) when they are damaged or do not reach `step`."""
    assert model.simulate is not None
    if not (source / "run.json").exists():
        return False
    if step <= model.simulate.warmup:  # nothing is recorded yet, or the sample at time 0, which will be taken again
        return True
    return copy_up_to(source, folder, model, step)


def copy_up_to(source: Path, folder: Path, model: l0.Model, step: int) -> bool:
    """Begin `folder` with the records in `source` up to `step`, which is after the warm-up; False when there are none.
    Raises RunError (E0909) when they are damaged or do not reach `step`."""
    assert model.simulate is not None
    copied = False
    for name in RECORDS:
        if (source / name).exists():
            copied = True
            copy_file(source / name, folder / name, RECORDING)
            try:
                unmark(folder / name)
                with h5py.File(folder / name, "a") as file:
                    _CUT[name](file, model, (step - model.simulate.warmup + 0.5) * model.simulate.dt)
            except _UNREADABLE as error:
                raise RunError("E0909", f"`{source / name}` cannot be gone on with: {error}", ALONE) from None
    for path in sorted((source / TABLES).glob("*.csv")):
        copied = True
        make_folder(folder / TABLES, "a table")
        copy_file(path, folder / TABLES / path.name, RECORDING)
        try:
            cut_table(folder / TABLES / path.name, (step - model.simulate.warmup + 0.5) * model.simulate.dt)
        except (OSError, ValueError) as error:
            raise RunError("E0909", f"`{path}` cannot be gone on with: {error}") from None
    return copied


def adopt_checkpoint(path: Path, folder: Path) -> Path:
    """Copy the checkpoint that a run resumes from into its folder, so that this can be resumed at once."""
    place = folder / "checkpoints" / path.name
    link_file(path, place, "a checkpoint")
    return place


# -------------------------------------------------------------------------------------------- cutting
# Datasets have their times beside them. Times ascend: they are searched, not read (they may be many).


def _cut(data: Any, rows: int) -> None:
    if len(data) < rows:
        raise ValueError(f"`{data.name}` ends before the checkpoint")
    data.resize(rows, axis=0)


def _cut_spikes(file: Any, model: l0.Model, end: float) -> None:
    for group in file["spikes"].values():
        used = bisect_left(group["timestamps"], end)
        for data in group.values():
            _cut(data, used)


def _cut_samples(file: Any, model: l0.Model, end: float) -> None:
    """Of traces and rates."""
    for group in file.values():
        used = bisect_left(group["time"], end)
        for name, data in group.items():
            if name != "members":
                _cut(data, used)


def _cut_synapses(file: Any, model: l0.Model, end: float) -> None:
    # Variables that are sampled at the end of a run have no earlier sample.
    assert model.simulate is not None
    early = end < model.simulate.steps * model.simulate.dt
    late = {r.projection for r in model.synapses if early and not r.every}
    late_histograms = {(h.projection, h.variable) for h in model.histograms if early and not h.every}
    for projection, members in file.items():
        for group in members.values():
            times = {name for name in group if name.endswith("time")}
            used = {name: bisect_left(group[name], end) for name in times}
            for name in times:
                variable = name.removesuffix(".histogram.time")
                if projection in late if name == "time" else (projection, variable) in late_histograms:
                    used[name] = 0
            for name, data in group.items():
                if name not in ("source", "target"):
                    own = name if name in times else f"{name}.time" if name.endswith(".histogram") else "time"
                    _cut(data, used[own])


_CUT = {
    "spikes.h5": _cut_spikes,
    "events.h5": _cut_spikes,
    "traces.h5": _cut_samples,
    "rates.h5": _cut_samples,
    "synapses.h5": _cut_synapses,
}
