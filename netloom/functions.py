"""What the commands do, as functions: check, build and run a model file, measure and use what it trained.

    import netloom
    result = netloom.run("models/cuba.yaml", set={"n_exc": 1600})
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
from typing import TYPE_CHECKING, Any, Unpack

from compiler.core.diagnostics import Diagnostic, RunError
from compiler.runtime.artifacts.results import BuildResult
from compiler.runtime.common.arguments import (
    flag,
    integer_or_none,
    names_of,
    path_of,
    path_or_none,
    text_or_none,
)
from compiler.runtime.common.options import (
    BuildOptions,
    Options,
    PathArgument,
    RunOptions,
    Settings,
    TrainedOptions,
    accepts,
    checked,
)

if TYPE_CHECKING:
    from backends.protocol import AnyArray
    from compiler.runtime.common.samples import Samples
    from compiler.sweep.table import SweepResult
    from compiler.tune.result import TuneResult
    from netloom.results import RunResult


def check(
    path: PathArgument, set: Settings | None = None, *, target: str | None = None, verify: bool = False
) -> list[Diagnostic]:
    """Everything there is to say about a model file; empty when it is right. With a `target` (or `verify`) it is
    lowered, too."""
    from compiler.runtime.prepare import check_model

    lower = {} if target is None else {"target": target}
    options = checked({"set": set, "verify": verify, **lower})
    return list(check_model(path_of("path", path), options, target is not None).diagnostics)


@accepts(BuildOptions)
def build(
    path: PathArgument,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    standalone: bool = False,
    embed: bool = False,
    batch: int | None = None,
    layers: str | Sequence[str] = (),
    **options: Unpack[BuildOptions],
) -> BuildResult:
    """Build `build_dir/<name>/` when it is stale. Raises ModelError, BackendError, RunError.

    `standalone`: write one C file that computes a trained network's outputs (else `layers`), `batch` samples (1) at
    once; with `embed` the `weights` stand in it. It is the `artifact`.
    """
    chosen = checked({"target": target, "set": set, **options})
    where, size = path_of("path", path), integer_or_none("batch", batch, 1)
    named = names_of("layers", layers)
    if flag("standalone", standalone):
        from compiler.runtime.inference.standalone import build_standalone

        files = build_standalone(where, chosen, flag("embed", embed), size or 1, named).files
        return BuildResult(files[0].parent, files[0], False, {})
    if flag("embed", embed) or size is not None or named or chosen.weights is not None:
        raise RunError("E0912", "`weights`, `embed`, `batch` and `layers` of a build go with `standalone`")
    from compiler.runtime.build import build_model

    return build_model(where, chosen)[0]


@accepts(RunOptions)
def run(
    path: PathArgument,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    quiet: bool = True,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a model and write `runs_dir/<name>-<stamp>/`, or `out`. Raises ModelError, BackendError, RunError.

    `freeze`: "learning", or projections, as in `simulate: {freeze: ...}` and in its place.
    Ctrl-C ends the run between two steps: the result's status is "interrupted".
    """
    from compiler.runtime.common.progress import progress
    from compiler.runtime.execute import run_model
    from netloom.results import RunResult

    chosen = checked({"target": target, "set": set, **options})
    return RunResult.of(run_model(path_of("path", path), chosen, progress(flag("quiet", quiet))))


@accepts(TrainedOptions)
def evaluate(
    source: PathArgument,
    data: PathArgument | None = None,
    target: str = "cpu",
    set: Settings | None = None,
    **options: Unpack[TrainedOptions],
) -> dict[str, float]:
    """Loss and metrics of a run directory (or a model file with weights) on the samples of a data file, or on those
    that its training kept for validation. Raises ModelError, BackendError, RunError."""
    from compiler.runtime.inference.predict import evaluate_file

    chosen = checked({"target": target, "set": set, **options})
    return dict(evaluate_file(path_of("source", source), chosen, path_or_none("data", data)).metrics)


@accepts(TrainedOptions)
def predict(
    source: PathArgument,
    data: Samples | PathArgument,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    layers: str | Sequence[str] = (),
    batch: int | None = None,
    out: PathArgument | None = None,
    **options: Unpack[TrainedOptions],
) -> dict[str, AnyArray]:
    """The outputs (samples, ...) of a run directory (or a model file with weights), by layer. `data`: a file, an array
    for the only input, or arrays by input; `out`: an .npz file to write, too. Raises ModelError, BackendError,
    RunError."""
    from compiler.runtime.inference.predict import predict_file

    chosen = checked({"target": target, "set": set, **options})
    samples = Path(data) if isinstance(data, str | PathLike) else data
    named, size = names_of("layers", layers), integer_or_none("batch", batch, 1)
    result = predict_file(path_of("source", source), samples, chosen, path_or_none("out", out), named, size)
    return dict(result.outputs)


