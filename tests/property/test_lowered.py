"""Random networks lowered for each target in its own order, run by the interpreter beside the definition: what passes
for a GPU do to a program is looked at without one.

A seed is one network: `differing("alike", 7, tmp_path, "cuda", "mixed")` says what a test of it found. NETLOOM_RANDOM
sets the number of networks of the slow test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """Rules that divide by the size of gradients would turn rounding of what is zero into steps."""
    text = re.sub(r"optimizer: \{.*", "optimizer: {momentum: {learning_rate: 0.05}}", layer_model(seed, DEFAULT))
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


@dataclass(frozen=True)
class Accuracy:
    """What a change of weights may differ by: a part of the largest one of the tensor, and the rounding of weights."""

    part: float
    rounding: float


ACCURACY = {
    "float64": Accuracy(1e-8, 2e-16),
    "float32": Accuracy(2e-3, 1e-7),
    "mixed": Accuracy(0.1, 1e-7),  # sums of bf16 in another order may be rounded to its next number
}


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


def differing(drawn: str, seed: int, folder: Path, target: str, precision: str = "") -> list[str]:
    """The weights and statistics that a network lowered for `target` changes in another way than the definition does.
    `precision`: in place of the one that is drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    text, arrays, batch = DRAWN[drawn](seed)
    if precision:
        text = re.sub(r"precision: \w+", f"precision: {precision}", text)
    np.savez(folder / "data.npz", **arrays)
    found, _ = _changes((text, arrays, batch), folder, target)
    expected, begun = _changes((text, arrays, batch), folder, "")
    accuracy = ACCURACY[text.partition("precision: ")[2].partition("}")[0].partition(",")[0]]
    largest = {n: float(np.abs(x[np.isfinite(x)]).max(initial=0)) for n, x in expected.items()}
    floor = 1e-3 * max(largest.values())  # gradients that are zero but for rounding
    apart = []
    for name, x in expected.items():
        finite = np.isfinite(x)
        moved = accuracy.rounding * float(np.abs(begun[name] + x)[finite].max(initial=0))
        most = accuracy.part * max(largest[name], floor) + 8 * moved
        same = np.array_equal(finite, np.isfinite(found[name]))
        if not same or float(np.abs(found[name] - x)[finite].max(initial=0)) > most:
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
