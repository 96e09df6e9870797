"""The outputs of a trained network for given samples, and its loss and metrics on a data set.

Assumes: compiler/passes/pipeline/lower.py; to evaluate, a model with `train`, which defines the loss and metrics.
Guarantees: every sample is computed once, in order; padding of the last batch is not in the outputs. To evaluate, the
phase "eval" alone is lowered. Without a data file, the samples that the training kept for validation (all of them when
it kept none): the same numbers as in metrics.jsonl in the line of the epoch that the weights are of (the best or the
last), bit for bit. With one, all of its samples.
Does not: train, or find the weights (compiler/runtime/artifacts/trained.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import compiler.ir.level0.model as l0
import compiler.passes.pipeline.lower as predict
from backends.protocol import AnyArray, Backend, Instance
from backends.registry import backend as backend_of
from compiler.core.cache import cache_folder
from compiler.core.diagnostics import Diagnostic, ModelError, RunError, did_you_mean
from compiler.core.disk import new_file
from compiler.files.array_rows import MemoryRows, Rows
from compiler.files.sample_checks import sample_checks
from compiler.ir.space import DType
from compiler.passes.layers.load_data import DataSet, load_data
from compiler.passes.pipeline.lower import lower_evaluation
from compiler.passes.program.decisions import Decision
from compiler.passes.tensors.fold_norms import folded
from compiler.runtime.artifacts.build_folder import Built, build_into
from compiler.runtime.artifacts.safetensors import learned, put_weights
from compiler.runtime.artifacts.trained import Trained, open_trained, samples_of_run
from compiler.runtime.common.arrays import read_logical
from compiler.runtime.common.locks import locked
from compiler.runtime.common.metrics import confusion_of, metrics_of
from compiler.runtime.common.options import Options
from compiler.runtime.common.samples import Samples, data_of, from_caller, from_file, headers_checked, readable
from compiler.runtime.prepare import refuse_options
from compiler.runtime.resources.bill import refuse_memory
from compiler.runtime.training.data import split
from compiler.runtime.training.feed import Feed
from compiler.runtime.training.run_training import take_sums
from compiler.runtime.trials import Trials

BATCH = 64
"""The default batch size."""


@dataclass(frozen=True)
class PredictResult:
    """`outputs`: (samples, ...) by layer; `file`: where they were written."""

    outputs: Mapping[str, AnyArray]
    samples: int
    file: Path | None = None
    warnings: tuple[Diagnostic, ...] = ()
    decisions: tuple[Decision, ...] = ()


class Predictor:
    """A loaded network. Use it several times, then `close` it."""

    def __init__(self, prediction: predict.Prediction, built: Built, backend: Backend, trained: Trained) -> None:
        self.prediction = prediction
        program = prediction.lowered.merged
        weights = trained.weights(learned((prediction.graph,)))
        self.instance: Instance = backend.load(built.artifact, program, trained.seed)
        self._trials = Trials(trained.model, prediction.lowered, self.instance, 0) if prediction.trials else None
        put_weights(self.instance, program, folded(weights, prediction.folds))
        self._arrays = {a.name: a for a in program.arrays}
        network = trained.model.network
        assert network is not None
        self._checks = sample_checks(network, {i.name: i.name for i in prediction.inputs})

    def __call__(self, samples: Mapping[str, AnyArray | Rows]) -> dict[str, AnyArray]:
        """The outputs for arrays by input, all of one length; arrays that stay in files are read batch by batch.
        Raises RunError (E0917, exit 2)."""
        p = self.prediction
        rows_of = {name: MemoryRows(a) if isinstance(a, np.ndarray) else a for name, a in samples.items()}
        count = next(iter(rows_of.values())).shape[0]
        parts: dict[str, list[AnyArray]] = {o.name: [] for o in p.outputs}
        order = self._arrays[predict.ORDER]
        for first in range(0, count, p.batch):
            rows = min(p.batch, count - first)
            numbers = np.full(order.shape, -1, np.int32)
            numbers[0, :rows] = np.arange(rows)
            self.instance.write(predict.ORDER, numbers.reshape(-1))
            for item in p.inputs:
                array = self._arrays[predict.data_name(item.name)]
                block = np.zeros(array.shape, array.dtype.numpy)
                chosen = np.arange(first, first + rows)
                with readable("the samples"):
                    values = rows_of[item.name].take(chosen)
                if (bad := self._checks.integers(item.name, values, chosen)) is not None:
                    raise RunError("E0917", bad.message)
                block[:rows] = values.reshape(rows, -1)
                self.instance.write(array.name, block.reshape(-1))
            if self._trials is not None:
                self._trials.run(first // p.batch)
            self.instance.run(predict.PHASE, 1, 1)
            for o in p.outputs:
                values = read_logical(self.instance, self._arrays[o.array])
                parts[o.name].append(values.reshape(p.batch, *o.shape)[:rows])
        return {name: np.concatenate(blocks) for name, blocks in parts.items()}

    def close(self) -> None:
        self.instance.close()


def chosen_outputs(model: l0.Model, names: tuple[str, ...]) -> tuple[str, ...]:
    """`names`, which must be layers, and read the network's inputs. Raises RunError (E0912, exit 2)."""
    assert model.network is not None
    layers = [layer.name for layer in model.network.layers]
    for name in names:
        if name not in layers:
            help = did_you_mean(name, layers) or "layers are " + ", ".join(f"`{n}`" for n in layers[:12])
            raise RunError("E0912", f"the network has no layer `{name}`", help)
    if not predict.inputs_of(model, names):
        read = ", ".join(f"`{n}`" for n in names or predict.default_outputs(model))
        message = f"no input of the network reaches {read}: for every sample it is the same"
        raise RunError("E0912", message, "its weights stand in `weights.safetensors` of the run")
    return tuple(dict.fromkeys(names))


