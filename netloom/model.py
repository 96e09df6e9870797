"""A model that was loaded: from a file, a text or a dict.

Assumes: compiler/runtime does the work.
Guarantees: nothing is written but into temporary folders, which go with the objects that need them, unless `out` or
`runs_dir` asks for a folder; what was compiled once is not compiled again while the Model lives, and after that it is
in the cache.
Does not: check the model when it is loaded (`check` does, and everything that uses it).
"""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from compiler.core.diagnostics import Diagnostic, RunError
from compiler.runtime.artifacts.results import BuildResult
from compiler.runtime.common.arguments import contents_of, flag, names_of, path_of, path_or_none, settings_of
from compiler.runtime.common.options import (
    BuildOptions,
    FitOptions,
    Options,
    PathArgument,
    RunOptions,
    Settings,
    SimulationOptions,
    TrainedOptions,
    accepts,
    checked,
)
from compiler.runtime.common.progress import Progress, progress

if TYPE_CHECKING:
    from backends.protocol import AnyArray
    from compiler.runtime.common.samples import Samples
    from compiler.sweep.table import SweepResult
    from netloom.results import RunResult
    from netloom.samples import Arrays, Batches
    from netloom.simulation import Simulation

OnEpoch = Callable[[dict[str, float]], object]
"""Is given `epoch`, `loss`, the metrics and `seconds` of each epoch; the training ends when it returns True."""