@accepts(RunOptions)
def sweep(
    path: PathArgument,
    trials: Mapping[str, Any] | None = None,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    cluster: str | None = None,
    quiet: bool = True,
    **options: Unpack[RunOptions],
) -> SweepResult:
    """Run a model for many settings, as `netloom sweep` does; the table of results.

    `trials`: in place of the model's `sweep`, in the same form: {"grid": {"n": [1, 2]}}; `seeds`: a number, or the
    seeds themselves; `workers`: processes (one per processor); `out`: the folder (sweeps/<name>); `scheduler`: the
    address of a Dask scheduler whose workers run the trials; `cluster`: "slurm", "pbs" or "ssh:host1,host2", where
    workers are started. Trials that are there already are not run again. Raises ModelError, RunError; what a trial
    raises is in its row.
    """
    chosen = checked({"target": target, "set": set, **options})
    return sweep_of(path_of("path", path), trials, chosen, seeds, workers, quiet, scheduler, cluster)


def sweep_of(
    path: Path,
    trials: Mapping[str, Any] | None,
    chosen: Options,
    seeds: int | Sequence[int] | None,
    workers: int | None,
    quiet: bool,
    scheduler: str | None = None,
    cluster: str | None = None,
) -> SweepResult:
    """As `sweep`, with checked options."""
    import os

    from compiler.sweep.cluster import where
    from compiler.sweep.run import planned, run_sweep
    from compiler.sweep.show import shown

    count = integer_or_none("workers", workers, 1) or len(os.sched_getaffinity(0))
    address = text_or_none("scheduler", scheduler, "an address such as 'tcp://node:8786'")
    elsewhere = where(address, text_or_none("cluster", cluster, "'slurm', 'pbs' or 'ssh:host1,host2'"), count)
    plan = planned(path, trials, seeds, chosen)
    folder = chosen.out or Path("sweeps") / plan.name
    start = count if elsewhere is None else elsewhere.start
    return run_sweep(plan, chosen, folder, start, shown(flag("quiet", quiet)))


@accepts(BuildOptions)
def tune(
    path: PathArgument,
    target: str = "cpu",
    set: Settings | None = None,
    *,
    rounds: int = 7,
    only: str | None = None,
    budget: str | None = None,
    batch: int | None = None,
    whole: bool = True,
    **options: Unpack[BuildOptions],
) -> TuneResult:
    """Measure how to compute each contraction of a model, `rounds` times, and write the fastest ways into the lock file
    beside it (`file` of the result; `summary()`: the way of each contraction, with microseconds; `rows`: all
    candidates). `only`: "conv*:winograd,fft"; `budget`: "60 s"; `batch`: predictions for so many samples at once, too;
    `whole`: whether whole steps have the last word. Raises ModelError, BackendError, RunError."""
    from compiler.runtime.common.amounts import seconds_of
    from compiler.runtime.tuned_before import tune as tune_model
    from compiler.tune.wishes import EVERYTHING, Wishes, parsed

    chosen = checked({"target": target, "set": set, **options})
    named = text_or_none("only", only, "a text such as 'conv*:winograd,fft'")
    wishes = Wishes(
        integer_or_none("rounds", rounds, 1) or 7,
        EVERYTHING if named is None else parsed(named),
        seconds_of("budget", text_or_none("budget", budget, "a time such as '60 s'")),
        integer_or_none("batch", batch, 1),
        flag("whole", whole),
    )
    return tune_model(path_of("path", path), chosen, wishes=wishes)


@accepts(TrainedOptions)
def export(
    source: PathArgument,
    out: PathArgument | None = None,
    set: Settings | None = None,
    *,
    layers: str | Sequence[str] = (),
    **options: Unpack[TrainedOptions],
) -> Path:
    """Write the network of a run directory (or of a model file with weights) as an ONNX file; its path. `layers`: its
    outputs, else the last ones. Raises ModelError, RunError (E0918 for what ONNX does not have)."""
    from compiler.interchange.onnx.export import export_file

    chosen = checked({"set": set, **options})
    return export_file(path_of("source", source), chosen, path_or_none("out", out), names_of("layers", layers)).file


def open(path: PathArgument) -> RunResult:
    """The result of a run directory, as `run` returned it. Raises RunError (E0916)."""
    from compiler.runtime.artifacts.results import open_result
    from netloom.results import RunResult

    return RunResult.of(open_result(path_of("path", path)))
