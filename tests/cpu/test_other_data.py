"""Trained networks with other sample files; the training files may be absent."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError, RunError
from netloom import evaluate, predict, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_data import FROM_NPZ, OWN, write_csv, write_idx

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")


STOP = "train:\n  stop: {metric: validation_loss, patience: 9}\n"


@pytest.fixture
def samples(here: Path, root: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(root / "models" / "data" / "digits.npz") as file:
        x, y = file["flat"][:120], file["labels"][:120]
    np.savez(here / "digits.npz", flat=x, labels=y)
    return x, y


def trained(here: Path, source: str = FROM_NPZ) -> Path:
    return run(write(here, DIGITS.replace(FROM_NPZ, source).replace("train:\n", STOP)), epochs=1).folder


def test_without_the_data_of_the_training(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    folder = trained(here)
    np.savez(here / "other.npz", flat=samples[0][:50], labels=samples[1][:50])
    before = predict(folder, here / "other.npz"), evaluate(folder, here / "other.npz")
    shutil.move(here / "digits.npz", here / "gone")
    (here / "model.yaml").unlink()
    np.testing.assert_array_equal(predict(folder, here / "other.npz")["logits"], before[0]["logits"])
    assert evaluate(folder, here / "other.npz") == before[1]
    with pytest.raises(ModelError, match=r"`digits.npz` does not exist"):
        evaluate(folder)


def test_weights_of_the_model_may_be_gone_too(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    first = trained(here)
    shutil.copy(first / "weights.safetensors", here / "start.safetensors")
    np.save(here / "logits.npy", np.ones((10, 12)))
    text = DIGITS.replace("network:\n", "network:\n  weights: start.safetensors\n")
    text = text.replace("name: logits,", "name: logits, init: {values: {file: logits.npy}},")
    second = run(write(here, text, "second.yaml"), epochs=1).folder
    (here / "start.safetensors").unlink()
    (here / "logits.npy").unlink()
    assert predict(second, samples[0])["logits"].shape == (120, 10)


@pytest.mark.parametrize("own", [False, True])
def test_columns(here: Path, samples: tuple[np.ndarray, np.ndarray], own: bool) -> None:
    """A network of columns measures and computes another table with the same columns, and arrays."""
    columns = write_csv(here, samples)
    source = f"    file: t.csv\n    inputs: {{image: {{columns: [{columns}]}}, label: digit}}\n"
    if own:
        source = f"    inputs: {{image: {{file: t.csv, columns: [{columns}]}}, label: {{file: t.csv, array: digit}}}}\n"
    folder = trained(here, source)
    (here / "t.csv").unlink()
    x, y = samples[0][30:90], samples[1][30:90]
    np.savez(here / "other.npz", image=x, label=y)
    expected = evaluate(folder, here / "other.npz")
    logits = predict(folder, here / "other.npz")["logits"]
    write_csv(here, (x, y))
    assert evaluate(folder, here / "t.csv") == expected
    np.testing.assert_array_equal(predict(folder, here / "t.csv")["logits"], logits)
    text = (here / "t.csv").read_text()
    (here / "t.csv").write_text(text.replace("p17", "q17", 1))
    with pytest.raises(RunError, match="no column `p17`, of which the input `image` is made"):
        evaluate(folder, here / "t.csv")


def test_files_of_their_own(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    write_idx(here / "x.idx", samples[0], 0x0D, ">f4")
    write_idx(here / "y.idx", samples[1], 0x08, ">u1")
    folder = trained(here, OWN.replace("IMAGE", "x.idx").replace("LABEL", "y.idx"))
    np.savez(here / "other.npz", image=samples[0], label=samples[1])
    (here / "x.idx").rename(here / "z.idx")
    logits = predict(folder, here / "other.npz")["logits"]
    np.testing.assert_array_equal(predict(folder, here / "z.idx")["logits"], logits)
    assert evaluate(folder, here / "other.npz")["accuracy"] == pytest.approx((logits.argmax(1) == samples[1]).mean())
    with pytest.raises(RunError, match="holds one array, but the network has 2 inputs"):
        evaluate(folder, here / "z.idx")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"flat": np.zeros((3, 5)), "labels": np.zeros(3, int)},
            r"samples of shape \[64\], but the array in .* \[3, 5\]",
        ),
        ({"flat": np.zeros((3, 64)), "labels": np.zeros(3)}, "`label` needs whole numbers"),
        ({"flat": np.zeros((3, 64)), "labels": np.zeros(2, int)}, "different numbers of samples: 3 of `image`, 2"),
        ({"flat": np.zeros((0, 64)), "labels": np.zeros(0, int)}, "holds no samples"),
        ({"flat": np.zeros((3, 64)), "label_": np.zeros(3, int)}, "no array `labels` for the input `label`"),
    ],
)
def test_refused(
    here: Path, samples: tuple[np.ndarray, np.ndarray], arrays: dict[str, np.ndarray], message: str
) -> None:
    folder = trained(here)
    np.savez(here / "other.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(RunError, match=message) as caught:
        evaluate(folder, here / "other.npz")
    assert caught.value.code == "E0917"
