"""Data files that a model names: whether they are there, and what they hold.

Assumes: numpy's formats (.npy, .npz) and .csv.
Guarantees: shapes and types are read from headers, so that a large file costs nothing; what is
wrong with a file is an error at the place that names it, never an exception.
Does not: follow pickles.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from compiler.diagnostics import did_you_mean
from compiler.frontend.tree import Node, Scalar
from compiler.frontend.values import Context
from compiler.source import Span


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
    """The arrays of a .npz file by name, or that of a .npy file under "". Raises OSError or
    ValueError where the file is none."""
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


def locate(file: Scalar, c: Context) -> Path | None:
    """The file that `file` names, counted from the model's folder; None (E0701) when it is not
    there."""
    path = c.folder / file.text
    try:
        if path.is_file():
            return path.resolve()
        directory = path.is_dir()
        near = None if directory else did_you_mean(path.name, _names_in(path.parent))
    except (OSError, ValueError):
        directory, near = False, None
    what = "is a directory, not a file" if directory else "does not exist"
    help = near or "paths count from the folder of the model file"
    c.sink.error("E0701", f"the file `{file.text}` {what}", file.span, help)
    return None


def _names_in(folder: Path) -> list[str]:
    return [p.name for p in folder.iterdir()] if folder.is_dir() else []


def arrays_of(path: Path, file: Scalar, c: Context) -> dict[str, Header] | None:
    """The headers of a .npy or .npz file, with an error (E0703) where it is broken."""
    try:
        return headers(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        c.sink.error("E0703", f"`{file.text}` cannot be read: {reason[:120]}", file.span)
        return None


def pick(found: dict[str, Header], name: str, span: Span, file: Scalar, c: Context) -> Header | None:
    """The array `name`; E0702 when there is none."""
    if name in found:
        return found[name]
    known = ", ".join(f"`{n}`" for n in list(found)[:12])
    help = did_you_mean(name, found) or (f"it has {known}" if known else "it has none")
    c.sink.error("E0702", f"`{file.text}` has no array `{name}`", span, help)
    return None


def check_array(
    file: Scalar, array: Node | None, sha256: Node | None, c: Context
) -> tuple[Path, str | None, Header | None] | None:
    """Path, name and header (None for .csv) of one array in a file; None after an error."""
    path = locate(file, c)
    if path is None:
        return None
    if isinstance(sha256, Scalar) and not _has_sum(path, sha256, file, c):
        return None
    if path.suffix == ".csv":
        if array is not None:
            c.sink.error("E0702", "a .csv file has no named arrays", array.span, "leave `array` out")
            return None
        return path, None, None
    found = arrays_of(path, file, c)
    if found is None:
        return None
    name: str | None = array.text if isinstance(array, Scalar) else None
    if path.suffix == ".npy":
        if name is not None and array is not None:
            c.sink.error("E0702", "a .npy file has no named arrays", array.span, "leave `array` out")
            return None
        header: Header | None = found[""]
    elif name is None:
        if len(found) != 1:
            known = ", ".join(f"`{n}`" for n in list(found)[:12]) or "none"
            message = f"say which array of `{file.text}` is meant"
            c.sink.error("E0702", message, file.span, f"write `array: ...`; it has {known}")
            return None
        name, header = next(iter(found.items()))
    else:
        header = pick(found, name, array.span if array is not None else file.span, file, c)
    if header is None:
        return None
    if header.kind not in "fiub":
        at = array.span if array is not None else file.span
        c.sink.error("E0703", f"the array holds {header.dtype}, not numbers", at)
        return None
    return path, name, header


def _has_sum(path: Path, sha256: Scalar, file: Scalar, c: Context) -> bool:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest == sha256.text:
        return True
    message = f"`{file.text}` is not the file that the model was written for: its SHA-256 sum differs"
    c.sink.error("E0704", message, sha256.span, f"it is {digest}")
    return False


def read_array(path: Path, name: str | None) -> npt.NDArray[Any]:
    """The array itself. Raises OSError or ValueError."""
    if path.suffix == ".csv":
        return np.loadtxt(path, delimiter=",", ndmin=1)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return np.asarray(loaded[name or ""])
    except (KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from None
