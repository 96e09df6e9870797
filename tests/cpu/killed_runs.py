"""Killed runs: the files that remain, and the equality of resumed and uninterrupted runs.

Assumes: runs are made with `out`.
Guarantees: `same_end` compares all results of a run.
Does not: start processes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import Progress
from compiler.runtime.execute import run_model
from tests.construct_runs import stored_results


def partial_folder(out: Path) -> Path | None:
    """The temporary folder of a run with the final name `out`."""
    found = [f for f in out.parent.glob(f".{out.name}.*") if f.is_dir()]
    return found[0] if found else None


def final_state(folder: Path) -> dict[str, np.ndarray]:
    path = max((folder / "checkpoints").glob("*.safetensors"))
    return load_file(path)


def same_end(left: Path, right: Path) -> None:
    """Bitwise equality of all datasets of all records, the final state, the summary and the plots, of runs that came to
    their end (a signal to the tests, as of `timeout`, interrupts the run that they are in)."""
    first, second = (json.loads((f / "run.json").read_text()) for f in (left, right))
    assert (first["status"], second["status"]) == ("ok", "ok"), (first.get("message"), second.get("message"))
    a, b = stored_results(left), stored_results(right)
    assert a
    assert a.keys() == b.keys()
    for name, values in a.items():
        assert values.dtype == b[name].dtype, name
        assert values.shape == b[name].shape, name
        assert values.tobytes() == b[name].tobytes(), name
    a, b = final_state(left), final_state(right)
    assert a.keys() == b.keys()
    for name, values in a.items():
        assert values.tobytes() == b[name].tobytes(), name
    for key in ("summary", "expectations", "plots", "seed"):
        assert first[key] == second[key], key
    for picture in first["plots"]:
        assert (right / picture).exists()


@dataclass
class Snapshots(Progress):
    """A progress object that captures the files as if the process were killed at its `at`-th call: as the kernel has
    them at that moment, without buffers in process memory."""

    out: Path
    at: int
    into: Path
    calls: int = 0
    seen: list[float] = field(default_factory=list)

    def update(self, done: float, text: str) -> None:
        self.seen.append(done)
        self.tick()

    def tick(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            folder = partial_folder(self.out)
            assert folder is not None
            shutil.copytree(folder, self.into)


def left_behind(
    path: Path,
    at: int,
    folder: Path,
    target: str,
    hook: Callable[[Snapshots], None] | None = None,
    resume: Path | None = None,
) -> Path:
    """The folder of a run that was killed at the `at`-th sign of progress (or of what `hook` watches)."""
    out, into = folder / "whole-life", folder / f"killed-{at}{'-again' if resume else ''}"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(into, ignore_errors=True)
    snapshots = Snapshots(out, at, into)
    if hook is not None:
        hook(snapshots)
    run_model(path, Options(target, out=out, build_dir=folder / "build", resume=resume), snapshots)
    return into
