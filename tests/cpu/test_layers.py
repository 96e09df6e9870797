"""Every layer on every backend: generated C is bitwise equal to the reference, CUDA compiles, and code size is
constant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.ir.text import print_ir
from compiler.passes.pipeline.lower import lower
from tests.grids import diagonal
from tests.numeric.simulated import model_of
from tests.numeric.trained import load
from tests.parse_ir import parse_ir

HEAD = """\
language: 1
name: layers
params: {n: {value: 2, type: int}, c: {value: 4, type: int}, scale: {value: 0.5}, steps: {value: 8, type: int}}
network:
  inputs: {image: {shape: SHAPE}, label: {shape: [], dtype: int32}}
  layers:
"""
TAIL = """\
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {image: images, label: labels}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {adam: {}}
  batch: 6
  epochs: 1
  seed: 1
"""
NETS: dict[str, tuple[tuple[int, ...], str]] = {
    "images": ((4, 8, 8), """\
    - conv2d: {name: one, filters: 6, kernel: 3, padding: [0, 2, 1, 0], groups: 2, activation: selu}
    - conv_transpose2d: {filters: 4, kernel: [3, 2], stride: 2, padding: 1, output_padding: [1, 0]}
    - group_norm: {groups: 2}
    - dropout: {rate: 0.2, draws: channel}
    - avg_pool2d: {size: 3, stride: 2, padding: 1, ceil: true, count_padding: false}
    - instance_norm: {affine: false}
    - upsample: {name: up, factor: 2}
    - global_avg_pool: {name: mean}
    - reshape: {name: gate, shape: [4, 1, 1]}
    - map: {gated: up * sigmoid(gate) + scale}
    - pad: {before: [0, 1, 0], after: [0, 0, 1], value: 0.25}
    - split: {into: [left, right]}
    - concat: {inputs: [right, left], axis: 1}
    - permute: {axes: [2, 0, 1]}
    - global_max_pool: {}
"""),
    "lines": ((4, 12), """\
    - conv1d: {filters: 4, kernel: 3, padding: same, activation: gelu_tanh}
    - conv_transpose1d: {filters: 4, kernel: 4, stride: 2, padding: 1, activation: hard_swish}
    - max_pool1d: {size: 3, stride: 2, padding: 1}
    - avg_pool1d: {size: 2}
    - softmax: {name: part}
    - slice: {name: tail, axis: 1, from: 1}
    - log_softmax: {inputs: part, axis: 0}
"""),
    "branches": ((7,), """\
    - activation: {name: a, inputs: image, function: tanh}
    - activation: {name: b, inputs: image, function: sigmoid}
    - dense: {name: of_a, inputs: a, units: 5}
    - dense: {name: of_b, inputs: b, units: 5}
    - add: {inputs: [of_a, of_b]}
    - dropout: {rate: 0.3}
"""),
    "scaled": ((3, 4), """\
    - scale_shift: {}
    - dense: {units: 5, activation: tanh}
    - scale_shift: {axis: 1}
    - prelu: {}
    - rms_norm: {axes: 2, epsilon: 1e-3}
    - prelu: {channels: true}
    - dense: {units: 6}
    - glu: {function: silu, gate: first}
    - rms_norm: {affine: false}
    - glu: {inputs: image, name: halves}
    - map: {both: rms_norm_2 + 0.5}
    - concat: {name: wide, inputs: [both, halves], axis: 1}
    - reduce: {function: max, axes: 0, keep: true, name: top}
    - stop_gradient: {name: still}
    - map: {off: wide * still - top}
    - reduce: {function: min, axes: [1], name: low}
    - reduce: {inputs: off, function: sum, name: all}
    - map: {apart: off - 0.1 * all}
    - dropout: {rate: 0.3, draws: sample}
"""),
    "resized": ((2, 6, 5), """\
    - upsample: {factor: 2, method: linear}
    - adaptive_max_pool2d: {size: [6, 5]}
    - upsample: {size: [7, 8], method: linear, align_corners: true}
    - adaptive_avg_pool2d: {size: [3, 8]}
    - upsample: {size: [4, 9]}
