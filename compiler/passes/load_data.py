"""load_data: the data set of a training block as arrays of the program.

Assumes: the frontend has checked that files, arrays and shapes exist and fit.
Guarantees: one constant per array that feeds an input, as `data.<array>` (examples, features); integers as
int32, all else as reals.
Does not: say which examples are kept for validation, or shuffle (compiler/runner/data.py does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from compiler.data_source import read_samples
from compiler.diagnostics import Diagnostic, ModelError
from compiler.ir.model import Data, Network, Train
from compiler.source import Span


@dataclass(frozen=True, eq=False)
class DataSet:
    """`arrays`: name -> (examples, features); `rows`: number of examples per phase."""

    arrays: Mapping[str, npt.NDArray[np.generic]]
    rows: Mapping[str, int]
    span: Span


def held_out(data: Data, examples: int) -> int:
    """How many of so many examples are kept for validation."""
    return data.kept.count(examples)


def load_data(network: Network, train: Train) -> DataSet:
    """Reads the files and counts the examples of "train" and "eval" (validation). Raises ModelError (E0703)."""
    kinds = {i.name: i.dtype for i in network.inputs}
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, array, _ in train.data.arrays:
        try:
            raw = read_samples(train.data, array)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:120]
            message = f"the data of `{name}` cannot be read: {reason}"
            raise ModelError([Diagnostic("E0703", message, train.data.span)]) from None
        flat = raw.reshape(raw.shape[0], -1)
        arrays[f"data.{array}"] = flat.astype(np.int32 if kinds[name] == "int32" else np.float64)
    examples = next(iter(arrays.values())).shape[0]
    kept = held_out(train.data, examples)
    return DataSet(arrays, {"train": examples - kept, "eval": kept}, train.data.span)
