"""Guards against special files and decompression bombs.

Assumes: nothing.
Guarantees: `regular` neither reads nor blocks; it refuses with a ValueError with one line of text.
Does not: know what fits into memory (compiler/runtime/resources/room.py).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_TIMES: Final = 200
"""The largest ratio of an array's bytes in memory to those in its file, beyond SMALL. Deflate reaches 1,030 with
zeros; measurements and images stay below 20."""

SMALL: Final = 1 << 29

_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def special(path: Path) -> str | None:
    """The kind of `path` if it is neither a file nor a folder: "a named pipe", "a device", "a socket"; None also
    where nothing is there."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), None)


def regular(path: Path) -> int:
    """The bytes of a file that has an end. Raises ValueError for a pipe, a device or a socket, OSError for a folder
    and where nothing is there."""
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = special(path)
    if kind is not None:
        raise ValueError(f"it is {kind}, not a file")
    return status.st_size


def expands(stored: int, wanted: int) -> None:
    """Raises ValueError where the compression ratio of `stored` bytes is implausible."""
    if wanted > max(SMALL, MOST_TIMES * stored):
        raise ValueError(
            f"{stored:,} bytes of it would become {wanted:,}, more than {MOST_TIMES} times as many: store the array "
            "without compression if that is right"
        )
