"""What a caller may choose beside the model file: one record for the command line and the Python API.

Assumes: nothing.
Guarantees: plain immutable data with the defaults of the command line.
Does not: validate (prepare does, where the model is known).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PRECISIONS: Final = ("float32", "float64")
ORDERS: Final = ("fast", "reproducible", "bitwise")


@dataclass(frozen=True)
class Options:
    """`settings`: `--set` by name. None: what the model says. `resume`: a run directory or a checkpoint file.
    `duration`: a time with a unit ("2 s"); `epochs`: the number of the last epoch; `device`, `arch`: of GPUs;
    `weights`: a safetensors file or run directory that the weights are read from;
    `lock`: use the lock file beside the model, if there is one; `freeze`: "learning", or names of projections, whose
    synapses stand still in place of those that `simulate: {freeze: ...}` names."""

    target: str = "cpu"
    settings: Mapping[str, str] = field(default_factory=dict)
    precision: str | None = None
    order: str | None = None
    seed: int | None = None
    duration: str | None = None
    epochs: int | None = None
    portable: bool = False
    verify: bool = False
    build_dir: Path = Path("build")
    runs_dir: Path = Path("runs")
    out: Path | None = None
    resume: Path | None = None
    device: int | None = None
    arch: str | None = None
    weights: Path | None = None
    lock: bool = True
    freeze: tuple[str, ...] = ()

    def backend_options(self) -> dict[str, str]:
        """What backends know by name; those that were not chosen are left out."""
        chosen = {"portable": "1" if self.portable else "", "arch": self.arch or ""}
        return {name: value for name, value in chosen.items() if value}