"""),
    "shared": ((2, 6, 6), """\
    - split: {into: [left, right]}
    - conv2d: {name: a, inputs: left, filters: 3, kernel: 3, activation: tanh}
    - batch_norm: {name: b}
    - conv2d: {name: c, inputs: right, filters: 3, kernel: 3, weights: a, activation: tanh}
    - batch_norm: {name: d, weights: b}
    - map: {apart: (b - d) ** 2}
    - reshape: {shape: [4, 12]}
    - lstm: {name: once, units: 3, sequence: true}
    - permute: {inputs: reshape_1, axes: [1, 0]}
    - reshape: {shape: [4, 12]}
    - lstm: {units: 3, weights: once}
    - map: {both: once * lstm_1}
    - dense: {name: up, units: 12}
    - dense: {units: 3, activation: tanh}
    - dense: {name: wide, units: 12, weights: up, bias: false}
    - dense: {units: 3, weights: up, transposed: true}
"""),
    "volumes": ((2, 4, 4, 4), "    - conv3d: {filters: 3, kernel: 2, stride: [1, 2, 1], activation: mish}\n"),
    "attention": ((6, 8), """\
    - positions: {}
    - attention: {name: a, heads: 2, causal: true}
    - layer_norm: {}
    - dense: {units: 8, activation: gelu}
    - multiply: {inputs: [dense_1, a]}
"""),
    "mirrors": ((2, 4, 5), """\
    - pad: {before: [0, 3, 1], after: [0, 2, 4], mode: reflect}
    - conv2d: {filters: 3, kernel: 3, activation: tanh}
    - pad: {before: [1, 2, 0], after: [0, 9, 1], mode: replicate}
    - avg_pool2d: {size: 2}
    - conv2d: {filters: 4, kernel: 3, padding: [1, 0, 1, 2], padding_mode: reflect}
    - pad: {before: [4, 0, 2], mode: circular}
"""),
    "products": ((2, 4, 5), """\
    - matmul: {name: gram, inputs: [image, image], transposed: second}
    - softmax: {}
    - matmul: {name: seen, inputs: [softmax_1, image]}
    - learned: {name: table, shape: [4, 3], init: {normal: {std: 1}}}
    - matmul: {name: narrow, inputs: [seen, table], transposed: first}
    - slice: {name: one, inputs: image, from: 0, to: 1}
    - matmul: {name: both, inputs: [one, narrow], transposed: none}
    - reshape: {name: list, inputs: one, shape: [20]}
    - slice: {name: short, inputs: list, to: 4}
    - matmul: {inputs: [short, both]}
"""),
    "shared_heads": ((6, 8), """\
    - attention: {name: a, heads: 4, kv_heads: 2, size: 12, causal: true}
    - dense: {name: k, units: 4}
    - dense: {name: v, units: 3, activation: tanh}
    - dot_attention: {inputs: [a, k, v], heads: 2, kv_heads: 1}
"""),
    "seen": ((6, 8), """\
    - dense: {name: q, inputs: image, units: 6}
    - dense: {name: v, inputs: image, units: 4}
    - slice: {inputs: image, axis: 1, to: 1}
    - reshape: {name: s, shape: [6]}
    - map: {valid: 1.0 if s > -0.3 else 0.0}
    - dense: {name: steps, inputs: q, units: 6}
    - dot_attention: {inputs: [q, q, v], heads: 2, mask: valid, offset: steps, causal: true}
    - attention: {heads: 2, size: 6, mask: valid}
    - learned: {name: token, shape: [1, 4]}
    - learned: {name: near, shape: [2, 7, 6], init: {uniform: {bound: 0.5}}}
    - concat: {name: longer, inputs: [token, attention_1]}
    - attention: {heads: 2, offset: near, inputs: [longer, attention_1, attention_1]}
"""),
    "recurrent": ((5, 4), """\
    - augment: {inputs: image, value: x * (0.9 + 0.2 * random()) + 0.1 * normal(), draws: sample}
    - gru: {units: 3, sequence: true, bidirectional: true}
    - gru: {units: 5, reset: before, sequence: true}
    - lstm: {units: 4, sequence: true}
    - rnn: {units: 3}
    - one_hot: {name: own, inputs: label, count: 3}
    - lstm: {inputs: gru_1, units: 3, initial: rnn_1, initial_memory: own}
    - dense: {units: 4}
    - gru: {name: begun, inputs: gru_1, units: 2, bidirectional: true, initial: dense_1}
    - slice: {to: 3}
    - map: {shown: slice_1 * (0.5 + own)}
