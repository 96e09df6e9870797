"""Random augmentation layers: their effect on images, observed through the mean squared loss of a network without
preceding weights; equal draws on cpu and reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.numeric.simulated import Array
from tests.numeric.trained import load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

BATCH, SIZE = 64, 6
MODEL = """\
language: 1
name: augmented
network:
  inputs: {image: {shape: [2, 6, 6]}, target: {shape: [72]}}
  layers:
    - LAYER
    - flatten: {}
    - dense: {name: out, units: 72, bias: false}
train:
  data: {file: samples.npz, inputs: {image: images, target: targets}, shuffle: false}
  loss: {mean_squared_error: {prediction: out, target: target}}
  optimizer: {sgd: {learning_rate: 36}}
  batch: 64
  epochs: 9
  seed: 4
numerics: {precision: float64, order: bitwise}
"""


def seen(layer: str, folder: Path, images: Array, target: str = "cpu", step: int = 1, text: str = MODEL) -> Array:
    """What the dense layer reads in a step. With weights 0 and the loss mean((W x - t)^2) over 72 elements, the
    gradient is -2 / 72 times the mean of t x^T, so at a rate of 36 the new weights are mean(t x^T). Targets are one-hot
    by sample (64 of 72), so row n of the weights is x_n / 64."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "samples.npz", images=images, targets=np.eye(BATCH, 72))
    trained = load(text.replace("LAYER", layer), folder, target)
    trained.write("out.weight", np.zeros((72, 72)))
    trained.step(step, range(BATCH))
    return trained.read("out.weight")[:BATCH].reshape(BATCH, 2, SIZE, SIZE) * BATCH


@pytest.fixture
def images() -> Array:
    return np.random.default_rng(2).normal(size=(BATCH, 2, SIZE, SIZE))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_random_flip(axis: int, tmp_path: Path, images: Array) -> None:
    found = seen(f"random_flip: {{inputs: image, axis: {axis}}}", tmp_path, images)
    flipped = np.flip(images, 1 + axis)
    turned = np.array([np.allclose(f, x) for f, x in zip(found, flipped, strict=True)])
    same = np.array([np.allclose(f, x) for f, x in zip(found, images, strict=True)])
    assert np.all(turned ^ same)
    assert 16 < turned.sum() < 48


def test_random_crop(tmp_path: Path, images: Array) -> None:
    found = seen("random_crop: {inputs: image, padding: 2}", tmp_path, images)
    padded = np.pad(images, ((0, 0), (0, 0), (2, 2), (2, 2)))
    places = []
    for n, image in enumerate(found):
        fits = [
            (a, b)
            for a in range(5)
            for b in range(5)
            if np.allclose(image, padded[n, :, a : a + SIZE, b : b + SIZE], atol=1e-12)
        ]
        assert len(fits) == 1
        places += fits
    down, right = zip(*places, strict=True)
    assert set(down) == set(right) == set(range(5))
    assert len(set(places)) > 12


def test_noise(tmp_path: Path, images: Array) -> None:
    z = (seen("noise: {inputs: image, std: 0.25}", tmp_path, images) - images) / 0.25
    assert abs(z.mean()) < 4 / np.sqrt(z.size)
    assert z.std() == pytest.approx(1, abs=0.04)
    assert (z**4).mean() == pytest.approx(3, abs=0.4)
    again = (seen("noise: {inputs: image, std: 0.25}", tmp_path, images, step=2) - images) / 0.25
    assert abs(np.corrcoef(z.ravel(), again.ravel())[0, 1]) < 0.06


def test_augment_by_sample(tmp_path: Path, images: Array) -> None:
    """A brightness for each image, from a parameter of the model."""
    text = MODEL.replace("name: augmented", "name: augmented\nparams: {low: {value: 0.8}}")
    layer = "augment: {inputs: image, value: x * (low + (1.2 - low) * random()), draws: sample}"
    factors = seen(layer, tmp_path, images, text=text) / images
    np.testing.assert_allclose(factors, factors[:, :1, :1, :1] * np.ones(images.shape), rtol=1e-9)
    each = factors[:, 0, 0, 0]
    assert 0.8 <= each.min() < 0.83 and 1.17 < each.max() < 1.2 and len(set(each.round(9))) == BATCH


