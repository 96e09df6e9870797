"""`netloom clean`: removes build folders and the leftovers of dead processes.

Assumes: hidden names of the form that compiler/core/disk.py uses are its own.
Guarantees: only what netloom made is touched, and nothing that a living process writes; finished runs stay; a dead run
that can be resumed is kept unless `--dead-runs` is given.
Does not: decide which results are worth keeping.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import typer

from compiler.core.cache import cache_folder
from compiler.core.diagnostics import RunError
from compiler.core.disk import bytes_text, leftovers, remove_leftover
from compiler.runtime.artifacts.build_folder import is_build_folder
from compiler.runtime.artifacts.checkpoint import resumable


@dataclass
class _Tally:
    """Count and bytes of what was, or would be, removed."""

    dry: bool
    count: int = 0
    bytes: int = 0

    def remove(self, path: Path, what: str) -> None:
        """Remove one thing that is a build folder, a leftover or a part of the cache, and say so."""
        size = _size(path)
        if what == CACHE and not size:
            return
        if not self.dry:
            if what == LEFT:
                if not remove_leftover(path):
                    return
            elif what == BUILD:
                shutil.rmtree(path)
            else:
                _empty(path)
        self.count += 1
        self.bytes += size
        typer.echo(f"{'would remove' if self.dry else 'removed'} {path} ({what}, {bytes_text(size)})")


BUILD, CACHE, LEFT = "build folder", "compiled code", "left behind"


def remove(build_dir: Path, runs_dir: Path, cache: bool, dead_runs: bool, dry: bool) -> None:
    """Remove build folders and leftovers; with `cache` what is compiled, with `dead_runs` also runs that
    have a checkpoint; with `dry` only say so. Raises RunError (E0913)."""
    tally = _Tally(dry)
    kept: list[Path] = []
    try:
        for folder in sorted(build_dir.iterdir()) if build_dir.is_dir() else ():
            if folder.is_dir() and is_build_folder(folder):
                tally.remove(folder, BUILD)
        if cache:
            for target in ("cpu", "cuda", "opencl"):
                tally.remove(cache_folder() / target, CACHE)
        for path in _left_behind(build_dir, runs_dir):
            if not dead_runs and resumable(path):
                kept.append(path)
            else:
                tally.remove(path, LEFT)
        if not dry and build_dir.is_dir() and not any(build_dir.iterdir()):
            build_dir.rmdir()
    except OSError as error:
        raise RunError("E0913", f"{error.strerror}: `{error.filename}`") from error
    for path in kept:
        typer.echo(f"kept {path} ({bytes_text(_size(path))}): a run that died; go on with --resume {path}, "
                   "or remove it with --dead-runs")  # fmt: skip
    things = "thing" if tally.count == 1 else "things"
    typer.echo(f"{tally.count} {things} {'to remove' if dry else 'removed'}, {bytes_text(tally.bytes)}")


def _left_behind(build_dir: Path, runs_dir: Path) -> Iterator[Path]:
    """What dead processes left: here, where builds and runs are made, inside of runs, and in the cache."""
    seen: set[Path] = set()
    for folder in (Path(), build_dir, *_folders(runs_dir), *_folders(cache_folder())):
        for path in leftovers(folder):
            place = path.resolve()
            if place not in seen and not any(above in seen for above in place.parents):
                seen.add(place)
                yield path


def _folders(top: Path) -> Iterator[Path]:
    """A folder, and the folders in it that are not hidden."""
    for path, folders, _ in os.walk(top):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        yield Path(path)


def _empty(top: Path) -> None:
    """Remove the files in a folder of the cache, but not what is being written there now."""
    for folder in _folders(top):
        for path in folder.iterdir():
            if path.is_file() and not path.name.startswith("."):
                path.unlink(missing_ok=True)


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.lstat().st_size if path.is_symlink() or path.exists() else 0
    return sum((Path(at) / n).lstat().st_size for at, _, names in os.walk(path) for n in names)
