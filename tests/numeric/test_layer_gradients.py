"""Gradients of every layer against central differences of the loss that the same code computes, in float64: along a
random direction of each trained array, on a full batch and on a short one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cpu.test_layers import HEAD, NETS, TAIL, write
from tests.numeric.trained import Trained, load

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")


def loss(trained: Trained, number: int, chosen: range) -> float:
    trained.step(number, chosen)
    return trained.metric("loss") / trained.metric("count")


def check(trained: Trained) -> None:
    rng = np.random.default_rng(5)
    for name in trained.names:
        value = trained.read(name)
        trained.write(name, value + rng.normal(0, 0.3, value.shape))
    begin = trained.weights()

    def restore() -> None:
        for key, value in begin.items():
            trained.write(key, value)

    largest = 0.0
    for number, chosen in ((1, range(6)), (2, range(6, 10))):
        restore()
        loss(trained, number, chosen)
        slopes = {key: begin[key] - value for key, value in trained.weights().items()}
        for key, value in begin.items():
            direction = rng.normal(size=value.shape)
            ends = []
            for sign in (1, -1):
                restore()
                trained.write(key, value + sign * 1e-6 * direction)
                ends.append(loss(trained, number, chosen))
            wanted = (ends[0] - ends[1]) / 2e-6
            found = float((slopes[key] * direction).sum())
            assert found == pytest.approx(wanted, rel=1e-6, abs=2e-8), key
            largest = max(largest, abs(found))
    assert largest > 1e-2


@pytest.mark.parametrize("name", NETS)
def test_layers(tmp_path: Path, name: str) -> None:
    shape, layers = NETS[name]
    write(tmp_path, shape)
    layers = layers.replace("- stop_gradient: {name: still}", "- activation: {name: still, function: tanh}")
    text = HEAD.replace("SHAPE", str(list(shape))) + layers + TAIL
    text = text.replace("{adam: {}}", "{sgd: {learning_rate: 1}}") + "numerics: {precision: float64}\n"
    check(load(text, tmp_path))
