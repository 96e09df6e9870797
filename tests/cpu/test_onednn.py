"""Convolutions by oneDNN: correct in both layouts, taken after measuring alone, and never needed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import netloom
from backends.cpu.backend import CpuBackend
from backends.cpu.run import libraries
from backends.protocol import Instance
from compiler.ir.level0.model import Numerics
from compiler.ir.level2.program import Order
from compiler.ir.space import DType
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import check_lock, tune_model
from compiler.strategies.cpu.onednn import NAME
from compiler.strategies.layout import row_major
from compiler.strategies.permissions import permitted
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import identity, ways
from compiler.tune.measure import Bench, measure
from compiler.tune.only import selected
from compiler.tune.sites import Site
from compiler.tune.wishes import Wishes, parsed
from tests.cpu.contractions import Conv, conv, gradient
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_strategies import Problem
from tests.cpu.test_tune import strategies

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

BACKEND = CpuBackend()
DATA = Path(__file__).parents[2] / "models" / "data" / "digits.npz"


def site(problem: Problem, lanes: int) -> Site:
    """The problem with its choice of the rules, oneDNN and the nest."""
    node, tensors = problem
    used = {n: tensors[n] for n in node.ins}
    digests = (f(node, used, lanes, 4, "reproducible") for f in (problem_digest, structure_digest))
    capabilities = BACKEND.capabilities if lanes else row_major(BACKEND.capabilities)
    found = Site("train/y", node, used, lanes, *digests, ways(node, used, lanes, 4, capabilities.strategies))
    return (
        selected(parsed(f":{NAME}"), [found])[0]
        if any(n.startswith(NAME) for n in map(identity, found.ways))
        else found
    )


def ran(instance: Instance, phase: str, steps: int) -> float:
    return float(instance.run(phase, 1, 1)) * 1e-6


FORWARD = [
    Conv(20, 3, 5, 6, 7, pad=1),
    Conv(16, 4, 6, 9, 9, stride=(2, 2), pad=1, groups=2),
    Conv(33, 17, 18, 12, 11, (5, 3)),
    Conv(3, 5, 9, 10, 11, (2, 3), stride=(2, 1), dilate=2, pad=1),
    Conv(16, 8, 8, 7, 7, groups=8, pad=1),
]
CASES = [conv(c) for c in FORWARD] + [gradient(*conv(c), 0) for c in FORWARD if c.stride == (1, 1)]


@pytest.mark.parametrize("lanes", [16, 0])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_it_computes_the_convolution(number: int, lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exact as float32 allows, against sums in float64 and every element of the nest; with threads of the host."""
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path))
    here = site(CASES[number], lanes)
    names = [n for n in map(identity, here.ways) if n.startswith(NAME)]
    if lanes == 0 and number >= len(FORWARD) and not names:
        return  # the image of a gradient is not its first operand
    (way,) = names
    (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
    assert result.wrong == ()
    assert result.errors[way] < 1e-6


@pytest.mark.parametrize("problem", [gradient(*conv(FORWARD[1]), 0), gradient(*conv(FORWARD[0]), 1)])
def test_it_does_not_match_strided_gradients_or_those_of_weights(problem: Problem) -> None:
    assert not any(identity(w).startswith(NAME) for w in site(problem, 16).ways)


def test_exact_products_refuse_it() -> None:
    for products, may in (("exact", False), ("float32", True), ("bf16", True)):
        assert (NAME in permitted(BACKEND.capabilities, Numerics(products=products)).strategies) is may


@pytest.fixture
def model(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Digits by a convolution, whose lock file names oneDNN."""
    monkeypatch.setenv("NETLOOM_CACHE", str(here / "cache"))
    (here / "digits.npz").write_bytes(DATA.read_bytes())
    text = DIGITS.replace("image: flat", "image: images").replace("shape: [64]", "shape: [1, 8, 8]")
    layers = (
        "- conv2d: {inputs: image, filters: 6, kernel: 3, padding: same, activation: relu}\n"
        "    - conv2d: {filters: 5, kernel: 3}\n    - flatten: {}\n    - dense: {name: hidden"
    )
    path = write(here, text.replace("- dense: {name: hidden, inputs: image", layers))

    def fast(instance: Instance, phase: str, steps: int) -> float:
        kernels = {t.index: t.body for t in instance.program.templates}  # type: ignore[attr-defined]
        (own,) = (p for p in instance.program.phases if p.name == phase)  # type: ignore[attr-defined]
        called = {getattr(kernels[launch.template], "strategy", "") for launch in own.launches}
        return steps * (1e-6 if NAME in called else 9e-6)

    tune_model(path, Options(), 1, timer=fast)
    return path


def test_a_model_that_is_locked_to_it_trains_as_without(model: Path) -> None:
    losses = []
    for lock in (True, False):
        folder = model.parent / str(lock)
        netloom.run(model, epochs=2, lock=lock, out=folder, build_dir=model.parent / "build")
        losses.append(json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["loss"])
    program = prepare(model, Options(), Times()).lowered.merged
    assert strategies(program).count(NAME) >= 2
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    images = np.load(model.parent / "digits.npz")["images"][:5]
    results = [netloom.predict(model.parent / str(k), images, build_dir=model.parent / "build") for k in (True, False)]
    np.testing.assert_allclose(results[0]["logits"], results[1]["logits"], rtol=1e-2, atol=1e-2)


def test_without_the_library_the_rules_choose_and_a_warning_says_so(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "found", lambda: None)
    prepared = prepare(model, Options(), Times())
    assert NAME not in strategies(prepared.lowered.merged)
    (warning,) = prepared.warnings
    assert warning.code == "W0004"
    assert "whose strategy is not one of theirs any more" in warning.message
    assert any("oneDNN" in d.message for d in check_lock(model, Options(), Wishes()))


def test_under_bitwise_there_is_nothing_to_choose(model: Path) -> None:
    assert strategies(prepare(model, Options(order="bitwise"), Times()).lowered.merged) == []
