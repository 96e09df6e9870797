"""The Python API: check, build and run a model file, as the command line does.

    from compiler import check, build, run
    result = run("models/cuba.yaml", set={"n_exc": 1600})
    times, neurons = result.spikes("exc")

Assumes: paths as strings or Paths.
Guarantees: a mistake in the model raises ModelError (check returns it as diagnostics); a missing tool or a failed
compiler raises BackendError; a run that fails raises RunError, and so does an argument of another type than is written
here (E0912). `str` of an error is the text that the command line prints; a diagnostic has `code`, `message`, `help`,
`file`, `line` and `column` (from 1). Nothing is printed unless quiet=False.
Does not: change the working directory or global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.core.diagnostics import Diagnostic
from compiler.core.errors import ModelError
from compiler.runtime.artifacts.results import BuildResult, RunResult
from compiler.runtime.common.arguments import (
    choice_or_none,
    duration_of,
    flag,
    names_of,
    path_of,
    path_or_none,
    settings_of,
    target_of,
    text_or_none,
    whole_or_none,
)
from compiler.runtime.common.options import ORDERS, PRECISIONS, Options

if TYPE_CHECKING:
    from backends.protocol import AnyArray
    from compiler.runtime.training.samples import Samples

Settings = Mapping[str, str | int | float | bool]
_ARCH = "the name of an architecture, such as 'sm_90'"


def check(path: str | PathLike[str], set: Settings | None = None) -> list[Diagnostic]:
    """Everything there is to say about a model file; empty when it is right."""
    from compiler.runtime.common.timing import Times
    from compiler.runtime.prepare import load_checked, look_ahead
    from compiler.runtime.resources.bill import warnings as too_large

    options = Options(settings=settings_of(set))
    try:
        where = path_of("path", path)
        model, warnings = load_checked(where, options, Times())
        return [*warnings, *too_large(look_ahead(where, options, model))]
    except ModelError as error:
        return list(error.diagnostics)


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
    from compiler.runtime.execute import build_model

    options = Options(
        target_of(target),
        settings_of(set),
        choice_or_none("precision", precision, PRECISIONS),
        choice_or_none("order", order, ORDERS),
        portable=flag("portable", portable),
        verify=flag("verify", verify),
        build_dir=path_of("build_dir", build_dir),
        device=whole_or_none("device", device, 0),
        arch=text_or_none("arch", arch, _ARCH),
        lock=flag("lock", lock),
    )
    return build_model(path_of("path", path), options)[0]


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
    from compiler.runtime.common.progress import progress
    from compiler.runtime.execute import run_model

    options = Options(
        target_of(target),
        settings_of(set),
        choice_or_none("precision", precision, PRECISIONS),
        choice_or_none("order", order, ORDERS),
        whole_or_none("seed", seed),
        duration_of(duration),
        whole_or_none("epochs", epochs, 1),
        flag("portable", portable),
        flag("verify", verify),
        path_of("build_dir", build_dir),
        path_of("runs_dir", runs_dir),
        path_or_none("out", out),
        path_or_none("resume", resume),
        whole_or_none("device", device, 0),
        text_or_none("arch", arch, _ARCH),
        path_or_none("weights", weights),
        flag("lock", lock),
        names_of("freeze", freeze),
    )
    return run_model(path_of("path", path), options, progress(flag("quiet", quiet)))


def _using(
    target: str, set: Settings | None, weights: str | PathLike[str] | None, build_dir: str | PathLike[str],
    precision: str | None, order: str | None, portable: bool,
) -> Options:  # fmt: skip
    return Options(
        target_of(target),
        settings_of(set),
        choice_or_none("precision", precision, PRECISIONS),
        choice_or_none("order", order, ORDERS),
        portable=flag("portable", portable),
        build_dir=path_of("build_dir", build_dir),
        weights=path_or_none("weights", weights),
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
    from compiler.runtime.inference.evaluate import evaluate_file

    options = _using(target, set, weights, build_dir, precision, order, portable)
    return dict(evaluate_file(path_of("source", source), options, path_or_none("data", data)).metrics)


def predict(
    source: str | PathLike[str],
    data: Samples | str | PathLike[str],
    target: str = "cpu",
    set: Settings | None = None,
    *,
    layers: str | Sequence[str] = (),
    weights: str | PathLike[str] | None = None,
    batch: int | None = None,
    precision: str | None = None,
    order: str | None = None,
    build_dir: str | PathLike[str] = "build",
    portable: bool = False,
) -> dict[str, AnyArray]:
    """The outputs (samples, ...) of a run directory (or a model file with weights), by layer. `data`: a file, an array
    for the only input, or arrays by input. Raises ModelError, BackendError, RunError."""
    from compiler.runtime.inference.predict import predict_file

    options = _using(target, set, weights, build_dir, precision, order, portable)
    samples = Path(data) if isinstance(data, str | PathLike) else data
    named, size = names_of("layers", layers), whole_or_none("batch", batch, 1)
    return dict(predict_file(path_of("source", source), samples, options, None, named, size).outputs)
