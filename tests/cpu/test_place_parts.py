"""Parts of a concatenation are computed in their places in it, and slices are read where they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.ir.level2.program import Merged
from compiler.passes.kernels import lower_tensors
from compiler.passes.pipeline.lower import Lowered, lower
from tests.numeric.simulated import model_of
from tests.numeric.trained import load

TEXT = """\
language: 1
name: parts
network:
  inputs: {x: {shape: [3, 5]}, label: {shape: [], dtype: int32}}
  layers:
    - dense: {name: a, inputs: x, units: 4, activation: tanh}
    - dense: {name: b, inputs: x, units: UNITS, activation: sigmoid}
    - concat: {name: wide, inputs: [a, b], axis: 1}
    - slice: {name: some, inputs: wide, axis: 1, from: 1, to: 5}
    - dense: {name: c, units: 4, activation: tanh}
    - dense: {name: d, inputs: wide, units: 4, activation: relu}
    - concat: {name: long, inputs: [c, d], axis: 0}
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {x: x, label: label}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 6
  epochs: 1
  seed: 1
numerics: {order: ORDER}
"""


def _text(folder: Path, order: str, units: int = 6) -> str:
    rng = np.random.default_rng(3)
    label = rng.integers(0, 3, 18).astype(np.int32)
    np.savez(folder / "samples.npz", x=rng.normal(size=(18, 3, 5)).astype(np.float32), label=label)
    return TEXT.replace("ORDER", order).replace("UNITS", str(units))


def _trained(text: str, folder: Path, target: str = "cpu", lowered_for: str = "") -> dict[str, bytes]:
    trained = load(text, folder, target, lowered_for=lowered_for)
    trained.step(1, range(6))
    trained.step(2, range(6, 10))
    return {name: value.tobytes() for name, value in trained.weights().items()}


def _moved(merged: Merged) -> set[str]:
    return {t.name for t in merged.templates if t.name.endswith(".y: moved")}


def _placed(lowered: Lowered, verdict: str = "in place") -> set[str]:
    return {d.subject for d in lowered.decisions if (d.pass_name, d.verdict) == ("place_parts", verdict)}


@pytest.mark.parametrize(
    ("order", "precision"), [("bitwise", "float32"), ("reproducible", "float32"), ("reproducible", "mixed")]
)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_concatenations_have_no_kernel(tmp_path: Path, target: str, order: str, precision: str) -> None:
    text = _text(tmp_path, order).replace("order:", f"precision: {precision}, order:")
    lowered = lower(model_of(text, tmp_path), backend(target).capabilities, verify=True)
    assert _moved(lowered.merged) == ({"some.y: moved"} if (target, order) == ("cpu", "reproducible") else set())
    names = ("wide", "long", *(("some",) if not _moved(lowered.merged) else ()))
    assert _placed(lowered) == {f"{phase}: {name}.y" for phase in ("train", "eval") for name in names}


TAIL = """\
    - flatten: {}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {INPUT: INPUT, label: label}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 32
  epochs: 1
numerics: {order: ORDER}
"""

SKIPPED = """\
language: 1
name: skipped
network:
  inputs: {x: {shape: [3, 8, 8]}, label: {shape: [], dtype: int32}}
  layers:
    - conv2d: {name: a, inputs: x, filters: 8, kernel: 3, padding: 1}
    - batch_norm: {}
    - conv2d: {name: b, filters: 8, kernel: 3, padding: 1, activation: relu}
    - concat: {name: two, inputs: [a, b]}
    - conv2d: {name: c, filters: 8, kernel: 3, padding: 1, activation: relu}
    - concat: {name: three, inputs: [two, c]}
    - slice: {name: some, from: 6, to: 18}
    - conv2d: {filters: 4, kernel: 3}
"""


@pytest.mark.parametrize(("target", "order"), [("cpu", "bitwise"), ("cuda", "bitwise"), ("cuda", "reproducible")])
def test_parts_of_parts_are_read_by_strategies(tmp_path: Path, target: str, order: str) -> None:
    """What a join has is read by convolutions, and joined again."""
    label = np.zeros(32, np.int32)
    np.savez(tmp_path / "samples.npz", x=np.zeros((32, 3, 8, 8), np.float32), label=label)
    model = model_of((SKIPPED + TAIL.replace("INPUT", "x")).replace("ORDER", order), tmp_path)
    lowered = lower(model, backend(target).capabilities, verify=True)
    assert not _placed(lowered, "copied")
    assert _placed(lowered) >= {f"{phase}: {n}.y" for phase in ("train", "eval") for n in ("two", "three", "some")}
    assert "train: a.biased.grad" in _placed(lowered)
    whole = {a.within for a in lowered.merged.arrays if a.name in ("train/a.biased", "train/two.y")}
    assert whole == {"train/three.y"}


STEPS = """\
language: 1
name: steps
network:
  inputs: {words: {shape: [5], dtype: int32}, label: {shape: [], dtype: int32}}
  layers:
    - embedding: {name: rows, inputs: words, count: 9, size: 8}
    - gru: {name: states, units: 8, sequence: true}
    - dense: {name: each, units: 4, activation: tanh}
