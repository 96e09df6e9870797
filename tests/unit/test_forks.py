"""Ways of attention and of recurrent layers: pinned by a lock file, measured by whole steps, without a GPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import compiler.runtime.tuning as module
from backends.cuda.run.backend import CudaBackend
from compiler.cli.app import app
from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from compiler.runtime.tuning import check_lock, tune_model
from compiler.strategies.forks import Fork
from compiler.strategies.pins import Pin
from compiler.tune.forks import settle
from compiler.tune.report import fork_rows
from compiler.tune.result import TuneResult
from compiler.tune.wishes import Wishes, parsed
from tests.unit.test_attention import kernels, model

MODELS = Path(__file__).parents[2] / "models"
SM_90 = CudaBackend(arch="sm_90").capabilities


def forks(*paths: str) -> tuple[Fork, ...]:
    return tuple(Fork(p, p.rpartition("/")[2][:1], ("rule", "other")) for p in paths)


@pytest.mark.parametrize(
    ("before", "other", "way"),
    [
        ("rule", 0.97, "other"),
        ("rule", 0.99, "rule"),
        ("rule", 1.1, "rule"),
        ("other", 1.01, "other"),
        ("other", 1.03, "rule"),
    ],
)
def test_the_rule_stays_unless_another_way_is_faster_beyond_chance(before: str, other: float, way: str) -> None:
    (found,) = settle(forks("train/a"), {"train/a": before}, lambda phase, first, second: (1e-3, other * 1e-3))
    assert (found.way, found.microseconds["rule"], found.microseconds["other"]) == (
        way,
        1000.0,
        pytest.approx(1000 * other),
    )


def test_places_of_one_problem_go_the_same_way_and_later_ones_are_measured_with_it() -> None:
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = []

    def race(phase: str, first: Any, second: Any) -> tuple[float, float]:
        asked.append((phase, dict(first), dict(second)))
        return 1.0, 0.5

    found = settle(forks("train/a1", "eval/b", "train/a2"), {}, race)
    assert [f.way for f in found] == ["other"] * 3
    both = {"train/a1": "other", "train/a2": "other"}
    assert asked[0] == ("train", {p: "rule" for p in both}, both)
    assert asked[1] == ("eval", {**both, "eval/b": "rule"}, {**both, "eval/b": "other"})
    assert [(r.path, r.way, r.mark) for r in fork_rows(found)][:2] == [
        ("eval/b", "other", "chosen"),
        ("eval/b", "rule", "rule"),
    ]


def test_what_the_budget_leaves_is_not_settled() -> None:
    turns = iter([True, False])
    found = settle(forks("train/a", "train/b"), {}, lambda *_: (1.0, 0.5), lambda: next(turns))
    assert [f.path for f in found] == ["train/a"]


def test_attention_goes_as_it_is_pinned(tmp_path: Path) -> None:
    asked = model(tmp_path, numerics="products: tf32")
    plain = lower(asked, SM_90, True)
    (fork,) = (f for f in plain.forks if f.path == "train/a")
    assert fork.ways == ("fused_attention_tf32", "fused_attention_float32", "contractions")
    for way, parts in (("contractions", 2), ("fused_attention_float32", 3), ("nothing", 2)):
        pins = {f.path: Pin(f.problem, way, "model.lock", 5.0) for f in plain.forks if f.path == "train/a"}
        pinned = lower(asked, SM_90, True, pins)
        trained = [k for k in kernels(pinned) if "query" in k.of]
        assert [k.factors for k in trained] == ([] if way == "contractions" else [parts])
        told = next(d for d in pinned.decisions if d.subject == "train: a")
        assert ("model.lock" in told.reason) is (way != "nothing")
    stale = {"train/a": Pin("another", "contractions", "model.lock", 5.0)}
    assert len(kernels(lower(asked, SM_90, True, stale))) == len(kernels(plain))


def test_chains_go_as_they_are_pinned() -> None:
    asked = load_model(MODELS / "lstm.yaml", {})
    plain = lower(asked, SM_90, True)
    paths = [f.path for f in plain.forks]
    assert paths == sorted(set(paths), key=paths.index)
    assert "train/lstm_1.last.chain" in paths and "train/lstm_1.input.biased.grad.chain" in paths
    pins = {f.path: Pin(f.problem, f.ways[1], "model.lock", 5.0) for f in plain.forks}
    turned = lower(asked, SM_90, True, pins)
    pays = [[c.pays for p in x.merged.phases for c in p.loops] for x in (plain, turned)]
    assert not any(p.chains for p in turned.merged.phases)  # what is not chained stays a loop
    assert pays[0] and all(pays[0]) and pays[1] and not any(pays[1])
    assert [f.ways for f in turned.forks] == [f.ways for f in plain.forks]


@dataclass(frozen=True)
class Fake(CudaBackend):
    """A GPU on which a chain takes 3 us, and a step 10 us without."""

    def compile(self, program: Merged, options: Any) -> Any:
        return None

    def load(self, artifact: Any, program: Merged, seed: int) -> Any:
        return Step(program)


@dataclass(frozen=True)
class Step:
    program: Merged

    def close(self) -> None:
        pass


def timed(instance: Any, phase: str, steps: int) -> float:
    (own,) = (p for p in instance.program.phases if p.name == phase)
    return steps * 1e-6 * (10 + 3 * sum(c.pays for c in own.chains))


@pytest.fixture
def lstm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("NETLOOM_CACHE", str(tmp_path / "cache"))
    shutil.copytree(MODELS / "data", tmp_path / "data")
    shutil.copy(MODELS / "lstm.yaml", tmp_path)
    monkeypatch.setattr(module, "backend_of", lambda *_: Fake(arch="sm_90"))
    monkeypatch.setattr(module, "made_with", lambda _: "a compiler")
    monkeypatch.setattr(module, "kept_at", lambda _, __, what: tmp_path / "cache" / f"{hash(tuple(what))}.json")
    yield tmp_path / "lstm.yaml"


def tuned(path: Path, only: str = ":chain", batch: int | None = None, whole: bool = True) -> TuneResult:
    wishes = Wishes(1, parsed(only), batch=batch, whole=whole)
    return tune_model(path, Options(target="cuda"), timer=timed, wishes=wishes)


def test_ways_are_measured_and_locked(lstm: Path) -> None:
    """Whatever the estimate says: the fake GPU runs launch by launch faster."""
    result = tuned(lstm, batch=32)
    assert result.contractions == ()
    assert {f.way for f in result.layers} == {"launches"}
    assert {f.path.partition("/")[0] for f in result.layers} == {"train", "eval", "predict@32"}
    (section,) = json.loads(lstm.with_suffix(".lock").read_text())["devices"].values()
    entry = section["contractions"]["train/lstm_1.last.chain"]
    assert entry["strategy"] == "launches"
    assert set(entry["microseconds"]) == {"chain", "cluster", "launches"}
    text = lstm.with_suffix(".lock").read_text()
    tuned(lstm, batch=32)
    assert lstm.with_suffix(".lock").read_text() == text
    with pytest.raises(RunError, match="no contraction"):
        tuned(lstm, whole=False)
    assert lstm.with_suffix(".lock").read_text() == text
    prepared = prepare(lstm, Options(target="cuda"), Times())
    assert prepared.warnings == ()
    assert not any(c.pays for p in prepared.lowered.merged.phases for c in p.chains)
    other = prepare(lstm, Options(target="cuda", set={"units": "40"}), Times())
    assert [w.code for w in other.warnings] == ["W0004"]
    assert "`eval/lstm_1.last.chain`" in other.warnings[0].message


def test_check_names_ways_that_are_missing(lstm: Path) -> None:
    tuned(lstm)
    options, wishes = Options(target="cuda"), Wishes(only=parsed(":chain"))
    assert check_lock(lstm, options, wishes) == ()
    whole = json.loads(lstm.with_suffix(".lock").read_text())
    (section,) = whole["devices"].values()
    del section["contractions"]["train/lstm_1.last.chain"]
    lstm.with_suffix(".lock").write_text(json.dumps(whole))
    (found,) = check_lock(lstm, options, wishes)
    assert "has nothing for `train/lstm_1.last.chain`" in found.message


def test_the_command_shows_them(lstm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "tune_model", lambda *_, **__: tuned(lstm))
    shown = CliRunner().invoke(app, ["tune", str(lstm), "--target", "cuda", "--report"])
    assert shown.exit_code == 0, shown.output
    assert "train/lstm_1.last.chain: launches; a step of" in shown.stdout
    assert "in one way: " in shown.stdout
    assert "elementwise" in shown.stdout
