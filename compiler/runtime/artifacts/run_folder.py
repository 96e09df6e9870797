"""The run directory `runs/<name>-<stamp>/`: written under a hidden name (compiler/core/disk.py), renamed when it is
finished.

Assumes: one thread writes it.
Guarantees: a folder with the final name is finished, and run.json says how ("ok", "failed", "interrupted"), on a full
disk too; a run that fails keeps what it recorded; two runs never share a folder.
Does not: know what the files hold.
"""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from compiler.core.diagnostics import RunError
from compiler.core.disk import Scratch, scratch_folder, unwritable, write_text, writing
from compiler.core.strict_json import dumps

RESERVE: Final = ".reserve"
RESERVED: Final = 1 << 16
"""Bytes that a run reserves on disk, so that run.json can report a full disk."""
TAKEN: Final = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})


@dataclass
class RunFolder:
    """`path`: where files are written now; `finish` moves them to `final`. `record` becomes run.json."""

    final: Path
    scratch: Scratch
    path: Path
    record: dict[str, Any] = field(default_factory=dict)

    def write_record(self) -> None:
        """Write run.json as it stands. Raises RunError (E0930)."""
        text = dumps(self.record, indent=2) + "\n"
        try:
            write_text(self.path / "run.json", text, "the record of the run")
        except RunError:
            if not (self.path / RESERVE).exists():
                raise
            (self.path / RESERVE).unlink()
            write_text(self.path / "run.json", text, "the record of the run")

    def finish(self, status: str, message: str | None = None) -> Path:
        """Write run.json with `status` and give the folder its final name, which is returned. The first status is
        final. Raises RunError (E0930), where the folder was removed, too."""
        if self.path == self.final:
            return self.final
        if not self.scratch.stands():
            self.scratch.remove()
            message = f"the folder of the run was removed before the run ended: `{self.path}`"
            raise RunError("E0930", message, "what it had recorded is lost")
        self.record["status"] = status
        if message is not None:
            self.record["message"] = message
        self.record["finished"] = utc_now()
        self.write_record()
        (self.path / RESERVE).unlink(missing_ok=True)
        for number in range(1, 1000):
            place = self.final if number == 1 else self.final.with_name(f"{self.final.name}-{number}")
            try:
                self.scratch.rename(place)
            except OSError as error:
                if error.errno not in TAKEN:
                    raise unwritable(error, place, "the run directory") from error
                continue
            self.path = self.final = place
            return place
        raise RunError("E0911", f"`{self.final}` and its successors exist")


def utc_now() -> str:
    """The time as ISO 8601, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def open_run_folder(name: str, runs: Path, out: Path | None) -> RunFolder:
    """A new folder: `runs/<name>-<UTC stamp>`, or `out`, which must not exist or be empty. Raises RunError (E0911,
    E0930)."""
    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RunError(
                "E0911",
                f"`{out}` exists and is " + ("not empty" if out.is_dir() else "not a folder"),
                "results are never written over: choose another name",
            )
        if out.exists():
            out.rmdir()
        final = out
    else:
        final = runs / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    scratch = scratch_folder(final, "the run directory")
    try:
        with writing(final, "the run directory", RESERVED):
            (scratch.path / RESERVE).write_bytes(os.urandom(RESERVED))  # random, so that no file system compresses them
    except RunError:
        scratch.remove()
        raise
    scratch.kept = True  # from now on the folder holds results
    return RunFolder(final, scratch, scratch.path)
