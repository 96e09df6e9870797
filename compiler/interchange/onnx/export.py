"""A trained network as an ONNX file: `netloom export RUN --format onnx`.

Assumes: a network as the frontend built it, with weights that fit.
Guarantees: the file passes onnx.checker with shape inference; inputs and outputs have the names of the network's
inputs and layers, and a batch axis of any size; an input scaled by the training is also scaled in the graph, so that
the file and `netloom predict` agree on the same data. Dropout is omitted. Layers without an ONNX equivalent are an
error that names them.
Does not: fold norms (runtimes do), or export training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import RunError
from compiler.core.disk import write_bytes
from compiler.expr.ast import Ref, substitute
from compiler.interchange.onnx.package import onnx_package
from compiler.ir.level2.target import Capabilities
from compiler.layers import KIND
from compiler.layers.shared.activations import ACTIVATIONS, activation
from compiler.layers.shared.elements import whole_elements
from compiler.layers.shared.onnx.graph import IR_VERSION, OPSET, Node, OnnxGraph, Writer
from compiler.passes.pipeline.lower import lower_predict, refuse_trials
from compiler.runtime.artifacts.safetensors import Reals, learned
from compiler.runtime.artifacts.trained import open_trained
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import chosen_outputs

_NAMED = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "leaky_relu": "LeakyRelu",
    "elu": "Elu",
    "selu": "Selu",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "hard_swish": "HardSwish",
    "mish": "Mish",
    "gelu": "Gelu",
}
"""Activations with an ONNX operator; the others are exported as expressions."""

_ATTRIBUTES = {
    "leaky_relu": {"alpha": 0.01},
    "elu": {"alpha": 1.0},
    "selu": {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
}


@dataclass(frozen=True)
class Exported:
    file: Path
    nodes: int
    opset: int
    precision: str


def export_file(source: Path, options: Options, out: Path | None = None, outputs: tuple[str, ...] = ()) -> Exported:
    """Write a run directory (or a model file with weights) as ONNX. Raises ModelError, RunError (E0912, E0916,
    E0918)."""
    if out is not None and out.suffix != ".onnx":
        raise RunError("E0912", f"`{out}` is not an .onnx file", "networks are written as an .onnx file")
    onnx_package()
    trained = open_trained(source, options)
    names = chosen_outputs(trained.model, outputs)
    plain = Capabilities("cpu", 0, True, frozenset())
    refuse_trials(trained.model, names, "an ONNX file")
    prediction = lower_predict(trained.model, plain, 1, names)
    weights = trained.weights(learned((prediction.graph,)))
    proto = to_onnx(trained.model, weights, tuple(o.name for o in prediction.outputs))
    path = out or Path(f"{trained.model.name}.onnx")
    write_bytes(path, proto.SerializeToString(), "the ONNX file")
    return Exported(path, len(proto.graph.node), OPSET, trained.model.numerics.precision)


def to_onnx(model: l0.Model, weights: dict[str, Reals], outputs: tuple[str, ...]) -> Any:
    """The ModelProto of a network, checked. `outputs`: names of layers. Raises RunError (E0918)."""
    onnx = onnx_package()
    helper = onnx.helper
    assert model.network is not None
    layers = {layer.name: layer for layer in model.network.layers}
    needed = model.network.needed(outputs)
    double = model.numerics.precision == "float64"
    real = onnx.TensorProto.DOUBLE if double else onnx.TensorProto.FLOAT
    held = whole_elements(model.network.inputs, model.network.layers)
    whole = dict.fromkeys([*held.sizes, *held.of], onnx.TensorProto.INT32)
    g = OnnxGraph(np.float64 if double else np.float32)
    inputs = [i for i in model.network.inputs if i.name in needed]
    g.reserve([*(i.name for i in inputs), *(f"{n}" for n in outputs)])
    scales = {n: s for n, _, s in model.train.data.arrays} if model.train is not None else {}
    shapes = {i.name: i.shape for i in inputs} | {n: x.shape for n, x in layers.items()}
    w = Writer(g, weights, shapes, shared=model.network.shared, whole=frozenset(whole))
    for item in inputs:
        scale = scales.get(item.name, 1.0)
        w.named[item.name] = item.name
        if scale != 1.0:
            w.named[item.name] = g.node("Mul", [item.name, g.constant(scale)], f"{item.name}/scaled")
    for layer in model.network.layers:
        if layer.name in needed:
            w.named[layer.name] = _activated(w, layer, KIND[layer.kind].write(w, layer))
    for name in outputs:
        g.nodes.append(Node("Identity", (w.named[name],), (name,), g.unique(f"{name}/output")))
    read = {name for n in g.nodes for name in n.ins}
    graph = helper.make_graph(
        [helper.make_node(n.op, n.ins, n.outs, name=n.name, **n.attrs) for n in g.nodes],
        model.name,
        [helper.make_tensor_value_info(i.name, whole.get(i.name, real), ["batch", *i.shape]) for i in inputs],
        [helper.make_tensor_value_info(n, whole.get(n, real), ["batch", *layers[n].shape]) for n in outputs],
        [onnx.numpy_helper.from_array(v, n) for n, v in g.initializers.items() if n in read],
        doc_string=model.description,
    )
    from compiler.core.version import VERSION

    proto = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="netloom",
        producer_version=VERSION,
    )
    onnx.checker.check_model(proto, full_check=True)
    return proto


def _activated(w: Writer, layer: l0.Layer, y: str) -> str:
    name = layer.activation
    if name in (None, "linear", "identity"):
        return y
    assert name is not None
    label = f"{layer.name}/{name}"
    if layer.function is not None:
        return w.graph.expression(layer.function.body, {layer.function.args[0]: y}, label)
    if name in _NAMED:
        return w.graph.node(_NAMED[name], [y], label, _ATTRIBUTES.get(name))
    assert name in ACTIVATIONS
    return w.graph.expression(substitute(activation(name), {"x": Ref("x0")}), {"x0": y}, label)
