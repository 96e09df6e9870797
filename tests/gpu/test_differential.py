"""Random models on a GPU: bitwise equal to cpu where they ask for it, and equal but for rounding where they do not.

NETLOOM_RANDOM sets the number of models of each kind (of spiking ones a quarter, as they take longer), NETLOOM_FIRST
the first of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from netloom import run
from tests.property.random_layers import data, layer_model
from tests.property.test_differential import layers, no_plots, spiking

__all__ = ["no_plots"]
pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cc")]

MANY, FIRST = (int(os.environ.get(f"NETLOOM_{name}", default)) for name, default in (("RANDOM", "8"), ("FIRST", "0")))
SEEDS = range(FIRST, FIRST + MANY)
TARGETS = "cpu", "cuda"


@pytest.mark.parametrize("seed", SEEDS[: max(2, MANY // 4)])
def test_spiking(seed: int, tmp_path: Path) -> None:
    spiking(seed, tmp_path, targets=TARGETS)


@pytest.mark.parametrize("seed", SEEDS)
def test_layers(seed: int, tmp_path: Path) -> None:
    assert np.isfinite(layers(seed, tmp_path, targets=TARGETS))


@pytest.mark.parametrize("seed", SEEDS)
def test_mixed(seed: int, tmp_path: Path) -> None:
    assert np.isfinite(layers(seed, tmp_path, mixed=True, targets=TARGETS))


@pytest.mark.parametrize("seed", SEEDS)
def test_layers_in_another_order(seed: int, tmp_path: Path) -> None:
    """As float64 rounds: gradients that are 0 but for rounding make steps of some optimizers that are not small, in
    weights that change no loss."""
    path = tmp_path / "model.yaml"
    path.write_text(layer_model(seed, "fast").replace("precision: float32", "precision: float64"))
    np.savez(tmp_path / "data.npz", **data(seed))
    found = [run(path, target, out=tmp_path / target, build_dir=tmp_path / "build") for target in TARGETS]
    ours, theirs = (dict(x.metrics) for x in found)
    assert ours.keys() == theirs.keys()
    assert all(ours[k] == pytest.approx(theirs[k], rel=1e-8, abs=1e-10) for k in ours), (ours, theirs)
    weights = [load_file(x.folder / "weights.safetensors") for x in found]
    assert weights[0].keys() == weights[1].keys()
