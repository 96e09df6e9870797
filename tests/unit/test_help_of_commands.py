"""Help with the command line and with sample files: targets, files, settings, arrays.

The help about an array is followed here, and the array is valid then.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from backends.protocol import BackendError
from backends.registry import backend
from compiler.core.diagnostics import ModelError, did_you_mean
from compiler.files.sample_help import sample_help
from compiler.frontend.load import load_model

Array = npt.NDArray[np.generic]


@pytest.mark.parametrize(("name", "help"), [("gpu", "write `cuda`"), ("numpy", "write `reference`"), ("cpuu", "`cpu`")])
def test_targets_of_other_names(name: str, help: str) -> None:
    with pytest.raises(BackendError) as caught:
        backend(name)
    assert help in (caught.value.help or "")


def test_a_file_beside(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text("language: 1\n", encoding="utf-8")
    for path, help in ((tmp_path / "modle.yaml", "did you mean `"), (tmp_path / "no" / "m.yaml", "there is no folder")):
        with pytest.raises(ModelError) as caught:
            load_model(path)
        assert help in (caught.value.diagnostics[0].help or "")
    with pytest.raises(ModelError) as caught:
        load_model(tmp_path / "modle.yaml", shown="here/modle.yaml")
    assert caught.value.diagnostics[0].help == "did you mean `here/model.yaml`?"


IMAGES = np.zeros((7, 3, 8, 9), np.float32)
LABELS = np.arange(7) % 3


@pytest.mark.parametrize(
    ("array", "wanted", "whole", "done"),
    [
        (np.moveaxis(IMAGES, 1, -1), (3, 8, 9), False, "numpy.moveaxis(array, -1, 1)"),
        (IMAGES[0], (3, 8, 9), False, "array[None]"),
        (IMAGES.reshape(7, -1), (3, 8, 9), False, "array.reshape(-1, 3, 8, 9)"),
        (np.eye(3)[LABELS], (), True, "labels.argmax(axis=1)"),
        (LABELS.astype(float), (), True, 'array.astype("int32")'),
        (np.array(["ant", "bee", "cat"])[LABELS], (), True, "numpy.unique(labels, return_inverse=True)[1]"),
    ],
)
def test_what_is_said_makes_samples_fit(array: Array, wanted: tuple[int, ...], whole: bool, done: str) -> None:
    help = sample_help("x", wanted, whole, array.shape, array.dtype.kind, fixed=True)
    assert help is not None and f"`{done}`" in help
    fitting = eval(done, {"numpy": np, "array": array, "labels": array})
    assert fitting.shape[1:] == wanted
    assert not whole or fitting.dtype.kind in "iu"
    assert sample_help("x", wanted, whole, fitting.shape, fitting.dtype.kind, fixed=True) is None


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("MaxPool2D", ("max_pool2d", "avg_pool2d"), "`max_pool2d`"),
        ("all-to-all", ("all_to_all", "one_to_one"), "`all_to_all`"),
        ("stdp", ("static", "stdp_additive", "stdp_nearest"), "`stdp_additive` or `stdp_nearest`"),
        ("exp_euler", ("exponential_euler", "euler"), "`exponential_euler`"),
        ("acc", ("accuracy", "recall"), "`accuracy`"),
        ("POPULATION", ("populations", "projections"), "`populations`"),
        ("tau", ("tau_m", "tau_e", "v"), "`tau_m` or `tau_e`"),
    ],
)
def test_what_was_meant(word: str, known: tuple[str, ...], meant: str) -> None:
    assert did_you_mean(word, known) == f"did you mean {meant}?"
    assert did_you_mean(word, ("zzz",)) is None


@pytest.mark.parametrize("wanted", [(), (4,), (3, 8), (3, 8, 9)])
@pytest.mark.parametrize("shape", [(), (7,), (7, 4), (7, 8, 3), (7, 9, 3, 8), (7, 3, 8, 9)])
@pytest.mark.parametrize("fixed", [False, True])
def test_any_two_shapes_have_a_help_or_none(shape: tuple[int, ...], wanted: tuple[int, ...], fixed: bool) -> None:
    for kind in "fiuU":
        help = sample_help("x", wanted, False, shape, kind, fixed=fixed)
        assert help is None or "`" in help
