"""Convolutions by strategies of another direction: equal sums, in both layouts, and a model that is locked to them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import netloom
from backends.cpu.backend import CpuBackend
from backends.protocol import Instance
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Order
from compiler.ir.space import DType
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import tune_model
from compiler.strategies import choose, exchange
from compiler.strategies.layout import row_major
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import ways
from compiler.tune.measure import Bench, measure
from compiler.tune.sites import Site, workspace_of
from compiler.tune.wishes import Wishes, parsed
from tests.cpu.contractions import Conv, conv, gradient
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_strategies import Problem
from tests.grids import slow

pytestmark = pytest.mark.usefixtures("cc", "not_optimized", "without_plots")

BACKEND = CpuBackend()
MODELS = Path(__file__).parents[2] / "models"
DATA = MODELS / "data" / "digits.npz"
PLAIN = Conv(32, 16, 16, 8, 8, (5, 5), stride=(2, 2), pad=2)
WIDE = Conv(16, 16, 8, 8, 9, dilate=2, pad=1)
STRIDED = Conv(5, 24, 40, 9, 8, (1, 1), stride=(2, 3))
GROUPS = Conv(16, 32, 6, 9, 9, stride=(2, 1), pad=1, groups=2)
LARGE = Conv(16, 16, 16, 24, 24, (3, 5))
SIGNAL = Conv(3, 10, 12, 1, 100, (1, 5), stride=(1, 2), pad=2)


def site(problem: Problem, lanes: int) -> Site:
    """The problem with the nest and its exchanges alone."""
    node, tensors = problem
    used = {n: tensors[n] for n in node.ins}
    digests = (f(node, used, lanes, 4, "reproducible") for f in (problem_digest, structure_digest))
    own = BACKEND.capabilities if lanes else row_major(BACKEND.capabilities)
    found = ways(node, used, lanes, 4, own.strategies, own.device)
    return Site("train/y", node, used, lanes, *digests, (*(w for w in found if w is not None and w.exchange), None))


def ran(instance: Instance, phase: str, steps: int) -> float:
    return float(instance.run(phase, 1, 1)) * 1e-6


CASES = [
    (conv(PLAIN), 16, "exchanged_lanes_conv_weight_gradient"),
    (gradient(*conv(LARGE), 0), 16, "exchanged_lanes_conv_weight_gradient"),
    (gradient(*conv(replace(PLAIN, stride=(1, 1))), 0), 0, "turned_rows_conv"),
    (gradient(*conv(Conv(16, 16, 6, 9, 9, pad=1)), 0), 0, "turned_winograd_rows"),
    (gradient(*conv(PLAIN), 1), 16, "exchanged_lanes_conv"),
    (gradient(*conv(LARGE), 1), 16, "exchanged_lanes_conv"),
    (gradient(*conv(WIDE), 0), 0, "turned_rows_conv"),
    (gradient(*conv(WIDE), 1), 16, "exchanged_lanes_conv"),
    (gradient(*conv(WIDE), 1), 0, "exchanged_onednn_conv"),
    (gradient(*conv(GROUPS), 0), 0, "turned_winograd_rows"),
    (gradient(*conv(STRIDED), 0), 0, "spread_rows_conv"),
    (gradient(*conv(STRIDED), 0), 0, "spread_rows_product"),
    (gradient(*conv(replace(STRIDED, batch=20)), 0), 16, "spread_lanes_product"),
    (gradient(*conv(replace(STRIDED, pad=2, groups=2)), 0), 0, "spread_rows_conv"),
    (gradient(*conv(replace(STRIDED, batch=1, stride=(1, 3))), 0), 0, "spread_rows_conv"),
    (gradient(*conv(PLAIN), 0), 16, "turned_onednn_conv"),
    (gradient(*conv(GROUPS), 1), 16, "exchanged_lanes_conv"),
    (gradient(*conv(GROUPS), 1), 0, "exchanged_onednn_conv"),
    (conv(replace(PLAIN, batch=5)), 0, "bordered_rows_product"),
    (gradient(*conv(replace(PLAIN, batch=5)), 1), 0, "bordered_rows_product"),
    (gradient(*conv(replace(PLAIN, batch=5, stride=(1, 1), pad=1)), 0), 0, "bordered_rows_product"),
    (gradient(*conv(GROUPS), 1), 0, "bordered_rows_product"),
    (gradient(*conv(replace(WIDE, batch=3)), 1), 0, "bordered_rows_product"),
    (conv(SIGNAL), 0, "bordered_rows_product"),
    (gradient(*conv(replace(SIGNAL, stride=(1, 1))), 0), 0, "bordered_rows_product"),
    (gradient(*conv(SIGNAL), 1), 0, "bordered_rows_product"),
]


FIRST = {name: number for number, (_, _, name) in reversed(list(enumerate(CASES)))}
"""Of each strategy."""


@pytest.mark.parametrize("number", [n if n in FIRST.values() else slow(n)[0] for n in range(len(CASES))])
def test_exchanges_have_the_same_sums(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path))
    problem, lanes, name = CASES[number]
    here = site(problem, lanes)
    assert name in {w.strategy for w in here.ways if w is not None}
    (result,) = measure([here], Bench(DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, ran, BACKEND.capabilities))
    assert result.wrong == ()
    assert all(error < 2e-6 for error in result.errors.values())
    assert all(workspace_of(w) > 0 for w in here.ways[:-1])


def test_rules_take_them_where_rows_have_nothing_else() -> None:
    """Gradients of row-major images, in place of a nest; where the batch is in the lanes, and in small ones, they do
    not, but for large images that are seen in steps."""
    rows = row_major(BACKEND.capabilities).strategies
    for operand, name in ((0, "turned_winograd_rows"), (1, "bordered_rows_product")):
        node, tensors = gradient(*conv(Conv(4, 64, 64, 16, 16, pad=1)), operand)
        found, reason = choose(node, tensors, 0, 4, rows, BACKEND.capabilities.device)
        assert found is not None
        assert found.strategy == name
        assert reason.startswith("as an equivalent convolution, about ")
        lanes = choose(node, tensors, 16, 4, BACKEND.capabilities.strategies, BACKEND.capabilities.device)[0]
        assert lanes is not None and lanes.exchange is None
    steps, tensors = gradient(*conv(STRIDED), 0)
    found, _ = choose(steps, tensors, 0, 4, rows, BACKEND.capabilities.device)
    assert found is not None and found.strategy == "spread_rows_conv"
    own = BACKEND.capabilities
    for size, name in ((56, "spread_lanes_product"), (8, "lanes_conv")):
        steps, tensors = gradient(*conv(Conv(16, 64, 128, size, size, (1, 1), stride=(2, 2))), 0)
        found, _ = choose(steps, tensors, 16, 4, own.strategies, own.device)
        assert found is not None and found.strategy == name
    tiny, tensors = gradient(*conv(Conv(1, 1, 2, 3, 3, pad=1)), 0)
    assert choose(tiny, tensors, 0, 4, rows, BACKEND.capabilities.device)[0] is None


def test_rules_take_what_is_faster_than_packed_panels() -> None:
    """Few filters leave panels almost empty; windows of more are read where they lie."""
    rows = row_major(BACKEND.capabilities).strategies
    for c, name in (
        (Conv(4, 3, 2, 32, 32, (5, 5)), "rows_conv_weight_gradient"),
        (Conv(4, 6, 16, 12, 12, (5, 5)), "rows_product"),
        (Conv(4, 6, 16, 12, 12, (1, 1)), "rows_conv_weight_gradient"),
    ):
        node, tensors = gradient(*conv(c), 1)
        found, reason = choose(node, tensors, 0, 4, rows, BACKEND.capabilities.device)
        assert found is not None
        assert found.strategy == name
        assert name == "rows_product" or "rows_product: about " in reason


def test_random_numbers_for_empty_lanes_count() -> None:
    """In a small batch of a network with dropout."""
    model = load_model(MODELS / "mlp.yaml", {})
    assert model.train is not None
    lowered = lower(replace(model, train=replace(model.train, batch=4)), BACKEND.capabilities)
    assert not any(a.layout is not None for a in lowered.program.arrays)


def test_small_batches_of_images_are_row_major() -> None:
    """Whose gradients have strategies so."""
    model = load_model(MODELS / "resnet20.yaml", {})
    assert model.train is not None
    for batch, wide in ((4, False), (32, True)):
        lowered = lower(replace(model, train=replace(model.train, batch=batch)), BACKEND.capabilities)
        assert any(a.layout is not None for a in lowered.program.arrays) is wide


def test_lanes_that_would_be_empty_are_not_filled() -> None:
    """20 samples, or 3 channels, would leave lanes empty."""
    for c in (Conv(20, 16, 16, 8, 8, pad=1), Conv(16, 3, 16, 8, 8, pad=1)):
        found = site(gradient(*conv(c), 1), 16).ways
        assert not any(w is not None and w.strategy.startswith("exchanged") for w in found)


def test_a_model_that_is_locked_to_exchanges_trains_as_without(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETLOOM_CACHE", str(here / "cache"))
    monkeypatch.setattr(exchange, "HOPELESS", 100.0)
    (here / "digits.npz").write_bytes(DATA.read_bytes())
    text = DIGITS.replace("image: flat", "image: images").replace("shape: [64]", "shape: [1, 8, 8]")
    text = text.replace("batch: 50", "batch: 48")
    layers = (
        "- conv2d: {inputs: image, filters: 16, kernel: 3, padding: same, activation: relu}\n"
        "    - conv2d: {name: second, filters: 16, kernel: 3, stride: 2, activation: relu}\n"
        "    - flatten: {}\n    - dense: {name: hidden"
    )
    model = write(here, text.replace("- dense: {name: hidden, inputs: image", layers))

    def exchanged(instance: Instance, phase: str, steps: int) -> float:
        """More kernels are faster."""
        (own,) = (p for p in instance.program.phases if p.name == phase)  # type: ignore[attr-defined]
        return steps * 1e-6 / len(own.launches)

    result = tune_model(model, Options(), timer=exchanged, wishes=Wishes(1, parsed("second:exchanged,turned")))
    chosen = {t.path: t.way for t in result.contractions}
    assert {"train/second.weight.grad", "train/second.sum"} <= set(chosen)
    assert all(way.startswith(("exchanged_", "turned_")) for way in chosen.values()), chosen
    losses = []
    for lock in (True, False):
        folder = here / str(lock)
        netloom.run(model, epochs=2, lock=lock, out=folder, build_dir=here / "build")
        losses.append(json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    prepared = prepare(model, Options(), Times())
    assert prepared.warnings == ()
    ways_of = {d.subject: d.verdict for d in prepared.lowered.decisions if d.pass_name == "choose_strategies"}
    assert ways_of["train: second.weight.grad"] == chosen["train/second.weight.grad"].split()[0]
