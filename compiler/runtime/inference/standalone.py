"""A trained network as one C file: `netloom build MODEL --standalone`.

Assumes: backends/cpu/export/standalone.py writes the files.
Guarantees: the same program, weights and folded norms as `netloom predict` with the same batch.
Does not: compile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backends.cpu.export.standalone import Port, write_standalone
from backends.registry import backend as backend_of
from compiler.core.diagnostics import Diagnostic, RunError
from compiler.passes.pipeline.lower import ORDER, PHASE, data_name, refuse_trials
from compiler.passes.tensors.fold_norms import folded
from compiler.passes.tensors.prepare_weights import PREPARE
from compiler.runtime.artifacts.safetensors import learned
from compiler.runtime.artifacts.trained import open_trained
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import chosen_outputs, lowered_prediction


@dataclass(frozen=True)
class StandaloneResult:
    """The files that were written."""

    files: tuple[Path, ...]
    warnings: tuple[Diagnostic, ...] = ()


def build_standalone(
    source: Path, options: Options, embed: bool = False, batch: int = 1, outputs: tuple[str, ...] = ()
) -> StandaloneResult:
    """Write `build/<name>_standalone/`. Raises ModelError, BackendError, RunError."""
    if options.target != "cpu":
        raise RunError("E0912", "--standalone is for the target `cpu`")
    if batch < 1:
        raise RunError("E0912", "--batch is at least 1")
    trained = open_trained(source, options)
    names = chosen_outputs(trained.model, outputs)
    refuse_trials(trained.model, names, "a standalone build")
    prediction = lowered_prediction(trained, backend_of("cpu"), options, batch, names)
    weights = folded(trained.weights(learned((prediction.graph,))), prediction.folds)
    program = prediction.lowered.merged
    order = next(a for a in program.arrays if a.name == ORDER)
    numbers = np.full(order.shape, -1, np.int32)
    numbers[0, :batch] = np.arange(batch)
    files = write_standalone(
        options.build_dir / f"{trained.model.name}_standalone",
        re.sub(r"\W|^(?=\d)", "_", trained.model.name),
        program,
        (PREPARE, PHASE),
        [Port(i.name, data_name(i.name), i.shape) for i in prediction.inputs],
        [Port(o.name, o.array, o.shape) for o in prediction.outputs],
        batch,
        {ORDER: numbers},
        weights,
        embed,
    )
    return StandaloneResult(tuple(files), trained.warnings)
