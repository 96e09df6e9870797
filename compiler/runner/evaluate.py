"""evaluate: loss and metrics of a trained network on a data set.

Assumes: a model with `train`: its loss and metrics are what is measured.
Guarantees: the phase "eval" alone is lowered. Without a data file, the samples that the training kept for validation
(all of them when it kept none): the same numbers as in its last line of metrics.jsonl, bit for bit. With one, all of
its samples.
Does not: train.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from backends.registry import backend as backend_of
from compiler.diagnostics import Diagnostic
from compiler.interchange.safetensors import learned, put_weights
from compiler.ir.model import Train
from compiler.ir.program import Order
from compiler.ir.space import DType
from compiler.ir.verify import verify_merged, verify_program
from compiler.passes.build_program import ProgramBuilder
from compiler.passes.load_data import DataSet, load_data
from compiler.passes.lower_tensors import lower_tensors
from compiler.passes.merge import merge
from compiler.passes.tensors import tensor_graphs
from compiler.runner.build_folder import build_into
from compiler.runner.data import as_batches, split
from compiler.runner.errors import RunError
from compiler.runner.options import Options
from compiler.runner.prepare import refuse_options
from compiler.runner.run_training import take_metrics
from compiler.runner.samples import from_file
from compiler.runner.trained import Trained, open_trained

PHASE = "eval"


@dataclass(frozen=True)
class EvaluateResult:
    """`metrics`: the loss first; `samples`: how many they are means over; `part`: "validation" or "all"."""

    metrics: Mapping[str, float]
    samples: int
    part: str
    warnings: tuple[Diagnostic, ...] = ()


def evaluate_file(source: Path, options: Options, data: Path | None = None) -> EvaluateResult:
    """Loss and metrics of `source` (a run directory or model file). Raises ModelError, BackendError, RunError."""
    trained = open_trained(source, options)
    train, network = trained.model.train, trained.model.network
    if train is None or network is None:
        message = f"`{source}` has no `train`, which says what is measured"
        raise RunError("E0912", message, "`netloom predict` gives the outputs themselves", exit_code=2)
    if data is not None:
        train = _other_data(trained, train, data)
        set_ = load_data(network, train)
        rows = np.arange(next(iter(set_.arrays.values())).shape[0], dtype=np.int32)
        part = "all"
    else:
        set_ = load_data(network, train)
        samples, kept = split(sum(set_.rows.values()), train.data.validation, train.seed)
        rows, part = (kept, "validation") if len(kept) else (samples, "all")
    return _measured(trained, train, DataSet(set_.arrays, {PHASE: len(rows)}, set_.span), rows, part, options)


def _other_data(trained: Trained, train: Train, data: Path) -> Train:
    """The training with another data file, whose arrays have been checked."""
    assert trained.model.network is not None
    names = {name: array for name, array, _ in train.data.arrays}
    if data.suffix != ".npz":
        raise RunError("E0917", f"`{data}` is not an .npz file", "it holds an array for each input", exit_code=2)
    from_file(data, trained.model.network.inputs, names)
    from compiler.array_files import headers

    there = headers(data)
    arrays = tuple((name, array if array in there else name, s) for name, array, s in train.data.arrays)
    return replace(train, data=replace(train.data, path=str(data), arrays=arrays, validation=0.0))


def _measured(
    trained: Trained, train: Train, data: DataSet, rows: np.ndarray, part: str, options: Options
) -> EvaluateResult:
    refuse_options(options)
    model = replace(trained.model, train=train)
    backend = backend_of(options.target, options.device or 0, options.verify)
    precision = DType.F64 if model.numerics.precision == "float64" else DType.F32
    builder = ProgramBuilder(f"{model.name}_evaluate", precision, Order(model.numerics.order))
    graphs, _ = tensor_graphs(model, 1, options.verify, (PHASE,))
    weights = trained.weights(learned(graphs))
    lower_tensors(builder, graphs, data, backend.capabilities)
    program = builder.finish()
    merged = merge(program)
    if options.verify:
        verify_program(program)
        verify_merged(merged, program)
    chosen = {**options.backend_options(), "seed": str(trained.seed)}
    built = build_into(options.build_dir, merged, backend, chosen)
    instance = backend.load(built.artifact, merged, trained.seed)
    try:
        put_weights(instance, merged, weights)
        order = next(a for a in merged.arrays if a.name == f"{PHASE}.order")
        instance.write(order.name, as_batches(rows, train.batch, order.shape).reshape(-1))
        instance.run(PHASE, 1, -(-len(rows) // train.batch))
        metrics = take_metrics(instance, merged)
    finally:
        instance.close()
    return EvaluateResult(metrics, len(rows), part, trained.warnings)
