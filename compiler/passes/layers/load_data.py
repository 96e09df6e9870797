"""load_data: the data set of a training block as arrays of the program.

Assumes: the frontend has checked that files, arrays and shapes exist and fit.
Guarantees: where the samples fit in the memory that the training allows, one constant per array that feeds an input,
as `data.<array>` (examples, features). Where they do not, a buffer of `window` rows of each, which the host fills: row
0 is the first sample (padding rows of a batch read it, in both cases), the others those of some batches. A model that
is only checked may lack samples: it has buffers for one batch. Where samples are trials, the others are those of one
batch, and `trial.<input>` holds what populations did in them, which the host writes. Integers as int32, all else as
floats. Loaded samples are checked for valid numbers (files/sample_checks.py).
Does not: choose the validation set, shuffle (compiler/runtime/training/data.py does) or fill windows
(compiler/runtime/training/feed.py does).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.source import Span
from compiler.files.data_source import read_samples, samples_header
from compiler.files.sample_checks import NOT_FINITE, BadSample, sample_checks
from compiler.ir.space import DType
from compiler.passes.program.decisions import Decision

_TWICE: Final = 2
"""Samples in memory stand there as the program's constants and where it reads them."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """`arrays`: name -> (examples, features) in the type of the program; `rows`: number of examples per phase. Where
    samples are streamed from their files, `windows`: name -> (rows, features) and type."""

    arrays: Mapping[str, npt.NDArray[np.generic]]
    rows: Mapping[str, int]
    span: Span
    windows: Mapping[str, tuple[tuple[int, int], DType]] = field(default_factory=dict)

    @property
    def examples(self) -> int:
        return sum(self.rows.values())


def trial_data(name: str) -> str:
    """The array of a network input that is computed in trials."""
    return f"trial.{name}"


def held_out(data: l0.Data, examples: int) -> int:
    """Size of the validation set, out of so many examples."""
    return data.kept.count(examples)


def load_data(network: l0.Network, train: l0.Train, precision: DType) -> DataSet:
    """Reads the files and counts the examples of "train" and "eval" (validation). Raises ModelError (E0703,
    E0926)."""
    kinds = {i.name: DType.I32 if i.dtype == "int32" else precision for i in network.inputs}
    data = train.data
    types = {array: kinds[name] for name, array, _ in data.arrays}
    try:
        shapes = _shapes(network, train)
        examples = next(iter(shapes.values()))[0]
        features = {array: math.prod(shape[1:]) for array, shape in shapes.items()}
        kept = held_out(data, examples)
        rows = {"train": examples - kept, "eval": kept}
        row_bytes = sum(n * types[a].bytes for a, n in features.items())
        trials = {trial_data(i.name): math.prod(i.shape) for i in network.inputs if i.activity is not None}
        if trials or data.missing or _TWICE * examples * row_bytes > data.memory:
            one = trials or data.missing
            count = 1 + train.batch if one else window(data.memory, row_bytes, train.batch)
            windows = {f"data.{a}": ((count, features[a]), types[a]) for a in types}
            windows |= {name: ((count, size), precision) for name, size in trials.items()}
            return DataSet({}, rows, data.span, windows)
        arrays = _checked(network, train, types)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise ModelError([Diagnostic("E0703", f"the data cannot be read: {reason}", data.span)]) from None
    return DataSet({f"data.{array}": values for array, values in arrays.items()}, rows, data.span)


def _shapes(network: l0.Network, train: l0.Train) -> dict[str, tuple[int, ...]]:
    """The shape of each array of samples: one batch of those that are missing. Raises OSError, ValueError."""
    data, inputs = train.data, {i.name: i.shape for i in network.inputs}
    if data.missing:
        return {array: (train.batch, *inputs[name]) for name, array, _ in data.arrays}
    return {array: samples_header(data, array).shape for _, array, _ in data.arrays}


def _checked(network: l0.Network, train: l0.Train, types: Mapping[str, DType]) -> dict[str, npt.NDArray[Any]]:
    """All samples in the program's types. Raises ModelError for invalid numbers (E0703, E0926), OSError, ValueError."""
    data = train.data
    checks = sample_checks(network, {name: array for name, array, _ in data.arrays}, train)
    arrays: dict[str, npt.NDArray[Any]] = {}
    bad: BadSample | None = None
    real: list[str] = []
    for array, dtype in types.items():
        raw = read_samples(data, array)
        bad = bad or checks.integers(array, raw, np.arange(len(raw)))
        real += [array] * (raw.dtype.kind == "f")
        with np.errstate(over="ignore"):  # the check tells
            arrays[array] = raw.reshape(raw.shape[0], -1).astype(dtype.numpy)
    bad = bad or checks.reals(arrays, real, np.arange(len(raw)))
    if bad is not None:
        code, help = ("E0703", None) if bad.range else ("E0926", NOT_FINITE)
        raise ModelError([Diagnostic(code, bad.message, data.span, help)])
    return arrays


def window(memory: int, row_bytes: int, batch: int) -> int:
    """Rows of the program's buffer: the first sample, and as many whole batches as leave room for the next ones, which
    the host prefetches; at least one batch."""
    return 1 + max(memory // (_TWICE * row_bytes * batch), 1) * batch


def streaming(data: DataSet, train: l0.Train) -> list[Decision]:
    """The decision about samples that are streamed from their files; none where they are not."""
    if not data.windows or any(name.startswith(trial_data("")) for name in data.windows):
        return []
    rows = next(iter(data.windows.values()))[0][0]
    needed = _TWICE * data.examples * sum(shape[1] * dtype.bytes for shape, dtype in data.windows.values())
    reason = f"samples need {needed / 1e6:.3g} MB, `memory` is {train.data.memory / 1e6:.3g} MB"
    batches = (rows - 1) // train.batch
    verdict = f"read while training, {batches} batch{'es' if batches > 1 else ''} at a time"
    return [Decision("load_data", "samples", verdict, reason)]
