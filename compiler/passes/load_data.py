"""load_data: the data set of a training block as arrays of the program.

Assumes: the frontend has checked that file, arrays and shapes exist and fit.
Guarantees: one constant per file array that feeds an input, as `data.<array>` (examples, features); integers as
int32, all else as reals; the same split of examples for every run of a seed.
Does not: shuffle (the runner does, per epoch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.ir.model import Network, Train
from compiler.source import Span


@dataclass(frozen=True, eq=False)
class DataSet:
    """`arrays`: name -> (examples, features); per phase `rows`: number of examples, `members`: their indices."""

    arrays: Mapping[str, npt.NDArray[np.generic]]
    rows: Mapping[str, int]
    members: Mapping[str, npt.NDArray[np.int64]]
    span: Span


def load_data(network: Network, train: Train) -> DataSet:
    """Reads the file and splits its examples into "train" and "eval" (validation) by the seed."""
    kinds = {i.name: i.dtype for i in network.inputs}
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    with np.load(train.data.path, allow_pickle=False) as file:
        for name, array, _ in train.data.arrays:
            raw = file[array]
            flat = raw.reshape(raw.shape[0], -1)
            arrays[f"data.{array}"] = flat.astype(np.int32 if kinds[name] == "int32" else np.float64)
    examples = next(iter(arrays.values())).shape[0]
    held_out = round(train.data.validation * examples)
    order = np.random.Generator(np.random.PCG64(train.seed)).permutation(examples)
    members = {"train": np.sort(order[held_out:]), "eval": np.sort(order[:held_out])}
    return DataSet(arrays, {k: len(v) for k, v in members.items()}, members, train.data.span)
