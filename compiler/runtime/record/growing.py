"""HDF5 datasets that grow along their first axis, through h5py's faster low-level interface.

On a full disk HDF5 neither closes a file nor, at the end, itself: the interpreter crashes. So free space is checked
before every write, and when writing fails anyway (a quota, another process that fills the disk) the file is closed into
memory that is discarded.

Assumes: one writer.
Guarantees: a file of 10,000 populations takes seconds, not minutes: datasets share their creation properties, small
ones have small chunks. Files are of HDF5 1.10's format. A published file is consistent at any moment: it can be read
(SWMR) while it is written, and after the writer has been killed, up to the last flush.
A file has another name until it is published, so that one of its own name is complete, whenever the writer is killed.
Does not: read (h5py does).
"""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5f, h5i, h5p, h5s, h5t

from compiler.core.diagnostics import RunError
from compiler.core.disk import UNWRITABLE, free_bytes, unwritable

FORMAT: Final = ("v110", "v110")
MARGIN: Final = 1 << 20
"""Bytes that are kept free for HDF5's unwritten data and the end of a run."""
RECORDING: Final = "the recording"
METADATA: Final = 1 << 20
"""Bytes of HDF5's cache of metadata: closing a file takes time quadratic in the cached metadata of published
datasets."""


PART: Final = ".part"
"""What the name of a file ends with until it is published."""


def open_file(path: Path) -> Any:
    """The file at `path` for writing, which has that name once it is published; one that is there is continued. Raises
    RunError (E0930)."""
    with recording(path):
        there = path.exists()
        require_room(path, path.stat().st_size if there else 0, 0)
        file = h5py.File(path, "a", libver=FORMAT) if there else h5py.File(f"{path}{PART}", "w", libver=FORMAT)
    config = file.id.get_mdc_config()
    config.set_initial_size = True
    config.initial_size = config.min_size = config.max_size = METADATA
    file.id.set_mdc_config(config)
    return file


def require(file: Any, count: int) -> None:
    """Check that `count` more bytes fit into a file (a low-level FileID). Raises RunError (E0930)."""
    require_room(_path(h5f.get_name(file)), file.get_filesize(), count)


def _path(name: str | bytes) -> Path:
    """The path that a file has, or will have."""
    return Path(os.fsdecode(name).removesuffix(PART))


def require_room(path: Path, size: int, count: int) -> None:
    free = free_bytes(path)
    error = 0
    if free is not None and free < count + MARGIN:
        error = errno.ENOSPC
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and size + count + MARGIN > limit:
        error = errno.EFBIG
    if error:
        raise unwritable(OSError(error, os.strerror(error)), path, RECORDING, count + MARGIN)


@contextmanager
def recording(path: Path) -> Iterator[None]:
    """A context for code that writes records to `path`, a file or the folder of a run: write errors of HDF5 become a
    RunError (E0930)."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # whichever it raises, HDF5 has errno in its message
        match = re.search(r"errno = (\d+)", str(error))
        number = int(match[1]) if match else getattr(error, "errno", None)
        if number not in UNWRITABLE and not (isinstance(error, OSError) and match):
            raise
        raise unwritable(OSError(number, os.strerror(number or 0)), path, RECORDING) from error


def close_file(file: Any, datasets: Sequence[Growing] = ()) -> None:
    """Close a file and its datasets, in any case. Data that cannot be written are lost; a file that is unreadable
    afterwards is removed. Raises RunError (E0930)."""
    if not file:
        return
    path = _path(file.filename)
    try:
        with recording(path):
            flush(datasets)
            for data in datasets:
                data.close()
            file.flush()
            file.close()
    except RunError:
        _close_into_nothing(file, datasets)
        if not _readable(path):
            path.unlink(missing_ok=True)
            Path(f"{path}{PART}").unlink(missing_ok=True)
        raise


def _close_into_nothing(file: Any, datasets: Sequence[Growing]) -> None:
    """Close a file that cannot be written. The limit on file sizes also applies to memfd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if hasattr(os, "memfd_create"):
        nothing, fd = os.memfd_create("netloom"), file.id.get_vfd_handle()
        os.ftruncate(nothing, os.fstat(fd).st_size)
        os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)
    for data in datasets:
        data.close()
    with suppress(OSError, RuntimeError):
        file.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _readable(path: Path) -> bool:
    for swmr in (False, True):
        with suppress(OSError, RuntimeError, KeyError), h5py.File(path, "r", swmr=swmr) as file:
            file.visit(lambda _: None)
            return True
    return False


def publish(file: Any) -> None:
    """Start SWMR: from now on only rows are appended. The file gets its name."""
    file.swmr_mode = True
    if file.filename.endswith(PART):
        path = _path(file.filename)
        with recording(path):
            Path(file.filename).replace(path)


def flush(datasets: Iterable[Growing]) -> None:
    """Let a reader see all rows. (Flushing a whole published file takes time quadratic in its datasets.)"""
    for data in datasets:
        data.flush()


class Growing:
    """A dataset (rows, *tail). `rows` is its length."""

    def __init__(self, dataset: Any, tail: tuple[int, ...]) -> None:
        self._id, self._tail = dataset, tail
        self.rows: int = dataset.shape[0]
        self._flushed = self.rows

    def flush(self) -> None:
        """Let a reader see all rows."""
        if self._flushed != self.rows:
            self._id.flush()
            self._flushed = self.rows

    def close(self) -> None:
        """Release the dataset."""
        self._id = None

    def append(self, values: npt.NDArray[Any]) -> None:
        """Append rows of the dataset's type."""
        count, start = len(values), self.rows
        if count == 0:
            return
        require(h5i.get_file_id(self._id), values.nbytes)
        self.rows = start + count
        self._id.set_extent((self.rows, *self._tail))
        place = self._id.get_space()
        place.select_hyperslab((start, *(0 for _ in self._tail)), (count, *self._tail))
        memory = h5s.create_simple((count, *self._tail))
        self._id.write(memory, place, np.ascontiguousarray(values))


def growing(
    group: Any, name: str, dtype: str, tail: tuple[int, ...], chunk: int, attributes: dict[str, str]
) -> Growing:
    """The dataset `name` of a group, created with chunks of `chunk` rows if missing."""
    key = name.encode()
    if key in group.id:
        return Growing(h5d.open(group.id, key, _access()), tail)
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_chunk((max(chunk, 1), *(max(n, 1) for n in tail)))
    space = h5s.create_simple((0, *tail), (h5s.UNLIMITED, *tail))
    made = h5d.create(group.id, key, h5t.py_create(np.dtype(dtype)), space, properties, dapl=_access())
    for attribute, text in attributes.items():
        label(made, attribute, text)
    return Growing(made, tail)


class RecordFile:
    """A file of records that is open for writing; one that is there is continued. Raises RunError (E0930)."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = open_file(path)

    def read(self, name: str) -> npt.NDArray[Any]:
        """All rows of a dataset so far. Raises KeyError."""
        self.flush()
        values: npt.NDArray[Any] = self._file[name][...]
        return values

    def _datasets(self) -> list[Growing]:
        raise NotImplementedError

    @property
    def rows(self) -> list[int]:
        """The lengths of the datasets that a run which goes on begins with."""
        return [data.rows for data in self._datasets()]

    def flush(self) -> None:
        """Let a reader see all that was drained."""
        flush(self._datasets())

    def sync(self) -> None:
        """Flush as far as the disk."""
        flush(self._datasets())
        os.fsync(self._file.id.get_vfd_handle())

    def close(self) -> None:
        close_file(self._file, self._datasets())


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
