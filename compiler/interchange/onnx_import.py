"""An ONNX file as a model file and its weights: `netloom import model.onnx`.

Assumes: the package `onnx`; the first axis of every input is the batch, of one that a recurrent operator reads with its
steps first the second.
Guarantees: what is written is a model that the frontend accepts, with the outputs of the graph as its last layers and a
weight for every initializer that a layer trains; nodes that depend on constants alone are computed; the batch is the
first axis of all of them, wherever the graph has it; operators and forms that no layer expresses are refused by name
and node (E0918), and nothing is written then.
Does not: guess: a graph that computes with the size of its batch is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.diagnostics import ModelError
from compiler.disk import new_file
from compiler.interchange.onnx_graph import onnx_package
from compiler.interchange.onnx_import_layers import import_node
from compiler.interchange.onnx_importer import Array, Computed, Importer, Scores, Setting
from compiler.runner.checkpoint import write_tensors
from compiler.runner.errors import RunError
from compiler.yaml_text import quoted


@dataclass(frozen=True)
class Imported:
    """`batches`: of inputs and outputs whose batch is not the first axis in the graph, that axis."""

    model: Path
    weights: Path
    layers: int
    parameters: int
    batches: Mapping[str, int]


def import_file(file: Path, out: Path) -> Imported:
    """Write `out` and, beside it, its weights (.safetensors). Raises RunError (E0911, E0918, E0919)."""
    onnx = onnx_package()
    if out.suffix not in (".yaml", ".yml"):
        raise RunError("E0912", f"`{out}` is not a .yaml file", exit_code=2)
    weights = out.with_suffix(".safetensors")
    for path in (out, weights):
        if path.exists():
            raise RunError(
                "E0911", f"`{path}` exists", "models are never written over: give another --out", exit_code=2
            )
    try:
        proto = onnx.load(file)
        onnx.checker.check_model(proto)
    except OSError:
        raise
    except Exception as error:  # protobuf and the checker have exceptions of many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise RunError("E0919", f"`{file}` is not a valid ONNX file: {reason}", exit_code=2) from None
    name = re.sub(r"\W|^(?=\d)", "_", out.stem, flags=re.ASCII).lstrip("_") or "model"
    text, arrays, batches = convert(proto, name, file.name, weights.name)
    write_tensors(weights, arrays)
    try:
        with new_file(out, "the model") as stream:
            stream.write(text.encode())
            stream.flush()
            layers = _accepted(Path(stream.name), proto)
    except BaseException:
        weights.unlink(missing_ok=True)
        raise
    return Imported(out, weights, layers, sum(a.size for a in arrays.values()), batches)


def _accepted(path: Path, proto: Any) -> int:
    """The number of layers of a model that was written, if the frontend takes it. Raises RunError (E0918)."""
    from compiler.frontend.load import load_model

    try:
        model = load_model(path)
    except ModelError as error:
        first = error.diagnostics[0]
        raise RunError("E0918", f"the graph cannot be imported: {first.message}", first.help, exit_code=1) from None
    assert model.network is not None
    return len(model.network.layers)


def convert(proto: Any, name: str, source: str, weights: str) -> tuple[str, dict[str, Array], dict[str, int]]:
    """The text of the model, its weights, and where the batches are that are not first. Raises RunError (E0918)."""
    onnx = onnx_package()
    graph = proto.graph
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    m = Importer(opset)
    for item in graph.initializer:
        m.values[item.name] = onnx.numpy_helper.to_array(item)
    inputs, types, second = [], set(), _steps_first(graph)
    for item in graph.input:
        if item.name in m.values:
            continue
        batch = int(item.name in second)
        shape, kind, whole = _input(m, item, onnx, batch)
        types.add(kind)
        made = Computed(m.fresh(item.name), shape, whole, kind == onnx.TensorProto.BOOL, batch)
        m.values[item.name] = made
        inputs.append(made)
    if len(m.batches) > 1:
        raise RunError("E0918", f"the inputs have batches of {sorted(m.batches)}: a graph has one batch", exit_code=1)
    nodes = _live(graph)
    for node in nodes:
        for read in node.input:
            m.uses[read] = m.uses.get(read, 0) + 1
    for item in graph.output:
        m.uses[item.name] = m.uses.get(item.name, 0) + 1
    for node in nodes:
        import_node(m, node)
    _outputs(m, graph)
    if not m.layers:
        raise RunError("E0918", "the graph has no operator", exit_code=1)
    ends = {n.name: m.values[n.name] for n in (*graph.input, *graph.output)}
    batches = {n: v.batch for n, v in ends.items() if isinstance(v, Computed) and v.batch}
    double = onnx.TensorProto.DOUBLE in types
    real = np.float64 if double else np.float32
    arrays = {n: np.ascontiguousarray(v, real) for n, v in m.weights.items()}
    return _text(m, name, source, weights, inputs, double), arrays, batches


def _steps_first(graph: Any) -> set[str]:
    """What recurrent operators read whose steps are the first axis."""
    found = set()
    for node in graph.node:
        if node.op_type in ("RNN", "GRU", "LSTM") and not any(a.name == "layout" and a.i for a in node.attribute):
            found.add(node.input[0])
    return found


def _input(m: Importer, item: Any, onnx: Any, batch: int) -> tuple[tuple[int, ...], int, bool]:
    """Shape of a sample, element type and whether it is whole. Raises RunError (E0918)."""
    kind = item.type.tensor_type.elem_type
    known = onnx.TensorProto
    if kind not in (known.FLOAT, known.DOUBLE, known.FLOAT16, known.BFLOAT16, known.INT32, known.INT64, known.BOOL):
        what = known.DataType.Name(kind) if kind in known.DataType.values() else "no tensor"
        raise RunError("E0918", f"the input `{item.name}` cannot be imported: it is {what}", exit_code=1)
    dims = item.type.tensor_type.shape.dim
    if len(dims) <= batch:
        message = f"the input `{item.name}` cannot be imported: it has no batch axis"
        raise RunError("E0918", message, exit_code=1)
    if dims[batch].HasField("dim_value"):
        m.batches.add(dims[batch].dim_value)
    rest = [d for k, d in enumerate(dims) if k != batch]
    if any(not d.HasField("dim_value") or d.dim_value < 1 for d in rest):
        message = f"the input `{item.name}` cannot be imported: an axis other than the batch has no fixed extent"
        raise RunError("E0918", message, exit_code=1)
    return tuple(d.dim_value for d in rest), kind, kind in (known.INT32, known.INT64)


def _live(graph: Any) -> list[Any]:
    """The nodes that outputs depend on, in order."""
    wanted = {o.name for o in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]


def _outputs(m: Importer, graph: Any) -> None:
    """Every output of the graph becomes a layer that no other reads; layers that no output needs are left out."""
    ends = []
    for item in graph.output:
        value = m.values[item.name]
        if isinstance(value, Scores):
            message = f"the output `{item.name}` cannot be imported: no layer of the language gives that"
            raise RunError("E0918", message, exit_code=1)
        if not isinstance(value, Computed) or value.whole:
            message = f"the output `{item.name}` cannot be imported: it does not depend on an input with real numbers"
            raise RunError("E0918", message, exit_code=1)
        ends.append(value)
    needed = {v.name for v in ends}
    for layer in reversed(m.layers):
        if layer.name in needed:
            needed |= layer.reads
    m.layers = [layer for layer in m.layers if layer.name in needed]
    made = {layer.name for layer in m.layers}
    m.weights = {n: v for n, v in m.weights.items() if n.partition(".")[0] in made}
    read = {n for layer in m.layers for n in layer.reads if n != layer.name}
    seen: set[str] = set()
    for item, value in zip(graph.output, ends, strict=True):
        if value.name in read or value.name not in made or value.name in seen:
            value = m.formula(f"{item.name}_out", value.name, value.shape)
        seen.add(_called(m, value.name, item.name))


def _called(m: Importer, name: str, wanted: str) -> str:
    """Gives a layer that no other reads the name of the output that it is, if that is free; returns its name."""
    layer = m.made(name)
    new = m.fresh(wanted)
    if layer is None or re.sub(r"\W+", "_", wanted, flags=re.ASCII) != new:
        return name
    if layer.kind == "map":
        layer.settings[new] = layer.settings.pop(name)
    layer.name = new
    for part, values in m.parts(name).items():
        m.weights[f"{new}.{part}"] = values
        del m.weights[f"{name}.{part}"]
    return new


def _text(m: Importer, name: str, source: str, weights: str, inputs: list[Computed], double: bool) -> str:
    lines = [f"# imported from {_word(source)}", "language: 1", f"name: {name}"]
    lines += ["numerics: {precision: float64}"] * double
    lines += ["", "network:", f"  weights: {_word(weights)}", "  inputs:"]
    for item in inputs:
        dtype = ", dtype: int32" if item.whole else ""
        lines.append(f"    {item.name}: {{shape: [{', '.join(map(str, item.shape))}]{dtype}}}")
    lines.append("  layers:")
    for layer in m.layers:
        named = {} if layer.kind == "map" else {"name": layer.name}
        settings = ", ".join(f"{k}: {_setting(v)}" for k, v in {**named, **layer.settings}.items())
        lines.append(f"    - {layer.kind}: {{{settings}}}")
    return "\n".join(lines) + "\n"


def _word(name: str) -> str:
    """The name of a file, in quotes where YAML needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_][\w./-]*", name, re.ASCII) else quoted(name)


def _setting(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str) and re.search(r"[^\w. ]", value):
        return quoted(value)
    return repr(value) if isinstance(value, float) else str(value)
