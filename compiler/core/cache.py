"""The cache on disk: compiled code, measurements, converted files.

An entry is a small JSON file, the index, that names the files of the entry by their digests. Files are written first,
under names that hold the digest, then the index: several processes may keep the same entry at once, and a reader of the
index always gets the files that it was written with.

Assumes: compiler/core/disk.py.
Guarantees: one folder per user, or the one that $NETLOOM_CACHE names; an entry that is altered, truncated or missing is
a miss.
Does not: create or clean the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from compiler.core.diagnostics import RunError
from compiler.core.disk import copy_file, write_text

WHAT: Final = "a file of the cache"


def cache_folder() -> Path:
    """$NETLOOM_CACHE, or the platform's folder for caches."""
    if given := os.environ.get("NETLOOM_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "netloom"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netloom"


def file_digest(path: Path) -> str | None:
    """The SHA-256 of a file, in hexadecimal; None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


# ------------------------------------------------------------------------------------------- values


def keep_value(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON object with its digest. Raises RunError (E0930)."""
    write_text(path, json.dumps({"digest": _value_digest(value), "value": value}) + "\n", WHAT)


def find_value(path: Path) -> dict[str, Any] | None:
    """The object that `keep_value` wrote; None when it is missing or damaged."""
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("value"), dict):
        return None
    value: dict[str, Any] = entry["value"]
    return value if entry.get("digest") == _value_digest(value) else None


def _value_digest(value: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# -------------------------------------------------------------------------------------------- files


def keep_files(index: Path, files: Mapping[str, Path]) -> dict[str, Path]:
    """Copy finished files, by suffix, into the cache as the entry `index`; returns their paths: beside the index,
    with one stem. Raises RunError (E0930)."""
    digests = {suffix: file_digest(path) or "" for suffix, path in files.items()}
    stem = _stem(index, digests)
    placed = {suffix: index.with_name(f"{stem}{suffix}") for suffix in files}
    for suffix, path in files.items():
        copy_file(path, placed[suffix], WHAT)
    keep_value(index, {"files": digests})
    return placed


def find_files(index: Path) -> dict[str, Path] | None:
    """The files of an entry by suffix; None when the entry is missing, or one of them is damaged."""
    entry = find_value(index)
    digests = entry.get("files") if entry is not None else None
    if not isinstance(digests, dict):
        return None
    stem = _stem(index, digests)
    placed = {str(suffix): index.with_name(f"{stem}{suffix}") for suffix in digests}
    return placed if all(file_digest(placed[s]) == d for s, d in digests.items()) else None


def note_file(path: Path, digest: str) -> None:
    """Write the SHA-256 and the state on disk of a large file into the JSON file beside it. Raises RunError (E0930)."""
    keep_value(path.with_suffix(".json"), {"digest": digest, "state": state_of(path)})


def is_as_kept(path: Path) -> bool:
    """Whether a large file is unchanged since `note_file`. It is read only when its size, times or inode differ from
    those in the note."""
    noted = find_value(path.with_suffix(".json"))
    if noted is None or not path.is_file():
        return False
    if noted.get("state") == state_of(path):
        return True
    if file_digest(path) != noted.get("digest"):
        return False
    with suppress(RunError):  # so that the next one need not read it
        note_file(path, str(noted["digest"]))
    return True


def state_of(path: Path) -> list[int]:
    """Size, times and inode of a file: ctime changes with every write and cannot be set. Raises OSError."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _stem(index: Path, digests: Mapping[str, str]) -> str:
    """The name of an entry's files without their suffixes."""
    whole = hashlib.sha256("\0".join(f"{s}{d}" for s, d in sorted(digests.items())).encode())
    return f"{index.stem}-{whole.hexdigest()[:16]}"
