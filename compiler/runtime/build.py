"""Builds a model: lowered and compiled into its build folder, with the time of each part.

Assumes: compiler/runtime/prepare.py lowers, compiler/runtime/artifacts/build_folder.py keeps the folder.
Guarantees: nothing is emitted or compiled when the folder is up to date.
Does not: load or run.
"""

from __future__ import annotations

from pathlib import Path

from compiler.runtime.artifacts.build_folder import Built, build_into
from compiler.runtime.artifacts.results import BuildResult
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import Prepared, prepare_to_run


def build_model(path: Path, options: Options) -> tuple[BuildResult, Prepared]:
    """Lower and build into `build/<name>`. Raises ModelError, BackendError, RunError."""
    times = Times()
    prepared = prepare_to_run(path, options, times)
    built = build_prepared(prepared, options, times)
    seconds = {name: part["cpu_seconds"] for name, part in times.parts.items()}
    artifact = built.artifact
    return BuildResult(built.folder, artifact.binary, artifact.compiled, seconds, times.steps), prepared


def build_prepared(prepared: Prepared, options: Options, times: Times) -> Built:
    """Build when stale; the C compiler's share of the time is part "compile", the rest "emit"."""
    inner = Times()
    with inner.part("build"):
        chosen = {**options.backend_options(), "seed": str(prepared.seed)}
        built = build_into(options.build_dir, prepared.lowered.merged, prepared.backend, chosen)
    compiler = built.artifact.compile_seconds
    whole = inner.parts["build"]
    times.add("emit", max(whole["cpu_seconds"] - compiler, 0.0), max(whole["wall_seconds"] - compiler, 0.0))
    times.add("compile", compiler, min(compiler, whole["wall_seconds"]))
    return built
