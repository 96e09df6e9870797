"""load_data: the data set of a training block as arrays of the program.

Assumes: the frontend has checked that file, arrays and shapes exist and fit.
Guarantees: one constant per file array that feeds an input, as `data.<array>` (examples, features); integers as
int32, all else as reals.
Does not: say which examples are kept for validation, or shuffle (compiler/runner/data.py does).
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
    """`arrays`: name -> (examples, features); `rows`: number of examples per phase."""

    arrays: Mapping[str, npt.NDArray[np.generic]]
    rows: Mapping[str, int]
    span: Span


def load_data(network: Network, train: Train) -> DataSet:
    """Reads the file and counts the examples of "train" and "eval" (validation)."""
    kinds = {i.name: i.dtype for i in network.inputs}
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    with np.load(train.data.path, allow_pickle=False) as file:
        for name, array, _ in train.data.arrays:
            raw = file[array]
            flat = raw.reshape(raw.shape[0], -1)
            arrays[f"data.{array}"] = flat.astype(np.int32 if kinds[name] == "int32" else np.float64)
    examples = next(iter(arrays.values())).shape[0]
    held_out = round(train.data.validation * examples)
    return DataSet(arrays, {"train": examples - held_out, "eval": held_out}, train.data.span)
