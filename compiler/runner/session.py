"""What the orchestration hands to the two kinds of run, and what it gets back.

Assumes / guarantees: plain records. Does not: act.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from backends.protocol import Instance
from compiler.runner.checkpoint import Position
from compiler.runner.prepare import Prepared
from compiler.runner.progress import Progress
from compiler.runner.signals import Stop


@dataclass
class Outcome:
    """What a loop leaves behind. `seconds`: CPU and wall seconds of the loop; `extra`: fields of `times`;
    `window`: the steps of a simulation whose records are in the folder (rates.py)."""

    rates: dict[str, float]
    counts: dict[str, int]
    metrics: dict[str, float]
    interrupted: int | None
    seconds: tuple[float, float]
    extra: dict[str, float]
    window: tuple[int, int] | None = None


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
