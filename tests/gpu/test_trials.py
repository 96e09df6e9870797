"""Trainings whose samples are trials of populations, on a GPU: under `bitwise` what the network reads and the weights
are those of the CPU, bit for bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from netloom import evaluate, predict, run
from tests.cpu.test_run_training import rows
from tests.cpu.test_trials import COUNTING, LAYERS, NOISY, POISSON, SAMPLES, data_of, expected, write

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_the_network_reads(here: Path) -> None:
    data = data_of(here)
    result = run(write(here, COUNTING), "cuda")
    found = predict(result.folder, {n: data[n] for n in ("image", "frames")}, "cuda", layers=LAYERS)
    assert len(found["f_all"]) == SAMPLES
    for name, values in expected(data).items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


@pytest.mark.parametrize("noise", ["", POISSON])
def test_training_has_the_bits_of_the_cpu(here: Path, root: Path, noise: str) -> None:
    shutil.copy(root / "models" / "data" / "digits.npz", here)
    path = write(here, NOISY.replace("NOISE", noise))
    cpu, cuda = run(path, "cpu", out="cpu"), run(path, "cuda", out="cuda")
    assert rows(cpu) == rows(cuda)
    assert all(np.array_equal(v, cuda.weights()[n]) for n, v in cpu.weights().items())
    assert evaluate(cuda.folder, target="cuda") == evaluate(cpu.folder)
    digits = np.load(here / "digits.npz")["flat"][:50].astype(np.float32)
    ours, theirs = (predict(cpu.folder, digits, t, layers="features")["features"] for t in ("cpu", "cuda"))
    np.testing.assert_array_equal(ours, theirs)


def test_the_reservoir_reads_digits(here: Path, root: Path) -> None:
    result = run(root / "models" / "reservoir.yaml", "cuda")
    assert result.metrics["validation_accuracy"] >= 0.95