"""),
}  # fmt: skip


def write(folder: Path, shape: tuple[int, ...], vocabulary: int = 0) -> None:
    rng = np.random.default_rng(3)
    size = (18, *shape)
    images = rng.integers(0, vocabulary, size).astype(np.int32) if vocabulary else rng.normal(size=size)
    np.savez(folder / "samples.npz", images=images, labels=rng.integers(0, 3, 18).astype(np.int32))


@pytest.mark.usefixtures("cc", "little_optimized")
@pytest.mark.parametrize(("name", "precision"), diagonal(list(NETS), ["float32", "float64"]))
def test_cpu_is_the_reference(tmp_path: Path, name: str, precision: str) -> None:
    shape, layers = NETS[name]
    write(tmp_path, shape)
    text = HEAD.replace("SHAPE", str(list(shape))) + layers + TAIL
    text += f"numerics: {{order: bitwise, precision: {precision}}}\n"
    both = [load(text, tmp_path, target) for target in ("cpu", "reference")]
    start = both[0].weights()
    for number, chosen in ((1, range(6)), (2, range(6, 10))):
        for one in both:
            one.step(number, chosen)
    for key, value in both[0].weights().items():
        assert value.tobytes() == both[1].weights()[key].tobytes(), key
    assert any(not np.array_equal(v, start[k]) for k, v in both[0].weights().items())


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in ("images", "recurrent") else pytest.mark.slow) for n in NETS]
)
@pytest.mark.nvrtc
def test_cuda_compiles(tmp_path: Path, name: str) -> None:
    from backends.cuda.run.backend import CudaBackend

    shape, layers = NETS[name]
    write(tmp_path, shape)
    model = model_of(HEAD.replace("SHAPE", str(list(shape))) + layers + TAIL, tmp_path)
    target = CudaBackend()
    merged = lower(model, target.capabilities, verify=True).merged
    assert target.build(merged, tmp_path / "build", {"arch": "sm_90"}).binary.stat().st_size > 0


BLOCKS = {
    "images": ((4, 6, 6), "c", """\
    - repeat:
        times: n
        layers:
          - conv2d: {name: a, filters: c, kernel: 3, padding: same}
          - group_norm: {name: g, groups: 2}
          - conv_transpose2d: {name: t, filters: c, kernel: 3, padding: 1, groups: 2}
          - layer_norm: {name: l}
          - softmax: {name: s}
          - split: {into: [u, v]}
          - concat: {name: w, inputs: [v, u]}
          - map: {y: w * sigmoid(s) + scale * a}
"""),
    "attention": ((5, 8), "c", """\
    - repeat:
        times: n
        layers:
          - layer_norm: {name: l}
          - attention: {name: a, heads: 2, causal: true}
          - dense: {name: d, units: 8, activation: gelu}
          - add: {name: y, inputs: [a, d]}
