"""Random models: cpu is bitwise equal to the reference; where sums may be in another order, it is near it.

NETLOOM_RANDOM sets the number of models of each slow test. The quick ones compile with little optimization, and share
one build between several spiking models.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from compiler.frontend.load import load_model
from netloom import run
from tests.construct_runs import results
from tests.numeric.trained import load
from tests.property.random_convolutions import convolutions_model
from tests.property.random_graphs import BATCH, SAMPLES, graph_data, graph_model
from tests.property.random_layers import data, layer_model
from tests.property.random_mixed import mixed_data, mixed_model
from tests.property.random_spiking import spiking_model
from tests.property.random_wide_graphs import wide_model

pytestmark = pytest.mark.usefixtures("cc", "without_plots")

MANY = int(os.environ.get("NETLOOM_RANDOM", "2000"))
PARTS = 5
CHUNKS = 20
BOTH = "cpu", "reference"


def spiking(seed: int, folder: Path, parts: int = PARTS, targets: tuple[str, str] = BOTH) -> int:
    """Compare one model on both targets; returns the number of its spikes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.yaml"
    path.write_text(spiking_model(seed, parts))
    model = load_model(path)
    ours, theirs = (results(model, folder, target) for target in targets)
    assert ours.keys() == theirs.keys()
    different = [n for n in ours if not np.array_equal(ours[n], theirs[n], equal_nan=True)]
    assert not different, f"seed {seed}: {different}"
    return sum(len(v) for n, v in ours.items() if n.endswith("'spikes'record"))


def layers(seed: int, folder: Path, mixed: bool = False, targets: tuple[str, str] = BOTH) -> float:
    """Compare one training (`mixed`: on what populations do) on both targets; returns its loss."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.yaml"
    path.write_text(mixed_model(seed) if mixed else layer_model(seed))
    np.savez(folder / "data.npz", **(mixed_data(seed) if mixed else data(seed)))
    found, losses = [], []
    for target in targets:
        result = run(path, target, out=folder / target, build_dir=folder / "build")
        found.append(load_file(result.folder / "weights.safetensors"))
        losses.append(dict(result.metrics))
    assert found[0].keys() == found[1].keys()
    different = [n for n in found[0] if not np.array_equal(found[0][n], found[1][n], equal_nan=True)]
    assert not different and losses[0] == losses[1], f"seed {seed}: {different} {losses}"
    return losses[0]["loss"]


def graph(
    seed: int, folder: Path, target: str, lowered_for: str = "", order: str = "bitwise", wide: bool = False
) -> dict[str, np.ndarray]:
    """What two batches, of which the second is short, have made of the weights of a random graph of layers."""
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "data.npz", **graph_data(seed))
    text = wide_model(seed, order) if wide else graph_model(seed, order)
    trained = load(text, folder, target, lowered_for=lowered_for)
    trained.step(1, range(BATCH))
    trained.step(2, range(BATCH, min(SAMPLES, BATCH + 4)))
    return trained.weights() | trained.statistics()


def graphs(seed: int, folder: Path, *others: tuple[str, str], wide: bool = False) -> None:
    """Compare one graph on `cpu` with (a target, the one it is lowered for)."""
    expected = graph(seed, folder / "cpu", "cpu", wide=wide)
    for target, lowered_for in others:
        found = graph(seed, folder / f"{target}{lowered_for}", target, lowered_for, wide=wide)
        different = [n for n in expected if found[n].tobytes() != expected[n].tobytes()]
        assert not different, f"seed {seed}: {target} {lowered_for} {different}"


def convolutions(seed: int, folder: Path) -> None:
    """Compare what two batches, of which the second may be short, have made of the weights of a network, by the
    strategies of `cpu`, with what they make of them in the definition."""
    folder.mkdir(parents=True, exist_ok=True)
    text, arrays, batch = convolutions_model(seed)
    np.savez(folder / "data.npz", **arrays)
    found = []
    for target in BOTH:
        trained = load(text, folder, target)
        trained.step(1, range(batch))
        trained.step(2, range(batch, batch + max(1, batch - 2)))
        found.append(trained.weights() | trained.statistics())
    tolerance = 1e-9 if "float64" in text else 2e-3
    for name, expected in found[1].items():
        atol = tolerance * (float(np.abs(expected[np.isfinite(expected)]).max(initial=0)) + 1e-3)
        np.testing.assert_allclose(found[0][name], expected, rtol=0, atol=atol, err_msg=f"seed {seed}: {name}")


@pytest.mark.usefixtures("not_optimized")
@pytest.mark.parametrize("seed", range(2))
def test_spiking(seed: int, tmp_path: Path) -> None:
    assert spiking(seed, tmp_path) > 20


@pytest.mark.usefixtures("not_optimized")
@pytest.mark.parametrize("first", range(0, 9, 3))
def test_layers(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 3):
        assert np.isfinite(layers(seed, tmp_path / str(seed)))


@pytest.mark.usefixtures("not_optimized")
def test_mixed(tmp_path: Path) -> None:
    assert np.isfinite(layers(0, tmp_path, mixed=True))


@pytest.mark.usefixtures("not_optimized")
@pytest.mark.parametrize("seed", range(3))
def test_graphs(seed: int, tmp_path: Path) -> None:
    """Lowered for a GPU, too, for which launches are sorted and batched."""
    graphs(seed, tmp_path, ("reference", "cpu"), ("reference", "cuda"))


@pytest.mark.usefixtures("not_optimized")
@pytest.mark.parametrize("seed", range(3))
def test_wide_graphs(seed: int, tmp_path: Path) -> None:
    graphs(seed, tmp_path, ("reference", "cpu"), ("reference", "cuda"), wide=True)


@pytest.mark.usefixtures("not_optimized")
@pytest.mark.parametrize("first", range(0, 6, 3))
def test_convolutions(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 3):
        convolutions(seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_convolutions(chunk: int, tmp_path: Path) -> None:
    for seed in range(6 + chunk, 50 + MANY // 4, CHUNKS):
        convolutions(seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_graphs(chunk: int, tmp_path: Path) -> None:
    for seed in range(3 + chunk, 50 + MANY // 4, CHUNKS):
        graphs(seed, tmp_path / str(seed), ("reference", "cpu"), ("reference", "cuda"))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_wide_graphs(chunk: int, tmp_path: Path) -> None:
    for seed in range(3 + chunk, 50 + MANY // 4, CHUNKS):
        graphs(seed, tmp_path / str(seed), ("reference", "cpu"), ("reference", "cuda"), wide=True)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_spiking(chunk: int, tmp_path: Path) -> None:
    for seed in range(2 + chunk, 100 + MANY // PARTS, CHUNKS):
        spiking(seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_layers(chunk: int, tmp_path: Path) -> None:
    for seed in range(9 + chunk, 100 + MANY, CHUNKS):
        layers(seed, tmp_path / str(seed))


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_mixed(chunk: int, tmp_path: Path) -> None:
    for seed in range(1 + chunk, 50 + MANY // 4, CHUNKS):
        layers(seed, tmp_path / str(seed), mixed=True)
