"""Arrays in files that are larger than memory: some rows at a time, in any order.

Assumes: files that compiler/files/array_files.py reads.
Guarantees: what `take` gives are the numbers that `read_array` gives; rows of .npy, .npz (arrays that are not
compressed) and IDX files are read in place, folders of images are decoded on demand, everything else is converted once
to a file in the cache folder (again when the size or modification time of the source changes).
Does not: map files into memory: the operating system decides how many pages stay, so memory would have no bound.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from compiler.core.cache import is_as_kept, note_file
from compiler.core.disk import new_file
from compiler.files.array_files import HDF5, Header, array_start, hdf5_parts, headers, read_array
from compiler.files.broken import damage_as_value_error
from compiler.files.csv_files import table_parts
from compiler.files.guard import regular
from compiler.files.idx_files import idx_parts, idx_start, is_idx
from compiler.files.image_folders import LABELS, decode, listing, read_images, shape_of
from compiler.files.parquet_files import PARQUET, parquet_parts

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.integer[Any]]

_PART: Final = 1 << 22  # bytes


class Rows(Protocol):
    """An array whose first axis counts samples."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def take(self, rows: Numbers) -> Array:
        """These rows, in this order, in the machine's byte order. Raises OSError, ValueError."""
        ...


class FileRows:
    """An array that is stored in a file as in memory."""

    def __init__(self, path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], start: int) -> None:
        size = path.stat().st_size - start
        wanted = math.prod(shape) * dtype.itemsize
        if size < wanted:
            raise ValueError(f"it holds {size:,} bytes of numbers, not {wanted:,}")
        self.shape, self._dtype, self._start, self._path = shape, dtype, start, path
        self._file = path.open("rb", buffering=0)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def take(self, rows: Numbers) -> Array:
        out = np.empty((len(rows), *self.shape[1:]), self._dtype)
        row = math.prod(self.shape[1:]) * self._dtype.itemsize
        view = out.reshape(-1).view(np.uint8).data
        ends = np.flatnonzero(np.diff(rows, append=-2) != 1) + 1  # of consecutive rows
        first = 0
        for end in ends.tolist():
            self._file.seek(self._start + int(rows[first]) * row)
            part = view[first * row : end * row]
            if self._file.readinto(part) != len(part):
                raise ValueError(f"`{self._path.name}` has become shorter")
            first = end
        return out.astype(self._dtype.newbyteorder("="), copy=False)


class ImageRows:
    """The images of a folder."""

    def __init__(self, folder: Path) -> None:
        self._listed = listing(folder)
        self._image = shape_of(self._listed)
        self.shape = (len(self._listed.files), *self._image)

    def take(self, rows: Numbers) -> Array:
        return decode(self._listed, (int(n) for n in rows), self._image)


class MemoryRows:
    """An array in memory."""

    def __init__(self, array: Array) -> None:
        self.shape, self._array = array.shape, array

    def take(self, rows: Numbers) -> Array:
        return np.asarray(self._array[rows])


class StackedRows:
    """Columns side by side."""

    def __init__(self, columns: list[Rows]) -> None:
        self.shape = (columns[0].shape[0], len(columns))
        self._columns = columns

    def take(self, rows: Numbers) -> Array:
        return np.stack([c.take(rows) for c in self._columns], axis=1)


def open_rows(path: Path, name: str | None, columns: tuple[str, ...], cache: Path) -> Rows:
    """The array `name` of a file, or `columns` of it side by side. Raises OSError, ValueError."""
    if path.is_dir():
        if name == LABELS:
            return MemoryRows(np.array(listing(path).labels, np.int64))
        return ImageRows(path)
    regular(path)
    if columns and path.suffix != ".csv":
        return StackedRows([open_rows(path, c, (), cache) for c in columns])
    with damage_as_value_error():
        stored = None if columns else _flat(path, name)
        if stored is None:
            stored = _flat(converted_file(path, name, columns, cache), None)
    assert stored is not None
    return stored


def header_of(path: Path, name: str | None, columns: tuple[str, ...]) -> Header:
    """Shape and type of the array, or of `columns` side by side. Raises OSError, ValueError."""
    arrays = headers(path)
    if path.suffix == ".csv" and not arrays:  # a table without names
        sizes = [p.shape for p in table_parts(path, None)]
        return Header((sum(n for n, _ in sizes), sizes[0][1] if sizes else 0), "f", "float64")
    missing = next((c for c in columns or (name or "",) if c not in arrays), None)
    if missing is not None:
        raise ValueError(f"it has no array `{missing}`")
    if not columns:
        return arrays[name or ""]
    known = [arrays[c] for c in columns]
    other = next((h for h in known if h.kind not in "fiub"), None)
    dtype = other.dtype if other is not None else str(np.result_type(*(h.dtype for h in known)))
    return Header((*known[0].shape, len(known)), "O" if other is not None else np.dtype(dtype).kind, dtype)


