"""Builds a model: lowered and compiled, into its build folder or without one, with the time of each part.

Assumes: compiler/runtime/prepare.py lowers, compiler/runtime/artifacts/build_folder.py keeps the folder.
Guarantees: nothing is emitted or compiled when the folder is up to date; without a folder, texts that are equal are
made once in a process.
Does not: load or run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import compiler.ir.level2.program as l2
from backends.protocol import Artifact, Backend
from compiler.runtime.artifacts.build_folder import build_into, surroundings
from compiler.runtime.artifacts.results import BuildResult
from compiler.runtime.common.hashes import text_digest
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import Prepared, prepare_to_run


def build_model(path: Path, options: Options) -> tuple[BuildResult, Prepared]:
    """Lower and build into `build/<name>`. Raises ModelError, BackendError, RunError."""
    times = Times()
    prepared = prepare_to_run(path, options, times)
    artifact = build_prepared(prepared, replace(options, keep_build=True), times)
    seconds = {name: part["cpu_seconds"] for name, part in times.parts.items()}
    folder = options.build_dir / prepared.lowered.merged.name
    return BuildResult(folder, artifact.binary, artifact.compiled, seconds, times.steps), prepared


def build_prepared(prepared: Prepared, options: Options, times: Times) -> Artifact:
    """Build what is stale or, where no folder is kept, not known; the C compiler's share of the time is part "compile",
    the rest "emit"."""
    inner = Times()
    with inner.part("build"):
        chosen = {**options.backend_options(), "seed": str(prepared.seed)}
        program, backend = prepared.lowered.merged, prepared.backend
        if options.keep_build:
            artifact = build_into(options.build_dir, program, backend, chosen).artifact
        else:
            artifact = _compiled(program, backend, options.backend_options())
    compiler = artifact.compile_seconds
    whole = inner.parts["build"]
    times.add("emit", max(whole["cpu_seconds"] - compiler, 0.0), max(whole["wall_seconds"] - compiler, 0.0))
    times.add("compile", compiler, min(compiler, whole["wall_seconds"]))
    return artifact


_KNOWN: Final[dict[str, Artifact]] = {}
"""What has been compiled in this process without a build folder, by digest; without texts, of which runs need none."""


def _compiled(program: l2.Merged, backend: Backend, options: Mapping[str, str]) -> Artifact:
    """What `program` is loaded from. Raises BackendError."""
    digest = text_digest(program, {**options, **surroundings(backend)})
    known = _KNOWN.get(digest)
    if known is not None and all(path.exists() for path in (known.binary, *known.beside)):
        return known
    made = backend.compile(program, options)
    _KNOWN[digest] = replace(made, text="", compiled=False, compile_seconds=0.0)
    return made
