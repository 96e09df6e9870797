"""HDF5 datasets that grow along their first axis, made and appended to without h5py's slower convenience.

Assumes: one writer.
Guarantees: a file of 10,000 populations takes seconds, not minutes: datasets share their creation properties, small
ones have small chunks. Files are of HDF5 1.10's format.
Does not: read (h5py does).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5p, h5s, h5t

FORMAT: Final = ("v110", "v110")


def open_file(path: Path) -> Any:
    """The file at `path` for writing; one that is there is continued."""
    return h5py.File(path, "a", libver=FORMAT)


class Growing:
    """A dataset (rows, *tail). `rows` is its length."""

    def __init__(self, dataset: Any, tail: tuple[int, ...]) -> None:
        self._id, self._tail = dataset, tail
        self.rows: int = dataset.shape[0]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append rows of the dataset's type."""
        count, start = len(values), self.rows
        if count == 0:
            return
        self.rows = start + count
        self._id.set_extent((self.rows, *self._tail))
        place = self._id.get_space()
        place.select_hyperslab((start, *(0 for _ in self._tail)), (count, *self._tail))
        memory = h5s.create_simple((count, *self._tail))
        self._id.write(memory, place, np.ascontiguousarray(values))


def growing(
    group: Any, name: str, dtype: str, tail: tuple[int, ...], chunk: int, attributes: dict[str, str]
) -> Growing:
    """The dataset `name` of a group, made with chunks of `chunk` rows where it is not there yet."""
    key = name.encode()
    if key in group.id:
        return Growing(h5d.open(group.id, key, _access()), tail)
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk((max(chunk, 1), *tail))
    space = h5s.create_simple((0, *tail), (h5s.UNLIMITED, *tail))
    made = h5d.create(group.id, key, h5t.py_create(np.dtype(dtype)), space, properties, dapl=_access())
    for attribute, text in attributes.items():
        label(made, attribute, text)
    return Growing(made, tail)


def _access() -> Any:
    """Appending needs the last chunk only; the default cache of each dataset takes 100 kB."""
    access = h5p.create(h5p.DATASET_ACCESS)
    access.set_chunk_cache(7, 1 << 20, 1.0)
    return access


SORTING: Final = {"none": 0, "by_id": 1, "by_time": 2}
"""How spikes are sorted, as SONATA numbers it."""


def label_sorting(group: Any, name: str) -> None:
    """Give a group of spikes the attribute `sorting`, the enumeration that SONATA demands; one that is there gives
    way."""
    if "sorting" in group.attrs:
        del group.attrs["sorting"]
    group.attrs.create("sorting", SORTING[name], dtype=h5py.enum_dtype(SORTING, basetype="u1"))


def label(place: Any, name: str, text: str) -> None:
    """Give a low-level group or dataset a string attribute."""
    kind = h5t.py_create(h5py.string_dtype(), logical=True)
    attribute = h5a.create(place, name.encode(), kind, h5s.create(h5s.SCALAR))
    attribute.write(np.array(text, dtype=object))
