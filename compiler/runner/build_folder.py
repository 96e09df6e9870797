"""The build folder `build/<name>/`: made beside its place and swapped in, left alone when nothing changed.

Assumes: a backend that writes all its files into the folder it is given.
Guarantees: a folder is complete or not there; it is replaced only when this module made it; `up_to_date` compares
what the program is, the options, the compiler asked for and this installation, so a second build emits nothing.
Does not: know what is in the folder.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from backends.protocol import Artifact, Backend
from compiler.ir.program import Merged
from compiler.runner.errors import RunError
from compiler.runner.hashes import program_digest

STAMP: Final = ".netloom-build.json"
"""In every build folder: what it was made from."""
ATTEMPTS: Final = 20


@dataclass(frozen=True)
class Built:
    """`made` is False when the folder was up to date."""

    folder: Path
    artifact: Artifact
    made: bool


def build_into(parent: Path, program: Merged, backend: Backend, options: Mapping[str, str]) -> Built:
    """Build `program` into `parent/<name>`. Raises BackendError, RunError (E0911)."""
    folder = parent / program.name
    digest = program_digest(program, {**options, **_surroundings(backend)})
    known = _stamp(folder)
    if known.get("digest") == digest and (artifact := _artifact(known)) is not None:
        return Built(folder, artifact, False)
    if folder.exists() and not known and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(
            "E0911",
            f"`{folder}` is in the way: it was not made by `netloom build`",
            "move it, or choose another place with --build-dir",
            exit_code=2,
        )
    parent.mkdir(parents=True, exist_ok=True)
    scratch = parent / f".{program.name}.{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        artifact = backend.build(program, scratch, options)
        scratch.mkdir(exist_ok=True)
        if artifact.binary.is_relative_to(scratch):
            artifact = replace(artifact, binary=folder / artifact.binary.relative_to(scratch))
        stamp = {
            "digest": digest,
            "key": artifact.key,
            "compiler": artifact.compiler,
            "flags": list(artifact.flags),
            "binary": str(artifact.binary.absolute()),
            "beside": [str(path.absolute()) for path in artifact.beside],
        }
        (scratch / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        _swap(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Built(folder, artifact, True)


def is_build_folder(folder: Path) -> bool:
    """Whether this module made `folder`."""
    return (folder / STAMP).is_file()


def _swap(new: Path, place: Path) -> None:
    """`new` becomes `place`; what stood there is removed. Several processes may do so at once: the last one wins."""
    old = place.with_name(f".{place.name}.old.{os.getpid()}")
    for attempt in range(ATTEMPTS):
        with suppress(FileNotFoundError):
            os.rename(place, old)
        try:
            os.rename(new, place)
            return
        except OSError:  # another process was faster
            if attempt == ATTEMPTS - 1:
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


def _stamp(folder: Path) -> dict[str, Any]:
    try:
        stamp = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _artifact(stamp: Mapping[str, Any]) -> Artifact | None:
    """The artifact of an earlier build; its text stays on disk. None when the binary is gone."""
    binary = Path(str(stamp.get("binary", "")))
    beside = tuple(Path(str(path)) for path in stamp.get("beside", ()))
    if not all(path.is_file() for path in (binary, *beside)):
        return None
    flags = tuple(str(f) for f in stamp.get("flags", ()))
    return Artifact("", binary, str(stamp.get("key")), False, str(stamp.get("compiler")), flags, 0.0, beside)


def _surroundings(backend: Backend) -> dict[str, str]:
    """What else a build depends on: the compiler asked for, and the code of this installation."""
    root = Path(__file__).resolve().parents[2]
    newest, files = 0, 0
    for package in ("backends", "compiler"):
        for path in (root / package).rglob("*"):
            if path.suffix in (".py", ".j2", ".h"):
                newest = max(newest, path.stat().st_mtime_ns)
                files += 1
    return {
        "machine": platform.node(),  # code may be for its processor
        "target": backend.capabilities.name,
        "CC": os.environ.get("CC", ""),
        "installation": f"{root} {files} {newest}",
    }
