"""Which samples are trained on, and in which order: the split and the order of an epoch.

Assumes: compiler/passes/load_data.py put the samples into the program and counted them in the same way.
Guarantees: split and orders depend on (seed, epoch) alone, whatever numpy's version: they sort raw output of Philox,
which numpy promises to keep. So a resumed run sees the same batches.
Does not: read files, scale or augment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from compiler.ir.streams import stream_key

Indices = npt.NDArray[np.int32]


def _shuffled(count: int, seed: int, stream: str) -> npt.NDArray[np.int64]:
    """A permutation of range(count): indices sorted by 64-bit random numbers."""
    keys = np.random.Philox(key=stream_key(seed, stream)).random_raw(count)
    return np.argsort(keys, kind="stable")


def split(count: int, validation: float, seed: int) -> tuple[Indices, Indices]:
    """(training, validation) indices, ascending; round(validation * count) samples are kept for validation."""
    kept = round(validation * count)
    order = _shuffled(count, seed, "train/split")
    return np.sort(order[kept:]).astype(np.int32), np.sort(order[:kept]).astype(np.int32)


def epoch_order(indices: Indices, seed: int, epoch: int, shuffle: bool) -> Indices:
    """The order in which an epoch (from 1) takes its samples."""
    if not shuffle:
        return indices
    return indices[_shuffled(len(indices), seed, f"train/order/{epoch}")]


def as_batches(order: Indices, batch: int, shape: tuple[int, ...]) -> Indices:
    """The order as the program's array (batches, padded): row b holds the samples of batch b, then -1."""
    batches, padded = shape
    rows = np.full((batches, padded), -1, np.int32)
    whole = np.full(batches * batch, -1, np.int32)
    whole[: len(order)] = order
    rows[:, :batch] = whole.reshape(batches, batch)
    return rows
