"""The build folder `build/<name>/`: built beside its final path and swapped in; reused when nothing changed.

Assumes: a backend that writes all its files into the folder it is given.
Guarantees: a folder is complete or absent; only folders that this module created are replaced. It is used again when
the program, the options, the compiler asked for and this installation are those of its stamp, so that a second build
emits nothing, and when its files and the loaded binaries are unchanged; otherwise, and with a damaged stamp, it is
built again.
Does not: know the contents of the folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import compiler.ir.level2.program as l2
from backends.kernel_ir.descriptor import packed, unpacked
from backends.protocol import Artifact, Backend
from compiler.core.cache import file_digest, find_value, keep_value
from compiler.core.diagnostics import RunError
from compiler.core.disk import Scratch, scratch_folder, unwritable
from compiler.runtime.common.hashes import program_digest

STAMP: Final = ".netloom-build.json"
"""In every build folder: the digest of its inputs."""
ATTEMPTS: Final = 20
DIGESTED: Final = 1 << 20
"""Bytes up to which the stamp has the digest of a file."""


@dataclass(frozen=True)
class Built:
    """`made` is False when the folder was up to date."""

    folder: Path
    artifact: Artifact
    made: bool


def build_into(parent: Path, program: l2.Merged, backend: Backend, options: Mapping[str, str]) -> Built:
    """Build `program` into `parent/<name>`. Raises BackendError, RunError (E0911, E0930)."""
    folder = parent / program.name
    digest = program_digest(program, {**options, **surroundings(backend)})
    known = _stamp(folder)
    if known is not None and known.get("digest") == digest and (artifact := _artifact(folder, known)) is not None:
        return Built(folder, artifact, False)
    if _is_in_the_way(folder):
        raise RunError(
            "E0911",
            f"`{folder}` is in the way: it was not made by `netloom build`",
            "move it, or choose another place with --build-dir",
        )
    with scratch_folder(folder, "a build folder") as scratch:
        artifact = backend.build(program, scratch.path, options)
        loaded = {str(p.absolute()): file_digest(p) for p in (artifact.binary, *artifact.beside)}
        if artifact.binary.is_relative_to(scratch.path):
            inside = str(artifact.binary.absolute())
            artifact = replace(artifact, binary=folder / artifact.binary.relative_to(scratch.path))
            loaded = {str(artifact.binary.absolute()) if p == inside else p: d for p, d in loaded.items()}
        stamp = {
            "digest": digest,
            "key": artifact.key,
            "compiler": artifact.compiler,
            "flags": list(artifact.flags),
            "kernels": packed(artifact.kernels),
            "loaded": loaded,
            "files": _states(scratch.path),
        }
        keep_value(scratch.path / STAMP, stamp)
        _swap(scratch, folder)
    return Built(folder, artifact, True)


def _is_in_the_way(place: Path) -> bool:
    """Whether something stands there that this module did not make. It is looked at once: another process may put a new
    build folder there meanwhile."""
    try:
        names = os.listdir(place)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True
    return bool(names) and STAMP not in names


def is_build_folder(folder: Path) -> bool:
    """Whether this module made `folder`."""
    return (folder / STAMP).is_file()


def _swap(new: Scratch, place: Path) -> None:
    """`new` becomes `place`; the previous folder is removed. Several processes may do so at once: the last one wins."""
    for attempt in range(ATTEMPTS):
        with scratch_folder(place, "a build folder") as old:
            with suppress(FileNotFoundError):
                os.rename(place, old.path / place.name)
            try:
                new.rename(place)
                return
            except OSError as error:  # another process was faster
                if attempt == ATTEMPTS - 1:
                    raise unwritable(error, place, "a build folder") from error


def _stamp(folder: Path) -> dict[str, Any] | None:
    """The contents of a stamp; None where it is missing or damaged."""
    return find_value(folder / STAMP)


def _states(folder: Path) -> dict[str, str | int]:
    """The files of a build folder with their digests; large ones, which are not loaded from here, with their sizes."""
    states: dict[str, str | int] = {}
    for path in sorted(folder.iterdir()):
        if path.name != STAMP and path.is_file():
            size = path.stat().st_size
            states[path.name] = file_digest(path) or "" if size <= DIGESTED else size
    return states


def _artifact(folder: Path, stamp: Mapping[str, Any]) -> Artifact | None:
    """The artifact of an earlier build; its text stays on disk. None when a file of the folder, or a loaded one, is
    changed or missing, also because another process puts a new folder there, or the stamp has no descriptors of
    kernels as this version reads them."""
    binary, *beside = (Path(path) for path in stamp["loaded"])
    try:
        now = _states(folder)
    except FileNotFoundError:
        return None
    if any(now.get(name) != state for name, state in stamp["files"].items()):
        return None
    if any(digest is None or file_digest(Path(path)) != digest for path, digest in stamp["loaded"].items()):
        return None
    try:
        kernels = unpacked(stamp["kernels"])
    except (KeyError, TypeError, ValueError):
        return None
    return Artifact(
        "", binary, stamp["key"], False, stamp["compiler"], tuple(stamp["flags"]), 0.0, tuple(beside), kernels
    )


def surroundings(backend: Backend) -> dict[str, str]:
    """The other dependencies of a build: the compiler asked for, and the code of this installation."""
    return {
        "machine": platform.node(),  # code may be specific to its processor
        "target": backend.capabilities.name,
        "architecture": backend.capabilities.device.architecture,
        "CC": os.environ.get("CC", ""),
        "installation": _installation(),
    }


@cache
def _installation() -> str:
    """What tells one state of this installation's code from another: looked up once in a process, which has loaded it,
    since it costs as much as a short run."""
    root = Path(__file__).resolve().parents[3]
    times = [t for package in ("backends", "compiler") for t in _changed(os.fspath(root / package))]
    return f"{root} {len(times)} {max(times, default=0)}"


def _changed(folder: str) -> Iterator[int]:
    """When each file of code in a folder changed, in ns."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".j2", ".h")):
                yield entry.stat().st_mtime_ns
            elif entry.name != "__pycache__" and entry.is_dir():
                yield from _changed(entry.path)
