"""Writing to disk: every file and folder that netloom writes goes through here.

What is not finished has a hidden name that nobody else has (`.name.<16 random digits>.part`, made exclusively) and is
held by a lock (flock) for as long as its process lives: the file itself, or for a folder `.name.<digits>.lock` beside
it, which is there before the folder and goes after it. So `netloom clean` can tell what a dead process left behind
from what is being written, by another container or another thread too.

Assumes: a POSIX file system; without locks, nothing counts as left behind.
Guarantees: a file is complete or absent; what cannot be written is a RunError (E0930, exit 5) that says what it is,
how much it needs and how much is free.
Does not: wait until data are on the medium.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

from compiler.core.diagnostics import RunError

UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""Errors (errno) of writing to an open file."""
_PART: Final = re.compile(r"\..*\.[0-9a-f]{16}\.part")
_LOCK: Final = re.compile(r"\..*\.[0-9a-f]{16}\.lock")


def bytes_text(count: float) -> str:
    """1234567 -> "1.2 MB"."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if count < 1000 or unit == "PB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    raise AssertionError


# ------------------------------------------------------------------------------------------- failing


def unwritable(error: OSError, path: Path, what: str, needed: int | None = None, help: str | None = None) -> RunError:
    """The error for `path`, which holds `what` ("a checkpoint") and needs so many bytes."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    sizes = [] if needed is None else [f"{bytes_text(needed)} needed"]
    free = free_bytes(path)
    if free is not None:
        sizes.append(f"{bytes_text(free)} free")
    shown = f" ({', '.join(sizes)})" if sizes else ""
    known = {
        errno.ENOSPC: "make room, or write to another disk",
        errno.EDQUOT: "make room within the quota, or write to another disk",
        errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or write less",
    }.get(error.errno or 0)
    helps = [h for h in (known, help) if h is not None]
    return RunError("E0930", f"{what} cannot be written to `{path}`: {reason}{shown}", "; ".join(helps) or None)


def free_bytes(path: Path) -> int | None:
    """Bytes that a user may still write where `path` stands or would stand; None when that is not known."""
    for place in (path, *path.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            break
    return None


@contextmanager
def writing(path: Path, what: str, needed: int | None = None) -> Iterator[None]:
    """A context for code that only writes `what` to `path`: an OSError becomes a RunError (E0930)."""
    try:
        yield
    except OSError as error:
        raise unwritable(error, path, what, needed) from error


# ------------------------------------------------------------------------------------- files, folders


@contextmanager
def new_file(path: Path, what: str, needed: int | None = None) -> Iterator[IO[bytes]]:
    """A stream (that can also be read) whose contents become the file `path` at the end; nothing is left when it
    fails. Missing folders are created. Raises RunError (E0930), also where a folder, device or pipe is there."""
    scratch: Path | None = None
    try:
        with writing(path, what, needed):
            if path.exists() and not path.is_file():
                raise OSError("it is a folder" if path.is_dir() else "it is no regular file, and would be replaced")
            path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            scratch = _hidden(path, ".part")  # set before the file exists, so that no signal leaves it behind
            with writing(path, what, needed):
                fd = _claim(scratch)
            if fd is not None:
                break
            scratch = None
        lock = os.dup(fd)  # so that it does not count as left behind between close and rename
        try:
            with open(scratch, "w+b", opener=lambda *_: fd) as stream:  # so that it has a name
                yield stream
            os.replace(scratch, path)
        finally:
            os.close(lock)
    except OSError as error:
        if error.errno in UNWRITABLE or error.filename == str(scratch):
            raise unwritable(error, path, what, needed) from error
        raise
    finally:
        if scratch is not None:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)


def make_folder(path: Path, what: str) -> None:
    """A folder with those above it; one that is there stays. Raises RunError (E0930)."""
    with writing(path, what):
        path.mkdir(parents=True, exist_ok=True)


def write_bytes(path: Path, data: bytes, what: str) -> None:
    """Replace or make a file, all or nothing. Raises RunError (E0930)."""
    with new_file(path, what, len(data)) as stream:
        stream.write(data)


def write_text(path: Path, text: str, what: str) -> None:
    """Replace or make a file of UTF-8, all or nothing; names of files that are none are escaped. Raises RunError
    (E0930)."""
    write_bytes(path, text.encode(errors="backslashreplace"), what)


def append_text(path: Path, text: str, what: str) -> None:
    """Add lines to a file; what cannot be added whole is not added. Raises RunError (E0930)."""
    data = text.encode()
    with writing(path, what, len(data)), path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def copy_file(source: Path, path: Path, what: str) -> None:
    """A copy, all or nothing. Raises RunError (E0930); OSError when `source` cannot be read."""
    with source.open("rb") as read, new_file(path, what, os.fstat(read.fileno()).st_size) as stream:
        shutil.copyfileobj(read, stream, 1 << 20)


