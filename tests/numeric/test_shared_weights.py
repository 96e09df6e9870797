"""Layers with the trained arrays of others: gradients, the optimizer's state, files, predictions, ONNX. Gradients of
towers stand in test_layer_gradients.py, with those of all layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import netloom
from compiler.interchange.onnx.export import export_file
from compiler.interchange.onnx.import_file import import_file
from compiler.passes.tensors.fold_norms import fold_norms
from compiler.runtime.artifacts.safetensors import read_weights
from compiler.runtime.common.options import Options
from tests.cpu.networks_for_use import write_network
from tests.numeric.simulated import Array, model_of
from tests.numeric.test_layer_gradients import check
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

TIED = """\
language: 1
name: tied
network:
  inputs: {tokens: {shape: [5], dtype: int32}, next: {shape: [5], dtype: int32}}
  layers:
    - embedding: {name: words, inputs: tokens, count: 11, size: 6}
    - dense: {name: inner, units: 6, activation: gelu}
    - dense: {name: logits, units: 11, weights: words}
train:
  data: {file: samples.npz, inputs: {tokens: tokens, next: next}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: next}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 6
  epochs: 2
  seed: 1
numerics: {precision: float64}
"""
TOWERS = """\
language: 1
name: towers
network:
  inputs: {x: {shape: [2, 5]}, y: {shape: [2, 5]}}
  layers:
    - batch_norm: {name: left, inputs: x}
    - batch_norm: {name: right, inputs: y, weights: left}
    - batch_norm: {name: third, inputs: x, weights: right}
    - map: {apart: left * right + third}
    - flatten: {}
    - dense: {name: out, units: 1}
train:
  data: {file: samples.npz, inputs: {x: x, y: y}, shuffle: false}
  loss: {expression: {value: out ** 2}}
  optimizer: {adam: {}}
  batch: 6
  epochs: 1
numerics: {precision: float64}
"""


def words(folder: Path) -> None:
    rng = np.random.default_rng(4)
    np.savez(folder / "samples.npz", **{n: rng.integers(0, 11, (18, 5)).astype(np.int32) for n in ("tokens", "next")})


def test_gradient_of_both_uses(tmp_path: Path) -> None:
    words(tmp_path)
    trained = load(TIED, tmp_path)
    assert trained.names == ("words.weight", "inner.weight", "inner.bias", "logits.bias")
    check(trained)


def test_no_gradient_of_a_frozen_use(tmp_path: Path) -> None:
    """The arrays learn as without the second use, and what is before it learns through it."""
    after = {}
    for use, weight in (("", 0.0), ("", 1.0), (", frozen: true", 1.0)):
        text = f"""\
language: 1
network:
  inputs: {{x: {{shape: [5]}}, y: {{shape: [3]}}}}
  layers:
    - dense: {{name: first, inputs: x, units: 4, activation: tanh}}
    - dense: {{name: judge, inputs: y, units: 4, activation: tanh}}
    - layer_norm: {{name: judged}}
    - dense: {{name: made, inputs: first, units: 3}}
    - dense: {{name: again, units: 4, weights: judge{use}, activation: tanh}}
    - layer_norm: {{name: fooled, weights: judged{use}}}
train:
  data: {{file: samples.npz, inputs: {{x: x, y: y}}, shuffle: false}}
  loss:
    sum:
      - {{loss: {{expression: {{value: judged ** 3}}}}}}
      - {{weight: {weight}, loss: {{expression: {{value: fooled ** 3}}}}}}
  optimizer: {{sgd: {{learning_rate: 1}}}}
  batch: 6
  epochs: 1
  seed: 2
numerics: {{precision: float64}}
"""
        rng = np.random.default_rng(4)
        np.savez(tmp_path / "samples.npz", x=rng.normal(size=(6, 5)), y=rng.normal(size=(6, 3)))
        trained = load(text, tmp_path)
        trained.step(1, range(6))
        after[use, weight] = trained.weights()
    alone, both, frozen = after.values()
    assert list(frozen) == ["first.weight", "first.bias", "judge.weight", "judge.bias", "judged.weight", "judged.bias",
                            "made.weight", "made.bias"]  # fmt: skip
    for name, values in frozen.items():
        of_judge = name.startswith("judge")
        np.testing.assert_allclose(values, (alone if of_judge else both)[name], rtol=0, atol=1e-12, err_msg=name)
        assert not np.allclose(values, (both if of_judge else alone)[name], rtol=0, atol=1e-4), name


def test_running_means_of_all_uses(tmp_path: Path) -> None:
    """One after the other, as in PyTorch."""
    rng = np.random.default_rng(4)
    data = {n: rng.normal(2, 3, (18, 2, 5)) for n in ("x", "y")}
    np.savez(tmp_path / "samples.npz", **data)
    trained = load(TOWERS, tmp_path)
    assert trained.running == ("left.running_mean", "left.running_var")
    mean, var = np.zeros(2), np.ones(2)
    for number, rows in ((1, np.arange(6)), (2, np.arange(6, 10))):
        trained.step(number, rows.tolist())
        for name in ("x", "y", "x"):
            batch: Array = data[name][rows]
            mean = 0.9 * mean + 0.1 * batch.mean((0, 2))
            var = 0.9 * var + 0.1 * batch.var((0, 2), ddof=1)
    np.testing.assert_allclose(trained.statistics()["left.running_mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(trained.statistics()["left.running_var"], var, rtol=1e-12)


def test_arrays_are_held_once(tmp_path: Path) -> None:
    """In the program, with the optimizer's state, and in files."""
    words(tmp_path)
    text = TIED.replace("sgd: {learning_rate: 1}", "adam: {}")
    (tmp_path / "tied.yaml").write_text(text)
    names = {a.name for a in load(text, tmp_path).program.arrays}
    assert sorted(n for n in names if n.startswith("logits.weight")) == []
    assert {"words.weight.m", "words.weight.v"} <= names
    run = netloom.run(tmp_path / "tied.yaml", runs_dir=tmp_path / "runs", build_dir=tmp_path / "build")
    shapes = {n: v.shape for n, v in read_weights(run.folder / "weights.safetensors").items()}
    assert shapes == {"words.weight": (11, 6), "inner.weight": (6, 6), "inner.bias": (6,), "logits.bias": (11,)}


