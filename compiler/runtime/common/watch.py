"""Early stopping, reduction of the learning rate on plateaus, and the best epoch, from the metrics of a training.

Assumes: rows of metrics.jsonl, one per epoch from the first on.
Guarantees: pure functions of the rows, so that a resumed run decides as an uninterrupted one. A value that is not
finite is never better.
Does not: read or write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import compiler.ir.level0.model as l0

Rows = Sequence[Mapping[str, float]]


def _better(value: float, best: float | None, watched: l0.Watched, margin: float) -> bool:
    if not math.isfinite(value):
        return False
    if best is None:
        return True
    return value > best + margin if watched.larger else value < best - margin


def best_epoch(rows: Rows, watched: l0.Watched) -> int:
    """The first epoch (from 1) with the best value; 0 where there is none."""
    best, epoch = None, 0
    for k, row in enumerate(rows, 1):
        if _better(row[watched.name], best, watched, 0.0):
            best, epoch = row[watched.name], k
    return epoch


def _waits(rows: Rows, watched: l0.Watched, margin: float, patience: int) -> int:
    """How often `patience` epochs one after the other were no better than the best one."""
    best, waited, found = None, 0, 0
    for row in rows:
        value = row[watched.name]
        if _better(value, best, watched, margin):
            best, waited = value, 0
        else:
            waited += 1
        if waited >= patience:
            found, waited = found + 1, 0
    return found


def stops(rows: Rows, stop: l0.Stop) -> bool:
    """Whether the training ends after these epochs."""
    return _waits(rows, stop.watched, stop.margin, stop.patience) > 0


def plateau_factor(rows: Rows, plateau: l0.Plateau) -> float:
    """The factor of the learning rate in the next epoch."""
    factor = 1.0
    for _ in range(_waits(rows, plateau.watched, plateau.margin, plateau.patience)):
        factor = max(factor * plateau.factor, plateau.lowest)
    return factor
