"""Samples of a network's input, from the file or files in which a training has them.

Assumes: a `Data` of level 0.
Guarantees: what is wrong with a file is an OSError or ValueError with one line of text.
Does not: check shapes (the frontend did), scale or convert.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.array_files import read_array
from compiler.ir.model import Data


def place_of(data: Data, array: str) -> tuple[str, str]:
    """Path and name ("": the only one) of an array of `data.arrays` in its file."""
    return (data.path, array) if data.path else next((p, a) for k, p, a in data.files if k == array)


def read_samples(data: Data, array: str) -> npt.NDArray[Any]:
    """An array of `data.arrays`; the first axis counts samples. Raises OSError, ValueError."""
    path, inner = place_of(data, array)
    columns = dict(data.columns).get(array)
    if columns:
        return np.stack([read_array(Path(path), c) for c in columns], axis=1)
    return read_array(Path(path), inner or None)