def test_a_group_is_of_all_that_a_layer_uses(tmp_path: Path) -> None:
    words(tmp_path)
    frozen = TIED.replace("  batch: 6", "  groups: [{of: logits, frozen: true}]\n  batch: 6")
    trained = load(frozen, tmp_path)
    begin = trained.weights()
    trained.step(1, range(6))
    same = {n for n, v in trained.weights().items() if np.array_equal(v, begin[n])}
    assert same == {"words.weight", "logits.bias"}


def test_use_and_onnx(tmp_path: Path) -> None:
    """One initializer each, and one array after import."""
    layers = """\
embedding: {name: words, inputs: tokens, count: 11, size: 6}
dense: {name: inner, units: 6}
dense: {name: logits, units: 11, weights: words}
slice: {inputs: inner, to: 1}
reshape: {shape: [6]}
dense: {units: 11, weights: logits, bias: false}
softmax: {name: chances}
dense: {name: inner_again, inputs: inner, units: 6, weights: inner, activation: tanh}
dense: {name: mean, inputs: chances, units: 6, weights: words, transposed: true}
dense: {name: means, inputs: logits, units: 6, weights: logits, transposed: true, bias: false}"""
    path = write_network(tmp_path, "{tokens: {shape: [5], dtype: int32}}", layers)
    feeds = {"tokens": np.random.default_rng(1).integers(0, 11, (3, 5)).astype(np.int32)}
    w = read_weights(tmp_path / "net.safetensors")
    assert set(w) == {"words.weight", "inner.weight", "inner.bias", "logits.bias", "mean.bias"}
    names = ("logits", "chances", "inner_again", "mean", "means")
    found = netloom.predict(path, feeds, layers=names, build_dir=tmp_path / "build")
    inner = w["words.weight"][feeds["tokens"]] @ w["inner.weight"].T + w["inner.bias"]
    scores = np.exp(inner[:, 0] @ w["words.weight"].T)
    _close(found["logits"], inner @ w["words.weight"].T + w["logits.bias"])
    _close(found["chances"], scores / scores.sum(-1, keepdims=True))
    _close(found["inner_again"], np.tanh(inner @ w["inner.weight"].T + w["inner.bias"]))
    _close(found["mean"], found["chances"] @ w["words.weight"] + w["mean.bias"])
    _close(found["means"], found["logits"] @ w["words.weight"])
    exported = export_file(path, Options(), tmp_path / "net.onnx", names)
    initializers = onnx.load(exported.file).graph.initializer
    assert sorted(i.name for i in initializers if len(i.dims) == 2) == ["inner.weight", "words.weight"]
    session = onnxruntime.InferenceSession(str(exported.file), providers=["CPUExecutionProvider"])
    for mine, there in zip(found.values(), session.run(None, feeds), strict=True):
        _close(mine, there)
    import_file(exported.file, tmp_path / "back.yaml")
    back = netloom.predict(tmp_path / "back.yaml", feeds, layers=names, build_dir=tmp_path / "build")
    for mine, there in zip(found.values(), back.values(), strict=True):
        _close(mine, there)
    shapes = sorted(v.shape for v in read_weights(tmp_path / "back.safetensors").values())
    assert shapes == [(6,), (6,), (6, 6), (11,), (11, 6)]


def _close(found: Array, wanted: Array) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_tower_alone(tmp_path: Path) -> None:
    """Its arrays are those of a layer that the output does not depend on."""
    layers = "dense: {name: a, inputs: x, units: 3}\ndense: {name: b, inputs: y, units: 3, weights: a}"
    path = write_network(tmp_path, "{x: {shape: [4]}, y: {shape: [4]}}", layers)
    w = read_weights(tmp_path / "net.safetensors")
    y = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    found = netloom.predict(path, {"y": y}, layers="b", target="reference", build_dir=tmp_path / "build")
    _close(found["b"], y @ w["a.weight"].T + w["a.bias"])


def test_norms_of_shared_weights_are_not_folded(tmp_path: Path) -> None:
    text = """\
language: 1
network:
  inputs: {x: {shape: [5]}}
  layers:
    - dense: {name: a, units: 5}
    - batch_norm: {name: b}
    - dense: {name: c, units: 5, weights: a}
"""
    network = model_of(text, tmp_path).network
    assert network is not None
    assert fold_norms(network, ("c",))[1] == ()
    alone = model_of(text.replace(", weights: a", ""), tmp_path).network
    assert alone is not None
    assert len(fold_norms(alone, ("c",))[1]) == 1
