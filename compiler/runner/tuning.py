"""From a model file to its lock file: prepare, measure, write; and from a lock file to the pins of a build.

Assumes: compiler/tune.py and compiler/lock.py.
Guarantees: a model in which nothing can be chosen is refused with the reason.
Does not: print.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.protocol import Backend
from backends.stopwatch import machine, seconds
from compiler.diagnostics import Diagnostic
from compiler.ir.program import Order
from compiler.lock import lock_path, read_lock, stale, write_lock
from compiler.passes.pipeline import Lowered
from compiler.runner.errors import RunError
from compiler.runner.options import Options
from compiler.strategies.pins import Pins
from compiler.strategies.tensor_cores import permitted
from compiler.strategies.variants import identity
from compiler.tune import Site, Timer, Tuned, sites, tune


@dataclass(frozen=True)
class TuneResult:
    """The file that was written, what was found by path, and warnings of the model."""

    file: Path
    tuned: tuple[Tuned, ...]
    warnings: tuple[Diagnostic, ...]

    def summary(self) -> dict[str, dict[str, Any]]:
        """By path: the way, what the rules say, and the microseconds of both."""
        return {
            t.path: {
                "way": identity(t.choice),
                "rules": identity(t.measured.site.ways[0]),
                "microseconds": t.microseconds,
                "before": t.before,
            }
            for t in self.tuned
        }


def tune_model(
    path: Path,
    options: Options,
    rounds: int = 7,
    watch: Callable[[int, int, str], None] | None = None,
    timer: Timer = seconds,
) -> TuneResult:
    """Measure every contraction of a model and write its lock file. Raises ModelError, BackendError, RunError."""
    from compiler.runner.prepare import prepare
    from compiler.runner.timing import Times

    prepared = prepare(path, options, Times())
    program = prepared.lowered.program
    if not prepared.backend.capabilities.strategies:
        raise RunError("E0912", f"the target `{options.target}` has one way to compute a contraction", exit_code=2)
    if program.order is Order.BITWISE:
        raise RunError(
            "E0912", "with order bitwise every sum has its declared order: there is nothing to choose", exit_code=2
        )
    found = tune(
        _sites(prepared.lowered, prepared.backend),
        program.precision,
        program.order,
        prepared.backend,
        options.backend_options(),
        rounds,
        timer,
        watch,
    )
    if not found:
        raise RunError("E0912", "the model has no contraction that can be computed in several ways", exit_code=2)
    file = lock_path(path)
    write_lock(file, prepared.model.name, prepared.backend, machine(prepared.backend), found)
    return TuneResult(file, found, prepared.warnings)


def locked(path: Path, options: Options) -> Pins:
    """The pins of the lock file beside a model; none without one, or with `--no-lock`. Raises RunError (E0925)."""
    return read_lock(lock_path(path), options.target) if options.lock else {}


def _sites(lowered: Lowered, backend: Backend) -> tuple[Site, ...]:
    program = lowered.program
    capabilities = permitted(backend.capabilities, lowered.model.numerics)
    return sites(lowered.tensors, program.precision, program.order, capabilities)


def lock_warnings(path: Path, pins: Pins, lowered: Lowered, backend: Backend) -> tuple[Diagnostic, ...]:
    """Warnings about the pins that do not hold for the program."""
    if not pins:
        return ()
    found = _sites(lowered, backend)
    span = lowered.model.network.span if lowered.model.network is not None else lowered.model.span
    return stale(pins, found, lock_path(path).name, span)
