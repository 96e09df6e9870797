"""Random models on a GPU: bitwise equal to cpu where they ask for it, and equal but for rounding where they do not.

NETLOOM_RANDOM sets the number of models of each kind (of spiking ones a quarter, as they take longer), NETLOOM_FIRST
the first of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from netloom import run
from tests.property.random_layers import data, layer_model
from tests.property.test_differential import graph, graphs, layers, spiking

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("cc", "without_plots")]

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
def test_graphs(seed: int, tmp_path: Path) -> None:
    graphs(seed, tmp_path, ("cuda", ""))


@pytest.mark.parametrize("order", ["reproducible", "fast"])
@pytest.mark.parametrize("seed", SEEDS)
def test_graphs_in_another_order(seed: int, order: str, tmp_path: Path) -> None:
    expected, found = graph(seed, tmp_path / "cpu", "cpu"), graph(seed, tmp_path / "cuda", "cuda", order=order)
    for name, values in expected.items():
        scale = max(float(np.abs(values).max()), 1e-3)
        np.testing.assert_allclose(found[name], values, rtol=0, atol=2e-4 * scale, err_msg=name)


@pytest.mark.parametrize("seed", SEEDS)
def test_layers_in_another_order(seed: int, tmp_path: Path) -> None:
    """As float64 rounds, or as far apart as two orders on the CPU are: a few networks amplify rounding (the sign of a
    mean that is 0, the size of a gradient that is 0 in optimizers that divide by it)."""
    np.savez(tmp_path / "data.npz", **data(seed))

    def metrics(order: str, target: str) -> dict[str, float]:
        path = tmp_path / f"{order}.yaml"
        path.write_text(layer_model(seed, order).replace("precision: float32", "precision: float64"))
        result = run(path, target, out=tmp_path / f"{order}-{target}", build_dir=tmp_path / "build")
        return dict(result.metrics)

    ours, theirs, ordered = metrics("fast", "cuda"), metrics("fast", "cpu"), metrics("bitwise", "cpu")
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        apart = max(1e-10, 1e-8 * abs(value), 10 * abs(value - ordered[name]))
        assert ours[name] == pytest.approx(value, rel=0, abs=apart), name