"""),
    "recurrent": ((5, 4), "c", "    - repeat: {times: n, layers: [{lstm: {units: c, sequence: true}}]}\n"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "target"), diagonal(list(BLOCKS), ["cpu", "cuda"]))
def test_blocks_are_one_text(tmp_path: Path, name: str, target: str) -> None:
    """10 or 40 blocks, other sizes (for which the same strategies are chosen), another value in a formula."""
    shape, _, layers = BLOCKS[name]
    write(tmp_path, shape)
    text = HEAD.replace("SHAPE", str(list(shape))) + layers + TAIL
    chosen = backend(target)
    most, *sizes = ("20", "6", "7") if name == "recurrent" else ("40", "4", "8")
    first, second = ({"n": "10", "c": size} for size in sizes)
    emitted = []
    for settings in (first, first | {"n": most}, second, first | {"scale": "0.75"}):
        model = model_of(text, tmp_path, settings)
        emitted.append(chosen.emit(lower(model, chosen.capabilities).merged))
    assert emitted[0] == emitted[1]
    assert emitted[0] == emitted[2]
    assert emitted[0] == emitted[3]


@pytest.mark.parametrize(("kind", "target"), diagonal(["rnn", "gru", "gru, reset: before", "lstm"], ["cpu", "cuda"]))
def test_steps_are_one_text(tmp_path: Path, kind: str, target: str) -> None:
    """A recurrent layer over 10 or 50 steps is the same code: its steps are rows."""
    chosen = backend(target)
    emitted = []
    name, _, option = kind.partition(", ")
    layer = f"    - {name}: {{units: 5, sequence: true{option and ', '}{option}}}\n"
    for steps in (10, 50):
        write(tmp_path, (steps, 4))
        text = HEAD.replace("SHAPE", f"[{steps}, 4]") + layer + TAIL
        emitted.append(chosen.emit(lower(model_of(text, tmp_path), chosen.capabilities).merged))
    assert emitted[0] == emitted[1]


@pytest.mark.usefixtures("cc", "little_optimized")
def test_embedding(tmp_path: Path) -> None:
    """Rows of the table, and a gradient only for those that were read."""
    write(tmp_path, (4,), 7)
    text = HEAD.replace("{shape: SHAPE}", "{shape: [4], dtype: int32}")
    text += "    - embedding: {name: words, inputs: image, count: 7, size: 5}\n" + TAIL
    text = text.replace("{adam: {}}", "{sgd: {learning_rate: 1}}") + "numerics: {precision: float64}\n"
    trained = load(text, tmp_path)
    with np.load(tmp_path / "samples.npz") as file:
        words = file["images"][:2]
    w, b = trained.read("logits.weight"), trained.read("logits.bias")
    table, label = trained.read("words.weight"), np.load(tmp_path / "samples.npz")["labels"][:2]
    flat = table[words].reshape(2, -1)
    score = flat @ w.T + b
    p = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    slope = ((p - np.eye(3)[label]) / 2 @ w).reshape(2, 4, 5)
    wanted = np.zeros_like(table)
    np.add.at(wanted, words, slope)
    trained.step(1, range(2))
    np.testing.assert_allclose(table - trained.read("words.weight"), wanted, rtol=0, atol=1e-12)
    assert (wanted == 0).all(1).any()


WHOLE = """\
    - split: {name: parts, inputs: image, axis: 1, into: [kinds, words], sizes: [1, 2]}
    - reshape: {name: kind, inputs: kinds, shape: [4]}
    - embedding: {name: of_kind, count: 3, size: 5}
    - slice: {inputs: words, from: 1}
    - permute: {name: turned, axes: [1, 0]}
    - embedding: {name: of_words, count: 9, size: 5}
    - one_hot: {name: hot, inputs: kind, count: 3}
    - map: {own: 0.1 * words - 1}
    - flatten: {name: a, inputs: of_words}
    - flatten: {name: b, inputs: of_kind}
    - flatten: {name: c, inputs: hot}
    - flatten: {name: d, inputs: own}
    - concat: {inputs: [a, b, c, d]}
"""
"""Whole numbers in parts, whose bounds differ; `words` is computed in a kernel, as a formula reads it, too."""


def _write_whole(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    images = np.concatenate([rng.integers(0, 3, (18, 4, 1)), rng.integers(0, 9, (18, 4, 2))], 2).astype(np.int32)
    labels = rng.integers(0, 3, 18).astype(np.int32)
    np.savez(folder / "samples.npz", images=images, labels=labels)
    return images, labels


def _stepped(layers: str, folder: Path) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Weights before and after a step of gradients on six samples: the same bits on cpu and reference."""
    text = HEAD.replace("{shape: SHAPE}", "{shape: [4, 3], dtype: int32}") + layers + TAIL
    text = text.replace("{adam: {}}", "{sgd: {learning_rate: 1}}")
    both = [load(text + "numerics: {precision: float64, order: bitwise}\n", folder, t) for t in ("cpu", "reference")]
    start = both[0].weights()
    for one in both:
        one.step(1, range(6))
    after = both[0].weights()
    for key, value in after.items():
        assert value.tobytes() == both[1].weights()[key].tobytes(), key
    return start, after


