"""Export: every kind of layer as ONNX, in ONNX's reference implementation and onnxruntime, against `netloom predict`;
and back by import."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.interchange.onnx.export import export_file, to_onnx
from compiler.interchange.onnx.import_file import import_file
from compiler.layers.shared.activations import ACTIVATIONS
from compiler.passes.pipeline.lower import lower_predict
from compiler.runtime.artifacts.safetensors import learned
from compiler.runtime.common.options import Options
from netloom import predict
from tests.cpu.networks_for_use import PLAIN, random_weights, samples, write_network

SIGNAL, IMAGE, CUBE = "{x: {shape: [4, 9]}}", "{x: {shape: [4, 9, 8]}}", "{x: {shape: [2, 5, 4, 6]}}"
STEPS, LIST = "{x: {shape: [6, 8]}}", "{x: {shape: [12]}}"

NETWORKS = {
    "dense": (LIST, "dense: {units: 5}\ndense: {units: 3, bias: false, activation: tanh}"),
    "dense_steps": (STEPS, "dense: {units: 5}\ndense: {units: 3, bias: false}"),
    "conv1d": (SIGNAL, "conv1d: {filters: 6, kernel: 3, stride: 2, padding: [1, 0], dilation: 2, groups: 2}"),
    "conv2d": (IMAGE, "conv2d: {filters: 6, kernel: [3, 2], stride: [1, 2], padding: [1, 0, 2, 1]}\n"
                      "conv2d: {filters: 6, kernel: 3, groups: 6, padding: same, bias: false}"),
    "conv3d": (CUBE, "conv3d: {filters: 3, kernel: [2, 3, 3], padding: same, stride: [1, 1, 2]}"),
    "conv_transpose1d": (SIGNAL, "conv_transpose1d: {filters: 6, kernel: 4, stride: 3, padding: 1, output_padding: 2}"),
    "conv_transpose3d": (CUBE, "conv_transpose3d: {filters: 3, kernel: [2, 3, 1], stride: [1, 2, 2],"
                               " output_padding: [0, 1, 0]}"),
    "pools3d": (CUBE, "max_pool3d: {name: a, size: 2, stride: 1}\n"
                      "avg_pool3d: {inputs: a, size: [1, 2, 2], padding: [0, 1, 0]}"),
    "conv_transpose2d": (IMAGE, "conv_transpose2d: {filters: 6, kernel: 3, stride: 2, padding: 1, output_padding: 1}"),
    "pools": (IMAGE, "max_pool2d: {name: a, size: 3, stride: 2, padding: 1}\navg_pool2d: {inputs: a, size: 2}\n"
                     "avg_pool2d: {inputs: a, size: 3, stride: 1, padding: 1, count_padding: false}\n"
                     "avg_pool2d: {inputs: a, size: 3, stride: 1, padding: 1}"),
    "pools_ceil": (SIGNAL, "max_pool1d: {inputs: x, size: 2, ceil: true}\n"
                           "avg_pool1d: {inputs: x, size: 2, ceil: true}"),
    "global_pools": (IMAGE, "global_max_pool: {inputs: x}\nglobal_avg_pool: {inputs: x}"),
    "movement": (IMAGE, "upsample: {name: u, factor: [2, 3]}\npad: {before: [0, 1, 2], after: [1, 0, 0], value: 0.5}\n"
                        "permute: {axes: [2, 0, 1]}\nsplit: {name: s, axis: 1, into: [p, q], sizes: [2, 3]}\n"
                        "concat: {inputs: [q, p, q], axis: 1}\nslice: {axis: 0, from: 1, to: 9}\n"
                        "reshape: {shape: [16, 76]}\n"
                        "flatten: {}"),
    "resized": (IMAGE, "upsample: {factor: 2, method: linear}\nadaptive_max_pool2d: {size: [9, 4]}\n"
                       "upsample: {size: [14, 6], method: linear, align_corners: true}\n"
                       "adaptive_avg_pool2d: {size: [4, 6]}\nupsample: {size: [6, 9]}"),
    "resized_lines": (SIGNAL, "upsample: {factor: 3, method: linear}\nadaptive_avg_pool1d: {size: 6}\n"
                              "adaptive_avg_pool1d: {size: 3}"),
    "norms": (IMAGE, "batch_norm: {name: b}\ngroup_norm: {groups: 2}\ninstance_norm: {affine: false}\n"
                     "layer_norm: {axes: 2}\nlayer_norm: {axes: 1, affine: false, epsilon: 1e-3}"),
    "scales": (IMAGE, "scale_shift: {}\nscale_shift: {axis: 2}\nscale_shift: {axis: 1}"),
    "gates": (IMAGE, "rms_norm: {axes: 2}\nprelu: {}\nglu: {axis: 0, function: silu, gate: first}\n"
                     "prelu: {channels: true}\nglu: {axis: 2}\nrms_norm: {affine: false, epsilon: 0.1}"),
    "norms_of_lists": (LIST, "batch_norm: {}\ngroup_norm: {groups: 3}\nlayer_norm: {}"),
    "reductions": (IMAGE, "reduce: {name: a, inputs: x, function: min, axes: 1, keep: true}\nstop_gradient: {name: b}\n"
                          "reduce: {name: c, inputs: x, function: max, axes: [2, 0]}\n"
                          "reduce: {name: d, inputs: x, function: sum}\n"
                          "reduce: {inputs: x, function: mean, axes: [0]}\n"
                          "dense: {units: 3}\nmap: {y: reduce_1 * 2 + d}"),
    "places": (IMAGE, "permute: {axes: [1, 2, 0]}\ndense: {units: 5}\ndense: {units: 2, bias: false}"),
    "softmaxes": (STEPS, "softmax: {inputs: x, axis: 0}\nlog_softmax: {inputs: x}\ndropout: {rate: 0.3}"),
    "joins": (IMAGE, "activation: {name: a, inputs: x, function: sigmoid}\nadd: {name: s, inputs: [a, x, a]}\n"
                     "multiply: {inputs: [s, a]}"),
    "maps": ("{a: {shape: [3, 4]}, b: {shape: [4]}}",
             "map: {y: '(a if a > b and not (b < -1) else max(a, b, 0.5) - exp(-b * b)) * 2.5'}\n"
             "map: {z: 'sqrt(abs(y)) + clip(a, -1, 1) ** 2 + log1p(abs(b)) + min(a, y) / (1 + expm1(abs(b)))'}"),
    "more_maps": (LIST, "map: {y: 'x % 0.7 - (x // -0.4) * 0.1 + heaviside(x) * log2(abs(x) + 1)'}\n"
                        "map: {z: 'exprel(y) + int(3 * x) + log10(2 + abs(x)) * float(x > y)'}"),
    "attention": (STEPS, "positions: {name: p}\nattention: {heads: 2, causal: true}\npositions: {encoding: trained}\n"
                         "attention: {name: o, heads: 4, size: 16, bias: false}\n"
                         "attention: {inputs: [o, p, p], heads: 2}"),
    "mirrors": (IMAGE, "pad: {before: [0, 2, 1], after: [0, 1, 0], mode: reflect}\n"
                       "pad: {before: [0, 9, 1], after: [1, 1, 9], mode: replicate}\n"
                       "pad: {before: [0, 3, 1], mode: circular}\n"
                       "conv2d: {filters: 3, kernel: 3, padding: [1, 0, 2, 1], padding_mode: reflect}\n"
                       "conv2d: {filters: 2, kernel: 2, stride: 2, padding: same, padding_mode: circular}"),
    "products": ("{a: {shape: [3, 4]}, b: {shape: [2, 4, 5]}, c: {shape: [5]}, d: {shape: [3, 4]}}",
                 "matmul: {name: p, inputs: [a, b]}\nmatmul: {name: q, inputs: [p, c]}\n"
                 "matmul: {name: r, inputs: [c, b], transposed: second}\nmatmul: {inputs: [b, d], transposed: both}\n"
                 "learned: {name: l, shape: [4, 2]}\nmatmul: {inputs: [a, l]}\nmatmul: {inputs: [c, c]}\n"
                 "matmul: {inputs: [r, a], transposed: second}\nmatmul: {inputs: [q, a]}"),
    "by_hand": (STEPS, "dense: {name: k, units: 8}\nmatmul: {name: s, inputs: [x, k], transposed: second}\n"
                       "map: {t: 0.3 * s}\nsoftmax: {}\nmatmul: {inputs: [softmax_1, k]}\nmap: {u: tanh(t) - s}"),
    "shared_heads": (STEPS, "attention: {name: s, heads: 4, kv_heads: 2, size: 12, causal: true}\n"
                            "dense: {name: k, units: 4}\n"
                            "dot_attention: {inputs: [s, k, k], heads: 2, kv_heads: 1, scale: 0.3}"),
    "dot_attention": ("{x: {shape: [6, 8]}, seen: {shape: [6], dtype: int32}, near: {shape: [2, 6, 6]}}",
                      "dense: {name: v, inputs: x, units: 4}\ndot_attention: {name: a, inputs: [x, x, v]}\n"
                      "dot_attention: {inputs: [x, x, a], heads: 2, offset: near, causal: true, scale: 0.3}\n"
                      "attention: {inputs: x, heads: 2, mask: seen, offset: near}"),
    "learned": (STEPS, "learned: {name: token, shape: [1, 8]}\nlearned: {name: near, shape: [7, 6]}\n"
                       "concat: {name: c, inputs: [token, x, token]}\nslice: {name: d, to: 7}\n"
                       "attention: {inputs: [d, x, x], heads: 2, offset: near}\n"
                       "dot_attention: {inputs: [token, c, c]}"),
    "embedding": ("{words: {shape: [5], dtype: int32}}", "embedding: {inputs: words, count: 3, size: 4}\nflatten: {}\n"
                                                        "dense: {units: 2}"),
    "parts_of_words": ("{words: {shape: [3, 4], dtype: int32}}",
                       "split: {inputs: words, axis: 1, into: [p, q]}\nreshape: {name: r, inputs: p, shape: [6]}\n"
                       "embedding: {name: a, count: 3, size: 4}\nslice: {inputs: q, from: 1}\n"
                       "permute: {axes: [1, 0]}\none_hot: {name: b, count: 3}\nmap: {c: 0.5 * q + p}\n"
                       "slice: {name: d, inputs: words, axis: 1, from: 2}"),
    "joined_words": ("{words: {shape: [3], dtype: int32}, more: {shape: [2], dtype: int32}}",
                     "pad: {name: p, inputs: words, before: [1], after: [2], value: 2}\n"
                     "pad: {name: q, inputs: words, before: [2], mode: reflect}\n"
                     "stop_gradient: {name: s, inputs: more}\nconcat: {name: c, inputs: [p, q, s]}\n"
                     "embedding: {name: a, count: 3, size: 4}\nmap: {b: 0.5 * c}\n"
                     "pad: {name: d, inputs: more, before: [1], value: -3}"),
    "one_hot": ("{words: {shape: [5], dtype: int32}}", "one_hot: {name: a, inputs: words, count: 3}\n"
                                                      "permute: {axes: [1, 0]}"),
    "rnn": (STEPS, "rnn: {units: 5, sequence: true, bidirectional: true}\nrnn: {units: 3, bias: false}"),
    "gru": (STEPS, "gru: {units: 5, sequence: true}\ngru: {units: 3, bidirectional: true}"),
    "gru_before": (STEPS, "gru: {units: 5, sequence: true, bidirectional: true, reset: before}\n"
                          "gru: {units: 3, reset: before, bias: false}"),
    "lstm": (STEPS, "lstm: {units: 5, sequence: true, bidirectional: true}\nlstm: {units: 3, bias: false}"),
}  # fmt: skip

BEYOND = {
    "transposed_groups": (IMAGE, "conv_transpose2d: {filters: 6, kernel: 3, stride: 2, groups: 2}"),
    "rnn_relu": (STEPS, "rnn: {units: 5, function: relu, bidirectional: true}"),
    "begun": (
        STEPS,
        "lstm: {name: e, inputs: x, units: 3}\n"
        "lstm: {name: l, inputs: x, units: 3, initial: e, initial_memory: e, sequence: true}\n"
        "dense: {name: h, inputs: e, units: 10}\n"
        "gru: {inputs: l, units: 5, bidirectional: true, initial: h, bias: false}",
    ),
}
"""What ONNX's reference implementation does not know."""


