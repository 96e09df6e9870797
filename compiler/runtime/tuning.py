"""From a model file to its lock file: prepare, measure, write.

Assumes: compiler/tune/measure.py and compiler/tune/lock.py.
Guarantees: a model without a choice of strategies is refused with the reason.
Does not: print.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compiler.ir.level2.program as l2
from backends.stopwatch import machine, seconds
from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import RunError
from compiler.runtime.common.locks import sites_of
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import prepare_to_run
from compiler.strategies.variants import identity
from compiler.tune.lock import lock_path, write_lock
from compiler.tune.measure import Timer, Tuned, tune


@dataclass(frozen=True)
class TuneResult:
    """The lock file, the measured contractions, and warnings of the model."""

    file: Path
    tuned: tuple[Tuned, ...]
    warnings: tuple[Diagnostic, ...]

    def summary(self) -> dict[str, dict[str, Any]]:
        """By path: the chosen strategy, the default one, and the microseconds of both."""
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
    from compiler.runtime.common.timing import Times

    prepared = prepare_to_run(path, options, Times())
    program = prepared.lowered.program
    if not prepared.backend.capabilities.strategies:
        raise RunError("E0912", f"the target `{options.target}` has one way to compute a contraction", exit_code=2)
    if program.order is l2.Order.BITWISE:
        raise RunError(
            "E0912", "with order bitwise every sum has its declared order: there is nothing to choose", exit_code=2
        )
    tuned = tune(
        sites_of(prepared.lowered, prepared.backend),
        program.precision,
        program.order,
        prepared.backend,
        options.backend_options(),
        rounds,
        timer,
        watch,
    )
    if not tuned:
        raise RunError("E0912", "the model has no contraction that can be computed in several ways", exit_code=2)
    file = lock_path(path)
    write_lock(file, prepared.model.name, prepared.backend, machine(prepared.backend), tuned)
    return TuneResult(file, tuned, prepared.warnings)
