"""Arrays in files: .npy, .npz, .csv (a table of numbers, or columns with a line of names), .h5 (HDF5, SONATA), .parquet
(with pyarrow), IDX (MNIST's own format, `train-images-idx3-ubyte`, compressed or not: compiler/files/idx_files.py), and
folders of images (with Pillow: compiler/files/image_folders.py).

Assumes: nothing.
Guarantees: shapes and types come from headers, so that a large file costs nothing (a .csv is read); what is wrong with
a file is a ValueError or OSError with one line of text, never another exception.
Does not: follow pickles, or write.

Names of arrays: an .npz's own; a .csv's columns; in HDF5 the path of a data set ("edges/exc_to_inh/0/weight"); of a
folder of images `images` and `labels`.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from compiler.files.broken import damage_as_value_error
from compiler.files.csv_files import csv_headers, read_columns, read_table
from compiler.files.guard import expands, regular
from compiler.files.idx_files import idx_header, is_idx, read_idx
from compiler.files.image_folders import image_headers, read_images
from compiler.files.parquet_files import PARQUET, parquet_headers, read_parquet

HDF5: Final = (".h5", ".hdf5")


@dataclass(frozen=True)
class Header:
    """Shape and element type of an array in a file."""

    shape: tuple[int, ...]
    kind: str  # numpy's: "f" float, "i" and "u" integer, "b" bool; others are not numbers
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def held(self) -> str:
        """The elements in words, as a message names them."""
        return "text" if self.kind in "US" else "Python objects" if self.dtype == "object" else self.dtype


def array_start(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Type and shape of the array of an .npy file, and whether it is stored by columns; the numbers follow."""
    version = np.lib.format.read_magic(stream)
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns, dtype = read(stream)
    return dtype, tuple(int(n) for n in shape), bool(columns)


def _header(stream: IO[bytes], size: int, stored: int) -> Header:
    """`size`: bytes of the .npy file, `stored`: its bytes in an archive. Raises ValueError where the numbers do not
    fit into it."""
    dtype, shape, _ = array_start(stream)
    wanted = math.prod(shape) * dtype.itemsize
    if dtype.hasobject is False and wanted > size:
        raise ValueError(f"it holds {size:,} bytes of numbers, not {wanted:,}")
    expands(stored, wanted)
    return Header(shape, dtype.kind, str(dtype))


def headers(path: Path) -> dict[str, Header]:
    """The arrays of a file by name, that of a .npy file under "". Raises OSError or ValueError where the file is
    broken."""
    with damage_as_value_error():
        return _headers(path)


def _headers(path: Path) -> dict[str, Header]:
    if path.is_dir():
        return {name: Header(*header) for name, header in image_headers(path).items()}
    size = regular(path)
    if not size:
        raise ValueError("it is empty")
    if path.suffix in HDF5:
        return _of_hdf5(path)
    if path.suffix == ".csv":
        return {name: Header(*header) for name, header in csv_headers(path).items()}
    if is_idx(path):
        return {"": Header(*idx_header(path))}
    if path.suffix == PARQUET:
        return {name: Header(*header) for name, header in parquet_headers(path).items()}
    if path.suffix == ".npy":
        with path.open("rb") as stream:
            return {"": _header(stream, size, size)}
    if path.suffix != ".npz" and not zipfile.is_zipfile(path):
        raise ValueError("known formats are .npz, .npy, .csv, .h5, .hdf5 and .parquet, and IDX")
    with zipfile.ZipFile(path) as archive:
        out: dict[str, Header] = {}
        for item in archive.infolist():
            if item.filename.endswith(".npy"):
                with archive.open(item) as stream:
                    header = _header(stream, item.file_size, item.compress_size)
                    out[item.filename.removesuffix(".npy")] = header
        return out


def _of_hdf5(path: Path) -> dict[str, Header]:
    import h5py

    arrays: dict[str, Header] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            _stored(item)
            arrays[name] = Header(tuple(int(n) for n in item.shape), item.dtype.kind, str(item.dtype))

    with _opened(path) as file:
        file.visititems(visit)
    return arrays


def _stored(item: Any) -> None:
    """Raises ValueError for a dataset that is larger than its data in the file."""
    if item.dtype.kind in "fiub":
        expands(item.id.get_storage_size(), item.size * item.dtype.itemsize)


def _opened(path: Path) -> Any:
    import h5py

    regular(path)

    try:
        return h5py.File(path, "r")
    except OSError as error:  # the library's message has several lines and names its own functions
        raise ValueError("it is not an HDF5 file") from error


def hdf5_parts(path: Path, name: str, size: int | None) -> Iterator[npt.NDArray[Any]]:
    """A data set in parts of about so many bytes (None: in one). Raises OSError, ValueError."""
    import h5py

    with _opened(path) as file:
        item = file.get(name)
        if not isinstance(item, h5py.Dataset):
            raise ValueError(f"it has no data set `{name}`")
        _stored(item)
        if size is None:
            yield np.asarray(item)
            return
        step = max(size // max(item.nbytes // max(len(item), 1), 1), 1)
        for first in range(0, len(item), step):
            yield item[first : first + step]


def hdf5_text(path: Path, name: str, attribute: str) -> str | None:
    """An attribute of a data set as text; None where it has none. Raises OSError, ValueError."""
    with _opened(path) as file:
        item = file.get(name)
        value = None if item is None else item.attrs.get(attribute)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def read_array(path: Path, name: str | None) -> npt.NDArray[Any]:
    """The array itself. Raises OSError or ValueError."""
    with damage_as_value_error():
        return _array(path, name)


def _array(path: Path, name: str | None) -> npt.NDArray[Any]:
    if path.is_dir():
        return read_images(path, name or "")
    regular(path)
    if path.suffix == ".csv":
        return read_table(path) if name is None else read_columns(path, [name])[:, 0]
    if is_idx(path):
        return read_idx(path)
    if path.suffix == PARQUET:
        return read_parquet(path, name or "")
    if path.suffix in HDF5:
        return next(hdf5_parts(path, name or "", None))
    _headers(path)  # they fit the file
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return np.asarray(loaded[name or ""])
