"""Training data: arrays of a file, their split, and the order of an epoch.

Assumes: the frontend has checked that the file holds the arrays.
Guarantees: split and orders depend on (seed, epoch) alone, whatever numpy's version: they sort raw output of Philox,
which numpy promises to keep. So a resumed run sees the same batches.
Does not: scale (a node of the graph does), augment or stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from backends.protocol import AnyArray
from compiler.diagnostics import Diagnostic, ModelError
from compiler.ir.model import Model
from compiler.ir.streams import stream_key

Indices = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Samples:
    """`arrays`: what the network's inputs are read from, by the name in the file; `train`, `validation`: indices."""

    arrays: dict[str, AnyArray]
    train: Indices
    validation: Indices


def load_samples(model: Model) -> Samples:
    """The data of a model's training. Raises ModelError (E0701, E0702, E0703) for a file that changed since the check."""
    assert model.train is not None and model.network is not None
    data = model.train.data
    shapes = {i.name: i.shape for i in model.network.inputs}
    arrays: dict[str, AnyArray] = {}
    try:
        with np.load(Path(data.path), allow_pickle=False) as file:
            for _, array, _ in data.arrays:
                arrays[array] = file[array]
    except (OSError, ValueError) as error:
        raise ModelError([Diagnostic("E0701", f"cannot read `{data.path}`: {error}", data.span)]) from None
    except KeyError as error:
        raise ModelError([Diagnostic("E0702", f"`{data.path}`: {error}", data.span)]) from None
    counts = {len(a) for a in arrays.values()}
    for name, array, _ in data.arrays:
        if arrays[array].shape[1:] != shapes[name] or len(counts) != 1:
            message = f"`{array}` is shaped {arrays[array].shape}, not (samples, {shapes[name]})"
            raise ModelError([Diagnostic("E0703", message, data.span)])
    train, validation = split(counts.pop(), data.validation, model.train.seed)
    return Samples(arrays, train, validation)


def _shuffled(count: int, seed: int, stream: str) -> npt.NDArray[np.int64]:
    """A permutation of range(count): indices sorted by 64-bit random numbers."""
    keys = np.random.Philox(key=stream_key(seed, stream)).random_raw(count)
    return np.argsort(keys, kind="stable")


def split(count: int, validation: float, seed: int) -> tuple[Indices, Indices]:
    """(training, validation) indices, ascending; round(count * validation) samples are kept for validation."""
    kept = round(count * validation)
    order = _shuffled(count, seed, "train/split")
    return (
        np.sort(order[kept:]).astype(np.int32),
        np.sort(order[:kept]).astype(np.int32),
    )


def epoch_order(indices: Indices, seed: int, epoch: int, shuffle: bool) -> Indices:
    """The order in which an epoch (from 1) takes its samples."""
    if not shuffle:
        return indices
    return indices[_shuffled(len(indices), seed, f"train/order/{epoch}")]


def padded(order: Indices, batch: int) -> Indices:
    """The order as whole batches (batches * batch,): the places of a short last batch are -1."""
    missing = -len(order) % batch
    return np.concatenate([order, np.full(missing, -1, np.int32)]).astype(np.int32)