class Model:
    """A model file with its settings. `path`: of the file, or of a temporary one that holds the text. `set` of a
    method: other values of parameters for this one call, beside and before those of `load`."""

    def __init__(self, path: Path, set: Settings | None, folder: Path | None, kept: object = None) -> None:
        settings_of("set", set)
        self.path, self.settings, self.folder = path, dict(set or {}), folder
        self._temporary = tempfile.TemporaryDirectory(prefix="netloom-")
        self._kept = kept
        self._trained: RunResult | None = None

    def __repr__(self) -> str:
        return f"<netloom.Model {self.path.name}>"

    def _options(self, target: str, given: Mapping[str, Any]) -> Options:
        fields = {"build_dir": Path(self._temporary.name) / "build", **given}
        settings = {**self.settings, **settings_of("set", given.get("set"))}
        chosen = checked({"target": target, **fields, "set": settings})
        return replace(chosen, folder=self.folder, keep_build="build_dir" in given)

    # ----------------------------------------------------------------------------------- before a run

    def check(self, target: str | None = None, *, set: Settings | None = None) -> list[Diagnostic]:
        """Everything there is to say about the model; empty when it is right. With a `target` it is lowered, too."""
        from compiler.runtime.prepare import check_model

        options = self._options(target or "cpu", {"set": set})
        return list(check_model(self.path, options, target is not None).diagnostics)

    def show(self, target: str = "cpu", *, set: Settings | None = None) -> str:
        """Populations, projections, layers with shapes, memory: what `netloom show` prints. Raises ModelError."""
        from compiler.cli.errors import Format
        from compiler.cli.output.show import show_summary

        text = io.StringIO()
        with redirect_stdout(text):
            show_summary(self.path, self._options(target, {"set": set}), Format.human)
        return text.getvalue()

    @accepts(BuildOptions)
    def build(
        self, target: str = "cpu", *, set: Settings | None = None, **options: Unpack[BuildOptions]
    ) -> BuildResult:
        """Emit and compile. `build_dir`: where; else a temporary folder. Raises ModelError, BackendError, RunError."""
        from compiler.runtime.build import build_model

        return build_model(self.path, self._options(target, {**options, "set": set}))[0]

    # ------------------------------------------------------------------------------------------- runs

    @accepts(RunOptions, plots=False)
    def run(
        self,
        target: str = "cpu",
        *,
        set: Settings | None = None,
        quiet: bool = True,
        **options: Unpack[RunOptions],
    ) -> RunResult:
        """Run the model from its beginning to its end, as `netloom run` does. Without `out` or `runs_dir` the result's
        folder is temporary: it is removed when the result is no longer referred to, and plots are not drawn unless
        `plots=True`. Raises ModelError, BackendError, RunError."""
        return self._run(target, {**options, "set": set}, progress(flag("quiet", quiet)))

    @accepts(SimulationOptions)
    def simulation(
        self,
        seed: int | None = None,
        target: str = "cpu",
        *,
        set: Settings | None = None,
        **options: Unpack[SimulationOptions],
    ) -> Simulation:
        """A simulation that is run piece by piece; nothing has run yet. Raises ModelError, BackendError, RunError."""
        from netloom.simulation import Simulation

        fields = {"seed": seed, "set": set, **options}
        return Simulation(self.path, self._options(target, fields), self)

    def _run(self, target: str, options: Mapping[str, Any], shown: Progress) -> RunResult:
        from compiler.runtime.execute import run_model
        from netloom.results import RunResult

        if "out" in options or "runs_dir" in options:
            return RunResult.of(run_model(self.path, self._options(target, options), shown))
        kept = tempfile.TemporaryDirectory(prefix="netloom-run-")
        fields = {"plots": False, **options, "out": Path(kept.name) / "run"}
        return replace(RunResult.of(run_model(self.path, self._options(target, fields), shown)), kept=kept)

    @accepts(RunOptions)
    def sweep(
        self,
        trials: Mapping[str, Any] | None = None,
        target: str = "cpu",
        *,
        set: Settings | None = None,
        seeds: int | Sequence[int] | None = None,
        workers: int | None = None,
        scheduler: str | None = None,
        cluster: str | None = None,
        quiet: bool = True,
        **options: Unpack[RunOptions],
    ) -> SweepResult:
        """Run the model for many settings; see `netloom.sweep`. Raises ModelError, RunError."""
        from netloom.functions import sweep_of

        chosen = self._options(target, {**options, "set": set})
        return sweep_of(self.path, trials, chosen, seeds, workers, quiet, scheduler, cluster)

    # -------------------------------------------------------------------------------------- training

    @accepts(FitOptions, plots=False)
    def fit(
        self,
        data: Arrays | Batches | None = None,
        validation: Arrays | float | None = None,
        *,
        target: str = "cpu",
        set: Settings | None = None,
        on_epoch: OnEpoch | None = None,
        quiet: bool = True,
        **options: Unpack[FitOptions],
    ) -> RunResult:
        """Train the network.

        `data`: arrays by input, the first axis of each counting samples, or an iterable of such maps (batches of any
        size, taken once); None: what the model file names. `validation`: arrays like them, or the part that is kept;
        None: what the model's `split` says. `on_epoch` is called after each epoch with its metrics and ends the
        training by returning True. The weights are those of the result, and of this model for `evaluate` and
        `predict`. Everything else is as in `run`. Raises ModelError, BackendError, RunError.
        """
        shown: Progress = progress(flag("quiet", quiet))
        if on_epoch is not None:
            shown = _Told(shown, on_epoch)
        held = validation if isinstance(validation, Mapping) else None
        fields: dict[str, Any] = {**options, "set": set}
        if validation is not None and held is None:
            fields["validation"] = validation
        if data is None:
            if held is not None:
                raise RunError("E0912", "arrays for `validation` go with arrays as `data`")
            result = self._run(target, fields, shown)
        else:
            from netloom.samples import write_samples

            with tempfile.TemporaryDirectory(prefix="netloom-data-") as folder:
                written = write_samples(data, held, Path(folder))
                fields["data"] = written.path
                if written.last:
                    fields["validation"] = float(written.last)
                result = self._run(target, fields, shown)
        self._trained = result
        return result

    @accepts(TrainedOptions)
    def evaluate(
        self,
        data: Arrays | PathArgument | None = None,
        target: str = "cpu",
        *,
        set: Settings | None = None,
        **options: Unpack[TrainedOptions],
    ) -> dict[str, float]:
        """Loss and metrics with the weights of the last `fit` (or `weights`, or those that the model names) on `data`:
        arrays by input, a file, or None for the samples that the model keeps. Raises ModelError, BackendError,
        RunError."""
        from compiler.runtime.inference.predict import evaluate_file

        chosen = self._options(target, self._with_weights({**options, "set": set}))
        if data is None or isinstance(data, str | PathLike):
            where = None if data is None else path_of("data", data)
            with _in_words_of_python():
                return dict(evaluate_file(self.path, chosen, where).metrics)
        from netloom.samples import write_samples

        with tempfile.TemporaryDirectory(prefix="netloom-data-") as folder:
            written = write_samples(data, None, Path(folder))
            with _in_words_of_python():
                return dict(evaluate_file(self.path, chosen, written.path).metrics)

    @accepts(TrainedOptions)
    def predict(
        self,
        data: Samples | PathArgument,
        target: str = "cpu",
        *,
        set: Settings | None = None,
        layers: str | Sequence[str] = (),
        **options: Unpack[TrainedOptions],
    ) -> dict[str, AnyArray]:
        """The outputs (samples, ...) by layer, with the weights of the last `fit` (or `weights`, or those that the
        model names). `data`: a file, an array for the only input, or arrays by input. Raises ModelError, BackendError,
        RunError."""
        from compiler.runtime.inference.predict import predict_file

        samples = Path(data) if isinstance(data, str | PathLike) else data
        chosen = self._options(target, self._with_weights({**options, "set": set}))
        named = names_of("layers", layers)
        with _in_words_of_python():
            return dict(predict_file(self.path, samples, chosen, outputs=named).outputs)

    def _with_weights(self, options: Mapping[str, Any]) -> dict[str, Any]:
        own = None if self._trained is None else self._trained.folder
        return {**options, "weights": own if options.get("weights") is None else options["weights"]}


