"""The strategies that a lock file beside a model prescribes.

Assumes: compiler/tune/lock.py.
Guarantees: pins for the target, and a warning for each stale one.
Does not: measure (compiler/runtime/tuning.py).
"""

from __future__ import annotations

from pathlib import Path

from backends.protocol import Backend
from compiler.core.diagnostics import Diagnostic
from compiler.passes.pipeline.lower import Lowered
from compiler.runtime.common.options import Options
from compiler.strategies.layout import laid_out
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import Pins
from compiler.tune.lock import lock_path, read_lock, stale
from compiler.tune.measure import Site, sites


def locked(path: Path, options: Options) -> Pins:
    """The pins of the lock file beside a model; none without one, or with `--no-lock`. Raises RunError (E0925)."""
    return read_lock(lock_path(path), options.target) if options.lock else {}


def sites_of(lowered: Lowered, backend: Backend) -> tuple[Site, ...]:
    """The contractions for which the target has a choice that the model permits."""
    program = lowered.program
    capabilities = permitted(backend.capabilities, lowered.model.numerics)
    layout = laid_out(lowered.tensors, program.precision, program.order, capabilities)
    return sites(lowered.tensors, program.precision, program.order, layout.capabilities)


def lock_warnings(path: Path, pins: Pins, lowered: Lowered, backend: Backend) -> tuple[Diagnostic, ...]:
    """Warnings about stale pins."""
    if not pins:
        return ()
    sites = sites_of(lowered, backend)
    span = lowered.model.network.span if lowered.model.network is not None else lowered.model.span
    return stale(pins, sites, lock_path(path).name, span)
