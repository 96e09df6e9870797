"""An ONNX file as a model file and its weights: `netloom import model.onnx`.

Assumes: the package `onnx`; the first axis of every input and output is the batch.
Guarantees: what is written is a model that the frontend accepts, with the outputs of the graph as its last layers and a
weight for every initializer that a layer trains; nodes that depend on constants alone are computed; operators and forms
that no layer expresses are refused by name and node (E0918), and nothing is written then.
Does not: guess: a graph that computes with the size of its batch is refused.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from compiler.diagnostics import ModelError
from compiler.interchange.onnx_graph import onnx_package
from compiler.runner.checkpoint import write_tensors
from compiler.runner.errors import RunError

Array = npt.NDArray[Any]
Setting = int | float | bool | str | list[int] | list[str]


@dataclass(frozen=True)
class Computed:
    """What a layer or input gives. `shape`: of a sample. `whole`: integers."""

    name: str
    shape: tuple[int, ...]
    whole: bool = False


@dataclass
class LayerText:
    """One entry of `layers`. A `map` has its formula under its own name in `settings`."""

    kind: str
    name: str
    settings: dict[str, Setting]


@dataclass(frozen=True)
class Imported:
    model: Path
    weights: Path
    layers: int
    parameters: int


@dataclass
class Importer:
    """The model while it is being made. `values`: of each tensor of the graph; `uses`: how often it is read;
    `batches`: sizes of the batch that the graph fixes."""

    opset: int
    values: dict[str, Computed | Array] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    batches: set[int] = field(default_factory=set)
    layers: list[LayerText] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)

    def fresh(self, hint: str) -> str:
        """A name that the language allows, like `hint`."""
        word = re.sub(r"\W+", "_", hint, flags=re.ASCII).strip("_") or "layer"
        word = word if word[0].isalpha() else f"l_{word}"
        while _RESERVED.fullmatch(word) or word in _WORDS:
            word += "_layer"
        name, k = word, 1
        while name in self.names:
            k += 1
            name = f"{word}_{k}"
        self.names.add(name)
        return name

    def layer(self, kind: str, hint: str, inputs: list[Computed], settings: dict[str, Setting],
              shape: tuple[int, ...], weights: dict[str, Array] | None = None) -> Computed:  # fmt: skip
        """Appends a layer that reads `inputs`."""
        name = self.fresh(hint)
        read: Setting = inputs[0].name if len(inputs) == 1 else [i.name for i in inputs]
        self.layers.append(LayerText(kind, name, {"inputs": read, **settings}))
        for part, values in (weights or {}).items():
            self.weights[f"{name}.{part}"] = values
        return Computed(name, shape)

    def formula(self, hint: str, text: str, shape: tuple[int, ...]) -> Computed:
        """Appends a `map`."""
        name = self.fresh(hint)
        self.layers.append(LayerText("map", name, {name: text}))
        return Computed(name, shape)


_RESERVED = re.compile(
    r"loss|batch|metric|clip|penalty|accuracy|precision|recall|f1|r2|top_\d+|mean_(?:absolute|squared)_error"
)
_WORDS = frozenset(
    {
        "and", "or", "not", "if", "else", "true", "false", "null", "e", "pi", "inf", "nan", "t", "dt", "step", "epoch"
    }
)  # fmt: skip


def refused(node: Any, reason: str) -> RunError:
    """E0918 for a node."""
    where = (
        f" (node `{node.name}`)" if node.name else f" (the node that makes `{node.output[0]}`)" if node.output else ""
    )
    return RunError("E0918", f"the operator {node.op_type}{where} cannot be imported: {reason}", exit_code=1)


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
    text, arrays = convert(proto, name, file.name, weights.name)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(weights, arrays)
    scratch = out.with_name(f".{out.stem}.{os.getpid()}.yaml")
    try:
        scratch.write_text(text, encoding="utf-8")
        layers = _accepted(scratch, proto)
        os.replace(scratch, out)
    except BaseException:
        weights.unlink(missing_ok=True)
        raise
    finally:
        scratch.unlink(missing_ok=True)
    return Imported(out, weights, layers, sum(a.size for a in arrays.values()))


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


def convert(proto: Any, name: str, source: str, weights: str) -> tuple[str, dict[str, Array]]:
    """The text of the model and its weights. Raises RunError (E0918)."""
    onnx = onnx_package()
    graph = proto.graph
    opset = max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1)
    m = Importer(opset)
    for item in graph.initializer:
        m.values[item.name] = onnx.numpy_helper.to_array(item)
    inputs, types = [], set()
    for item in graph.input:
        if item.name in m.values:
            continue
        shape, kind, whole = _input(m, item, onnx)
        types.add(kind)
        made = Computed(m.fresh(item.name), shape, whole)
        m.values[item.name] = made
        inputs.append(made)
    nodes = _live(graph)
    for node in nodes:
        for read in node.input:
            m.uses[read] = m.uses.get(read, 0) + 1
    for item in graph.output:
        m.uses[item.name] = m.uses.get(item.name, 0) + 1
    from compiler.interchange.onnx_import_layers import import_node

    for node in nodes:
        import_node(m, node)
    _outputs(m, graph)
    if not m.layers:
        raise RunError("E0918", "the graph has no operator", exit_code=1)
    double = onnx.TensorProto.DOUBLE in types
    real = np.float64 if double else np.float32
    arrays = {n: np.ascontiguousarray(v, real) for n, v in m.weights.items()}
    return _text(m, name, source, weights, inputs, double), arrays


def _input(m: Importer, item: Any, onnx: Any) -> tuple[tuple[int, ...], int, bool]:
    """Shape of a sample, element type and whether it is whole. Raises RunError (E0918)."""
    kind = item.type.tensor_type.elem_type
    known = onnx.TensorProto
    if kind not in (known.FLOAT, known.DOUBLE, known.FLOAT16, known.BFLOAT16, known.INT32, known.INT64):
        what = known.DataType.Name(kind) if kind in known.DataType.values() else "no tensor"
        raise RunError("E0918", f"the input `{item.name}` cannot be imported: it is {what}", exit_code=1)
    dims = item.type.tensor_type.shape.dim
    if not dims:
        message = f"the input `{item.name}` cannot be imported: it has no batch axis"
        raise RunError("E0918", message, exit_code=1)
    if dims[0].HasField("dim_value"):
        m.batches.add(dims[0].dim_value)
    if any(not d.HasField("dim_value") or d.dim_value < 1 for d in dims[1:]):
        message = f"the input `{item.name}` cannot be imported: an axis other than the batch has no fixed extent"
        raise RunError("E0918", message, exit_code=1)
    return tuple(d.dim_value for d in dims[1:]), kind, kind in (known.INT32, known.INT64)


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
    """Every output of the graph becomes a layer that no other reads."""
    read: set[str] = set()
    for layer in m.layers:
        if layer.kind == "map":
            read |= set(re.findall(r"\w+", str(layer.settings[layer.name])))
        given = layer.settings.get("inputs")
        read |= {given} if isinstance(given, str) else {str(n) for n in given} if isinstance(given, list) else set()
    made = {layer.name for layer in m.layers} | {n for x in m.layers for n in _parts(x)}
    seen: set[str] = set()
    for item in graph.output:
        value = m.values[item.name]
        if not isinstance(value, Computed) or value.whole:
            message = f"the output `{item.name}` cannot be imported: it does not depend on an input with real numbers"
            raise RunError("E0918", message, exit_code=1)
        if value.name in read or value.name not in made or value.name in seen:
            value = m.formula(f"{item.name}_out", value.name, value.shape)
        seen.add(_called(m, value.name, item.name))


def _called(m: Importer, name: str, wanted: str) -> str:
    """Gives a layer that no other reads the name of the output that it is, if that is free; returns its name."""
    layer = next((x for x in m.layers if x.name == name), None)
    new = m.fresh(wanted)
    if layer is None or re.sub(r"\W+", "_", wanted, flags=re.ASCII) != new:
        return name
    if layer.kind == "map":
        layer.settings[new] = layer.settings.pop(name)
    layer.name = new
    for key in [k for k in m.weights if k.rpartition(".")[0] == name]:
        m.weights[f"{new}.{key.rpartition('.')[2]}"] = m.weights.pop(key)
    return new


def _parts(layer: LayerText) -> list[str]:
    into = layer.settings.get("into")
    return [str(n) for n in into] if isinstance(into, list) else []


def _text(m: Importer, name: str, source: str, weights: str, inputs: list[Computed], double: bool) -> str:
    lines = [f"# imported from {source}", "language: 1", f"name: {name}"]
    lines += ["numerics: {precision: float64}"] * double
    lines += ["", "network:", f"  weights: {weights}", "  inputs:"]
    for item in inputs:
        dtype = ", dtype: int32" if item.whole else ""
        lines.append(f"    {item.name}: {{shape: [{', '.join(map(str, item.shape))}]{dtype}}}")
    lines.append("  layers:")
    for layer in m.layers:
        named = {} if layer.kind in ("map", "split") else {"name": layer.name}
        settings = ", ".join(f"{k}: {_setting(v)}" for k, v in {**named, **layer.settings}.items())
        lines.append(f"    - {layer.kind}: {{{settings}}}")
    return "\n".join(lines) + "\n"


def _setting(value: Setting) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, str) and re.search(r"[^\w. ]", value):
        return f'"{value}"'
    return repr(value) if isinstance(value, float) else str(value)
