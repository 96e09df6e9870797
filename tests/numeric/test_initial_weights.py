"""Initial weights of layers: moments, bounds and angles; equal on every target, different for another seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError
from tests.grids import diagonal
from tests.numeric.simulated import Array
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

MODEL = """\
language: 1
name: initial
network:
  inputs: {image: {shape: [8, 6, 6]}, label: {shape: [], dtype: int32}}
  layers:
    - conv2d: {name: conv, inputs: image, filters: 64, kernel: 3, groups: 2, INIT}
    - flatten: {}
    - dense: {name: wide, units: 64, INIT}
    - dense: {name: logits, units: 3}
train:
  data: {file: samples.npz, inputs: {image: images, label: labels}}
  loss: {softmax_cross_entropy: {logits: logits, target: label}}
  optimizer: {sgd: {learning_rate: 1}}
  batch: 4
  epochs: 1
  seed: SEED
"""


def weights(init: str, folder: Path, target: str = "cpu", seed: int = 1) -> dict[str, Array]:
    folder.mkdir(exist_ok=True)
    np.savez(folder / "samples.npz", images=np.zeros((4, 8, 6, 6)), labels=np.zeros(4, np.int32))
    text = MODEL.replace("INIT", f"init: {init}").replace("SEED", str(seed))
    return load(text, folder, target).weights()


FANS = {"conv.weight": (4 * 9, 32 * 9), "wide.weight": (64 * 16, 64)}


@pytest.mark.parametrize(("family", "kind"), diagonal(["glorot", "he", "lecun"], ["uniform", "normal"]))
def test_variances(family: str, kind: str, tmp_path: Path) -> None:
    found = weights(f"{family}_{kind}", tmp_path)
    for name, (fan_in, fan_out) in FANS.items():
        variance = {"glorot": 2 / (fan_in + fan_out), "he": 2 / fan_in, "lecun": 1 / fan_in}[family]
        values = found[name]
        assert values.var() == pytest.approx(variance, rel=0.12), name
        assert abs(values.mean()) < 4 * np.sqrt(variance / values.size)
        largest = np.abs(values).max() / np.sqrt(variance)
        assert largest < np.sqrt(3) * (1 + 1e-6) if kind == "uniform" else largest > 2.5
    assert not found["wide.bias"].any()


def test_numbers(tmp_path: Path) -> None:
    assert (weights("{constant: {value: 1 / 8}}", tmp_path)["wide.weight"] == 0.125).all()
    assert np.abs(weights("{uniform: {bound: 0.3}}", tmp_path)["wide.weight"]).max() == pytest.approx(0.3, rel=1e-3)
    assert weights("normal", tmp_path)["wide.weight"].std() == pytest.approx(0.02, rel=0.02)


def test_truncated_normal(tmp_path: Path) -> None:
    """Of a normal cut off at two deviations the standard deviation is 0.8796 of the one before."""
    values = weights("{truncated_normal: {std: 0.5}}", tmp_path)["wide.weight"]
    assert np.abs(values).max() <= 1.0
    assert np.abs(values).max() > 0.99
    assert values.std() == pytest.approx(0.5 * 0.87962566, rel=0.01)


def test_orthogonal(tmp_path: Path) -> None:
    found = weights("{orthogonal: {gain: 3}}", tmp_path)
    wide, conv = found["wide.weight"].astype(float), found["conv.weight"].reshape(64, -1).astype(float)
    assert np.allclose(wide @ wide.T, 9 * np.eye(64), atol=1e-5)
    assert np.allclose(conv.T @ conv, 9 * np.eye(36), atol=1e-5)


@pytest.mark.parametrize("init", ["he_normal", "orthogonal", "{truncated_normal: {std: 0.1}}"])
def test_targets_and_seeds(init: str, tmp_path: Path) -> None:
    first = weights(init, tmp_path)
    reference = weights(init, tmp_path / "reference", "reference")
    other = weights(init, tmp_path / "other", seed=2)
    for name in FANS:
        assert np.allclose(first[name], reference[name], rtol=1e-5, atol=1e-7)
        assert not np.allclose(first[name], other[name], rtol=0.1)
    assert not np.allclose(first["wide.weight"][:3].ravel()[:100], first["conv.weight"].ravel()[:100])


def test_from_files(tmp_path: Path) -> None:
    """Each layer begins with an array of its weight's shape, in float32, whatever the file's type."""
    rng = np.random.default_rng(4)
    conv, wide = rng.normal(size=(64, 4, 3, 3)), rng.integers(-3, 3, (64, 64 * 16))
    np.savez(tmp_path / "start.npz", conv=conv, wide=wide)
    one, two = ("{values: {file: start.npz, array: " + name + "}}" for name in ("conv", "wide"))
    text = MODEL.replace("SEED", "1").replace("INIT", f"init: {one}", 1).replace("INIT", f"init: {two}", 1)
    np.savez(tmp_path / "samples.npz", images=np.zeros((4, 8, 6, 6)), labels=np.zeros(4, np.int32))
    for target in ("cpu", "reference"):
        found = load(text, tmp_path, target).weights()
        np.testing.assert_array_equal(found["conv.weight"], conv.astype(np.float32))
        np.testing.assert_array_equal(found["wide.weight"], wide)
    np.savez(tmp_path / "start.npz", conv=conv, wide=wide.T)
    with pytest.raises(ModelError, match=r"`wide.weight` has the shape \[64, 1024\], but the array .* \[1024, 64\]"):
        load(text, tmp_path)


def test_scales_begin_as_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "samples.npz", images=np.zeros((4, 8, 6, 6)), labels=np.zeros(4, np.int32))
    text = MODEL.replace("    - flatten", "    - scale_shift: {name: s}\n    - flatten").replace(", INIT", "")
    found = load(text.replace("SEED", "1"), tmp_path).weights()
    assert found["s.weight"].tolist() == [1.0] * 64
    assert found["s.bias"].tolist() == [0.0] * 64
