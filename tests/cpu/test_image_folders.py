"""Folders of images, one sub-folder for each class: the same training as from arrays, and error cases."""

from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from compiler.core.diagnostics import RunError
from compiler.files.array_files import headers, read_array
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import evaluate_file, predict_file
from netloom import check, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_data import FROM_NPZ, equal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

FOLDER = "    folder: pets\n    inputs: {image: images, label: labels}\n"
MODEL = DIGITS.replace("shape: [64]", "shape: [1, 8, 8]").replace(
    "- dense: {name: hidden, inputs: image,", "- flatten: {inputs: image}\n    - dense: {name: hidden,"
)
assert "flatten" in MODEL


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def pets(here: Path, root: Path) -> tuple[np.ndarray, np.ndarray]:
    """Digits as images in folders of the names of classes, and the same as arrays in the folder's order."""
    with np.load(root / "models" / "data" / "digits.npz") as file:
        x, y = (file["flat"][:200].reshape(-1, 8, 8) * 15).astype(np.uint8), file["labels"][:200]
    names = [f"{chr(ord('j') - c)}_{c}" for c in range(10)]  # their order is not that of the digits
    for k, (image, label) in enumerate(zip(x, y, strict=True)):
        save(here / "pets" / names[label] / f"{k:03d}.png", image)
    (here / "pets" / ".hidden").touch()
    (here / "pets" / "README.txt").touch()
    order = sorted(range(200), key=lambda k: (names[y[k]], k))
    found = (x[order][:, None], np.array([sorted(names).index(names[y[k]]) for k in order]))
    np.savez(here / "pets.npz", images=found[0], labels=found[1])
    return found


def test_arrays(here: Path, pets: tuple[np.ndarray, np.ndarray]) -> None:
    found = headers(here / "pets")
    assert {n: (h.shape, h.dtype) for n, h in found.items()} == {
        "images": ((200, 1, 8, 8), "uint8"),
        "labels": ((200,), "int64"),
    }
    np.testing.assert_array_equal(read_array(here / "pets", "images"), pets[0])
    np.testing.assert_array_equal(read_array(here / "pets", "labels"), pets[1])


def test_headers_are_read_once(
    here: Path, pets: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a file changes."""
    opened = []
    real = Image.open
    monkeypatch.setattr(Image, "open", lambda path: (opened.append(path), real(path))[1])
    first = headers(here / "pets")
    assert len(opened) == 200
    assert headers(here / "pets") == first and len(opened) == 200
    one = next((here / "pets").glob("*_3/*.png"))
    save(one, np.zeros((9, 8), np.uint8))
    with pytest.raises(ValueError, match="9"):
        headers(here / "pets")
    one.unlink()
    assert headers(here / "pets")["images"].shape[0] == 199


def test_colours_and_jpeg(here: Path) -> None:
    pixels = np.zeros((16, 24, 3), np.uint8)
    pixels[..., 0], pixels[:, :12, 2] = 200, 100
    save(here / "c" / "a" / "x.png", pixels)
    Image.fromarray(pixels).save(here / "c" / "a" / "y.JPEG", quality=100, subsampling=0)
    found = read_array(here / "c", "images")
    assert found.shape == (2, 3, 16, 24)
    np.testing.assert_array_equal(found[0], pixels.transpose(2, 0, 1))
    assert np.abs(found[1].astype(int) - found[0]).max() < 8


@pytest.mark.parametrize("memory", ["", "    memory: 0.05 MB\n"])
def test_training(here: Path, pets: tuple[np.ndarray, np.ndarray], memory: str) -> None:
    """The bits of a training on the arrays, in memory or decoded on demand; and the folder as data of a trained net."""
    source = FROM_NPZ.replace("digits.npz", "pets.npz").replace("flat", "images")
    whole = run(write(here, MODEL.replace(FROM_NPZ, source), "arrays.yaml"), epochs=2)
    found = run(write(here, MODEL.replace(FROM_NPZ, FOLDER + memory), "folder.yaml"), epochs=2)
    assert equal(found.weights(), whole.weights())
    options = Options()
    measured = evaluate_file(found.folder, options, here / "pets")
    assert measured.metrics == evaluate_file(found.folder, options, here / "pets.npz").metrics
    scores = predict_file(found.folder, here / "pets", options).outputs["logits"]
    assert float((scores.argmax(1) == pets[1]).mean()) == pytest.approx(measured.metrics["accuracy"], abs=1e-6)


def broken(here: Path, kind: str) -> None:
    first = next((here / "pets").glob("*_0/*.png"))
    if kind == "size":
        save(first, np.zeros((8, 9), np.uint8))
    elif kind == "colour":
        save(first, np.zeros((8, 8, 3), np.uint8))
    elif kind == "mode":
        Image.new("P", (8, 8)).save(first)
    elif kind == "text":
        first.write_text("no image")
    elif kind == "other":
        (first.parent / "notes.txt").touch()
    elif kind == "empty":
        (here / "pets" / "none").mkdir()
    elif kind == "stray":
        save(here / "pets" / "x.png", np.zeros((8, 8), np.uint8))
    elif kind == "flat":
        for place in (here / "pets").iterdir():
            if place.is_dir():
                place.rename(here / place.name)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("size", r"`j_0/\d+.png` is grayscale, 9 x 8, but `a_9/\d+.png` grayscale, 8 x 8"),
        ("colour", r"`j_0/\d+.png` is RGB, 8 x 8, but"),
        ("mode", r"`j_0/\d+.png` has the mode P: images are grayscale \(L\) or RGB"),
        ("text", r"`j_0/\d+.png`: it is no image that Pillow knows"),
        ("other", r"`j_0/notes.txt` is no image \(.png, .jpg, .jpeg\)"),
        ("empty", r"the class `none` has no images"),
        ("stray", r"`x.png` lies in no sub-folder"),
        ("flat", r"it has no sub-folders, one for each class"),
    ],
)
def test_refused(here: Path, pets: tuple[np.ndarray, np.ndarray], kind: str, message: str) -> None:
    broken(here, kind)
    (found,) = check(write(here, MODEL.replace(FROM_NPZ, FOLDER)))
    assert found.code == "E0703" and found.span is not None
    assert re.search("`pets` cannot be read: " + message, found.message), found.message


def test_an_image_that_is_cut_off(here: Path, pets: tuple[np.ndarray, np.ndarray]) -> None:
    """Its header is good: decoding reports it, in memory before the training and else in its first epoch."""
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8), np.uint8)
    first = next((here / "pets").glob("*_0/*.png"))
    save(first, pixels)
    first.write_bytes(first.read_bytes()[:70])
    path = write(here, MODEL.replace(FROM_NPZ, FOLDER + "    memory: 0.05 MB\n"))
    assert check(path) == []
    with pytest.raises(RunError, match=r"the samples cannot be read: `j_0/\d+.png` is broken"):
        run(path)


def test_without_pillow(here: Path, pets: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def no_pillow(name: str, *more: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", no_pillow)
    (found,) = check(write(here, MODEL.replace(FROM_NPZ, FOLDER)))
    assert found.code == "E0703" and "install the extra `images`" in found.message
