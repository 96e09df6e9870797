"""Samples of a caller as a file that the runner reads.

Assumes: arrays by input, a pair of them (training, validation) or an iterator over batches.
Guarantees: files that lie in the given folder and are read in place (arrays of an .npz without compression); an
iterator is written batch after batch, so that no more than one batch is held.
Does not: compare arrays with a network (compiler/runtime/common/samples.py).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.lib.format as npy
import numpy.typing as npt

from compiler.core.diagnostics import RunError

Arrays = Mapping[str, npt.ArrayLike]
Batches = Iterable[Arrays]


@dataclass(frozen=True)
class Written:
    """`last`: how many of the samples, at the end, are for validation."""

    path: Path
    last: int


def write_samples(data: Arrays | Batches, validation: Arrays | None, folder: Path) -> Written:
    """Write the samples, those for validation last. Raises RunError (E0912, E0917; exit 2)."""
    path = folder / "samples.npz"
    if isinstance(data, Mapping):
        parts = [_arrays(data, "the data")]
        last = 0
        if validation is not None:
            held = _arrays(validation, "`validation`")
            parts.append({name: held[name] for name in _same(parts[0], held)})
            last = min((len(a) for a in held.values()), default=0)
        _one_length(parts)
        whole: dict[str, Any] = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        np.savez(path, **whole)
        return Written(path, last)
    if not isinstance(data, Iterable):
        message = f"`data` is arrays by input, or an iterable of batches of them, not {type(data).__name__}"
        raise RunError("E0912", message)
    if validation is not None:
        data = _chained(data, _arrays(validation, "`validation`"))
    counts = _spool(data, path)
    last = 0 if validation is None else len(next(iter(_arrays(validation, "`validation`").values())))
    if not counts:
        raise RunError("E0917", "the iterator gave no batch")
    return Written(path, last)


def _chained(batches: Batches, held: Mapping[str, npt.NDArray[Any]]) -> Iterator[Arrays]:
    yield from batches
    yield held


def _arrays(given: Arrays, what: str) -> dict[str, npt.NDArray[Any]]:
    if not isinstance(given, Mapping):
        raise RunError("E0912", f"{what} must be arrays by input, such as {{'image': x}}, not {type(given).__name__}")
    out: dict[str, npt.NDArray[Any]] = {}
    for name, values in given.items():
        try:
            array = np.asarray(values)
        except (ValueError, TypeError) as error:
            raise RunError("E0917", f"`{name}` of {what} is no array: {error}") from None
        if array.dtype == object or array.ndim == 0:
            message = f"`{name}` of {what} is no array of numbers with one entry per sample"
            raise RunError("E0917", message, "all samples have the same shape")
        out[str(name)] = array
    return out


def _one_length(parts: Iterable[Mapping[str, npt.NDArray[Any]]]) -> None:
    for part in parts:
        lengths = {name: len(a) for name, a in part.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{n} of `{k}`" for k, n in lengths.items())
            raise RunError("E0917", f"the arrays have different numbers of samples: {listed}")


def _same(first: Mapping[str, npt.NDArray[Any]], other: Mapping[str, npt.NDArray[Any]]) -> tuple[str, ...]:
    """The names, which both have, with samples of one shape."""
    for name in (*first, *other):
        if name not in first or name not in other:
            where = "`validation`" if name in first else "the data"
            raise RunError("E0917", f"{where} has no array `{name}`")
        if first[name].shape[1:] != other[name].shape[1:]:
            message = f"`{name}` has samples of shape {list(first[name].shape[1:])}, "
            raise RunError("E0917", message + f"those for validation {list(other[name].shape[1:])}")
    return tuple(first)


def _spool(batches: Batches, path: Path) -> int:
    """Write the arrays of all batches, one after the other; the number of samples."""
    files: dict[str, Path] = {}
    kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    count = 0
    for batch in batches:
        arrays = _arrays(batch, "a batch")
        if not kinds:
            kinds = {n: (a.dtype, a.shape[1:]) for n, a in arrays.items()}
            files = {n: path.parent / f"part-{k}" for k, n in enumerate(kinds)}
        sizes = {len(a) for a in arrays.values()}
        if arrays.keys() != kinds.keys() or len(sizes) != 1:
            raise RunError("E0917", "the batches of an iterator must hold the same arrays, of one length in a batch")
        for name, array in arrays.items():
            dtype, shape = kinds[name]
            if array.shape[1:] != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
                message = f"`{name}` of a later batch has samples of shape {list(array.shape[1:])} ({array.dtype}), "
                raise RunError("E0917", message + f"the first one {list(shape)} ({dtype})")
            with files[name].open("ab") as stream:
                stream.write(np.ascontiguousarray(array, dtype).tobytes())
        count += sizes.pop()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, (dtype, shape) in kinds.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out, files[name].open("rb") as stream:
                header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": (count, *shape)}
                npy.write_array_header_2_0(out, header)
                while block := stream.read(1 << 24):
                    out.write(block)
            files[name].unlink()
    return count