@contextmanager
def _in_words_of_python() -> Iterator[None]:
    """What to call where there are no weights, in place of options of the command line and a temporary file's name."""
    from compiler.runtime.artifacts.trained import Untrained

    try:
        yield
    except Untrained as error:
        help = "call `fit` first, or give `weights=`, the folder of a run or a .safetensors file"
        raise RunError(error.code, "the model has no weights: it has not been trained by `fit`", help) from None


class _Told(Progress):
    """A progress that tells a function of each epoch."""

    def __init__(self, shown: Progress, on_epoch: OnEpoch) -> None:
        self._shown, self._on_epoch = shown, on_epoch

    def start(self, label: str, total: float) -> None:
        self._shown.start(label, total)

    def update(self, done: float, text: str) -> None:
        self._shown.update(done, text)

    def finish(self) -> None:
        self._shown.finish()

    def epoch(self, row: dict[str, float]) -> bool:
        return self._on_epoch(row) is True


def load(
    model: PathArgument | Mapping[str, Any], set: Settings | None = None, *, folder: PathArgument | None = None
) -> Model:
    """A model from a file; from its text (a string with more than one line); or from a dict with its contents.

    `set`: other values of parameters, as `--set`. `folder`: where paths in the model count from; of a text or a dict
    the working directory, otherwise that of the file. Raises RunError (E0912) for anything else.
    """
    where = None if folder is None else path_of("folder", folder).absolute()
    if isinstance(model, Mapping):
        from yaml import safe_dump

        model = safe_dump(contents_of("model", model), sort_keys=False, allow_unicode=True, width=100) + "\n"
    if not isinstance(model, str) or "\n" not in model:
        return Model(path_of("model", model), set, where)
    kept = tempfile.TemporaryDirectory(prefix="netloom-model-")
    name = re.search(r"^name:\s*[\"']?([A-Za-z0-9_.-]{1,100})[\"']?\s*$", model, re.MULTILINE)
    path = Path(kept.name) / f"{name[1] if name else 'model'}.yaml"
    path.write_text(model, encoding="utf-8")
    return Model(path, set, where or Path.cwd(), kept)


def import_onnx(path: PathArgument, out: PathArgument | None = None) -> Model:
    """Write the network of an ONNX file as a model file (`out`, or beside it) with its weights; the model. Raises
    RunError (E0918 for what cannot be imported)."""
    from compiler.interchange.onnx.import_file import import_file

    file = path_of("path", path)
    return load(import_file(file, path_or_none("out", out)).model)
