"""The layer models in models/ run, and meet their own expectations."""

from __future__ import annotations

from pathlib import Path

import pytest

from netloom import run

pytestmark = pytest.mark.usefixtures("cc", "without_plots")

SLOW = [pytest.param(n, marks=pytest.mark.slow) for n in ("mlp", "lenet5", "vgg", "autoencoder", "transformer", "lstm")]


@pytest.mark.parametrize("name", SLOW)  # a starter of the kind of `mlp`: tests/unit/test_cli.py
def test_expectations(tmp_path: Path, root: Path, name: str) -> None:
    result = run(root / "models" / f"{name}.yaml", out=tmp_path / "run", build_dir=tmp_path / "build")
    assert result.checks
    assert all(c.met for c in result.checks), [(c.subject, c.value) for c in result.checks]


@pytest.mark.slow
def test_resnet_learns(tmp_path: Path, root: Path) -> None:
    result = run(root / "models" / "resnet20.yaml", epochs=1, out=tmp_path / "run", build_dir=tmp_path / "build")
    assert result.metrics["accuracy"] > 0.4


@pytest.mark.parametrize("layer", [pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3, 5)] + [4])
def test_layers_of_convnet_benchmarks(tmp_path: Path, root: Path, layer: int) -> None:
    """A batch of 20, four of whose rows have no sample: they count in no sum."""
    path = root / "models" / f"convnet_l{layer}.yaml"
    losses = [
        run(path, set={"batch": batch}, out=tmp_path / f"{batch}", build_dir=tmp_path / "build").metrics["loss"]
        for batch in (16, 20)
    ]
    assert losses[0] > 0
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
