"""Data files referenced by a model: existence and contents.

Assumes: the formats of compiler/files/array_files.py.
Guarantees: shapes and types are read from headers, so that the cost is independent of the file size; a problem with a
file is an error at the span that references it, never an exception.
Does not: load pickles.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import did_you_mean
from compiler.core.source import Span
from compiler.files.array_files import HDF5, Header, headers, read_array
from compiler.files.guard import special
from compiler.frontend.build.shared.values import Context
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar


def locate(file: Scalar, c: Context, folder: bool = False) -> Path | None:
    """The file (or folder) `file`, relative to the model's folder; None (E0701) when it does not exist."""
    path = c.folder / file.text
    near, other, leads = None, False, None
    with suppress(OSError, ValueError):  # a name may be too long, or hold a zero byte
        if path.is_dir() if folder else path.is_file():
            return path.resolve()
        other = path.is_file() if folder else path.is_dir()
        beside = [p for p in path.parent.iterdir() if p.is_dir() == folder] if path.parent.is_dir() else []
        alike = [p.name for p in beside if p != path and p.suffix == path.suffix]
        others = [p.name for p in beside if p.stem == path.stem]  # of another kind
        near = None if other else did_you_mean(path.name, alike) or did_you_mean(path.name, others)
        leads = os.readlink(path) if path.is_symlink() and not path.exists() else None
    is_other = "is a file, not a folder" if folder else "is a directory, not a file"
    kind = special(path)
    what = is_other if other else f"is {kind}, not a file" if kind else "does not exist"
    help = near or "paths count from the folder of the model file"
    if leads is not None:
        what, help = "is a link that leads nowhere", f"it names `{leads}`"
    c.sink.error("E0701", f"the {'folder' if folder else 'file'} `{file.text}` {what}", file.span, help)
    return None


def arrays_of(path: Path, file: Scalar, c: Context) -> dict[str, Header] | None:
    """The headers of a file's arrays, with an error (E0703) where it is corrupt."""
    try:
        return headers(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        c.sink.error("E0703", f"`{file.text}` cannot be read: {reason[:120]}", file.span)
        return None


def numbers_of(value: l0.FromFile, at: Span, c: Context) -> npt.NDArray[np.float64] | None:
    """The numbers of an array as they stand in the file; None with an error (E0703) at `at`."""
    try:
        return np.asarray(read_array(Path(value.path), value.array), np.float64)
    except (OSError, ValueError, TypeError) as error:
        c.sink.error("E0703", f"the array cannot be read: {error}", at)
        return None


def named_arrays(file: Scalar, one: str, help: str, c: Context) -> tuple[Path, dict[str, Header]] | None:
    """Path and headers of a file of named arrays; None after an error. `one`, `help`: what is wrong with any other file
    (E0703)."""
    path = locate(file, c)
    if path is None:
        return None
    if path.suffix not in (".npz", ".csv", *HDF5):
        c.sink.error("E0703", f"`{file.text}` {one}", file.span, help)
        return None
    found = arrays_of(path, file, c)
    return None if found is None else (path, found)


def pick(found: dict[str, Header], name: str, span: Span, file: Scalar, c: Context) -> Header | None:
    """The array `name`; E0702 when there is none."""
    if name in found:
        return found[name]
    if "" in found:
        message, help = f"`{file.text}` holds one array, which has no name", "an `.npz` file holds several, with names"
        c.sink.error("E0702", message, span, help)
        return None
    known = ", ".join(f"`{n}`" for n in list(found)[:12])
    help = did_you_mean(name, found) or (f"it has {known}" if known else "it has none")
    csv = file.text.endswith(".csv")
    if csv and not found:
        help = "its first line has no names; leave `array` out to use the whole table"
    what = "column" if csv else "data set" if file.text.endswith(HDF5) else "array"
    c.sink.error("E0702", f"`{file.text}` has no {what} `{name}`", span, help)
    return None


def check_array(node: tree.Mapping, c: Context) -> tuple[Path, str | None, Header | None] | None:
    """Path, name and header (None for .csv) of `{file: ..., array: ...}`; None after an error."""
    file, array, sha256 = node.get("file"), node.get("array"), node.get("sha256")
    if not isinstance(file, Scalar):
        return None
    path = locate(file, c)
    if path is None:
        return None
    if isinstance(sha256, Scalar) and not _has_sum(path, sha256, file, c):
        return None
    if path.suffix == ".csv" and array is None:
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
        c.sink.error("E0703", f"the array holds {header.held}, not numbers", at)
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
