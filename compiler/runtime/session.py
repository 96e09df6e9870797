"""What the orchestration hands to the two kinds of run, and what it gets back.

Assumes / guarantees: plain records. Does not: act.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.protocol import Instance
from compiler.runtime.artifacts.checkpoint import Position
from compiler.runtime.common.progress import Progress
from compiler.runtime.common.signals import Stop
from compiler.runtime.prepare import Prepared


@dataclass(frozen=True)
class Course:
    """How a training went. `epoch`: the last one, of `epochs`; `stopped`: by `stop`; `best`: the best epoch (0: none
    was found), by `metric`, which was `value` in it; `weights`: "best" or "last", those in weights.safetensors."""

    epoch: int
    epochs: int
    stopped: bool
    best: int
    metric: str
    value: float
    weights: str

    def text(self) -> str | None:
        """In a line for people; None where nothing is to be said."""
        best = f"best epoch {self.best} ({self.metric} {self.value:.4g})" if self.best else ""
        if self.best not in (0, self.epoch) and self.weights == "last":
            best += ", but the weights are those of the last"
        if not self.stopped:
            return best or None
        return f"stopped at epoch {self.epoch} of {self.epochs}" + (f"; {best}" if best else "")


@dataclass
class Outcome:
    """What a loop leaves behind. `seconds`: CPU and wall seconds of the loop; `extra`: fields of `times`;
    `window`: the steps of a simulation whose records are in the folder (rates.py); `course`: what a
    training says of its epochs."""

    rates: dict[str, float]
    counts: dict[str, int]
    metrics: dict[str, float]
    interrupted: int | None
    seconds: tuple[float, float]
    extra: dict[str, float]
    window: tuple[int, int] | None = None
    course: Course | None = None


@dataclass(frozen=True)
class Session:
    """What both loops need. `resumed`: where the run goes on, and the file that says so."""

    prepared: Prepared
    instance: Instance
    folder: Path
    hash: str
    stop: Stop
    progress: Progress
    resumed: tuple[Position, Path] | None
