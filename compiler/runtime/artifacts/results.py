"""The results of a run for callers: the contents of run.json, and readers of the other files.

Assumes: a run directory as run_folder.py leaves it.
Guarantees: readers open files when they are called; arrays are numpy's.
Does not: run anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import RunError
from compiler.runtime.artifacts.digest import check_digest
from compiler.runtime.artifacts.records import NotRecorded, damaged, not_recorded, open_records
from compiler.runtime.common.metrics import read_metrics
from compiler.runtime.expectations import Check

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BuildResult:
    """`folder`: build/<name>; `compiled`: whether a compiler ran; `seconds`: CPU seconds by part; `steps`: of these, by
    part and step (the passes are the steps of "lower")."""

    folder: Path
    artifact: Path
    compiled: bool
    seconds: Mapping[str, float]
    steps: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunResult:
    """`status`: "ok" | "interrupted" (a failed run raises); `rates` in Hz by population; `counts`: spikes by
    population; `metrics`: those of the last epoch; `checks`: the model's expectations; `signal`: the signal that was
    received, perhaps only while plots were drawn ("ok"); `course`: a line about the epochs of a training with early
    stopping or best weights."""

    folder: Path
    status: str
    rates: Mapping[str, float]
    counts: Mapping[str, int]
    metrics: Mapping[str, float]
    checks: tuple[Check, ...] = ()
    warnings: tuple[str, ...] = ()
    signal: int | None = None
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    course: str | None = None
    kept: object = field(default=None, repr=False, compare=False)
    """What removes a temporary folder when nothing refers to the result any more."""

    def spikes(self, population: str) -> tuple[Floats, npt.NDArray[np.int64]]:
        """(times in ms, neuron indices) of a recorded population, by time, then index. Raises KeyError,
        RunError (E0927)."""
        with self._records("spikes.h5") as file:
            if population not in file["spikes"]:
                raise not_recorded("spikes of", population, tuple(file["spikes"]))
            group = file[f"spikes/{population}"]
            return group["timestamps"][:], group["node_ids"][:].astype(np.int64)

    def traces(self, population: str, variable: str) -> tuple[Floats, npt.NDArray[np.floating[Any]]]:
        """(times in ms, values (samples, members) in the variable's canonical unit). Raises KeyError, RunError
        (E0927)."""
        with self._records("traces.h5") as file:
            if population not in file:
                raise not_recorded("traces of", population, tuple(file))
            group = file[population]
            if variable not in group:
                others = [n for n in group if n not in ("time", "members")]
                raise not_recorded(f"trace of `{population}`:", variable, others)
            return group["time"][:], group[variable][:]

    def _records(self, name: str) -> Any:
        """A file of records, to be opened. Raises NotRecorded where the run has none."""
        if not (self.folder / name).is_file():
            raise not_recorded(name.removesuffix(".h5"))
        return open_records(self.folder / name, asked=True)

    def weights(self) -> dict[str, npt.NDArray[np.floating[Any]]]:
        """Trained values by name (`conv1.weight`), in logical shape, of the best or the last epoch: what
        `train: {weights: ...}` says. Raises RunError (E0927)."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        path = self.folder / "weights.safetensors"
        if not path.is_file():
            raise NotRecorded("E0952", "this run has no weights", "a training writes them when it ends")
        check_digest(path)
        try:
            return load_file(path)
        except (SafetensorError, ValueError) as error:
            raise damaged(path, error) from None

    def confusion(self, part: str = "validation") -> npt.NDArray[np.float64]:
        """(classes, classes) after the last epoch, of the "validation" or the "training" samples: how many of each
        class (row) were taken for each (column). Raises KeyError."""
        text = (self.folder / "confusion.jsonl").read_text(encoding="utf-8")
        return np.array(json.loads(text.splitlines()[-1])[part], np.float64)

    def history(self) -> list[dict[str, float]]:
        """The lines of metrics.jsonl, one per epoch; nan where a number is not defined."""
        return read_metrics(self.folder)


def package(name: str, extra: str) -> Any:
    """A package that shows results, of an extra. Raises RunError (E0939)."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise RunError("E0939", f"this needs {name}", f"pip install 'netloom[{extra}]'") from None


def open_result(folder: Path) -> RunResult:
    """The result of a run directory, however the run ended; expectations are in `record`. Raises RunError (E0916)."""
    from compiler.runtime.artifacts.trained import record_of_run

    record = record_of_run(folder)
    summary = record.get("summary") or {}
    return RunResult(
        folder,
        str(record.get("status")),
        summary.get("rates_hz") or {},
        summary.get("spikes") or {},
        summary.get("metrics") or {},
        warnings=tuple(record.get("warnings") or ()),
        record=record,
    )
