"""An ONNX file as a model file and its weights: `netloom import model.onnx`.

Assumes: the package `onnx`; every input has a batch axis.
Guarantees: the result is a model accepted by the frontend, with the outputs of the graph as its last layers and a
weight for every trained initializer; constant subexpressions are folded; the batch is axis 0 of all tensors,
independent of its position in the graph; operators and forms without an equivalent layer are errors with name and node
(E0918), and nothing is written then.
Does not: guess: a graph that computes with its batch size is an error.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compiler.core.diagnostics import ModelError, RunError
from compiler.core.disk import new_file
from compiler.core.yaml_text import quoted
from compiler.files.onnx_files import not_onnx
from compiler.interchange.onnx.import_attention import probabilities
from compiler.interchange.onnx.import_layers import import_node
from compiler.interchange.onnx.package import onnx_package
from compiler.layers import KIND
from compiler.layers.shared.onnx.importer import Array, Computed, Importer, LayerText, Repeated, Scores, Setting
from compiler.layers.shared.onnx.inputs import repeated
from compiler.runtime.artifacts.checkpoint import write_tensors

_MOST_WAYS = 8
"""Largest number of assignments of batch axes that are tried."""


@dataclass(frozen=True)
class Imported:
    """`batches`: the batch axis of inputs and outputs for which it is not the first one in the graph; `joined`: for
    outputs whose batch is merged with other axes, the number of elements before it and after it there."""

    model: Path
    weights: Path
    layers: int
    parameters: int
    batches: Mapping[str, int]
    joined: Mapping[str, tuple[int, int]]


def import_file(file: Path, out: Path | None = None) -> Imported:
    """Write `out` and, beside it, its weights (.safetensors). Without it, `file` with the suffix .yaml. Raises RunError
    (E0911, E0918, E0919)."""
    if file.is_dir():
        raise RunError("E0919", f"`{file}` is a folder, not an ONNX file")
    out = out or file.with_suffix(".yaml")
    if out.suffix not in (".yaml", ".yml"):
        raise RunError("E0912", f"`{out}` is not a .yaml file")
    weights = out.with_suffix(".safetensors")
    for path in (out, weights):
        if path.exists():
            raise RunError("E0911", f"`{path}` exists", "models are never written over: give another --out")
    proto = _loaded(file)
    name = re.sub(r"\W|^(?=\d)", "_", out.stem, flags=re.ASCII).lstrip("_") or "model"
    made = convert(proto, name, file.name, weights.name)
    write_tensors(weights, made.weights)
    try:
        with new_file(out, "the model") as stream:
            stream.write(made.text.encode())
            stream.flush()
            layers = _accepted(Path(stream.name))
    except BaseException:
        weights.unlink(missing_ok=True)
        raise
    return Imported(out, weights, layers, sum(a.size for a in made.weights.values()), made.batches, made.joined)


def _loaded(file: Path) -> Any:
    """The model of an ONNX file, checked. Raises RunError (E0919), OSError."""
    reason = not_onnx(file)
    if reason is not None:
        help = "PyTorch writes one with torch.onnx.export(model, inputs, file)"
        raise RunError("E0919", f"`{file}` is not an ONNX file: {reason}", help)
    onnx = onnx_package()
    try:
        proto = onnx.load(file, load_external_data=False)
        _refuse_missing_data(proto, file)
        onnx.load_external_data_for_model(proto, str(file.absolute().parent))
        onnx.checker.check_model(proto)
    except (OSError, RunError):
        raise
    except Exception as error:  # protobuf and the checker raise many kinds of exceptions
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise RunError("E0919", f"`{file}` is not a valid ONNX file: {first}") from None
    return proto


def _refuse_missing_data(proto: Any, file: Path) -> None:
    """Checks that external weight files of the model exist. Raises RunError (E0919)."""
    for item in proto.graph.initializer:
        for entry in item.external_data:
            if entry.key == "location" and not (file.parent / entry.value).is_file():
                message = f"`{file}` has its weights in `{entry.value}`, which is not beside it"
                raise RunError("E0919", message, "keep both files in one folder, or export with external_data=False")


def _accepted(path: Path) -> int:
    """The number of layers of a written model, if the frontend accepts it. Raises RunError (E0918)."""
    from compiler.frontend.load import load_model

    try:
        model = load_model(path)
    except ModelError as error:
        first = error.diagnostics[0]
        raise RunError("E0918", f"the graph cannot be imported: {first.message}", first.help) from None
    assert model.network is not None
    return len(model.network.layers)


@dataclass(frozen=True)
class Converted:
    """`text`: of the model; `batches` and `joined`: as in `Imported`."""

    text: str
    weights: dict[str, Array]
    batches: dict[str, int]
    joined: dict[str, tuple[int, int]]


def convert(proto: Any, name: str, source: str, weights: str) -> Converted:
    """The model of a graph. Where its inputs do not determine the batch axis, the first is tried, and then the others:
    operators along the batch are errors. Raises RunError (E0918): that of the attempt that got furthest."""
    graph = proto.graph
    worst: RunError | None = None
    furthest = -1
    for axes in batch_axes(graph):
        m = _importer(proto)
        done = 0
        try:
            inputs, double = _inputs(m, graph, axes)
            for done, node in enumerate(nodes_of(m, graph), 1):  # noqa: B007
                import_node(m, node)
            return _converted(m, graph, name, source, weights, inputs, double)
        except RunError as error:
            if done > furthest:
                worst, furthest = error, done
    assert worst is not None
    raise worst


def batch_axes(graph: Any) -> list[dict[str, int]]:
    """Candidate batch axes of each input, in the order of attempts. An axis without a fixed extent; else the first, or
    the second where a recurrent operator reads the input steps-first; then any of one extent."""
    known, second = {i.name for i in graph.initializer}, _steps_first(graph)
    first: dict[str, int] = {}
    choices: dict[str, list[int | None]] = {}
    for item in graph.input:
        if item.name in known:
            continue
        dims = item.type.tensor_type.shape.dim
        free = [k for k, d in enumerate(dims) if not d.HasField("dim_value")]
        first[item.name] = free[0] if len(free) == 1 else int(item.name in second)
        choices[item.name] = [None] if free else [d.dim_value for d in dims]
    ways = [first]
    sizes = [s for extents in choices.values() for s in extents if s]
    for size in dict.fromkeys(sizes):
        places = [
            [first[n]] if extents == [None] else [k for k, e in enumerate(extents) if e == size]
            for n, extents in choices.items()
        ]
        for chosen in itertools.islice(itertools.product(*places), _MOST_WAYS):
            way = dict(zip(choices, chosen, strict=True))
            ways += [way] if way not in ways else []
    return ways[:_MOST_WAYS]


def _steps_first(graph: Any) -> set[str]:
    """The sources of recurrent operators whose first axis is the steps."""
    found = set()
    for node in graph.node:
        if node.op_type in ("RNN", "GRU", "LSTM") and not any(a.name == "layout" and a.i for a in node.attribute):
            found.add(node.input[0])
    return found


def _importer(proto: Any) -> Importer:
    onnx = onnx_package()
    m = Importer(max((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), default=1))
    for item in proto.graph.initializer:
        m.values[item.name] = onnx.numpy_helper.to_array(item)
    return m


def _inputs(m: Importer, graph: Any, axes: Mapping[str, int]) -> tuple[list[Computed], bool]:
    """The inputs of the model, and whether one has double precision. Raises RunError (E0918)."""
    onnx = onnx_package()
    inputs, types, sizes = [], set(), set[int]()
    for item in graph.input:
        if item.name not in axes:
            continue
        shape, kind, size = _input(item, onnx, axes[item.name])
        types.add(kind)
        sizes |= set() if size is None else {size}
        whole = kind in (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
        truth = kind == onnx.TensorProto.BOOL
        made = Computed(m.fresh(item.name), shape, whole, truth=truth, batch=axes[item.name])
        m.values[item.name] = made
        inputs.append(made)
    if len(sizes) > 1:
        raise RunError("E0918", f"the inputs have batches of {sorted(sizes)}: a graph has one batch")
    m.batch = next(iter(sizes), None)
    return inputs, onnx.TensorProto.DOUBLE in types


def nodes_of(m: Importer, graph: Any) -> list[Any]:
    """The nodes that outputs depend on, in order; counts the readers of each tensor."""
    nodes = _live(graph)
    for node in nodes:
        for read in node.input:
            m.uses[read] = m.uses.get(read, 0) + 1
    for item in graph.output:
        m.uses[item.name] = m.uses.get(item.name, 0) + 1
    return nodes


def _converted(m: Importer, graph: Any, name: str, source: str, weights: str, inputs: list[Computed],
               double: bool) -> Converted:  # fmt: skip
    _outputs(m, graph)
    if not m.layers:
        raise RunError("E0918", "the graph has no operator")
    _share(m)
    ends = {n.name: m.values[n.name] for n in (*graph.input, *graph.output)}
    found = {n: v for n, v in ends.items() if isinstance(v, Computed)}
    real = np.float64 if double else np.float32
    arrays = {n: np.ascontiguousarray(v, real) for n, v in m.weights.items()}
    text = _text(m, name, source, weights, inputs, double)
    return Converted(
        text,
        arrays,
        {n: v.lead for n, v in found.items() if v.lead},
        {n: (math.prod(v.own[: v.before]), math.prod(v.own[v.before :])) for n, v in found.items() if v.own},
    )


def _share(m: Importer) -> None:
    """Layers whose matrices are one initializer share their arrays, where all that both have are one."""
    first: dict[object, str] = {}
    for layer in m.layers:
        own = {part: _place(array) for part, array in m.parts(layer.name).items()} if layer.kind in KIND else {}
        matrices = [place for part, place in own.items() if m.weights[f"{layer.name}.{part}"].ndim > 1]
        owner = next((first[place] for place in matrices if place in first), None)
        theirs = {} if owner is None else {part: _place(array) for part, array in m.parts(owner).items()}
        both = [part for part in own if part in theirs]
        if owner is not None and both and all(own[part] == theirs[part] for part in both):
            layer.settings["weights"] = owner
            for part in both:
                del m.weights[f"{layer.name}.{part}"]
        elif owner is None and own and _share_transposed(m, layer, first):
            continue
        for place in matrices:
            first.setdefault(place, layer.name)


def _share_transposed(m: Importer, layer: LayerText, first: dict[object, str]) -> bool:
    """Whether the matrix of a layer is that of another one, transposed, which it shares then."""
    if "transposed" not in KIND[layer.kind].settings.by_name:
        return False
    name = f"{layer.name}.weight"
    owner = first.get(place := _place(m.weights[name].T))
    theirs = {} if owner is None else m.parts(owner)
    if owner is None or "weight" not in theirs or _place(theirs["weight"]) != place:
        return False
    layer.settings |= {"weights": owner, "transposed": True}
    del m.weights[name]
    return True


def _place(array: Array) -> object:
    """Where the elements of an array are; equal for two views of the same elements in the same order."""
    return (*array.__array_interface__["data"], array.dtype.str, array.shape, array.strides)


def _input(item: Any, onnx: Any, batch: int) -> tuple[tuple[int, ...], int, int | None]:
    """Shape of a sample, element type and the size of the batch, if it is fixed. Raises RunError (E0918)."""
    kind = item.type.tensor_type.elem_type
    known = onnx.TensorProto
    if kind not in (known.FLOAT, known.DOUBLE, known.FLOAT16, known.BFLOAT16, known.INT32, known.INT64, known.BOOL):
        what = known.DataType.Name(kind) if kind in known.DataType.values() else "no tensor"
        raise RunError("E0918", f"the input `{item.name}` cannot be imported: it is {what}")
    dims = item.type.tensor_type.shape.dim
    if len(dims) <= batch:
        raise RunError("E0918", f"the input `{item.name}` cannot be imported: it has no batch axis")
    rest = [d for k, d in enumerate(dims) if k != batch]
    if any(not d.HasField("dim_value") or d.dim_value < 1 for d in rest):
        message = f"the input `{item.name}` cannot be imported: an axis other than the batch has no fixed extent"
        raise RunError("E0918", message)
    size = dims[batch].dim_value if dims[batch].HasField("dim_value") else None
    return tuple(d.dim_value for d in rest), kind, size


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
    """Every output of the graph becomes a layer without readers; dead layers are eliminated."""
    ends = []
    for item in graph.output:
        value = m.values[item.name]
        last = next(n for n in graph.node if item.name in n.output)
        if isinstance(value, Scores | Repeated):
            value = probabilities(m, last, value) if isinstance(value, Scores) else repeated(m, last, value)
            m.values[item.name] = value
        if not isinstance(value, Computed) or (value.whole and m.made(value.name) is None):
            message = f"the output `{item.name}` cannot be imported: it does not depend on an input with real numbers"
            raise RunError("E0918", message)
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
    """Renames a layer without readers to the output that it is, if the name is free; returns its name."""
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
