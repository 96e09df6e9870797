"""The Python API: check, build and run a model file, as the command line does.

    from compiler import check, build, run
    result = run("models/cuba.yaml", set={"n_exc": 1600})
    times, neurons = result.spikes("exc")

Assumes: paths as strings or Paths.
Guarantees: a mistake in the model raises ModelError (check returns it as diagnostics); a missing tool or a failed
compiler raises BackendError; a run that fails raises RunError. Nothing is printed unless quiet=False.
Does not: change the working directory or global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.diagnostics import Diagnostic, ModelError
from compiler.runner.options import Options
from compiler.runner.results import BuildResult, RunResult

if TYPE_CHECKING:
    from backends.protocol import AnyArray
    from compiler.runner.samples import Samples

Settings = Mapping[str, str | int | float | bool]


def _texts(settings: Settings | None) -> dict[str, str]:
    """Settings as `--set` takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in (settings or {}).items()
    }


def check(path: str | PathLike[str], set: Settings | None = None) -> list[Diagnostic]:
    """Everything there is to say about a model file; empty when it is right."""
    from compiler.runner.prepare import load_checked
    from compiler.runner.timing import Times

    try:
        _, warnings = load_checked(Path(path), Options(settings=_texts(set)), Times())
    except ModelError as error:
        return list(error.diagnostics)
    return list(warnings)


def build(
    path: str | PathLike[str],
    target: str = "cpu",
    set: Settings | None = None,
    *,
    precision: str | None = None,
    order: str | None = None,
    build_dir: str | PathLike[str] = "build",
    device: int | None = None,
    arch: str | None = None,
    portable: bool = False,
    verify: bool = False,
    lock: bool = True,
) -> BuildResult:
    """Build `build_dir/<name>/` when it is stale. Raises ModelError, BackendError."""
    from compiler.runner.execute import build_model

    options = Options(
        target,
        _texts(set),
        precision,
        order,
        portable=portable,
        verify=verify,
        build_dir=Path(build_dir),
        device=device,
        arch=arch,
        lock=lock,
    )
    return build_model(Path(path), options)[0]


def run(
    path: str | PathLike[str],
    target: str = "cpu",
    set: Settings | None = None,
    *,
    precision: str | None = None,
    order: str | None = None,
    seed: int | None = None,
    duration: str | None = None,
    epochs: int | None = None,
    out: str | PathLike[str] | None = None,
    resume: str | PathLike[str] | None = None,
    weights: str | PathLike[str] | None = None,
    build_dir: str | PathLike[str] = "build",
    runs_dir: str | PathLike[str] = "runs",
    device: int | None = None,
    arch: str | None = None,
    portable: bool = False,
    verify: bool = False,
    lock: bool = True,
    freeze: str | Sequence[str] = (),
    quiet: bool = True,
) -> RunResult:
    """Run a model and write `runs_dir/<name>-<stamp>/`, or `out`. Raises ModelError, BackendError, RunError.

    `freeze`: "learning", or projections, as in `simulate: {freeze: ...}` and in its place.
    Ctrl-C ends the run between two steps: the result's status is "interrupted".
    """
    from compiler.runner.execute import run_model
    from compiler.runner.progress import progress

    options = Options(
        target,
        _texts(set),
        precision,
        order,
        seed,
        duration,
        epochs,
        portable,
        verify,
        Path(build_dir),
        Path(runs_dir),
        None if out is None else Path(out),
        None if resume is None else Path(resume),
        device,
        arch,
        None if weights is None else Path(weights),
        lock,
        (freeze,) if isinstance(freeze, str) else tuple(freeze),
    )
    return run_model(Path(path), options, progress(quiet))


def _using(
    target: str, set: Settings | None, weights: str | PathLike[str] | None, build_dir: str | PathLike[str],
    precision: str | None, order: str | None, portable: bool,
) -> Options:  # fmt: skip
    return Options(
        target,
        _texts(set),
        precision,
        order,
        portable=portable,
        build_dir=Path(build_dir),
        weights=None if weights is None else Path(weights),
    )


def evaluate(
    source: str | PathLike[str],
    data: str | PathLike[str] | None = None,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    weights: str | PathLike[str] | None = None,
    precision: str | None = None,
    order: str | None = None,
    build_dir: str | PathLike[str] = "build",
    portable: bool = False,
) -> dict[str, float]:
    """Loss and metrics of a run directory (or a model file with weights) on the samples of a data file, or on those
    that its training kept for validation. Raises ModelError, BackendError, RunError."""
    from compiler.runner.evaluate import evaluate_file

    options = _using(target, set, weights, build_dir, precision, order, portable)
    return dict(evaluate_file(Path(source), options, None if data is None else Path(data)).metrics)


def predict(
    source: str | PathLike[str],
    data: Samples | str | PathLike[str],
    target: str = "cpu",
    set: Settings | None = None,
    *,
    layers: Sequence[str] = (),
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    precision: str | None = None,
    order: str | None = None,
    build_dir: str | PathLike[str] = "build",
    portable: bool = False,
) -> dict[str, AnyArray]:
    """The outputs (samples, ...) of a run directory (or a model file with weights), by layer. `data`: a file, an array
    for the only input, or arrays by input. Raises ModelError, BackendError, RunError."""
    from compiler.runner.predict import predict_file

    options = _using(target, set, weights, build_dir, precision, order, portable)
    samples = Path(data) if isinstance(data, str | PathLike) else data
    return dict(predict_file(Path(source), samples, options, None, tuple(layers), batch).outputs)