def _reference(proto: object, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    return list(ReferenceEvaluator(proto).run(None, feeds))


def _runtime(file: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _same(found: dict[str, np.ndarray], expected: list[np.ndarray]) -> None:
    for (name, a), b in zip(found.items(), expected, strict=True):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(b).max()), err_msg=name)


@pytest.mark.parametrize("name", NETWORKS)
def test_layers(tmp_path: Path, name: str) -> None:
    inputs, layers = NETWORKS[name]
    path = write_network(tmp_path, inputs, layers)
    feeds = samples(path, 3)
    found = predict(path, feeds, target="reference", build_dir=tmp_path / "build")
    exported = export_file(path, Options(), tmp_path / "net.onnx")
    proto = onnx.load(exported.file)
    onnx.checker.check_model(proto, full_check=True)
    assert [o.name for o in proto.graph.output] == list(found)
    assert {w.name for w in proto.graph.initializer} <= {i for node in proto.graph.node for i in node.input}
    _same(found, _reference(proto, feeds))
    import_file(exported.file, tmp_path / "back.yaml")
    back = predict(tmp_path / "back.yaml", feeds, target="reference", build_dir=tmp_path / "build")
    _same({a: v for a, v in zip(found, back.values(), strict=True)}, list(found.values()))


@pytest.mark.parametrize("name", [*NETWORKS, *BEYOND])
def test_layers_in_onnxruntime(tmp_path: Path, name: str) -> None:
    inputs, layers = (NETWORKS | BEYOND)[name]
    path = write_network(tmp_path, inputs, layers)
    feeds = samples(path, 3)
    found = predict(path, feeds, target="reference", build_dir=tmp_path / "build")
    _same(found, _runtime(export_file(path, Options(), tmp_path / "net.onnx").file, feeds))


