"""Runs a model from its file to a finished run directory.

Assumes: the other modules of this folder.
Guarantees: whatever happens after the folder is open, run.json says how the run ended; a failure keeps what was
recorded and raises; a signal ends the run between two steps, with a checkpoint to resume from, and at once before the
first step. Plots are drawn after the run directory has its final name: they cannot change how the run ended.
Does not: print (the caller shows the result and the progress).
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from signal import SIGINT, Signals
from typing import Any, Final

import compiler.ir.level0.model as l0
import compiler.runtime.artifacts.checkpoint as checkpoints
from backends.protocol import Artifact, BackendError, Instance
from backends.stopwatch import machine
from compiler.core.diagnostics import Diagnostic, RunError, Severity
from compiler.core.disk import write_text
from compiler.core.render import render
from compiler.core.version import VERSION
from compiler.frontend.load import data_folder
from compiler.runtime.artifacts.results import RunResult
from compiler.runtime.artifacts.run_folder import RunFolder, open_run_folder, utc_now
from compiler.runtime.artifacts.safetensors import Reals, learned, put_weights
from compiler.runtime.artifacts.trained import initial_weights
from compiler.runtime.board import Board, require_tensorboard
from compiler.runtime.build import build_prepared
from compiler.runtime.common.git import git_commit
from compiler.runtime.common.hashes import model_hash
from compiler.runtime.common.options import Options
from compiler.runtime.common.progress import Progress
from compiler.runtime.common.signals import ended_by_signals, stop_on_signals
from compiler.runtime.common.timing import Times
from compiler.runtime.expectations import check_expectations
from compiler.runtime.prepare import Prepared, prepare_to_run
from compiler.runtime.session import Outcome, Session
from compiler.runtime.trials import Trials

MOST_DECISIONS: Final = 300
"""Decisions of passes in run.json; `netloom explain MODEL --details all` has the others."""


def run_model(path: Path, options: Options, progress: Progress) -> RunResult:
    """Build when stale, run, write the run directory, and draw its plots. Raises ModelError, BackendError, RunError;
    Interrupted by a signal before the first step."""
    times = Times()
    started = utc_now()
    if options.tensorboard:
        require_tensorboard()
    with ended_by_signals():
        prepared = prepare_to_run(path, options, times)
        resumed, passed_over = _resumed(prepared, options)
        given = initial_weights(prepared.model, learned(prepared.lowered.tensors), options)
        artifact = build_prepared(prepared, options, times)
        head = _head(prepared, options, artifact, started) | {"warnings": [*_texts(prepared.warnings), *passed_over]}
        folder = open_run_folder(prepared.model.name, options.runs_dir, options.out)
        folder.record |= head
        folder.record["model"]["from_run"] = _way(folder.final, options.folder or data_folder(prepared.path))
        result = _recorded(_Job(prepared, options, progress, times, resumed, given, artifact, folder))
        return _with_plots(result, prepared.model, folder, times) if options.plots else result


@dataclass(frozen=True)
class _Job:
    """A run that is ready to begin. `resumed`: where it goes on, and the checkpoint; `weights`: initial ones, by
    name."""

    prepared: Prepared
    options: Options
    progress: Progress
    times: Times
    resumed: tuple[checkpoints.Position, Path] | None
    weights: Mapping[str, Reals] | None
    artifact: Artifact
    folder: RunFolder


def _recorded(job: _Job) -> RunResult:
    """Run, and finish the folder, however the run ends."""
    folder, times = job.folder, job.times
    try:
        return _run(job)
    except (RunError, BackendError) as error:
        hidden, message = str(folder.path), error.message
        _fail(folder, times, f"{error.code}: {message.replace(hidden, str(folder.final))}")
        error.message = message.replace(hidden, str(folder.final))
        raise
    except KeyboardInterrupt as error:
        with stop_on_signals():
            folder.record["times"] = _times(times, {})
            name = Signals(getattr(error, "signal_number", SIGINT)).name
            folder.finish("interrupted", f"{name} before the first step")
        raise
    except Exception as error:
        _fail(folder, times, f"internal error: {type(error).__name__}: {error}")
        raise


def _fail(folder: RunFolder, times: Times, message: str) -> None:
    with stop_on_signals():
        folder.record["times"] = _times(times, {})
        folder.finish("failed", message)


def _run(job: _Job) -> RunResult:
    # Slow to import, and not needed for a build.
    from compiler.runtime.spiking.run_spiking import run_spiking
    from compiler.runtime.training.run_training import run_training

    prepared, times, resumed, folder = job.prepared, job.times, job.resumed, job.folder
    model, program = prepared.model, prepared.lowered.merged
    folder.record["status"] = "running"
    folder.write_record()
    _write_model(prepared, job.options, folder.path)
    with times.part("init"):
        instance = prepared.backend.load(job.artifact, program, prepared.seed)
    folder.record["device"] = machine(prepared.backend)
    try:
        trials = _trials(prepared, instance)  # before a checkpoint changes the initial state
        if resumed is not None:
            with times.part("init"):
                frozen = model.simulate is not None and bool(model.simulate.freeze)
                checkpoints.restore_checkpoint(resumed[1], instance, program, frozen)
        elif job.weights is not None:
            put_weights(instance, program, job.weights)
        with ExitStack() as opened, stop_on_signals() as stop:
            progress, board = job.progress, None
            if job.options.tensorboard:
                progress = board = Board(progress, model, folder.path)
                opened.callback(board.close)
            digest = folder.record["model"]["hash"]
            session = Session(prepared, instance, folder.path, digest, stop, progress, resumed, trials)
            outcome = run_spiking(session) if model.train is None else run_training(session)
            if board is not None:
                board.end(outcome)
                board.close()
            folder.record["measured"] = dict(instance.measured)
            instance.close()
            return replace(_finished(model, outcome, times, folder), signal=stop.number)
    finally:
        instance.close()


def _trials(prepared: Prepared, instance: Instance) -> Trials | None:
    """The trials of a training whose samples are simulated."""
    return Trials(prepared.model, prepared.lowered, instance) if prepared.model.in_trials else None


def _finished(model: l0.Model, outcome: Outcome, times: Times, folder: RunFolder) -> RunResult:
    times.add("run", *outcome.seconds)
    warnings = tuple(folder.record["warnings"])
    checks = check_expectations(model, outcome.rates, outcome.counts, outcome.metrics)
    folder.record |= {
        "times": _times(times, outcome.extra),
        "summary": {
            "rates_hz": outcome.rates,
            "spikes": outcome.counts,
            "metrics": outcome.metrics,
            **({} if outcome.course is None else {"training": asdict(outcome.course)}),
            **({} if outcome.ended_ms is None else {"ended_ms": outcome.ended_ms}),
        },
        "expectations": [c.as_json() for c in checks],
        "recorded_steps": list(outcome.window) if outcome.window else None,
        "plots": [],
    }
    status = "ok" if outcome.interrupted is None else "interrupted"
    message = None if outcome.interrupted is None else f"signal {outcome.interrupted}"
    final = folder.finish(status, message)
    return RunResult(
        final,
        status,
        outcome.rates,
        outcome.counts,
        outcome.metrics,
        checks,
        warnings,
        outcome.interrupted,
        folder.record,
        _course(outcome),
    )


def _course(outcome: Outcome) -> str | None:
    """A line for users about when the run ended."""
    if outcome.ended_ms is not None:
        return f"ended at {outcome.ended_ms:g} ms: the condition of `stop` holds"
    return None if outcome.course is None else outcome.course.text()


def _with_plots(result: RunResult, model: l0.Model, folder: RunFolder, times: Times) -> RunResult:
    """Draw the plots of a finished run; a failure or a signal while drawing is a warning."""
    from compiler.runtime.plots.plots import Plotted, draw_plots, drawn

    number = result.signal
    try:
        with times.part("plots"):
            steps = folder.record["recorded_steps"]
            plotted = draw_plots(folder.path, model, (steps[0], steps[1]) if steps else None)
    except KeyboardInterrupt as error:
        number = getattr(error, "signal_number", SIGINT)
        plotted = Plotted(drawn(folder.path), f"{Signals(number).name} ended the drawing of the plots")
    except RunError as error:
        plotted = Plotted(drawn(folder.path), f"{error.code}: {error.message}")
    except Exception as error:
        text = f"plots could not be drawn: {type(error).__name__}: {error}"
        plotted = Plotted(drawn(folder.path), text)
    warnings = (*result.warnings, *([plotted.warning] if plotted.warning else ()))
    with stop_on_signals() as stop:
        folder.record["times"] |= times.rounded()
        folder.record |= {"plots": list(plotted.files), "warnings": list(warnings)}
        try:
            folder.write_record()
        except RunError as error:
            warnings = (*warnings, f"{error.code}: {error.message}")
    return replace(result, warnings=warnings, signal=number if stop.number is None else stop.number)


def _resumed(prepared: Prepared, options: Options) -> tuple[tuple[checkpoints.Position, Path] | None, tuple[str, ...]]:
    """Where to resume, checked against the model, and warnings of damaged checkpoints that were passed over. Raises
    RunError (E0909, E0927)."""
    if options.resume is None:
        return None, ()
    latest = checkpoints.latest_checkpoint(options.resume)
    path, position = latest.path, checkpoints.read_position(latest.path)
    kind = "spiking" if prepared.model.train is None else "training"
    checkpoints.check_origin(path, position, kind, prepared.seed, model_hash(prepared.model))
    return (position, path), tuple(f"`{p}` is damaged: the run goes on from `{path.name}`" for p in latest.damaged)


def _head(prepared: Prepared, options: Options, artifact: Artifact, started: str) -> dict[str, Any]:
    """The contents of run.json before the run begins."""
    model = prepared.model
    return {
        "status": "running",
        "netloom": VERSION,
        "started": started,
        "name": model.name,
        "model": {
            "file": str(prepared.path),
            "folder": str(options.folder or data_folder(prepared.path)),
            "hash": model_hash(model),
        },
        "settings": dict(options.set),
        "data": None if options.data is None else str(options.data.resolve()),
        "params": {p.name: p.value for p in model.params},
        "numerics": {"precision": model.numerics.precision, "order": model.numerics.order},
        "seed": prepared.seed,
        "resumed_from": None if options.resume is None else str(options.resume),
        "target": options.target,
        "compiler": artifact.compiler,
        "flags": list(artifact.flags),
        "key": artifact.key,
        "compiled": artifact.compiled,
        "command": sys.argv if Path(sys.argv[0]).name == "netloom" else None,
        "git": git_commit(prepared.path.parent),
        "decisions": [astuple(d) for d in prepared.lowered.decisions[:MOST_DECISIONS]],
        "python": platform.python_version(),
        "system": platform.platform(),
    }


def _way(run: Path, folder: Path) -> str | None:
    """The path from a run directory to a folder, which stays valid when both are moved; None between drives."""
    try:
        return os.path.relpath(folder, run.resolve())
    except ValueError:
        return None


def _times(times: Times, extra: Mapping[str, float]) -> dict[str, Any]:
    return times.rounded() | {k: round(v, 6) for k, v in extra.items()}


def _texts(diagnostics: tuple[Diagnostic, ...]) -> tuple[str, ...]:
    shown = [d for d in diagnostics if d.severity is not Severity.ERROR]
    return tuple(render(shown, "short").splitlines())


def _write_model(prepared: Prepared, options: Options, folder: Path) -> None:
    """model.yaml: the model with all `use` expanded."""
    from compiler.runtime.artifacts.expanded import expanded_yaml

    text = expanded_yaml(prepared.path, options.set, options.folder)
    write_text(folder / "model.yaml", text, "the model")
