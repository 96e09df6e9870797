"""Files that can be read to their end, and arrays that are what their file can hold.

Assumes: nothing.
Guarantees: `regular` reads nothing and waits for nothing; what it refuses is a ValueError with one line of text.
Does not: say what the machine has room for (compiler/runtime/resources/room.py).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

MOST_TIMES: Final = 200
"""How many times its bytes in the file an array may take in memory, beyond SMALL. Deflate reaches 1,030 with zeros;
measurements and images stay below 20."""

SMALL: Final = 1 << 29

_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def special(path: Path) -> str | None:
    """What `path` is if it is neither a file nor a folder: "a named pipe", "a device", "a socket"; None also where
    nothing is there."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    return next((kind for test, kind in _KINDS if test(mode)), None)


def regular(path: Path) -> int:
    """The bytes of a file that has an end. Raises ValueError for a pipe, a device or a socket, OSError for a folder
    and where nothing is there."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    kind = special(path)
    if kind is not None:
        raise ValueError(f"it is {kind}, not a file")
    return found.st_size


def expands(stored: int, wanted: int) -> None:
    """Raises ValueError where `stored` bytes of a file are to become so many more bytes that they hold no data."""
    if wanted > max(SMALL, MOST_TIMES * stored):
        raise ValueError(
            f"{stored:,} bytes of it would become {wanted:,}, more than {MOST_TIMES} times as many: store the array "
            "without compression if that is right"
        )
