"""Inference on a GPU: the outputs are those of the CPU; what is of weights alone is computed before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from netloom import predict
from tests.cpu.networks_for_use import samples, write_network

pytestmark = pytest.mark.gpu

IMAGES = "{image: {shape: [3, 20, 20]}}"
LAYERS = """
conv2d: {filters: 32, kernel: 5, stride: 2, padding: 2, bias: false}
batch_norm: {}
activation: {function: relu}
max_pool2d: {size: 3, stride: 2, padding: 1}
conv2d: {filters: 64, kernel: 3, padding: same}
activation: {name: seen, function: relu}
conv2d: {filters: 64, kernel: 1}
batch_norm: {name: last}
add: {inputs: [seen, last]}
global_avg_pool: {}
dense: {name: logits, units: 10}
"""


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize(("precision", "close"), [("float32", 1e-5), ("mixed", 2e-2)])
def test_a_network_predicts_what_it_does_on_the_cpu(tmp_path: Path, batch: int, precision: str, close: float) -> None:
    path = write_network(tmp_path, IMAGES, LAYERS)
    x = samples(path, 9)
    build = tmp_path / "build"
    found, expected = (
        predict(path, x, target=t, batch=batch, precision=p, build_dir=build / t)["logits"].astype(np.float64)
        for t, p in (("cuda", precision), ("cpu", "float32"))
    )
    assert np.linalg.norm(found - expected) < close * np.linalg.norm(expected)


def test_norms_that_are_not_folded_are_prepared(tmp_path: Path) -> None:
    path = write_network(tmp_path, IMAGES, LAYERS)
    x = samples(path, 3)
    found, expected = (
        predict(path, x, target=t, order="bitwise", precision="float32", build_dir=tmp_path / t)["logits"]
        for t in ("cuda", "cpu")
    )
    assert found.tobytes() == expected.tobytes()