"""


@pytest.mark.parametrize(("target", "order"), [("cpu", "bitwise"), ("cuda", "bitwise"), ("cuda", "reproducible")])
def test_sequences_lie_in_the_order_of_steps(tmp_path: Path, target: str, order: str) -> None:
    """What a recurrent layer reads is made in its order, and what reads its states, or makes their gradient, goes
    through strides."""
    np.savez(tmp_path / "samples.npz", words=np.zeros((32, 5), np.int32), label=np.zeros(32, np.int32))
    model = model_of((STEPS + TAIL.replace("INPUT", "words")).replace("ORDER", order), tmp_path)
    lowered = lower(model, backend(target).capabilities, verify=True)
    assert not [t.name for t in lowered.merged.templates if t.name.endswith(": copy")]
    names = ("states.rows", "states.all")
    assert _placed(lowered) >= {f"{phase}: {name}" for phase in ("train", "eval") for name in names}


@pytest.mark.usefixtures("cc", "little_optimized")
@pytest.mark.parametrize("order", ["bitwise", "reproducible"])
def test_no_bit_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str) -> None:
    text = _text(tmp_path, order)
    found = _trained(text, tmp_path)
    if order == "bitwise":
        assert found == _trained(text, tmp_path, "reference")
    monkeypatch.setattr(lower_tensors, "place_parts", lambda *_: None)
    assert found == _trained(text, tmp_path)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_one_text_for_every_size(tmp_path: Path, target: str) -> None:
    chosen = backend(target)
    models = [model_of(_text(tmp_path, "bitwise", units), tmp_path) for units in (6, 40)]
    first, second = (chosen.emit(lower(m, chosen.capabilities).merged) for m in models)
    assert first == second


@pytest.mark.usefixtures("cc", "little_optimized")
def test_launches_of_a_gpu_wait_for_the_parts_of_what_they_read(tmp_path: Path) -> None:
    """Launches are sorted by what they wait for: `c` reads a slice of what `a` and `b` make, in which neither lies."""
    text = _text(tmp_path, "bitwise")
    assert _trained(text, tmp_path, "reference", "cuda") == _trained(text, tmp_path)


@pytest.mark.gpu
def test_cuda_is_the_reference(tmp_path: Path) -> None:
    text = _text(tmp_path, "bitwise")
    assert _trained(text, tmp_path, "cuda") == _trained(text, tmp_path, "reference")


WINDOWS = """\
language: 1
name: inception
network:
  inputs: {x: {shape: [3, SIZE, SIZE]}, label: {shape: [], dtype: int32}}
  layers:
    - conv2d: {name: stem, inputs: x, filters: 16, kernel: 3, padding: 1, activation: relu}
    - conv2d: {name: a1, inputs: stem, filters: 16, kernel: 3, padding: 1, activation: relu}
    - conv2d: {name: a2, inputs: stem, filters: 8, kernel: 1, activation: tanh}
    - conv2d: {name: a3, inputs: stem, filters: 24, kernel: 5, padding: 2, activation: relu}
    - concat: {name: mixed1, inputs: [a1, a2, a3], axis: 0}
    - slice: {name: some, inputs: mixed1, axis: 0, from: 9, to: 41}
    - conv2d: {name: b1, filters: 12, kernel: 3, padding: 1, activation: relu}
    - conv2d: {name: b2, inputs: mixed1, filters: 13, kernel: 1, activation: relu}
    - conv2d: {name: b3, inputs: mixed1, filters: 16, kernel: 7, padding: 3, activation: relu}
    - concat: {name: mixed2, inputs: [b1, b2, b3], axis: 0}
    - avg_pool2d: {size: 4}
    - flatten: {name: flat}
    - dense: {name: e1, inputs: flat, units: 64, activation: relu}
    - dense: {name: e2, inputs: flat, units: 37, activation: tanh}
    - concat: {name: wide, inputs: [e1, e2], axis: 0}
    - dense: {name: logits, units: 10}
train:
  data: {file: samples.npz, inputs: {x: x, label: label}, shuffle: false}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 0.1}}
  batch: BATCH
  epochs: 1
  seed: 1
numerics: {NUMERICS}
"""


@pytest.mark.gpu
@pytest.mark.parametrize("numerics", ["products: float32", "products: exact", "products: tf32", "precision: mixed"])
@pytest.mark.parametrize(("size", "batch"), [(16, 64), (20, 24)])
def test_strategies_of_a_gpu_store_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, batch: int, numerics: str
) -> None:
    """The same bits as with copies, where parts and slices are aligned and where they are not."""
    rng = np.random.default_rng(3)
    label = rng.integers(0, 10, 2 * batch).astype(np.int32)
    np.savez(tmp_path / "samples.npz", x=rng.normal(size=(2 * batch, 3, size, size)).astype(np.float32), label=label)
    text = WINDOWS.replace("SIZE", str(size)).replace("BATCH", str(batch)).replace("NUMERICS", numerics)
    lowered = lower(model_of(text, tmp_path), backend("cuda").capabilities)
    assert _placed(lowered) >= {f"train: {name}.y" for name in ("mixed1", "some", "mixed2", "wide")}
    found = _trained(text, tmp_path, "cuda")
    monkeypatch.setattr(lower_tensors, "place_parts", lambda *_: None)
    assert found == _trained(text, tmp_path, "cuda")
