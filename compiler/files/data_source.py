"""Samples of a network input, from the data files of a training.

Assumes: a `Data` of level 0.
Guarantees: what is wrong with a file is an OSError or ValueError with one line of text.
Does not: check shapes (the frontend did), scale or convert.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.files.array_files import Header, read_array
from compiler.files.array_rows import Rows, array_parts, header_of, open_rows
from compiler.files.csv_files import read_columns
from compiler.files.image_folders import image_headers


def place_of(data: l0.Data, array: str) -> tuple[str, str]:
    """Path and name ("": the only one) of an array of `data.arrays` in its file."""
    return (data.path, array) if data.path else next((p, a) for k, p, a in data.files if k == array)


def read_samples(data: l0.Data, array: str) -> npt.NDArray[Any]:
    """An array of `data.arrays`; the first axis counts samples. Raises OSError, ValueError."""
    path, inner = place_of(data, array)
    columns = dict(data.columns).get(array)
    if columns and path.endswith(".csv"):
        return read_columns(Path(path), columns)
    if columns:
        return np.stack([read_array(Path(path), c) for c in columns], axis=1)
    return read_array(Path(path), inner or None)


def sample_parts(data: l0.Data, array: str) -> Iterator[npt.NDArray[Any]]:
    """`read_samples` in parts of a few MB. Raises OSError, ValueError."""
    path, inner = place_of(data, array)
    return array_parts(Path(path), inner or None, dict(data.columns).get(array, ()))


def open_samples(data: l0.Data, array: str, cache: Path) -> Rows:
    """`read_samples`, some samples at a time. Raises OSError, ValueError."""
    path, inner = place_of(data, array)
    return open_rows(Path(path), inner or None, dict(data.columns).get(array, ()), cache)


def samples_header(data: l0.Data, array: str) -> Header:
    """Shape (samples first) and type, from the header. Raises OSError, ValueError."""
    path, inner = place_of(data, array)
    columns = dict(data.columns).get(array, ())
    if Path(path).is_dir():  # the frontend has looked at every image
        return Header(*image_headers(Path(path), every=False)[inner])
    return header_of(Path(path), inner or None, columns)