@pytest.mark.usefixtures("cc", "little_optimized")
def test_parts_of_whole_numbers(tmp_path: Path) -> None:
    """What layers move of whole numbers are the same ones; bit for bit on cpu and reference, with NumPy's gradient."""
    images, labels = _write_whole(tmp_path)
    start, after = _stepped(WHOLE, tmp_path)
    kind, words = images[:6, :, 0], images[:6, :, 1:]
    turned = words[:, 1:].transpose(0, 2, 1)
    read = [
        start["of_words.weight"][turned], start["of_kind.weight"][kind], np.eye(3)[kind], 0.1 * words - 1,
    ]  # fmt: skip
    x = np.concatenate([part.reshape(6, -1) for part in read], 1)
    score = x @ start["logits.weight"].T + start["logits.bias"]
    slope = np.exp(score) / np.exp(score).sum(1, keepdims=True) - np.eye(3)[labels[:6]]
    np.testing.assert_allclose(start["logits.weight"] - after["logits.weight"], slope.T @ x / 6, rtol=0, atol=1e-12)
    back = slope @ start["logits.weight"] / 6
    for name, index, part in (("of_words", turned, back[:, :30]), ("of_kind", kind, back[:, 30:50])):
        wanted = np.zeros_like(start[f"{name}.weight"])
        np.add.at(wanted, index.reshape(-1), part.reshape(-1, 5))
        np.testing.assert_allclose(
            start[f"{name}.weight"] - after[f"{name}.weight"], wanted, rtol=0, atol=1e-12, err_msg=name
        )


JOINED = """\
    - slice: {name: kinds, inputs: image, axis: 1, to: 1}
    - reshape: {name: kind, shape: [4]}
    - slice: {name: words, inputs: image, axis: 1, from: 1}
    - flatten: {name: word}
    - stop_gradient: {name: still, inputs: kind}
    - pad: {name: around, inputs: kind, before: [1], after: [2], value: 8}
    - pad: {name: mirrored, inputs: kind, before: [3], after: [2], mode: reflect}
    - pad: {name: repeated, inputs: kind, before: [2], mode: replicate}
    - pad: {name: circle, inputs: kind, before: [1], after: [3], mode: circular}
    - concat: {name: joined, inputs: [around, mirrored, repeated, circle, still, word]}
    - embedding: {name: rows, count: 9, size: 5}
    - map: {own: 0.1 * joined - 1}
    - flatten: {name: a, inputs: rows}
    - concat: {inputs: [a, own]}
"""
"""Whole numbers that layers join and put others around, of which one, 8, is their own."""


@pytest.mark.usefixtures("cc", "little_optimized")
def test_joined_whole_numbers(tmp_path: Path) -> None:
    """What layers join and pad of whole numbers is NumPy's; bit for bit on cpu and reference, with NumPy's gradient."""
    images, labels = _write_whole(tmp_path)
    start, after = _stepped(JOINED, tmp_path)
    kind, words = images[:6, :, 0], images[:6, :, 1:].reshape(6, -1)
    modes = (((1, 2), {"constant_values": 8}), ((3, 2), {"mode": "reflect"}), ((2, 2), {"mode": "edge"}),
             ((1, 3), {"mode": "wrap"}))  # fmt: skip
    joined = np.concatenate([*(np.pad(kind, ((0, 0), amounts), **how) for amounts, how in modes), kind, words], 1)
    x = np.concatenate([start["rows.weight"][joined].reshape(6, -1), 0.1 * joined - 1], 1)
    score = x @ start["logits.weight"].T + start["logits.bias"]
    slope = np.exp(score) / np.exp(score).sum(1, keepdims=True) - np.eye(3)[labels[:6]]
    np.testing.assert_allclose(start["logits.weight"] - after["logits.weight"], slope.T @ x / 6, rtol=0, atol=1e-12)
    back = (slope @ start["logits.weight"] / 6)[:, : 5 * joined.shape[1]]
    wanted = np.zeros_like(start["rows.weight"])
    np.add.at(wanted, joined.reshape(-1), back.reshape(-1, 5))
    np.testing.assert_allclose(start["rows.weight"] - after["rows.weight"], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NETS)
def test_graphs_are_text_and_back(tmp_path: Path, name: str) -> None:
    """Every node that a layer, a norm of a weight or a class weight makes prints, and its text parses to it."""
    shape, layers = NETS[name]
    write(tmp_path, shape)
    tail = TAIL.replace("target: label}", "target: label, class_weights: [1, 2, 0.5]}").replace("adam", "lamb")
    text = HEAD.replace("SHAPE", str(list(shape))) + layers + tail
    for graph in lower(model_of(text, tmp_path), backend("cpu").capabilities).tensors:
        assert parse_ir(print_ir(graph)) == graph
