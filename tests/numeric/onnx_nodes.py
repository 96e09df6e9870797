"""ONNX's own node tests through `netloom import` and `netloom predict`, for tests and for reports.

Assumes: the package onnx, whose test cases are generated on demand. A case gives all of its tensors as inputs. Which
of them are samples and which are constants a network decides; so each is tried with all inputs computed, and with
fewer and fewer, the others as initializers. The first output is compared. Where the batch is not the first axis of the
graph, as import says, it becomes that before anything is fed or compared.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.core.diagnostics import RunError
from compiler.interchange.onnx.import_file import Imported, import_file
from netloom import predict

OPERATORS = (
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Attention", "AveragePool",
    "BatchNormalization", "Ceil", "Celu", "Clip", "Concat", "Conv", "ConvTranspose", "Cos", "Cosh", "DepthToSpace",
    "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Flatten", "Floor", "GRU", "Gather", "Gelu", "Gemm",
    "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization", "HardSigmoid", "HardSwish",
    "Identity", "InstanceNormalization", "LSTM", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log",
    "LogSoftmax", "LpNormalization", "MatMul", "Max", "MaxPool", "Mean", "Min", "Mish", "Mul", "Neg", "Not", "OneHot",
    "Or", "PRelu", "Pad", "Pow", "RMSNormalization", "RNN", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape",
    "Resize", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Slice", "Softmax", "Softplus", "Softsign",
    "SpaceToDepth", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Tile",
    "Transpose", "Unsqueeze", "Upsample", "Where", "Xor",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """`state`: "passed", "refused" or "failed"."""

    case: str
    operator: str
    state: str
    reason: str


@functools.cache
def cases() -> tuple[Any, ...]:
    """The node cases of one operator each that has a counterpart."""
    import onnx.backend.test.case.node as node

    found = node.collect_testcases(None)
    return tuple(
        c
        for c in found
        if c.model is not None and len(c.model.graph.node) == 1 and c.model.graph.node[0].op_type in OPERATORS
    )


def try_case(case: Any, folder: Path) -> Outcome:
    """Import the case and compare the outputs of its first data set."""
    operator = case.model.graph.node[0].op_type
    outcomes = []
    for computed in range(max(len(case.model.graph.input), 1), 0, -1):
        outcomes.append(Outcome(case.name, operator, *_attempt(case, folder, computed)))
        if outcomes[-1].state != "refused":
            return outcomes[-1]
    own = (o for o in outcomes if " constant" not in o.reason and "have batches of" not in o.reason)
    return next(own, outcomes[0])


def _attempt(case: Any, folder: Path, computed: int) -> tuple[str, str]:
    """State and reason with so many inputs computed."""
    import onnx

    inputs, expected = case.data_sets[0]
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    names = [i.name for i in model.graph.input]
    values = dict(zip(names, inputs, strict=False))
    values = {n: np.asarray(v) if isinstance(v, np.generic) else v for n, v in values.items()}
    if not all(isinstance(v, np.ndarray) for v in values.values()):
        return "refused", "its inputs are no tensors"
    if case.model.graph.node[0].op_type != "Split":
        del model.graph.output[1:]  # such as statistics, which nothing reads when a network is used
    for name in names[computed:]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(values.pop(name)), name))
    file, out = folder / "case.onnx", folder / "case.yaml"
    for path in (out, out.with_suffix(".safetensors")):
        path.unlink(missing_ok=True)
    file.write_bytes(model.SerializeToString())
    try:
        done = import_file(file, out)
    except RunError as error:
        assert error.code in ("E0918", "E0919"), error
        return "refused", error.message
    reals = {n: v.astype(np.float32) if v.dtype.kind == "V" else v for n, v in values.items()}  # bfloat16
    first = [batch_first(done, n, v) for n, v in reals.items()]
    feeds = dict(zip(_names(out), first, strict=True))
    got = list(predict(out, feeds, target="reference", build_dir=folder / "build").values())
    for a, whole, item in zip(got, expected[: len(model.graph.output)], model.graph.output, strict=True):
        b = batch_first(done, item.name, whole)
        # Arithmetic in 32 bits: 1e-5, or what the case itself allows; bfloat16 has 8 bits.
        least = 1e-2 if b.dtype.kind == "V" else 1e-5
        close = np.allclose(a, np.asarray(b, np.float64), rtol=max(case.rtol, least), atol=max(case.atol, least))
        if a.shape != b.shape or not close:
            return "failed", f"other numbers, or the shape {a.shape} instead of {b.shape}"
    return "passed", ""


def batch_first(done: Imported, name: str, values: np.ndarray) -> np.ndarray:
    """An input or output of the graph as the imported model has it: (batch, ...)."""
    axis, shape = done.batches.get(name, 0), list(values.shape)
    if name in done.joined:
        before, after = done.joined[name]
        parts = [n for n in (before, -1, after) if n != 1]
        values = values.reshape(*shape[:axis], *parts, *shape[axis + 1 :])
        axis += parts.index(-1)
    return np.moveaxis(values, axis, 0)


def difference(file: Path, inputs: Sequence[np.ndarray], folder: Path, expected: Sequence[np.ndarray]) -> float:
    """Import a graph and compare all of its outputs for some inputs: the largest difference, relative to the largest
    output. Truth values are fed as numbers."""
    import onnx

    graph = onnx.load(file).graph
    done = import_file(file, folder / "m.yaml")
    feeds = {}
    for mine, item, values in zip(_names(done.model), graph.input, inputs, strict=True):
        first = batch_first(done, item.name, values)
        feeds[mine] = first.astype(np.float32) if first.dtype == bool else first
    found = predict(done.model, feeds, target="reference", build_dir=folder / "build").values()
    worst = 0.0
    for a, item, values in zip(found, graph.output, expected, strict=True):
        b = batch_first(done, item.name, values)
        assert a.shape == b.shape, item.name
        worst = max(worst, float(np.abs(a - b).max() / max(1.0, np.abs(b).max())))
    return worst


def _names(model: Path) -> list[str]:
    from compiler.frontend.load import load_model

    network = load_model(model).network
    assert network is not None
    return [i.name for i in network.inputs]


def all_outcomes(folder: Path) -> list[Outcome]:
    return [try_case(c, folder) for c in cases()]