def test_augment_by_element(tmp_path: Path, images: Array) -> None:
    """Two draws in one formula are independent; each has its distribution."""
    drawn = (
        seen("augment: {inputs: image, value: x + normal() + (100 if random() < 0.5 else 0)}", tmp_path, images)
        - images
    )
    high = drawn > 50
    z = drawn - 100 * high
    assert high.mean() == pytest.approx(0.5, abs=0.04) and z.std() == pytest.approx(1, abs=0.04)
    assert abs(z.mean()) < 4 / np.sqrt(z.size) and abs(np.corrcoef(z.ravel(), high.ravel())[0, 1]) < 0.06
    waits = seen("augment: {inputs: image, value: exponential()}", tmp_path / "waits", images)
    assert waits.min() >= 0 and waits.mean() == pytest.approx(1, abs=0.05) and waits.std() == pytest.approx(1, abs=0.08)


AUGMENT = "augment: {inputs: first, value: x * random() + 0.1 * normal()}"


@pytest.mark.parametrize("layer", ["random_flip: {inputs: image}", "random_crop: {inputs: image, padding: 1}",
                                   "noise: {inputs: image, std: 0.5}", AUGMENT.replace("first", "image")])  # fmt: skip
def test_targets_agree_bit_for_bit(layer: str, tmp_path: Path, images: Array) -> None:
    a = seen(layer, tmp_path, images)
    b = seen(layer, tmp_path / "reference", images, "reference")
    assert np.array_equal(a, b)


def test_nothing_happens_outside_training(tmp_path: Path, images: Array) -> None:
    """The validation loss of a net with all of them is that of a net with none."""
    layers = "noise: {inputs: image, std: 0.5}\n    - random_flip: {}\n    - random_crop: {padding: 1}\n"
    layers += "    - augment: {value: x + random()}"
    losses = []
    for k, layer in enumerate((layers, "reshape: {inputs: image, shape: [2, 6, 6]}")):
        folder = tmp_path / str(k)
        folder.mkdir()
        np.savez(folder / "samples.npz", images=images, targets=np.eye(BATCH, 72))
        text = MODEL.replace("LAYER", layer).replace("shuffle: false", "split: {validation: 0.5}")
        trained = load(text, folder)
        trained.step(1, range(32), "eval")
        losses.append(trained.metric("loss"))
    assert losses[0] == losses[1] > 0


@pytest.mark.parametrize("layer", ["random_flip: {inputs: first}", "random_crop: {inputs: first, padding: 1}",
                                   "noise: {inputs: first, std: 0.5}", AUGMENT])  # fmt: skip
def test_gradients_pass_through(layer: str, tmp_path: Path, images: Array) -> None:
    """A convolution before the layer learns: central differences of the loss in one of its weights."""
    np.savez(tmp_path / "samples.npz", images=images, targets=np.eye(BATCH, 72))
    first = "conv2d: {name: first, inputs: image, filters: 2, kernel: 1, bias: false}\n    - "
    trained = load(MODEL.replace("LAYER", first + layer).replace("36", "1"), tmp_path)
    w, rest = trained.read("first.weight"), trained.read("out.weight")

    def loss(at: Array) -> float:
        trained.write("first.weight", at)
        trained.write("out.weight", rest)
        trained.metric("loss"), trained.metric("count")
        trained.step(1, range(BATCH))
        return trained.metric("loss") / trained.metric("count")

    loss(w)
    gradient = w - trained.read("first.weight")
    for index in np.ndindex(2, 2, 1, 1):
        off = np.zeros_like(w)
        off[index] = 1e-5
        assert (loss(w + off) - loss(w - off)) / 2e-5 == pytest.approx(gradient[index], rel=1e-5, abs=1e-9)
