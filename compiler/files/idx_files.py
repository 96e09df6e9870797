"""IDX files, the format of MNIST (LeCun, Cortes & Burges: two zero bytes, the element type, the number of axes, the
extents, the numbers; all big-endian), compressed by gzip or not.

Assumes: names as those files have: `train-images-idx3-ubyte`, `labels.idx.gz`.
Guarantees: a broken file is a ValueError or OSError with one line of text.
Does not: write.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import numpy.typing as npt

from compiler.files.guard import expands, regular

_NAME: Final = re.compile(r"(^|.*[-._])idx\d?(-\w+)?(\.gz)?$", re.IGNORECASE)
_TYPES: Final = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def is_idx(path: Path) -> bool:
    """Whether the name is that of an IDX file."""
    return _NAME.match(path.name) is not None


def _open(path: Path) -> IO[bytes]:
    regular(path)
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


def idx_start(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape; the numbers follow. Raises ValueError."""
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES:
        raise ValueError("it is not an IDX file")
    extents = stream.read(4 * head[3])
    if len(extents) < 4 * head[3]:
        raise ValueError("it ends within its header")
    return np.dtype(_TYPES[head[2]]), tuple(int(n) for n in np.frombuffer(extents, ">u4"))


def _start(stream: IO[bytes], path: Path) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """As idx_start, with a ValueError for numbers that the file cannot hold."""
    dtype, shape = idx_start(stream)
    wanted, size = math.prod(shape) * dtype.itemsize, regular(path)
    if path.suffix.lower() == ".gz":
        expands(size, wanted)
    elif wanted > size:
        raise ValueError(f"it holds {size:,} bytes of numbers, not {wanted:,}")
    return dtype, shape


def idx_header(path: Path) -> tuple[tuple[int, ...], str, str]:
    """Shape, kind and type of the elements. Raises OSError, ValueError."""
    try:
        with _open(path) as stream:
            dtype, shape = _start(stream, path)
    except (EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None
    return shape, dtype.kind, str(dtype.newbyteorder("="))


def read_idx(path: Path) -> npt.NDArray[Any]:
    """The array, in the machine's byte order. Raises OSError, ValueError."""
    parts = list(idx_parts(path, None))
    return parts[0]


def idx_parts(path: Path, size: int | None) -> Iterator[npt.NDArray[Any]]:
    """The array in parts of about so many bytes (None: in one), in the machine's byte order. Raises OSError,
    ValueError."""
    try:
        with _open(path) as stream:
            dtype, shape = _start(stream, path)
            row = math.prod(shape[1:]) * dtype.itemsize
            count = shape[0] if shape else 1
            step = max(count, 1) if size is None else max(size // max(row, 1), 1)
            done = 0
            for first in range(0, max(count, 1), step):
                rows = min(step, count - first)
                raw = stream.read(rows * row)
                done += len(raw)
                if len(raw) != rows * row:
                    raise ValueError(f"it holds {done:,} bytes of numbers, not {count * row:,}")
                yield np.frombuffer(raw, dtype).astype(dtype.newbyteorder("=")).reshape(rows, *shape[1:])
            if stream.read(1):
                raise ValueError(f"it holds more than {done:,} bytes of numbers")
    except (EOFError, zlib.error) as error:
        raise ValueError(str(error)) from None