def lowered_prediction(
    trained: Trained, backend: Backend, options: Options, batch: int, names: tuple[str, ...]
) -> predict.Prediction:
    """With the choices of the model's lock file. Raises BackendError, RunError."""
    lock = locked(trained.lock, options, backend)
    pins = lock.predicting(batch)
    prediction = predict.lower_predict(trained.model, lock.capabilities, batch, names, options.verify, pins=pins)
    refuse_memory(prediction.lowered.merged, backend, options)
    return prediction


def build_prediction(
    trained: Trained, options: Options, batch: int, outputs: tuple[str, ...] = ()
) -> tuple[predict.Prediction, Built, Backend]:
    """Lower and build into `build/<name>_predict`. Raises BackendError, RunError."""
    refuse_options(options)
    backend = backend_of(options.target, options.device or 0, options.verify, options.arch)
    prediction = lowered_prediction(trained, backend, options, batch, chosen_outputs(trained.model, outputs))
    chosen = {**options.backend_options(), "seed": str(trained.seed)}
    built = build_into(options.build_dir, prediction.lowered.merged, backend, chosen)
    return prediction, built, backend


def predict_file(
    source: Path,
    data: Path | Samples,
    options: Options,
    out: Path | None = None,
    outputs: tuple[str, ...] = (),
    batch: int | None = None,
) -> PredictResult:
    """The outputs of `source` (a run directory or model file) for `data`, written to `out` (.npz) if given.
    Raises ModelError, BackendError, RunError."""
    if out is not None and out.suffix != ".npz":
        raise RunError("E0912", f"`{out}` is not an .npz file", "outputs are written as an .npz file")
    if batch is not None and batch < 1:
        raise RunError("E0912", "--batch is at least 1")
    trained = open_trained(source, options)
    names = chosen_outputs(trained.model, outputs)
    model = trained.model
    needed = predict.inputs_of(model, names)
    samples: Mapping[str, AnyArray | Rows]
    if isinstance(data, Path):
        samples = from_file(data, needed, model, cache_folder())
    else:
        samples = from_caller(data, needed, model)
    count = next(iter(samples.values())).shape[0]
    prediction, built, backend = build_prediction(trained, options, batch_of(model, names, batch, count), names)
    predictor = Predictor(prediction, built, backend, trained)
    try:
        values = predictor(samples)
    finally:
        predictor.close()
    if out is not None:
        write_npz(out, values)
    return PredictResult(values, count, out, trained.warnings, prediction.lowered.decisions)