def test_activations(tmp_path: Path) -> None:
    """Those that are operators, those that are written as expressions, and a function of the file's own."""
    layers = "\n".join(f"activation: {{name: of_{a}, inputs: x, function: {a}}}" for a in (*ACTIVATIONS, "own"))
    path = write_network(tmp_path, LIST, layers, "functions: {own(x): x * sigmoid(1.7 * x)}")
    feeds = samples(path, 8)
    found = predict(path, feeds, target="reference", build_dir=tmp_path / "build")
    assert len(found) == len(ACTIVATIONS) + 1
    file = export_file(path, Options(), tmp_path / "net.onnx").file
    _same(found, _reference(onnx.load(file), feeds))
    import_file(file, tmp_path / "back.yaml")
    back = predict(tmp_path / "back.yaml", feeds, target="reference", build_dir=tmp_path / "build")
    _same(dict(zip(found, back.values(), strict=True)), list(found.values()))


def test_double_precision(tmp_path: Path) -> None:
    path = write_network(tmp_path, IMAGE, NETWORKS["conv2d"][1], "numerics: {precision: float64}")
    feeds = {n: v.astype(np.float64) for n, v in samples(path, 2).items()}
    found = predict(path, feeds, target="reference", build_dir=tmp_path / "build")
    expected = _reference(onnx.load(export_file(path, Options(), tmp_path / "n.onnx").file), feeds)
    np.testing.assert_allclose(next(iter(found.values())), expected[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("own", ["float32", "float64"])
def test_chosen_precision(tmp_path: Path, own: str, precision: str) -> None:
    """Of weights, constants, inputs and outputs, whatever the model's own is."""
    path = write_network(tmp_path, STEPS, NETWORKS["attention"][1], f"numerics: {{precision: {own}}}")
    proto = onnx.load(export_file(path, Options(precision=precision), tmp_path / "n.onnx").file)
    kind = onnx.TensorProto.DOUBLE if precision == "float64" else onnx.TensorProto.FLOAT
    assert {i.type.tensor_type.elem_type for i in (*proto.graph.input, *proto.graph.output)} == {kind}
    assert {i.data_type for i in proto.graph.initializer} <= {kind, onnx.TensorProto.INT64}
    feeds = {n: v.astype(precision) for n, v in samples(path, 2).items()}
    found = predict(path, feeds, target="reference", precision=precision, build_dir=tmp_path / "build")
    bound = 1e-12 if precision == "float64" else 1e-5
    for a, b in zip(found.values(), _reference(proto, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


@pytest.mark.slow
@pytest.mark.usefixtures("cc")
@pytest.mark.parametrize("model", ["lenet5", "resnet20", "transformer", "lstm", "autoencoder"])
def test_models(root: Path, tmp_path: Path, model: str) -> None:
    """The models of the project, with random weights: the scale of their data is part of the graph."""
    from safetensors.numpy import save_file

    file = root / "models" / f"{model}.yaml"
    save_file(random_weights(file), tmp_path / "w.safetensors")
    loaded = load_model(file)
    prediction = lower_predict(loaded, PLAIN, 1)
    feeds = {i.name: samples(file, 2)[i.name] for i in prediction.inputs}
    found = predict(file, feeds, weights=tmp_path / "w.safetensors", build_dir=tmp_path / "build")
    weights = random_weights(file)
    assert weights.keys() == learned((prediction.graph,)).keys()
    proto = to_onnx(loaded, weights, tuple(found))
    _same(found, _reference(proto, feeds))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    import_file(tmp_path / "m.onnx", tmp_path / "back.yaml")
    again = predict(tmp_path / "back.yaml", feeds, build_dir=tmp_path / "build")
    _same(dict(zip(found, again.values(), strict=True)), list(found.values()))
    if importlib.util.find_spec("onnxruntime"):
        _same(found, _runtime(tmp_path / "m.onnx", feeds))


def test_what_onnx_cannot_say(tmp_path: Path) -> None:
    path = write_network(tmp_path, LIST, "map: {y: 'atan2(x, 3.0)'}")
    with pytest.raises(RunError) as caught:
        export_file(path, Options(), tmp_path / "n.onnx")
    assert caught.value.code == "E0918" and "atan2(x, 3.0)" in caught.value.message.replace("x0", "x")
    assert not (tmp_path / "n.onnx").exists()
    path = write_network(
        tmp_path, "{x: {shape: [6, 8]}, there: {shape: [6]}}", "lstm: {inputs: x, units: 2, mask: there}"
    )
    with pytest.raises(RunError, match=r"E0918.*has a `mask`"):
        export_file(path, Options(), tmp_path / "n.onnx")
