"""Measuring strategies on the CPU, with a fake timer; `netloom tune` end to end."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import compiler.tune.measure as module
from backends.cpu.backend import LANES, CpuBackend
from backends.protocol import Instance
from compiler.cli.app import app
from compiler.core.errors import RunError
from compiler.ir.level2.program import Merged, Order
from compiler.ir.space import DType
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import tune_model
from compiler.strategies import pins
from compiler.strategies.pins import problem_digest, structure_digest
from compiler.strategies.variants import identity, text_of, ways
from compiler.tune.measure import Site, Timer, alone, measure
from netloom import build
from tests.cpu.contractions import Conv, conv, dense, gradient
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_sequence_strategies import attention, steps_dense
from tests.cpu.test_strategies import Problem

pytestmark = pytest.mark.usefixtures("cc")

BACKEND = CpuBackend()
DATA = Path(__file__).parents[2] / "models" / "data" / "digits.npz"


def site(problem: Problem, real: DType = DType.F32) -> Site:
    node, tensors = problem
    used = {n: tensors[n] for n in node.ins}
    lanes = LANES * 4 // real.bytes
    digests = (f(node, used, lanes, real.bytes, "reproducible") for f in (problem_digest, structure_digest))
    possible = ways(node, used, lanes, real.bytes, BACKEND.capabilities.strategies)
    return Site("train/y", node, used, lanes, *digests, possible)


def counted(microseconds: Callable[[str], float]) -> tuple[Timer, list[str]]:
    """A timer that says so many microseconds a step for a phase, and the phases that it was asked for."""
    asked: list[str] = []

    def timer(instance: Instance, phase: str, steps: int) -> float:
        asked.append(phase)
        assert instance.run(phase, 1, 1) == 1
        return steps * microseconds(phase) * 1e-6

    return timer, asked


PROBLEMS: list[Problem] = [
    steps_dense(20, (5,), 7, 9),
    gradient(*steps_dense(20, (5,), 7, 9), 1),
    attention(20, 2, 5, 7, 4, False),
    attention(20, 2, 5, 7, 4, True),
]
for _c in (Conv(20, 3, 5, 6, 7, pad=1), Conv(16, 4, 6, 9, 9, stride=(2, 2), pad=1, groups=2)):
    PROBLEMS += [conv(_c), gradient(*conv(_c), 0), gradient(*conv(_c), 1)]


@pytest.mark.parametrize("real", [DType.F32, pytest.param(DType.F64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", range(len(PROBLEMS)))
def test_every_way_gives_the_same_numbers(number: int, real: DType) -> None:
    """Tiles are data: all variants of one strategy share a template, and give the result of the nest."""
    here = site(PROBLEMS[number], real)
    timer, _ = counted(lambda phase: 10.0)
    result = measure(here, real, Order.REPRODUCIBLE, BACKEND, {}, 1, timer)
    assert len(result.microseconds) == len(here.ways) > 4
    assert result.wrong == ()
    program: Merged = alone(here, real, Order.REPRODUCIBLE, BACKEND.capabilities)
    assert len(program.templates) == len({text_of(w) for w in here.ways})


def test_medians_of_rounds_in_turn_are_kept_on_disk() -> None:
    here = site(dense(48, 31, 29))
    times = {f"way{k}": 10.0 + k for k in range(len(here.ways))}
    timer, asked = counted(times.__getitem__)
    first = measure(here, DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 3, timer)
    many = len(here.ways)
    assert asked == [f"way{k}" for k in range(many)] * 4
    assert first.microseconds == {identity(w): 10.0 + k for k, w in enumerate(here.ways)}
    asked.clear()
    assert measure(here, DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 3, timer) == first
    assert asked == []
    measure(here, DType.F32, Order.REPRODUCIBLE, BACKEND, {"portable": "1"}, 3, timer)
    assert asked  # other flags are other times


def test_hopeless_ways_are_measured_once() -> None:
    here = site(dense(47, 31, 29))
    last = f"way{len(here.ways) - 1}"
    timer, asked = counted(lambda phase: 100.0 if phase == last else 10.0)
    measure(here, DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 5, timer)
    assert asked.count(last) == 2
    assert asked.count("way0") == 6


def test_a_wrong_way_is_found() -> None:
    """A missing tile would read out of bounds: it is simulated by a strategy with a wrong result."""
    here = site(dense(20, 33, 10))
    lanes_dense = here.ways[0]
    assert lanes_dense is not None
    half = tuple((n, v // 2 if n == "s_ins" else v) for n, v in lanes_dense.columns)
    wrong = replace(lanes_dense, columns=half)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pins, "ways", lambda *_: (wrong, None))
        timer, _ = counted(lambda phase: 1.0)
        bad = replace(here, ways=(wrong, None), problem=here.problem)
        patch.setattr(module, "_kept", lambda _: None)
        patch.setattr(module, "_keep", lambda *_: None)
        result = measure(bad, DType.F32, Order.REPRODUCIBLE, BACKEND, {}, 1, timer)
    assert result.wrong == (identity(wrong),)


# ------------------------------------------------------------------------------------------- models


@pytest.fixture
def model(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model in a separate folder, isolated from the measurements of other tests."""
    monkeypatch.setattr(module, "cache_folder", lambda: here / "cache")
    (here / "digits.npz").write_bytes(DATA.read_bytes())
    text = DIGITS.replace("image: flat", "image: images").replace("shape: [64]", "shape: [1, 8, 8]")
    return write(
        here,
        text.replace("- dense: {name: hidden, inputs: image", "- flatten: {inputs: image}\n    - dense: {name: hidden"),
    )


