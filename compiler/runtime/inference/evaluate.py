"""evaluate: loss and metrics of a trained network on a data set.

Assumes: a model with `train`, which defines the loss and metrics.
Guarantees: the phase "eval" alone is lowered. Without a data file, the samples that the training kept for validation
(all of them when it kept none): the same numbers as in metrics.jsonl in the line of the epoch that the weights are of
(the best or the last), bit for bit. With one, all of its samples.
Does not: train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import compiler.ir.level0.model as l0
from backends.registry import backend as backend_of
from compiler.core.cache import cache_folder
from compiler.core.diagnostics import Diagnostic, ModelError, RunError
from compiler.ir.space import DType
from compiler.passes.layers.load_data import DataSet, load_data
from compiler.passes.pipeline.lower import lower_evaluation
from compiler.runtime.artifacts.build_folder import build_into
from compiler.runtime.artifacts.safetensors import learned, put_weights
from compiler.runtime.artifacts.trained import Trained, open_trained, samples_of_run
from compiler.runtime.common.locks import locked
from compiler.runtime.common.metrics import confusion_of, metrics_of
from compiler.runtime.common.options import Options
from compiler.runtime.common.samples import data_of, headers_checked
from compiler.runtime.prepare import refuse_options
from compiler.runtime.resources.bill import refuse_memory
from compiler.runtime.training.data import split
from compiler.runtime.training.feed import Feed
from compiler.runtime.training.run_training import take_sums
from compiler.runtime.trials import Trials

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
        raise RunError("E0912", f"`{source}` was not trained on the samples that its model names", help, exit_code=2)
    trained = open_trained(source, options, data=data is None)
    train, network = trained.model.train, trained.model.network
    if train is None or network is None:
        message = f"`{source}` has no `train`, which says what is measured"
        raise RunError("E0912", message, "`netloom predict` gives the outputs themselves", exit_code=2)
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
            done, batches = 0, -(-len(rows) // train.batch)
            while done < batches:
                ready = feed.ready(done)
                if trials is not None:
                    trials.run(done)
                done += instance.run(PHASE, done + 1, ready - done)
        sums = take_sums(instance, merged)
    finally:
        instance.close()
    return EvaluateResult(metrics_of(sums), len(rows), part, trained.warnings, confusion_of(sums))