def batch_of(model: l0.Model, outputs: tuple[str, ...], given: int | None, count: int) -> int:
    """The batch size for so many samples: where they are trials, that of the training. Raises RunError (E0912)."""
    if not predict.in_trials(model, outputs or predict.default_outputs(model)):
        return given or min(BATCH, count)
    assert model.train is not None
    if given not in (None, model.train.batch):
        message = f"--batch {given}: each sample is a trial, and {model.train.batch} of them run at a time"
        raise RunError("E0912", message, "leave `--batch` out: it is that of the training")
    return model.train.batch


def write_npz(path: Path, arrays: Mapping[str, AnyArray]) -> None:
    """Write an .npz file, atomically."""
    with new_file(path, "the outputs", sum(a.nbytes for a in arrays.values())) as stream:
        np.savez(stream, **dict(arrays))  # type: ignore[arg-type]


PHASE = "eval"


@dataclass(frozen=True)
class EvaluateResult:
    """`metrics`: the loss first; `samples`: the number of samples; `part`: "validation" or "all"; `confusion`: rows
    of the matrix, where the training measures it."""

    metrics: Mapping[str, float]
    samples: int
    part: str
    warnings: tuple[Diagnostic, ...] = ()
    confusion: list[list[float]] | None = None


def evaluate_file(source: Path, options: Options, data: Path | None = None) -> EvaluateResult:
    """Loss and metrics of `source` (a run directory or model file). Raises ModelError, BackendError, RunError."""
    if data is None and (other_data := samples_of_run(source)) is not None:
        help = f"name the samples that are to be measured: `--data {other_data}`"
        raise RunError("E0912", f"`{source}` was not trained on the samples that its model names", help)
    trained = open_trained(source, options, data=data is None)
    train, network = trained.model.train, trained.model.network
    if train is None or network is None:
        message = f"`{source}` has no `train`, which says what is measured"
        raise RunError("E0912", message, "`netloom predict` gives the outputs themselves")
    if data is not None:
        wanted = [i for i in network.inputs if i.activity is None]
        other = data_of(data, wanted, trained.model)
        headers_checked(other, wanted)
        train = replace(train, data=other)
    precision = DType.F64 if trained.model.numerics.precision == "float64" else DType.F32
    try:
        set_ = load_data(network, train, precision)
    except ModelError as error:
        if data is None:
            raise
        first = error.diagnostics[0]  # the model itself is correct
        code = "E0917" if first.code == "E0703" else first.code
        raise RunError(code, first.message, first.help, exit_code=2) from None
    samples, kept = split(set_.examples, train.data.validation, train.seed)
    rows, part = (kept, "validation") if len(kept) else (samples, "all")
    return _measured(trained, train, replace(set_, rows={PHASE: len(rows)}), rows, part, options)


def _measured(
    trained: Trained, train: l0.Train, data: DataSet, rows: np.ndarray, part: str, options: Options
) -> EvaluateResult:
    refuse_options(options)
    model = replace(trained.model, train=train)
    backend = backend_of(options.target, options.device or 0, options.verify, options.arch)
    lock = locked(trained.lock, options, backend)
    lowered = lower_evaluation(model, lock.capabilities, data, options.verify, lock.pins)
    merged = lowered.merged
    refuse_memory(merged, backend, options)
    weights = trained.weights(learned(lowered.tensors))
    chosen = {**options.backend_options(), "seed": str(trained.seed)}
    built = build_into(options.build_dir, merged, backend, chosen)
    instance = backend.load(built.artifact, merged, trained.seed)
    try:
        trials = Trials(model, lowered, instance) if model.in_trials else None
        put_weights(instance, merged, weights)
        assert model.network is not None
        with Feed(instance, merged, model.network, train, cache_folder()) as feed:
            feed.begin(PHASE, rows)
            run_batches(instance, feed, trials, -(-len(rows) // train.batch))
        sums = take_sums(instance, merged)
    finally:
        instance.close()
    return EvaluateResult(metrics_of(sums), len(rows), part, trained.warnings, confusion_of(sums))


def run_batches(instance: Instance, feed: Feed, trials: Trials | None, count: int) -> None:
    """All batches. Raises RunError (E0906) where the program computes none."""
    done = 0
    while done < count:
        ready = feed.ready(done)
        if trials is not None:
            trials.run(done)
        ran = instance.run(PHASE, done + 1, ready - done)
        if ran <= 0:
            raise RunError("E0906", "the evaluation does not advance", exit_code=70)
        done += ran