def _flat(path: Path, name: str | None) -> Rows | None:
    """The array in its file; None where its format is not that of memory."""
    if path.suffix == ".npy":
        with path.open("rb") as stream:
            dtype, shape, columns = array_start(stream)
            return None if columns else FileRows(path, dtype, shape, stream.tell())
    if is_idx(path) and path.suffix.lower() != ".gz":
        with path.open("rb") as stream:
            idx_dtype, idx_shape = idx_start(stream)
            return FileRows(path, idx_dtype, idx_shape, stream.tell())
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
            item = archive.getinfo(f"{name}.npy")
            if item.compress_type != zipfile.ZIP_STORED:
                return None
            # The lengths of name and extra field are in the local header, whose extra field may differ.
            stream.seek(item.header_offset + 26)
            lengths = np.frombuffer(stream.read(4), "<u2")
            stream.seek(int(lengths.sum()), os.SEEK_CUR)
            dtype, shape, columns = array_start(stream)
            return None if columns else FileRows(path, dtype, shape, stream.tell())
    return None


def array_parts(path: Path, name: str | None, columns: tuple[str, ...] = ()) -> Iterator[Array]:
    """The array, or `columns` of it side by side, in parts of a few MB (one that is stored by columns in one part).
    Raises OSError, ValueError."""
    with damage_as_value_error():
        if not path.is_dir():
            regular(path)
        yield from _parts(path, name, columns)


def _parts(path: Path, name: str | None, columns: tuple[str, ...]) -> Iterator[Array]:
    if columns and path.suffix != ".csv":
        for group in zip(*(array_parts(path, c) for c in columns), strict=True):
            yield np.stack(group, axis=1)
    elif path.suffix == ".csv":
        parts = table_parts(path, columns or ([name] if name else None))
        yield from (p if columns or not name else p[:, 0] for p in parts)
    elif path.is_dir():
        yield read_images(path, name or "")
    elif (flat := _flat(path, name)) is not None:
        rows = np.arange(flat.shape[0])
        step = max(_PART // max(flat.take(rows[:1]).nbytes, 1), 1)
        yield from (flat.take(rows[k : k + step]) for k in range(0, len(rows), step))
    elif path.suffix == ".npy":
        yield read_array(path, None)
    elif path.suffix == PARQUET:
        yield from parquet_parts(path, name or "")
    elif path.suffix in HDF5:
        yield from hdf5_parts(path, name or "", _PART)
    elif is_idx(path):
        yield from idx_parts(path, _PART)
    else:
        yield from _npz_parts(path, name)


def _npz_parts(path: Path, name: str | None) -> Iterator[Array]:
    headers(path)  # which fit the file
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        dtype, shape, columns = array_start(stream)
        if columns:
            yield np.frombuffer(stream.read(), dtype).reshape(shape, order="F")
            return
        row = math.prod(shape[1:]) * dtype.itemsize
        step = max(_PART // max(row, 1), 1)
        for first in range(0, shape[0], step):
            count = min(step, shape[0] - first)
            yield np.frombuffer(stream.read(count * row), dtype).reshape(count, *shape[1:])


def converted_file(path: Path, name: str | None, columns: tuple[str, ...], cache: Path) -> Path:
    """An .npy file of the cache folder with the same numbers; written if missing."""
    state = path.stat()
    what = (str(path.resolve()), state.st_size, state.st_mtime_ns, name, columns)
    key = hashlib.sha256(repr(what).encode()).hexdigest()[:40]
    place = cache / "arrays" / key[:2] / f"{key}.npy"
    if is_as_kept(place):
        return place
    header = header_of(path, name, columns)
    dtype = np.dtype(header.dtype)
    needed = math.prod(header.shape) * dtype.itemsize
    start = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        start, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": header.shape}
    )
    digest = hashlib.sha256(start.getvalue())
    with new_file(place, f"a copy of `{path}` that can be read in any order", needed) as stream:
        stream.write(start.getvalue())
        for part in array_parts(path, name, columns):
            data = np.ascontiguousarray(part, dtype).tobytes()
            digest.update(data)
            stream.write(data)
    note_file(place, digest.hexdigest())
    return place
