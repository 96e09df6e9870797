"""Metrics of an epoch from the sums that the program accumulated.

Assumes: the sums of metrics (compiler/losses), by name without `metric.`, and `loss` and `count`.
Guarantees: means over the samples (with a mask: over the elements it includes); precision, recall and F1 are macro
averages (a class that is never predicted, or has no samples, counts 0), R2 is 1 - residual / variance (nan where the
targets do not vary), all are nan where everything is masked; a confusion matrix is kept apart, as it is not a number.
Does not: read the program, or write (compiler/runtime/training/run_training.py does).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import RunError
from compiler.losses import metric_of

Sums = Mapping[str, npt.NDArray[np.float64]]


def metrics_of(sums: Sums) -> dict[str, float]:
    """The loss first, then the metrics in the order of the sums."""
    count = float(np.sum(sums["count"])) or math.nan  # a mask may exclude everything
    out = {"loss": 0.0}
    for key in (k for k in sums if k.partition(".")[0] == "loss"):  # the terms of a sum have counts of their own
        own = float(np.sum(sums[key.replace("loss", "count")])) or math.nan
        out["loss"] += float(np.sum(sums[key])) / own
    parts: dict[str, dict[str, npt.NDArray[np.float64]]] = {}
    for key, value in sums.items():
        name, _, part = key.partition(".")
        if name not in ("loss", "count"):
            parts.setdefault(name, {})[part] = value
    kinds = {name: metric_of(name) for name in parts}
    return out | {n: k.value(parts[n], count) for n, k in kinds.items() if k.value is not None}


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """The complete lines of metrics.jsonl, one per epoch; null becomes nan. [] without the file. Raises RunError
    (E0927)."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    # The last line of a run that was killed may be cut.
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        rows = [json.loads(line) for line in lines if line.strip() and line.endswith("\n")]
    except ValueError as error:
        raise _damaged(path, error) from None
    if not all(isinstance(row, dict) and "epoch" in row for row in rows):
        raise _damaged(path, "a line of it is no epoch")
    if not all(isinstance(v, int | float | None) for row in rows for v in row.values()):
        raise _damaged(path, "it holds what is no number")
    return [{k: math.nan if v is None else v for k, v in row.items()} for row in rows]


def _damaged(path: Path, reason: object) -> RunError:
    return RunError("E0927", f"`{path}` is damaged: {reason}", "take a copy, or run again")


def confusion_of(sums: Sums) -> list[list[float]] | None:
    """Counts by class (row) and predicted class (column); None where it is not measured."""
    counts = sums.get("confusion.counts")
    if counts is None:
        return None
    classes = math.isqrt(counts.size)
    return [[int(n) if n.is_integer() else n for n in row] for row in counts.reshape(classes, classes).tolist()]
