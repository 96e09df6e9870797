"""Arrays in files: .npy, .npz, .csv (a table of numbers, or columns with a line of names), .h5 (HDF5, SONATA), .parquet
(with pyarrow) and IDX (MNIST's own format, `train-images-idx3-ubyte`, compressed or not: compiler/idx_files.py).

Assumes: nothing.
Guarantees: shapes and types come from headers, so that a large file costs nothing (a .csv is read); what is wrong with
a file is a ValueError or OSError with one line of text, never another exception.
Does not: follow pickles, or write.

Names of arrays: an .npz's own; a .csv's columns; in HDF5 the path of a data set ("edges/exc_to_inh/0/weight").
"""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from compiler.idx_files import idx_header, is_idx, read_idx
from compiler.parquet_files import PARQUET, parquet_headers, read_parquet

HDF5: Final = (".h5", ".hdf5")


@dataclass(frozen=True)
class Header:
    """Shape and element type of an array in a file."""

    shape: tuple[int, ...]
    kind: str  # numpy's: "f" real, "i" and "u" whole, "b" truth values, others no numbers
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def _header(stream: IO[bytes]) -> Header:
    version = np.lib.format.read_magic(stream)
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    return Header(tuple(int(n) for n in shape), dtype.kind, str(dtype))


def headers(path: Path) -> dict[str, Header]:
    """The arrays of a file by name, that of a .npy file under "". Raises OSError or ValueError where the file is
    broken."""
    if path.suffix in HDF5:
        return _of_hdf5(path)
    if path.suffix == ".csv":
        found = {name: as_whole(column) for name, column in columns(path).items()}
        return {name: Header(column.shape, column.dtype.kind, str(column.dtype)) for name, column in found.items()}
    if is_idx(path):
        return {"": Header(*idx_header(path))}
    if path.suffix == PARQUET:
        return {name: Header(*found) for name, found in parquet_headers(path).items()}
    try:
        if path.suffix == ".npy":
            with path.open("rb") as stream:
                return {"": _header(stream)}
        with zipfile.ZipFile(path) as archive:
            out: dict[str, Header] = {}
            for name in archive.namelist():
                if name.endswith(".npy"):
                    with archive.open(name) as stream:
                        out[name.removesuffix(".npy")] = _header(stream)
            return out
    except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise ValueError(str(error)) from None


def _of_hdf5(path: Path) -> dict[str, Header]:
    import h5py

    found: dict[str, Header] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            found[name] = Header(tuple(int(n) for n in item.shape), item.dtype.kind, str(item.dtype))

    with _opened(path) as file:
        file.visititems(visit)
    return found


def _opened(path: Path) -> Any:
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:  # the library's text goes over several lines and names its own functions
        raise ValueError("it is not an HDF5 file") from error


def columns(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """The columns of a .csv file whose first line names them; {} when it holds numbers alone."""
    with path.open(encoding="utf-8") as stream:
        first = stream.readline()
    names = [n.strip().strip('"') for n in first.strip().split(",")]
    if all(_is_number(n) for n in names):
        return {}
    data = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    if data.size == 0:
        data = np.zeros((0, len(names)))
    if data.shape[1] != len(names):
        raise ValueError(f"its first line names {len(names)} columns, the others have {data.shape[1]}")
    return {name: np.ascontiguousarray(data[:, k]) for k, name in enumerate(names)}


def as_whole(column: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """The column as int64 when all of its numbers are whole: labels are told from measurements."""
    if column.size and bool(np.all(np.abs(column) < 2**53)) and bool(np.all(column == np.floor(column))):
        return column.astype(np.int64)
    return column


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_array(path: Path, name: str | None) -> npt.NDArray[Any]:
    """The array itself. Raises OSError or ValueError."""
    if path.suffix == ".csv":
        if name is None:
            return np.loadtxt(path, delimiter=",", ndmin=1)
        found = columns(path).get(name)
        if found is None:
            raise ValueError(f"it has no column `{name}`")
        return as_whole(found)
    if is_idx(path):
        return read_idx(path)
    if path.suffix == PARQUET:
        return read_parquet(path, name or "")
    if path.suffix in HDF5:
        import h5py

        with _opened(path) as file:
            item = file.get(name or "")
            if not isinstance(item, h5py.Dataset):
                raise ValueError(f"it has no data set `{name}`")
            return np.asarray(item)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return np.asarray(loaded[name or ""])
    except (KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from None