def link_file(source: Path, path: Path, what: str) -> None:
    """The same file under another name, for files that are never changed; a copy where a file system has no links.
    Raises RunError (E0930)."""
    with writing(path, what):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path)
    except OSError:
        copy_file(source, path, what)


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """A context in which no other process works in `folder`, on this machine or, where the file system's locks reach
    that far, on another. Raises RunError (E0940, exit 2) where one does; E0930."""
    make_folder(folder, what)
    place = folder / ".lock"
    with writing(place, what):
        fd = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if _locked(fd) is False:
            message = f"another process works in `{folder}`, which holds {what}"
            raise RunError("E0940", message, "wait until it ends, or choose another folder with `--out`")
        yield
    finally:
        os.close(fd)


def sync(path: Path) -> None:
    """fsync a file or a folder, where the system supports it."""
    with suppress(OSError):
        place = os.open(path, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


@dataclass
class Scratch:
    """A folder that is not finished: `path`, the lock that says that it is alive (`fd` is -1 without one), and the open
    `folder`. It is removed at the end of a `with` unless it was renamed or `kept`, and when it is
    garbage-collected in the process that created it (a signal may arrive before the `with`)."""

    path: Path
    fd: int = -1
    folder: int = -1
    kept: bool = False
    owner: int = field(default_factory=os.getpid)

    @property
    def lock(self) -> Path:
        return self.path.with_suffix(".lock")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __del__(self) -> None:
        if not self.kept and self.owner == os.getpid():
            self.remove()

    def stands(self) -> bool:
        """Whether `path` is the folder that was made: another program may have removed it."""
        return self.folder < 0 or _stands(self.folder, self.path)

    def rename(self, place: Path) -> None:
        """Rename it to `place` and release the lock. Raises OSError when `place` exists and is not an empty folder."""
        os.rename(self.path, place)
        self._release()

    def remove(self) -> None:
        """Remove what is left of it."""
        if self.fd >= 0 or not self.kept:
            shutil.rmtree(self.path, ignore_errors=True)
            self._release()

    def _release(self) -> None:
        self.kept = True
        with suppress(OSError):
            self.lock.unlink(missing_ok=True)
        for fd in (self.fd, self.folder):
            if fd >= 0:
                os.close(fd)
        self.fd = self.folder = -1


def scratch_folder(place: Path, what: str) -> Scratch:
    """An empty hidden folder beside `place`, for as long as this process lives. Raises RunError (E0930)."""
    with writing(place, what):
        place.parent.mkdir(parents=True, exist_ok=True)
        while True:
            made = Scratch(_hidden(place, ".part"))
            fd = _claim(made.lock)
            if fd is not None:
                made.fd = fd
                made.path.mkdir()
                made.folder = os.open(made.path, os.O_RDONLY)
                return made
            made.kept = True  # it belongs to another process


def _hidden(place: Path, suffix: str) -> Path:
    """An unused name beside `place`."""
    return place.with_name(f".{place.name}.{os.urandom(8).hex()}{suffix}")


def _claim(path: Path) -> int | None:
    """Create a file and lock it; None when it exists, or `netloom clean` took the lock first."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return None
    if _locked(fd) is not False and _stands(fd, path):
        return fd
    os.close(fd)
    return None


def _locked(fd: int) -> bool | None:
    """Take the lock of an open file: False when another process holds it, None when the file system has no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return None


def _stands(fd: int, path: Path) -> bool:
    """Whether `path` still is the open file."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False


# -------------------------------------------------------------------------------------- left behind


def leftovers(folder: Path) -> list[Path]:
    """The hidden files and folders of dead processes in `folder`, and the locks of folders that are gone."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    hidden = [folder / n for n in names if _PART.fullmatch(n)]
    hidden += [folder / n for n in names if _LOCK.fullmatch(n) and f"{n[:-5]}.part" not in names]
    return [p for p in hidden if not _alive(p)]


def in_use(folder: Path) -> bool:
    """Whether a living process holds the lock of `folder`; False where that cannot be known."""
    if not _PART.fullmatch(folder.name):
        return False
    try:
        fd = os.open(folder.with_suffix(".lock"), os.O_RDONLY)
    except OSError:
        return False
    try:
        return _locked(fd) is False
    finally:
        os.close(fd)


def remove_leftover(path: Path) -> bool:
    """Remove one of `leftovers`, and its lock; False when its process is alive after all."""
    fd = _open_lock(path)
    if fd is None:
        return False
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)
    finally:
        os.close(fd)
    return not path.exists()


def _alive(path: Path) -> bool:
    fd = _open_lock(path)
    if fd is not None:
        os.close(fd)
    return fd is None


def _open_lock(path: Path) -> int | None:
    """The lock of something hidden, held; None when a live process holds it, or when that is unknown."""
    try:
        if not path.is_dir():
            fd = os.open(path, os.O_RDWR)
        elif path.with_suffix(".lock").exists():
            fd = os.open(path.with_suffix(".lock"), os.O_RDWR)
        else:  # it is created before its folder and removed after it
            return os.open(path, os.O_RDONLY)
    except OSError:
        return None
    if _locked(fd):
        return fd
    os.close(fd)
    return None
