"""The strategies that a lock file beside a model prescribes, and what a target may take.

Assumes: compiler/tune/lock.py.
Guarantees: pins for the target and its device, the device with its estimates as corrected, and a warning for each stale
pin.
Does not: measure (compiler/runtime/tuning.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from backends.protocol import Backend
from compiler.core.diagnostics import Diagnostic
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import Lowered
from compiler.runtime.common.amounts import bytes_of
from compiler.runtime.common.options import Options
from compiler.strategies.forks import Fork
from compiler.strategies.layout import laid_out
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pins
from compiler.tune.lock import Section, lock_path, read_lock, stale
from compiler.tune.sites import Site, sites

PREDICT: Final = "predict"
"""The phase of predictions; in a lock file `predict@64`, with the number of samples that are computed at once."""


@dataclass(frozen=True)
class Locked:
    """`section`: of the lock file; `capabilities`: of the target, with what the file and the options say."""

    section: Section
    capabilities: Capabilities

    @property
    def pins(self) -> Pins:
        """Of the phases of training and evaluation."""
        return {path: pin for path, pin in self.section.pins.items() if not path.startswith(f"{PREDICT}@")}

    def predicting(self, batch: int) -> Pins:
        """Of predictions for so many samples at once, by their paths in that program."""
        own = predicted("", batch)
        return {f"{PREDICT}/{path[len(own) :]}": pin for path, pin in self.section.pins.items() if path.startswith(own)}


def predicted(path: str, batch: int) -> str:
    """The path in a lock file of a contraction of predictions: `predict@64/dense1.sum`."""
    return f"{PREDICT}@{batch}/{path.removeprefix(f'{PREDICT}/')}"


def locked(file: Path, options: Options, backend: Backend) -> Locked:
    """What the lock file prescribes for a target; nothing without one, or with `--no-lock`. Raises RunError (E0925;
    E0912 for a workspace that is no size)."""
    capabilities = backend.capabilities
    device = replace(capabilities.device, workspace=bytes_of("--workspace", options.workspace))
    section = read_lock(file, capabilities.name, device) if options.lock else Section("", "", {})
    device = replace(device, estimates=tuple(sorted(section.estimates.items())))
    return Locked(section, replace(capabilities, device=device))


def sites_of(lowered: Lowered, capabilities: Capabilities) -> tuple[Site, ...]:
    """The contractions for which the target has a choice that the model permits."""
    program = lowered.program
    own = permitted(capabilities, lowered.model.numerics)
    layout = laid_out(lowered.tensors, program.precision, program.order, own)
    return sites(lowered.tensors, program.precision, program.order, layout.capabilities)


def lock_warnings(path: Path, lock: Locked, lowered: Lowered) -> tuple[Diagnostic, ...]:
    """Warnings about stale pins."""
    if not lock.pins:
        return ()
    span = lowered.model.network.span if lowered.model.network is not None else lowered.model.span
    found: list[Site | Fork] = [*sites_of(lowered, lock.capabilities), *lowered.forks]
    return stale(lock.pins, found, lock_path(path).name, span)
