"""Parts of a concatenation are computed in their places in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.ir.level2.program import Merged
from compiler.passes.kernels import lower_tensors
from compiler.passes.pipeline.lower import lower
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
    - dense: {name: c, inputs: wide, units: 4, activation: tanh}
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


def _trained(text: str, folder: Path, target: str = "cpu") -> dict[str, bytes]:
    trained = load(text, folder, target)
    trained.step(1, range(6))
    trained.step(2, range(6, 10))
    return {name: value.tobytes() for name, value in trained.weights().items()}


def _moved(merged: Merged) -> set[str]:
    return {t.name for t in merged.templates if t.name.endswith(".y: moved")}


@pytest.mark.parametrize(
    ("target", "order", "copied"),
    [("cpu", "reproducible", 0), ("cpu", "bitwise", 0), ("cuda", "bitwise", 0), ("cuda", "reproducible", 2)],
)
def test_concatenations_have_no_kernel(tmp_path: Path, target: str, order: str, copied: int) -> None:
    """Strategies of a GPU store results in ways of their own."""
    lowered = lower(model_of(_text(tmp_path, order), tmp_path), backend(target).capabilities, verify=True)
    assert len(_moved(lowered.merged)) == copied
    found = {(d.subject, d.verdict) for d in lowered.decisions if d.pass_name == "place_parts"}
    wanted = "copied" if copied else "in place"
    assert found == {(f"{phase}: {name}.y", wanted) for phase in ("train", "eval") for name in ("wide", "long")}


@pytest.mark.usefixtures("cc")
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


@pytest.mark.gpu
def test_cuda_is_the_reference(tmp_path: Path) -> None:
    text = _text(tmp_path, "bitwise")
    assert _trained(text, tmp_path, "cuda") == _trained(text, tmp_path, "reference")
