"""The inputs and results of the two loops, simulation and training.

Assumes / guarantees: plain records.
Does not: act.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.protocol import Instance
from compiler.runtime.artifacts.checkpoint import Position
from compiler.runtime.common.progress import Progress
from compiler.runtime.common.signals import Stop
from compiler.runtime.prepare import Prepared
from compiler.runtime.trials import Trials


@dataclass(frozen=True)
class TrainingSummary:
    """Summary of the epochs of a training. `epoch`: the last one, of `epochs`; `stopped`: by `stop`; `best`: the
    best epoch (0: none) by `metric`, with its `value`; `weights`: "best" or "last", those in weights.safetensors;
    `asked`: the caller's function ended it."""

    epoch: int
    epochs: int
    stopped: bool
    best: int
    metric: str
    value: float
    weights: str
    asked: bool = False

    def text(self) -> str | None:
        """One line for users; None where there is nothing to report."""
        best = f"best epoch {self.best} ({self.metric} {self.value:.4g})" if self.best else ""
        if self.best not in (0, self.epoch) and self.weights == "last":
            best += ", but the weights are those of the last"
        if not self.stopped:
            return best or None
        return f"stopped at epoch {self.epoch} of {self.epochs}" + (f"; {best}" if best else "")


@dataclass
class Outcome:
    """The result of a loop. `seconds`: CPU and wall seconds of the loop; `extra`: fields of `times`; `window`: the
    steps of a simulation whose records are in the folder (compiler/runtime/common/rates.py); `course`: of a
    training; `ended_ms`: when the criterion of a simulation was met."""

    rates: dict[str, float]
    counts: dict[str, int]
    metrics: dict[str, float]
    interrupted: int | None
    seconds: tuple[float, float]
    extra: dict[str, float]
    window: tuple[int, int] | None = None
    course: TrainingSummary | None = None
    ended_ms: float | None = None


@dataclass(frozen=True)
class Session:
    """The input of both loops. `resumed`: the position to resume from, and its checkpoint; `trials`: of a training
    whose samples are simulated."""

    prepared: Prepared
    instance: Instance
    folder: Path
    hash: str
    stop: Stop
    progress: Progress
    resumed: tuple[Position, Path] | None
    trials: Trials | None = None
