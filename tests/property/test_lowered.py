"""Random networks lowered for each target in its own order, run by the interpreter beside the definition: what passes
for a GPU do to a program is looked at without one.

A seed is one network: `differing("alike", 7, tmp_path, "cuda", "mixed")` says what a test of it found. NETLOOM_RANDOM
sets the number of networks of the slow test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from compiler.passes.fusion import fuse_rows
from tests.numeric.trained import Trained, load
from tests.property.random_alike import alike_model
from tests.property.random_convolutions import convolutions_model
from tests.property.random_graphs import BATCH, graph_data, graph_model
from tests.property.random_layers import data, layer_model
from tests.property.random_wide_graphs import wide_model

MANY = int(os.environ.get("NETLOOM_RANDOM", "2000"))
CHUNKS = 20
DEFAULT = "reproducible"
TARGETS = ("cuda", "opencl", "cpu")
TURNED = 60
"""A seed of a network in which a batch_norm is turned."""

Model = tuple[str, dict[str, np.ndarray], int]


def _layers(seed: int) -> Model:
    """Rules that divide by the size of gradients would turn rounding of what is zero into steps, and so would an `l1`
    of biases, which begin at 0: that of keys has no gradient."""
    text = re.sub(r"optimizer: \{.*", "optimizer: {momentum: {learning_rate: 0.05}}", layer_model(seed, DEFAULT))
    text = re.sub(r"l1: \S+, (?=l2: \S+, of: all)", "", text)
    text = re.sub(r"l1(?=: \S+, of: \[biases)", "l2", text)
    found = re.search(r"batch: (\d+)", text)
    assert found is not None
    return text, data(seed), int(found[1])


DRAWN: Mapping[str, Callable[[int], Model]] = {
    "alike": alike_model,
    "convolutions": convolutions_model,
    "graphs": lambda seed: (graph_model(seed, DEFAULT), graph_data(seed), BATCH),
    "wide": lambda seed: (wide_model(seed, DEFAULT), graph_data(seed), BATCH),
    "layers": _layers,
}


PART = {"float64": 1e-8, "float32": 2e-3, "mixed": 0.05}
"""What changes of weights may differ by, of the largest one of a tensor: sums are in another order, and are rounded to
another number, of bf16 too."""
ROUNDING = {"float64": 2e-16, "float32": 1e-7, "mixed": 1e-7}
"""Of weights."""
ZERO = {"float64": 1e-3, "float32": 1e-3, "mixed": 0.05}
"""Of the largest change of all: a change below that may be one of zero, but for rounding."""


def _state(trained: Trained) -> dict[str, np.ndarray]:
    return {n: np.asarray(x, np.float64) for n, x in (trained.weights() | trained.statistics()).items()}


def _changes(model: Model, folder: Path, lowered_for: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """What two batches, of which the second is not full, do to each weight and statistic; and how these began."""
    text, arrays, batch = model
    trained = load(text, folder, "reference", lowered_for=lowered_for)
    begun, samples = _state(trained), len(next(iter(arrays.values())))
    trained.step(1, range(batch))
    trained.step(2, range(batch, min(samples, 2 * batch - 2 if batch > 2 else batch + 1)))
    return {n: x - begun[n] for n, x in _state(trained).items()}, begun


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0))


def differing(drawn: str, seed: int, folder: Path, target: str, precision: str = "") -> list[str]:
    """The weights and statistics that a network lowered for `target` changes in another way than the definition does.
    `precision`: in place of the one that is drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    text, arrays, batch = DRAWN[drawn](seed)
    np.savez(folder / "data.npz", **arrays)

    def changes(lowered_for: str, precision: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        given = re.sub(r"precision: \w+", f"precision: {precision}", text)
        return _changes((given, arrays, batch), folder, lowered_for)

    precision = precision or text.partition("precision: ")[2].partition("}")[0].partition(",")[0]
    found, (expected, begun) = changes(target, precision)[0], changes("", precision)
    floor = ZERO[precision] * max(_largest(x) for x in expected.values())
    rounded = {n: 0.0 for n in expected}
    if precision == "mixed":  # what all the rounding of bf16 does is more than what another order does
        rounded = {n: 2 * _largest(x - expected[n]) for n, x in changes("", "float32")[0].items()}
    apart = []
    for name, x in expected.items():
        weights = 8 * ROUNDING[precision] * _largest(begun[name] + x)
        most = PART[precision] * max(_largest(x), floor) + weights + rounded[name]
        same = np.array_equal(np.isfinite(x), np.isfinite(found[name]))
        if not same or _largest(found[name] - x) > most:
            apart.append(name)
    return apart


QUICK = [
    *product(("alike",), range(8), ("cuda",), ("", "mixed")),
    *product(("convolutions", "graphs", "wide", "layers"), (1, 3), ("cuda",), ("", "mixed")),
    *product(("alike", "convolutions", "graphs", "wide", "layers"), (5, 7), ("opencl", "cpu"), ("",)),
]


@pytest.mark.parametrize(("drawn", "seed", "target", "precision"), QUICK)
def test_lowered(drawn: str, seed: int, target: str, precision: str, tmp_path: Path) -> None:
    assert not differing(drawn, seed, tmp_path, target, precision)


def test_a_pass_that_takes_an_axis_for_another_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that read what other rows have made."""
    assert not differing("alike", TURNED, tmp_path / "right", "cuda")
    monkeypatch.setattr(fuse_rows, "_at_rows", lambda *_: True)
    assert differing("alike", TURNED, tmp_path / "wrong", "cuda")


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("drawn", DRAWN)
def test_many_lowered(drawn: str, target: str, chunk: int, tmp_path: Path) -> None:
    """Each in the precision that is drawn or, every third one, in mixed precision."""
    apart = {}
    for number, seed in enumerate(range(8 + chunk, 8 + MANY // 10, CHUNKS)):
        precision = "mixed" if number % 3 == 2 else ""
        if names := differing(drawn, seed, tmp_path / str(seed), target, precision):
            apart[seed, precision] = names
    assert not apart
