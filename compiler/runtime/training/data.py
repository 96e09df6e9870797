"""The split into training and validation samples, and the order of an epoch.

Assumes: compiler/passes/layers/load_data.py loaded the samples in the same order.
Guarantees: split and orders depend on (seed, epoch) alone, whatever numpy's version: they sort raw output of Philox,
which numpy promises to keep. So a resumed run sees the same batches.
Does not: read files (but the labels that strata are made of), scale or augment.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.files.array_files import read_array
from compiler.ir.level0.streams import stream_key

Indices = npt.NDArray[np.int32]


def _shuffled(count: int, seed: int, stream: str) -> npt.NDArray[np.int64]:
    """A permutation of range(count): indices sorted by 64-bit random numbers."""
    keys = np.random.Philox(key=stream_key(seed, stream)).random_raw(count)
    return np.argsort(keys, kind="stable")


def split(count: int, validation: float | l0.Kept, seed: int) -> tuple[Indices, Indices]:
    """(training, validation) indices, ascending; of a fraction, round(fraction * count) samples are kept for
    validation. Raises RunError (E0910) where strata cannot be read."""
    if isinstance(validation, l0.Kept) and validation.last:
        rows = np.arange(count, dtype=np.int32)
        return np.split(rows, [count - validation.count(count)])[0], rows[count - validation.count(count) :]
    order = _shuffled(count, seed, "train/split")
    if not isinstance(validation, l0.Kept):
        kept = round(validation * count)
        return np.sort(order[kept:]).astype(np.int32), np.sort(order[:kept]).astype(np.int32)
    if validation.strata is not None:
        order = order[np.argsort(_strata(validation.strata, count)[order], kind="stable")]
    # At even distances in an order sorted by class: each class has its share, within one.
    place = np.arange(count)
    if validation.folds:
        taken = place % validation.folds == validation.fold
    else:
        kept = validation.count(count)
        taken = (place + 1) * kept // count > place * kept // count
    return np.sort(order[~taken]).astype(np.int32), np.sort(order[taken]).astype(np.int32)


def _strata(place: tuple[str, str], count: int) -> npt.NDArray[np.int64]:
    path, array = place
    try:
        values = np.asarray(read_array(Path(path), array or None)).reshape(-1)
    except (OSError, ValueError) as error:
        raise RunError("E0910", f"`{path}` cannot be read: {' '.join(str(error).split())[:120]}", exit_code=5) from None
    if len(values) != count:
        raise RunError("E0910", f"`{path}` has {len(values):,} labels for {count:,} samples", exit_code=5)
    return values.astype(np.int64)


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
