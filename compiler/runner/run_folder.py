"""The run directory `runs/<name>-<stamp>/`: written under a temporary name, renamed when it is finished.

Assumes: one process writes it.
Guarantees: what has the final name is finished, and run.json says how ("ok", "failed", "interrupted"); a run that
fails keeps what it recorded.
Does not: know what the files hold.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compiler.runner.errors import RunError


@dataclass
class RunFolder:
    """`path`: where files are written now; `finish` moves them to `final`. `record` becomes run.json."""

    final: Path
    path: Path
    record: dict[str, Any] = field(default_factory=dict)

    def write_record(self) -> None:
        """Write run.json as it stands."""
        scratch = self.path / ".run.json"
        text = json.dumps(self.record, indent=2, allow_nan=True, ensure_ascii=False)
        scratch.write_text(text + "\n", encoding="utf-8")
        os.replace(scratch, self.path / "run.json")

    def finish(self, status: str, message: str | None = None) -> Path:
        """Write run.json with `status` and give the folder its final name, which is returned."""
        self.record["status"] = status
        if message is not None:
            self.record["message"] = message
        self.record["finished"] = utc_now()
        self.write_record()
        for number in range(1, 1000):
            place = self.final if number == 1 else self.final.with_name(f"{self.final.name}-{number}")
            if not place.exists():
                os.rename(self.path, place)
                self.path = self.final = place
                return place
        raise RunError("E0911", f"`{self.final}` and its successors exist", exit_code=2)


def utc_now() -> str:
    """The time as ISO 8601, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def open_run_folder(name: str, runs: Path, out: Path | None) -> RunFolder:
    """A new folder: `runs/<name>-<UTC stamp>`, or `out`, which must not exist or be empty. Raises RunError (E0911)."""
    if out is not None:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RunError(
                "E0911",
                f"`{out}` exists and is not empty",
                "results are never written over: choose another name",
                exit_code=2,
            )
        if out.exists():
            out.rmdir()
        final = out
    else:
        final = runs / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    final.parent.mkdir(parents=True, exist_ok=True)
    path = final.with_name(f".{final.name}.{os.getpid()}")
    path.mkdir()
    return RunFolder(final, path)