def lowered(path: Path, **options: object) -> Merged:
    return prepare(path, Options(**options), Times()).lowered.merged  # type: ignore[arg-type]


def strategies(program: Merged) -> list[str]:
    return [getattr(t.body, "strategy", "") for t in program.templates if getattr(t.body, "strategy", "")]


def nest_first(instance: Instance, phase: str, steps: int) -> float:
    """The last candidate, the nest, is the fastest."""
    last = max(int(p.name.removeprefix("way")) for p in instance.program.phases if p.name.startswith("way"))  # type: ignore[attr-defined]
    return steps * (1e-6 if phase == f"way{last}" else 9e-6)


def test_a_lock_file_decides_and_no_lock_leaves_it_out(model: Path) -> None:
    assert strategies(lowered(model))
    result = tune_model(model, Options(), 1, timer=nest_first)
    assert result.file == model.with_suffix(".lock")
    assert {e["way"] for e in result.summary().values()} == {"nest"}
    assert strategies(lowered(model)) == []
    assert strategies(lowered(model, lock=False))
    assert strategies(lowered(model, order="bitwise")) == []


def test_tiles_from_a_lock_file_change_no_text(model: Path) -> None:
    """Every contraction with another tile: equal text, so nothing is compiled."""
    tune_model(model, Options(), 1, timer=lambda i, phase, steps: steps * (1e-6 if phase == "way4" else 1.2e-6))
    tuned, plain = lowered(model), lowered(model, lock=False)
    assert BACKEND.emit(tuned) == BACKEND.emit(plain)
    tiles = [list(t.scalars["s_tile"]) for t in tuned.tables if "s_tile" in t.scalars]
    assert tiles != [list(t.scalars["s_tile"]) for t in plain.tables if "s_tile" in t.scalars]


def test_stale_entries_are_warned_of_and_not_used(model: Path) -> None:
    tune_model(model, Options(), 1, timer=nest_first)
    prepared = prepare(model, Options(set={"width": "20"}), Times())
    assert [w.code for w in prepared.warnings] == ["W0004"]
    assert "`train/hidden.sum`" in prepared.warnings[0].message
    assert prepared.warnings[0].span is not None
    assert strategies(prepared.lowered.merged) == strategies(lowered(model, lock=False, set={"width": "20"}))
    assert prepare(model, Options(), Times()).warnings == ()


def test_what_cannot_be_tuned_is_refused(model: Path) -> None:
    with pytest.raises(RunError, match="nothing to choose"):
        tune_model(model, Options(order="bitwise"))
    with pytest.raises(RunError, match="one way"):
        tune_model(model, Options(target="reference"))


def test_the_command(model: Path) -> None:
    """tune, explain, build, run: the real timer runs, what it says does not matter."""
    runner = CliRunner()
    done = runner.invoke(app, ["tune", str(model), "--rounds", "1", "--format", "json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["file"] == str(model.with_suffix(".lock"))
    assert "train/logits.weight.grad" in found["contractions"]
    explained = runner.invoke(app, ["explain", str(model), "--details", "all"])
    assert "train: hidden.sum" in explained.stdout
    assert "(model.lock: " in explained.stdout
    assert "model.lock" not in runner.invoke(app, ["explain", str(model), "--details", "all", "--no-lock"]).stdout
    assert runner.invoke(app, ["run", str(model), "--quiet", "--epochs", "1"]).exit_code == 0
    model.with_suffix(".lock").write_text("{")
    broken = runner.invoke(app, ["build", str(model)])
    assert broken.exit_code == 2
    assert runner.invoke(app, ["build", str(model), "--no-lock"]).exit_code == 0
    with pytest.raises(RunError, match="is not JSON"):
        build(model)
    assert not build(model, lock=False).compiled
